// Cholesky factorisation. Of many matrices, workers take whole ones. Few are factorised column by column, and
// large ones in blocks, right-looking: factor a diagonal block, solve the blocks below it, update the rest.
#include "poplin/Cholesky.hpp"

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "core/graph/expandable.h"
#include "core/graph/graph_impl.h"
#include "core/operation/operand_check.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "kernels/copy/strided_copy.h"
#include "kernels/linear_algebra/linear_algebra.h"
#include "operations/data_views.h"
#include "operations/linear_algebra/cholesky_columns.h"
#include "operations/linear_algebra/linear_algebra_cost.h"
#include "operations/linear_algebra/matrix_blocks.h"
#include "operations/linear_algebra/whole_matrices.h"
#include "operations/readers.h"
#include "operations/vertex_groups.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

constexpr std::uint64_t kVertexBytes = 32;  // pointers, lengths and strides (model estimate)

constexpr OperandRef kInput{OperandRef::Kind::kInput, 0}, kOutput{OperandRef::Kind::kOutput, 0},
    kWork{OperandRef::Kind::kTemporary, 0};

bool IsNan(const HostTensor& t) {
  return t.type == DType::kF32 || t.type == DType::kC64 ? std::isnan(*t.as<float>())
                                                        : std::isnan(*t.as<double>());
}

void FillReal(const HostTensor& t, double value) {
  const std::int64_t n = t.num_elements() * (IsComplex(t.type) ? 2 : 1);
  if (t.type == DType::kF32 || t.type == DType::kC64) {
    std::fill(t.as<float>(), t.as<float>() + n, static_cast<float>(value));
  } else {
    std::fill(t.as<double>(), t.as<double>() + n, value);
  }
}

// inputs: a; outputs: factor.
class CholeskyOperation : public Operation, public Expandable {
 public:
  explicit CholeskyOperation(bool lower) : lower_(lower) {}

  std::string_view kind() const override { return "poplin::cholesky"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    if (!HasOperands(*this, 1, 1)) return false;
    const Shape& a = inputs[0].shape;
    return a.size() >= 2 && a[a.size() - 1] == a[a.size() - 2] && LinearAlgebraSupports(inputs[0].type) &&
           outputs[0].shape == a && outputs[0].type == inputs[0].type;
  }
  void Write(Writer& writer) const override { writer.Write(lower_); }
  double flops() const override {
    const double n = static_cast<double>(inputs[0].shape.back());
    return static_cast<double>(inputs[0].num_elements()) * n / 3;
  }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    Cholesky(context, lower_, in[0], out[0]);
  }

  static bool InBlocks(const Shape& shape, DType type, unsigned num_tiles, std::int64_t bytes_per_tile) {
    const std::int64_t n = shape.back(), bytes = n * n * static_cast<std::int64_t>(SizeOf(type));
    const std::int64_t batch = n == 0 ? 0 : NumElements(shape) / (n * n);
    return n > MatrixBlocks::kSize && (3 * bytes > bytes_per_tile / 2 || (n >= 192 && batch * 8 < num_tiles));
  }

  // Whether the matrices are factorised column by column.
  static bool InColumns(const Shape& shape, DType type, const TargetModel& target, unsigned num_tiles) {
    const std::int64_t n = shape.back();
    if (n == 0) return false;
    const std::int64_t each = MostOnTile(WholeGrid(shape, type, num_tiles), shape.size() - 2);
    return CholeskyColumnsPay(shape, type, target, num_tiles, CholeskyCycles(target, type, each * n * n, n));
  }

  static Grid MakeGrid(const Shape& shape, DType type, const TargetModel& target, unsigned num_tiles) {
    if (InColumns(shape, type, target, num_tiles)) return CholeskyRowsGrid(shape, type, target, num_tiles);
    if (InBlocks(shape, type, num_tiles, target.bytes_per_tile))
      return MatrixBlocks(shape, true, true, 1, num_tiles).grid;
    return WholeGrid(shape, type, num_tiles);
  }

  TilePlan Plan(const DeviceContext& context) const override {
    const Shape& shape = inputs[0].shape;
    const DType type = inputs[0].type;
    if (InColumns(shape, type, context.target(), context.num_tiles()))
      return PlanCholeskyColumns(shape, type, lower_, context.target(), context.num_tiles());
    if (InBlocks(shape, type, context.num_tiles(), context.target().bytes_per_tile))
      return PlanBlocks(context);
    TilePlan plan;
    VertexGroup group = MakeVertexGroup(
        "poplin::Cholesky", MakeGrid(shape, type, context.target(), context.num_tiles()).Vertices(), 800,
        kVertexBytes);
    group.reads.push_back({kInput, Same});
    group.writes.push_back({kOutput, Same});
    group.compute = [lower = lower_](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                                     const std::vector<HostTensor>& writes) {
      Cholesky(host, lower, reads[0], writes[0]);
    };
    group.cycles = [type, n = shape.back()](const TargetModel& target, const Box& box) {
      return CholeskyCycles(target, type, box.num_elements(), n);
    };
    plan.supersteps.push_back({{std::move(group)}});
    return plan;
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    const poplar::Target& target = graph.getTarget();
    const Shape& shape = inputs[0].shape;
    if (InColumns(shape, inputs[0].type, target.model(), target.getNumTiles())) {
      library.choleskyColumns(graph, in[0], out[0], lower_, PlanOf(*this, graph), prog, name);
      return;
    }
    library.cholesky(graph, in[0], out[0], lower_,
                     GridOf(MakeGrid(shape, inputs[0].type, target.model(), target.getNumTiles())), prog,
                     name);
  }

 private:
  TilePlan PlanBlocks(const DeviceContext& context) const {
    const DType type = inputs[0].type;
    const auto blocks =
        std::make_shared<const MatrixBlocks>(inputs[0].shape, true, true, 1, context.num_tiles());
    const std::int64_t count = blocks->grid.parts.back();
    TilePlan plan;
    plan.temporaries.push_back({type, blocks->grid});

    VertexGroup load = MakeVertexGroup(
        "poplin::CholeskyLoad", blocks->Where([](auto i, auto j) { return i >= j; }), 150, kVertexBytes);
    load.reads.push_back({kInput, [lower = lower_](const Box& box) { return lower ? box : Mirrored(box); }});
    load.writes.push_back({kWork, Same});
    load.compute = [lower = lower_](HostContext&, const Box&, const std::vector<HostTensor>& reads,
                                    const std::vector<HostTensor>& writes) {
      CopyMatrix(LastMatrix(reads[0]), !lower, LastMatrix(writes[0]));
    };
    load.cycles = [type](const TargetModel& target, const Box& box) {
      return CopyMatrixCycles(target, type, box.num_elements());
    };
    plan.supersteps.push_back({{std::move(load)}});

    for (std::int64_t k = 0; k < count; ++k) {
      VertexGroup factor =
          MakeVertexGroup("poplin::CholeskyFactor",
                          blocks->Where([k](auto i, auto j) { return i == k && j == k; }), 600, kVertexBytes);
      factor.reads.push_back({kWork, Same});
      factor.writes.push_back({kWork, Same});
      factor.compute = [](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                          const std::vector<HostTensor>& writes) {
        CopyTensor(host, reads[0], writes[0]);
        FactorBlock(LastMatrix(writes[0]));
      };
      factor.cycles = [type](const TargetModel& target, const Box& box) {
        return CholeskyCycles(target, type, box.num_elements(), box.end.back() - box.begin.back());
      };
      plan.supersteps.push_back({{std::move(factor)}});
      if (k + 1 == count) break;

      VertexGroup solve =
          MakeVertexGroup("poplin::CholeskySolve",
                          blocks->Where([k](auto i, auto j) { return i > k && j == k; }), 500, kVertexBytes);
      solve.reads.push_back({kWork, Same});
      solve.reads.push_back({kWork, [blocks, k](const Box& box) { return blocks->WithRows(box, k); }});
      solve.writes.push_back({kWork, Same});
      solve.compute = [](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                         const std::vector<HostTensor>& writes) {
        CopyTensor(host, reads[0], writes[0]);
        SolveBlock(LastMatrix(reads[1]), LastMatrix(writes[0]));
      };
      solve.cycles = [type](const TargetModel& target, const Box& box) {
        const std::int64_t elements = box.num_elements();
        return TriangularSolveCycles(target, type, elements, MatrixBlocks::kSize, /*lower=*/true,
                                     elements / MatrixBlocks::kSize, /*left=*/false);
      };
      plan.supersteps.push_back({{std::move(solve)}});

      VertexGroup update =
          MakeVertexGroup("poplin::CholeskyUpdate",
                          blocks->Where([k](auto i, auto j) { return j > k && i >= j; }), 400, kVertexBytes);
      update.reads.push_back({kWork, Same});
      update.reads.push_back({kWork, [blocks, k](const Box& box) { return blocks->WithColumns(box, k); }});
      update.reads.push_back({kWork, [blocks, k](const Box& box) {
                                return blocks->WithColumns(blocks->WithRows(box, blocks->Column(box)), k);
                              }});
      update.writes.push_back({kWork, Same});
      update.compute = [](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                          const std::vector<HostTensor>& writes) {
        CopyTensor(host, reads[0], writes[0]);
        SubtractProduct(LastMatrix(reads[1]), false, TransposedMatrix(LastMatrix(reads[2])), true,
                        LastMatrix(writes[0]));
      };
      update.cycles = [type](const TargetModel& target, const Box& box) {
        return SubtractProductCycles(target, type, box.num_elements(), MatrixBlocks::kSize);
      };
      plan.supersteps.push_back({{std::move(update)}});
    }
    plan.supersteps.push_back({{Store(blocks, true), Store(blocks, false)}});
    return plan;
  }

  // Copies the blocks of the working copy's lower triangle (`kept`), or zeros for the other triangle, to the
  // result. A failure made the last pivot NaN; then the whole result is NaN.
  VertexGroup Store(const std::shared_ptr<const MatrixBlocks>& blocks, bool kept) const {
    VertexGroup group = MakeVertexGroup("poplin::CholeskyStore",
                                        blocks->Where([kept](auto i, auto j) { return (i >= j) == kept; }),
                                        200, kVertexBytes);
    group.reads.push_back({kWork, [n = inputs[0].shape.back()](const Box& box) {
                             Box last = box;
                             for (std::size_t d = box.begin.size() - 2; d < box.begin.size(); ++d) {
                               last.begin[d] = n - 1;
                               last.end[d] = n;
                             }
                             return last;
                           }});
    if (kept) group.reads.push_back({kWork, Same});
    group.writes.push_back(
        {kOutput, [lower = lower_](const Box& box) { return lower ? box : Mirrored(box); }});
    group.compute = [blocks, kept, lower = lower_](HostContext&, const Box& box,
                                                   const std::vector<HostTensor>& reads,
                                                   const std::vector<HostTensor>& writes) {
      if (IsNan(reads[0])) return FillReal(writes[0], std::nan(""));
      if (!kept) return FillReal(writes[0], 0);
      const HostTensor from = LastMatrix(reads[1]), to = LastMatrix(writes[0]);
      CopyMatrix(from, !lower, to);
      if (blocks->Row(box) != blocks->Column(box)) return;
      for (std::int64_t i = 0; i < to.shape[0]; ++i) {
        const std::int64_t begin[] = {i, lower ? i + 1 : 0}, shape[] = {1, lower ? to.shape[1] - i - 1 : i};
        if (shape[1] > 0) FillReal(SubTensor(to, begin, shape), 0);
      }
    };
    group.cycles = [kept, type = inputs[0].type](const TargetModel& target, const Box& box) {
      return CholeskyStoreCycles(target, type, box.num_elements(), kept);
    };
    return group;
  }

  bool lower_;
};

}  // namespace

std::unique_ptr<Operation> ReadCholesky(Reader& reader) {
  return std::make_unique<CholeskyOperation>(reader.Read<bool>());
}

}  // namespace ipu_model

namespace poplin {

poplar::Tensor cholesky(poplar::Graph& graph, const poplar::Tensor& a, bool lower,
                        poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  const DType type = a.elementType().id();
  const unsigned rank = a.rank();
  if (rank < 2 || a.dim(rank - 1) != a.dim(rank - 2) || !LinearAlgebraSupports(type)) {
    throw poplar::poplar_error(name + ": cholesky needs square matrices of f32, f64, c64 or c128, not " +
                               NameOf(type) + " " + a.shapeToString());
  }
  auto operation = std::make_unique<CholeskyOperation>(lower);
  operation->name = name;
  operation->inputs.push_back(StridedView(graph, a, prog, {debugContext, "a"}));
  const poplar::Target& target = graph.getTarget();
  const Grid grid =
      CholeskyOperation::MakeGrid(operation->inputs[0].shape, type, target.model(), target.getNumTiles());
  const poplar::Tensor out = NewTensor(graph, type, grid.shape, Mapping(grid), name);
  out.asView(&operation->outputs.emplace_back());
  AddOperation(prog, std::move(operation));
  return out;
}

}  // namespace poplin
