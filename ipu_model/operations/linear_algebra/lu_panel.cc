// LU factorisation of a few columns with partial pivoting. The rows are spread over tiles. In each superstep,
// which handles one column, each tile offers its row with the largest entry, and every tile chooses among the
// offers. Where there are many matrices, tiles have whole ones.
#include "kernels/linear_algebra/lu_panel.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
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
// Rows per tile. An offer contains a row, and every tile reads all offers.
constexpr std::int64_t kRowsPerTile = 32;
// An offer holds the size of the entry, the number of its row (-1: none), and the row.
constexpr std::int64_t kOfferHead = 2;

constexpr OperandRef kInput{OperandRef::Kind::kInput, 0}, kFactors{OperandRef::Kind::kOutput, 0},
    kPivots{OperandRef::Kind::kOutput, 1}, kOrder{OperandRef::Kind::kOutput, 2},
    kOffers{OperandRef::Kind::kTemporary, 0};

double RealAt(const HostTensor& t, std::int64_t element) {
  const std::int64_t at = element * (IsComplex(t.type) ? 2 : 1);
  return t.type == DType::kF32 || t.type == DType::kC64 ? static_cast<double>(t.as<float>()[at])
                                                        : t.as<double>()[at];
}

void SetReal(const HostTensor& t, std::int64_t element, double value) {
  const std::int64_t parts = IsComplex(t.type) ? 2 : 1, at = element * parts;
  for (std::int64_t part = 0; part < parts; ++part) {
    if (t.type == DType::kF32 || t.type == DType::kC64) {
      t.as<float>()[at + part] = part == 0 ? static_cast<float>(value) : 0;
    } else {
      t.as<double>()[at + part] = part == 0 ? value : 0;
    }
  }
}

// Returns the index of the winning offer among dense offers [1..., tiles, kOfferHead + n], or -1 if no offer
// has a size.
std::int64_t Chosen(const HostTensor& offers) {
  const std::int64_t width = offers.shape[offers.rank - 1], count = offers.shape[offers.rank - 2];
  std::int64_t chosen = -1;
  for (std::int64_t t = 0; t < count; ++t) {
    const double size = RealAt(offers, t * width);
    if (size >= 0 && (chosen < 0 || size > RealAt(offers, chosen * width))) chosen = t;
  }
  return chosen;
}

std::int64_t PivotRow(const HostTensor& offers, std::int64_t column) {
  const std::int64_t chosen = Chosen(offers), width = offers.shape[offers.rank - 1];
  return chosen < 0 ? column : static_cast<std::int64_t>(RealAt(offers, chosen * width + 1));
}

// Writes the offer of the rows from `first` on of a dense block, for a column.
void Offer(const HostTensor& block, std::int64_t first, std::int64_t column, const HostTensor& offer) {
  const std::int64_t rows = block.shape[block.rank - 2], n = block.shape[block.rank - 1];
  const std::int64_t bytes = static_cast<std::int64_t>(SizeOf(block.type));
  const std::int64_t begin = std::max<std::int64_t>(0, column - first);
  std::memset(offer.data, 0, static_cast<std::size_t>((kOfferHead + n) * bytes));
  SetReal(offer, 0, -1);
  SetReal(offer, 1, -1);
  if (begin >= rows || column >= n) return;
  double size = -1;
  const std::int64_t row = JAX_IPU_FOR_ISA(FindPivot(block.type, rows, n, begin, column, block.data, &size));
  SetReal(offer, 0, size);
  SetReal(offer, 1, static_cast<double>(first + row));
  std::memcpy(offer.as<char>() + kOfferHead * bytes, block.as<char>() + row * n * bytes,
              static_cast<std::size_t>(n * bytes));
}

// inputs: a; outputs: factors, pivots, order.
class LuPanelOperation : public Operation, public Expandable {
 public:
  std::string_view kind() const override { return "hlo::luPanel"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    if (!HasOperands(*this, 1, 3)) return false;
    const Shape& a = inputs[0].shape;
    if (a.size() < 2 || a[a.size() - 2] < a.back() || inputs[0].num_elements() == 0) return false;
    Shape pivots(a.begin(), a.end() - 2), order = pivots;
    pivots.push_back(a.back());
    order.push_back(a[a.size() - 2]);
    return LinearAlgebraSupports(inputs[0].type) && outputs[0].shape == a &&
           outputs[0].type == inputs[0].type && outputs[1].shape == pivots && outputs[2].shape == order &&
           outputs[1].type == DType::kS32 && outputs[2].type == DType::kS32;
  }
  void Write(Writer&) const override {}
  double flops() const override {
    return static_cast<double>(inputs[0].num_elements()) * static_cast<double>(inputs[0].shape.back());
  }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    Factor(context, in, out);
  }

  static void Factor(HostContext& context, const std::vector<HostTensor>& in,
                     const std::vector<HostTensor>& out) {
    const HostTensor& a = in[0];
    const std::int64_t m = a.shape[a.rank - 2], n = a.shape[a.rank - 1];
    const std::int64_t batch = a.num_elements() / (m * n), bytes = static_cast<std::int64_t>(SizeOf(a.type));
    const int workers = static_cast<int>(std::min<std::int64_t>(batch, context.pool.size()));
    char* memory = context.scratch.Allocate<char>(static_cast<std::size_t>(m * n * bytes * workers));
    std::int32_t* numbers =
        context.scratch.Allocate<std::int32_t>(static_cast<std::size_t>((m + n) * workers));
    auto task = [&](int w) {
      char* data = memory + w * m * n * bytes;
      std::int32_t *pivots = numbers + w * (m + n), *order = pivots + n;
      HostTensor panel;  // columns are contiguous
      panel.data = data;
      panel.type = a.type;
      panel.rank = 2;
      panel.shape[0] = panel.strides[1] = m;
      panel.shape[1] = n;
      panel.strides[0] = 1;
      for (std::int64_t b = batch * w / workers; b < batch * (w + 1) / workers; ++b) {
        CopyMatrix(BatchPart(a, 2, b), false, panel);
        JAX_IPU_FOR_ISA(FactorPanel(a.type, m, n, data, pivots));
        CopyMatrix(panel, false, BatchPart(out[0], 2, b));
        Permute(m, n, pivots, order);
        StoreNumbers(pivots, BatchPart(out[1], 1, b));
        StoreNumbers(order, BatchPart(out[2], 1, b));
      }
    };
    if (workers > 1) {
      context.pool.Run(workers, TaskRef(task));
    } else {
      task(0);
    }
  }

  // Whether workers factorise whole matrices.
  static bool IsWhole(const Shape& shape, DType type, const TargetModel& target, unsigned num_tiles) {
    const auto shared = [&](unsigned tiles) {
      return PlanSteps(RowsGrid({shape[shape.size() - 2], shape.back()}, type, tiles), type);
    };
    return WholePays(WholeGrid(shape, type, num_tiles), shape.size() - 2, Whole(shape, type), shared, target);
  }
  // Grid of the factors into whole rows, or whole matrices.
  static Grid MakeGrid(const Shape& shape, DType type, unsigned num_tiles, bool whole) {
    return whole ? WholeGrid(shape, type, num_tiles) : RowsGrid(shape, type, num_tiles);
  }
  static Grid RowsGrid(const Shape& shape, DType type, unsigned num_tiles) {
    if (NumMatrices(shape) > num_tiles) return WholeGrid(shape, type, num_tiles);
    const std::size_t rank = shape.size();
    Grid grid;
    grid.shape = shape;
    grid.parts = shape;
    grid.parts[rank - 1] = 1;
    grid.parts[rank - 2] =
        std::clamp<std::int64_t>(std::min((shape[rank - 2] + kRowsPerTile - 1) / kRowsPerTile,
                                          num_tiles / std::max<std::int64_t>(1, NumMatrices(shape))),
                                 1, shape[rank - 2]);
    grid.grain.assign(rank, 1);
    grid.num_tiles = num_tiles;
    grid.tile_stride = RowMajorStrides(grid.parts);
    return grid;
  }
  // Grid of a vector per matrix, on the tile with the first rows.
  static Grid VectorGrid(const Grid& rows, std::int64_t extent) {
    Grid grid = rows;
    for (Shape* shape : {&grid.shape, &grid.parts, &grid.grain, &grid.tile_stride}) shape->pop_back();
    grid.shape.back() = extent;
    grid.parts.back() = 1;
    return grid;
  }

  TilePlan Plan(const DeviceContext& context) const override {
    const DType type = inputs[0].type;
    const Shape& shape = inputs[0].shape;
    const bool whole = IsWhole(shape, type, context.target(), context.num_tiles());
    const Grid rows = MakeGrid(shape, type, context.num_tiles(), whole);
    if (!whole) return PlanSteps(rows, type);
    return PlanWholeMatrices(*this, rows, shape.size() - 2, Whole(shape, type));
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    library.luPanel(graph, InputsBesideOutputs(*this, graph, in, prog)[0], out[0], out[1], out[2],
                    PlanOf(*this, graph), prog, name);
  }

 private:
  using Region = std::function<Box(const Box&)>;

  static TilePlan PlanSteps(const Grid& rows, DType type) {
    const std::size_t rank = rows.shape.size();
    Grid offers = rows;
    offers.shape[rank - 2] = rows.parts[rank - 2];
    offers.shape[rank - 1] = kOfferHead + rows.shape.back();
    TilePlan plan;
    plan.temporaries.push_back({type, offers});
    plan.supersteps.push_back({{Load(rows, type)}});
    for (std::int64_t j = 0; j < rows.shape.back(); ++j)
      plan.supersteps.push_back({{StepOfColumn(rows, type, j), PivotOfColumn(rows, j)}});
    plan.supersteps.push_back({{RowOrder(rows)}});
    return plan;
  }
  // Of a grid of rows, or of vectors of which each matrix has one.
  static std::vector<Vertex> Vertices(const Grid& grid, bool vectors = false) {
    return OneMatrixEach(grid, grid.shape.size() - (vectors ? 1 : 2));
  }

  // The region of the offers that the vertex of some rows writes.
  static Region OwnOffer(const Grid& rows) {
    const std::int64_t n = rows.shape.back();
    const int row_dim = static_cast<int>(rows.shape.size() - 2);
    return [rows, row_dim, n](const Box& box) {
      Box region = box;
      const auto d = static_cast<std::size_t>(row_dim);
      region.begin[d] = rows.PartOf(row_dim, box.begin[d]);
      region.end[d] = region.begin[d] + 1;
      region.begin[d + 1] = 0;
      region.end[d + 1] = kOfferHead + n;
      return region;
    };
  }
  // The region of all offers for the same matrix.
  static Region AllOffers(const Grid& rows) {
    const std::size_t rank = rows.shape.size();
    const std::int64_t n = rows.shape.back(), tiles = rows.parts[rank - 2];
    return [rank, tiles, n](const Box& box) {
      Box region = box;
      region.begin.resize(rank);
      region.end.resize(rank);
      region.begin[rank - 2] = region.begin[rank - 1] = 0;
      region.end[rank - 2] = tiles;
      region.end[rank - 1] = kOfferHead + n;
      return region;
    };
  }

  // Copies the matrix, and makes the offers for column 0.
  static VertexGroup Load(const Grid& rows, DType type) {
    const std::size_t rank = rows.shape.size();
    VertexGroup load = MakeVertexGroup("hlo::LuPanelLoad", Vertices(rows), 300, kVertexBytes);
    load.reads.push_back({kInput, Same});
    load.writes.push_back({kFactors, Same});
    load.writes.push_back({kOffers, OwnOffer(rows)});
    load.compute = [rank](HostContext& host, const Box& box, const std::vector<HostTensor>& reads,
                          const std::vector<HostTensor>& writes) {
      CopyTensor(host, reads[0], writes[0]);
      Offer(writes[0], box.begin[rank - 2], 0, writes[1]);
    };
    load.cycles = MultiplyAddCycles(type, 1);
    return load;
  }

  // Swaps and subtracts the pivot row of column j, and makes the offers for the next one.
  static VertexGroup StepOfColumn(const Grid& rows, DType type, std::int64_t j) {
    const std::size_t rank = rows.shape.size();
    const std::int64_t n = rows.shape.back(), tiles = rows.parts[rank - 2];
    VertexGroup step = MakeVertexGroup("hlo::LuPanelStep", Vertices(rows), 1100, kVertexBytes);
    step.reads.push_back({kFactors, Same});
    step.reads.push_back({kOffers, AllOffers(rows)});
    step.reads.push_back({kFactors, [rank, j](const Box& box) {
                            Box region = box;
                            region.begin[rank - 2] = j;
                            region.end[rank - 2] = j + 1;
                            return region;
                          }});
    step.writes.push_back({kFactors, Same});
    step.writes.push_back({kOffers, OwnOffer(rows)});
    step.compute = [rank, j](HostContext& host, const Box& box, const std::vector<HostTensor>& reads,
                             const std::vector<HostTensor>& writes) {
      CopyTensor(host, reads[0], writes[0]);
      Step(j, box.begin[rank - 2], reads[1], reads[2], writes[0]);
      Offer(writes[0], box.begin[rank - 2], j + 1, writes[1]);
    };
    step.cycles = [type, tiles,
                   products = MultiplyAddCycles(type, static_cast<double>(n - j) / static_cast<double>(n))](
                      const TargetModel& target, const Box& box) {
      return products(target, box) + OfferCycles(tiles);
    };
    return step;
  }

  // Notes which row is the pivot of column j.
  static VertexGroup PivotOfColumn(const Grid& rows, std::int64_t j) {
    const std::size_t rank = rows.shape.size();
    const std::int64_t n = rows.shape.back(), tiles = rows.parts[rank - 2];
    VertexGroup note =
        MakeVertexGroup("hlo::LuPanelPivot", Vertices(VectorGrid(rows, n), true), 150, kVertexBytes);
    note.reads.push_back({kOffers, AllOffers(rows)});
    note.writes.push_back({kPivots, [rank, j](const Box& box) {
                             Box region = box;
                             region.begin[rank - 2] = j;
                             region.end[rank - 2] = j + 1;
                             return region;
                           }});
    note.compute = [j](HostContext&, const Box&, const std::vector<HostTensor>& reads,
                       const std::vector<HostTensor>& writes) {
      *writes[0].as<std::int32_t>() = static_cast<std::int32_t>(PivotRow(reads[0], j));
    };
    note.cycles = [tiles](const TargetModel& target, const Box&) {
      return OfferCycles(tiles) + target.supervisor_overhead;
    };
    return note;
  }

  // The order of the rows, of all pivots.
  static VertexGroup RowOrder(const Grid& rows) {
    const std::size_t rank = rows.shape.size();
    const std::int64_t m = rows.shape[rank - 2], n = rows.shape[rank - 1];
    VertexGroup order =
        MakeVertexGroup("hlo::LuPanelOrder", Vertices(VectorGrid(rows, m), true), 150, kVertexBytes);
    order.reads.push_back({kPivots, [rank, n](const Box& box) {
                             Box region = box;
                             region.end[rank - 2] = n;
                             return region;
                           }});
    order.writes.push_back({kOrder, Same});
    order.compute = [m, n](HostContext&, const Box&, const std::vector<HostTensor>& reads,
                           const std::vector<HostTensor>& writes) {
      Permute(m, n, reads[0].as<std::int32_t>(), writes[0].as<std::int32_t>());
    };
    order.cycles = [m, n](const TargetModel& target, const Box&) { return RowOrderCycles(target, m, n); };
    return order;
  }

  static WholeMatrices Whole(const Shape& shape, DType type) {
    const std::int64_t n = shape.back(), m = shape[shape.size() - 2];
    WholeMatrices matrices;
    matrices.codelet = "hlo::LuPanels";
    matrices.code_bytes = 900;
    matrices.vertex_bytes = kVertexBytes;
    matrices.compute = Factor;
    matrices.cycles = [type, m, n](const TargetModel&) { return LuCycles(type, m, n); };
    // Pivots and the order are integers.
    matrices.grain = m % 2 == 0 && n % 2 == 0 ? 1 : 2;
    return matrices;
  }

  static void Permute(std::int64_t m, std::int64_t n, const std::int32_t* pivots, std::int32_t* order) {
    std::iota(order, order + m, 0);
    for (std::int64_t k = 0; k < n; ++k) std::swap(order[k], order[pivots[k]]);
  }

  static void StoreNumbers(const std::int32_t* numbers, const HostTensor& to) {
    for (std::int64_t i = 0; i < to.shape[0]; ++i) to.as<std::int32_t>()[i * to.strides[0]] = numbers[i];
  }

  // Applies one step to a block of rows from `first` on: its part of the row swap and of the elimination of
  // column j.
  static void Step(std::int64_t j, std::int64_t first, const HostTensor& offers, const HostTensor& row_j,
                   const HostTensor& block) {
    const std::int64_t rows = block.shape[block.rank - 2], n = block.shape[block.rank - 1];
    const std::int64_t bytes = static_cast<std::int64_t>(SizeOf(block.type));
    const std::int64_t chosen = Chosen(offers), pivot = PivotRow(offers, j);
    const char* pivot_row =
        chosen < 0 ? row_j.as<char>() : offers.as<char>() + (chosen * (kOfferHead + n) + kOfferHead) * bytes;
    const auto put = [&](std::int64_t row, const char* from) {
      if (row < first || row >= first + rows) return;
      std::memmove(block.as<char>() + (row - first) * n * bytes, from, static_cast<std::size_t>(n * bytes));
    };
    put(pivot, row_j.as<char>());
    put(j, pivot_row);
    const std::int64_t begin = std::max<std::int64_t>(0, j + 1 - first);
    if (begin >= rows) return;
    JAX_IPU_FOR_ISA(EliminateRows(block.type, rows, n, begin, j, pivot_row, block.data));
  }
};

}  // namespace

std::unique_ptr<Operation> ReadLuPanel(Reader&) { return std::make_unique<LuPanelOperation>(); }

}  // namespace ipu_model

namespace hlo {

LuPanel luPanel(poplar::Graph& graph, const poplar::Tensor& a, poplar::program::Sequence& prog,
                const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  const DType type = a.elementType().id();
  const unsigned rank = a.rank();
  if (rank < 2 || a.dim(rank - 2) < a.dim(rank - 1) || a.numElements() == 0 || !LinearAlgebraSupports(type)) {
    throw poplar::poplar_error(name +
                               ": luPanel needs matrices of f32, f64, c64 or c128 that are not empty and " +
                               "no wider than high, not " + NameOf(type) + " " + a.shapeToString());
  }
  auto operation = std::make_unique<LuPanelOperation>();
  operation->name = name;
  operation->inputs.push_back(StridedView(graph, a, prog, {debugContext, "a"}));
  const poplar::Target& target = graph.getTarget();
  const ipu_model::Grid rows = LuPanelOperation::MakeGrid(
      ShapeOf(a), type, target.getNumTiles(),
      LuPanelOperation::IsWhole(ShapeOf(a), type, target.model(), target.getNumTiles()));
  LuPanel result;
  const auto add_result = [&](poplar::Tensor* tensor, DType result_type, const ipu_model::Grid& grid) {
    *tensor = NewTensor(graph, result_type, grid.shape, Mapping(grid), name);
    tensor->asView(&operation->outputs.emplace_back());
  };
  add_result(&result.factors, type, rows);
  add_result(&result.pivots, DType::kS32,
             LuPanelOperation::VectorGrid(rows, static_cast<std::int64_t>(a.dim(rank - 1))));
  add_result(&result.order, DType::kS32,
             LuPanelOperation::VectorGrid(rows, static_cast<std::int64_t>(a.dim(rank - 2))));
  AddOperation(prog, std::move(operation));
  return result;
}

}  // namespace hlo
