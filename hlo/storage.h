// How the elements of each type lie in Poplar's types: Poplar has no 2- and 4-bit integers, bfloat16,
// float64, complex numbers and small floats.
#ifndef HLO_STORAGE_H_
#define HLO_STORAGE_H_

#include <string>

#include "hlo/Expression.hpp"
#include "ipu_model/Model.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

using ipu_model::DTypeOf;

// The type of Poplar with the same bytes. Throws NotExpanded for complex128, which no type has the bytes of;
// `function` is for the message.
poplar::Type storedAs(DType type, const std::string& function);
// The unsigned integer type with elements of as many bytes.
poplar::Type bitsOf(DType type, const std::string& function);
// The same for factorisations and transforms, which have codelets for float32 and complex64. Throws
// NotExpanded for others.
poplar::Type singleAs(DType type, const std::string& function);
// Upper bits of an element that say nothing: integers of less than a byte take one.
unsigned unusedBits(DType type);
// The name of a type of Poplar in C++.
std::string cppName(const poplar::Type& type);

[[noreturn]] void refuse(const std::string& function, const std::string& what);

}  // namespace hlo

#endif  // HLO_STORAGE_H_
