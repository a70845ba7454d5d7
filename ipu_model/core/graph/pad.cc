#include "popops/Pad.hpp"

#include <algorithm>
#include <functional>
#include <string>

#include "poplar/exceptions.hpp"

namespace popops {
namespace {

using padding::MappingMethod;
using poplar::Graph;
using poplar::Tensor;

// `count` elements to put before or behind `t` along `dim`.
using Border = std::function<Tensor(const Tensor& t, std::size_t count, unsigned dim, bool before)>;

Tensor PadAlong(const Tensor& t, std::ptrdiff_t lower, std::ptrdiff_t upper, unsigned dim,
                const Border& border) {
  if (dim >= t.rank())
    throw poplar::poplar_error("pad: there is no dimension " + std::to_string(dim) + "; the tensor has " +
                               std::to_string(t.rank()));
  const auto size = static_cast<std::ptrdiff_t>(t.dim(dim));
  const std::ptrdiff_t begin = std::max<std::ptrdiff_t>(0, -lower),
                       end = size - std::max<std::ptrdiff_t>(0, -upper);
  if (begin > end) {
    throw poplar::poplar_error("pad: " + std::to_string(begin) + " and " + std::to_string(size - end) +
                               " elements cannot be taken away from the " + std::to_string(size) +
                               " of dimension " + std::to_string(dim));
  }
  const Tensor kept = t.slice(static_cast<std::size_t>(begin), static_cast<std::size_t>(end), dim);
  std::vector<Tensor> parts;
  if (lower > 0) parts.push_back(border(kept, static_cast<std::size_t>(lower), dim, true));
  parts.push_back(kept);
  if (upper > 0) parts.push_back(border(kept, static_cast<std::size_t>(upper), dim, false));
  return poplar::concat(parts, dim);
}

Tensor PadAll(Tensor t, const std::vector<std::ptrdiff_t>& lower, const std::vector<std::ptrdiff_t>& upper,
              const Border& border) {
  if (lower.size() != t.rank() || upper.size() != t.rank()) {
    throw poplar::poplar_error("pad: there are " + std::to_string(lower.size()) + " and " +
                               std::to_string(upper.size()) + " numbers for a tensor of " +
                               std::to_string(t.rank()) + " dimensions");
  }
  for (unsigned d = 0; d < t.rank(); ++d) t = PadAlong(t, lower[d], upper[d], d, border);
  return t;
}

// Elements `from` of `t` along `dim`, in that order.
Tensor Selected(const Tensor& t, const std::vector<std::size_t>& from, unsigned dim) {
  std::vector<Tensor> parts;
  for (const std::size_t i : from) parts.push_back(t.slice(i, i + 1, dim));
  return poplar::concat(parts, dim);
}

Border ElementsOf(padding::Type type) {
  return [type](const Tensor& t, std::size_t count, unsigned dim, bool before) {
    const std::size_t size = t.dim(dim);
    const bool reflects = type == padding::Type::REFLECT;
    if (size <= (reflects ? count : 0)) {
      throw poplar::poplar_error("pad: " + std::to_string(count) + " elements need more than the " +
                                 std::to_string(size) + " of dimension " + std::to_string(dim));
    }
    std::vector<std::size_t> from;
    for (std::size_t i = 0; i < count; ++i) {
      if (reflects) {
        from.push_back(before ? count - i : size - 2 - i);
      } else {
        from.push_back(before ? 0 : size - 1);
      }
    }
    return Selected(t, from, dim);
  };
}

template <typename T>
Border Constants(Graph& graph, T value, MappingMethod method) {
  return [&graph, value, method](const Tensor& t, std::size_t count, unsigned dim, bool before) {
    std::vector<std::size_t> shape = t.shape();
    shape[dim] = count;
    const Tensor constant = graph.addConstant(t.elementType(), shape, value);
    if (method == MappingMethod::ZERO) graph.setTileMapping(constant, 0);
    if (method == MappingMethod::EDGE) {
      const Tensor nearest = ElementsOf(padding::Type::EDGE)(t, count, dim, before);
      const Graph::TileToTensorMapping mapping = graph.getTileMapping(nearest);
      const Tensor elements = constant.flatten();
      for (unsigned tile = 0; tile < mapping.size(); ++tile)
        for (const poplar::Interval& interval : mapping[tile])
          graph.setTileMapping(elements.slice(interval), tile);
    }
    return constant;
  };
}

}  // namespace

Tensor pad(Graph& graph, const Tensor& t, const std::vector<std::ptrdiff_t>& paddingLower,
           const std::vector<std::ptrdiff_t>& paddingUpper, float val, MappingMethod mappingMethod) {
  return PadAll(t, paddingLower, paddingUpper, Constants(graph, val, mappingMethod));
}
Tensor pad(Graph& graph, const Tensor& t, const std::vector<std::ptrdiff_t>& paddingLower,
           const std::vector<std::ptrdiff_t>& paddingUpper, int val, MappingMethod mappingMethod) {
  return PadAll(t, paddingLower, paddingUpper, Constants(graph, val, mappingMethod));
}
Tensor pad(Graph& graph, const Tensor& t, std::ptrdiff_t paddingLower, std::ptrdiff_t paddingUpper,
           unsigned dim, float val, MappingMethod mappingMethod) {
  return PadAlong(t, paddingLower, paddingUpper, dim, Constants(graph, val, mappingMethod));
}
Tensor pad(Graph& graph, const Tensor& t, std::ptrdiff_t paddingLower, std::ptrdiff_t paddingUpper,
           unsigned dim, int val, MappingMethod mappingMethod) {
  return PadAlong(t, paddingLower, paddingUpper, dim, Constants(graph, val, mappingMethod));
}

Tensor pad(const Tensor& t, const std::vector<std::ptrdiff_t>& paddingLower,
           const std::vector<std::ptrdiff_t>& paddingUpper, padding::Type type) {
  return PadAll(t, paddingLower, paddingUpper, ElementsOf(type));
}
Tensor pad(const Tensor& t, std::ptrdiff_t paddingLower, std::ptrdiff_t paddingUpper, unsigned dim,
           padding::Type type) {
  return PadAlong(t, paddingLower, paddingUpper, dim, ElementsOf(type));
}

}  // namespace popops
