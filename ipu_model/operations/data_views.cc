// Views, result tensors and dimension numbers of the data operations.
#include "operations/data_views.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/mapping/strides.h"
#include "core/operation/serialise.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {

void WriteWindowDims(Writer& writer, const WindowDims& dims) {
  writer.Write(dims.offset_dims);
  writer.Write(dims.collapsed_dims);
  writer.Write(dims.operand_batching_dims);
  writer.Write(dims.indices_batching_dims);
  writer.Write(dims.start_index_map);
  writer.Write(dims.index_vector_dim);
  writer.Write(dims.wraps);
}

WindowDims ReadWindowDims(Reader& reader) {
  WindowDims dims;
  dims.offset_dims = reader.Read<Shape>();
  dims.collapsed_dims = reader.Read<Shape>();
  dims.operand_batching_dims = reader.Read<Shape>();
  dims.indices_batching_dims = reader.Read<Shape>();
  dims.start_index_map = reader.Read<Shape>();
  dims.index_vector_dim = reader.Read<std::int64_t>();
  dims.wraps = reader.Read<Shape>();
  return dims;
}

bool IndexVectorsFit(const WindowDims& dims, const Shape& indices) {
  const auto rank = static_cast<std::int64_t>(indices.size());
  if (dims.index_vector_dim < 0 || dims.index_vector_dim > rank) return false;
  const std::int64_t components =
      dims.index_vector_dim == rank ? 1 : indices[static_cast<std::size_t>(dims.index_vector_dim)];
  return components == static_cast<std::int64_t>(dims.start_index_map.size());
}

bool HasDistinctElements(const View& view) {
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    if (view.strides[d] == 0 && view.shape[d] > 1) return false;
  }
  return true;
}

std::vector<std::int64_t> MemoryOrder(const View& view) {
  std::vector<std::int64_t> order;
  for (std::size_t d = 0; d < view.shape.size(); ++d) order.push_back(static_cast<std::int64_t>(d));
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return std::abs(view.strides[static_cast<std::size_t>(a)]) >
           std::abs(view.strides[static_cast<std::size_t>(b)]);
  });
  return order;
}

View InPlaceView(const poplar::Tensor& tensor, const poplar::DebugContext& debug_context) {
  View view;
  if (!tensor.asView(&view) || !HasDistinctElements(view)) {
    throw poplar::poplar_error(debug_context.getPathName() + ": a tensor of shape " + tensor.shapeToString() +
                               " cannot be updated in place: it is not one strided view of distinct "
                               "elements; copy it first");
  }
  return view;
}

poplar::Tensor NewTensorLike(poplar::Graph& graph, const View& like, const Grid& otherwise,
                             const std::string& name) {
  const Variable& variable = graph.impl().variables[like.variable];
  // The view has the same elements in the same order, so the mapping carries over.
  const bool whole = like.offset == 0 && like.strides == RowMajorStrides(like.shape) &&
                     variable.num_elements == like.num_elements();
  return NewTensor(
      graph, like.type, like.shape,
      whole && !variable.constant && !variable.mapping.empty() ? variable.mapping : Mapping(otherwise), name);
}

}  // namespace ipu_model
