#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/index/combine_windows.h"
#include "kernels/index/float_lanes_isa.h"
#include "kernels/index/select_indices.h"
#include "kernels/vector/register_types_isa.h"
#include "kernels/vector/vector_types.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// Prefetch distances, in windows and in selected elements: operands are usually too large for the caches.
constexpr std::int64_t kWindowsAhead = 8, kElementsAhead = 16;
constexpr std::int64_t kSelectedRows = 512;

template <typename T>
struct Complex {
  T real, imag;
  Complex operator+(const Complex& other) const { return {real + other.real, imag + other.imag}; }
};

struct Set {
  template <typename T>
  static T Apply(T, T b) {
    return b;
  }
};
struct Add {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    } else if constexpr (kNarrow<T>) {
      return T::Of(a.value() + b.value());
    } else {
      return a + b;
    }
  }
  static Floats Apply(Floats a, Floats b) { return a + b; }
};
struct Multiply {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else if constexpr (kNarrow<T>) {
      return T::Of(a.value() * b.value());
    } else {
      return a * b;
    }
  }
  static Floats Apply(Floats a, Floats b) { return a * b; }
};
template <bool kLargest>
struct Extreme {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (kNarrow<T>) {
      return T::Of(Apply(a.value(), b.value()));
    } else {
      if constexpr (std::is_floating_point_v<T>) {
        if (a != a || b != b) return a != a ? a : b;
        if (a == b) return std::signbit(a) == kLargest ? b : a;
      }
      return (a < b) == kLargest ? b : a;
    }
  }
  static Floats Apply(Floats a, Floats b) {
    const Floats zero = FloatsOf(kLargest ? BitsOf(a) & BitsOf(b) : BitsOf(a) | BitsOf(b));
    const Floats other = kLargest ? (a < b ? b : a) : (a < b ? a : b);
    const Floats chosen = a == b ? zero : other;
    return a != a ? a : b != b ? b : chosen;
  }
};
struct And {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};

// Whether the combination of floats, in f32, is one of registers.
template <typename T, typename Op>
inline constexpr bool kInLanes = kHasLanes<T> && !std::is_same_v<Op, Set>;

template <typename T, typename Op>
void CombineContiguous(std::int64_t n, const T* update, T* out) {
  std::int64_t i = 0;
  if constexpr (kInLanes<T, Op>) {
    for (; i + kFloats <= n; i += kFloats) {
      StoreFloats(out + i, Op::Apply(LoadFloats(out + i), LoadFloats(update + i)));
    }
    if constexpr (kHasParts<T>) {
      if (i == n) return;
      const Floats result = Op::Apply(LoadFloats(out + i, n - i), LoadFloats(update + i, n - i));
      return StoreFloats(out + i, n - i, result);
    }
  }
#pragma GCC ivdep
  for (; i < n; ++i) out[i] = Op::Apply(out[i], update[i]);
}

template <typename T, typename Op>
void CombineWindow(const WindowRows::Loop& loop, int dim, const T* update, T* out) {
  if (dim == loop.rank) {
    *out = Op::Apply(*out, *update);
    return;
  }
  const std::int64_t n = loop.shape[dim], os = loop.operand[dim], us = loop.windows[dim];
  if (dim + 1 < loop.rank) {
    for (std::int64_t i = 0; i < n; ++i) CombineWindow<T, Op>(loop, dim + 1, update + i * us, out + i * os);
  } else if (os == 1 && us == 1) {
    CombineContiguous<T, Op>(n, update, out);
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i * os] = Op::Apply(out[i * os], update[i * us]);
  }
}

template <typename T>
void PrefetchWindow(const T* at, std::int64_t elements, bool write) {
  // The processor's own prefetcher follows after a few lines.
  constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T)), kLines = 4;
  for (std::int64_t i = 0; i < elements && i < kLines * kLine; i += kLine) {
    if (write) {
      __builtin_prefetch(at + i, 1);
    } else {
      __builtin_prefetch(at + i, 0);
    }
  }
}

// Calls f(to, from) for each contiguous window, with the windows that follow on their way to the caches.
template <typename T, typename F>
void ForEachContiguous(std::int64_t elements, const WindowList& list, const T* updates, T* out, F&& f) {
  for (std::int64_t i = 0; i < list.count; ++i) {
    if (i + kWindowsAhead < list.count) {
      PrefetchWindow(out + list.to[i + kWindowsAhead], elements, true);
      PrefetchWindow(updates + list.from[i + kWindowsAhead], elements, false);
    }
    f(out + list.to[i], updates + list.from[i]);
  }
}

// Sums of rows of a known length, in vectors: the compiler unrolls such a loop before it looks for vectors.
template <typename T, std::int64_t kElements>
void SumWindows(const WindowList& list, const T* updates, T* out) {
  static_assert(kElements % kFloats == 0);
  ForEachContiguous(kElements, list, updates, out, [](T* to, const T* from) {
#pragma GCC unroll 8
    for (std::int64_t e = 0; e < kElements; e += kFloats) {
      StoreFloats(to + e, LoadFloats(to + e) + LoadFloats(from + e));
    }
  });
}

template <typename T, typename Op>
void Windows(const WindowRows::Loop& loop, const WindowList& list, const T* updates, T* out) {
  if (loop.contiguous()) {
    if constexpr (kHasLanes<T> && std::is_same_v<Op, Add>) {
      if (loop.elements == 16) return SumWindows<T, 16>(list, updates, out);
      if (loop.elements == 32) return SumWindows<T, 32>(list, updates, out);
      if (loop.elements == 64) return SumWindows<T, 64>(list, updates, out);
    }
    return ForEachContiguous(loop.elements, list, updates, out, [n = loop.elements](T* to, const T* from) {
      CombineContiguous<T, Op>(n, from, to);
    });
  }
  for (std::int64_t i = 0; i < list.count; ++i) {
    if (i + kWindowsAhead < list.count) {
      PrefetchWindow(out + list.to[i + kWindowsAhead], 1, true);
      PrefetchWindow(updates + list.from[i + kWindowsAhead], 1, false);
    }
    CombineWindow<T, Op>(loop, 0, updates + list.from[i], out + list.to[i]);
  }
}

// One pass, so that the processor can overlap many rows.
template <typename T, typename Op, typename I>
void Elements(const WindowRows::Elements& elements, std::int64_t begin, std::int64_t end, const T* updates,
              T* out) {
  const auto run = [&](WindowRows::Elements fixed) {
    fixed.ForEach<I, false>(begin, end, [&](std::int64_t row, std::int64_t to) {
      out[to] = Op::Apply(out[to], updates[row * fixed.windows_step]);
    });
  };
  WindowRows::Elements fixed = elements;
  if (fixed.index_stride == 1 && fixed.windows_step == 1) {
    fixed.index_stride = fixed.windows_step = 1;  // constants, so that the compiler can use them
    run(fixed);
  } else {
    run(fixed);
  }
}

template <typename T, typename Op>
void Selected(const WindowRows::Elements& elements, std::int64_t n, std::int64_t first, std::int64_t end,
              const T* updates, T* out) {
  const auto* const index = static_cast<const std::int32_t*>(elements.index);
  std::int32_t positions[kSelectedRows + kSelectSlack], values[kSelectedRows + kSelectSlack];
  for (std::int64_t r = 0; r < n; r += kSelectedRows) {
    const std::int64_t rows = n - r < kSelectedRows ? n - r : kSelectedRows;
    const std::int64_t count =
        SelectIndices(index + r, rows, static_cast<std::int32_t>(elements.wrap),
                      static_cast<std::int32_t>(first), static_cast<std::int32_t>(end), positions, values);
    const T* const block = updates + r * elements.windows_step;
    for (std::int64_t i = 0; i < count; ++i) {
      if (i + kElementsAhead < count) {
        __builtin_prefetch(out + elements.base + values[i + kElementsAhead] * elements.operand_stride, 1);
      }
      T& to = out[elements.base + values[i] * elements.operand_stride];
      to = Op::Apply(to, block[positions[i] * elements.windows_step]);
    }
  }
}

template <typename T, typename Op>
void SelectedWindows(const WindowRows::Loop& loop, const WindowRows::Elements& rows, std::int64_t n,
                     std::int64_t first, std::int64_t end, const T* updates, T* out) {
  const auto* const index = static_cast<const std::int32_t*>(rows.index);
  std::int32_t positions[kSelectedRows + kSelectSlack], values[kSelectedRows + kSelectSlack];
  std::int64_t to[kSelectedRows], from[kSelectedRows];
  for (std::int64_t r = 0; r < n; r += kSelectedRows) {
    const std::int64_t left = n - r < kSelectedRows ? n - r : kSelectedRows;
    const std::int64_t count =
        SelectIndices(index + r, left, static_cast<std::int32_t>(rows.wrap), static_cast<std::int32_t>(first),
                      static_cast<std::int32_t>(end), positions, values);
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = rows.base + values[i] * rows.operand_stride;
      from[i] = (r + positions[i]) * rows.windows_step;
    }
    Windows<T, Op>(loop, {to, from, count}, updates, out);
  }
}

// Calls f(op, zero) with the types of the operation and of the elements.
template <typename F>
void WithTypes(Combine combine, DType type, F&& f) {
  const auto integers = [&](auto op) {
    switch (type) {
      case DType::kPred:
      case DType::kU8:
        return f(op, std::uint8_t{});
      case DType::kU16:
        return f(op, std::uint16_t{});
      case DType::kU32:
        return f(op, std::uint32_t{});
      case DType::kU64:
        return f(op, std::uint64_t{});
      case DType::kS8:
        return f(op, std::int8_t{});
      case DType::kS16:
        return f(op, std::int16_t{});
      case DType::kS32:
        return f(op, std::int32_t{});
      case DType::kS64:
        return f(op, std::int64_t{});
      default:
        return;
    }
  };
  const auto reals = [&](auto op) {
    if (type == DType::kF32) return f(op, float{});
    if (type == DType::kF64) return f(op, double{});
    // Decided here, once per call: a test in the loops would keep them from being vectors.
    if (type == DType::kF16 && RoundsStochastically()) return f(op, StochasticF16{});
    if (type == DType::kF16) return f(op, F16{});
    if (type == DType::kBF16) return f(op, BF16{});
    return integers(op);
  };
  switch (combine) {
    case Combine::kSet:
      switch (SizeOf(type)) {
        case 1:
          return f(Set{}, std::uint8_t{});
        case 2:
          return f(Set{}, std::uint16_t{});
        case 4:
          return f(Set{}, std::uint32_t{});
        case 8:
          return f(Set{}, std::uint64_t{});
        default:
          return f(Set{}, Complex<double>{});
      }
    case Combine::kAdd:
      if (type == DType::kC64) return f(Add{}, Complex<float>{});
      if (type == DType::kC128) return f(Add{}, Complex<double>{});
      return reals(Add{});
    case Combine::kMultiply:
      return reals(Multiply{});
    case Combine::kMinimum:
      return reals(Extreme<false>{});
    case Combine::kMaximum:
      return reals(Extreme<true>{});
    case Combine::kAnd:
      return integers(And{});
    case Combine::kOr:
      return integers(Or{});
    case Combine::kGeneral:
      break;
  }
}

}  // namespace

void CombineWindows(Combine combine, DType type, const WindowRows::Loop& loop, const WindowList& list,
                    const void* updates, void* out) {
  WithTypes(combine, type, [&](auto op, auto zero) {
    using T = decltype(zero);
    Windows<T, decltype(op)>(loop, list, static_cast<const T*>(updates), static_cast<T*>(out));
  });
}

void CombineElements(Combine combine, DType type, const WindowRows::Elements& elements, std::int64_t begin,
                     std::int64_t end, const void* updates, void* out) {
  WithTypes(combine, type, [&](auto op, auto zero) {
    using T = decltype(zero);
    const auto run = [&](auto index) {
      Elements<T, decltype(op), decltype(index)>(elements, begin, end, static_cast<const T*>(updates),
                                                 static_cast<T*>(out));
    };
    if (elements.type == DType::kS32) {
      run(std::int32_t{});
    } else if (elements.type == DType::kS64) {
      run(std::int64_t{});
    } else {
      run(std::uint32_t{});
    }
  });
}

void CombineSelected(Combine combine, DType type, const WindowRows::Loop& loop,
                     const WindowRows::Elements& rows, std::int64_t n, std::int64_t first, std::int64_t end,
                     const void* updates, void* out) {
  WithTypes(combine, type, [&](auto op, auto zero) {
    using T = decltype(zero);
    const T* const from = static_cast<const T*>(updates);
    if (loop.elements == 1) {
      Selected<T, decltype(op)>(rows, n, first, end, from, static_cast<T*>(out));
    } else {
      SelectedWindows<T, decltype(op)>(loop, rows, n, first, end, from, static_cast<T*>(out));
    }
  });
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
