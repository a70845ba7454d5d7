// Formats the text of program::PrintTensor.
#ifndef IPU_MODEL_ENGINE_RUN_PRINT_TENSOR_H_
#define IPU_MODEL_ENGINE_RUN_PRINT_TENSOR_H_

#include <ostream>
#include <string>

#include "core/mapping/box.h"
#include "poplar/PrintTensor.hpp"

namespace ipu_model {

using PrintFormat = poplar::PrintTensorFmt;

// Prints one line "title: [1 2 3]" for a vector, and nested brackets with one row per line from two
// dimensions on. `data` holds the elements in row-major order, in host representation. Without digits floats
// have seven decimals.
void PrintTensor(std::ostream& out, const std::string& title, DType type, const Shape& shape,
                 const void* data, const PrintFormat& format = PrintFormat::disableFormatting());

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_RUN_PRINT_TENSOR_H_
