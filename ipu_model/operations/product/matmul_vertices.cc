#include "operations/product/matmul_vertices.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "core/mapping/strides.h"
#include "kernels/host/integer_division.h"
#include "kernels/product/gemm.h"
#include "operations/product/half_partials.h"
#include "operations/product/matmul_steps.h"
#include "operations/product/product_cost.h"

namespace ipu_model {
namespace {

// Estimates: code of poplin's 1x1 vertex and of a popops reduction, and the state of their vertices.
constexpr std::uint64_t kProductCodeBytes = 1200, kProductVertexBytes = 96;
constexpr std::uint64_t kSumCodeBytes = 400, kSumVertexBytes = 32;
constexpr std::uint64_t kCopyCodeBytes = 200, kCopyVertexBytes = 24;

using Kind = OperandRef::Kind;

// The value 1 in a partial sum's type, to add partial sums as a product with a row of ones.
struct One {
  alignas(16) unsigned char bytes[16] = {};
  explicit One(DType type) {
    if (type == DType::kF16) Put(std::uint16_t{0x3c00});
    if (type == DType::kF32) Put(1.0f);
    if (type == DType::kF64) Put(1.0);
    if (type == DType::kC64) Put(std::complex<float>(1));
    if (type == DType::kC128) Put(std::complex<double>(1));
    if (type == DType::kU32) Put(std::uint32_t{1});
    if (type == DType::kU64) Put(std::uint64_t{1});
  }
  template <typename T>
  void Put(T value) {
    std::memcpy(bytes, &value, sizeof(value));
  }
};

HostTensor Matrix(const HostTensor& dense, std::int64_t groups, std::int64_t rows, std::int64_t columns) {
  HostTensor t;
  t.data = dense.data;
  t.type = dense.type;
  t.rank = 3;
  const std::int64_t shape[3] = {groups, rows, columns}, strides[3] = {rows * columns, columns, 1};
  std::copy(shape, shape + 3, t.shape);
  std::copy(strides, strides + 3, t.strides);
  return t;
}

// out[i] = sum over p of partials[p, i], both dense.
void SumPartials(HostContext& context, const HostTensor& partials, const HostTensor& out) {
  const std::int64_t count = partials.shape[0], elements = out.num_elements();
  One one(partials.type);
  HostTensor ones;
  ones.data = one.bytes;
  ones.type = partials.type;
  ones.rank = 3;
  ones.shape[0] = ones.shape[1] = 1;
  ones.shape[2] = count;
  Gemm(context, ones, Matrix(partials, 1, count, elements), Matrix(out, 1, 1, elements));
}

Box BoxOf(const Box& box, std::initializer_list<int> dims) {
  Box result;
  for (const int d : dims) {
    result.begin.push_back(box.begin[d]);
    result.end.push_back(box.end[d]);
  }
  return result;
}
// Returns `box` with another leading dimension.
Box WithLeading(std::int64_t begin, std::int64_t end, Box box) {
  box.begin.insert(box.begin.begin(), begin);
  box.end.insert(box.end.begin(), end);
  return box;
}

ProductBlock BlockOf(const Box& box) {
  const Shape e = box.extents();
  return {e[kGroupDim], e[kRowDim], e[kColumnDim], e[kDepthDim]};
}

// Whether the result's mapping puts exactly the grid's blocks on the tiles that compute them.
bool StaysOnGrid(const Grid& grid, const OperandMapping& out) {
  if (grid.parts[kDepthDim] > 1 || !out.known || out.first_tile != grid.first_tile) return false;
  for (const int d : {kGroupDim, kRowDim, kColumnDim}) {
    const DimSplit& split = out.dims[d];
    if (split.inner_parts > 1 || split.parts != grid.parts[d]) return false;
    if (split.parts > 1 && split.stride != grid.tile_stride[d]) return false;
  }
  return true;
}

class MatMulVertices {
 public:
  MatMulVertices(const MatMulPlan& plan, const std::vector<View>& in, const std::vector<View>& out,
                 const DeviceContext& context)
      : plan_(plan), inputs_(in), outputs_(out), context_(context) {}

  TilePlan Plan() const {
    TilePlan plan;
    const View& out = outputs_[0];
    if (out.num_elements() == 0) return plan;
    const Mapping& out_mapping = context_.mapping(out.variable);
    if (inputs_[0].shape[2] == 0) {
      plan.supersteps.push_back({{ZeroGroup(out_mapping.VerticesOver(out, context_.num_tiles()))}});
      return plan;
    }
    const bool direct = plan_.depth_steps == 1 &&
                        StaysOnGrid(plan_.grid, OperandMappingOf(out, out_mapping, context_.num_tiles()));
    OperandRef result{Kind::kOutput, 0};
    if (!direct) {
      const bool in_steps = plan_.output_steps > 1;
      result =
          AddTemporary(plan, plan_.partial_type, in_steps ? StepPartialsGrid(plan_) : PartialsGrid(plan_));
    }
    OperandRef operands[2] = {{Kind::kInput, 0}, {Kind::kInput, 1}};
    if (plan_.keeps_operand) {
      OperandRef& kept = operands[KeptOperand()];
      const DType type = inputs_[kept.index].type;
      VertexGroup copy = CopyGroup(kept);
      kept = AddTemporary(plan, type, KeptPlacement());
      copy.writes[0].tensor = kept;
      plan.supersteps.push_back({{std::move(copy)}});
    }
    // PopLibs' steps are trips of loops.
    for (std::int64_t output = 0; output < plan_.output_steps; ++output) {
      const bool later = output > 0;
      for (std::int64_t depth = 0; depth < plan_.depth_steps; ++depth)
        plan.supersteps.push_back({{StepGroup(output, depth, operands, result)}, later || depth > 0});
      if (direct) continue;
      if (plan_.output_steps > 1) {
        plan.supersteps.push_back({{SumsOfStep(output, result)}, later});
        continue;
      }
      // The plan's own grid has the fewest boxes per tile; other mappings may need several.
      const bool own =
          IsRowMajorContiguous(out) && out.offset == 0 && out_mapping == Mapping(OutputGrid(plan_));
      AddSums(plan, result,
              own ? OutputVertices(plan_) : out_mapping.VerticesOver(out, context_.num_tiles()));
    }
    plan.supersteps[0].groups[0].call_cycles += RearrangedInputCycles(context_.target());
    return plan;
  }

 private:
  static OperandRef AddTemporary(TilePlan& plan, DType type, Grid placement) {
    plan.temporaries.push_back({type, std::move(placement)});
    return {Kind::kTemporary, static_cast<unsigned>(plan.temporaries.size() - 1)};
  }

  // Returns the cycles of rearranging the operands that are not in the order of the plan.
  std::uint64_t RearrangedInputCycles(const TargetModel& target) const {
    const std::int64_t used = plan_.grid.num_parts(), depth = inputs_[0].shape[2];
    double cycles = 0;
    for (const std::size_t i : {0, 1}) {
      if (!(i == 0 ? plan_.rearrange_a : plan_.rearrange_b)) continue;
      const std::int64_t channels = depth * (i == 0 ? inputs_[0].shape[1] : inputs_[1].shape[2]);
      cycles +=
          RearrangeCycles(target, inputs_[i].type, CeilDivide(inputs_[i].num_elements(), used), channels);
    }
    return static_cast<std::uint64_t>(cycles);
  }

  static Box ARegion(const Box& box) { return BoxOf(box, {kGroupDim, kRowDim, kDepthDim}); }
  static Box BRegion(const Box& box) { return BoxOf(box, {kGroupDim, kDepthDim, kColumnDim}); }
  static Box CRegion(const Box& box) { return BoxOf(box, {kGroupDim, kRowDim, kColumnDim}); }
  // The operand that steps over the outputs do not cut.
  unsigned KeptOperand() const { return plan_.output_dim == kRowDim ? 1 : 0; }

  // Its place on every tile that uses it: [parts of output_dim, and its dimensions].
  Grid KeptPlacement() const {
    const Grid& grid = plan_.grid;
    const bool is_b = plan_.output_dim == kRowDim;
    Grid placement;
    placement.first_tile = grid.first_tile;
    placement.num_tiles = grid.num_tiles;
    const int d = plan_.output_dim;
    placement.Append(grid.parts[d], grid.parts[d], grid.tile_stride[d]);
    for (const int dim : {static_cast<int>(kGroupDim), static_cast<int>(is_b ? kDepthDim : kRowDim),
                          static_cast<int>(is_b ? kColumnDim : kDepthDim)})
      placement.Append(grid.shape[dim], grid.parts[dim], grid.tile_stride[dim]);
    return placement;
  }
  static Box KeptRegion(const MatMulPlan& plan, const Box& box) {
    const std::int64_t part = plan.grid.PartOf(plan.output_dim, box.begin[plan.output_dim]);
    return WithLeading(part, part + 1, plan.output_dim == kRowDim ? BRegion(box) : ARegion(box));
  }

  // What it moves is in the cycles of its exchange.
  VertexGroup CopyGroup(OperandRef operand) const {
    VertexGroup group;
    group.codelet = "poplar::copy";
    group.is_copy = true;
    group.vertices = plan_.grid.Vertices();
    group.reads = {{operand, operand.index == 1 ? BRegion : ARegion}};
    group.writes = {{{}, [plan = plan_](const Box& box) { return KeptRegion(plan, box); }}};
    group.compute = [](HostContext&, const Box&, const std::vector<HostTensor>& reads,
                       const std::vector<HostTensor>& writes) {
      std::memcpy(writes[0].data, reads[0].data,
                  static_cast<std::size_t>(reads[0].num_elements()) * SizeOf(reads[0].type));
    };
    return group;
  }

  VertexGroup ProductGroup(std::vector<Vertex> vertices, OperandRef result) const {
    const Grid& grid = plan_.grid;
    const DType a_type = inputs_[0].type, b_type = inputs_[1].type;
    const DType operand = SizeOf(a_type) > SizeOf(b_type) ? a_type : b_type;
    const bool direct = result.kind == Kind::kOutput, wide = plan_.wide_weight_loads;
    VertexGroup group;
    const bool several = grid.parts[kDepthDim] > 1 || plan_.depth_steps > 1;
    const auto block_of = [several, rows_in_units = plan_.rows_in_units](const Box& box) {
      ProductBlock block = BlockOf(box);
      block.partial = several;
      if (rows_in_units) std::swap(block.rows, block.columns);
      return block;
    };
    group.codelet = "poplin::ConvPartial1x1Out<";
    const ProductVertex vertex = vertices.empty()
                                     ? ProductVertex::kAmp
                                     : ProductVertexOf(context_.target(), operand, plan_.partial_type,
                                                       block_of(vertices.back().box), wide);
    if (vertex == ProductVertex::kHorizontalMac) group.codelet = "poplin::ConvPartialHorizontalMac<";
    if (vertex == ProductVertex::kOuter) group.codelet = "poplin::OuterProduct<";
    group.codelet += NameOf(operand);
    if (vertex != ProductVertex::kOuter)
      group.codelet += std::string(",") + NameOf(direct ? outputs_[0].type : plan_.partial_type);
    group.codelet += ">";
    group.vertices = std::move(vertices);
    group.reads = {{{Kind::kInput, 0}, ARegion}, {{Kind::kInput, 1}, BRegion}};
    if (direct) {
      group.writes.push_back({result, CRegion});
    } else {
      group.writes.push_back({result, [grid](const Box& box) {
                                const std::int64_t part = grid.PartOf(kDepthDim, box.begin[kDepthDim]);
                                return WithLeading(part, part + 1, CRegion(box));
                              }});
    }
    group.compute = [half_step = plan_.half_step](HostContext& context, const Box& box,
                                                  const std::vector<HostTensor>& reads,
                                                  const std::vector<HostTensor>& writes) {
      const ProductBlock block = BlockOf(box);
      const HostTensor left = Matrix(reads[0], block.groups, block.rows, block.depth);
      const HostTensor right = Matrix(reads[1], block.groups, block.depth, block.columns);
      const HostTensor product = Matrix(writes[0], block.groups, block.rows, block.columns);
      if (half_step > 0) return HalfProductVertex(context, half_step, left, right, nullptr, product);
      Gemm(context, left, right, product);
    };
    group.cycles = [operand, partial = plan_.partial_type, wide, block_of](const TargetModel& target,
                                                                           const Box& box) {
      return ProductCycles(target, operand, partial, block_of(box), wide);
    };
    group.code_bytes = kProductCodeBytes;
    group.vertex_bytes = kProductVertexBytes;
    return group;
  }

  // A step over the outputs and the depth of every part: its products, which it adds to the partial sums of
  // the steps over the depth before it.
  VertexGroup StepGroup(std::int64_t output, std::int64_t depth, const OperandRef (&operands)[2],
                        OperandRef result) const {
    VertexGroup group = ProductGroup(
        VerticesOfStep(VerticesOfStep(plan_.grid.Vertices(), plan_.output_dim, output, plan_.output_steps),
                       kDepthDim, depth, plan_.depth_steps),
        result);
    for (std::size_t i : {0, 1}) {
      if (operands[i].kind == Kind::kInput) continue;
      group.reads[i] = {operands[i], [plan = plan_](const Box& box) { return KeptRegion(plan, box); }};
    }
    if (plan_.output_steps > 1 && result.kind == Kind::kTemporary) {
      group.writes[0].region = [plan = plan_, output](const Box& box) {
        const std::int64_t part = plan.grid.PartOf(kDepthDim, box.begin[kDepthDim]);
        return WithLeading(part, part + 1, StepPartialsRegion(plan, output, CRegion(box)));
      };
    }
    group.call_cycles = SlicesOfStep(depth + 1 == plan_.depth_steps);
    if (depth == 0) return group;
    group.cycles = [products = group.cycles, sum = plan_.partial_type](const TargetModel& target,
                                                                       const Box& box) {
      return products(target, box) + StepAddCycles(target, sum, CRegion(box).num_elements());
    };
    group.reads.push_back(group.writes[0]);
    group.compute = [half_step = plan_.half_step](HostContext& context, const Box& box,
                                                  const std::vector<HostTensor>& reads,
                                                  const std::vector<HostTensor>& writes) {
      const ProductBlock block = BlockOf(box);
      const HostTensor left = Matrix(reads[0], block.groups, block.rows, block.depth);
      const HostTensor right = Matrix(reads[1], block.groups, block.depth, block.columns);
      if (half_step > 0) {
        return HalfProductVertex(context, half_step, left, right, &reads[2],
                                 Matrix(writes[0], block.groups, block.rows, block.columns));
      }
      const DType type = writes[0].type;
      const std::size_t bytes = static_cast<std::size_t>(writes[0].num_elements()) * SizeOf(type);
      auto* const both = static_cast<unsigned char*>(context.scratch.Allocate(2 * bytes));
      std::memcpy(both, reads[2].data, bytes);
      HostTensor product = writes[0];
      product.data = both + bytes;
      Gemm(context, left, right, Matrix(product, block.groups, block.rows, block.columns));
      HostTensor stacked;
      stacked.data = both;
      stacked.type = type;
      stacked.rank = 2;
      stacked.shape[0] = 2;
      stacked.shape[1] = writes[0].num_elements();
      SumPartials(context, stacked, writes[0]);
    };
    return group;
  }

  // The cycles of slicing the operands for a step and, with `last`, of putting its outputs into the result.
  std::uint64_t SlicesOfStep(bool last) const {
    const std::int64_t used = plan_.grid.num_parts(), outputs = plan_.output_steps;
    const auto slice = [&](const View& view, std::int64_t slices) {
      return OperandSliceCycles(context_.target(), view.type, CeilDivide(view.num_elements(), used), slices);
    };
    return slice(inputs_[0], plan_.depth_steps * (plan_.output_dim == kRowDim ? outputs : 1)) +
           slice(inputs_[1], plan_.depth_steps * (plan_.output_dim == kColumnDim ? outputs : 1)) +
           (last ? slice(outputs_[0], outputs) : 0);
  }

  // Adds the partial sums of one step over the outputs. The tiles that have them share the work.
  VertexGroup SumsOfStep(std::int64_t step, OperandRef partials) const {
    const std::int64_t terms = plan_.grid.parts[kDepthDim];
    VertexGroup sums = SumGroup(OutputsOfStep(plan_, step), partials, {Kind::kOutput, 0}, terms);
    sums.reads[0].region = [plan = plan_, step, terms](const Box& box) {
      return WithLeading(0, terms, StepPartialsRegion(plan, step, box));
    };
    return sums;
  }

  // Adds `partials` [terms, g, m, n] and writes the result, in two stages if the plan has two.
  void AddSums(TilePlan& plan, OperandRef partials, std::vector<Vertex> vertices) const {
    const Grid& grid = plan_.grid;
    std::int64_t terms = grid.parts[kDepthDim];
    if (plan_.stage_sums > 1) {
      const Grid stage = FirstStageGrid(plan_);
      const OperandRef sums = AddTemporary(plan, plan_.partial_type, stage);
      plan.supersteps.push_back({FirstSumGroups(stage, partials, sums)});
      partials = sums;
      terms = plan_.stage_sums;
    }
    plan.supersteps.push_back({{SumGroup(std::move(vertices), partials, {Kind::kOutput, 0}, terms)}});
  }

  VertexGroup SumGroup(std::vector<Vertex> vertices, OperandRef partials, OperandRef out,
                       std::int64_t terms) const {
    const DType type = plan_.partial_type;
    VertexGroup group;
    group.codelet = std::string("popops::ReducePartialsEqualSize<add,") + NameOf(type) + "," +
                    NameOf(out.kind == Kind::kOutput ? outputs_[0].type : type) + ">";
    group.vertices = std::move(vertices);
    group.reads = {{partials, [terms](const Box& box) { return WithLeading(0, terms, box); }}};
    group.writes = {{out, [](const Box& box) { return box; }, /*identity=*/true}};
    group.compute = [terms, half = plan_.half_step > 0](HostContext& context, const Box&,
                                                        const std::vector<HostTensor>& reads,
                                                        const std::vector<HostTensor>& writes) {
      if (half) return SumHalfPartials(context, reads[0], terms, writes[0]);
      SumPartials(context, reads[0], writes[0]);
    };
    group.cycles = [type, terms, result = out.kind == Kind::kOutput ? outputs_[0].type : type](
                       const TargetModel& target, const Box& box) {
      return PartialSumCycles(target, type, result, terms, box.num_elements());
    };
    group.code_bytes = kSumCodeBytes;
    group.vertex_bytes = kSumVertexBytes;
    return group;
  }

  // Adds consecutive partials to `sums` [stage_sums, g, m, n]. Their numbers of terms differ by one at most.
  std::vector<VertexGroup> FirstSumGroups(const Grid& stage, OperandRef partials, OperandRef sums) const {
    const auto first = [count = plan_.grid.parts[kDepthDim], sums = plan_.stage_sums](std::int64_t sum) {
      return FirstTerm(count, sums, sum);
    };
    std::map<std::int64_t, std::vector<Vertex>> by_terms;
    for (Vertex& vertex : stage.Vertices()) {
      const std::int64_t sum = vertex.box.begin[0];
      by_terms[first(sum + 1) - first(sum)].push_back(std::move(vertex));
    }
    std::vector<VertexGroup> groups;
    for (auto& [terms, vertices] : by_terms) {
      groups.push_back(SumGroup(std::move(vertices), partials, sums, terms));
      groups.back().reads[0].region = [first](const Box& box) {
        Box region = box;
        region.begin[0] = first(box.begin[0]);
        region.end[0] = first(box.end[0]);
        return region;
      };
    }
    return groups;
  }

  static VertexGroup ZeroGroup(std::vector<Vertex> vertices) {
    VertexGroup group;
    group.codelet = "popops::Fill";
    group.vertices = std::move(vertices);
    group.writes = {{{Kind::kOutput, 0}, [](const Box& box) { return box; }, /*identity=*/true}};
    group.compute = [](HostContext&, const Box&, const std::vector<HostTensor>&,
                       const std::vector<HostTensor>& writes) {
      std::memset(writes[0].data, 0,
                  static_cast<std::size_t>(writes[0].num_elements()) * SizeOf(writes[0].type));
    };
    group.cycles = [](const TargetModel& target, const Box& box) {
      return target.supervisor_overhead + static_cast<std::uint64_t>(box.num_elements());
    };
    group.code_bytes = kCopyCodeBytes;
    group.vertex_bytes = kCopyVertexBytes;
    return group;
  }

  const MatMulPlan plan_;
  const std::vector<View>& inputs_;
  const std::vector<View>& outputs_;
  const DeviceContext& context_;
};

}  // namespace

TilePlan TilePlanOfMatMul(const MatMulPlan& plan, const std::vector<View>& inputs,
                          const std::vector<View>& outputs, const DeviceContext& context) {
  return MatMulVertices(plan, inputs, outputs, context).Plan();
}

}  // namespace ipu_model
