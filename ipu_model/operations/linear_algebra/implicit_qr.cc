// The implicit QR algorithm. Its rotations depend only on two vectors, and rotate every column of the
// matrices independently. The columns are therefore spread over tiles, and each tile repeats the few scalar
// operations of every rotation. Where there are many matrices, tiles have whole ones.
#include "kernels/linear_algebra/implicit_qr.h"

#include <algorithm>
#include <cstring>
#include <limits>
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
#include "kernels/host/dense_tensor.h"
#include "kernels/host/isa.h"
#include "operations/data_views.h"
#include "operations/index/slice_grid.h"
#include "operations/linear_algebra/linear_algebra_cost.h"
#include "operations/linear_algebra/whole_matrices.h"
#include "operations/readers.h"
#include "operations/vertex_groups.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

constexpr std::uint64_t kVertexBytes = 32, kCodeBytes = 1800;  // model estimates
// Columns below which a matrix is not shared between threads.
constexpr std::int64_t kSharedColumns = 64;

constexpr OperandRef kDiagonal{OperandRef::Kind::kInput, 0}, kBeside{OperandRef::Kind::kInput, 1};

void FillNan(const HostTensor& t) {
  const std::int64_t n = t.num_elements();
  if (t.type == DType::kF32) {
    std::fill(t.as<float>(), t.as<float>() + n, std::numeric_limits<float>::quiet_NaN());
  } else {
    std::fill(t.as<double>(), t.as<double>() + n, std::numeric_limits<double>::quiet_NaN());
  }
}

// Returns a dense copy of the tensor in scratch memory.
HostTensor Copied(HostContext& context, const HostTensor& from) {
  HostTensor to = from;
  const auto elements = static_cast<std::size_t>(SetDenseStrides(&to));
  to.data = context.scratch.Allocate<char>(elements * SizeOf(from.type));
  CopyTensor(context, from, to);
  return to;
}

// Dense tensors of one matrix of the batch: d [1..., n], rows [1..., n, k].
void Diagonalise(bool bidiagonal, const HostTensor& d, const HostTensor& e,
                 const std::vector<HostTensor>& matrices) {
  const std::int64_t n = d.num_elements();
  RotatedRows rows[2];
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const std::int64_t columns = matrices[i].shape[matrices[i].rank - 1];
    rows[i] = {matrices[i].data, columns, columns};
  }
  bool converged = false;
  if (bidiagonal) {
    converged = JAX_IPU_FOR_ISA(BidiagonalQr(d.type, n, d.data, e.data, rows[0], rows[1]));
  } else {
    converged = JAX_IPU_FOR_ISA(TridiagonalQr(d.type, n, d.data, e.data, rows[0]));
  }
  if (converged) return;
  FillNan(d);
  for (const HostTensor& matrix : matrices) FillNan(matrix);
}

// Returns the part of a tensor that belongs to matrix number `index` of the batch; its last `kept` dimensions
// are whole.
HostTensor OfBatch(const HostTensor& t, int kept, std::int64_t index) {
  HostTensor part = t;
  std::int64_t offset = 0;
  for (int d = t.rank - 1 - kept; d >= 0; --d) {
    offset += index % t.shape[d] * t.strides[d];
    index /= t.shape[d];
    part.shape[d] = 1;
  }
  part.data = t.as<char>() + offset * static_cast<std::int64_t>(SizeOf(t.type));
  return part;
}

HostTensor Columns(const HostTensor& t, std::int64_t begin, std::int64_t end) {
  HostTensor part = t;
  part.data = t.as<char>() + begin * t.strides[t.rank - 1] * static_cast<std::int64_t>(SizeOf(t.type));
  part.shape[t.rank - 1] = end - begin;
  return part;
}

// inputs: d, e, matrices; outputs: values, matrices.
class ImplicitQrOperation : public Operation, public Expandable {
 public:
  explicit ImplicitQrOperation(bool bidiagonal) : bidiagonal_(bidiagonal) {}

  std::string_view kind() const override { return "hlo::implicitQr"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    if (inputs.size() < 2 || outputs.size() + 1 != inputs.size() || inputs.size() > (bidiagonal_ ? 4 : 3) ||
        (bidiagonal_ && inputs.size() == 3))
      return false;
    const Shape &d = inputs[0].shape, &e = inputs[1].shape;
    const DType type = inputs[0].type;
    if (d.empty() || e.size() != d.size() || d.back() != e.back() + 1 ||
        (type != DType::kF32 && type != DType::kF64) || !std::equal(d.begin(), d.end() - 1, e.begin()) ||
        outputs[0].shape != d || inputs[1].type != type || outputs[0].type != type)
      return false;
    for (std::size_t i = 2; i < inputs.size(); ++i) {
      const View &matrix = inputs[i], &result = outputs[i - 1];
      if (matrix.shape.size() != d.size() + 1 || !std::equal(d.begin(), d.end(), matrix.shape.begin()) ||
          result.shape != matrix.shape || matrix.type != type || result.type != type)
        return false;
    }
    return true;
  }
  void Write(Writer& writer) const override { writer.Write(bidiagonal_); }
  double flops() const override {
    double columns = 5;  // for the values themselves
    for (std::size_t i = 2; i < inputs.size(); ++i) columns += static_cast<double>(inputs[i].shape.back());
    return 6 * columns * Rotations(inputs[0].shape.back()) * static_cast<double>(outputs[0].num_elements()) /
           static_cast<double>(std::max<std::int64_t>(1, inputs[0].shape.back()));
  }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    const std::int64_t n = in[0].shape[in[0].rank - 1];
    if (out[0].num_elements() == 0) return;
    const std::int64_t batch = out[0].num_elements() / n;
    std::int64_t widest = 0;
    for (std::size_t i = 2; i < in.size(); ++i) widest = std::max(widest, in[i].shape[in[i].rank - 1]);
    // If there are few matrices, the threads share their columns, as tiles do.
    const std::int64_t parts = std::clamp<std::int64_t>(context.pool.size() / batch, 1,
                                                        std::max<std::int64_t>(1, widest / kSharedColumns));
    if (parts == 1) return RunWhole(context, in, out, batch);
    const std::int64_t tasks = batch * parts;
    const int workers = static_cast<int>(std::min<std::int64_t>(tasks, context.pool.size()));
    std::vector<std::vector<HostTensor>> work;  // dense operands of each task: d, e, matrices
    for (std::int64_t t = 0; t < tasks; ++t) {
      const std::int64_t index = t / parts, part = t % parts;
      std::vector<HostTensor> mine;
      for (std::size_t i = 0; i < in.size(); ++i) {
        HostTensor from = OfBatch(in[i], i < 2 ? 1 : 2, index);
        const std::int64_t columns = from.shape[from.rank - 1];
        if (i >= 2) from = Columns(from, columns * part / parts, columns * (part + 1) / parts);
        mine.push_back(Copied(context, from));
      }
      work.push_back(std::move(mine));
    }
    auto task = [&](int w) {
      for (std::int64_t t = tasks * w / workers; t < tasks * (w + 1) / workers; ++t) {
        const std::vector<HostTensor>& mine = work[static_cast<std::size_t>(t)];
        Diagonalise(bidiagonal_, mine[0], mine[1], {mine.begin() + 2, mine.end()});
      }
    };
    if (workers > 1) {
      context.pool.Run(workers, TaskRef(task));
    } else {
      task(0);
    }
    for (std::int64_t t = 0; t < tasks; ++t) {
      const std::int64_t index = t / parts, part = t % parts;
      const std::vector<HostTensor>& mine = work[static_cast<std::size_t>(t)];
      if (part == 0) CopyTensor(context, mine[0], OfBatch(out[0], 1, index));
      for (std::size_t i = 1; i < out.size(); ++i) {
        const HostTensor to = OfBatch(out[i], 2, index);
        const std::int64_t columns = to.shape[to.rank - 1];
        CopyTensor(context, mine[i + 1], Columns(to, columns * part / parts, columns * (part + 1) / parts));
      }
    }
  }

  // As Run, where no matrix is cut: all operands are made dense at once, because a copy of each small matrix
  // would take longer than its rotations.
  void RunWhole(HostContext& context, const std::vector<HostTensor>& in, const std::vector<HostTensor>& out,
                std::int64_t batch) const {
    std::vector<HostTensor> dense;
    for (const HostTensor& tensor : in) dense.push_back(Copied(context, tensor));
    const auto part = [&](std::size_t i, int kept, std::int64_t index) {
      HostTensor t = dense[i];
      const std::int64_t elements = t.num_elements() / batch;
      t.data = t.as<char>() + index * elements * static_cast<std::int64_t>(SizeOf(t.type));
      std::fill(t.shape, t.shape + t.rank - kept, 1);
      return t;
    };
    const int workers = static_cast<int>(std::min<std::int64_t>(batch, context.pool.size()));
    auto task = [&](int w) {
      std::vector<HostTensor> matrices(in.size() - 2);
      for (std::int64_t b = batch * w / workers; b < batch * (w + 1) / workers; ++b) {
        for (std::size_t i = 0; i < matrices.size(); ++i) matrices[i] = part(i + 2, 2, b);
        Diagonalise(bidiagonal_, part(0, 1, b), part(1, 1, b), matrices);
      }
    };
    workers > 1 ? context.pool.Run(workers, TaskRef(task)) : task(0);
    CopyTensor(context, dense[0], out[0]);
    for (std::size_t i = 1; i < out.size(); ++i) CopyTensor(context, dense[i + 1], out[i]);
  }

  // Of the outputs: vectors are whole; matrices are cut between columns. Each is on the tiles after those of
  // the one before, as every vertex takes as long as the sweeps. Of many matrices all is whole.
  static std::vector<Grid> Grids(const std::vector<Shape>& shapes, DType type, unsigned num_tiles,
                                 bool by_workers) {
    std::vector<Grid> grids;
    std::int64_t parts = 0;
    for (const Shape& shape : shapes) {
      const std::size_t kept = grids.empty() ? 1 : 2;
      const std::int64_t batch =
          NumElements(Shape(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(kept)));
      Grid grid = WholeGrid(shape, type, num_tiles, kept);
      // Every vertex repeats the sweeps of its matrices, so columns are cut where tiles are left.
      if (!by_workers && kept == 2 && batch > 0 && 2 * batch <= num_tiles) {
        std::vector<bool> whole(shape.size(), true);
        whole.back() = false;
        grid = SliceGrid(shape, whole, type, num_tiles / static_cast<unsigned>(batch), INT64_MAX);
        std::copy(shape.begin(), shape.end() - 2, grid.parts.begin());
        grid.tile_stride = RowMajorStrides(grid.parts);
        grid.num_tiles = num_tiles;
      }
      if (by_workers) {
        grids.push_back(std::move(grid));
        continue;
      }
      grid.first_tile = static_cast<unsigned>(parts % static_cast<std::int64_t>(num_tiles));
      parts += grid.num_parts();
      grids.push_back(std::move(grid));
    }
    return grids;
  }

  // Whether a worker computes whole matrices, with results of these shapes.
  static bool ForWorkers(bool bidiagonal, const std::vector<Shape>& shapes, DType type,
                         const TargetModel& target, unsigned num_tiles) {
    if (NumElements(shapes[0]) / std::max<std::int64_t>(1, shapes[0].back()) <= num_tiles) return false;
    const Grid whole = WholeGrid(shapes[0], type, num_tiles, 1);
    const std::size_t batch = shapes[0].size() - 1;
    const TilePlan plan =
        PlanShared(bidiagonal, shapes, type, Grids(shapes, type, num_tiles, false), target.worker_contexts);
    return Whole(bidiagonal, shapes, type, target.worker_contexts)
               .TileCycles(target, MostOnTile(whole, batch)) < BusiestTile(plan.supersteps[0], target);
  }

  TilePlan Plan(const DeviceContext& context) const override {
    std::vector<Shape> shapes;
    for (const View& output : outputs) shapes.push_back(output.shape);
    const DType type = outputs[0].type;
    const unsigned workers = context.target().worker_contexts;
    const bool by_workers = ForWorkers(bidiagonal_, shapes, type, context.target(), context.num_tiles());
    const std::vector<Grid> grids = Grids(shapes, type, context.num_tiles(), by_workers);
    if (!by_workers) return PlanShared(bidiagonal_, shapes, type, grids, workers);
    return PlanWholeMatrices(*this, grids[0], shapes[0].size() - 1,
                             Whole(bidiagonal_, shapes, type, workers));
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    library.implicitQr(graph, bidiagonal_, InputsBesideOutputs(*this, graph, in, prog), out,
                       PlanOf(*this, graph), prog, name);
  }

 private:
  static TilePlan PlanShared(bool bidiagonal, const std::vector<Shape>& shapes, DType type,
                             const std::vector<Grid>& grids, unsigned workers) {
    Superstep step;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const bool vector = i == 0;
      VertexGroup group = MakeVertexGroup(vector ? "hlo::ImplicitQrValues" : "hlo::ImplicitQr",
                                          grids[i].Vertices(), kCodeBytes, kVertexBytes);
      const std::int64_t n = shapes[0].back();
      // What the vertex destroys: e, or for each worker that has columns d and e.
      std::int64_t columns = 0;
      for (const Vertex& vertex : group.vertices)
        columns = std::max(columns, vertex.box.end.back() - vertex.box.begin.back());
      const std::int64_t sharing = std::min<std::int64_t>(workers, columns);
      group.vertex_bytes += static_cast<std::uint64_t>(vector ? n : 2 * n * sharing) * SizeOf(type);
      const auto of_vector = [vector](std::int64_t extent) {
        return [vector, extent](const Box& box) {
          Box region = box;
          if (!vector) {
            region.begin.pop_back();
            region.end.pop_back();
          }
          region.begin.back() = 0;
          region.end.back() = extent;
          return region;
        };
      };
      group.reads.push_back({kDiagonal, of_vector(n)});
      group.reads.push_back({kBeside, of_vector(n - 1)});
      if (!vector) group.reads.push_back({{OperandRef::Kind::kInput, static_cast<unsigned>(i + 1)}, Same});
      group.writes.push_back({{OperandRef::Kind::kOutput, static_cast<unsigned>(i)}, Same});
      group.compute = [bidiagonal, i](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                                      const std::vector<HostTensor>& writes) {
        const std::int64_t batch = reads[0].num_elements() / reads[0].shape[reads[0].rank - 1];
        for (std::int64_t b = 0; b < batch; ++b) {
          const HostTensor d = Copied(host, OfBatch(reads[0], 1, b));
          const HostTensor e = Copied(host, OfBatch(reads[1], 1, b));
          if (i == 0) {
            Diagonalise(bidiagonal, d, e, {});
            CopyTensor(host, d, OfBatch(writes[0], 1, b));
            continue;
          }
          const HostTensor rows = Copied(host, OfBatch(reads[2], 2, b));
          HostTensor none = rows;
          none.shape[none.rank - 1] = 0;
          Diagonalise(bidiagonal, d, e,
                      !bidiagonal ? std::vector<HostTensor>{rows}
                      : i == 1    ? std::vector<HostTensor>{rows, none}
                                  : std::vector<HostTensor>{none, rows});
          CopyTensor(host, rows, OfBatch(writes[0], 2, b));
        }
      };
      group.cycles = [type, vector, n, bidiagonal, rotations = Rotations(n)](const TargetModel& target,
                                                                             const Box& box) {
        // Every worker that has columns repeats the sweeps of all matrices of the vertex, one after the
        // other.
        const std::int64_t columns = vector ? 0 : box.end.back() - box.begin.back();
        const double batch =
            static_cast<double>(box.num_elements()) / static_cast<double>(n * (vector ? 1 : columns));
        const std::int64_t share = vector ? 0 : WorkerShare(target, columns, RowMajorGrain(type, columns));
        return WorkerCycles(target, batch * rotations * SweepCycles(target, type, bidiagonal, share));
      };
      step.groups.push_back(std::move(group));
    }
    TilePlan plan;
    plan.supersteps.push_back(std::move(step));
    return plan;
  }

  static WholeMatrices Whole(bool bidiagonal, const std::vector<Shape>& shapes, DType type,
                             unsigned workers) {
    const std::int64_t n = shapes[0].back();
    std::int64_t columns = 0;
    WholeMatrices matrices;
    for (std::size_t i = 1; i < shapes.size(); ++i) columns += shapes[i].back();
    matrices.grain = ColumnGrain(type, n);
    matrices.codelet = "hlo::ImplicitQrMatrices";
    matrices.code_bytes = kCodeBytes;
    // A worker destroys e.
    matrices.vertex_bytes = kVertexBytes + static_cast<std::uint64_t>(n * workers) * SizeOf(type);
    matrices.compute = [bidiagonal](HostContext& host, const std::vector<HostTensor>& reads,
                                    const std::vector<HostTensor>& writes) {
      const std::int64_t size = reads[0].shape[reads[0].rank - 1];
      ImplicitQrOperation(bidiagonal).RunWhole(host, reads, writes, reads[0].num_elements() / size);
    };
    matrices.cycles = [type, n, columns, bidiagonal](const TargetModel& target) {
      return ElementLoopCycles(type, n * (columns + 2), 2, 0) +
             Rotations(n) * SweepCycles(target, type, bidiagonal, columns);
    };
    return matrices;
  }

  // Number of rotations of a matrix: LAPACK's usual count, 1.7 sweeps per value over half of the rows on
  // average.
  static double Rotations(std::int64_t n) { return 0.85 * static_cast<double>(n) * static_cast<double>(n); }

  bool bidiagonal_;
};

std::vector<poplar::Tensor> Build(bool bidiagonal, poplar::Graph& graph, const poplar::Tensor& d,
                                  const poplar::Tensor& e, const std::vector<poplar::Tensor>& rows,
                                  poplar::program::Sequence& prog,
                                  const poplar::DebugContext& debug_context) {
  const std::string& name = debug_context.getPathName();
  const DType type = d.elementType().id();
  const unsigned rank = d.rank();
  bool fits = rank >= 1 && e.rank() == rank && d.dim(rank - 1) == e.dim(rank - 1) + 1 &&
              (type == DType::kF32 || type == DType::kF64) && e.elementType() == d.elementType() &&
              (bidiagonal ? rows.empty() || rows.size() == 2 : rows.size() <= 1);
  for (unsigned i = 0; fits && i + 1 < rank; ++i) fits = d.dim(i) == e.dim(i);
  for (const poplar::Tensor& matrix : rows) {
    fits = fits && matrix.rank() == rank + 1 && matrix.elementType() == d.elementType();
    for (unsigned i = 0; fits && i < rank; ++i) fits = matrix.dim(i) == d.dim(i);
  }
  if (!fits) {
    throw poplar::poplar_error(name +
                               ": the implicit QR algorithm needs vectors of n and n - 1 values, f32 or " +
                               "f64, and matrices of n rows, not " + NameOf(type) + " " + d.shapeToString() +
                               " and " + e.shapeToString());
  }
  auto operation = std::make_unique<ImplicitQrOperation>(bidiagonal);
  operation->name = name;
  operation->inputs.push_back(StridedView(graph, d, prog, {debug_context, "d"}));
  operation->inputs.push_back(StridedView(graph, e, prog, {debug_context, "e"}));
  std::vector<Shape> shapes = {ShapeOf(d)};
  for (const poplar::Tensor& matrix : rows) {
    operation->inputs.push_back(StridedView(graph, matrix, prog, {debug_context, "rows"}));
    shapes.push_back(ShapeOf(matrix));
  }
  std::vector<poplar::Tensor> results;
  const poplar::Target& target = graph.getTarget();
  const bool by_workers =
      ImplicitQrOperation::ForWorkers(bidiagonal, shapes, type, target.model(), target.getNumTiles());
  for (const Grid& grid : ImplicitQrOperation::Grids(shapes, type, target.getNumTiles(), by_workers)) {
    results.push_back(NewTensor(graph, type, grid.shape, Mapping(grid), name));
    results.back().asView(&operation->outputs.emplace_back());
  }
  AddOperation(prog, std::move(operation));
  return results;
}

}  // namespace

std::unique_ptr<Operation> ReadImplicitQr(Reader& reader) {
  return std::make_unique<ImplicitQrOperation>(reader.Read<bool>());
}

}  // namespace ipu_model

namespace hlo {

std::vector<poplar::Tensor> tridiagonalQr(poplar::Graph& graph, const poplar::Tensor& d,
                                          const poplar::Tensor& e, const std::vector<poplar::Tensor>& rows,
                                          poplar::program::Sequence& prog,
                                          const poplar::DebugContext& debugContext) {
  return ipu_model::Build(false, graph, d, e, rows, prog, debugContext);
}

std::vector<poplar::Tensor> bidiagonalQr(poplar::Graph& graph, const poplar::Tensor& d,
                                         const poplar::Tensor& e, const std::vector<poplar::Tensor>& rows,
                                         poplar::program::Sequence& prog,
                                         const poplar::DebugContext& debugContext) {
  return ipu_model::Build(true, graph, d, e, rows, prog, debugContext);
}

}  // namespace hlo
