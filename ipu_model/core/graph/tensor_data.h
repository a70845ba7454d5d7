// How a tensor refers to its graph.
#ifndef IPU_MODEL_CORE_GRAPH_TENSOR_DATA_H_
#define IPU_MODEL_CORE_GRAPH_TENSOR_DATA_H_

#include "core/graph/graph_impl.h"
#include "poplar/Tensor.hpp"

namespace ipu_model {

// The graph of a tensor. Throws poplar::poplar_error that names `method` when the graph is gone.
const GraphImpl& GraphOf(const poplar::Tensor& tensor, const char* method);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_GRAPH_TENSOR_DATA_H_
