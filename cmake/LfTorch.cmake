# lf::torch: LibTorch from the wheel, below torch/torch.h (ATen, autograd, the dispatcher, c10d).
# find_package(Torch) is not used: it demands a CUDA toolkit. Only torch_cpu and c10 are linked.
set(_torch ${LF_SITE}/torch)
if(NOT EXISTS ${_torch}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "${_torch}/lib/libtorch_cpu.so is missing: run tools/setup.sh first")
endif()
file(STRINGS ${_torch}/version.py _line REGEX "^__version__ = ")
string(REGEX REPLACE ".*'(.*)'.*" "\\1" LF_TORCH_BUILD "${_line}")
message(STATUS "LibTorch ${LF_TORCH_BUILD} in ${_torch}")

add_library(lf_torch INTERFACE)
add_library(lf::torch ALIAS lf_torch)
# -idirafter: the wheel carries an fmt and a protobuf of its own, which must not hide the system's.
target_compile_options(lf_torch INTERFACE "SHELL:-idirafter ${_torch}/include"
                       "SHELL:-idirafter ${_torch}/include/torch/csrc/api/include" -Wno-unknown-pragmas)
target_compile_definitions(lf_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO LF_TORCH_BUILD="${LF_TORCH_BUILD}")
target_link_libraries(lf_torch INTERFACE ${_torch}/lib/libtorch_cpu.so ${_torch}/lib/libc10.so)
target_link_options(lf_torch INTERFACE -Wl,-rpath-link,${_torch}/lib:${LF_SITE}/nvidia/cu13/lib)

# One precompiled header for every file that sees LibTorch: 1.8 s a file instead of 7.
file(WRITE ${CMAKE_BINARY_DIR}/torch_pch.cpp.in "// holds the precompiled LibTorch headers\n")
configure_file(${CMAKE_BINARY_DIR}/torch_pch.cpp.in ${CMAKE_BINARY_DIR}/torch_pch.cpp COPYONLY)
add_library(lf_torch_pch OBJECT ${CMAKE_BINARY_DIR}/torch_pch.cpp)
target_link_libraries(lf_torch_pch PUBLIC lf::torch fmt::fmt)
target_precompile_headers(lf_torch_pch PRIVATE <ATen/ATen.h> <torch/csrc/autograd/autograd.h>
                          <torch/csrc/autograd/variable.h> <torch/csrc/autograd/custom_function.h>
                          <torch/csrc/autograd/generated/variable_factories.h>)
target_compile_options(lf_torch_pch PRIVATE -fpch-preprocess)

# lf_use_torch(TARGET): links LibTorch and shares the precompiled header.
function(lf_use_torch target)
  target_link_libraries(${target} PUBLIC lf::torch fmt::fmt)
  get_target_property(type ${target} TYPE)
  get_target_property(options ${target} COMPILE_OPTIONS)
  if(options MATCHES "-mneeded") # of lf_add_plugin; GCC takes no header that was compiled without it
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM lf_torch_pch)
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  if(type STREQUAL EXECUTABLE) # the header was compiled with -fPIC, and -fPIE would not fit it
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()
