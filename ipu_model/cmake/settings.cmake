# What every C++ target of the model and of the plugin is built with.
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Assertions stay on: a broken invariant must stop, not corrupt a result.
string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

# Clones on one machine share what they compile: paths below the sources are relative to the cache, the folder of the build
# is no part of a key.
find_program(ccache ccache)
if(ccache AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER AND NOT DEFINED ENV{CMAKE_CXX_COMPILER_LAUNCHER})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${ccache})
endif()

option(JAX_IPU_BUILD_TESTS "Build the C++ tests" OFF)
option(JAX_IPU_JOIN_TESTS "Link the C++ tests of a library into one file: a sanitized program has a hundred megabytes" OFF)
option(IPU_MODEL_AVX512 "Compile the kernels for AVX-512 too, not for AVX2 only" ON)
set(JAX_IPU_SANITIZE "" CACHE STRING "Sanitizers for every target, e.g. address,undefined or thread")
set(JAX_IPU_SANITIZE_WITHOUT "" CACHE STRING "What these sanitizers do not check, e.g. null,alignment")

find_package(Threads REQUIRED)

add_library(jax_ipu_options INTERFACE)
target_compile_options(jax_ipu_options INTERFACE -Wall -Wextra -Werror)
if(NOT IPU_MODEL_AVX512)
  # What refers to the functions of the namespace avx512 links; HasAvx512 says that they are not in use.
  target_compile_definitions(jax_ipu_options INTERFACE IPU_MODEL_WITHOUT_AVX512 avx512=avx2)
endif()
if(JAX_IPU_SANITIZE)
  # Without -g: a report names functions, and lines take a tenth of the time to compile.
  target_compile_options(jax_ipu_options INTERFACE -fsanitize=${JAX_IPU_SANITIZE} -fno-omit-frame-pointer
                                                   -fno-sanitize-recover=all)
  if(JAX_IPU_SANITIZE_WITHOUT)
    target_compile_options(jax_ipu_options INTERFACE -fno-sanitize=${JAX_IPU_SANITIZE_WITHOUT})
  endif()
  target_link_options(jax_ipu_options INTERFACE -fsanitize=${JAX_IPU_SANITIZE})
endif()

if(JAX_IPU_BUILD_TESTS)
  enable_testing()
  # jax_ipu_test(SOURCE LIBRARY): a test named after its path in its package, e.g. kernels_window_window_test. The target that
  # compiles it is ${test_target}: one of its own, or LIBRARY_tests, whose file has a name for each test in it.
  macro(jax_ipu_test source library)
    file(RELATIVE_PATH test_name ${CMAKE_CURRENT_SOURCE_DIR} ${source})
    string(REGEX REPLACE "\\.cc$" "" test_name ${test_name})
    string(REPLACE "/" "_" test_name ${test_name})
    set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS IPU_CHECK_PROGRAM="${test_name}")
    file(STRINGS ${source} own_main REGEX "^int main\\(")
    if(JAX_IPU_JOIN_TESTS AND NOT own_main)
      set(test_target ${library}_tests)
      file(CREATE_LINK ${test_target} ${CMAKE_BINARY_DIR}/${test_name} SYMBOLIC)
    else()
      set(test_target ${test_name})
    endif()
    if(TARGET ${test_target})
      target_sources(${test_target} PRIVATE ${source})
    else()
      add_executable(${test_target} ${source})
      set_target_properties(${test_target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
      target_link_libraries(${test_target} PRIVATE ${library} ipu_check)
      # Compiling a test takes longer than running it.
      target_compile_options(${test_target} PRIVATE -Og)
    endif()
    add_test(NAME ${test_name} COMMAND ${CMAKE_BINARY_DIR}/${test_name})
    # By default, sanitizers end the process where an allocation that is too large would return null, and a tenth of the
    # time goes into stacks of allocations with 30 calls.
    set_tests_properties(${test_name} PROPERTIES ENVIRONMENT
                         "ASAN_OPTIONS=allocator_may_return_null=1:malloc_context_size=8;TSAN_OPTIONS=allocator_may_return_null=1")
  endmacro()
endif()
