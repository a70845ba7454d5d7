#include "operations/linear_algebra/two_sided_steps.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/target/target_model.h"
#include "kernels/copy/strided_copy.h"
#include "kernels/host/isa.h"
#include "kernels/linear_algebra/reflectors.h"
#include "kernels/linear_algebra/two_sided.h"
#include "operations/linear_algebra/linear_algebra_cost.h"
#include "operations/linear_algebra/whole_matrices.h"
#include "operations/vertex_groups.h"

namespace ipu_model {
namespace {

using hlo::TwoSidedForm;

constexpr std::uint64_t kLoadCode = 200, kFindCode = 400, kProjectCode = 240, kMultiplyCode = 300,
                        kUpdateCode = 400;  // model estimates
static_assert(kLoadCode + kFindCode + kProjectCode + kMultiplyCode + kUpdateCode == kTwoSidedCodeBytes);

constexpr OperandRef kInput{OperandRef::Kind::kInput, 0}, kColumns{OperandRef::Kind::kOutput, 0},
    kTaus{OperandRef::Kind::kOutput, 1}, kRows{OperandRef::Kind::kOutput, 2},
    kRowTaus{OperandRef::Kind::kOutput, 3}, kOfRows{OperandRef::Kind::kTemporary, 0},
    kOfColumns{OperandRef::Kind::kTemporary, 1};

// The same parts of a vector for each matrix, on other tiles where there are as many.
Grid ElementGrid(Grid columns, bool beside) {
  for (Shape* shape : {&columns.shape, &columns.parts, &columns.grain, &columns.tile_stride})
    shape->pop_back();
  // On tiles that others of the grid have, both would take turns, and receive the matrices.
  if (beside && 2 * columns.num_parts() <= static_cast<std::int64_t>(columns.num_tiles))
    columns.first_tile =
        static_cast<unsigned>(columns.num_parts() % static_cast<std::int64_t>(columns.num_tiles));
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

class StepsPlanner {
 public:
  StepsPlanner(TwoSidedForm form, DType type, const Grid& columns)
      : form_(form), type_(type), columns_(columns) {}

  TilePlan Plan() const {
    TilePlan plan;
    plan.temporaries.push_back({type_, ElementGrid(columns_, true)});
    plan.temporaries.push_back({type_, ElementGrid(columns_, false)});
    const std::int64_t n = columns_.shape.back();
    AddSuperstep(Updates(-1), &plan);
    for (std::int64_t j = 0; j + 1 < n; ++j) {
      Superstep products;
      AddGroup(Projects(j), &products);
      if (HasRowReflectors(form_)) {
        plan.supersteps.push_back(std::move(products));
        products = {};
        AddGroup(FindsRow(j), &products);
        plan.supersteps.push_back(std::move(products));
        products = {};
      }
      if (form_ != TwoSidedForm::kTridiagonal) AddGroup(Multiplies(j), &products);
      if (!products.groups.empty()) plan.supersteps.push_back(std::move(products));
      AddSuperstep(Updates(j), &plan);
    }
    return plan;
  }

 private:
  static void AddGroup(VertexGroup group, Superstep* step) {
    if (!group.vertices.empty()) step->groups.push_back(std::move(group));
  }
  static void AddSuperstep(std::vector<VertexGroup> groups, TilePlan* plan) {
    Superstep step;
    for (VertexGroup& group : groups) AddGroup(std::move(group), &step);
    if (!step.groups.empty()) plan->supersteps.push_back(std::move(step));
  }

  // The vertices of a grid with indices above j in dimension `dim`.
  static std::vector<Vertex> After(const Grid& grid, std::size_t dim, std::int64_t j) {
    std::vector<Vertex> vertices;
    for (Vertex& vertex : OneMatrixEach(grid, dim))
      if (vertex.box.end[dim] > j + 1) vertices.push_back(std::move(vertex));
    return vertices;
  }

  // z = conj(tau) v^H A of the columns after j, or for Hermitian matrices y.
  VertexGroup Projects(std::int64_t j) const {
    const std::size_t batch = columns_.shape.size() - 2;
    const std::int64_t n = columns_.shape.back(), pivot = PivotOfColumn(form_, j);
    const bool hermitian = form_ == TwoSidedForm::kTridiagonal;
    VertexGroup group = MakeVertexGroup("hlo::TwoSidedProject", After(columns_, batch, j), kProjectCode,
                                        kTwoSidedVertexBytes);
    group.reads.push_back({kColumns, [=](const Box& box) {
                             return OfMatrix(box, batch, std::max(box.begin[batch], j + 1), box.end[batch], 0,
                                             n);
                           }});
    AddReflector(batch, n, j, &group);
    group.writes.push_back({kOfColumns, [=](const Box& box) {
                              return OfVector(box, batch, std::max(box.begin[batch], j + 1), box.end[batch]);
                            }});
    group.compute = [type = type_, n, pivot, hermitian](HostContext&, const Box&,
                                                        const std::vector<HostTensor>& reads,
                                                        const std::vector<HostTensor>& writes) {
      const ColumnBlock block{type, n, 0, reads[0].num_elements() / n, reads[0].data};
      JAX_IPU_FOR_ISA(ProjectColumns(block, pivot, reads[1].data, reads[2].data, hermitian, writes[0].data));
    };
    group.cycles = [type = type_, batch, rows = n - pivot, j](const TargetModel& target, const Box& box) {
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
  VertexGroup FindsRow(std::int64_t j) const {
    const std::size_t batch = columns_.shape.size() - 2;
    const std::int64_t n = columns_.shape.back();
    std::vector<Vertex> vertices;
    for (Vertex& vertex : OneMatrixEach(columns_, batch))
      if (vertex.box.begin[batch] == 0) vertices.push_back(std::move(vertex));
    VertexGroup group =
        MakeVertexGroup("hlo::TwoSidedFindRow", std::move(vertices), kFindCode, kTwoSidedVertexBytes);
    group.reads.push_back(
        {kColumns, [=](const Box& box) { return OfMatrix(box, batch, j + 1, n, j, j + 1); }});
    group.reads.push_back({kOfColumns, [=](const Box& box) { return OfVector(box, batch, j + 1, n); }});
    group.writes.push_back({kRows, [=](const Box& box) { return OfMatrix(box, batch, j, j + 1, 0, n); }});
    group.writes.push_back({kRowTaus, [=](const Box& box) { return OfVector(box, batch, j, j + 1); }});
    group.compute = [type = type_, n, j](HostContext&, const Box&, const std::vector<HostTensor>& reads,
                                         const std::vector<HostTensor>& writes) {
      JAX_IPU_FOR_ISA(
          FindRowReflector(type, n, j + 1, 1, reads[0].data, reads[1].data, writes[0].data, writes[1].data));
    };
    group.cycles = [type = type_, n, j](const TargetModel& target, const Box&) {
      return WorkerCycles(target, VectorLoopCycles(target, type, n - j - 1, 3, 0) +
                                      FindCycles(target, type, true, n - j - 1));
    };
    return group;
  }

  // y = tau A v of blocks of rows: all of them, or those after j.
  VertexGroup Multiplies(std::int64_t j) const {
    const std::size_t batch = columns_.shape.size() - 2;
    const std::int64_t n = columns_.shape.back();
    const bool bidiagonal = HasRowReflectors(form_);
    VertexGroup group = MakeVertexGroup("hlo::TwoSidedMultiply",
                                        After(ElementGrid(columns_, true), batch, bidiagonal ? j : -2),
                                        kMultiplyCode, kTwoSidedVertexBytes);
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
    group.compute = [type = type_, n, j, bidiagonal](HostContext&, const Box&,
                                                     const std::vector<HostTensor>& reads,
                                                     const std::vector<HostTensor>& writes) {
      const std::int64_t rows = writes[0].num_elements();
      JAX_IPU_FOR_ISA(MultiplyVector(type, rows, n - j - 1, rows, reads[0].data, reads[1].data, reads[2].data,
                                     bidiagonal ? reads[3].data : nullptr,
                                     bidiagonal ? reads[4].data : nullptr, writes[0].data));
    };
    group.cycles = [=, type = type_](const TargetModel& target, const Box& box) {
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
  std::vector<VertexGroup> Updates(std::int64_t j) const {
    const std::size_t batch = columns_.shape.size() - 2;
    std::vector<Vertex> finding, others;
    for (Vertex& vertex : After(columns_, batch, j)) {
      const bool finds =
          j + 1 < ColumnReflectors(form_, columns_.shape.back()) && vertex.box.begin[batch] <= j + 1;
      (finds ? finding : others).push_back(std::move(vertex));
    }
    std::vector<VertexGroup> groups;
    groups.push_back(Update(batch, j, true, std::move(finding)));
    groups.push_back(Update(batch, j, false, std::move(others)));
    return groups;
  }

  VertexGroup Update(std::size_t batch, std::int64_t j, bool finds, std::vector<Vertex> vertices) const {
    const std::int64_t n = columns_.shape.back(), next_pivot = PivotOfColumn(form_, j + 1);
    const TwoSidedForm form = form_;
    const std::uint64_t code = j < 0 ? kLoadCode : kUpdateCode;
    VertexGroup group = MakeVertexGroup(
        std::string(j < 0 ? "hlo::TwoSidedLoad" : "hlo::TwoSidedUpdate") + (finds ? "AndFind" : ""),
        std::move(vertices), code + (finds ? kFindCode : 0), kTwoSidedVertexBytes);
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
    group.compute = [=, type = type_](HostContext& host, const Box& box, const std::vector<HostTensor>& reads,
                                      const std::vector<HostTensor>& writes) {
      CopyTensor(host, reads[0], writes[0]);
      const std::int64_t bytes = static_cast<std::int64_t>(SizeOf(type)) * n, begin = box.begin[batch];
      char* const data = writes[0].as<char>();
      if (j >= 0) {
        const std::int64_t first = std::max(begin, j + 1);
        const ColumnBlock block{type, n, first, box.end[batch] - first, data + (first - begin) * bytes};
        if (form == TwoSidedForm::kBidiagonal) {
          JAX_IPU_FOR_ISA(
              SubtractBoth(block, j + 1, reads[1].data, reads[3].data, reads[4].data, reads[5].data));
        } else if (form == TwoSidedForm::kTridiagonal) {
          JAX_IPU_FOR_ISA(
              ReflectBothSides(block, j + 1, reads[1].data, reads[2].data, reads[3].data, nullptr));
        } else {
          JAX_IPU_FOR_ISA(
              ReflectBothSides(block, j + 1, reads[1].data, reads[2].data, reads[4].data, reads[3].data));
        }
      }
      if (finds) {
        JAX_IPU_FOR_ISA(
            FindReflector(type, n, next_pivot, 1, data + (j + 1 - begin) * bytes, writes[1].data));
      }
    };
    group.cycles = [=, type = type_](const TargetModel& target, const Box& box) {
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

  const TwoSidedForm form_;
  const DType type_;
  const Grid& columns_;
};

}  // namespace

Grid TwoSidedColumns(const Shape& shape, DType type, unsigned workers, unsigned num_tiles) {
  if (NumMatrices(shape) > num_tiles) return WholeGrid(shape, type, num_tiles);
  const std::size_t rank = shape.size();
  const std::int64_t batch = NumMatrices(shape), n = shape[rank - 2];
  Shape parts = shape;
  parts[rank - 1] = 1;
  parts[rank - 2] =
      std::clamp<std::int64_t>((n + workers - 1) / workers, 1,
                               std::max<std::int64_t>(1, num_tiles / std::max<std::int64_t>(1, batch)));
  return Grid::Of(shape, std::move(parts), num_tiles);
}

Grid BesideFirstColumns(Grid columns, std::int64_t extent) {
  columns = ElementGrid(std::move(columns), false);
  columns.shape.back() = extent;
  columns.parts.back() = 1;
  return columns;
}

TilePlan PlanTwoSidedSteps(TwoSidedForm form, DType type, const Grid& columns) {
  return StepsPlanner(form, type, columns).Plan();
}

}  // namespace ipu_model
