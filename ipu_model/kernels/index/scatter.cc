// Scatter: one-operation updates are shared among threads, general ones are evaluated in blocks.
#include "kernels/index/scatter.h"

#include <algorithm>
#include <limits>

#include "kernels/copy/strided_copy.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/host/isa.h"
#include "kernels/index/bound_windows.h"
#include "kernels/index/combine_tables.h"
#include "kernels/index/ranged_windows.h"

namespace ipu_model {
namespace {

constexpr std::int64_t kBlockRows = 512;
// The number of elements in one evaluation of a general update.
constexpr std::int64_t kBlockElements = 2048;
constexpr std::int64_t kParallelElements = 16 << 10, kSelectedRows = 32 << 10;
// Windows of fewer elements cost less than the lists by which threads would share them.
constexpr std::int64_t kLeastOrdered = 2;
// From this many elements per thread on, threads share every window instead.
constexpr std::int64_t kWideWindow = 512;
// Up to this many threads, it costs less that each reads all indices than to order the rows.
constexpr int kMostSelecting = 4;

// The inner loops of the instruction set in use.
struct Loops {
  decltype(&avx2::CombineWindows) windows;
  decltype(&avx2::CombineElements) elements;
  decltype(&avx2::CombineSelected) selected;
};
Loops ChooseLoops() {
  if (HasAvx512()) return {avx512::CombineWindows, avx512::CombineElements, avx512::CombineSelected};
  return {avx2::CombineWindows, avx2::CombineElements, avx2::CombineSelected};
}

// The index types that the loops over elements have.
bool AreWide(DType index_type) {
  return index_type == DType::kS32 || index_type == DType::kS64 || index_type == DType::kU32;
}

// Combines the rows [begin, end) on one thread.
void CombineRows(Combine combine, const WindowRows& rows, const WindowRows::Loop& loop, std::int64_t begin,
                 std::int64_t end, const HostTensor& update, const void* updates, void* out) {
  const Loops loops = ChooseLoops();
  WindowRows::Elements elements;
  if (loop.rank == 0 && rows.AreElements(&elements) && AreWide(elements.type)) {
    return loops.elements(combine, update.type, elements, begin, end, updates, out);
  }
  std::int64_t to[kBlockRows], from[kBlockRows];
  for (std::int64_t r = begin; r < end; r += kBlockRows) {
    const std::int64_t n = std::min(kBlockRows, end - r);
    rows.Offsets(r, n, false, to, from);
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      to[count] = to[i];
      from[count] = from[i];
      count += to[i] != WindowRows::kSkip ? 1 : 0;
    }
    loops.windows(combine, update.type, loop, {to, from, count}, updates, out);
  }
}

// The division of one operand's work among threads, so that no two threads write the same element.
struct Share {
  enum class By { kNothing, kRows, kRanges, kIndices, kTables, kWindow } by = By::kNothing;
  int window_loop = 0;            // for kWindow
  OffsetRange operand, updates;   // for kRanges
  WindowRows::Elements elements;  // for kIndices, kTables
};

// Whether threads can select their rows by index.
bool CanSelect(const WindowRows& rows, WindowRows::Elements* elements) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  return rows.AreIndexed(elements) && elements->type == DType::kS32 && elements->index_stride == 1 &&
         elements->wrap <= kMost && elements->limit < kMost;
}

Share ChooseShare(Combine combine, const WindowRows& rows, const WindowRows::Loop& loop, bool unique,
                  const HostTensor& update, const HostTensor& out, int workers) {
  Share share;
  if (loop.elements == 1 && CanSelect(rows, &share.elements) &&
      CombinesInTables(combine, update.type, share.elements, rows.num_rows())) {
    share.by = Share::By::kTables;
    return share;
  }
  if (workers == 1 || rows.num_rows() * loop.elements < kParallelElements) return share;
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
    return share;
  }
  if (loop.elements == 1 && CanSelect(rows, &share.elements)) {
    if (rows.num_rows() >= kSelectedRows) share.by = Share::By::kIndices;
    return share;
  }
  if (!overlapping && loop.elements < kWideWindow && workers <= kMostSelecting &&
      rows.num_rows() >= kSelectedRows && CanSelect(rows, &share.elements)) {
    share.by = Share::By::kIndices;
    return share;
  }
  const std::int64_t width = widest < 0 ? 1 : loop.shape[widest];
  share.operand = OffsetRange::Of(out);
  share.updates = OffsetRange::Of(update);
  const bool ranges = !overlapping && loop.elements >= kLeastOrdered && share.operand.FitsWord() &&
                      share.updates.FitsWord() && rows.num_rows() >= 4 * workers;
  if (ranges && width < kWideWindow * workers) {
    share.by = Share::By::kRanges;
  } else if (width >= 32) {
    share.by = Share::By::kWindow;
    share.window_loop = widest;
  }
  return share;
}

void CombineAll(HostContext& context, Combine combine, const WindowRows& rows, bool unique,
                const HostTensor& update, const HostTensor& out) {
  const WindowRows::Loop loop = rows.WindowLoop();
  const Share share = ChooseShare(combine, rows, loop, unique, update, out, context.pool.size());
  const std::int64_t n = rows.num_rows();
  switch (share.by) {
    case Share::By::kNothing:
      CombineRows(combine, rows, loop, 0, n, update, update.data, out.data);
      break;
    case Share::By::kRows:
      ParallelFor(context.pool, n, 16, [&](std::int64_t begin, std::int64_t end) {
        CombineRows(combine, rows, loop, begin, end, update, update.data, out.data);
      });
      break;
    case Share::By::kRanges:
      for (std::int64_t begin = 0; begin < n; begin += RangedWindows::kMostRows) {
        const Scratch::Mark mark = context.scratch.Save();
        const RangedWindows parts(context, rows, begin, std::min(n, begin + RangedWindows::kMostRows),
                                  share.operand, share.updates);
        ParallelFor(context.pool, parts.num_ranges(), 1, [&](std::int64_t first, std::int64_t last) {
          const auto windows = ChooseLoops().windows;
          for (std::int64_t range = first; range < last; ++range) {
            parts.ForEach(static_cast<int>(range), [&](const WindowList& list) {
              windows(combine, update.type, loop, list, update.data, out.data);
            });
          }
        });
        context.scratch.Rewind(mark);
      }
      break;
    case Share::By::kIndices:
      // One piece per worker, because every call reads all indices.
      ParallelFor(
          context.pool, share.elements.limit + 1, loop.elements > 1 ? 4 : 64,
          [&](std::int64_t begin, std::int64_t end) {
            ChooseLoops().selected(combine, update.type, loop, share.elements, n, begin, end, update.data,
                                   out.data);
          },
          1);
      break;
    case Share::By::kTables:
      CombineInTables(context, combine, update.type, share.elements, n, update.data, out.data);
      break;
    case Share::By::kWindow:
      ParallelFor(
          context.pool, loop.shape[share.window_loop], 16,
          [&](std::int64_t begin, std::int64_t end) {
            WindowRows::Loop part = loop;
            part.shape[share.window_loop] = end - begin;
            part.elements = loop.elements / loop.shape[share.window_loop] * (end - begin);
            const auto size = static_cast<std::int64_t>(SizeOf(update.type));
            CombineRows(combine, rows, part, 0, n, update,
                        update.as<char>() + begin * loop.windows[share.window_loop] * size,
                        out.as<char>() + begin * loop.operand[share.window_loop] * size);
          },
          1);
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

Combine ScatterKernel::Recognise(std::size_t output) const {
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
    buffers.in[i] = DenseVector(type, elements, context.scratch.Allocate(bytes));
    buffers.in[num_operands_ + i] = DenseVector(type, elements, context.scratch.Allocate(bytes));
    buffers.out[i] = DenseVector(type, elements, context.scratch.Allocate(bytes));
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
    SetDenseStrides(loop.rank, loop.shape, dense);
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
    CombineAll(context, combine_[i], rows, unique, updates[i], outs[i]);
  }
}

std::unique_ptr<BoundKernel> ScatterKernel::Bind(const IndexedWindow& window,
                                                 const WindowPlacement& placement, const HostTensor* operands,
                                                 const HostTensor& indices, const HostTensor* updates,
                                                 const HostTensor* outs, bool in_place) const {
  if (!simple_ || placement.clipped) return nullptr;
  auto list = std::make_unique<CallList>();
  for (std::size_t i = 0; i < num_operands_; ++i) {
    const bool copied =
        in_place || AddCopy(list.get(), operands[i], CallList::Input(i), outs[i], CallList::Output(i));
    const ScatterTensors tensors{indices, updates[i], outs[i], num_operands_, num_operands_ + 1 + i, i};
    if (!copied || !AddScatter(list.get(), combine_[i], window, placement, tensors)) return nullptr;
  }
  return list;
}

}  // namespace ipu_model
