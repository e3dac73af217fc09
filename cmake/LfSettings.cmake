# Compiler settings that hold for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib" "${CMAKE_SOURCE_DIR}/.deps/site/torch/lib")
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON) # otherwise CMake pads paths with ":", and an empty path is the working directory
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Assertions stay on: they are cheap here, and silence is not.
if(LF_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")
else()
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
endif()

add_compile_options(-Wall -Wextra)
if(LF_WARNINGS_AS_ERRORS)
  add_compile_options(-Werror)
endif()
if(CMAKE_UNITY_BUILD) # where a file is never the main one, and its own types look like a header's
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()
if(LF_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
  # What the sanitizers insert makes GCC 12 see uninitialised values in <regex>; the dev preset keeps the warning.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
endif()

if(LF_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "LF_BUILD_FUZZERS needs clang: CC=clang CXX=clang++ cmake ...")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(LF_CCACHE ccache)
if(LF_CCACHE)
  # Paths below the source folder count as relative, so that a fresh clone finds what another one has compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${LF_CCACHE})
endif()
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(PkgConfig REQUIRED)
