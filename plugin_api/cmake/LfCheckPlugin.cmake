# cmake -D FILE=NAME.lfplugin.so -D READELF=readelf -P LfCheckPlugin.cmake: whether a freshly linked file can be taken
# as a plugin; fails the build with the reason. `lfrun plugins inspect` says more, `lfrun plugins verify` tries it.
function(refuse)
  string(CONCAT text ${ARGN})
  file(REMOVE "${FILE}") # so that a second build does not pass
  message(FATAL_ERROR "${FILE}: ${text}")
endfunction()

function(read out)
  execute_process(COMMAND ${READELF} ${ARGN} ${FILE} OUTPUT_VARIABLE text ERROR_VARIABLE errors RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    refuse("readelf ${ARGN} failed: ${errors}")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# One symbol out: others could be taken for another library's.
read(symbols --dyn-syms -W)
string(REGEX MATCHALL "(GLOBAL|WEAK|UNIQUE)[ \t]+(DEFAULT|PROTECTED)[ \t]+[0-9]+[ \t]+[^ \t\r\n]+" exported "${symbols}")
list(TRANSFORM exported REPLACE ".*[ \t]" "")
if(NOT exported STREQUAL "lf_plugin_entry")
  list(JOIN exported ", " exported)
  if(NOT exported)
    set(exported "none")
  endif()
  refuse("expected one exported symbol, lf_plugin_entry, got: ${exported}; link with lf_add_plugin, and mark nothing "
         "else as visible")
endif()

# A missing symbol must show when the file is opened, not in the middle of training.
read(dynamic -d -W)
if(NOT dynamic MATCHES "BIND_NOW|FLAGS_1.*NOW")
  refuse("expected all symbols bound at load (-Wl,-z,now), got lazy binding")
endif()
string(REGEX MATCHALL "\\((RPATH|RUNPATH)\\)[^\n]*" paths "${dynamic}")
foreach(line ${paths})
  string(REGEX REPLACE ".*\\[(.*)\\].*" "\\1" entries "${line}")
  string(REPLACE ":" ";" entries "${entries}")
  foreach(entry ${entries})
    if(NOT entry MATCHES "^(/|\\$ORIGIN|\\$\\{ORIGIN\\})")
      refuse("expected search paths that are absolute or begin with $ORIGIN, got \"${entry}\", which would be searched "
             "for in whatever folder lfrun runs")
    endif()
  endforeach()
endforeach()

# The manifest is read without running the file.
read(note -p .note.lfplugin)
string(REGEX MATCH "{.*}" manifest "${note}")
string(JSON abi ERROR_VARIABLE wrong GET "${manifest}" abi)
foreach(field kind id version torch interfaces)
  if(NOT wrong)
    string(JSON value ERROR_VARIABLE wrong GET "${manifest}" ${field})
  endif()
endforeach()
if(wrong)
  refuse("expected a manifest with abi, kind, id, version, interfaces and torch (LF_PLUGIN_MANIFEST in "
         "lf/plugin_api/entry.h), got \"${manifest}\": ${wrong}")
endif()
