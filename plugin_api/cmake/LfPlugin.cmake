# lf_add_plugin(NAME SOURCES ... [LINK ...]): a plugin NAME.lfplugin.so with hidden symbols and the one exported entry.
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
  target_link_options(${name} PRIVATE -Wl,--version-script=${LF_PLUGIN_CMAKE_DIR}/one_symbol.map -Wl,-z,now
                      -Wl,--exclude-libs,ALL $<$<NOT:$<BOOL:${LF_SANITIZE}>>:-Wl,-z,defs>)
endfunction()
