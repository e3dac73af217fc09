# lf_conformance(TARGET [CASE FOLDER]): a test `conformance_TARGET` that runs the conformance kit on a plugin, as
# `lfrun plugins verify` does. Model plugins need a case: a folder with config.json and samples.jsonl (canonical samples,
# one a line), and tokenizer/ where the family needs one.
function(lf_conformance target)
  cmake_parse_arguments(arg "" "CASE" "" ${ARGN})
  set(case "")
  if(arg_CASE)
    set(case --case ${arg_CASE})
  endif()
  add_test(NAME conformance_${target} COMMAND lf::conformance_kit ${case} $<TARGET_FILE:${target}>)
  set_tests_properties(conformance_${target} PROPERTIES LABELS conformance TIMEOUT 300)
endfunction()
