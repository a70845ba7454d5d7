#include "operations/index/scatter_problem.h"

#include <algorithm>

#include "hlo/SingleOperation.hpp"
#include "operations/index/gather_plan.h"

namespace ipu_model {

UpdateKind UpdateKindOf(const Expression& update) {
  if (update.inputs.size() != 2 || update.outputs.size() != 1) return UpdateKind::kOther;
  if (update.code.empty()) return update.outputs[0] == 1 ? UpdateKind::kReplace : UpdateKind::kOther;
  const Instruction* const only = hlo::SingleOperation(update);
  return only != nullptr && only->op == ScalarOp::kAdd ? UpdateKind::kAdd : UpdateKind::kOther;
}

Box UpdatesRegion(const ScatterProblem& p, const Box& step, const Box& box) {
  Box region = step;
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    int dim = p.window.window_dim[d];
    if (p.window.batching[d] >= 0) {
      dim = p.window.batch_dim[p.window.batching[d]];
    } else if (dim < 0 || p.Indexed(d)) {
      continue;
    }
    const std::size_t u = static_cast<std::size_t>(dim);
    region.begin[u] = std::min(std::max(region.begin[u], box.begin[d]), region.end[u]);
    region.end[u] = std::max(region.begin[u], std::min(region.end[u], box.end[d]));
  }
  return region;
}

Box IndicesRegion(const ScatterProblem& p, const Box& updates) {
  Box region = Box::Whole(p.indices);
  for (int b = 0; b < p.window.batch_rank; ++b) {
    const std::size_t dim = static_cast<std::size_t>(p.window.index_dim[b]);
    region.begin[dim] = updates.begin[static_cast<std::size_t>(p.window.batch_dim[b])];
    region.end[dim] = updates.end[static_cast<std::size_t>(p.window.batch_dim[b])];
  }
  return region;
}

bool Walks(const ScatterProblem& p, int b) {
  return std::find(p.window.batching, p.window.batching + p.window.operand_rank, b) !=
         p.window.batching + p.window.operand_rank;
}

WindowPlacement VertexPlacement(const ScatterProblem& p, const Box& updates, const Box& box) {
  WindowPlacement placement = WholePlacement(p.operand, p.slice_sizes);
  placement.clipped = true;
  for (int b = 0; b < p.window.batch_rank; ++b) {
    placement.batch_begin[b] = updates.begin[static_cast<std::size_t>(p.window.batch_dim[b])];
  }
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    placement.operand_begin[d] = box.begin[d];
    if (p.window.window_dim[d] >= 0) {
      placement.window_begin[d] = updates.begin[static_cast<std::size_t>(p.window.window_dim[d])];
    }
  }
  return placement;
}

namespace {

// The windows that a vertex sees, the share of them that is its own, and the elements of one.
struct Amounts {
  double rows = 1, inside = 1, window = 1;
};
Amounts AmountsOf(const ScatterProblem& p, const Box& updates, const Box& box) {
  Amounts n;
  for (int b = 0; b < p.window.batch_rank; ++b) {
    const std::size_t dim = static_cast<std::size_t>(p.window.batch_dim[b]);
    n.rows *= static_cast<double>(updates.end[dim] - updates.begin[dim]);
  }
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    if (p.Indexed(d)) {
      n.inside *= static_cast<double>(box.end[d] - box.begin[d]) / static_cast<double>(p.operand[d]);
    }
  }
  if (n.rows > 0) n.window = static_cast<double>(updates.num_elements()) / n.rows;
  return n;
}

}  // namespace

std::uint64_t VertexCycles(const TargetModel& target, const ScatterProblem& p, const Box& updates,
                           const Box& box) {
  const Amounts n = AmountsOf(p, updates, box);
  return ScatterCycles(target, p.update, p.type, n.rows, n.inside, n.window, p.window.num_wraps);
}

std::uint64_t MarkCycles(const TargetModel& target, const ScatterProblem& p, const Box& updates,
                         const Box& box) {
  if (p.update != UpdateKind::kReplace) return 0;
  const Amounts n = AmountsOf(p, updates, box);
  return MarkCycles(target, n.rows, n.inside, n.window);
}

}  // namespace ipu_model
