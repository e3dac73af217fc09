# lf_conformance(TARGET [CASE FOLDER] [NAME NAME]): a test `conformance_NAME` (the target's name unless given) that runs
# the conformance kit on a plugin, as `lfrun plugins verify` does. Model plugins need a case: a folder with config.json and
# samples.jsonl (canonical samples, one a line), and where the family needs them tokenizer/ and options.json
# ([model.options] of a job).
function(lf_conformance target)
  cmake_parse_arguments(arg "" "CASE;NAME" "" ${ARGN})
  if(NOT arg_NAME)
    set(arg_NAME ${target})
  endif()
  set(case "")
  if(arg_CASE)
    set(case --case ${arg_CASE})
  endif()
  add_test(NAME conformance_${arg_NAME} COMMAND lf::conformance_kit ${case} $<TARGET_FILE:${target}>)
  set_tests_properties(conformance_${arg_NAME} PROPERTIES LABELS conformance TIMEOUT 300)
endfunction()
