# lf_add_module(NAME SOURCES ... DEPENDS ... [TORCH]): a folder of runtime/ as a static library lf::NAME whose headers are
# included as "NAME/file.h". DEPENDS is the layer graph, written down.
function(lf_add_module name)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(lf_${name} STATIC ${arg_SOURCES})
  add_library(lf::${name} ALIAS lf_${name})
  target_include_directories(lf_${name} PUBLIC ${CMAKE_SOURCE_DIR}/runtime)
  target_link_libraries(lf_${name} PUBLIC ${arg_DEPENDS} fmt::fmt Threads::Threads)
  if(arg_TORCH)
    lf_use_torch(lf_${name})
  endif()
endfunction()

# lf_add_test(NAME SOURCES ... LINK ... [TORCH] [LABELS ...] [TIMEOUT s]): one GoogleTest program, each test its own ctest.
function(lf_add_test name)
  cmake_parse_arguments(arg "TORCH" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE LF_SOURCE_DIR="${CMAKE_SOURCE_DIR}" LF_BUILD_DIR="${CMAKE_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_LINK} GTest::gmock GTest::gtest GTest::gtest_main)
  if(arg_TORCH)
    lf_use_torch(${name})
  else() # a third less to compile; what is tested comes from libraries, compiled as they are shipped
    target_compile_options(${name} PRIVATE -O1)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(LF_SANITIZE) # three times as slow, and more where much is allocated
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  include(GoogleTest)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()
