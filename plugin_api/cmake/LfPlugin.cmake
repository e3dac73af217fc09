# lf_add_plugin(NAME SOURCES ... [LINK ...]): a plugin NAME.lfplugin.so with hidden symbols, the one exported entry and
# all symbols bound at load; what came out is checked after the link (LfCheckPlugin.cmake).
set(LF_PLUGIN_CMAKE_DIR ${CMAKE_CURRENT_LIST_DIR})
if(NOT LF_PLUGIN_OUTPUT_DIR)
  set(LF_PLUGIN_OUTPUT_DIR ${CMAKE_BINARY_DIR}/plugins)
endif()

function(lf_add_plugin name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} MODULE ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE lf::plugin_sdk ${arg_LINK})
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".lfplugin.so" OUTPUT_NAME ${name}
                        LIBRARY_OUTPUT_DIRECTORY ${LF_PLUGIN_OUTPUT_DIR} CXX_VISIBILITY_PRESET hidden
                        C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON
                        LINK_DEPENDS ${LF_PLUGIN_CMAKE_DIR}/one_symbol.map)
  # The linker then notes which level of x86-64 was compiled for, and an older processor refuses the file.
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:C,GNU>:-mneeded> $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-mneeded>)
  endif()
  target_link_options(${name} PRIVATE -Wl,--version-script=${LF_PLUGIN_CMAKE_DIR}/one_symbol.map -Wl,-z,now
                      -Wl,--exclude-libs,ALL $<$<NOT:$<BOOL:${LF_SANITIZE}>>:-Wl,-z,defs>)
  add_custom_command(TARGET ${name} POST_BUILD VERBATIM
                     COMMAND ${CMAKE_COMMAND} -D FILE=$<TARGET_FILE:${name}> -D READELF=${CMAKE_READELF}
                             -P ${LF_PLUGIN_CMAKE_DIR}/LfCheckPlugin.cmake)
endfunction()

set(LFRUN_TORCH "" CACHE PATH "The torch folder of the LibTorch wheel that lfrun was built with")
# lf_plugin_use_torch(TARGET): links the LibTorch in LFRUN_TORCH (the "torch" folder of a wheel) and defines
# LF_TORCH_BUILD for the manifest. Such a plugin loads only into an lfrun of that very build.
function(lf_plugin_use_torch target)
  if(NOT EXISTS ${LFRUN_TORCH}/lib/libtorch_cpu.so)
    message(FATAL_ERROR "LFRUN_TORCH: expected the torch folder of a wheel with lib/libtorch_cpu.so in it, got "
                        "\"${LFRUN_TORCH}\"; lfrun's own is .deps/site/torch of its source folder")
  endif()
  file(STRINGS ${LFRUN_TORCH}/version.py line REGEX "^__version__ = ")
  string(REGEX REPLACE ".*'(.*)'.*" "\\1" build "${line}")
  # -idirafter: the wheel carries libraries of its own, which must not hide the system's.
  target_compile_options(${target} PRIVATE "SHELL:-idirafter ${LFRUN_TORCH}/include"
                         "SHELL:-idirafter ${LFRUN_TORCH}/include/torch/csrc/api/include" -Wno-unknown-pragmas)
  target_compile_definitions(${target} PRIVATE LF_TORCH_BUILD="${build}")
  target_link_libraries(${target} PRIVATE ${LFRUN_TORCH}/lib/libtorch_cpu.so ${LFRUN_TORCH}/lib/libc10.so)
  get_filename_component(site ${LFRUN_TORCH} DIRECTORY)
  target_link_options(${target} PRIVATE -Wl,-rpath-link,${LFRUN_TORCH}/lib:${site}/nvidia/cu13/lib)
endfunction()
