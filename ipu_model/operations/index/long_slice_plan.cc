// Long slices as shifts by the digits of a start, one superstep each.
#include "operations/index/long_slice_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/target/target_model.h"
#include "kernels/copy/slice.h"
#include "kernels/copy/strided_copy.h"
#include "kernels/host/integer_division.h"
#include "operations/elementwise/elementwise_steps.h"
#include "operations/index/index_cost.h"
#include "operations/index/slice_grid.h"

namespace ipu_model {
namespace {

// Number of source positions that a vertex reads per superstep. A larger radix gives fewer supersteps and
// larger exchanges.
constexpr std::int64_t kRadix = 4;

// A digit of the start of one dimension, in units of `weight`. The weight of the digit before is `above`, a
// multiple.
struct Digit {
  std::size_t dim;
  std::int64_t weight, above;

  std::int64_t num_values() const { return above / weight; }
  std::int64_t ValueIn(std::int64_t start) const { return start % above / weight; }
};

// The radices of digits for at least `values` values, most significant first. They are as many as with the
// largest radix alone, and their product is as small as that allows: a slice is held with as many elements
// more as its first digit weighs.
std::vector<std::int64_t> RadicesFor(std::int64_t values) {
  std::size_t digits = 0;
  for (std::int64_t product = 1; product < values; product *= kRadix) ++digits;
  std::vector<std::int64_t> best(digits, kRadix);
  double least = std::pow(kRadix, digits);
  for (std::size_t twos = 0; twos <= std::min<std::size_t>(1, digits); ++twos) {
    for (std::size_t threes = 0; twos + threes <= digits; ++threes) {
      std::vector<std::int64_t> radices(digits, kRadix);
      std::fill_n(radices.rbegin(), twos + threes, 3);
      std::fill_n(radices.rbegin(), twos, 2);
      double product = 1;
      for (const std::int64_t radix : radices) product *= static_cast<double>(radix);
      if (product < static_cast<double>(values) || product >= least) continue;
      least = product;
      best = std::move(radices);
    }
  }
  return best;
}

// Returns the digits, most significant first.
std::vector<Digit> DigitsOfStarts(const Shape& whole, const Shape& window) {
  std::vector<Digit> digits;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    const std::vector<std::int64_t> radices = RadicesFor(whole[d] - window[d] + 1);
    std::int64_t above = 1;
    for (const std::int64_t radix : radices) above *= radix;
    for (const std::int64_t radix : radices) {
      digits.push_back({d, above / radix, above});
      above /= radix;
    }
  }
  return digits;
}

std::int64_t ClampedStart(const HostTensor& start, std::int64_t room) {
  return std::clamp<std::int64_t>(ReadIndex(start.type, start.data), 0, room);
}

// `box`, moved by `shift` along `dim`, as far as it lies in a tensor of extents `shape`.
Box Moved(Box box, std::size_t dim, std::int64_t shift, const Shape& shape) {
  box.begin[dim] += shift;
  box.end[dim] += shift;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    box.begin[d] = std::clamp<std::int64_t>(box.begin[d], 0, shape[d]);
    box.end[d] = std::clamp<std::int64_t>(box.end[d], box.begin[d], shape[d]);
  }
  return box;
}

struct Source {
  OperandRef tensor;
  Shape shape;
};

// to[i] = from[i + direction * weight * digit]; elements from outside are zero.
struct ShiftStep {
  Digit digit;
  std::int64_t direction;
  std::int64_t room;  // the largest start
  unsigned first_start;
  DType type;

  std::int64_t Shift(std::int64_t value) const { return direction * value * digit.weight; }

  // What all vertices have that read `from`.
  VertexGroup Group(const Source& from, const char* codelet) const {
    VertexGroup group;
    group.codelet = codelet;
    group.code_bytes = 300;
    group.vertex_bytes = 12 + 8 * kRadix;
    for (std::int64_t value = 0; value < digit.num_values(); ++value) {
      group.reads.push_back({from.tensor, [shape = from.shape, dim = digit.dim, shift = Shift(value)](
                                              const Box& box) { return Moved(box, dim, shift, shape); }});
    }
    group.cycles = [type = type](const TargetModel& target, const Box& box) {
      return DynamicSliceCycles(target, type, box.num_elements());
    };
    return group;
  }

  VertexGroup Move(const Source& from, OperandRef to) const {
    VertexGroup group = Group(from, "popops::DynamicSliceShift");
    group.reads.push_back({{OperandRef::Kind::kInput, first_start + static_cast<unsigned>(digit.dim)},
                           [](const Box&) { return Box{}; }});
    group.writes.push_back({to, [](const Box& box) { return box; }, true});
    group.compute = [step = *this, shape = from.shape](HostContext& host, const Box& box,
                                                       const std::vector<HostTensor>& reads,
                                                       const std::vector<HostTensor>& writes) {
      const HostTensor& out = writes[0];
      std::memset(out.data, 0, static_cast<std::size_t>(out.num_elements()) * SizeOf(out.type));
      const std::int64_t value = step.digit.ValueIn(ClampedStart(reads.back(), step.room));
      const Box region = Moved(box, step.digit.dim, step.Shift(value), shape);
      if (region.num_elements() == 0) return;
      std::int64_t to[kMaxRank], extents[kMaxRank];
      for (std::size_t d = 0; d < shape.size(); ++d) {
        to[d] = region.begin[d] - (d == step.digit.dim ? step.Shift(value) : 0) - box.begin[d];
        extents[d] = region.end[d] - region.begin[d];
      }
      CopyTensor(host, reads[static_cast<std::size_t>(value)], SubTensor(out, to, extents));
    };
    return group;
  }

  // The last shift of an update, from `from` into the operand.
  VertexGroup Place(const Source& from, const Shape& operand, const Shape& update) const {
    VertexGroup group = Group(from, "popops::DynamicUpdatePlace");
    group.reads.push_back({{OperandRef::Kind::kInput, 0}, [](const Box& box) { return box; }, true});
    for (unsigned d = 0; d < operand.size(); ++d)
      group.reads.push_back({{OperandRef::Kind::kInput, first_start + d}, [](const Box&) { return Box{}; }});
    group.writes.push_back({{OperandRef::Kind::kOutput, 0}, [](const Box& box) { return box; }, true});
    group.compute = [step = *this, shape = from.shape, operand, update](
                        HostContext& host, const Box& box, const std::vector<HostTensor>& reads,
                        const std::vector<HostTensor>& writes) {
      const auto values = static_cast<std::size_t>(step.digit.num_values());
      CopyTensor(host, reads[values], writes[0]);
      std::int64_t begin[kMaxRank], source[kMaxRank], extents[kMaxRank], value = 0;
      for (std::size_t d = 0; d < operand.size(); ++d) {
        const std::int64_t start = ClampedStart(reads[values + 1 + d], operand[d] - update[d]);
        if (d == step.digit.dim) value = step.digit.ValueIn(start);
        source[d] = std::max(start, box.begin[d]);
        begin[d] = source[d] - box.begin[d];
        extents[d] = std::min(start + update[d], box.end[d]) - source[d];
        if (extents[d] <= 0) return;
      }
      const Box region = Moved(box, step.digit.dim, step.Shift(value), shape);
      for (std::size_t d = 0; d < operand.size(); ++d)
        source[d] += (d == step.digit.dim ? step.Shift(value) : 0) - region.begin[d];
      CopyTensor(host, SubTensor(reads[static_cast<std::size_t>(value)], source, extents),
                 SubTensor(writes[0], begin, extents));
    };
    return group;
  }
};

// The supersteps of all digits. Two temporaries hold what they have moved, in turns, on the same tiles, so
// that small shifts move little between tiles.
class Shifts {
 public:
  // `held`: the extents of a temporary.
  Shifts(DType type, unsigned num_tiles, std::int64_t limit, const Shape& held, std::size_t num_digits)
      : type_(type),
        num_tiles_(num_tiles),
        held_(held),
        vertices_(SpreadGrid(held, type, num_tiles).Vertices()) {
    for (std::size_t t = 0; t < std::min<std::size_t>(2, num_digits - 1); ++t)
      made_.plan.temporaries.push_back({type, SpreadGrid(held, type, num_tiles)});
    const auto temporaries = static_cast<std::int64_t>(made_.plan.temporaries.size());
    if (limit > 0) buffer_bytes_ = std::max(limit - temporaries * LargestBytes(vertices_), limit / 16);
  }

  // Shifts into a temporary; returns it.
  Source Hold(const ShiftStep& step, const Source& from) {
    const OperandRef to = {OperandRef::Kind::kTemporary, next_};
    next_ = 1 - next_;
    Add(step.Move(from, to), step.digit, vertices_);
    return {to, held_};
  }
  // Adds a group for all `vertices`.
  void Add(const VertexGroup& group, const Digit& digit, const std::vector<Vertex>& vertices) {
    const std::int64_t received = digit.num_values() * LargestBytes(vertices);
    const std::int64_t steps =
        buffer_bytes_ == 0 ? 1 : std::clamp<std::int64_t>(CeilDivide(received, buffer_bytes_), 1, kMostParts);
    for (std::vector<Vertex>& part : CutIntoSteps(vertices, steps, num_tiles_)) {
      if (part.empty()) continue;
      made_.plan.supersteps.push_back({{group}});
      made_.plan.supersteps.back().groups[0].vertices = std::move(part);
      made_.digits.push_back(
          {digit.dim, static_cast<std::size_t>(digit.weight), static_cast<std::size_t>(digit.above)});
    }
  }
  LongSlice Take() { return std::move(made_); }

 private:
  // The most supersteps of one digit.
  static constexpr std::int64_t kMostParts = 64;

  std::int64_t LargestBytes(const std::vector<Vertex>& vertices) const {
    std::int64_t most = 0;
    for (const Vertex& vertex : vertices) most = std::max(most, vertex.box.num_elements());
    return most * static_cast<std::int64_t>(SizeOf(type_));
  }

  DType type_;
  unsigned num_tiles_, next_ = 0;
  Shape held_;
  std::vector<Vertex> vertices_;
  std::int64_t buffer_bytes_ = 0;  // 0: as many as one superstep takes
  LongSlice made_;
};

// The extents of a window that starts below the weight of a digit: of `whole` in later dimensions, which have
// not been moved.
Shape HeldShape(const Shape& whole, const Shape& window, const Digit& digit) {
  Shape held = whole;
  held[digit.dim] = std::min(whole[digit.dim], window[digit.dim] + digit.weight - 1);
  return held;
}

}  // namespace

bool IsLongSlice(const Shape& whole, const Shape& window, DType type, const TargetModel& target,
                 unsigned num_tiles) {
  if (window == whole) return false;  // nothing to shift
  std::int64_t dynamic = 1, spread = 1;
  for (std::size_t d = 0; d < whole.size(); ++d) (window[d] < whole[d] ? dynamic : spread) *= window[d];
  const std::int64_t per_tile = dynamic * CeilDivide(spread, num_tiles);
  const auto size = static_cast<std::int64_t>(SizeOf(type));
  if (per_tile * size > SliceBudget(target.bytes_per_tile) / 2) return true;
  const std::int64_t own = CeilDivide(dynamic * spread, num_tiles);
  const auto exchange = [&](std::int64_t elements) {
    return static_cast<std::uint64_t>(elements * size) / target.exchange_bytes_per_cycle;
  };
  const std::uint64_t digit =
      DynamicSliceCycles(target, type, own) + 2 * target.sync_cycles + exchange(kRadix * own);
  // A tensor that is cut over several tiles gives a part of the window on each, of which one tile picks.
  std::int64_t held = CeilDivide(spread, num_tiles) * size;
  for (std::size_t d = 0; d < whole.size(); ++d) held *= window[d] < whole[d] ? whole[d] : 1;
  const bool is_cut = held > SliceBudget(target.bytes_per_tile);
  const std::uint64_t gathered =
      DynamicSliceCycles(target, type, per_tile) + (is_cut ? exchange(per_tile) : 0);
  return gathered > DigitsOfStarts(whole, window).size() * digit;
}

LongSlice PlanLongSlice(const Shape& operand, const Shape& window, DType type, unsigned num_tiles,
                        std::int64_t limit) {
  const std::vector<Digit> digits = DigitsOfStarts(operand, window);
  Shifts shifts(type, num_tiles, limit, HeldShape(operand, window, digits[0]), digits.size());
  Source from = {{OperandRef::Kind::kInput, 0}, operand};
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t d = digits[i].dim;
    const ShiftStep step = {digits[i], 1, operand[d] - window[d], 1, type};
    if (i + 1 < digits.size()) {
      from = shifts.Hold(step, from);
    } else {
      shifts.Add(step.Move(from, {OperandRef::Kind::kOutput, 0}), step.digit,
                 SpreadGrid(window, type, num_tiles).Vertices());
    }
  }
  return shifts.Take();
}

LongSlice PlanLongUpdate(const Shape& operand, const Shape& update, DType type, std::vector<Vertex> vertices,
                         unsigned num_tiles, std::int64_t limit) {
  std::vector<Digit> digits = DigitsOfStarts(operand, update);
  Shifts shifts(type, num_tiles, limit, HeldShape(operand, update, digits[0]), digits.size());
  std::reverse(digits.begin(), digits.end());
  Source from = {{OperandRef::Kind::kInput, 1}, update};
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t d = digits[i].dim;
    const ShiftStep step = {digits[i], -1, operand[d] - update[d], 2, type};
    if (i + 1 < digits.size()) {
      from = shifts.Hold(step, from);
    } else {
      shifts.Add(step.Place(from, operand, update), step.digit, vertices);
    }
  }
  return shifts.Take();
}

}  // namespace ipu_model
