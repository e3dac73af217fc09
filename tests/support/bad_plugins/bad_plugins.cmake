# One good plugin and its bad sisters, each wrong in one way that plugin.cpp names. Tests copy them to where they need them.
include_guard(GLOBAL)
set(LF_TEST_PLUGIN_DIR ${CMAKE_BINARY_DIR}/test_plugins)
add_custom_target(bad_plugins)

function(add_bad_plugin name)
  cmake_parse_arguments(arg "" "FOLDER" "DEFINE;LINK_OPTIONS" ${ARGN})
  if(NOT arg_FOLDER)
    set(arg_FOLDER ${LF_TEST_PLUGIN_DIR})
  endif()
  set(target test_plugin_${name})
  add_library(${target} MODULE ${CMAKE_SOURCE_DIR}/tests/support/bad_plugins/plugin.cpp)
  target_link_libraries(${target} PRIVATE lf::plugin_sdk)
  target_compile_definitions(${target} PRIVATE ${arg_DEFINE})
  set_target_properties(${target} PROPERTIES PREFIX "" SUFFIX ".lfplugin.so" OUTPUT_NAME ${name}
                        LIBRARY_OUTPUT_DIRECTORY ${arg_FOLDER})
  target_link_options(${target} PRIVATE -Wl,--version-script=${LF_PLUGIN_CMAKE_DIR}/one_symbol.map -Wl,--exclude-libs,ALL
                      ${arg_LINK_OPTIONS})
  add_dependencies(bad_plugins ${target})
endfunction()

add_bad_plugin(good_00)
add_bad_plugin(other_abi DEFINE LF_TEST_ABI="9.4")
add_bad_plugin(other_torch DEFINE LF_TEST_TORCH="1.2.3+cu999")
# The same C++ library with its strings of before C++11, and the plugin that may be so since no LibTorch is in it.
add_bad_plugin(other_strings DEFINE LF_TEST_TORCH="2.11.0+cu130" _GLIBCXX_USE_CXX11_ABI=0)
add_bad_plugin(own_strings DEFINE _GLIBCXX_USE_CXX11_ABI=0)
add_bad_plugin(requires_more DEFINE LF_TEST_REQUIRES="lf.telepathy/1")
add_bad_plugin(part_anywhere DEFINE LF_TEST_PARTS="/tmp/*.so")
add_bad_plugin(no_manifest DEFINE LF_TEST_NO_MANIFEST)
add_bad_plugin(wrong_magic DEFINE LF_TEST_MAGIC=0xBADBADu)
add_bad_plugin(wrong_kind DEFINE LF_TEST_KIND=LF_KIND_MODEL)
add_bad_plugin(wrong_id DEFINE LF_TEST_DESCRIPTOR_ID="somebody_else")
add_bad_plugin(no_interface DEFINE LF_TEST_NO_INTERFACE)
add_bad_plugin(no_entry DEFINE LF_TEST_NO_ENTRY)
add_bad_plugin(null_entry DEFINE LF_TEST_IN_ENTRY=return\ nullptr)
add_bad_plugin(missing_symbol DEFINE LF_TEST_IN_ENTRY=lf_test_nobody_defines_this\(\))
add_bad_plugin(throws_in_entry DEFINE LF_TEST_IN_ENTRY=throw\ std::runtime_error\("no\ luck\\ntoday"\))
add_bad_plugin(crashes_in_entry DEFINE LF_TEST_IN_ENTRY=crash\(\))
add_bad_plugin(hangs_in_entry DEFINE LF_TEST_IN_ENTRY=hang\(\))
add_bad_plugin(crashes_in_constructor DEFINE LF_TEST_IN_CONSTRUCTOR=crash\(\))
add_bad_plugin(exits_in_constructor DEFINE LF_TEST_IN_CONSTRUCTOR=_exit\(0\))
add_bad_plugin(throws_in_constructor DEFINE LF_TEST_IN_CONSTRUCTOR=throw\ std::runtime_error\("no\ luck"\))
add_bad_plugin(hangs_in_constructor DEFINE LF_TEST_IN_CONSTRUCTOR=hang\(\))
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU") # which alone notes it
  add_bad_plugin(needs_v4)
  target_compile_options(test_plugin_needs_v4 PRIVATE -march=x86-64-v4 -mneeded)
endif()
add_bad_plugin(start_fails DEFINE LF_TEST_START_FAILS)
add_bad_plugin(relative_runpath LINK_OPTIONS -Wl,--enable-new-dtags -Wl,-rpath,libraries)
add_bad_plugin(relative_rpath LINK_OPTIONS -Wl,--disable-new-dtags -Wl,-rpath,/good::)
# What follows stands behind more than any message shows.
string(REPEAT "a" 420 LF_TEST_LONG)
add_bad_plugin(late_relative_runpath LINK_OPTIONS -Wl,--enable-new-dtags -Wl,-rpath,/${LF_TEST_LONG}:relative)
add_bad_plugin(like_origin_runpath LINK_OPTIONS -Wl,--enable-new-dtags)
set_target_properties(test_plugin_like_origin_runpath PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "\$ORIGINAL/libraries")
add_library(test_long_name SHARED ${CMAKE_SOURCE_DIR}/tests/support/bad_plugins/vendor.cpp)
set_target_properties(test_long_name PROPERTIES NO_SONAME ON LIBRARY_OUTPUT_DIRECTORY ${LF_TEST_PLUGIN_DIR}/long_name)
target_link_options(test_long_name PRIVATE -Wl,-soname,${LF_TEST_LONG}/liblong.so)
add_bad_plugin(needs_late_path DEFINE LF_TEST_IN_ENTRY=lf_test_vendor_call\(\))
target_link_libraries(test_plugin_needs_late_path PRIVATE test_long_name)
# A filter: loading it loads the library that is named.
add_bad_plugin(filters_relative LINK_OPTIONS -Wl,--filter,folder/libother.so)
# Libraries of one vendor's name in two folders, and plugins that are linked against either; and one that is gone.
foreach(home a b)
  add_library(test_vendor_${home} SHARED ${CMAKE_SOURCE_DIR}/tests/support/bad_plugins/vendor.cpp)
  set_target_properties(test_vendor_${home} PROPERTIES OUTPUT_NAME bkcl
                        LIBRARY_OUTPUT_DIRECTORY ${LF_TEST_PLUGIN_DIR}/vendor_${home})
  add_bad_plugin(needs_vendor_${home} DEFINE LF_TEST_IN_ENTRY=lf_test_vendor_call\(\))
  target_link_libraries(test_plugin_needs_vendor_${home} PRIVATE test_vendor_${home})
  set_target_properties(test_plugin_needs_vendor_${home} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "\$ORIGIN/vendor_${home}")
endforeach()
foreach(device needs_vendor_late device_vendored) # both by vendor_a
  add_bad_plugin(${device} DEFINE LF_TEST_IN_ENTRY=lf_test_vendor_call\(\) LF_TEST_KIND_WORD="device" LF_TEST_KIND=LF_KIND_DEVICE
                 LF_TEST_INTERFACE="lf.device/1" LF_TEST_ID="vendored" LF_TEST_DEVICES=1 LF_TEST_DEVICE_UID=0)
  target_link_libraries(test_plugin_${device} PRIVATE test_vendor_a)
endforeach()
set_target_properties(test_plugin_needs_vendor_late PROPERTIES BUILD_WITH_INSTALL_RPATH ON
                      INSTALL_RPATH "/${LF_TEST_LONG};\$ORIGIN/vendor_a")
set_target_properties(test_plugin_device_vendored PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "\$ORIGIN/vendor_a")
# Something that calls itself LibTorch, needed by one whose manifest says "none".
add_library(test_torch SHARED ${CMAKE_SOURCE_DIR}/tests/support/bad_plugins/vendor.cpp)
set_target_properties(test_torch PROPERTIES OUTPUT_NAME torch_cpu LIBRARY_OUTPUT_DIRECTORY ${LF_TEST_PLUGIN_DIR}/torch)
add_bad_plugin(hides_torch DEFINE LF_TEST_IN_ENTRY=lf_test_vendor_call\(\))
target_link_libraries(test_plugin_hides_torch PRIVATE test_torch)
if(NOT LF_SANITIZE) # which brings its own C++ runtime
  add_bad_plugin(throws_static DEFINE LF_TEST_IN_ENTRY=throw\ std::runtime_error\("no\ luck"\) LINK_OPTIONS -static-libstdc++
                 -static-libgcc)
endif()

# Devices to choose among: by id, with so many of a uid; 0 is the host's own memory.
foreach(device "cpu 1 0" "house 1 0" "cards 2 7" "others 1 8" "empty 0 0")
  separate_arguments(device)
  list(GET device 0 id)
  list(GET device 1 count)
  list(GET device 2 uid)
  add_bad_plugin(device_${id} DEFINE LF_TEST_KIND_WORD="device" LF_TEST_KIND=LF_KIND_DEVICE LF_TEST_INTERFACE="lf.device/1"
                 LF_TEST_ID="${id}" LF_TEST_DEVICES=${count} LF_TEST_DEVICE_UID=${uid})
endforeach()
add_bad_plugin(device_crashes DEFINE LF_TEST_KIND_WORD="device" LF_TEST_KIND=LF_KIND_DEVICE LF_TEST_INTERFACE="lf.device/1"
               LF_TEST_ID="crashes" LF_TEST_DEVICES=1 LF_TEST_IN_PROBE=crash\(\))
add_bad_plugin(device_broken DEFINE LF_TEST_KIND_WORD="device" LF_TEST_KIND=LF_KIND_DEVICE LF_TEST_INTERFACE="lf.device/1"
               LF_TEST_ID="broken" LF_TEST_DEVICES=1 LF_TEST_IN_CONSTRUCTOR=crash\(\))
add_bad_plugin(device_lacks DEFINE LF_TEST_KIND_WORD="device" LF_TEST_KIND=LF_KIND_DEVICE LF_TEST_INTERFACE="lf.device/1"
               LF_TEST_ID="lacks" LF_TEST_DEVICES=1 LF_TEST_LACKS)
add_bad_plugin(device_hangs DEFINE LF_TEST_KIND_WORD="device" LF_TEST_KIND=LF_KIND_DEVICE LF_TEST_INTERFACE="lf.device/1"
               LF_TEST_ID="hangs" LF_TEST_DEVICES=1 LF_TEST_IN_PROBE=hang\(\))

# A device, a model and a balancer that can be found, probed and loaded, and do nothing: for tests of the launcher.
foreach(plugin "device cpu lf.device/1 LF_KIND_DEVICE" "model toy lf.model/1 LF_KIND_MODEL"
        "balancer minimax lf.balancer/1 LF_KIND_BALANCER")
  separate_arguments(plugin)
  list(GET plugin 0 kind)
  list(GET plugin 1 id)
  list(GET plugin 2 interface)
  list(GET plugin 3 number)
  add_bad_plugin(idle_${kind} FOLDER ${CMAKE_BINARY_DIR}/test_plugins_idle
                 DEFINE LF_TEST_KIND_WORD="${kind}" LF_TEST_ID="${id}" LF_TEST_INTERFACE="${interface}" LF_TEST_KIND=${number}
                        $<$<STREQUAL:${kind},device>:LF_TEST_DEVICES=1>)
endforeach()
