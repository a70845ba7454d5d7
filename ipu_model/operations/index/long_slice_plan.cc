// Long slices as shifts by the digits of a start, one superstep each.
#include "operations/index/long_slice_plan.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/target_model.h"
#include "kernels/copy/slice.h"
#include "operations/index/index_cost.h"
#include "operations/index/slice_grid.h"

namespace ipu_model {
namespace {

// Number of source positions that a vertex reads per superstep. A larger radix gives fewer supersteps and
// larger exchanges.
constexpr std::int64_t kRadix = 4;

// A digit of the start of one dimension.
struct Digit {
  std::size_t dim;
  std::int64_t weight;
};

// Returns the digits, least significant first.
std::vector<Digit> DigitsOfStarts(const Shape& whole, const Shape& window) {
  std::vector<Digit> digits;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    for (std::int64_t weight = 1; weight <= whole[d] - window[d]; weight *= kRadix)
      digits.push_back({d, weight});
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

  VertexGroup Group(const Source& from, OperandRef to, std::vector<Vertex> vertices) const {
    VertexGroup group;
    group.codelet = "popops::DynamicSliceShift";
    group.vertices = std::move(vertices);
    group.code_bytes = 300;
    group.vertex_bytes = 12 + 8 * kRadix;
    const std::int64_t values = std::min(kRadix, room / digit.weight + 1);
    for (std::int64_t value = 0; value < values; ++value) {
      group.reads.push_back({from.tensor, [shape = from.shape, dim = digit.dim, shift = Shift(value)](
                                              const Box& box) { return Moved(box, dim, shift, shape); }});
    }
    group.reads.push_back({{OperandRef::Kind::kInput, first_start + static_cast<unsigned>(digit.dim)},
                           [](const Box&) { return Box{}; }});
    group.writes.push_back({to, [](const Box& box) { return box; }, true});
    group.cycles = [type = type](const TargetModel& target, const Box& box) {
      return DynamicSliceCycles(target, type, box.num_elements());
    };
    group.compute = [step = *this, shape = from.shape](HostContext& host, const Box& box,
                                                       const std::vector<HostTensor>& reads,
                                                       const std::vector<HostTensor>& writes) {
      const HostTensor& out = writes[0];
      std::memset(out.data, 0, static_cast<std::size_t>(out.num_elements()) * SizeOf(out.type));
      const std::int64_t start = ClampedStart(reads.back(), step.room);
      const std::int64_t value = start / step.digit.weight % kRadix;
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
};

}  // namespace

bool IsLongSlice(const Shape& whole, const Shape& window, DType type, std::int64_t bytes_per_tile,
                 unsigned num_tiles) {
  if (window == whole) return false;  // nothing to shift
  std::int64_t dynamic = 1, spread = 1;
  for (std::size_t d = 0; d < whole.size(); ++d) (window[d] < whole[d] ? dynamic : spread) *= window[d];
  const std::int64_t per_tile = dynamic * ((spread + num_tiles - 1) / num_tiles);
  return per_tile * static_cast<std::int64_t>(SizeOf(type)) > SliceBudget(bytes_per_tile) / 2;
}

TilePlan PlanLongSlice(const Shape& operand, const Shape& window, DType type, unsigned num_tiles) {
  TilePlan plan;
  std::vector<Digit> digits = DigitsOfStarts(operand, window);
  std::reverse(digits.begin(), digits.end());
  // After the most significant digit, the window starts within that digit's weight.
  Shape reached = operand;
  const std::size_t first = digits[0].dim;
  reached[first] = std::min(operand[first], window[first] + digits[0].weight - 1);
  const Grid placement = SpreadGrid(reached, type, num_tiles);
  for (std::size_t i = 0; i < std::min<std::size_t>(2, digits.size() - 1); ++i)
    plan.temporaries.push_back({type, placement});
  Source from = {{OperandRef::Kind::kInput, 0}, operand};
  for (unsigned i = 0; i < digits.size(); ++i) {
    const std::size_t d = digits[i].dim;
    const ShiftStep step = {digits[i], 1, operand[d] - window[d], 1, type};
    const bool last = i + 1 == digits.size();
    const OperandRef to =
        last ? OperandRef{OperandRef::Kind::kOutput, 0} : OperandRef{OperandRef::Kind::kTemporary, i % 2};
    plan.supersteps.push_back({{step.Group(
        from, to, last ? SpreadGrid(window, type, num_tiles).Vertices() : placement.Vertices())}});
    from = {to, reached};
  }
  return plan;
}

TilePlan PlanLongUpdate(const Shape& operand, const Shape& update, DType type, std::vector<Vertex> vertices,
                        unsigned num_tiles) {
  TilePlan plan;
  const std::vector<Digit> digits = DigitsOfStarts(operand, update);
  const Grid placement = SpreadGrid(operand, type, num_tiles);
  for (std::size_t i = 0; i < std::min<std::size_t>(2, digits.size()); ++i)
    plan.temporaries.push_back({type, placement});
  Source from = {{OperandRef::Kind::kInput, 1}, update};
  for (unsigned i = 0; i < digits.size(); ++i) {
    const std::size_t d = digits[i].dim;
    const ShiftStep step = {digits[i], -1, operand[d] - update[d], 2, type};
    const OperandRef to = {OperandRef::Kind::kTemporary, i % 2};
    plan.supersteps.push_back({{step.Group(from, to, placement.Vertices())}});
    from = {to, operand};
  }

  VertexGroup place;
  place.codelet = "popops::DynamicUpdatePlace";
  place.vertices = std::move(vertices);
  place.code_bytes = 200;
  place.vertex_bytes = 24;
  const auto identity = [](const Box& box) { return box; };
  place.reads.push_back({{OperandRef::Kind::kInput, 0}, identity, true});
  place.reads.push_back({from.tensor, identity, true});
  for (unsigned d = 0; d < operand.size(); ++d)
    place.reads.push_back({{OperandRef::Kind::kInput, 2 + d}, [](const Box&) { return Box{}; }});
  place.writes.push_back({{OperandRef::Kind::kOutput, 0}, identity, true});
  place.cycles = [type](const TargetModel& target, const Box& box) {
    return DynamicSliceCycles(target, type, box.num_elements());
  };
  place.compute = [operand, update](HostContext& host, const Box& box, const std::vector<HostTensor>& reads,
                                    const std::vector<HostTensor>& writes) {
    CopyTensor(host, reads[0], writes[0]);
    std::int64_t begin[kMaxRank], extents[kMaxRank];
    for (std::size_t d = 0; d < operand.size(); ++d) {
      const std::int64_t start = ClampedStart(reads[2 + d], operand[d] - update[d]);
      const std::int64_t low = std::max(start, box.begin[d]);
      const std::int64_t high = std::min(start + update[d], box.end[d]);
      if (high <= low) return;
      begin[d] = low - box.begin[d];
      extents[d] = high - low;
    }
    CopyTensor(host, SubTensor(reads[1], begin, extents), SubTensor(writes[0], begin, extents));
  };
  plan.supersteps.push_back({{std::move(place)}});
  return plan;
}

}  // namespace ipu_model
