// Reductions by Householder reflections from both sides: to Hessenberg form, to tridiagonal form if the
// matrix is Hermitian, and to bidiagonal form. Where there are many matrices, tiles have whole ones.
#include "kernels/linear_algebra/two_sided.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/graph/expandable.h"
#include "core/graph/graph_impl.h"
#include "core/operation/operand_check.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "hlo/LinearAlgebra.hpp"
#include "kernels/copy/strided_copy.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/host/isa.h"
#include "kernels/linear_algebra/linear_algebra.h"
#include "kernels/linear_algebra/reflectors.h"
#include "operations/data_views.h"
#include "operations/linear_algebra/batch_part.h"
#include "operations/linear_algebra/linear_algebra_cost.h"
#include "operations/linear_algebra/two_sided_steps.h"
#include "operations/linear_algebra/whole_matrices.h"
#include "operations/readers.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

using hlo::TwoSidedForm;

// inputs: the columns of the matrices [..., n, n]; outputs: their columns with reflectors, taus; for the
// bidiagonal form also reflectors of rows, each a row, and their taus.
class TwoSidedOperation : public Operation, public Expandable {
 public:
  explicit TwoSidedOperation(TwoSidedForm form) : form_(form) {}

  std::string_view kind() const override { return "hlo::twoSided"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    if (form_ != TwoSidedForm::kHessenberg && form_ != TwoSidedForm::kTridiagonal &&
        form_ != TwoSidedForm::kBidiagonal)
      return false;
    if (!HasOperands(*this, 1, HasRowReflectors(form_) ? 4 : 2)) return false;
    const Shape& a = inputs[0].shape;
    if (a.size() < 2 || a.back() != a[a.size() - 2] || a.back() < 2 || !LinearAlgebraSupports(inputs[0].type))
      return false;
    const auto fits = [&](std::size_t i, const Shape& shape) {
      return outputs[i].type == inputs[0].type && outputs[i].shape == shape;
    };
    const std::int64_t n = a.back();
    Shape rows = a;
    rows[a.size() - 2] = n - 1;
    return fits(0, a) && fits(1, Taus(a, HasRowReflectors(form_) ? n : n - 1)) &&
           (!HasRowReflectors(form_) || (fits(2, rows) && fits(3, Taus(a, n - 1))));
  }
  void Write(Writer& writer) const override { writer.Write(static_cast<std::int64_t>(form_)); }
  double flops() const override {
    const double n = static_cast<double>(inputs[0].shape.back());
    return static_cast<double>(inputs[0].num_elements()) * n * (form_ == TwoSidedForm::kHessenberg ? 10 : 8) /
           3;
  }
  static Shape Taus(const Shape& a, std::int64_t count) {
    Shape taus(a.begin(), a.end() - 1);
    taus.back() = count;
    return taus;
  }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    const HostTensor& a = in[0];
    if (a.num_elements() == 0) return;
    const std::int64_t n = a.shape[a.rank - 1], batch = a.num_elements() / (n * n);
    const auto bytes = static_cast<std::int64_t>(SizeOf(a.type));
    const std::int64_t size = (2 * n * n + 4 * n) * bytes;
    char* const memory = context.scratch.Allocate<char>(static_cast<std::size_t>(size * context.pool.size()));
    const int workers = static_cast<int>(std::min<std::int64_t>(batch, context.pool.size()));
    auto task = [&](int w) {
      for (std::int64_t b = batch * w / workers; b < batch * (w + 1) / workers; ++b) {
        Memory m{a.type, n, bytes, memory + w * size};
        CopyMatrix(BatchPart(a, 2, b), false, m.Matrix(0, n));
        Reduce(m);
        CopyMatrix(m.Matrix(0, n), false, BatchPart(out[0], 2, b));
        CopyTensor(context, m.Vector(2, out[1].shape[out[1].rank - 1]), BatchPart(out[1], 1, b));
        if (!HasRowReflectors(form_)) continue;
        CopyMatrix(m.Matrix(1, n - 1), false, BatchPart(out[2], 2, b));
        CopyTensor(context, m.Vector(3, n - 1), BatchPart(out[3], 1, b));
      }
    };
    workers > 1 ? context.pool.Run(workers, TaskRef(task)) : task(0);
  }

  // Whether workers reduce whole matrices.
  static bool IsWhole(TwoSidedForm form, const Shape& shape, DType type, const TargetModel& target,
                      unsigned num_tiles) {
    const auto shared = [&](unsigned tiles) {
      const Shape one(shape.end() - 2, shape.end());
      return PlanTwoSidedSteps(form, type, TwoSidedColumns(one, type, target.worker_contexts, tiles));
    };
    return WholePays(WholeGrid(shape, type, num_tiles), shape.size() - 2,
                     Whole(form, shape, type, target.worker_contexts), shared, target);
  }
  static Grid MakeGrid(const Shape& shape, DType type, unsigned workers, unsigned num_tiles, bool whole) {
    return whole ? WholeGrid(shape, type, num_tiles) : TwoSidedColumns(shape, type, workers, num_tiles);
  }

  TilePlan Plan(const DeviceContext& context) const override {
    const Shape& shape = inputs[0].shape;
    const DType type = inputs[0].type;
    const unsigned workers = context.target().worker_contexts;
    const bool whole = IsWhole(form_, shape, type, context.target(), context.num_tiles());
    const Grid columns = MakeGrid(shape, type, workers, context.num_tiles(), whole);
    if (!whole) return PlanTwoSidedSteps(form_, type, columns);
    return PlanWholeMatrices(*this, columns, shape.size() - 2, Whole(form_, shape, type, workers));
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    library.twoSided(graph, form_, InputsBesideOutputs(*this, graph, in, prog)[0], out, PlanOf(*this, graph),
                     prog, name);
  }

 private:
  static WholeMatrices Whole(TwoSidedForm form, const Shape& shape, DType type, unsigned workers) {
    const std::int64_t n = shape.back();
    WholeMatrices matrices;
    matrices.codelet = "hlo::TwoSidedMatrices";
    matrices.code_bytes = kTwoSidedCodeBytes;
    // Each worker has two vectors beside its matrix.
    matrices.vertex_bytes = kTwoSidedVertexBytes + static_cast<std::uint64_t>(2 * n * workers) * SizeOf(type);
    matrices.compute = [form](HostContext& host, const std::vector<HostTensor>& reads,
                              const std::vector<HostTensor>& writes) {
      TwoSidedOperation(form).Run(host, reads, writes);
    };
    matrices.cycles = [form, type, n](const TargetModel& target) {
      return TwoSidedOperation(form).MatrixCycles(target, type, n);
    };
    // Columns, their taus, and for the bidiagonal form reflectors of rows and theirs.
    matrices.grain =
        std::max(ColumnGrain(type, n * n), ColumnGrain(type, HasRowReflectors(form) ? n : n - 1));
    if (HasRowReflectors(form))
      matrices.grain = std::max({matrices.grain, ColumnGrain(type, (n - 1) * n), ColumnGrain(type, n - 1)});
    return matrices;
  }

  // The cycles of a matrix by one worker: those of all steps.
  double MatrixCycles(const TargetModel& target, DType type, std::int64_t n) const {
    double cycles = VectorLoopCycles(target, type, n * n, 2, 0);
    for (std::int64_t j = 0; j < ColumnReflectors(form_, n); ++j) {
      const std::int64_t rest = n - j - 1;
      cycles += FindCycles(target, type, true, n - PivotOfColumn(form_, j));
      if (rest == 0) break;
      const auto columns = static_cast<double>(rest);
      cycles += columns * VectorLoopCycles(target, type, n - PivotOfColumn(form_, j), 2, 1);
      if (form_ == TwoSidedForm::kTridiagonal) {
        cycles +=
            VectorLoopCycles(target, type, rest, 2, 1) + columns * VectorLoopCycles(target, type, rest, 4, 2);
        continue;
      }
      if (HasRowReflectors(form_)) {
        cycles += VectorLoopCycles(target, type, rest, 3, 0) + FindCycles(target, type, true, rest);
        cycles += VectorLoopCycles(target, type, rest, 2, 1) + columns * ElementLoopCycles(type, rest, 2, 1);
        cycles += columns * VectorLoopCycles(target, type, rest, 4, 2);
        continue;
      }
      cycles += static_cast<double>(n) * ElementLoopCycles(type, rest, 2, 1);
      cycles += VectorLoopCycles(target, type, rest, 2, 1);
      cycles += columns *
                (VectorLoopCycles(target, type, rest, 4, 2) + VectorLoopCycles(target, type, n - rest, 3, 1));
    }
    return cycles;
  }

  // What a matrix needs on the host: columns, rows of reflectors, and four vectors.
  struct Memory {
    DType type;
    std::int64_t n, bytes;
    char* data;
    char* At(std::int64_t element) const { return data + element * bytes; }
    char* Column(std::int64_t c) const { return At(c * n); }
    char* RowReflector(std::int64_t j) const { return At((n + j) * n); }
    char* VectorAt(std::int64_t which, std::int64_t i) const { return At((2 * n + which) * n + i); }
    HostTensor Matrix(std::int64_t which, std::int64_t rows) const {
      HostTensor t = Vector(0, n);
      t.data = At(which * n * n);
      t.rank = 2;
      t.shape[0] = rows;
      t.shape[1] = t.strides[0] = n;
      t.strides[1] = 1;
      return t;
    }
    HostTensor Vector(std::int64_t which, std::int64_t count) const {
      return DenseVector(type, count, VectorAt(which, 0));
    }
  };

  void Reduce(const Memory& m) const {
    const std::int64_t n = m.n;
    for (std::int64_t j = 0; j < ColumnReflectors(form_, n); ++j) {
      char *const v = m.Column(j), *const tau = m.VectorAt(2, j), *const y = m.VectorAt(0, 0),
                  *const z = m.VectorAt(1, j + 1);
      JAX_IPU_FOR_ISA(FindReflector(m.type, n, PivotOfColumn(form_, j), 1, v, tau));
      if (j + 1 == n) break;
      const ColumnBlock rest{m.type, n, j + 1, n - j - 1, m.Column(j + 1)};
      if (form_ == TwoSidedForm::kTridiagonal) {
        JAX_IPU_FOR_ISA(ProjectColumns(rest, j + 1, v, tau, true, z));
        JAX_IPU_FOR_ISA(ReflectBothSides(rest, j + 1, v, tau, z, nullptr));
        continue;
      }
      JAX_IPU_FOR_ISA(ProjectColumns(rest, PivotOfColumn(form_, j), v, tau, false, z));
      if (!HasRowReflectors(form_)) {
        JAX_IPU_FOR_ISA(MultiplyVector(m.type, n, rest.count, n, rest.data, m.At(j * n + j + 1), tau, nullptr,
                                       nullptr, y));
        JAX_IPU_FOR_ISA(ReflectBothSides(rest, j + 1, v, tau, y, z));
        continue;
      }
      char *const w = m.RowReflector(j), *const row_tau = m.VectorAt(3, j);
      JAX_IPU_FOR_ISA(FindRowReflector(m.type, n, j + 1, n, m.At((j + 1) * n + j), z, w, row_tau));
      JAX_IPU_FOR_ISA(MultiplyVector(m.type, rest.count, rest.count, n, m.At((j + 1) * n + j + 1),
                                     w + (j + 1) * m.bytes, row_tau, v + (j + 1) * m.bytes, z, y));
      JAX_IPU_FOR_ISA(SubtractBoth(rest, j + 1, v, z, y, w));
    }
  }

  TwoSidedForm form_;
};

}  // namespace

std::unique_ptr<Operation> ReadTwoSided(Reader& reader) {
  return std::make_unique<TwoSidedOperation>(static_cast<TwoSidedForm>(reader.Read<std::int64_t>()));
}

}  // namespace ipu_model

namespace hlo {

TwoSided twoSided(poplar::Graph& graph, TwoSidedForm form, const poplar::Tensor& a,
                  poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  const DType type = a.elementType().id();
  const unsigned rank = a.rank();
  if (rank < 2 || a.dim(rank - 1) != a.dim(rank - 2) || a.dim(rank - 1) < 2 || !LinearAlgebraSupports(type)) {
    throw poplar::poplar_error(
        name + ": twoSided needs square matrices of f32, f64, c64 or c128, 2 or larger, not " + NameOf(type) +
        " " + a.shapeToString());
  }
  std::vector<unsigned> transposed;
  for (unsigned d = 0; d < rank; ++d) transposed.push_back(d);
  std::swap(transposed[rank - 1], transposed[rank - 2]);
  auto operation = std::make_unique<TwoSidedOperation>(form);
  operation->name = name;
  operation->inputs.push_back(StridedView(graph, a.dimShuffle(transposed), prog, {debugContext, "a"}));
  const poplar::Target& target = graph.getTarget();
  const Shape& shape = operation->inputs[0].shape;
  const ipu_model::Grid columns = TwoSidedOperation::MakeGrid(
      shape, type, target.getNumWorkerContexts(), target.getNumTiles(),
      TwoSidedOperation::IsWhole(form, shape, type, target.model(), target.getNumTiles()));
  const auto add_result = [&](const ipu_model::Grid& grid) {
    const poplar::Tensor tensor = NewTensor(graph, type, grid.shape, Mapping(grid), name);
    tensor.asView(&operation->outputs.emplace_back());
    return tensor;
  };
  const auto n = static_cast<std::int64_t>(a.dim(rank - 1));
  TwoSided result;
  result.packed = add_result(columns).dimShuffle(transposed);
  result.taus = add_result(BesideFirstColumns(columns, form == TwoSidedForm::kBidiagonal ? n : n - 1));
  if (form == TwoSidedForm::kBidiagonal) {
    ipu_model::Grid rows = columns;
    rows.shape[rank - 2] = n - 1;
    rows.parts[rank - 2] = 1;
    result.rowReflectors = add_result(rows).dimShuffle(transposed);
    result.rowTaus = add_result(BesideFirstColumns(columns, n - 1));
  }
  AddOperation(prog, std::move(operation));
  return result;
}

}  // namespace hlo
