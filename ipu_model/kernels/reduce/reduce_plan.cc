#include "kernels/reduce/reduce_plan.h"

#include <algorithm>

namespace ipu_model {
namespace {

// A reduction to few results is cut into segments of at least kSegment elements for the threads.
constexpr std::int64_t kSegment = 1 << 16, kMaxSegments = 64, kEnoughItems = 16;
// With fewer results in the unit-stride dimension, several rows are accumulated at a time.
constexpr std::int64_t kFewLanes = 64;
constexpr std::int64_t kShortRow = 32;

}  // namespace

ReducePlan MakeReducePlan(const HostTensor* values, int count, std::uint32_t dimensions, bool may_fold) {
  ReducePlan plan;
  plan.kept = ReduceSpace(values, count, ~dimensions, /*by_stride=*/false);
  plan.reduced = ReduceSpace(values, count, dimensions, /*by_stride=*/true);
  const ReduceSpace &kept = plan.kept, &reduced = plan.reduced;
  const int inner = reduced.rank - 1;
  plan.length = inner >= 0 ? reduced.extent[inner] : 1;
  const bool unit_row = inner >= 0 && reduced.stride[0][inner] == 1;
  std::int64_t longest = 0;
  for (int d = 0; d < kept.rank; ++d) {
    const bool unit = kept.stride[0][d] == 1;
    if (unit || (longest >= 0 && kept.extent[d] >= longest)) {
      plan.lane = d;
      longest = unit ? -1 : kept.extent[d];  // a unit stride wins over any length
    }
  }
  if (kept.rank > 0) plan.lanes = kept.extent[plan.lane];
  plan.rows = kept.rank == 0 || (unit_row && (plan.length >= kShortRow || plan.lanes < kShortRow));
  plan.folded = !plan.rows && may_fold && kept.rank == 1 && plan.lanes < kFewLanes &&
                kept.stride[0][0] == 1 && inner >= 0 && reduced.stride[0][inner] == plan.lanes;
  if (plan.rows) {
    plan.pieces = (plan.length + ReducePlan::kRowPiece - 1) / ReducePlan::kRowPiece;
    plan.units = inner >= 0 ? reduced.count / plan.length * plan.pieces : 1;
    plan.items = kept.count;
  } else if (plan.folded) {
    plan.pieces = (plan.length * plan.lanes + ReducePlan::kRowPiece - 1) / ReducePlan::kRowPiece;
    plan.units = reduced.count / plan.length * plan.pieces;
  } else {
    plan.chunks = (plan.lanes + ReducePlan::kLaneChunk - 1) / ReducePlan::kLaneChunk;
    plan.units = reduced.count;
    plan.items = kept.count / plan.lanes * plan.chunks;
  }
  const std::int64_t elements = kept.count * reduced.count;
  if (plan.items < kEnoughItems && elements >= 2 * kSegment)
    plan.segments = std::clamp<std::int64_t>(elements / kSegment, 1, std::min(kMaxSegments, plan.units));
  return plan;
}

}  // namespace ipu_model
