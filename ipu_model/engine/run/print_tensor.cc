#include "engine/run/print_tensor.h"

#include <algorithm>
#include <cmath>
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

// Reads a real number as a double; returns false for other types.
bool RealOf(DType type, const unsigned char* at, double* value) {
  if (VisitFormat(type, [&](auto format) {
        using F = decltype(format);
        *value = static_cast<double>(Decode<F>(Load<typename F::Storage>(at)));
      })) {
    return true;
  }
  switch (type) {
    case DType::kF8E8M0FNU:
      *value = static_cast<double>(E8M0ToF32(*at));
      return true;
    case DType::kBF16:
      *value = static_cast<double>(BF16ToF32(Load<std::uint16_t>(at)));
      return true;
    case DType::kF32:
      *value = static_cast<double>(Load<float>(at));
      return true;
    case DType::kF64:
      *value = Load<double>(at);
      return true;
    default:
      return false;
  }
}

class Printer {
 public:
  Printer(DType type, const Shape& shape, const unsigned char* data, const PrintFormat& format)
      : type_(type), shape_(shape), data_(data), format_(format) {
    summarised_ = format.summariseThreshold > 0 && NumElements(shape) > format.summariseThreshold;
    if (format.digits == 0) return;
    double value = 0;
    is_real_ = NumElements(shape) > 0 && RealOf(type, data, &value);
    if (is_real_) ChooseNotation();
    ForEachShown(0, 0, [&](std::int64_t i) { width_ = std::max(width_, Text(i).size()); });
  }

  // Poplar prints each row on a line of its own.
  void Print(std::ostream& out, std::size_t dim, std::int64_t first) const {
    if (dim == shape_.size()) {
      out << Padded(first);
      return;
    }
    const bool rows = dim + 1 < shape_.size();
    const std::string indent = "\n" + std::string(2 * (dim + 1), ' ');
    std::size_t column = 2 * dim + 1;
    out << format_.openBracket;
    bool begins = true;  // of a line
    const auto item = [&](const std::string& text) {
      if (rows) {
        out << indent;
      } else if (!begins && format_.maxLineWidth > 0 && column + 1 + text.size() > format_.maxLineWidth) {
        out << indent;
        column = indent.size() - 1;
      } else if (!begins) {
        out << format_.separator;
        ++column;
      }
      begins = false;
      out << text;
      column += text.size();
    };
    ForShown(
        dim,
        [&](std::int64_t i) {
          if (rows) {
            item("");
            Print(out, dim + 1, first * shape_[dim] + i);
          } else {
            item(Padded(first * shape_[dim] + i));
          }
        },
        [&] { item("..."); });
    if (rows) out << '\n' << std::string(2 * dim, ' ');
    out << format_.closeBracket;
  }

 private:
  // The indices of a dimension that are shown, and a gap between them.
  template <typename F, typename G>
  void ForShown(std::size_t dim, F&& shown, G&& gap) const {
    const std::int64_t size = shape_[dim], edge = format_.edgeItems;
    const bool cut = summarised_ && size > 2 * edge;
    for (std::int64_t i = 0; i < (cut ? edge : size); ++i) shown(i);
    if (!cut) return;
    gap();
    for (std::int64_t i = size - edge; i < size; ++i) shown(i);
  }
  template <typename F>
  void ForEachShown(std::size_t dim, std::int64_t first, F&& f) const {
    if (dim == shape_.size()) {
      f(first);
    } else {
      ForShown(dim, [&](std::int64_t i) { ForEachShown(dim + 1, first * shape_[dim] + i, f); }, [] {});
    }
  }

  const unsigned char* At(std::int64_t i) const {
    return data_ + static_cast<std::size_t>(i) * SizeOf(type_);
  }

  // Fixed or scientific, and the decimals.
  void ChooseNotation() {
    double least = 0, largest = 0;
    ForEachShown(0, 0, [&](std::int64_t i) {
      double value = 0;
      RealOf(type_, At(i), &value);
      value = std::fabs(value);
      if (!std::isfinite(value) || value == 0) return;
      least = least == 0 ? value : std::min(least, value);
      largest = std::max(largest, value);
    });
    const int before = largest < 10 ? 1 : static_cast<int>(std::log10(largest)) + 1;
    const int digits = static_cast<int>(std::min(format_.digits, 40u));
    scientific_ = format_.floatFormat == PrintFormat::FloatFormat::Scientific;
    if (format_.floatFormat == PrintFormat::FloatFormat::Auto)
      scientific_ = before > digits || (least > 0 && (least < 1e-4 || largest / least > 1e8));
    decimals_ = std::max(digits - (scientific_ ? 1 : before), 0);
  }

  std::string Text(std::int64_t i) const {
    double value = 0;
    if (!is_real_) return Element(type_, At(i));
    RealOf(type_, At(i), &value);
    char text[400];
    if (format_.floatFormat == PrintFormat::FloatFormat::None) {
      std::snprintf(text, sizeof(text), "%.*g", static_cast<int>(std::min(format_.digits, 40u)), value);
    } else {
      std::snprintf(text, sizeof(text), scientific_ ? "%.*e" : "%.*f", decimals_, value);
    }
    return text;
  }
  std::string Padded(std::int64_t i) const {
    std::string text = Text(i);
    return text.size() < width_ ? std::string(width_ - text.size(), ' ') + text : text;
  }

  const DType type_;
  const Shape& shape_;
  const unsigned char* const data_;
  const PrintFormat& format_;
  bool summarised_ = false, is_real_ = false, scientific_ = false;
  int decimals_ = 0;
  std::size_t width_ = 0;
};

}  // namespace

void PrintTensor(std::ostream& out, const std::string& title, DType type, const Shape& shape,
                 const void* data, const PrintFormat& format) {
  out << title << ": ";
  Printer(type, shape, static_cast<const unsigned char*>(data), format).Print(out, 0, 0);
  out << std::endl;
}

}  // namespace ipu_model
