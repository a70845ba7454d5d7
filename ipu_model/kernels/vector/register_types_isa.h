// Maps the type of a register to the C++ type that a kernel is instantiated for.
#ifndef IPU_MODEL_KERNELS_VECTOR_REGISTER_TYPES_ISA_H_
#define IPU_MODEL_KERNELS_VECTOR_REGISTER_TYPES_ISA_H_

#include <cstdint>

#include "kernels/elementwise/program/micro_op.h"

// The namespace keeps the linker from merging code of different instruction sets.
namespace ipu_model::ISA_NAMESPACE {

// Returns find(zero of the integer type), or an empty Result for other types.
template <typename Result, typename F>
Result ForInteger(RegisterType type, const F& find) {
  switch (type) {
    case RegisterType::kS8:
      return find(std::int8_t{});
    case RegisterType::kS16:
      return find(std::int16_t{});
    case RegisterType::kS32:
      return find(std::int32_t{});
    case RegisterType::kS64:
      return find(std::int64_t{});
    case RegisterType::kU8:
      return find(std::uint8_t{});
    case RegisterType::kU16:
      return find(std::uint16_t{});
    case RegisterType::kU32:
      return find(std::uint32_t{});
    case RegisterType::kU64:
      return find(std::uint64_t{});
    default:
      return {};
  }
}

// The same for integer and float types.
template <typename Result, typename F>
Result ForNumber(RegisterType type, const F& find) {
  switch (type) {
    case RegisterType::kF32:
      return find(float{});
    case RegisterType::kF64:
      return find(double{});
    default:
      return ForInteger<Result>(type, find);
  }
}

}  // namespace ipu_model::ISA_NAMESPACE

#endif  // IPU_MODEL_KERNELS_VECTOR_REGISTER_TYPES_ISA_H_
