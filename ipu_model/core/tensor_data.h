// What a poplar::Tensor refers to: blocks of strided elements.
#ifndef IPU_MODEL_CORE_TENSOR_DATA_H_
#define IPU_MODEL_CORE_TENSOR_DATA_H_

#include <vector>

#include "core/box.h"
#include "poplar/Tensor.hpp"

namespace poplar {

// `view` shifted to its place in the tensor; blocks tile the layout.
struct Tensor::Block {
  ipu_model::Shape begin;
  ipu_model::View view;
};

}  // namespace poplar

#endif  // IPU_MODEL_CORE_TENSOR_DATA_H_
