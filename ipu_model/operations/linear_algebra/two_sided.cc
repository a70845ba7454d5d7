// Reductions by Householder reflections from both sides: to Hessenberg form, to tridiagonal form if the
// matrix is Hermitian, and to bidiagonal form. The columns are spread over tiles, one for each worker. For
// each column there are supersteps that multiply the matrix by the reflector, with columns and with rows, and
// one that updates the columns, in which the tile of the next column finds its reflector. Where there are
// many matrices, tiles have whole ones.
#include "kernels/linear_algebra/two_sided.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "core/graph/expandable.h"
#include "core/graph/graph_impl.h"
#include "core/operation/operand_check.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "hlo/LinearAlgebra.hpp"
#include "kernels/copy/slice.h"
#include "kernels/host/isa.h"
#include "kernels/linear_algebra/linear_algebra.h"
#include "kernels/linear_algebra/reflectors.h"
#include "operations/data_views.h"
#include "operations/linear_algebra/batch_part.h"
#include "operations/linear_algebra/linear_algebra_cost.h"
#include "operations/linear_algebra/whole_matrices.h"
#include "operations/readers.h"
#include "operations/vertex_groups.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

using hlo::TwoSidedForm;

constexpr std::uint64_t kVertexBytes = 48;  // pointers, lengths and strides (model estimate)
constexpr std::uint64_t kLoadCode = 200, kFindCode = 400, kProjectCode = 240, kMultiplyCode = 300,
                        kUpdateCode = 400;  // model estimates

constexpr OperandRef kInput{OperandRef::Kind::kInput, 0}, kColumns{OperandRef::Kind::kOutput, 0},
    kTaus{OperandRef::Kind::kOutput, 1}, kRows{OperandRef::Kind::kOutput, 2},
    kRowTaus{OperandRef::Kind::kOutput, 3}, kOfRows{OperandRef::Kind::kTemporary, 0},
    kOfColumns{OperandRef::Kind::kTemporary, 1};

#define JAX_IPU_CALL(function, ...) (HasAvx512() ? avx512::function : avx2::function)(__VA_ARGS__)

// Parts of a batch of n columns: whole columns, one for each worker of a tile, or whole matrices.
Grid ColumnGrid(const Shape& shape, DType type, unsigned workers, unsigned num_tiles) {
  if (AreMany(shape, num_tiles, workers)) return WholeGrid(shape, type, num_tiles);
  const std::size_t rank = shape.size();
  const std::int64_t batch = NumMatrices(shape), n = shape[rank - 2];
  Shape parts = shape;
  parts[rank - 1] = 1;
  parts[rank - 2] =
      std::clamp<std::int64_t>((n + workers - 1) / workers, 1,
                               std::max<std::int64_t>(1, num_tiles / std::max<std::int64_t>(1, batch)));
  return Grid::Of(shape, std::move(parts), num_tiles);
}

// The same parts of a vector for each matrix, on other tiles where there are some.
Grid ElementGrid(Grid columns, bool beside) {
  for (Shape* shape : {&columns.shape, &columns.parts, &columns.grain, &columns.tile_stride})
    shape->pop_back();
  if (beside)
    columns.first_tile =
        static_cast<unsigned>(columns.num_parts() % static_cast<std::int64_t>(columns.num_tiles));
  return columns;
}

// Grid of `extent` elements for each matrix, on the tile of the first columns.
Grid FirstGrid(Grid columns, std::int64_t extent) {
  columns = ElementGrid(std::move(columns), false);
  columns.shape.back() = extent;
  columns.parts.back() = 1;
  return columns;
}

// Of a box whose first dimensions number a matrix: [begin, end) of a vector, or [rows] x [columns] of a
// matrix, of the same one.
Box OfVector(const Box& box, std::size_t batch_rank, std::int64_t begin, std::int64_t end) {
  Box region{Shape(box.begin.begin(), box.begin.begin() + static_cast<std::ptrdiff_t>(batch_rank)),
             Shape(box.end.begin(), box.end.begin() + static_cast<std::ptrdiff_t>(batch_rank))};
  region.begin.push_back(begin);
  region.end.push_back(end);
  return region;
}
Box OfMatrix(const Box& box, std::size_t batch_rank, std::int64_t begin, std::int64_t end, std::int64_t first,
             std::int64_t last) {
  Box region = OfVector(box, batch_rank, begin, end);
  region.begin.push_back(first);
  region.end.push_back(last);
  return region;
}

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
    if (!HasOperands(*this, 1, Bidiagonal() ? 4 : 2)) return false;
    const Shape& a = inputs[0].shape;
    if (a.size() < 2 || a.back() != a[a.size() - 2] || a.back() < 2 || !LinearAlgebraSupports(inputs[0].type))
      return false;
    const auto fits = [&](std::size_t i, const Shape& shape) {
      return outputs[i].type == inputs[0].type && outputs[i].shape == shape;
    };
    const std::int64_t n = a.back();
    Shape rows = a;
    rows[a.size() - 2] = n - 1;
    return fits(0, a) && fits(1, Taus(a, Bidiagonal() ? n : n - 1)) &&
           (!Bidiagonal() || (fits(2, rows) && fits(3, Taus(a, n - 1))));
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
        if (!Bidiagonal()) continue;
        CopyMatrix(m.Matrix(1, n - 1), false, BatchPart(out[2], 2, b));
        CopyTensor(context, m.Vector(3, n - 1), BatchPart(out[3], 1, b));
      }
    };
    workers > 1 ? context.pool.Run(workers, TaskRef(task)) : task(0);
  }

  TilePlan Plan(const DeviceContext& context) const override {
    const Shape& shape = inputs[0].shape;
    const unsigned workers = context.target().worker_contexts;
    const Grid columns = ColumnGrid(shape, inputs[0].type, workers, context.num_tiles());
    if (AreMany(shape, context.num_tiles(), workers)) return PlanWhole(columns, workers);
    TilePlan plan;
    plan.temporaries.push_back({inputs[0].type, ElementGrid(columns, true)});
    plan.temporaries.push_back({inputs[0].type, ElementGrid(columns, false)});
    const std::int64_t n = shape.back();
    AddSuperstep(Updates(columns, -1), &plan);
    for (std::int64_t j = 0; j + 1 < n; ++j) {
      Superstep products;
      AddGroup(Projects(columns, j), &products);
      if (Bidiagonal()) {
        plan.supersteps.push_back(std::move(products));
        products = {};
        AddGroup(FindsRow(columns, j), &products);
        plan.supersteps.push_back(std::move(products));
        products = {};
      }
      if (form_ != TwoSidedForm::kTridiagonal) AddGroup(Multiplies(columns, j), &products);
      if (!products.groups.empty()) plan.supersteps.push_back(std::move(products));
      AddSuperstep(Updates(columns, j), &plan);
    }
    return plan;
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    library.twoSided(graph, form_, InputsBesideOutputs(*this, graph, in, prog)[0], out, PlanOf(*this, graph),
                     prog, name);
  }

 private:
  TilePlan PlanWhole(const Grid& grid, unsigned workers) const {
    const DType type = inputs[0].type;
    const std::int64_t n = inputs[0].shape.back();
    WholeMatrices matrices;
    matrices.codelet = "hlo::TwoSidedMatrices";
    matrices.code_bytes = kLoadCode + kFindCode + kProjectCode + kMultiplyCode + kUpdateCode;
    // Each worker has two vectors beside its matrix.
    matrices.vertex_bytes = kVertexBytes + static_cast<std::uint64_t>(2 * n * workers) * SizeOf(type);
    matrices.compute = [form = form_](HostContext& host, const std::vector<HostTensor>& reads,
                                      const std::vector<HostTensor>& writes) {
      TwoSidedOperation(form).Run(host, reads, writes);
    };
    matrices.cycles = [form = form_, type, n](const TargetModel& target) {
      return TwoSidedOperation(form).MatrixCycles(target, type, n);
    };
    for (const View& output : outputs) {
      const auto batch = static_cast<std::ptrdiff_t>(inputs[0].shape.size() - 2);
      matrices.grain =
          std::max(matrices.grain,
                   ColumnGrain(type, NumElements(Shape(output.shape.begin() + batch, output.shape.end()))));
    }
    return PlanWholeMatrices(*this, grid, grid.shape.size() - 2, std::move(matrices));
  }

  // The cycles of a matrix by one worker: those of all steps.
  double MatrixCycles(const TargetModel& target, DType type, std::int64_t n) const {
    double cycles = VectorLoopCycles(target, type, n * n, 2, 0);
    for (std::int64_t j = 0; j < Count(n); ++j) {
      const std::int64_t rest = n - j - 1;
      cycles += FindCycles(target, type, true, n - Pivot(j));
      if (rest == 0) break;
      const auto columns = static_cast<double>(rest);
      cycles += columns * VectorLoopCycles(target, type, n - Pivot(j), 2, 1);
      if (form_ == TwoSidedForm::kTridiagonal) {
        cycles +=
            VectorLoopCycles(target, type, rest, 2, 1) + columns * VectorLoopCycles(target, type, rest, 4, 2);
        continue;
      }
      if (Bidiagonal()) {
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
      HostTensor t;
      t.data = VectorAt(which, 0);
      t.type = type;
      t.rank = 1;
      t.shape[0] = count;
      t.strides[0] = 1;
      return t;
    }
  };

  bool Bidiagonal() const { return form_ == TwoSidedForm::kBidiagonal; }
  // The pivot of the reflector of column j.
  std::int64_t Pivot(std::int64_t j) const { return Bidiagonal() ? j : j + 1; }
  // The number of reflectors of columns, of n.
  std::int64_t Count(std::int64_t n) const { return n - (Bidiagonal() ? 0 : 1); }

  void Reduce(const Memory& m) const {
    const std::int64_t n = m.n;
    for (std::int64_t j = 0; j < Count(n); ++j) {
      char *const v = m.Column(j), *const tau = m.VectorAt(2, j), *const y = m.VectorAt(0, 0),
                  *const z = m.VectorAt(1, j + 1);
      JAX_IPU_CALL(FindReflector, m.type, n, Pivot(j), 1, v, tau);
      if (j + 1 == n) break;
      const ColumnBlock rest{m.type, n, j + 1, n - j - 1, m.Column(j + 1)};
      if (form_ == TwoSidedForm::kTridiagonal) {
        JAX_IPU_CALL(ProjectColumns, rest, j + 1, v, tau, true, z);
        JAX_IPU_CALL(ReflectBothSides, rest, j + 1, v, tau, z, nullptr);
        continue;
      }
      JAX_IPU_CALL(ProjectColumns, rest, Pivot(j), v, tau, false, z);
      if (!Bidiagonal()) {
        JAX_IPU_CALL(MultiplyVector, m.type, n, rest.count, n, rest.data, m.At(j * n + j + 1), tau, nullptr,
                     nullptr, y);
        JAX_IPU_CALL(ReflectBothSides, rest, j + 1, v, tau, y, z);
        continue;
      }
      char *const w = m.RowReflector(j), *const row_tau = m.VectorAt(3, j);
      JAX_IPU_CALL(FindRowReflector, m.type, n, j + 1, n, m.At((j + 1) * n + j), z, w, row_tau);
      JAX_IPU_CALL(MultiplyVector, m.type, rest.count, rest.count, n, m.At((j + 1) * n + j + 1),
                   w + (j + 1) * m.bytes, row_tau, v + (j + 1) * m.bytes, z, y);
      JAX_IPU_CALL(SubtractBoth, rest, j + 1, v, z, y, w);
    }
  }

  static void AddGroup(VertexGroup group, Superstep* step) {
    if (!group.vertices.empty()) step->groups.push_back(std::move(group));
  }
  static void AddSuperstep(std::vector<VertexGroup> groups, TilePlan* plan) {
    Superstep step;
    for (VertexGroup& group : groups) AddGroup(std::move(group), &step);
    if (!step.groups.empty()) plan->supersteps.push_back(std::move(step));
  }

  // Of the vertices on [..., n, n], those with columns after j. `finds`: those with column j + 1.
  static std::vector<Vertex> After(const Grid& grid, std::size_t dim, std::int64_t j) {
    std::vector<Vertex> vertices;
    for (Vertex& vertex : grid.Vertices())
      if (vertex.box.end[dim] > j + 1) vertices.push_back(std::move(vertex));
    return vertices;
  }

  // z = conj(tau) v^H A of the columns after j, or for Hermitian matrices y.
  VertexGroup Projects(const Grid& columns, std::int64_t j) const {
    const std::size_t batch = columns.shape.size() - 2;
    const std::int64_t n = columns.shape.back(), pivot = Pivot(j);
    const bool hermitian = form_ == TwoSidedForm::kTridiagonal;
    VertexGroup group =
        MakeVertexGroup("hlo::TwoSidedProject", After(columns, batch, j), kProjectCode, kVertexBytes);
    group.reads.push_back({kColumns, [=](const Box& box) {
                             return OfMatrix(box, batch, std::max(box.begin[batch], j + 1), box.end[batch], 0,
                                             n);
                           }});
    AddReflector(batch, n, j, &group);
    group.writes.push_back({kOfColumns, [=](const Box& box) {
                              return OfVector(box, batch, std::max(box.begin[batch], j + 1), box.end[batch]);
                            }});
    group.compute = [type = inputs[0].type, n, pivot, hermitian](HostContext&, const Box&,
                                                                 const std::vector<HostTensor>& reads,
                                                                 const std::vector<HostTensor>& writes) {
      const ColumnBlock block{type, n, 0, reads[0].num_elements() / n, reads[0].data};
      JAX_IPU_CALL(ProjectColumns, block, pivot, reads[1].data, reads[2].data, hermitian, writes[0].data);
    };
    group.cycles = [type = inputs[0].type, batch, rows = n - pivot, j](const TargetModel& target,
                                                                       const Box& box) {
      const std::int64_t elements = box.end[batch] - std::max(box.begin[batch], j + 1);
      return WorkerCycles(target, static_cast<double>(WorkerShare(target, elements, ElementGrain(type))) *
                                      VectorLoopCycles(target, type, rows, 2, 1));
    };
    return group;
  }

  // Reads column j and its tau.
  static void AddReflector(std::size_t batch, std::int64_t n, std::int64_t j, VertexGroup* group) {
    group->reads.push_back({kColumns, [=](const Box& box) { return OfMatrix(box, batch, j, j + 1, 0, n); }});
    group->reads.push_back({kTaus, [=](const Box& box) { return OfVector(box, batch, j, j + 1); }});
  }

  // The reflector of row j.
  VertexGroup FindsRow(const Grid& columns, std::int64_t j) const {
    const std::size_t batch = columns.shape.size() - 2;
    const std::int64_t n = columns.shape.back();
    std::vector<Vertex> vertices;
    for (Vertex& vertex : columns.Vertices())
      if (vertex.box.begin[batch] == 0) vertices.push_back(std::move(vertex));
    VertexGroup group = MakeVertexGroup("hlo::TwoSidedFindRow", std::move(vertices), kFindCode, kVertexBytes);
    group.reads.push_back(
        {kColumns, [=](const Box& box) { return OfMatrix(box, batch, j + 1, n, j, j + 1); }});
    group.reads.push_back({kOfColumns, [=](const Box& box) { return OfVector(box, batch, j + 1, n); }});
    group.writes.push_back({kRows, [=](const Box& box) { return OfMatrix(box, batch, j, j + 1, 0, n); }});
    group.writes.push_back({kRowTaus, [=](const Box& box) { return OfVector(box, batch, j, j + 1); }});
    group.compute = [type = inputs[0].type, n, j](HostContext&, const Box&,
                                                  const std::vector<HostTensor>& reads,
                                                  const std::vector<HostTensor>& writes) {
      JAX_IPU_CALL(FindRowReflector, type, n, j + 1, 1, reads[0].data, reads[1].data, writes[0].data,
                   writes[1].data);
    };
    group.cycles = [type = inputs[0].type, n, j](const TargetModel& target, const Box&) {
      return WorkerCycles(target, VectorLoopCycles(target, type, n - j - 1, 3, 0) +
                                      FindCycles(target, type, true, n - j - 1));
    };
    return group;
  }

  // y = tau A v of blocks of rows: all of them, or those after j.
  VertexGroup Multiplies(const Grid& columns, std::int64_t j) const {
    const std::size_t batch = columns.shape.size() - 2;
    const std::int64_t n = columns.shape.back();
    const bool bidiagonal = Bidiagonal();
    VertexGroup group = MakeVertexGroup("hlo::TwoSidedMultiply",
                                        After(ElementGrid(columns, true), batch, bidiagonal ? j : -2),
                                        kMultiplyCode, kVertexBytes);
    const auto first = [=](const Box& box) {
      return bidiagonal ? std::max(box.begin[batch], j + 1) : box.begin[batch];
    };
    group.reads.push_back({kColumns, [=](const Box& box) {
                             return OfMatrix(box, batch, j + 1, n, first(box), box.end[batch]);
                           }});
    group.reads.push_back({bidiagonal ? kRows : kColumns,
                           [=](const Box& box) { return OfMatrix(box, batch, j, j + 1, j + 1, n); }});
    group.reads.push_back(
        {bidiagonal ? kRowTaus : kTaus, [=](const Box& box) { return OfVector(box, batch, j, j + 1); }});
    if (bidiagonal) {
      group.reads.push_back({kColumns, [=](const Box& box) {
                               return OfMatrix(box, batch, j, j + 1, first(box), box.end[batch]);
                             }});
      group.reads.push_back({kOfColumns, [=](const Box& box) { return OfVector(box, batch, j + 1, n); }});
    }
    group.writes.push_back(
        {kOfRows, [=](const Box& box) { return OfVector(box, batch, first(box), box.end[batch]); }});
    group.compute = [type = inputs[0].type, n, j, bidiagonal](HostContext&, const Box&,
                                                              const std::vector<HostTensor>& reads,
                                                              const std::vector<HostTensor>& writes) {
      const std::int64_t rows = writes[0].num_elements();
      JAX_IPU_CALL(MultiplyVector, type, rows, n - j - 1, rows, reads[0].data, reads[1].data, reads[2].data,
                   bidiagonal ? reads[3].data : nullptr, bidiagonal ? reads[4].data : nullptr,
                   writes[0].data);
    };
    group.cycles = [=, type = inputs[0].type](const TargetModel& target, const Box& box) {
      const std::int64_t length = n - j - 1;
      const std::int64_t rows = WorkerShare(target, box.end[batch] - first(box), ElementGrain(type));
      // Every worker multiplies z by v.
      const double common = bidiagonal ? VectorLoopCycles(target, type, length, 2, 1) : 0;
      return WorkerCycles(target, common + static_cast<double>(rows) * ElementLoopCycles(type, length, 2, 1));
    };
    return group;
  }

  // Loads the columns (j = -1), or applies the reflectors of step j to those after j; then finds the
  // reflector of column j + 1.
  std::vector<VertexGroup> Updates(const Grid& columns, std::int64_t j) const {
    const std::size_t batch = columns.shape.size() - 2;
    std::vector<Vertex> finding, others;
    for (Vertex& vertex : After(columns, batch, j)) {
      const bool finds = j + 1 < Count(columns.shape.back()) && vertex.box.begin[batch] <= j + 1;
      (finds ? finding : others).push_back(std::move(vertex));
    }
    std::vector<VertexGroup> groups;
    groups.push_back(Update(batch, j, true, std::move(finding)));
    groups.push_back(Update(batch, j, false, std::move(others)));
    return groups;
  }

  VertexGroup Update(std::size_t batch, std::int64_t j, bool finds, std::vector<Vertex> vertices) const {
    const std::int64_t n = inputs[0].shape.back(), next_pivot = Pivot(j + 1);
    const TwoSidedForm form = form_;
    const std::uint64_t code = j < 0 ? kLoadCode : kUpdateCode;
    VertexGroup group = MakeVertexGroup(
        std::string(j < 0 ? "hlo::TwoSidedLoad" : "hlo::TwoSidedUpdate") + (finds ? "AndFind" : ""),
        std::move(vertices), code + (finds ? kFindCode : 0), kVertexBytes);
    group.reads.push_back({j < 0 ? kInput : kColumns, Same});
    if (j >= 0) {
      AddReflector(batch, n, j, &group);
      if (form == TwoSidedForm::kTridiagonal) {
        group.reads.push_back({kOfColumns, [=](const Box& box) { return OfVector(box, batch, j + 1, n); }});
      } else {
        group.reads.push_back({kOfColumns, [=](const Box& box) {
                                 return OfVector(box, batch, std::max(box.begin[batch], j + 1),
                                                 box.end[batch]);
                               }});
        group.reads.push_back({kOfRows, [=](const Box& box) {
                                 return OfVector(box, batch, form == TwoSidedForm::kBidiagonal ? j + 1 : 0,
                                                 n);
                               }});
      }
      if (form == TwoSidedForm::kBidiagonal)
        group.reads.push_back({kRows, [=](const Box& box) { return OfMatrix(box, batch, j, j + 1, 0, n); }});
    }
    group.writes.push_back({kColumns, Same});
    if (finds)
      group.writes.push_back({kTaus, [=](const Box& box) { return OfVector(box, batch, j + 1, j + 2); }});
    group.compute = [=, type = inputs[0].type](HostContext& host, const Box& box,
                                               const std::vector<HostTensor>& reads,
                                               const std::vector<HostTensor>& writes) {
      CopyTensor(host, reads[0], writes[0]);
      const std::int64_t bytes = static_cast<std::int64_t>(SizeOf(type)) * n, begin = box.begin[batch];
      char* const data = writes[0].as<char>();
      if (j >= 0) {
        const std::int64_t first = std::max(begin, j + 1);
        const ColumnBlock block{type, n, first, box.end[batch] - first, data + (first - begin) * bytes};
        if (form == TwoSidedForm::kBidiagonal) {
          JAX_IPU_CALL(SubtractBoth, block, j + 1, reads[1].data, reads[3].data, reads[4].data,
                       reads[5].data);
        } else if (form == TwoSidedForm::kTridiagonal) {
          JAX_IPU_CALL(ReflectBothSides, block, j + 1, reads[1].data, reads[2].data, reads[3].data, nullptr);
        } else {
          JAX_IPU_CALL(ReflectBothSides, block, j + 1, reads[1].data, reads[2].data, reads[4].data,
                       reads[3].data);
        }
      }
      if (finds) {
        JAX_IPU_CALL(FindReflector, type, n, next_pivot, 1, data + (j + 1 - begin) * bytes, writes[1].data);
      }
    };
    group.cycles = [=, type = inputs[0].type](const TargetModel& target, const Box& box) {
      const std::int64_t below = n - j - 1;
      const double found = finds ? FindCycles(target, type, true, n - next_pivot) : 0;
      // Workers share the columns of the block, finished ones too.
      const std::int64_t all = box.end[batch] - box.begin[batch],
                         left = box.end[batch] - std::max(box.begin[batch], j + 1);
      const auto columns =
          static_cast<double>(std::min(left, WorkerShare(target, all, ColumnGrain(type, n))));
      if (j < 0) return WorkerCycles(target, found + columns * VectorLoopCycles(target, type, n, 2, 0));
      // Two products for each entry; of rows above the pivot, only the one with y.
      const double each =
          VectorLoopCycles(target, type, below, 4, 2) +
          (form == TwoSidedForm::kHessenberg ? VectorLoopCycles(target, type, n - below, 3, 1) : 0);
      // Hessenberg and tridiagonal: the product of y and v first.
      const double common =
          form == TwoSidedForm::kBidiagonal ? 0 : VectorLoopCycles(target, type, below, 2, 1);
      return WorkerCycles(target, common + found + columns * each);
    };
    return group;
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
  const ipu_model::Grid columns =
      ColumnGrid(operation->inputs[0].shape, type, target.getNumWorkerContexts(), target.getNumTiles());
  const auto add_result = [&](const ipu_model::Grid& grid) {
    const poplar::Tensor tensor = NewTensor(graph, type, grid.shape, Mapping(grid), name);
    tensor.asView(&operation->outputs.emplace_back());
    return tensor;
  };
  const auto n = static_cast<std::int64_t>(a.dim(rank - 1));
  TwoSided result;
  result.packed = add_result(columns).dimShuffle(transposed);
  result.taus = add_result(FirstGrid(columns, form == TwoSidedForm::kBidiagonal ? n : n - 1));
  if (form == TwoSidedForm::kBidiagonal) {
    ipu_model::Grid rows = columns;
    rows.shape[rank - 2] = n - 1;
    rows.parts[rank - 2] = 1;
    result.rowReflectors = add_result(rows).dimShuffle(transposed);
    result.rowTaus = add_result(FirstGrid(columns, n - 1));
  }
  AddOperation(prog, std::move(operation));
  return result;
}

}  // namespace hlo
