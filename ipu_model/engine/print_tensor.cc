#include "engine/print_tensor.h"

#include <cstdio>
#include <cstring>

#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

template <typename T>
T Load(const unsigned char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

std::string Decimal(double value) {
  char text[400];
  std::snprintf(text, sizeof(text), "%.7f", value);
  return text;
}

std::string Element(DType type, const unsigned char* at) {
  std::string narrow;
  if (VisitFormat(type, [&](auto format) {
        using F = decltype(format);
        narrow = Decimal(static_cast<double>(Decode<F>(Load<typename F::Storage>(at))));
      })) {
    return narrow;
  }
  switch (type) {
    case DType::kPred:
      return *at != 0 ? "1" : "0";
    case DType::kS2:
    case DType::kS4: {
      const int shift = 8 - BitWidth(type);
      return std::to_string(static_cast<std::int8_t>(*at << shift) >> shift);
    }
    case DType::kS8:
      return std::to_string(Load<std::int8_t>(at));
    case DType::kS16:
      return std::to_string(Load<std::int16_t>(at));
    case DType::kS32:
      return std::to_string(Load<std::int32_t>(at));
    case DType::kS64:
      return std::to_string(Load<std::int64_t>(at));
    case DType::kU2:
    case DType::kU4:
      return std::to_string(*at & ((1 << BitWidth(type)) - 1));
    case DType::kU8:
      return std::to_string(*at);
    case DType::kU16:
      return std::to_string(Load<std::uint16_t>(at));
    case DType::kU32:
      return std::to_string(Load<std::uint32_t>(at));
    case DType::kU64:
      return std::to_string(Load<std::uint64_t>(at));
    case DType::kF8E8M0FNU:
      return Decimal(static_cast<double>(E8M0ToF32(*at)));
    case DType::kBF16:
      return Decimal(static_cast<double>(BF16ToF32(Load<std::uint16_t>(at))));
    case DType::kF32:
      return Decimal(static_cast<double>(Load<float>(at)));
    case DType::kF64:
      return Decimal(Load<double>(at));
    case DType::kC64:
      return "(" + Decimal(static_cast<double>(Load<float>(at))) + "," +
             Decimal(static_cast<double>(Load<float>(at + 4))) + ")";
    case DType::kC128:
      return "(" + Decimal(Load<double>(at)) + "," + Decimal(Load<double>(at + 8)) + ")";
    default:
      return "?";
  }
}

const unsigned char* PrintLevel(std::ostream& out, DType type, const Shape& shape, std::size_t dim,
                                const unsigned char* at) {
  if (dim == shape.size()) {
    out << Element(type, at);
    return at + SizeOf(type);
  }
  // Poplar prints each row on a line of its own.
  const bool rows = dim + 1 < shape.size();
  out << '[';
  for (std::int64_t i = 0; i < shape[dim]; ++i) {
    if (rows) {
      out << '\n' << std::string(2 * (dim + 1), ' ');
    } else if (i > 0) {
      out << ' ';
    }
    at = PrintLevel(out, type, shape, dim + 1, at);
  }
  if (rows) out << '\n' << std::string(2 * dim, ' ');
  out << ']';
  return at;
}

}  // namespace

void PrintTensor(std::ostream& out, const std::string& title, DType type, const Shape& shape,
                 const void* data) {
  out << title << ": ";
  PrintLevel(out, type, shape, 0, static_cast<const unsigned char*>(data));
  out << std::endl;
}

}  // namespace ipu_model
