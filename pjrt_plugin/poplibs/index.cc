// Python: slices at positions that are known at run time only, by popops. StableHLO clamps positions into the
// operand; popops does not, so they are clamped first.
//
//   gather(graph, operand, indices, offset_dims, collapsed, batching, index_map, index_vector_dim, wraps,
//   sizes, seq, name)
//     batching: pairs of a dimension of the operand and one of the indices
//     wraps: what is added to a negative index of each component; 0: nothing
//   dynamic_slice(graph, operand, starts, sizes, seq, name) -> Tensor
//   dynamic_update_slice(graph, operand, update, starts, seq, name)   writes into the operand
//     indices and starts are s32 or u32; a slice is smaller than its operand
#include <algorithm>
#include <numeric>
#include <popops/DynamicSlice.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Expr.hpp>
#include <popops/Gather.hpp>

#include "poplibs/bindings.h"

namespace jax_ipu::poplibs {
namespace {

namespace pe = popops::expr;

// Positions of one component in [0, limit], as popops takes them.
Tensor Clamped(Graph& graph, const Tensor& index, std::int64_t wrap, std::size_t limit, Sequence& sequence,
               const std::string& name) {
  if (index.elementType() == poplar::UNSIGNED_INT)
    return popops::map(graph, pe::Min(pe::_1, pe::Const(static_cast<unsigned>(limit))), {index}, sequence,
                       name);
  pe::Any position = pe::_1;
  if (wrap != 0)
    position =
        pe::Select(pe::Add(pe::_1, pe::Const(static_cast<int>(wrap))), pe::_1, pe::Lt(pe::_1, pe::Const(0)));
  const pe::Any inside = pe::Min(pe::Max(position, pe::Const(0)), pe::Const(static_cast<int>(limit)));
  return popops::map(graph, inside, {index}, sequence, name).reinterpret(poplar::UNSIGNED_INT);
}

Tensor Gather(Graph& graph, const Tensor& operand, const Tensor& indices, const Shape& offset_dims,
              Shape collapsed, const Batching& batching, std::vector<unsigned> index_map,
              std::size_t index_vector_dim, const std::vector<std::int64_t>& wraps, const Shape& sizes,
              Sequence& sequence, const std::string& name) {
  std::vector<Tensor> components =
      ComponentsOf(graph, indices, index_vector_dim, index_map.size(), batching, name);
  for (std::size_t c = 0; c < index_map.size(); ++c) {
    const std::size_t limit = operand.dim(index_map[c]) - sizes.at(index_map[c]);
    components[c] = Clamped(graph, components[c], c < wraps.size() ? wraps[c] : 0, limit, sequence, name);
  }
  for (const auto& [dim, of_indices] : batching) {
    Tensor& numbers = components[index_map.size()];
    numbers = numbers.reinterpret(poplar::UNSIGNED_INT);
    index_map.push_back(dim);
    collapsed.push_back(dim);
  }
  std::sort(collapsed.begin(), collapsed.end());
  if (index_vector_dim == indices.rank()) {
    for (Tensor& component : components) component = component.expand({index_vector_dim});
  }
  const Tensor inside = concat(components, static_cast<unsigned>(index_vector_dim));
  return popops::gather(graph, operand, inside, index_vector_dim, offset_dims, sizes, collapsed, index_map,
                        sequence, name);
}

// The dimensions along which a slice moves, with their sizes and positions.
struct Moving {
  Shape dims, sizes;
  std::vector<Tensor> positions;
};

Moving MovingDims(Graph& graph, const Tensor& operand, const std::vector<Tensor>& starts, const Shape& sizes,
                  Sequence& sequence, const std::string& name) {
  Moving moving;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == operand.dim(static_cast<unsigned>(d))) continue;
    moving.dims.push_back(d);
    moving.sizes.push_back(sizes[d]);
    moving.positions.push_back(Clamped(graph, starts.at(d).reshape({1}), 0,
                                       operand.dim(static_cast<unsigned>(d)) - sizes[d], sequence, name));
  }
  return moving;
}

Tensor DynamicSlice(Graph& graph, const Tensor& operand, const std::vector<Tensor>& starts,
                    const Shape& sizes, Sequence& sequence, const std::string& name) {
  const Moving moving = MovingDims(graph, operand, starts, sizes, sequence, name);
  return popops::dynamicSlice(graph, operand, concat(moving.positions), moving.dims, moving.sizes, sequence,
                              name);
}

void DynamicUpdateSlice(Graph& graph, const Tensor& operand, const Tensor& update,
                        const std::vector<Tensor>& starts, Sequence& sequence, const std::string& name) {
  const Moving moving = MovingDims(graph, operand, starts, update.shape(), sequence, name);
  popops::dynamicUpdate(graph, operand, update, concat(moving.positions), moving.dims, moving.sizes, sequence,
                        name);
}

}  // namespace

std::vector<Tensor> ComponentsOf(Graph& graph, const Tensor& indices, std::size_t index_vector_dim,
                                 std::size_t count, const Batching& batching, const std::string& name) {
  std::vector<Tensor> components;
  const bool scalar = index_vector_dim == indices.rank();
  for (std::size_t c = 0; c < count; ++c) {
    components.push_back(scalar ? indices : indices.slice(c, c + 1, static_cast<unsigned>(index_vector_dim)));
  }
  Shape shape = indices.shape();
  if (!scalar) shape[index_vector_dim] = 1;
  for (const auto& [of_operand, dim] : batching) {
    std::vector<unsigned> numbers(shape.at(dim));
    std::iota(numbers.begin(), numbers.end(), 0u);
    Tensor component = graph.addConstant(indices.elementType(), {numbers.size()}, numbers.data(), name);
    graph.setTileMapping(component, 0);
    Shape ones(shape.size(), 1);
    ones[dim] = numbers.size();
    component = component.reshape(ones);
    for (unsigned d = 0; d < shape.size(); ++d) {
      if (d != dim) component = component.broadcast(static_cast<unsigned>(shape[d]), d);
    }
    components.push_back(component);
  }
  return components;
}

void BindIndex(nb::module_& module) {
  module.def("gather", &Gather);
  module.def("dynamic_slice", &DynamicSlice);
  module.def("dynamic_update_slice", &DynamicUpdateSlice);
}

}  // namespace jax_ipu::poplibs
