// Padding. Source: PopLibs, include/popops/Pad.hpp.
#ifndef POPOPS_PAD_HPP
#define POPOPS_PAD_HPP

#include <cstddef>
#include <vector>

#include "poplar/Graph.hpp"

namespace popops {
namespace padding {

enum class Type {
  EDGE,     // the nearest element
  REFLECT,  // the elements behind the edge in opposite order, without the edge
};

// Where constants that pad are mapped.
enum class MappingMethod {
  NONE,
  ZERO,  // on tile 0
  EDGE,  // with the nearest element
};

}  // namespace padding

// `t` with elements before and behind it along each dimension, or along `dim`. A negative number of elements
// takes elements away. Throws poplar_error for numbers that do not fit the shape.
poplar::Tensor pad(poplar::Graph& graph, const poplar::Tensor& t,
                   const std::vector<std::ptrdiff_t>& paddingLower,
                   const std::vector<std::ptrdiff_t>& paddingUpper, float val = 0.0f,
                   padding::MappingMethod mappingMethod = padding::MappingMethod::ZERO);
poplar::Tensor pad(poplar::Graph& graph, const poplar::Tensor& t,
                   const std::vector<std::ptrdiff_t>& paddingLower,
                   const std::vector<std::ptrdiff_t>& paddingUpper, int val,
                   padding::MappingMethod mappingMethod = padding::MappingMethod::ZERO);
poplar::Tensor pad(poplar::Graph& graph, const poplar::Tensor& t, std::ptrdiff_t paddingLower,
                   std::ptrdiff_t paddingUpper, unsigned dim, float val = 0.0f,
                   padding::MappingMethod mappingMethod = padding::MappingMethod::ZERO);
poplar::Tensor pad(poplar::Graph& graph, const poplar::Tensor& t, std::ptrdiff_t paddingLower,
                   std::ptrdiff_t paddingUpper, unsigned dim, int val,
                   padding::MappingMethod mappingMethod = padding::MappingMethod::ZERO);

// A view: the elements that pad are those of `t`.
poplar::Tensor pad(const poplar::Tensor& t, const std::vector<std::ptrdiff_t>& paddingLower,
                   const std::vector<std::ptrdiff_t>& paddingUpper, padding::Type type);
poplar::Tensor pad(const poplar::Tensor& t, std::ptrdiff_t paddingLower, std::ptrdiff_t paddingUpper,
                   unsigned dim, padding::Type type);

}  // namespace popops

#endif  // POPOPS_PAD_HPP
