// Triangular systems. Right-hand sides are independent and spread over tiles together with the matrix. A
// matrix that does not fit is processed in blocks: solve with a diagonal block, then subtract its part from
// the remaining blocks.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "core/graph/expandable.h"
#include "core/graph/graph_impl.h"
#include "core/mapping/strides.h"
#include "core/operation/operand_check.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "hlo/LinearAlgebra.hpp"
#include "kernels/copy/strided_copy.h"
#include "kernels/linear_algebra/linear_algebra.h"
#include "operations/data_views.h"
#include "operations/linear_algebra/linear_algebra_cost.h"
#include "operations/linear_algebra/matrix_blocks.h"
#include "operations/linear_algebra/whole_matrices.h"
#include "operations/readers.h"
#include "operations/vertex_groups.h"
#include "poplar/exceptions.hpp"
#include "poplin/TriangularSolve.hpp"

namespace ipu_model {
namespace {

constexpr std::uint64_t kVertexBytes = 36;  // pointers, lengths and strides (model estimate)

constexpr OperandRef kMatrix{OperandRef::Kind::kInput, 0}, kRight{OperandRef::Kind::kInput, 1},
    kOutput{OperandRef::Kind::kOutput, 0}, kWork{OperandRef::Kind::kTemporary, 0};

// inputs: a, b; outputs: x.
class TriangularSolveOperation : public Operation, public Expandable {
 public:
  explicit TriangularSolveOperation(TriangularOptions options) : options_(options) {}

  std::string_view kind() const override { return "poplin::triangularSolve"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    if (!HasOperands(*this, 2, 1)) return false;
    const Shape &a = inputs[0].shape, &b = inputs[1].shape;
    const std::size_t rank = a.size();
    if (rank < 2 || b.size() != rank || a[rank - 1] != a[rank - 2] || b[Equations()] != a[rank - 1])
      return false;
    for (std::size_t d = 0; d + 2 < rank; ++d) {
      if (a[d] != b[d]) return false;
    }
    return LinearAlgebraSupports(inputs[0].type) && inputs[1].type == inputs[0].type &&
           outputs[0].shape == b && outputs[0].type == inputs[0].type;
  }
  void Write(Writer& writer) const override {
    writer.Write(options_.left_side);
    writer.Write(options_.lower);
    writer.Write(options_.unit_diagonal);
    writer.Write(options_.transpose);
  }
  double flops() const override {
    return static_cast<double>(outputs[0].num_elements()) * static_cast<double>(inputs[0].shape.back());
  }
  bool CanAlias(unsigned, unsigned input) const override { return input == 1; }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    TriangularSolve(context, options_, in[0], in[1], out[0]);
  }

  bool InBlocks(std::int64_t bytes_per_tile) const {
    const std::int64_t m = inputs[0].shape.back();
    return m > MatrixBlocks::kSize &&
           m * m * static_cast<std::int64_t>(SizeOf(inputs[0].type)) > SliceBudget(bytes_per_tile);
  }

  // One matrix per part, whose right-hand sides share the remaining tiles; several whole ones if there are
  // more than tiles.
  MatrixBlocks MakeBlocks(unsigned num_tiles, bool cut) const {
    const Shape& shape = inputs[1].shape;
    if (!cut && NumMatrices(shape) > num_tiles) {
      MatrixBlocks whole;
      whole.grid = WholeGrid(shape, inputs[1].type, num_tiles);
      return whole;
    }
    const std::int64_t m = inputs[0].shape.back(),
                       batch = std::max<std::int64_t>(
                           1, inputs[0].num_elements() / std::max<std::int64_t>(1, m * m));
    const std::int64_t rows =
        cut ? std::max<std::int64_t>(1, (m + MatrixBlocks::kSize - 1) / MatrixBlocks::kSize) : 1;
    const std::int64_t free = std::max<std::int64_t>(1, num_tiles / (batch * rows));
    MatrixBlocks blocks(shape, cut && options_.left_side, cut && !options_.left_side, free, num_tiles);
    if (!cut) {  // the dimension of the equations stays whole
      blocks.grid.parts[Equations()] = 1;
      blocks.grid.tile_stride = RowMajorStrides(blocks.grid.parts);
    }
    return blocks;
  }

  TilePlan Plan(const DeviceContext& context) const override {
    return InBlocks(context.target().bytes_per_tile) ? PlanBlocks(context) : PlanWhole(context);
  }
  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    const poplar::Target& target = graph.getTarget();
    const bool blocks = InBlocks(static_cast<std::int64_t>(target.getBytesPerTile()));
    library.triangularSolve(graph, in[0], in[1], out[0], inputs[1].variable == outputs[0].variable, options_,
                            GridOf(MakeBlocks(target.getNumTiles(), blocks).grid), prog, name);
  }

 private:
  // Returns the dimension of b that a multiplies.
  std::size_t Equations() const { return inputs[1].shape.size() - (options_.left_side ? 2 : 1); }

  // Whether the first equation is solved first.
  bool Forward() const {
    // Transposing a lower triangular matrix makes it upper triangular, and vice versa.
    const bool op_lower = options_.lower != (options_.transpose != Transpose::kNone);
    return options_.left_side == op_lower;
  }

  // Returns rows [r0, r1) and columns [c0, c1) of the matrices of a that belong to a box of b.
  static Box MatrixRegion(const Box& box, std::int64_t r0, std::int64_t r1, std::int64_t c0,
                          std::int64_t c1) {
    Box region = box;
    const std::size_t rank = box.begin.size();
    region.begin[rank - 2] = r0;
    region.end[rank - 2] = r1;
    region.begin[rank - 1] = c0;
    region.end[rank - 1] = c1;
    return region;
  }

  TilePlan PlanWhole(const DeviceContext& context) const {
    const std::int64_t m = inputs[0].shape.back();
    const Grid grid = MakeBlocks(context.num_tiles(), false).grid;
    VertexGroup group = MakeVertexGroup("poplin::TriangularSolve", grid.Vertices(), 700, kVertexBytes);
    group.reads.push_back({kMatrix, [m](const Box& box) { return MatrixRegion(box, 0, m, 0, m); }});
    group.reads.push_back({kRight, Same});
    group.writes.push_back({kOutput, Same});
    group.compute = [options = options_](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                                         const std::vector<HostTensor>& writes) {
      TriangularSolve(host, options, reads[0], reads[1], writes[0]);
    };
    const std::size_t sides = 2 * inputs[1].shape.size() - 3 - Equations();
    group.cycles = [m, sides, type = inputs[1].type, lower = Forward(), left = options_.left_side](
                       const TargetModel& target, const Box& box) {
      return TriangularSolveCycles(target, type, box.num_elements(), m, lower,
                                   box.end[sides] - box.begin[sides], left);
    };
    TilePlan plan;
    plan.supersteps.push_back({{std::move(group)}});
    return plan;
  }

  VertexGroup CopyGroup(const MatrixBlocks& blocks, OperandRef from, OperandRef to) const {
    VertexGroup group = MakeVertexGroup("poplin::TriangularCopy", blocks.grid.Vertices(), 100, kVertexBytes);
    group.reads.push_back({from, Same});
    group.writes.push_back({to, Same});
    group.compute = [](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                       const std::vector<HostTensor>& writes) { CopyTensor(host, reads[0], writes[0]); };
    group.cycles = [type = inputs[1].type](const TargetModel& target, const Box& box) {
      return CopyMatrixCycles(target, type, box.num_elements());
    };
    return group;
  }

  TilePlan PlanBlocks(const DeviceContext& context) const {
    const DType type = inputs[1].type;
    const auto blocks = std::make_shared<const MatrixBlocks>(MakeBlocks(context.num_tiles(), true));
    const std::size_t dim = Equations();
    const std::int64_t count = blocks->grid.parts[dim];
    const bool left = options_.left_side, transposed = options_.transpose != Transpose::kNone;
    const bool conjugate = options_.transpose == Transpose::kAdjoint;
    const bool forward = Forward();
    const auto bounds = [blocks, dim](std::int64_t block) {
      return std::pair(blocks->grid.Begin(static_cast<int>(dim), block),
                       blocks->grid.Begin(static_cast<int>(dim), block + 1));
    };
    const auto block_of = [left, blocks](const Box& box) {
      return left ? blocks->Row(box) : blocks->Column(box);
    };
    TilePlan plan;
    plan.temporaries.push_back({type, blocks->grid});
    plan.supersteps.push_back({{CopyGroup(*blocks, kRight, kWork)}});
    for (std::int64_t step = 0; step < count; ++step) {
      const std::int64_t k = forward ? step : count - 1 - step;
      const auto [k0, k1] = bounds(k);
      VertexGroup solve = MakeVertexGroup(
          "poplin::TriangularSolve",
          blocks->Where([left, k](std::int64_t i, std::int64_t j) { return (left ? i : j) == k; }), 700,
          kVertexBytes);
      solve.reads.push_back(
          {kMatrix, [k0 = k0, k1 = k1](const Box& box) { return MatrixRegion(box, k0, k1, k0, k1); }});
      solve.reads.push_back({kWork, Same});
      solve.writes.push_back({kWork, Same});
      solve.compute = [options = options_](HostContext& host, const Box&,
                                           const std::vector<HostTensor>& reads,
                                           const std::vector<HostTensor>& writes) {
        TriangularSolve(host, options, reads[0], reads[1], writes[0]);
      };
      solve.cycles = [type, forward, left, equations = k1 - k0](const TargetModel& target, const Box& box) {
        const std::int64_t elements = box.num_elements();
        return TriangularSolveCycles(target, type, elements, equations, forward, elements / equations, left);
      };
      plan.supersteps.push_back({{std::move(solve)}});
      if (step + 1 == count) break;

      VertexGroup update = MakeVertexGroup("poplin::TriangularUpdate",
                                           blocks->Where([left, forward, k](std::int64_t i, std::int64_t j) {
                                             const std::int64_t block = left ? i : j;
                                             return forward ? block > k : block < k;
                                           }),
                                           500, kVertexBytes);
      update.reads.push_back({kWork, Same});
      update.reads.push_back({kWork, [left, blocks, k](const Box& box) {
                                return left ? blocks->WithRows(box, k) : blocks->WithColumns(box, k);
                              }});
      // op(a) at (own block, k) for the left side, (k, own block) for the right side; transposed in memory if
      // op transposes.
      update.reads.push_back(
          {kMatrix, [left, transposed, bounds, block_of, k0 = k0, k1 = k1](const Box& box) {
             const auto [j0, j1] = bounds(block_of(box));
             return left != transposed ? MatrixRegion(box, j0, j1, k0, k1)
                                       : MatrixRegion(box, k0, k1, j0, j1);
           }});
      update.writes.push_back({kWork, Same});
      update.compute = [left, transposed, conjugate](HostContext& host, const Box&,
                                                     const std::vector<HostTensor>& reads,
                                                     const std::vector<HostTensor>& writes) {
        CopyTensor(host, reads[0], writes[0]);
        const HostTensor stored = LastMatrix(reads[2]), solved = LastMatrix(reads[1]);
        const HostTensor factor = transposed ? TransposedMatrix(stored) : stored;
        if (left) {
          SubtractProduct(factor, conjugate, solved, false, LastMatrix(writes[0]));
        } else {
          SubtractProduct(solved, false, factor, conjugate, LastMatrix(writes[0]));
        }
      };
      update.cycles = [type, inner = k1 - k0](const TargetModel& target, const Box& box) {
        return SubtractProductCycles(target, type, box.num_elements(), inner);
      };
      plan.supersteps.push_back({{std::move(update)}});
    }
    plan.supersteps.push_back({{CopyGroup(*blocks, kWork, kOutput)}});
    return plan;
  }

  TriangularOptions options_;
};

}  // namespace

std::unique_ptr<Operation> ReadTriangularSolve(Reader& reader) {
  TriangularOptions options;
  options.left_side = reader.Read<bool>();
  options.lower = reader.Read<bool>();
  options.unit_diagonal = reader.Read<bool>();
  options.transpose = reader.Read<Transpose>();
  return std::make_unique<TriangularSolveOperation>(options);
}

}  // namespace ipu_model

namespace hlo {

poplar::Tensor triangularSolve(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& b,
                               const ipu_model::TriangularOptions& options, poplar::program::Sequence& prog,
                               const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  const DType type = a.elementType().id();
  const unsigned rank = a.rank();
  bool fits = rank >= 2 && b.rank() == rank && b.elementType() == a.elementType() &&
              LinearAlgebraSupports(type) && a.dim(rank - 1) == a.dim(rank - 2) &&
              b.dim(rank - (options.left_side ? 2 : 1)) == a.dim(rank - 1);
  for (unsigned d = 0; fits && d + 2 < rank; ++d) fits = a.dim(d) == b.dim(d);
  if (!fits) {
    throw poplar::poplar_error(
        name + ": triangular_solve of " + NameOf(type) + " " + a.shapeToString() + " and " +
        NameOf(b.elementType().id()) + " " + b.shapeToString() +
        ": needs square matrices of f32, f64, c64 or c128 and matching right-hand sides");
  }
  auto operation = std::make_unique<TriangularSolveOperation>(options);
  operation->name = name;
  operation->inputs.push_back(StridedView(graph, a, prog, {debugContext, "a"}));
  operation->inputs.push_back(StridedView(graph, b, prog, {debugContext, "b"}));
  const poplar::Target& target = graph.getTarget();
  const ipu_model::Grid grid =
      operation
          ->MakeBlocks(target.getNumTiles(),
                       operation->InBlocks(static_cast<std::int64_t>(target.getBytesPerTile())))
          .grid;
  const poplar::Tensor out = NewTensor(graph, type, grid.shape, Mapping(grid), name);
  out.asView(&operation->outputs.emplace_back());
  AddOperation(prog, std::move(operation));
  return out;
}

}  // namespace hlo

namespace poplin {

poplar::Tensor triangularSolve(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& b,
                               bool leftSide, bool lower, bool unitDiagonal, poplar::program::Sequence& prog,
                               const poplar::DebugContext& debugContext) {
  const ipu_model::TriangularOptions options{leftSide, lower, unitDiagonal, ipu_model::Transpose::kNone};
  return hlo::triangularSolve(graph, a, b, options, prog, debugContext);
}

}  // namespace poplin
