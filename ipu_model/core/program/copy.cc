// The operation behind program::Copy between tensors.
#include "core/program/copy.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/graph/graph_impl.h"
#include "core/mapping/strides.h"
#include "core/mapping/tiling.h"
#include "core/operation/local_copy.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "kernels/copy/strided_copy.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/host/integer_division.h"

namespace ipu_model {

namespace {

// Returns the part of a block from `begin` to `end`, which are in the tensor's coordinates.
View Part(const ConstBlock& block, DType type, const std::int64_t* begin, const std::int64_t* end) {
  View part = block.view(type);
  for (std::size_t d = 0; d < block.rank(); ++d) {
    part.offset += (begin[d] - block.begin(d)) * block.stride(d);
    part.shape[d] = end[d] - begin[d];
  }
  return part;
}

// The dimension in which blocks have most places to begin: few overlap in it.
std::size_t MostDivided(const Blocks& blocks) {
  std::size_t most = 0, best = 0;
  for (std::size_t d = 0; d < blocks.rank(); ++d) {
    std::vector<std::int64_t> begins;
    for (std::size_t i = 0; i < blocks.size(); ++i) begins.push_back(blocks[i].begin(d));
    std::sort(begins.begin(), begins.end());
    const auto count = static_cast<std::size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (count > most) {
      most = count;
      best = d;
    }
  }
  return best;
}

// A dimension of both views of a pair.
struct PairDim {
  std::int64_t extent, from, to;  // strides of source and destination
};

// Whether a dimension of `grid` that is cut has its largest stride in [low, high), so that a step of
// `low` moves between its parts, and a step of `high` leaves it.
bool CutBetween(const Grid* grid, std::int64_t low, std::int64_t high) {
  if (grid == nullptr) return false;
  std::int64_t next = 1;
  for (std::size_t d = grid->shape.size(); d-- > 0;) {
    next *= grid->shape[d];
    if (grid->parts[d] > 1 && next > low && next <= high) return true;
  }
  return false;
}

// Splits the dimensions that run over cut dimensions of the grid and a multiple of them, so that the
// parts are boxes. `base`: the first element of the destination in memory order.
std::vector<PairDim> SplitAtCuts(const Grid* grid, std::int64_t base, std::vector<PairDim> dims) {
  if (grid == nullptr) return dims;
  std::int64_t next = 1;
  for (std::size_t k = grid->shape.size(); k-- > 0;) {
    next *= grid->shape[k];
    for (std::size_t d = 0; d < dims.size() && dims.size() < kMaxRank; ++d) {
      PairDim& dim = dims[d];
      const std::int64_t step = std::abs(dim.to), inner = next / step;
      if (inner < 2 || inner >= dim.extent || next % step != 0 || dim.extent % inner != 0) continue;
      if (base % next >= step || !CutBetween(grid, step, next)) continue;
      const PairDim outer{dim.extent / inner, dim.from * inner, dim.to * inner};
      dim.extent = inner;
      dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(d), outer);
      ++d;
    }
  }
  return dims;
}

// Drops, splits and merges dimensions as the grid of the destination needs them, so that a part has few
// boxes and the views few dimensions. Puts the destination's largest strides outermost.
void Simplify(const Grid* grid, View* src, View* dst) {
  std::vector<PairDim> dims;
  std::int64_t base = dst->offset;
  for (std::size_t d = 0; d < dst->shape.size(); ++d) {
    if (dst->shape[d] == 1) continue;
    dims.push_back({dst->shape[d], src->strides[d], dst->strides[d]});
    if (dst->strides[d] < 0) base += (dst->shape[d] - 1) * dst->strides[d];
  }
  std::stable_sort(dims.begin(), dims.end(),
                   [](const PairDim& a, const PairDim& b) { return std::abs(a.to) > std::abs(b.to); });
  src->shape.clear();
  src->strides.clear();
  dst->strides.clear();
  for (const PairDim& dim : SplitAtCuts(grid, base, std::move(dims))) {
    if (!src->shape.empty() && dst->strides.back() == dim.to * dim.extent &&
        src->strides.back() == dim.from * dim.extent &&
        !CutBetween(grid, std::abs(dim.to), std::abs(dst->strides.back()))) {
      src->shape.back() *= dim.extent;
      src->strides.back() = dim.from;
      dst->strides.back() = dim.to;
    } else {
      src->shape.push_back(dim.extent);
      src->strides.push_back(dim.from);
      dst->strides.push_back(dim.to);
    }
  }
  dst->shape = src->shape;
}

// Adds the parts of the source and the destination that belong together; their tilings have one space.
void AddPairs(const poplar::Tensor& src, const Tiling& from, const poplar::Tensor& dst, const Tiling& to,
              Operation* copy) {
  const auto* const graph = static_cast<const GraphImpl*>(dst.graph());
  const auto add = [copy, graph](View x, View y) {
    Simplify(graph == nullptr ? nullptr : graph->variables[y.variable].mapping.grid(), &x, &y);
    const bool same = x.variable == y.variable && x.offset == y.offset && x.strides == y.strides;
    if (same) return;
    if (graph != nullptr) x.graph = y.graph = graph->number();
    copy->inputs.push_back(std::move(x));
    copy->outputs.push_back(std::move(y));
  };
  const DType from_type = src.elementType().id(), to_type = dst.elementType().id();
  if (from.space.empty()) {
    add(from.blocks[0].view(from_type), to.blocks[0].view(to_type));
    return;
  }
  // A sweep along one dimension over the blocks of both, in the order in which they begin there.
  const std::size_t along = MostDivided(to.blocks);
  const auto in_order = [along](const Blocks& blocks) {
    std::vector<std::size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
      return blocks[x].begin(along) < blocks[y].begin(along);
    });
    return order;
  };
  const std::vector<std::size_t> a = in_order(from.blocks), b = in_order(to.blocks);
  std::vector<std::size_t> active;  // of the destination
  std::size_t next = 0;
  Shape begin(from.space.size()), end(from.space.size());
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (const std::size_t i : a) {
    const ConstBlock p = from.blocks[i];
    for (; next < b.size() && to.blocks[b[next]].begin(along) < p.end(along); ++next)
      active.push_back(b[next]);
    active.erase(std::remove_if(active.begin(), active.end(),
                                [&](std::size_t j) { return to.blocks[j].end(along) <= p.begin(along); }),
                 active.end());
    for (const std::size_t j : active) {
      const ConstBlock q = to.blocks[j];
      bool common = true;
      for (std::size_t d = 0; d < begin.size() && common; ++d) {
        common = std::max(p.begin(d), q.begin(d)) < std::min(p.end(d), q.end(d));
      }
      if (common) pairs.emplace_back(i, j);
    }
  }
  // In the order of the blocks, whichever way the sweep went.
  std::sort(pairs.begin(), pairs.end());
  for (const auto& [i, j] : pairs) {
    const ConstBlock p = from.blocks[i], q = to.blocks[j];
    for (std::size_t d = 0; d < begin.size(); ++d) {
      begin[d] = std::max(p.begin(d), q.begin(d));
      end[d] = std::min(p.end(d), q.end(d));
    }
    add(Part(p, from_type, begin.data(), end.data()), Part(q, to_type, begin.data(), end.data()));
  }
}

}  // namespace

std::unique_ptr<Operation> MakeCopy(const poplar::Tensor& src, const poplar::Tensor& dst) {
  auto copy = std::make_unique<Copy>();
  if (src.numElements() == 0) return copy;
  Tiling from = src.tiling(), to = dst.tiling();
  Unify(&to, &from);
  AddPairs(src, from, dst, to, copy.get());
  return copy;
}

bool Copy::OperandsFit(unsigned /*num_tiles*/) const {
  bool fits = inputs.size() == outputs.size();
  for (std::size_t i = 0; fits && i < inputs.size(); ++i) {
    fits = inputs[i].shape == outputs[i].shape && SizeOf(inputs[i].type) == SizeOf(outputs[i].type);
  }
  return fits;
}

void Copy::Prepare() {
  overlapping_ = false;
  struct Range {
    VariableId variable;
    std::int64_t min, max;
  };
  std::vector<Range> written;
  for (const View& v : outputs) {
    Range r{v.variable, 0, 0};
    ElementRange(v, &r.min, &r.max);
    written.push_back(r);
  }
  for (const View& v : inputs) {
    std::int64_t min, max;
    ElementRange(v, &min, &max);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Range& r = written[i];
      if (r.variable != v.variable || r.max < min || max < r.min) continue;
      // This check is exact: both views are known to have no repeated elements of their own.
      if (!AreDisjoint({v, outputs[i]})) overlapping_ = true;
    }
  }
}

void Copy::Run(HostContext& context, const std::vector<HostTensor>& in,
               const std::vector<HostTensor>& out) const {
  if (!overlapping_) {
    for (std::size_t i = 0; i < in.size(); ++i) CopyTensor(context, in[i], out[i]);
    return;
  }
  std::size_t bytes = 0;
  for (const HostTensor& t : in) bytes += static_cast<std::size_t>(t.num_elements()) * SizeOf(t.type);
  auto* snapshot = context.scratch.Allocate<unsigned char>(bytes);
  for (int pass = 0; pass < 2; ++pass) {
    unsigned char* next = snapshot;
    for (std::size_t i = 0; i < in.size(); ++i) {
      HostTensor held = in[i];
      held.data = next;
      next += static_cast<std::size_t>(SetDenseStrides(&held)) * SizeOf(held.type);
      if (pass == 0) {
        CopyTensor(context, in[i], held);
      } else {
        CopyTensor(context, held, out[i]);
      }
    }
  }
}

std::unique_ptr<BoundKernel> Copy::Bind(const std::vector<HostTensor>& in,
                                        const std::vector<HostTensor>& out) const {
  constexpr std::size_t kMostPieces = 64;
  if (overlapping_ || in.size() > kMostPieces) return nullptr;
  auto list = std::make_unique<CallList>();
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!AddCopy(list.get(), in[i], CallList::Input(i), out[i], CallList::Output(i))) return nullptr;
  }
  return list;
}

// Returns how many elements of a box are contiguous both where they come from and where they go to.
static std::int64_t ElementsInRow(const Shape& extents, const Shape& from, const Shape& to) {
  std::int64_t row = 1;
  for (std::size_t d = extents.size(); d-- > 0;) {
    if (extents[d] == 1) continue;
    if (from[d] != row || to[d] != row) break;
    row *= extents[d];
  }
  return row;
}

TilePlan Copy::Plan(const DeviceContext& context) const {
  TilePlan plan;
  plan.supersteps.emplace_back();
  const auto whole = [](const Box& box) { return box; };
  for (unsigned i = 0; i < outputs.size(); ++i) {
    VertexGroup group;
    group.codelet = "poplar::copy";
    group.vertices = context.mapping(outputs[i].variable).VerticesOver(outputs[i], context.all_tiles());
    group.reads = {{{OperandRef::Kind::kInput, i}, whole, true}};
    group.writes = {{{OperandRef::Kind::kOutput, i}, whole, true}};
    group.compute = [](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                       const std::vector<HostTensor>& writes) { CopyTensor(host, reads[0], writes[0]); };
    const auto size = static_cast<std::int64_t>(SizeOf(outputs[i].type));
    group.cycles = [size, from = inputs[i].strides, to = outputs[i].strides](const TargetModel& target,
                                                                             const Box& box) {
      const std::int64_t elements = box.num_elements();
      return LocalCopyCycles(target, size,
                             {CeilDivide(elements, ElementsInRow(box.extents(), from, to)), elements});
    };
    group.call_cycles = context.target().local_copy_call_cycles;
    group.code_bytes = 64;
    group.vertex_bytes = 8;  // source and destination address
    plan.supersteps[0].groups.push_back(std::move(group));
  }
  return plan;
}

std::unique_ptr<Operation> ReadCopy(Reader&) { return std::make_unique<Copy>(); }

}  // namespace ipu_model
