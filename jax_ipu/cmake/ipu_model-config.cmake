# find_package(ipu_model) against the installed Python package: the target ipu_model::poplar is Poplar, PopLibs and what
# they lack, in libpjrt_ipu.so. `jax-ipu poplar --cmake-dir` prints this folder, for ipu_model_DIR.
get_filename_component(_package "${CMAKE_CURRENT_LIST_DIR}/.." REALPATH)
set(_include "${_package}/include")
if(NOT EXISTS "${_include}/poplar/Engine.hpp") # a checkout, whose package is not installed
  set(_include "${_package}/../ipu_model/include")
endif()
set(_library "${_package}/libpjrt_ipu.so")
foreach(_needed "${_include}/poplar/Engine.hpp" "${_library}")
  if(NOT EXISTS "${_needed}")
    set(ipu_model_FOUND FALSE)
    set(ipu_model_NOT_FOUND_MESSAGE "${_needed} is missing: install jax_ipu again")
    return()
  endif()
endforeach()
if(NOT TARGET ipu_model::poplar)
  add_library(ipu_model::poplar SHARED IMPORTED)
  set_target_properties(ipu_model::poplar PROPERTIES
    IMPORTED_LOCATION "${_library}"
    INTERFACE_INCLUDE_DIRECTORIES "${_include}"
    INTERFACE_COMPILE_FEATURES cxx_std_17)
endif()
