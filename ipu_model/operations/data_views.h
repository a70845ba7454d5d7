// Helpers of the data operations: views, result tensors, dimension numbers.
#ifndef IPU_MODEL_OPERATIONS_DATA_VIEWS_H_
#define IPU_MODEL_OPERATIONS_DATA_VIEWS_H_

#include <string>
#include <vector>

#include "core/graph/graph_impl.h"
#include "core/operation/operation.h"
#include "kernels/index/indexed_window.h"
#include "poplar/Graph.hpp"

namespace ipu_model {

inline Shape ShapeOf(const poplar::Tensor& tensor) {
  return Shape(tensor.shape().begin(), tensor.shape().end());
}

// Whether no two elements of the view are the same element of its variable by broadcasting.
bool HasDistinctElements(const View& view);

// Returns the dimensions from major to minor in memory.
std::vector<std::int64_t> MemoryOrder(const View& view);

// Returns the view of a tensor that an operation updates in place. Throws poplar_error if the tensor is not
// one strided view of distinct elements.
View InPlaceView(const poplar::Tensor& tensor, const poplar::DebugContext& debug_context);

// Returns a new tensor of the shape of `like`. It has the mapping of like's variable if `like` is the whole
// variable in order, and otherwise the grid `otherwise`.
poplar::Tensor NewTensorLike(poplar::Graph& graph, const View& like, const Grid& otherwise,
                             const std::string& name);

void WriteWindowDims(Writer& writer, const WindowDims& dims);
WindowDims ReadWindowDims(Reader& reader);
// Whether indices of this shape hold vectors with one component for each indexed dimension.
bool IndexVectorsFit(const WindowDims& dims, const Shape& indices);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_DATA_VIEWS_H_
