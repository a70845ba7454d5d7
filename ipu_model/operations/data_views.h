// Small helpers of the data operations: views, result tensors, dimension numbers.
#ifndef IPU_MODEL_OPERATIONS_DATA_VIEWS_H_
#define IPU_MODEL_OPERATIONS_DATA_VIEWS_H_

#include <string>
#include <vector>

#include "core/graph_impl.h"
#include "core/operation.h"
#include "kernels/index/indexed_window.h"
#include "poplar/Graph.hpp"

namespace ipu_model {

inline Shape ShapeOf(const poplar::Tensor& tensor) {
  return Shape(tensor.shape().begin(), tensor.shape().end());
}

// True when no two elements of the view are the same element of its variable by broadcasting.
bool HasDistinctElements(const View& view);

// The view of a tensor that an operation writes over. Throws poplar_error when the tensor is not one strided
// view of distinct elements: then the operation could not be done in place.
View InPlaceView(const poplar::Tensor& tensor, const poplar::DebugContext& debug_context);

// A result with the layout of `like` where that is a proper tensor, otherwise with `otherwise`.
poplar::Tensor NewTensorLike(poplar::Graph& graph, const View& like, const Partition& otherwise,
                             const std::string& name);

void WriteWindowDims(Writer& writer, const WindowDims& dims);
WindowDims ReadWindowDims(Reader& reader);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_DATA_VIEWS_H_
