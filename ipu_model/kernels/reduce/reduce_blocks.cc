#include "kernels/reduce/reduce_blocks.h"

#include <algorithm>
#include <cstring>

#include "kernels/reduce/reduce_pack.h"

namespace ipu_model {
namespace {

// A reduction uses several threads from this many elements on.
constexpr std::int64_t kElementsForThreads = 1 << 16;

}  // namespace

BlockReduction::BlockReduction(HostContext& context, const ReduceLoops& loops, const HostTensor* values,
                               std::uint32_t dimensions)
    : context_(context),
      loops_(loops),
      values_(values),
      plan_(MakeReducePlan(values, loops.argument != nullptr ? 2 : 1, dimensions, loops.argument == nullptr)),
      load_(LoadFunction(values[0].type)),
      element_(SizeOf(values[0].type)),
      size_(SizeOf(RegisterTypeOf(values[0].type))),
      index_size_(loops.argument != nullptr ? SizeOf(values[1].type) : 0),
      float_sum_(loops.argument == nullptr && loops.op == ReduceOp::kAdd &&
                 RegisterTypeOf(values[0].type) == RegisterType::kF32),
      inner_(plan_.reduced.rank - 1),
      lane_stride_(plan_.kept.rank > 0 ? plan_.kept.stride[0][plan_.lane] : 0) {
  for (int d = plan_.lane + 1; d < plan_.kept.rank; ++d) result_stride_ *= plan_.kept.extent[d];
}

void BlockReduction::Run(void* const* totals) {
  const int count = loops_.argument != nullptr ? 2 : 1;
  for (int i = 0; i < count; ++i) totals_[i] = static_cast<unsigned char*>(totals[i]);
  if (count == 1 && load_ == nullptr && plan_.short_rows(size_)) return RunShortRows();
  if (count == 1 && load_ == nullptr && loops_.single->rows != nullptr && plan_.many_rows()) return RunRows();
  if (count == 2 && load_ == nullptr && loops_.argument->short_rows != nullptr && plan_.short_rows(size_) &&
      plan_.kept.stride[1][0] == 0) {
    return RunArgumentRows();
  }

  const std::int64_t results = plan_.kept.count, work = plan_.items * plan_.segments;
  for (int i = 0; i < count; ++i)
    more_[i] = static_cast<unsigned char*>(context_.scratch.Allocate(
        static_cast<std::size_t>((plan_.segments - 1) * results) * (i == 0 ? size_ : index_size_)));
  ThreadPool& pool = context_.pool;
  const int workers = results * plan_.reduced.count < kElementsForThreads
                          ? 1
                          : static_cast<int>(std::min<std::int64_t>(work, pool.size()));
  auto* memory =
      static_cast<unsigned char*>(context_.scratch.Allocate(4 * kBuffer * static_cast<std::size_t>(workers)));
  if (workers == 1) {
    RunItems(memory, 0, work);
  } else {
    const std::int64_t parts = std::min(work, workers * kPiecesPerWorker);
    WorkShares shares(parts, workers);
    auto task = [&](int worker) {
      unsigned char* buffer = memory + 4 * kBuffer * static_cast<std::size_t>(worker);
      for (std::int64_t p = shares.Next(worker); p != WorkShares::kNone; p = shares.Next(worker))
        RunItems(buffer, work * p / parts, work * (p + 1) / parts);
    };
    pool.Run(workers, TaskRef(task));
  }
  for (std::int64_t s = 1; s < plan_.segments; ++s) {
    if (loops_.argument != nullptr) {
      loops_.argument->lanes(totals_[0], totals_[1], Total(0, s, 0), 1, Total(1, s, 0), 1, results);
    } else {
      loops_.single->lanes(totals_[0], Total(0, s, 0), 1, results);
    }
  }
}

void BlockReduction::RunShortRows() {
  const auto rows = [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t stride = plan_.kept.stride[0][0];
    loops_.single->short_rows(Total(0, 0, begin), Base(0, begin * stride), stride, end - begin, plan_.length);
  };
  const std::int64_t results = plan_.kept.count;
  if (results * plan_.length < kElementsForThreads) return rows(0, results);
  ParallelFor(context_.pool, results, 64, rows);
}

void BlockReduction::RunArgumentRows() {
  const std::int64_t stride = plan_.kept.stride[0][0], index_stride = plan_.reduced.stride[1][0];
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    const unsigned char* indices = Base(1, 0);
    std::int64_t r = begin + loops_.argument->short_rows(Base(0, begin * stride), stride, indices,
                                                         index_stride, end - begin, plan_.length,
                                                         Total(0, 0, begin), Total(1, 0, begin));
    for (; r < end; ++r)
      loops_.argument->row(Base(0, r * stride), indices, index_stride, plan_.length, Total(0, 0, r),
                           Total(1, 0, r));
  };
  const std::int64_t results = plan_.kept.count;
  if (results * plan_.length < kElementsForThreads) return run(0, results);
  ParallelFor(context_.pool, results, 64, run);
}

void BlockReduction::RunRows() {
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t stride = plan_.kept.stride[0][0];
    std::int64_t r = begin;
    r += loops_.single->rows(Total(0, 0, begin), Base(0, begin * stride), stride, end - begin, plan_.length);
    for (; r < end; ++r) loops_.single->row(Base(0, r * stride), plan_.length, Total(0, 0, r));
  };
  const std::int64_t results = plan_.kept.count;
  if (results * plan_.length < kElementsForThreads) return run(0, results);
  ParallelFor(context_.pool, results, 16, run);
}

void BlockReduction::RunItems(unsigned char* buffer, std::int64_t begin, std::int64_t end) {
  const std::int64_t units = plan_.units, segments = plan_.segments;
  const bool argument = loops_.argument != nullptr;
  for (std::int64_t w = begin; w < end; ++w) {
    Item item{w, 0, 0, units};
    if (segments != 1) {
      item.index = w / segments;
      item.segment = w % segments;
      item.first = units * item.segment / segments;
      item.last = units * (item.segment + 1) / segments;
    }
    if (plan_.rows) {
      argument ? ArgumentRowItem(item, buffer) : RowItem(item, buffer);
    } else if (plan_.folded) {
      FoldedItem(item, buffer);
    } else {
      argument ? ArgumentLaneItem(item, buffer) : LaneItem(item, buffer);
    }
  }
}

unsigned char* BlockReduction::Total(int i, std::int64_t segment, std::int64_t result) const {
  const std::size_t bytes = i == 0 ? size_ : index_size_;
  unsigned char* base = segment == 0
                            ? totals_[i]
                            : more_[i] + static_cast<std::size_t>((segment - 1) * plan_.kept.count) * bytes;
  return base + static_cast<std::size_t>(result) * bytes;
}

const unsigned char* BlockReduction::Consecutive(std::int64_t offset, std::int64_t stride, std::int64_t n,
                                                 unsigned char* buffer) const {
  const unsigned char* p = Base(0, offset);
  if (stride != 1) {
    Pack(buffer, p, stride, n, element_);
    p = buffer;
    buffer += kBuffer;
  }
  if (load_ == nullptr) return p;
  load_({buffer, {p}, n, 0, 0});
  return buffer;
}

const unsigned char* BlockReduction::ConsecutiveRows(std::int64_t offset, std::int64_t rows, std::int64_t n,
                                                     unsigned char* buffer) const {
  const std::int64_t row_stride = inner_ >= 0 ? plan_.reduced.stride[0][inner_] : 0;
  unsigned char* to = buffer + kBuffer;
  for (std::int64_t r = 0; r < rows; ++r, to += static_cast<std::size_t>(n) * size_) {
    const unsigned char* p = Base(0, offset + r * row_stride);
    if (load_ == nullptr) {
      Pack(to, p, lane_stride_, n, element_);
      continue;
    }
    if (lane_stride_ != 1) {
      Pack(buffer, p, lane_stride_, n, element_);
      p = buffer;
    }
    load_({to, {p}, n, 0, 0});
  }
  return buffer + kBuffer;
}

BlockReduction::Piece BlockReduction::PieceOf(std::int64_t unit) const {
  const std::int64_t begin = unit % plan_.pieces * ReducePlan::kRowPiece;
  return {unit / plan_.pieces, begin, std::min(ReducePlan::kRowPiece, plan_.length - begin)};
}

std::int64_t BlockReduction::OffsetOf(int i, const Piece& piece, std::int64_t result) const {
  return plan_.kept.Offset(i, result) + plan_.reduced.Offset(i, piece.row * plan_.length) +
         piece.begin * RowStride(i);
}

void BlockReduction::RowItem(const Item& item, unsigned char* buffer) {
  unsigned char* result = Total(0, item.segment, item.index);
  if (plan_.units == 1) {
    loops_.single->row(Consecutive(plan_.kept.Offset(0, item.index), RowStride(0), plan_.length, buffer),
                       plan_.length, result);
    return;
  }
  if (plan_.pieces == 1 && inner_ > 0 && RowStride(0) == 1 && load_ == nullptr)
    return ManyRowsItem(item, buffer);
  double sum = 0;
  for (std::int64_t unit = item.first; unit < item.last; ++unit) {
    const Piece piece = PieceOf(unit);
    alignas(16) unsigned char more[16];
    unsigned char* total = unit == item.first ? result : more;
    loops_.single->row(Consecutive(OffsetOf(0, piece, item.index), RowStride(0), piece.elements, buffer),
                       piece.elements, total);
    if (float_sum_) {
      float value;
      std::memcpy(&value, total, sizeof(value));
      sum += static_cast<double>(value);
    } else if (unit != item.first) {
      loops_.single->lanes(result, more, 1, 1);
    }
  }
  if (float_sum_ && item.last - item.first > 1) {
    const auto value = static_cast<float>(sum);
    std::memcpy(result, &value, sizeof(value));
  }
}

void BlockReduction::ManyRowsItem(const Item& item, unsigned char* buffer) {
  const int outer = inner_ - 1;
  const std::int64_t stride = plan_.reduced.stride[0][outer], extent = plan_.reduced.extent[outer];
  const std::int64_t length = plan_.length, most = static_cast<std::int64_t>(kBuffer / size_);
  unsigned char* result = Total(0, item.segment, item.index);
  double sum = 0;
  for (std::int64_t unit = item.first; unit < item.last;) {
    const std::int64_t rows = std::min({item.last - unit, extent - unit % extent, most});
    const std::int64_t offset = OffsetOf(0, PieceOf(unit), item.index);
    std::int64_t r = 0;
    if (length < ShortRowElements(size_) && loops_.single->short_rows != nullptr) {
      loops_.single->short_rows(buffer, Base(0, offset), stride, rows, length);
      r = rows;
    } else if (loops_.single->rows != nullptr) {
      r = loops_.single->rows(buffer, Base(0, offset), stride, rows, length);
    }
    for (; r < rows; ++r)
      loops_.single->row(Base(0, offset + r * stride), length, buffer + static_cast<std::size_t>(r) * size_);
    if (float_sum_) {
      for (r = 0; r < rows; ++r) {
        float value;
        std::memcpy(&value, buffer + static_cast<std::size_t>(r) * size_, sizeof(value));
        sum += static_cast<double>(value);
      }
    } else {
      alignas(16) unsigned char more[16];
      loops_.single->row(buffer, rows, unit == item.first ? result : more);
      if (unit != item.first) loops_.single->lanes(result, more, 1, 1);
    }
    unit += rows;
  }
  if (float_sum_) {
    const auto value = static_cast<float>(sum);
    std::memcpy(result, &value, sizeof(value));
  }
}

void BlockReduction::ArgumentRowItem(const Item& item, unsigned char* buffer) {
  unsigned char *result = Total(0, item.segment, item.index), *best = Total(1, item.segment, item.index);
  for (std::int64_t unit = item.first; unit < item.last; ++unit) {
    const Piece piece = PieceOf(unit);
    const unsigned char* p =
        Consecutive(OffsetOf(0, piece, item.index), RowStride(0), piece.elements, buffer);
    const unsigned char* x = Base(1, OffsetOf(1, piece, item.index));
    if (unit == item.first) {
      loops_.argument->row(p, x, RowStride(1), piece.elements, result, best);
    } else {
      alignas(16) unsigned char value[16], index[16];
      loops_.argument->row(p, x, RowStride(1), piece.elements, value, index);
      loops_.argument->lanes(result, best, value, 1, index, 1, 1);
    }
  }
}

void BlockReduction::FoldedItem(const Item& item, unsigned char* buffer) {
  const std::int64_t run = plan_.length * plan_.lanes,
                     piece = ReducePlan::kRowPiece / plan_.lanes * plan_.lanes;
  const std::int64_t pieces = plan_.pieces;
  unsigned char* sum = buffer + 2 * kBuffer;
  std::int64_t width = 0;
  for (std::int64_t unit = item.first; unit < item.last; ++unit) {
    const std::int64_t begin = unit % pieces * piece, end = unit % pieces == pieces - 1 ? run : begin + piece;
    const std::int64_t offset = plan_.reduced.Offset(0, unit / pieces * plan_.length);
    std::int64_t at = begin;
    if (unit == item.first) {
      width = std::min(end - begin, ReducePlan::kLaneChunk / plan_.lanes * plan_.lanes);
      std::memcpy(sum, Consecutive(offset + at, 1, width, buffer), static_cast<std::size_t>(width) * size_);
      at += width;
    }
    while (at < end) {
      // As many rows of the accumulators at once as fit into the buffer, and then the rest.
      const std::int64_t fit = load_ == nullptr ? (end - at) / width : ReducePlan::kRowPiece / width;
      const std::int64_t rows = std::min((end - at) / width, fit);
      const std::int64_t n = rows > 0 ? rows * width : end - at;
      loops_.single->columns(sum, Consecutive(offset + at, 1, n, buffer), width,
                             std::max<std::int64_t>(rows, 1), std::min(n, width));
      at += n;
    }
  }
  for (std::int64_t at = plan_.lanes; at < width; at += plan_.lanes)
    loops_.single->lanes(sum, sum + static_cast<std::size_t>(at) * size_, 1, plan_.lanes);
  std::memcpy(Total(0, item.segment, 0), sum, static_cast<std::size_t>(plan_.lanes) * size_);
}

BlockReduction::LaneState BlockReduction::StateOf(const Item& item, unsigned char* buffer) const {
  const std::int64_t line = item.index / plan_.chunks,
                     begin = item.index % plan_.chunks * ReducePlan::kLaneChunk;
  LaneState state;
  state.lanes = std::min(ReducePlan::kLaneChunk, plan_.lanes - begin);
  // The line's first result, plus the chunk's offset.
  state.result =
      line / result_stride_ * result_stride_ * plan_.lanes + line % result_stride_ + begin * result_stride_;
  state.best = buffer + 2 * kBuffer;
  state.sum = state.best + kBuffer;
  return state;
}

// Adds rows from `unit` on, and returns how many.
std::int64_t BlockReduction::AddLaneRows(const Item& item, std::int64_t unit, std::int64_t offset,
                                         LaneState* state, unsigned char* buffer) {
  const std::int64_t n = state->lanes;
  const std::size_t bytes = static_cast<std::size_t>(n) * size_;
  // As many rows at once as have one stride and fit into the buffer.
  const std::int64_t until_flush =
      ReducePlan::kRowsBeforeFlush - (unit - item.first) % ReducePlan::kRowsBeforeFlush;
  std::int64_t rows = std::min({item.last - unit, plan_.length - unit % plan_.length, until_flush});
  std::int64_t row_stride = inner_ >= 0 ? plan_.reduced.stride[0][inner_] : 0;
  const unsigned char* p = Base(0, offset);
  if (load_ != nullptr || lane_stride_ != 1) {
    rows = std::min(rows, static_cast<std::int64_t>(kBuffer / size_) / n);
    p = ConsecutiveRows(offset, rows, n, buffer);
    row_stride = n;
  }
  if (!state->have_best) std::memcpy(state->best, p, bytes);
  const std::int64_t done = state->have_best ? 0 : 1;
  loops_.single->columns(state->best, p + done * row_stride * static_cast<std::int64_t>(size_), row_stride,
                         rows - done, n);
  state->have_best = true;
  if (float_sum_ && rows == until_flush) {
    if (state->have_sum) {
      loops_.single->lanes(state->sum, state->best, 1, n);
    } else {
      std::memcpy(state->sum, state->best, bytes);
    }
    state->have_sum = true;
    state->have_best = false;
  }
  return rows;
}

void BlockReduction::LaneItem(const Item& item, unsigned char* buffer) {
  LaneState state = StateOf(item, buffer);
  const std::int64_t start = plan_.kept.Offset(0, state.result);
  for (std::int64_t unit = item.first; unit < item.last;)
    unit += AddLaneRows(item, unit, start + plan_.reduced.Offset(0, unit), &state, buffer);
  if (state.have_sum && state.have_best) loops_.single->lanes(state.sum, state.best, 1, state.lanes);
  StoreLanes(item, state, state.have_sum ? state.sum : state.best, nullptr);
}

void BlockReduction::ArgumentLaneItem(const Item& item, unsigned char* buffer) {
  const LaneState state = StateOf(item, buffer);
  const std::int64_t n = state.lanes, index_stride = plan_.kept.stride[1][plan_.lane];
  unsigned char *best = state.best, *index = state.sum;
  // The loop over values with indices vectorises only on consecutive values.
  const bool direct = load_ == nullptr && lane_stride_ == 1;
  for (std::int64_t unit = item.first; unit < item.last; ++unit) {
    const std::int64_t offset = plan_.kept.Offset(0, state.result) + plan_.reduced.Offset(0, unit);
    const unsigned char* p = direct ? Base(0, offset) : Consecutive(offset, lane_stride_, n, buffer);
    const unsigned char* x = Base(1, plan_.kept.Offset(1, state.result) + plan_.reduced.Offset(1, unit));
    if (unit == item.first) {
      Pack(best, p, 1, n, size_);
      Pack(index, x, index_stride, n, index_size_);
    } else {
      loops_.argument->lanes(best, index, p, 1, x, index_stride, n);
    }
  }
  StoreLanes(item, state, best, index);
}

void BlockReduction::StoreLanes(const Item& item, const LaneState& state, const unsigned char* values,
                                const unsigned char* index) {
  const unsigned char* from[2] = {values, index};
  for (int i = 0; i < 2 && from[i] != nullptr; ++i) {
    const std::size_t bytes = i == 0 ? size_ : index_size_;
    if (result_stride_ == 1) {
      std::memcpy(Total(i, item.segment, state.result), from[i],
                  static_cast<std::size_t>(state.lanes) * bytes);
      continue;
    }
    for (std::int64_t lane = 0; lane < state.lanes; ++lane)
      std::memcpy(Total(i, item.segment, state.result + lane * result_stride_),
                  from[i] + static_cast<std::size_t>(lane) * bytes, bytes);
  }
}

}  // namespace ipu_model
