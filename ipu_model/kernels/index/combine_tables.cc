#include "kernels/index/combine_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/host/host_tensor.h"

namespace ipu_model {
namespace {

// The tables that a thread uses in turns: an element need not wait for the store of the one before it.
constexpr std::int64_t kTables = 4;
// All tables of a thread stay in the first cache, and filling and merging them is cheap beside the rows.
constexpr std::int64_t kMostPlaces = 1024, kRowsPerPlace = 32;

// The operation and the value that changes nothing.
template <typename T>
struct Add {
  static constexpr T kNeutral = 0;
  static T Apply(T a, T b) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
};
template <typename T>
struct Multiply {
  static constexpr T kNeutral = 1;
  static T Apply(T a, T b) {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
};
// The order of floats is that of XLA: NaN is larger and smaller than all, and -0 is below +0.
template <typename T, bool kLargest>
struct Extreme {
  using Limits = std::numeric_limits<T>;
  static constexpr T kNeutral = kLargest ? (Limits::has_infinity ? -Limits::infinity() : Limits::lowest())
                                         : (Limits::has_infinity ? Limits::infinity() : Limits::max());
  static T Apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) return a != a ? a : b;
      if (a == b) return std::signbit(a) == kLargest ? b : a;
    }
    return (a < b) == kLargest ? b : a;
  }
};
template <typename T>
struct And {
  static constexpr T kNeutral = static_cast<T>(~T{0});
  static T Apply(T a, T b) { return static_cast<T>(a & b); }
};
template <typename T>
struct Or {
  static constexpr T kNeutral = 0;
  static T Apply(T a, T b) { return static_cast<T>(a | b); }
};

bool IsExtreme(Combine combine) { return combine == Combine::kMinimum || combine == Combine::kMaximum; }

// The last place of a table takes the rows whose index is outside.
std::int64_t TableSize(const WindowRows::Elements& elements) { return elements.limit + 2; }

template <typename T, typename Op>
void Fill(const WindowRows::Elements& elements, std::int64_t begin, std::int64_t end, const T* updates,
          T* tables) {
  const std::int64_t size = TableSize(elements), step = elements.windows_step;
  std::fill_n(tables, kTables * size, Op::kNeutral);
  const auto* const index = static_cast<const std::int32_t*>(elements.index);
  const auto wrap = static_cast<std::uint32_t>(elements.wrap), last = static_cast<std::uint32_t>(size - 1);
  const auto combine = [&](std::int64_t row, T* table) {
    const std::int32_t i = index[row];
    T& to = table[std::min(static_cast<std::uint32_t>(i) + (i < 0 ? wrap : 0), last)];
    to = Op::Apply(to, updates[row * step]);
  };
  std::int64_t row = begin;
  for (; row + kTables <= end; row += kTables) {
#pragma GCC unroll 4
    for (std::int64_t t = 0; t < kTables; ++t) combine(row + t, tables + t * size);
  }
  for (; row < end; ++row) combine(row, tables);
}

template <typename T, typename Op>
void Run(HostContext& context, const WindowRows::Elements& elements, std::int64_t n, const T* updates,
         T* out) {
  const std::int64_t size = TableSize(elements), parts = context.pool.size();
  const Scratch::Mark mark = context.scratch.Save();
  T* const tables = context.scratch.Allocate<T>(static_cast<std::size_t>(parts * kTables * size));
  ParallelFor(
      context.pool, parts, 1,
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t p = first; p < last; ++p)
          Fill<T, Op>(elements, n * p / parts, n * (p + 1) / parts, updates, tables + p * kTables * size);
      },
      1);
  for (std::int64_t t = 0; t < parts * kTables; ++t) {
    for (std::int64_t i = 0; i + 1 < size; ++i) {
      T& to = out[elements.base + i * elements.operand_stride];
      to = Op::Apply(to, tables[t * size + i]);
    }
  }
  context.scratch.Rewind(mark);
}

// Calls f with a zero of the C++ type of an integer type; returns whether `type` is one.
template <typename F>
bool WithInteger(DType type, F&& f) {
  switch (type) {
    case DType::kPred:
    case DType::kU8:
      f(std::uint8_t{});
      return true;
    case DType::kU16:
      f(std::uint16_t{});
      return true;
    case DType::kU32:
      f(std::uint32_t{});
      return true;
    case DType::kU64:
      f(std::uint64_t{});
      return true;
    case DType::kS8:
      f(std::int8_t{});
      return true;
    case DType::kS16:
      f(std::int16_t{});
      return true;
    case DType::kS32:
      f(std::int32_t{});
      return true;
    case DType::kS64:
      f(std::int64_t{});
      return true;
    default:
      return false;
  }
}
template <typename F>
bool WithFloat(DType type, F&& f) {
  if (type == DType::kF32) f(float{});
  if (type == DType::kF64) f(double{});
  return type == DType::kF32 || type == DType::kF64;
}

}  // namespace

bool CombinesInTables(Combine combine, DType type, const WindowRows::Elements& elements, std::int64_t n) {
  if (combine == Combine::kSet || combine == Combine::kGeneral) return false;
  const std::int64_t places = elements.limit + 1;
  const auto none = [](auto) {};
  const bool has_type = WithInteger(type, none) || (IsExtreme(combine) && WithFloat(type, none));
  return has_type && places <= kMostPlaces && n >= kRowsPerPlace * places;
}

void CombineInTables(HostContext& context, Combine combine, DType type, const WindowRows::Elements& elements,
                     std::int64_t n, const void* updates, void* out) {
  const auto extreme = [&](auto zero) {
    using T = decltype(zero);
    const T* const from = static_cast<const T*>(updates);
    T* const to = static_cast<T*>(out);
    if (combine == Combine::kMinimum) return Run<T, Extreme<T, false>>(context, elements, n, from, to);
    Run<T, Extreme<T, true>>(context, elements, n, from, to);
  };
  if (IsExtreme(combine)) {
    WithInteger(type, extreme) || WithFloat(type, extreme);
    return;
  }
  WithInteger(type, [&](auto zero) {
    using T = decltype(zero);
    const T* const from = static_cast<const T*>(updates);
    T* const to = static_cast<T*>(out);
    switch (combine) {
      case Combine::kAdd:
        return Run<T, Add<T>>(context, elements, n, from, to);
      case Combine::kMultiply:
        return Run<T, Multiply<T>>(context, elements, n, from, to);
      case Combine::kAnd:
        return Run<T, And<T>>(context, elements, n, from, to);
      case Combine::kOr:
        return Run<T, Or<T>>(context, elements, n, from, to);
      default:
        return;
    }
  });
}

}  // namespace ipu_model
