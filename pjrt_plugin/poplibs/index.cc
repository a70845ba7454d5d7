// Python: slices at positions that are known at run time only, by popops. StableHLO clamps positions into the
// operand; popops does not, so they are clamped first.
//
//   gather(graph, operand, indices, offset_dims, collapsed, index_map, index_vector_dim, wraps, sizes, seq,
//   name)
//     wraps: what is added to a negative index of each component; 0: nothing
//   dynamic_slice(graph, operand, starts, sizes, seq, name) -> Tensor
//   dynamic_update_slice(graph, operand, update, starts, seq, name)   writes into the operand
//     indices and starts are s32 or u32; a slice is smaller than its operand
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
              const Shape& collapsed, const std::vector<unsigned>& index_map, std::size_t index_vector_dim,
              const std::vector<std::int64_t>& wraps, const Shape& sizes, Sequence& sequence,
              const std::string& name) {
  std::vector<Tensor> components;
  const bool scalar = index_vector_dim == indices.rank();
  for (std::size_t c = 0; c < index_map.size(); ++c) {
    const Tensor component =
        scalar ? indices : indices.slice(c, c + 1, static_cast<unsigned>(index_vector_dim));
    const std::size_t limit = operand.dim(index_map[c]) - sizes.at(index_map[c]);
    components.push_back(Clamped(graph, component, c < wraps.size() ? wraps[c] : 0, limit, sequence, name));
  }
  const Tensor inside =
      scalar ? components.at(0) : concat(components, static_cast<unsigned>(index_vector_dim));
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

void BindIndex(nb::module_& module) {
  module.def("gather", &Gather);
  module.def("dynamic_slice", &DynamicSlice);
  module.def("dynamic_update_slice", &DynamicUpdateSlice);
}

}  // namespace jax_ipu::poplibs
