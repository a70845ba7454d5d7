// Scatter: typed loops for one-operation updates, vectorised evaluation in blocks for general ones.
#include "kernels/index/scatter.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/copy/slice.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/host/isa.h"
#include "kernels/index/select_indices.h"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

constexpr std::int64_t kBlockRows = 512;
// The number of elements in one evaluation of a general update.
constexpr std::int64_t kBlockElements = 2048;
constexpr std::int64_t kParallelElements = 16 << 10, kSelectedRows = 32 << 10;
// The range of all operand offsets of windows that are inside.
constexpr std::int64_t kLow = WindowRows::kSkip + 1, kHigh = INT64_MAX;

// Combines 16-bit floats in f32 and rounds after each operation.
struct F16 {
  std::uint16_t bits;
  float value() const { return F16ToF32(bits); }
  static F16 Of(float x) { return {F32ToF16(x)}; }
};
struct BF16 {
  std::uint16_t bits;
  float value() const { return BF16ToF32(bits); }
  static BF16 Of(float x) { return {F32ToBF16(x)}; }
};
template <typename T>
inline constexpr bool kNarrow = std::is_same_v<T, F16> || std::is_same_v<T, BF16>;

struct Set {
  template <typename T>
  static T Apply(T, T b) {
    return b;
  }
};
// Integer sums and products wrap.
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
};
// Returns NaN if either operand is NaN; -0 is below +0.
struct Minimum {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (kNarrow<T>) {
      return T::Of(Apply(a.value(), b.value()));
    } else {
      if constexpr (std::is_floating_point_v<T>) {
        if (a != a || b != b) return a != a ? a : b;
        if (a == b) return std::signbit(a) ? a : b;
      }
      return b < a ? b : a;
    }
  }
};
struct Maximum {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (kNarrow<T>) {
      return T::Of(Apply(a.value(), b.value()));
    } else {
      if constexpr (std::is_floating_point_v<T>) {
        if (a != a || b != b) return a != a ? a : b;
        if (a == b) return std::signbit(a) ? b : a;
      }
      return a < b ? b : a;
    }
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
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = Op::Apply(out[i], update[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i * os] = Op::Apply(out[i * os], update[i * us]);
  }
}

// Combines rows [begin, end) of single elements in one pass, so that the processor can overlap many of them.
template <typename T, typename Op, typename I>
void CombineElements(const WindowRows::Elements& elements, std::int64_t begin, std::int64_t end,
                     const T* updates, T* out) {
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

// Combines, of n rows of single elements, those with an index in [first, end). Other threads combine the
// others.
template <typename T, typename Op>
void CombineSelected(const WindowRows::Elements& elements, std::int64_t n, std::int64_t first,
                     std::int64_t end, const T* updates, T* out) {
  const auto select = HasAvx512() ? avx512::SelectIndices : avx2::SelectIndices;
  const auto* const index = static_cast<const std::int32_t*>(elements.index);
  std::int32_t positions[kBlockRows + kSelectSlack], values[kBlockRows + kSelectSlack];
  for (std::int64_t r = 0; r < n; r += kBlockRows) {
    const std::int64_t count =
        select(index + r, std::min(kBlockRows, n - r), static_cast<std::int32_t>(elements.wrap),
               static_cast<std::int32_t>(first), static_cast<std::int32_t>(end), positions, values);
    const T* const block = updates + r * elements.windows_step;
    for (std::int64_t i = 0; i < count; ++i) {
      T& to = out[elements.base + values[i] * elements.operand_stride];
      to = Op::Apply(to, block[positions[i] * elements.windows_step]);
    }
  }
}

// Combines those of the rows [begin, end) whose operand offset is in [low, high).
template <typename T, typename Op>
void CombineRows(const WindowRows& rows, const WindowRows::Loop& loop, std::int64_t begin, std::int64_t end,
                 std::int64_t low, std::int64_t high, const T* updates, T* out) {
  WindowRows::Elements elements;
  if (loop.rank == 0 && low == kLow && high == kHigh && rows.AreElements(&elements)) {
    return elements.type == DType::kS32
               ? CombineElements<T, Op, std::int32_t>(elements, begin, end, updates, out)
               : CombineElements<T, Op, std::int64_t>(elements, begin, end, updates, out);
  }
  std::int64_t to[kBlockRows], from[kBlockRows];
  for (std::int64_t r = begin; r < end; r += kBlockRows) {
    const std::int64_t n = std::min(kBlockRows, end - r);
    rows.Offsets(r, n, false, to, from);
    if (loop.rank == 0) {
      for (std::int64_t i = 0; i < n; ++i) {
        if (to[i] >= low && to[i] < high) out[to[i]] = Op::Apply(out[to[i]], updates[from[i]]);
      }
    } else {
      constexpr std::int64_t kAhead = 4;
      for (std::int64_t i = 0; i < n; ++i) {
        if (i + kAhead < n && to[i + kAhead] != WindowRows::kSkip)
          __builtin_prefetch(out + to[i + kAhead], 1);
        if (to[i] >= low && to[i] < high) CombineWindow<T, Op>(loop, 0, updates + from[i], out + to[i]);
      }
    }
  }
}

// The division of one operand's work among threads, so that no two threads write the same element.
struct Share {
  enum class By { kNothing, kRows, kDestination, kIndices, kWindow } by = By::kNothing;
  int window_loop = 0;             // for kWindow
  std::int64_t low = 0, high = 0;  // operand offsets, for kDestination
  WindowRows::Elements elements;   // for kIndices
};

// Whether threads can select their rows by index. This is fast only with AVX-512.
bool CanSelect(const WindowRows& rows, WindowRows::Elements* elements) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  return HasAvx512() && rows.AreElements(elements) && elements->type == DType::kS32 &&
         elements->index_stride == 1 && elements->wrap <= kMost && elements->limit < kMost;
}

Share ChooseShare(const WindowRows& rows, const WindowRows::Loop& loop, const IndexedWindow& window,
                  const WindowPlacement& placement, bool unique, const HostTensor& out, int workers) {
  Share share;
  if (rows.num_rows() * loop.elements < kParallelElements) return share;
  int widest = -1;
  bool overlapping = false;
  for (int d = 0; d < loop.rank; ++d) {
    if (loop.indexed[d]) {
      overlapping = true;
    } else if (widest < 0 || loop.shape[d] > loop.shape[widest]) {
      widest = d;
    }
  }
  if (unique) {
    share.by = Share::By::kRows;
  } else if (widest >= 0 && loop.shape[widest] >= 32) {
    share.by = Share::By::kWindow;
    share.window_loop = widest;
  } else if (!overlapping && loop.elements * workers >= 16) {
    // Every thread checks all rows, which costs as much as applying some elements.
    share.by = Share::By::kDestination;
    for (int d = 0; d < window.operand_rank; ++d) {
      const std::int64_t reach = (placement.operand_dims[d] - 1) * out.strides[d];
      (reach > 0 ? share.high : share.low) += reach;
    }
    ++share.high;
  } else if (workers > 1 && rows.num_rows() >= kSelectedRows && CanSelect(rows, &share.elements)) {
    share.by = Share::By::kIndices;
  }
  return share;
}

template <typename T, typename Op>
void CombineAll(HostContext& context, const WindowRows& rows, const IndexedWindow& window,
                const WindowPlacement& placement, bool unique, const HostTensor& update,
                const HostTensor& out) {
  const WindowRows::Loop loop = rows.WindowLoop();
  const Share share = ChooseShare(rows, loop, window, placement, unique, out, context.pool.size());
  const std::int64_t n = rows.num_rows();
  const T* u = update.as<T>();
  T* o = out.as<T>();
  // One piece per worker, because every call reads all indices.
  constexpr std::int64_t kOnePiece = 1;
  switch (share.by) {
    case Share::By::kNothing:
      CombineRows<T, Op>(rows, loop, 0, n, kLow, kHigh, u, o);
      break;
    case Share::By::kRows:
      ParallelFor(context.pool, n, 16, [&](std::int64_t begin, std::int64_t end) {
        CombineRows<T, Op>(rows, loop, begin, end, kLow, kHigh, u, o);
      });
      break;
    case Share::By::kDestination:
      ParallelFor(
          context.pool, share.high - share.low, 64,
          [&](std::int64_t begin, std::int64_t end) {
            CombineRows<T, Op>(rows, loop, 0, n, share.low + begin, share.low + end, u, o);
          },
          kOnePiece);
      break;
    case Share::By::kIndices:
      ParallelFor(
          context.pool, share.elements.limit + 1, 64,
          [&](std::int64_t begin, std::int64_t end) {
            CombineSelected<T, Op>(share.elements, n, begin, end, u, o);
          },
          kOnePiece);
      break;
    case Share::By::kWindow:
      ParallelFor(
          context.pool, loop.shape[share.window_loop], 16,
          [&](std::int64_t begin, std::int64_t end) {
            WindowRows::Loop part = loop;
            part.shape[share.window_loop] = end - begin;
            CombineRows<T, Op>(rows, part, 0, n, kLow, kHigh, u + begin * loop.windows[share.window_loop],
                               o + begin * loop.operand[share.window_loop]);
          },
          kOnePiece);
      break;
  }
}

// The destinations in the current block: a small open-addressing set that is emptied by changing its stamp.
class OffsetSet {
 public:
  void Clear() { ++stamp_; }
  // Returns false if the offset was already in the set.
  bool Insert(std::int64_t offset) {
    std::size_t slot = static_cast<std::uint64_t>(offset) * 0x9e3779b97f4a7c15u >> (64 - kBits);
    while (stamps_[slot] == stamp_) {
      if (offsets_[slot] == offset) return false;
      slot = (slot + 1) % kSlots;
    }
    stamps_[slot] = stamp_;
    offsets_[slot] = offset;
    return true;
  }

 private:
  static constexpr int kBits = 11;
  static constexpr std::size_t kSlots = std::size_t{1} << kBits;
  static_assert(kSlots >= 2 * kBlockRows);
  std::int64_t offsets_[kSlots];
  std::uint64_t stamps_[kSlots] = {};
  std::uint64_t stamp_ = 1;
};

HostTensor Vector(DType type, std::int64_t n, void* data) {
  HostTensor t;
  t.data = data;
  t.type = type;
  t.rank = 1;
  t.shape[0] = n;
  t.strides[0] = 1;
  return t;
}

}  // namespace

ScatterKernel::ScatterKernel(const Expression& update)
    : update_(update),
      num_operands_(update.outputs.size()),
      kernel_(std::make_unique<ElementwiseKernel>(update)) {
  for (std::size_t i = 0; i < num_operands_; ++i) {
    combine_.push_back(Recognise(i));
    simple_ = simple_ && combine_.back() != Combine::kGeneral;
  }
}

ScatterKernel::~ScatterKernel() = default;

ScatterKernel::Combine ScatterKernel::Recognise(std::size_t output) const {
  const std::size_t reg = update_.outputs[output];
  const std::size_t operand = output, update = num_operands_ + output;
  if (reg == update) return Combine::kSet;
  const std::size_t first = update_.inputs.size() + update_.constants.size();
  if (reg < first) return Combine::kGeneral;
  const Instruction& code = update_.code[reg - first];
  const bool both = (code.operand[0] == operand && code.operand[1] == update) ||
                    (code.operand[0] == update && code.operand[1] == operand);
  const DType type = code.operand_type;
  if (!both || type != code.result_type) return Combine::kGeneral;
  const bool real = type == DType::kF32 || type == DType::kF64 || type == DType::kF16 || type == DType::kBF16;
  const bool integer =
      IsInteger(type) && type != DType::kS2 && type != DType::kS4 && type != DType::kU2 && type != DType::kU4;
  const bool logical = type == DType::kPred;
  switch (code.op) {
    case ScalarOp::kAdd:
      return real || integer || IsComplex(type) ? Combine::kAdd : Combine::kGeneral;
    case ScalarOp::kMultiply:
      return real || integer ? Combine::kMultiply : Combine::kGeneral;
    case ScalarOp::kMinimum:
      return real || integer || logical ? Combine::kMinimum : Combine::kGeneral;
    case ScalarOp::kMaximum:
      return real || integer || logical ? Combine::kMaximum : Combine::kGeneral;
    case ScalarOp::kAnd:
      return integer || logical ? Combine::kAnd : Combine::kGeneral;
    case ScalarOp::kOr:
      return integer || logical ? Combine::kOr : Combine::kGeneral;
    default:
      return Combine::kGeneral;
  }
}

void ScatterKernel::RunSimple(HostContext& context, const WindowRows& rows, const IndexedWindow& window,
                              const WindowPlacement& placement, bool unique, Combine combine,
                              const HostTensor& update, const HostTensor& out) const {
  const auto run = [&](auto op, auto zero) {
    CombineAll<decltype(zero), decltype(op)>(context, rows, window, placement, unique, update, out);
  };
  const auto integers = [&](auto op) {
    switch (out.type) {
      case DType::kPred:
      case DType::kU8:
        return run(op, std::uint8_t{});
      case DType::kU16:
        return run(op, std::uint16_t{});
      case DType::kU32:
        return run(op, std::uint32_t{});
      case DType::kU64:
        return run(op, std::uint64_t{});
      case DType::kS8:
        return run(op, std::int8_t{});
      case DType::kS16:
        return run(op, std::int16_t{});
      case DType::kS32:
        return run(op, std::int32_t{});
      case DType::kS64:
        return run(op, std::int64_t{});
      default:
        return;
    }
  };
  const auto reals = [&](auto op) {
    if (out.type == DType::kF32) return run(op, float{});
    if (out.type == DType::kF64) return run(op, double{});
    if (out.type == DType::kF16) return run(op, F16{});
    if (out.type == DType::kBF16) return run(op, BF16{});
    return integers(op);
  };
  switch (combine) {
    case Combine::kSet:
      switch (SizeOf(out.type)) {
        case 1:
          return run(Set{}, std::uint8_t{});
        case 2:
          return run(Set{}, std::uint16_t{});
        case 4:
          return run(Set{}, std::uint32_t{});
        case 8:
          return run(Set{}, std::uint64_t{});
        default:
          return run(Set{}, std::complex<double>{});
      }
    case Combine::kAdd:
      if (out.type == DType::kC64) return run(Add{}, std::complex<float>{});
      if (out.type == DType::kC128) return run(Add{}, std::complex<double>{});
      return reals(Add{});
    case Combine::kMultiply:
      return reals(Multiply{});
    case Combine::kMinimum:
      return reals(Minimum{});
    case Combine::kMaximum:
      return reals(Maximum{});
    case Combine::kAnd:
      return integers(And{});
    case Combine::kOr:
      return integers(Or{});
    case Combine::kGeneral:
      break;
  }
}

// Memory for n elements of every operand, update and result.
struct ScatterKernel::Buffers {
  std::vector<HostTensor> in, out;
};

ScatterKernel::Buffers ScatterKernel::Allocate(HostContext& context, std::int64_t elements,
                                               const HostTensor* updates) const {
  Buffers buffers;
  buffers.in.resize(2 * num_operands_);
  buffers.out.resize(num_operands_);
  for (std::size_t i = 0; i < num_operands_; ++i) {
    const DType type = updates[i].type;
    const std::size_t bytes = static_cast<std::size_t>(elements) * SizeOf(type);
    buffers.in[i] = Vector(type, elements, context.scratch.Allocate(bytes));
    buffers.in[num_operands_ + i] = Vector(type, elements, context.scratch.Allocate(bytes));
    buffers.out[i] = Vector(type, elements, context.scratch.Allocate(bytes));
  }
  return buffers;
}

void ScatterKernel::RunBlocks(HostContext& context, const IndexedWindow& window,
                              const WindowPlacement& placement, const HostTensor& indices,
                              const HostTensor* updates, const HostTensor* outs) const {
  const std::size_t operands = num_operands_;
  std::vector<WindowRows> rows;
  std::vector<WindowRows::Loop> loops;
  bool overlapping = false;
  for (std::size_t k = 0; k < operands; ++k) {
    rows.emplace_back(window, placement, outs[k], indices, updates[k]);
    loops.push_back(rows.back().WindowLoop());
    for (int d = 0; d < loops[k].rank; ++d) overlapping = overlapping || loops[k].indexed[d];
  }
  const std::int64_t elements = loops[0].elements, num_rows = rows[0].num_rows();
  const std::int64_t block =
      overlapping ? 1 : std::clamp<std::int64_t>(kBlockElements / elements, 1, kBlockRows);
  Buffers buffers = Allocate(context, block * elements, updates);
  std::int64_t* to = context.scratch.Allocate<std::int64_t>(operands * kBlockRows);
  std::int64_t* from = context.scratch.Allocate<std::int64_t>(operands * kBlockRows);
  std::int64_t active[kBlockRows], dense[kMaxRank];
  OffsetSet seen;

  const auto transfer = [&](std::size_t k, std::int64_t count, bool store) {
    const WindowRows::Loop& loop = loops[k];
    const std::size_t size = SizeOf(outs[k].type);
    const std::int64_t bytes = static_cast<std::int64_t>(size);
    for (std::int64_t d = loop.rank - 1, stride = 1; d >= 0; --d) {
      dense[d] = stride;
      stride *= loop.shape[d];
    }
    for (std::int64_t a = 0; a < count; ++a) {
      const std::int64_t row = static_cast<std::int64_t>(k) * kBlockRows + active[a];
      char* operand = outs[k].as<char>() + to[row] * bytes;
      const std::int64_t slot = a * elements * bytes;
      if (store) {
        CopyStrided(nullptr, loop.rank, loop.shape, buffers.out[k].as<char>() + slot, dense, operand,
                    loop.operand, size);
        continue;
      }
      CopyStrided(nullptr, loop.rank, loop.shape, operand, loop.operand, buffers.in[k].as<char>() + slot,
                  dense, size);
      CopyStrided(nullptr, loop.rank, loop.shape, updates[k].as<char>() + from[row] * bytes, loop.windows,
                  buffers.in[operands + k].as<char>() + slot, dense, size);
    }
  };

  for (std::int64_t begin = 0; begin < num_rows; begin += block) {
    const std::int64_t n = std::min(block, num_rows - begin);
    for (std::size_t k = 0; k < operands; ++k) {
      rows[k].Offsets(begin, n, false, to + k * kBlockRows, from + k * kBlockRows);
    }
    // A second update of the same window must see the result of the first, so it starts a new evaluation.
    for (std::int64_t i = 0; i < n;) {
      std::int64_t count = 0;
      for (seen.Clear(); i < n; ++i) {
        if (to[i] == WindowRows::kSkip) continue;
        if (!seen.Insert(to[i])) break;
        active[count++] = i;
      }
      if (count == 0) continue;
      for (std::size_t k = 0; k < operands; ++k) {
        transfer(k, count, false);
        buffers.in[k].shape[0] = buffers.in[operands + k].shape[0] = buffers.out[k].shape[0] =
            count * elements;
      }
      kernel_->Run(context, buffers.in, buffers.out);
      for (std::size_t k = 0; k < operands; ++k) transfer(k, count, true);
    }
  }
}

void ScatterKernel::RunClipped(HostContext& context, const IndexedWindow& window,
                               const WindowPlacement& placement, const HostTensor& indices,
                               const HostTensor* updates, const HostTensor* outs) const {
  std::vector<WindowRows> rows;
  for (std::size_t k = 0; k < num_operands_; ++k) {
    rows.emplace_back(window, placement, outs[k], indices, updates[k]);
  }
  const std::int64_t elements = rows[0].WindowLoop().elements;
  Buffers buffers = Allocate(context, elements, updates);
  std::int64_t begin[kMaxRank], window_begin[kMaxRank], extent[kMaxRank], dense[kMaxRank],
      update_strides[kMaxRank];
  for (std::int64_t r = 0; r < rows[0].num_rows(); ++r) {
    std::int64_t from = 0;
    bool inside = true;
    for (std::size_t k = 0; inside && k < num_operands_; ++k) {
      inside = rows[k].Clip(r, false, begin, window_begin, extent, &from);
      if (!inside) break;
      std::int64_t n = 1;
      for (int d = window.operand_rank - 1; d >= 0; --d) {
        dense[d] = n;
        n *= extent[d];
        update_strides[d] = window.window_dim[d] < 0 ? 1 : updates[k].strides[window.window_dim[d]];
        from += window.window_dim[d] < 0 ? 0 : window_begin[d] * update_strides[d];
      }
      const std::size_t size = SizeOf(outs[k].type);
      CopyStrided(nullptr, window.operand_rank, extent, SubTensor(outs[k], begin, extent).data,
                  outs[k].strides, buffers.in[k].data, dense, size);
      CopyStrided(nullptr, window.operand_rank, extent,
                  updates[k].as<char>() + from * static_cast<std::int64_t>(size), update_strides,
                  buffers.in[num_operands_ + k].data, dense, size);
      buffers.in[k].shape[0] = buffers.in[num_operands_ + k].shape[0] = buffers.out[k].shape[0] = n;
    }
    if (!inside) continue;
    kernel_->Run(context, buffers.in, buffers.out);
    for (std::size_t k = 0; k < num_operands_; ++k) {
      CopyStrided(nullptr, window.operand_rank, extent, buffers.out[k].data, dense,
                  SubTensor(outs[k], begin, extent).data, outs[k].strides, SizeOf(outs[k].type));
    }
  }
}

void ScatterKernel::Run(HostContext& context, const IndexedWindow& window, const WindowPlacement& placement,
                        bool unique, const HostTensor* operands, const HostTensor& indices,
                        const HostTensor* updates, const HostTensor* outs) const {
  for (std::size_t i = 0; i < num_operands_; ++i) CopyTensor(context, operands[i], outs[i]);
  if (updates[0].num_elements() == 0 || outs[0].num_elements() == 0) return;
  if (placement.clipped) return RunClipped(context, window, placement, indices, updates, outs);
  if (!simple_) return RunBlocks(context, window, placement, indices, updates, outs);
  for (std::size_t i = 0; i < num_operands_; ++i) {
    const WindowRows rows(window, placement, outs[i], indices, updates[i]);
    RunSimple(context, rows, window, placement, unique, combine_[i], updates[i], outs[i]);
  }
}

}  // namespace ipu_model
