#include "operations/linear_algebra/cholesky_columns.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>

#include "core/mapping/strides.h"
#include "kernels/copy/strided_copy.h"
#include "kernels/host/integer_division.h"
#include "kernels/linear_algebra/linear_algebra.h"
#include "operations/data_views.h"
#include "operations/linear_algebra/linear_algebra_cost.h"
#include "operations/linear_algebra/matrix_blocks.h"
#include "operations/linear_algebra/whole_matrices.h"
#include "operations/vertex_groups.h"

namespace ipu_model {
namespace {

constexpr std::uint64_t kVertexBytes = 40;  // pointers, lengths and strides (model estimate)
// Each column has a compute set of its own.
constexpr std::int64_t kMostColumns = 1024;
constexpr std::int64_t kMostVertices = 1 << 18;

constexpr OperandRef kInput{OperandRef::Kind::kInput, 0}, kOutput{OperandRef::Kind::kOutput, 0},
    kWork{OperandRef::Kind::kTemporary, 0};

std::size_t RowsDim(const Box& box) { return box.begin.size() - 2; }
std::size_t ColumnsDim(const Box& box) { return box.begin.size() - 1; }
std::vector<Vertex> Vertices(const Grid& grid) { return OneMatrixEach(grid, grid.shape.size() - 2); }

// The rows of `box`, up to and with column `column`.
Box UpTo(Box box, std::int64_t column) {
  box.begin[ColumnsDim(box)] = 0;
  box.end[ColumnsDim(box)] = column + 1;
  return box;
}

double RealOf(double x) { return x; }
template <typename T>
double RealOf(const std::complex<T>& x) {
  return static_cast<double>(x.real());
}
// Both parts of a complex number.
template <typename T>
T NotANumber() {
  if constexpr (std::is_floating_point_v<T>) {
    return std::numeric_limits<T>::quiet_NaN();
  } else {
    return {NotANumber<typename T::value_type>(), NotANumber<typename T::value_type>()};
  }
}
template <typename T>
T Conjugate(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x;
  } else {
    return std::conj(x);
  }
}

// Calls f with a value of the type that elements have.
template <typename F>
void WithType(DType type, const F& f) {
  switch (type) {
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kC64:
      return f(std::complex<float>{});
    default:
      return f(std::complex<double>{});
  }
}

// Replaces the last column of `block` by the factor's. `pivot` is the row of that column's pivot, and the
// first row of the block if `has_pivot`.
template <typename T>
void FactorColumn(const HostTensor& block, const HostTensor& pivot, bool has_pivot) {
  const std::int64_t last = block.shape[1] - 1;
  const auto at = [](const HostTensor& t, std::int64_t i, std::int64_t j) -> T& {
    return t.as<T>()[i * t.strides[0] + j * t.strides[1]];
  };
  const auto remainder = [&](const HostTensor& t, std::int64_t i) {
    T value = at(t, i, last);
    for (std::int64_t k = 0; k < last; ++k) value -= at(t, i, k) * Conjugate(at(pivot, 0, k));
    return value;
  };
  using Real = decltype(std::real(T{}));
  const double square = RealOf(remainder(pivot, 0));
  const Real root =
      static_cast<Real>(square > 0 ? std::sqrt(square) : std::numeric_limits<double>::quiet_NaN());
  for (std::int64_t i = has_pivot ? 1 : 0; i < block.shape[0]; ++i)
    at(block, i, last) = remainder(block, i) / root;
  if (has_pivot) at(block, 0, last) = root;
}

VertexGroup Load(const Grid& grid, DType type, bool lower) {
  VertexGroup load = MakeVertexGroup("poplin::CholeskyLoad", Vertices(grid), 150, kVertexBytes);
  load.reads.push_back({kInput, [lower](const Box& box) { return lower ? box : Mirrored(box); }});
  load.writes.push_back({kWork, Same});
  load.compute = [lower](HostContext&, const Box&, const std::vector<HostTensor>& reads,
                         const std::vector<HostTensor>& writes) {
    CopyMatrix(LastMatrix(reads[0]), !lower, LastMatrix(writes[0]));
  };
  load.cycles = [type](const TargetModel& target, const Box& box) {
    return CopyMatrixCycles(target, type, box.num_elements());
  };
  return load;
}

VertexGroup Column(const Grid& grid, DType type, std::int64_t column) {
  std::vector<Vertex> vertices;
  for (Vertex& vertex : Vertices(grid)) {
    std::int64_t& first = vertex.box.begin[RowsDim(vertex.box)];
    if (vertex.box.end[RowsDim(vertex.box)] <= column) continue;
    first = std::max(first, column);
    vertex.box = UpTo(std::move(vertex.box), column);
    vertices.push_back(std::move(vertex));
  }
  VertexGroup group = MakeVertexGroup("poplin::CholeskyColumn", std::move(vertices), 600, kVertexBytes);
  group.reads.push_back({kWork, Same});
  group.reads.push_back({kWork, [column](Box box) {
                           box.begin[RowsDim(box)] = column;
                           box.end[RowsDim(box)] = column + 1;
                           return box;
                         }});
  group.writes.push_back({kWork, Same});
  group.compute = [type, column](HostContext& host, const Box& box, const std::vector<HostTensor>& reads,
                                 const std::vector<HostTensor>& writes) {
    CopyTensor(host, reads[0], writes[0]);
    WithType(type, [&](auto element) {
      FactorColumn<decltype(element)>(LastMatrix(writes[0]), LastMatrix(reads[1]),
                                      box.begin[RowsDim(box)] == column);
    });
  };
  group.cycles = [type](const TargetModel& target, const Box& box) {
    return CholeskyColumnCycles(target, type, box.end[RowsDim(box)] - box.begin[RowsDim(box)],
                                box.end[ColumnsDim(box)]);
  };
  return group;
}

// Copies the triangle to the result and fills the other one with zeros. A failure made the last pivot NaN;
// then the whole result is NaN.
VertexGroup Store(const Grid& grid, DType type, bool lower) {
  VertexGroup group = MakeVertexGroup("poplin::CholeskyStore", Vertices(grid), 250, kVertexBytes);
  group.reads.push_back({kWork, [n = grid.shape.back()](Box box) {
                           for (const std::size_t d : {RowsDim(box), ColumnsDim(box)}) {
                             box.begin[d] = n - 1;
                             box.end[d] = n;
                           }
                           return box;
                         }});
  group.reads.push_back({kWork, [lower](const Box& box) { return lower ? box : Mirrored(box); }});
  group.writes.push_back({kOutput, Same});
  group.compute = [type, lower](HostContext&, const Box& box, const std::vector<HostTensor>& reads,
                                const std::vector<HostTensor>& writes) {
    const HostTensor to = LastMatrix(writes[0]);
    CopyMatrix(LastMatrix(reads[1]), !lower, to);
    WithType(type, [&](auto element) {
      using T = decltype(element);
      const double last = RealOf(*reads[0].as<T>());
      const std::int64_t first = box.begin[RowsDim(box)];
      for (std::int64_t i = 0; i < to.shape[0]; ++i) {
        for (std::int64_t j = 0; j < to.shape[1]; ++j) {
          T& value = to.as<T>()[i * to.strides[0] + j * to.strides[1]];
          if (lower ? j > first + i : j < first + i) value = T{};
          if (std::isnan(last)) value = NotANumber<T>();
        }
      }
    });
  };
  group.cycles = [type](const TargetModel& target, const Box& box) {
    return CholeskyStoreCycles(target, type, box.num_elements(), true);
  };
  return group;
}

}  // namespace

Grid CholeskyRowsGrid(const Shape& shape, DType type, const TargetModel& target, unsigned num_tiles) {
  if (NumMatrices(shape) > num_tiles) return WholeGrid(shape, type, num_tiles);
  const std::size_t rows = shape.size() - 2;
  const std::int64_t n = shape.back(), workers = target.worker_contexts;
  Grid grid;
  grid.shape = shape;
  for (const std::int64_t extent : shape) grid.parts.push_back(std::max<std::int64_t>(1, extent));
  const std::int64_t batch = std::max<std::int64_t>(1, NumElements(Shape(shape.begin(), shape.end() - 2)));
  grid.parts[rows] =
      std::clamp<std::int64_t>(num_tiles / batch, 1, std::max<std::int64_t>(1, CeilDivide(n, workers)));
  grid.parts[rows + 1] = 1;
  grid.grain.assign(shape.size(), 1);
  grid.num_tiles = num_tiles;
  grid.tile_stride = RowMajorStrides(grid.parts);
  return grid;
}

bool CholeskyColumnsPay(const Shape& shape, DType type, const TargetModel& target, unsigned num_tiles,
                        std::uint64_t other) {
  const std::int64_t n = shape.back(), elements = NumElements(shape);
  if (elements == 0 || n > kMostColumns) return false;
  const Grid grid = CholeskyRowsGrid(shape, type, target, num_tiles);
  const std::int64_t batch = elements / (n * n), parts = grid.parts[shape.size() - 2];
  const std::int64_t each = MostOnTile(grid, shape.size() - 2), rows = CeilDivide(n, parts);
  const bool many = each >= static_cast<std::int64_t>(target.worker_contexts);
  if (batch * parts * n > (many ? kMostShared : kMostVertices)) return false;
  const std::int64_t bytes = each * n * n * static_cast<std::int64_t>(SizeOf(type));
  if (each > 1 && 3 * bytes > static_cast<std::int64_t>(target.bytes_per_tile) / 2) return false;
  const std::uint64_t exchange =
      parts == 1 ? 0 : static_cast<std::uint64_t>(n / 2) * SizeOf(type) / target.exchange_bytes_per_cycle;
  const auto matrices = static_cast<std::uint64_t>(each);
  const std::uint64_t column = matrices * CholeskyColumnCycles(target, type, rows, n / 2 + 1);
  const std::uint64_t ends = matrices * (CopyMatrixCycles(target, type, rows * n) +
                                         CholeskyStoreCycles(target, type, rows * n, true));
  return static_cast<std::uint64_t>(n) * (column + exchange + target.sync_cycles) + ends +
             2 * target.sync_cycles <
         other + target.sync_cycles;
}

TilePlan PlanCholeskyColumns(const Shape& shape, DType type, bool lower, const TargetModel& target,
                             unsigned num_tiles) {
  const Grid grid = CholeskyRowsGrid(shape, type, target, num_tiles);
  TilePlan plan;
  plan.temporaries.push_back({type, grid});
  plan.supersteps.push_back({{Load(grid, type, lower)}});
  for (std::int64_t j = 0; j < shape.back(); ++j) plan.supersteps.push_back({{Column(grid, type, j)}});
  plan.supersteps.push_back({{Store(grid, type, lower)}});
  return plan;
}

}  // namespace ipu_model
