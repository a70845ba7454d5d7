# find_package(poplibs) against the installed Python package: the targets poputil, popops, poplin, popnn, popfloat and gcl, with the
# functions that the model has of them. Graphcore's own PopLibs is built by tools/build_poplibs.
include("${CMAKE_CURRENT_LIST_DIR}/poplar-config.cmake")
if(DEFINED poplar_FOUND AND NOT poplar_FOUND)
  set(poplibs_FOUND FALSE)
  set(poplibs_NOT_FOUND_MESSAGE "${poplar_NOT_FOUND_MESSAGE}")
  return()
endif()
foreach(_name poputil popops poplin popnn popfloat gcl)
  if(NOT TARGET ${_name})
    add_library(${_name} INTERFACE IMPORTED)
    set_target_properties(${_name} PROPERTIES INTERFACE_LINK_LIBRARIES ipu_model::poplar)
  endif()
endforeach()
