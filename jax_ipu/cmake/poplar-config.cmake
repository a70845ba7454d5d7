# find_package(poplar) against the installed Python package, as projects for the SDK call it: the targets poplar and pva
# are libpjrt_ipu.so, which has PopLibs as well (poplibs-config.cmake). `jax-ipu poplar --cmake-dir` prints this folder,
# for CMAKE_PREFIX_PATH or poplar_DIR.
include("${CMAKE_CURRENT_LIST_DIR}/ipu_model-config.cmake")
if(DEFINED ipu_model_FOUND AND NOT ipu_model_FOUND)
  set(poplar_FOUND FALSE)
  set(poplar_NOT_FOUND_MESSAGE "${ipu_model_NOT_FOUND_MESSAGE}")
  return()
endif()
foreach(_name poplar pva)
  if(NOT TARGET ${_name})
    add_library(${_name} INTERFACE IMPORTED)
    set_target_properties(${_name} PROPERTIES INTERFACE_LINK_LIBRARIES ipu_model::poplar)
  endif()
endforeach()
set(poplar_INCLUDE_DIRS "${_include}")
set(POPLAR_VERSION 3.4.0)
