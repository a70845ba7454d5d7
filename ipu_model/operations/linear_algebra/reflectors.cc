// QR factorisation by Householder reflections, and products with Q. The columns are spread over tiles. In
// each superstep of the factorisation every tile reflects its columns, and the tile of the next column then
// finds the next reflector. A product with Q is one superstep: reflections of a column need no other column.
// Where there are many matrices, tiles have whole ones.
#include "kernels/linear_algebra/reflectors.h"

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
#include "kernels/host/isa.h"
#include "kernels/linear_algebra/linear_algebra.h"
#include "operations/data_views.h"
#include "operations/linear_algebra/batch_part.h"
#include "operations/linear_algebra/linear_algebra_cost.h"
#include "operations/linear_algebra/whole_matrices.h"
#include "operations/readers.h"
#include "operations/vertex_groups.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

constexpr std::uint64_t kVertexBytes = 40;  // pointers, lengths and strides (model estimate)

constexpr OperandRef kInput{OperandRef::Kind::kInput, 0}, kTausOf{OperandRef::Kind::kInput, 1},
    kFactor{OperandRef::Kind::kInput, 2}, kResult{OperandRef::Kind::kOutput, 0},
    kTaus{OperandRef::Kind::kOutput, 1};

char* At(const HostTensor& t, std::int64_t element) {
  return t.as<char>() + element * static_cast<std::int64_t>(SizeOf(t.type));
}

// The first element of a column of a dense block [1..., m, columns], or of a matrix with strides.
char* Column(const HostTensor& t, std::int64_t column) { return At(t, column * t.strides[t.rank - 1]); }
std::int64_t RowStride(const HostTensor& t) { return t.strides[t.rank - 2]; }
std::int64_t Rows(const HostTensor& t) { return t.shape[t.rank - 2]; }

void FindColumn(const HostTensor& block, std::int64_t column, std::int64_t pivot, void* tau) {
  JAX_IPU_FOR_ISA(FindReflector)(block.type, Rows(block), pivot, RowStride(block), Column(block, column),
                                 tau);
}
void ReflectColumn(const HostTensor& v, std::int64_t v_column, const void* tau, std::int64_t pivot,
                   bool adjoint, const HostTensor& block, std::int64_t column) {
  JAX_IPU_FOR_ISA(Reflect)(block.type, Rows(block), pivot, adjoint, RowStride(v), Column(v, v_column), tau,
                           RowStride(block), Column(block, column));
}

// A matrix [m, n] with contiguous columns.
HostTensor Columns(DType type, std::int64_t m, std::int64_t n, char* memory) {
  HostTensor matrix;
  matrix.data = memory;
  matrix.type = type;
  matrix.rank = 2;
  matrix.shape[0] = matrix.strides[1] = m;
  matrix.shape[1] = n;
  matrix.strides[0] = 1;
  return matrix;
}

// Calls f(worker, matrix) for each matrix of a batch.
template <typename F>
void ForEachMatrix(HostContext& context, std::int64_t batch, F&& f) {
  const int workers = static_cast<int>(std::min<std::int64_t>(batch, context.pool.size()));
  auto task = [&](int w) {
    for (std::int64_t b = batch * w / workers; b < batch * (w + 1) / workers; ++b) f(w, b);
  };
  workers > 1 ? context.pool.Run(workers, TaskRef(task)) : task(0);
}

// Grid of matrices [..., m, n] into groups of whole columns, or whole matrices if there are more than tiles.
Grid ColumnGrid(const Shape& shape, DType type, unsigned num_tiles) {
  if (NumMatrices(shape) > num_tiles) return WholeGrid(shape, type, num_tiles);
  const std::size_t rank = shape.size();
  const std::int64_t batch = NumMatrices(shape);
  Grid grid;
  grid.shape = shape;
  grid.parts = shape;
  grid.parts[rank - 2] = 1;
  grid.parts[rank - 1] =
      std::clamp<std::int64_t>(num_tiles / std::max<std::int64_t>(1, batch), 1, shape[rank - 1]);
  grid.grain.assign(rank, 1);
  grid.num_tiles = num_tiles;
  grid.tile_stride = RowMajorStrides(grid.parts);
  return grid;
}

// Grid of a vector per matrix, on the tile with the first columns.
Grid VectorGrid(Grid columns, std::int64_t extent) {
  const auto row_dim = static_cast<std::ptrdiff_t>(columns.shape.size()) - 2;
  for (Shape* shape : {&columns.shape, &columns.parts, &columns.grain, &columns.tile_stride})
    shape->erase(shape->begin() + row_dim);
  columns.shape.back() = extent;
  columns.parts.back() = 1;
  return columns;
}

// inputs: a; outputs: packed, taus.
class QrPanelOperation : public Operation, public Expandable {
 public:
  std::string_view kind() const override { return "hlo::qrPanel"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    if (!HasOperands(*this, 1, 2)) return false;
    const Shape& a = inputs[0].shape;
    if (a.size() < 2 || inputs[0].num_elements() == 0) return false;
    Shape taus(a.begin(), a.end() - 2);
    taus.push_back(std::min(a.back(), a[a.size() - 2]));
    return LinearAlgebraSupports(inputs[0].type) && outputs[0].shape == a &&
           outputs[0].type == inputs[0].type && outputs[1].shape == taus && outputs[1].type == inputs[0].type;
  }
  void Write(Writer&) const override {}
  double flops() const override {
    return 2 * static_cast<double>(inputs[0].num_elements()) * static_cast<double>(outputs[1].shape.back());
  }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    Factor(context, in, out);
  }

  static void Factor(HostContext& context, const std::vector<HostTensor>& in,
                     const std::vector<HostTensor>& out) {
    const HostTensor& a = in[0];
    const std::int64_t m = Rows(a), n = a.shape[a.rank - 1], count = std::min(m, n);
    const std::int64_t bytes = static_cast<std::int64_t>(SizeOf(a.type));
    char* const memory =
        context.scratch.Allocate<char>(static_cast<std::size_t>(m * n * bytes * context.pool.size()));
    ForEachMatrix(context, a.num_elements() / (m * n), [&](int worker, std::int64_t b) {
      const HostTensor panel = Columns(a.type, m, n, memory + worker * m * n * bytes);
      const HostTensor taus = BatchPart(out[1], 1, b);
      CopyMatrix(BatchPart(a, 2, b), false, panel);
      for (std::int64_t j = 0; j < count; ++j) {
        char* const tau = At(taus, j * taus.strides[0]);
        FindColumn(panel, j, j, tau);
        for (std::int64_t c = j + 1; c < n; ++c) ReflectColumn(panel, j, tau, j, true, panel, c);
      }
      CopyMatrix(panel, false, BatchPart(out[0], 2, b));
    });
  }

  // Whether workers factorise whole matrices.
  static bool IsWhole(const Shape& shape, DType type, const TargetModel& target, unsigned num_tiles) {
    const auto shared = [&](unsigned tiles) {
      return PlanSteps(ColumnGrid({shape[shape.size() - 2], shape.back()}, type, tiles), type);
    };
    return WholePays(WholeGrid(shape, type, num_tiles), shape.size() - 2, Whole(shape, type), shared, target);
  }
  static Grid MakeGrid(const Shape& shape, DType type, unsigned num_tiles, bool whole) {
    return whole ? WholeGrid(shape, type, num_tiles) : ColumnGrid(shape, type, num_tiles);
  }

  TilePlan Plan(const DeviceContext& context) const override {
    const DType type = inputs[0].type;
    const Shape& shape = inputs[0].shape;
    const bool whole = IsWhole(shape, type, context.target(), context.num_tiles());
    const Grid columns = MakeGrid(shape, type, context.num_tiles(), whole);
    if (!whole) return PlanSteps(columns, type);
    return PlanWholeMatrices(*this, columns, shape.size() - 2, Whole(shape, type));
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    library.qrPanel(graph, InputsBesideOutputs(*this, graph, in, prog)[0], out[0], out[1],
                    PlanOf(*this, graph), prog, name);
  }

 private:
  static TilePlan PlanSteps(const Grid& columns, DType type) {
    const std::size_t rank = columns.shape.size();
    const std::int64_t m = columns.shape[rank - 2], count = std::min(m, columns.shape[rank - 1]);
    const std::vector<Vertex> vertices = OneMatrixEach(columns, rank - 2);
    TilePlan plan;
    // Step j reflects by column j, unless it is -1, and finds the reflector of column j + 1.
    for (std::int64_t j = -1; j < count; ++j) {
      std::vector<Vertex> finding, reflecting;
      for (const Vertex& vertex : vertices) {
        const std::int64_t begin = vertex.box.begin[rank - 1], end = vertex.box.end[rank - 1];
        if (end <= j + 1 && j >= 0) continue;
        const bool finds = j + 1 < count && begin <= j + 1 && j + 1 < end;
        (finds ? finding : reflecting).push_back(vertex);
      }
      Superstep step;
      if (!finding.empty()) step.groups.push_back(Group(type, rank, m, j, true, std::move(finding)));
      if (!reflecting.empty()) step.groups.push_back(Group(type, rank, m, j, false, std::move(reflecting)));
      if (!step.groups.empty()) plan.supersteps.push_back(std::move(step));
    }
    return plan;
  }

  static WholeMatrices Whole(const Shape& shape, DType type) {
    const std::int64_t m = shape[shape.size() - 2], n = shape.back(), count = std::min(m, n);
    WholeMatrices matrices;
    matrices.codelet = "hlo::QrPanels";
    matrices.code_bytes = 1100;
    matrices.vertex_bytes = kVertexBytes;
    matrices.compute = Factor;
    matrices.cycles = [type, m, n, count](const TargetModel& target) {
      double cycles = ElementLoopCycles(type, m * n, 2, 0);
      for (std::int64_t j = 0; j < count; ++j) {
        cycles += FindCycles(target, type, n == 1, m - j) +
                  static_cast<double>(n - j - 1) * ReflectCycles(target, type, n == 1, m - j);
      }
      return cycles;
    };
    matrices.grain = std::max(ColumnGrain(type, m * n), ColumnGrain(type, count));
    return matrices;
  }

  static VertexGroup Group(DType type, std::size_t rank, std::int64_t m, std::int64_t j, bool finds,
                           std::vector<Vertex> vertices) {
    const auto tau_at = [rank](std::int64_t column) {
      return [rank, column](const Box& box) {
        Box region = box;
        region.begin.erase(region.begin.begin() + static_cast<std::ptrdiff_t>(rank) - 2);
        region.end.erase(region.end.begin() + static_cast<std::ptrdiff_t>(rank) - 2);
        region.begin.back() = column;
        region.end.back() = column + 1;
        return region;
      };
    };
    VertexGroup group = MakeVertexGroup(finds ? "hlo::QrPanelFind" : "hlo::QrPanelReflect",
                                        std::move(vertices), finds ? 900 : 500, kVertexBytes);
    group.reads.push_back({j < 0 ? kInput : kResult, Same});
    if (j >= 0) {
      group.reads.push_back({kResult, [rank, j](const Box& box) {
                               Box region = box;
                               region.begin[rank - 1] = j;
                               region.end[rank - 1] = j + 1;
                               return region;
                             }});
      group.reads.push_back({kTaus, tau_at(j)});
    }
    group.writes.push_back({kResult, Same});
    if (finds) group.writes.push_back({kTaus, tau_at(j + 1)});
    group.compute = [rank, j, finds](HostContext& host, const Box& box, const std::vector<HostTensor>& reads,
                                     const std::vector<HostTensor>& writes) {
      CopyTensor(host, reads[0], writes[0]);
      const std::int64_t first = box.begin[rank - 1], end = box.end[rank - 1];
      for (std::int64_t c = std::max(first, j + 1); j >= 0 && c < end; ++c)
        ReflectColumn(reads[1], 0, reads[2].data, j, true, writes[0], c - first);
      if (finds) FindColumn(writes[0], j + 1 - first, j + 1, writes[1].data);
    };
    group.cycles = [type, rank, m, j, finds](const TargetModel& target, const Box& box) {
      const std::int64_t begin = box.begin[rank - 1], end = box.end[rank - 1], columns = end - begin;
      const std::int64_t share = WorkerShare(target, columns, RowMajorGrain(type, columns));
      const bool contiguous = columns == 1;
      const double found = finds ? FindCycles(target, type, contiguous, m - j - 1) : 0;
      if (j < 0) {
        const std::int64_t copied = finds ? share * m : WorkerShare(target, columns * m, ElementGrain(type));
        return WorkerCycles(target, found + LoopCycles(target, type, !finds || contiguous, copied, 2, 0));
      }
      // The reflected columns of the busiest worker.
      const auto reflected = static_cast<double>(std::clamp<std::int64_t>(end - j - 1, 0, share));
      return WorkerCycles(target, found + reflected * ReflectCycles(target, type, contiguous, m - j));
    };
    return group;
  }
};

// inputs: packed, taus, x; outputs: the product.
class ApplyReflectorsOperation : public Operation, public Expandable {
 public:
  explicit ApplyReflectorsOperation(std::int64_t below) : below_(below) {}

  std::string_view kind() const override { return "hlo::applyReflectors"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    if (!HasOperands(*this, 3, 1)) return false;
    const Shape &packed = inputs[0].shape, &taus = inputs[1].shape, &x = inputs[2].shape;
    const std::size_t rank = packed.size();
    if (rank < 2 || taus.size() + 1 != rank || x.size() != rank || outputs[0].num_elements() == 0)
      return false;
    for (std::size_t d = 0; d + 2 < rank; ++d)
      if (taus[d] != packed[d] || x[d] != packed[d]) return false;
    return LinearAlgebraSupports(inputs[0].type) && below_ >= 0 && x[rank - 2] == packed[rank - 2] &&
           taus.back() > 0 && taus.back() <= packed.back() && below_ <= packed[rank - 2] &&
           taus.back() + below_ <= packed[rank - 2] && outputs[0].shape == x &&
           std::all_of(inputs.begin(), inputs.end(),
                       [&](const View& v) { return v.type == outputs[0].type; });
  }
  void Write(Writer& writer) const override { writer.Write(below_); }
  double flops() const override {
    return 4 * static_cast<double>(inputs[2].num_elements()) * static_cast<double>(inputs[1].shape.back());
  }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    const HostTensor &packed = in[0], &x = in[2];
    const std::int64_t m = Rows(x), k = x.shape[x.rank - 1], n = packed.shape[packed.rank - 1];
    const std::int64_t bytes = static_cast<std::int64_t>(SizeOf(x.type)), size = m * (k + n) * bytes;
    char* const memory = context.scratch.Allocate<char>(static_cast<std::size_t>(size * context.pool.size()));
    ForEachMatrix(context, x.num_elements() / (m * k), [&](int worker, std::int64_t b) {
      const HostTensor columns = Columns(x.type, m, k, memory + worker * size);
      const HostTensor reflectors = Columns(x.type, m, n, memory + worker * size + m * k * bytes);
      CopyMatrix(BatchPart(x, 2, b), false, columns);
      CopyMatrix(BatchPart(packed, 2, b), false, reflectors);
      Apply(reflectors, BatchPart(in[1], 1, b), columns);
      CopyMatrix(columns, false, BatchPart(out[0], 2, b));
    });
  }

  TilePlan Plan(const DeviceContext& context) const override {
    const DType type = outputs[0].type;
    const Shape& shape = outputs[0].shape;
    const std::size_t rank = shape.size();
    const std::int64_t m = shape[rank - 2], n = inputs[0].shape.back(), count = inputs[1].shape.back();
    const Grid columns = ColumnGrid(shape, type, context.num_tiles());
    if (NumMatrices(shape) > context.num_tiles()) return PlanWhole(columns);
    VertexGroup group = MakeVertexGroup("hlo::ApplyReflectors", columns.Vertices(), 600, kVertexBytes);
    group.reads.push_back({kInput, [rank, n](const Box& box) {
                             Box region = box;
                             region.begin[rank - 1] = 0;
                             region.end[rank - 1] = n;
                             return region;
                           }});
    group.reads.push_back({kTausOf, [rank, count](const Box& box) {
                             Box region = box;
                             region.begin.erase(region.begin.begin() + static_cast<std::ptrdiff_t>(rank) - 2);
                             region.end.erase(region.end.begin() + static_cast<std::ptrdiff_t>(rank) - 2);
                             region.begin.back() = 0;
                             region.end.back() = count;
                             return region;
                           }});
    group.reads.push_back({kFactor, Same});
    group.writes.push_back({kResult, Same});
    group.compute = [below = below_](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                                     const std::vector<HostTensor>& writes) {
      CopyTensor(host, reads[2], writes[0]);
      ApplyReflectorsOperation(below).Apply(reads[0], reads[1], writes[0]);
    };
    group.cycles = [type, m, count, below = below_](const TargetModel& target, const Box& box) {
      const std::int64_t columns = box.end.back() - box.begin.back();
      const std::int64_t share = WorkerShare(target, columns, RowMajorGrain(type, columns));
      return WorkerCycles(target, static_cast<double>(share) * OfColumn(target, type, m, count, below));
    };
    TilePlan plan;
    plan.supersteps.push_back({{std::move(group)}});
    return plan;
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    const std::vector<poplar::Tensor> inputs = InputsBesideOutputs(*this, graph, in, prog);
    library.applyReflectors(graph, inputs[0], inputs[1], inputs[2], static_cast<unsigned>(below_), out[0],
                            PlanOf(*this, graph), prog, name);
  }

 private:
  // The cycles of a column by one worker. The reflectors are in a row-major matrix.
  static double OfColumn(const TargetModel& target, DType type, std::int64_t m, std::int64_t count,
                         std::int64_t below) {
    double cycles = ElementLoopCycles(type, m, 2, 0);
    for (std::int64_t j = 0; j < count; ++j) cycles += ReflectCycles(target, type, false, m - j - below);
    return cycles;
  }

  TilePlan PlanWhole(const Grid& grid) const {
    const DType type = outputs[0].type;
    const Shape& shape = outputs[0].shape;
    const std::int64_t m = shape[shape.size() - 2], n = shape.back(), count = inputs[1].shape.back();
    WholeMatrices matrices;
    matrices.codelet = "hlo::ApplyReflectors";
    matrices.code_bytes = 600;
    matrices.vertex_bytes = kVertexBytes;
    matrices.compute = [below = below_](HostContext& host, const std::vector<HostTensor>& reads,
                                        const std::vector<HostTensor>& writes) {
      ApplyReflectorsOperation(below).Run(host, reads, writes);
    };
    matrices.cycles = [type, m, n, count, below = below_](const TargetModel& target) {
      return static_cast<double>(n) * OfColumn(target, type, m, count, below);
    };
    matrices.pieces = n;
    matrices.grain = RowMajorGrain(type, n);
    if (n % ElementGrain(type) != 0) matrices.grain = n * ColumnGrain(type, m * n);
    return PlanWholeMatrices(*this, grid, grid.shape.size() - 2, std::move(matrices));
  }

  void Apply(const HostTensor& packed, const HostTensor& taus, const HostTensor& columns) const {
    const std::int64_t count = taus.shape[taus.rank - 1], stride = taus.strides[taus.rank - 1];
    for (std::int64_t c = 0; c < columns.shape[columns.rank - 1]; ++c)
      for (std::int64_t j = count - 1; j >= 0; --j)
        ReflectColumn(packed, j, At(taus, j * stride), j + below_, false, columns, c);
  }

  std::int64_t below_;
};

}  // namespace

std::unique_ptr<Operation> ReadQrPanel(Reader&) { return std::make_unique<QrPanelOperation>(); }
std::unique_ptr<Operation> ReadApplyReflectors(Reader& reader) {
  return std::make_unique<ApplyReflectorsOperation>(reader.Read<std::int64_t>());
}

}  // namespace ipu_model

namespace hlo {

QrPanel qrPanel(poplar::Graph& graph, const poplar::Tensor& a, poplar::program::Sequence& prog,
                const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  const DType type = a.elementType().id();
  if (a.rank() < 2 || a.numElements() == 0 || !LinearAlgebraSupports(type)) {
    throw poplar::poplar_error(name +
                               ": qrPanel needs matrices of f32, f64, c64 or c128 that are not empty, not " +
                               NameOf(type) + " " + a.shapeToString());
  }
  auto operation = std::make_unique<QrPanelOperation>();
  operation->name = name;
  operation->inputs.push_back(StridedView(graph, a, prog, {debugContext, "a"}));
  const poplar::Target& target = graph.getTarget();
  const ipu_model::Grid columns = QrPanelOperation::MakeGrid(
      ShapeOf(a), type, target.getNumTiles(),
      QrPanelOperation::IsWhole(ShapeOf(a), type, target.model(), target.getNumTiles()));
  const auto count = static_cast<std::int64_t>(std::min(a.dim(a.rank() - 2), a.dim(a.rank() - 1)));
  QrPanel result;
  const auto add_result = [&](poplar::Tensor* tensor, const ipu_model::Grid& grid) {
    *tensor = NewTensor(graph, type, grid.shape, Mapping(grid), name);
    tensor->asView(&operation->outputs.emplace_back());
  };
  add_result(&result.packed, columns);
  add_result(&result.taus, VectorGrid(columns, count));
  AddOperation(prog, std::move(operation));
  return result;
}

poplar::Tensor applyReflectors(poplar::Graph& graph, const poplar::Tensor& packed, const poplar::Tensor& taus,
                               const poplar::Tensor& x, unsigned below, poplar::program::Sequence& prog,
                               const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  auto operation = std::make_unique<ApplyReflectorsOperation>(static_cast<std::int64_t>(below));
  operation->name = name;
  for (const poplar::Tensor* operand : {&packed, &taus, &x})
    operation->inputs.push_back(StridedView(graph, *operand, prog, {debugContext, "operand"}));
  const poplar::Target& target = graph.getTarget();
  const DType type = x.elementType().id();
  const ipu_model::Grid columns = ColumnGrid(ShapeOf(x), type, target.getNumTiles());
  const poplar::Tensor result = NewTensor(graph, type, columns.shape, Mapping(columns), name);
  result.asView(&operation->outputs.emplace_back());
  if (!operation->OperandsFit(graph.getTarget().getNumTiles())) {
    throw poplar::poplar_error(name + ": applyReflectors of " + packed.shapeToString() + " with taus " +
                               taus.shapeToString() + ", " + std::to_string(below) +
                               " places under the diagonal, to " + x.shapeToString() +
                               ": the shapes or types do not fit together");
  }
  AddOperation(prog, std::move(operation));
  return result;
}

}  // namespace hlo
