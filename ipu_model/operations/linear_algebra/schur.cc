// The Schur form of small matrices. One worker has a matrix: a sweep is many dependent steps of a few
// numbers.
#include "kernels/linear_algebra/schur.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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
#include "operations/data_views.h"
#include "operations/index/slice_grid.h"
#include "operations/linear_algebra/linear_algebra_cost.h"
#include "operations/readers.h"
#include "operations/vertex_groups.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

constexpr std::uint64_t kVertexBytes = 24, kCodeBytes = 4200;  // model estimates

// A dense tensor in scratch memory.
HostTensor DenseLike(HostContext& context, const HostTensor& like) {
  HostTensor to = like;
  const auto elements = static_cast<std::size_t>(SetDenseStrides(&to));
  to.data = context.scratch.Allocate<char>(elements * SizeOf(like.type));
  return to;
}

// `results` are T and, if there are two, Z.
void FindForms(HostContext& context, bool balanced, const HostTensor& a,
               const std::vector<HostTensor>& results, int workers) {
  const std::int64_t n = a.shape[a.rank - 1], batch = a.num_elements() / (n * n);
  const std::int64_t bytes = n * n * static_cast<std::int64_t>(SizeOf(a.type));
  std::vector<HostTensor> dense;
  for (const HostTensor& result : results) dense.push_back(DenseLike(context, result));
  CopyTensor(context, a, dense[0]);
  auto task = [&](int w) {
    for (std::int64_t b = batch * w / workers; b < batch * (w + 1) / workers; ++b) {
      char* const t = dense[0].as<char>() + b * bytes;
      char* const z = dense.size() > 1 ? dense[1].as<char>() + b * bytes : nullptr;
      JAX_IPU_FOR_ISA(SchurForm(a.type, n, balanced, t, z));
    }
  };
  workers > 1 ? context.pool.Run(workers, TaskRef(task)) : task(0);
  for (std::size_t i = 0; i < results.size(); ++i) CopyTensor(context, dense[i], results[i]);
}

// inputs: a; outputs: t, and z if it is wanted.
class SchurOperation : public Operation, public Expandable {
 public:
  explicit SchurOperation(bool balanced) : balanced_(balanced) {}

  std::string_view kind() const override { return "hlo::schur"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    if (inputs.size() != 1 || outputs.empty() || outputs.size() > 2) return false;
    const Shape& a = inputs[0].shape;
    if (a.size() < 2 || a.back() != a[a.size() - 2] || a.back() < 1 || a.back() > hlo::kMostSchurRows ||
        !LinearAlgebraSupports(inputs[0].type))
      return false;
    return std::all_of(outputs.begin(), outputs.end(), [&](const View& output) {
      return output.type == inputs[0].type && output.shape == a;
    });
  }
  void Write(Writer& writer) const override { writer.Write(balanced_); }
  // G. Golub and C. van Loan, "Matrix Computations", 7.5.6.
  double flops() const override {
    const double n = static_cast<double>(inputs[0].shape.back());
    return (outputs.size() > 1 ? 25 : 10) * n * static_cast<double>(inputs[0].num_elements()) *
           (IsComplex(inputs[0].type) ? 4 : 1);
  }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    const std::int64_t elements = in[0].num_elements();
    if (elements == 0) return;
    const std::int64_t n = in[0].shape[in[0].rank - 1];
    const int workers = static_cast<int>(
        std::min<std::int64_t>({elements / (n * n), elements / kSharedElements + 1, context.pool.size()}));
    FindForms(context, balanced_, in[0], out, workers);
  }

  // Whole matrices.
  static Grid MakeGrid(const Shape& shape, DType type, unsigned num_tiles) {
    std::vector<bool> whole(shape.size(), false);
    whole[shape.size() - 1] = whole[shape.size() - 2] = true;
    return SliceGrid(shape, whole, type, num_tiles, INT64_MAX);
  }

  TilePlan Plan(const DeviceContext& context) const override {
    const DType type = inputs[0].type;
    const std::int64_t n = inputs[0].shape.back();
    VertexGroup group =
        MakeVertexGroup("hlo::Schur", MakeGrid(inputs[0].shape, type, context.num_tiles()).Vertices(),
                        kCodeBytes, kVertexBytes);
    group.reads.push_back({{OperandRef::Kind::kInput, 0}, Same});
    for (unsigned i = 0; i < outputs.size(); ++i)
      group.writes.push_back({{OperandRef::Kind::kOutput, i}, Same});
    group.compute = [balanced = balanced_](HostContext& host, const Box&,
                                           const std::vector<HostTensor>& reads,
                                           const std::vector<HostTensor>& writes) {
      FindForms(host, balanced, reads[0], writes, 1);
    };
    group.cycles = [type, n, vectors = outputs.size() > 1](const TargetModel& target, const Box& box) {
      const std::int64_t matrices = box.num_elements() / (n * n);
      return WorkerCycles(target,
                          static_cast<double>(WorkerShare(target, matrices, ColumnGrain(type, n * n))) *
                              SchurCycles(type, n, vectors));
    };
    TilePlan plan;
    plan.supersteps.push_back({{std::move(group)}});
    return plan;
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    library.schur(graph, balanced_, InputsBesideOutputs(*this, graph, in, prog)[0], out, PlanOf(*this, graph),
                  prog, name);
  }

 private:
  // Fewer elements are not shared between threads.
  static constexpr std::int64_t kSharedElements = 256;

  bool balanced_;
};

}  // namespace

std::unique_ptr<Operation> ReadSchur(Reader& reader) {
  return std::make_unique<SchurOperation>(reader.Read<bool>());
}

}  // namespace ipu_model

namespace hlo {

std::vector<poplar::Tensor> schur(poplar::Graph& graph, const poplar::Tensor& a, bool balanced, bool vectors,
                                  poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  const DType type = a.elementType().id();
  const unsigned rank = a.rank();
  if (rank < 2 || a.dim(rank - 1) != a.dim(rank - 2) || a.dim(rank - 1) == 0 ||
      a.dim(rank - 1) > kMostSchurRows || !LinearAlgebraSupports(type)) {
    throw poplar::poplar_error(name + ": the Schur form is of square matrices with 1 to " +
                               std::to_string(kMostSchurRows) + " rows, f32, f64, c64 or c128, not " +
                               NameOf(type) + " " + a.shapeToString());
  }
  auto operation = std::make_unique<SchurOperation>(balanced);
  operation->name = name;
  operation->inputs.push_back(StridedView(graph, a, prog, {debugContext, "a"}));
  const ipu_model::Grid grid = SchurOperation::MakeGrid(ShapeOf(a), type, graph.getTarget().getNumTiles());
  std::vector<poplar::Tensor> results;
  for (int i = 0; i < (vectors ? 2 : 1); ++i) {
    results.push_back(NewTensor(graph, type, grid.shape, Mapping(grid), name));
    results.back().asView(&operation->outputs.emplace_back());
  }
  AddOperation(prog, std::move(operation));
  return results;
}

}  // namespace hlo
