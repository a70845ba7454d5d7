// Compares gather, dynamic slice and dynamic update slice with their definitions, whole and vertex by vertex.
#include "popops/Gather.hpp"

#include "core/graph/graph_impl.h"
#include "hlo/Index.hpp"
#include "ipu_model/FirstTile.hpp"
#include "popops/DynamicSlice.hpp"
#include "testing/plan_runner.h"
#include "testing/random_windows.h"

namespace ipu_model {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

// Stores `values` as elements of an integer type.
Bytes Encode(DType type, const std::vector<std::int64_t>& values) {
  Bytes bytes(values.size() * SizeOf(type) + 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::memcpy(bytes.data() + i * SizeOf(type), &values[i], SizeOf(type));  // little-endian
  }
  return bytes;
}

Bytes Pattern(DType type, const Shape& shape, unsigned seed) {
  Bytes bytes(static_cast<std::size_t>(NumElements(shape)) * SizeOf(type) + 1);
  std::mt19937 random(seed);
  for (unsigned char& b : bytes) b = static_cast<unsigned char>(random());
  return bytes;
}

constexpr DType kTypes[] = {DType::kU8, DType::kBF16, DType::kF32, DType::kF64, DType::kC128};
constexpr DType kIndexTypes[] = {DType::kS32, DType::kS64, DType::kS8,  DType::kU32,
                                 DType::kU8,  DType::kU64, DType::kS16, DType::kU16};

TEST(GatherEqualsDefinition) {
  std::mt19937 random(1);
  std::size_t steps = 0;
  for (int round = 0; round < (jax_ipu::testing::Everything() ? 600 : 200); ++round) {
    const RandomWindows problem(random);
    const DType type = kTypes[random() % 5], index_type = kIndexTypes[random() % 8];
    Graph graph(poplar::Target::createIPUTarget(1, 1 + random() % 9, "ipu2"));
    const Tensor operand = round % 2 == 0 ? MappedVariable(graph, type, problem.operand)
                                          : RandomlyCut(graph, type, problem.operand, random);
    const Tensor indices = MappedVariable(graph, index_type, problem.indices);
    Sequence prog;
    const Tensor out =
        hlo::gather(graph, operand, indices, problem.dims, Extents(problem.slice_sizes), prog, "g");
    CHECK(Extents(problem.windows) == out.shape());
    const Bytes values = Pattern(type, problem.operand, round);
    std::vector<std::int64_t> index;
    for (std::int64_t i = 0; i < NumElements(problem.indices); ++i) {
      index.push_back(IsSigned(index_type) ? static_cast<std::int64_t>(random() % 11) - 3
                                           : static_cast<std::int64_t>(random() % 9));
    }
    const std::size_t size = SizeOf(type);
    Bytes expected(static_cast<std::size_t>(NumElements(problem.windows)) * size);
    problem.ForEach(index, true, [&](std::int64_t to, std::int64_t from) {
      std::memcpy(expected.data() + static_cast<std::size_t>(to) * size,
                  values.data() + static_cast<std::size_t>(from) * size, size);
    });
    for (const unsigned bytes_per_tile : {0u, 64u}) {
      PlanRunner runner(graph, bytes_per_tile);
      runner.Store(operand, values.data());
      runner.Store(indices, Encode(index_type, index).data());
      runner.RunVertices(prog);
      CHECK(runner.Load(out) == expected);
      steps = std::max(steps, runner.supersteps());
    }
    PlanRunner whole(graph, 0);
    whole.Store(operand, values.data());
    whole.Store(indices, Encode(index_type, index).data());
    whole.RunWhole(prog);
    CHECK(whole.Load(out) == expected);
  }
  CHECK(steps > 2);  // the small memory cuts indexed dimensions and the windows
}

constexpr DType kTableTypes[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kS32, DType::kS8};

// Rows of a table with the mapping of a matrix product's operand: transposed, cut in both dimensions.
struct TableLookup {
  static constexpr unsigned kTiles = 48;
  std::int64_t rows, columns, windows;
  DType type;
  Graph graph{poplar::Target::createIPUTarget(1, kTiles, "ipu2")};
  Tensor table, indices, out;
  Sequence prog;

  // Blocks; or blocks of columns, or of rows, that are cut once more over other tiles.
  Grid GridOf(int kind) const {
    if (kind == 0) return {{columns, rows}, {4, 12}, {1, 1}, {12, 1}, 0, kTiles};
    if (kind == 1) return {{2, columns / 2, rows}, {2, 2, 12}, {1, 1, 1}, {12, 24, 1}, 3, kTiles};
    return {{columns, 4, rows / 4}, {4, 4, 3}, {1, 1, 1}, {1, 4, 16}, 1, kTiles};
  }
  TableLookup(std::int64_t r, std::int64_t c, std::int64_t n, DType t, int kind)
      : rows(r), columns(c), windows(n), type(t) {
    const Grid grid = GridOf(kind);
    table = NewTensor(graph, type, {columns, rows}, Mapping(grid), "table").dimShuffle({1, 0});
    indices = MappedVariable(graph, DType::kS32, {windows});
    WindowDims dims;
    dims.offset_dims = {1};
    dims.collapsed_dims = {0};
    dims.start_index_map = {0};
    dims.index_vector_dim = 1;
    out = hlo::gather(graph, table, indices, dims, {1, static_cast<std::size_t>(columns)}, prog, "g");
  }
  const Operation& operation() const { return *prog.node()->children.at(0)->operation; }
};

TEST(TablesAreLookedUpWhereTheyLie) {
  for (int round = 0; round < 15; ++round) {
    const DType type = kTableTypes[round % 5];
    TableLookup lookup(5000, 64, 96, type, round / 5);
    for (const unsigned bytes_per_tile : {0u, 64u * 1024, 16u * 1024}) {
      PlanRunner runner(lookup.graph, bytes_per_tile);
      const Operation& operation = lookup.operation();
      const View& table = operation.inputs[0];
      const Mapping& mapping = runner.mapping(table.variable);
      const TilePlan plan = operation.Plan(runner);
      CHECK_EQ(plan.supersteps.size() % 2, std::size_t{0});
      // Every vertex of a slicing superstep holds the part of the table that it reads.
      for (std::size_t s = 0; s < plan.supersteps.size(); s += 2) {
        const VertexGroup& group = plan.supersteps[s].groups.at(0);
        CHECK_EQ(group.vertices.size(), std::size_t{TableLookup::kTiles});
        for (const Vertex& vertex : group.vertices) {
          const Box region = group.reads[0].region(vertex.box);
          CHECK_EQ(mapping.Held(vertex.tile, table, region), region.num_elements());
        }
      }
      // The memory of a step: a partial result of its windows on every tile, and as many elements to pick
      // from.
      const std::int64_t steps = static_cast<std::int64_t>(plan.supersteps.size()) / 2;
      const std::int64_t per_tile = (lookup.windows + steps - 1) / steps * lookup.columns / 4;
      CHECK(2 * per_tile * static_cast<std::int64_t>(SizeOf(type)) <= runner.target().bytes_per_tile / 16);
      CHECK_EQ(NumElements(plan.temporaries.at(0).placement.shape), per_tile * TableLookup::kTiles);

      const Bytes values = Pattern(type, {lookup.rows, lookup.columns}, 5);
      std::vector<std::int64_t> index;
      for (std::int64_t i = 0; i < lookup.windows; ++i) index.push_back(i * 7919 % 5300 - 150);
      runner.Store(lookup.table, values.data());
      runner.Store(lookup.indices, Encode(DType::kS32, index).data());
      runner.RunVertices(lookup.prog);
      const Bytes got = runner.Load(lookup.out);
      const std::size_t row = static_cast<std::size_t>(lookup.columns) * SizeOf(type);
      for (std::size_t i = 0; i < index.size(); ++i) {
        const auto from = static_cast<std::size_t>(std::clamp<std::int64_t>(index[i], 0, lookup.rows - 1));
        CHECK(std::memcmp(got.data() + i * row, values.data() + from * row, row) == 0);
      }
    }
  }
}

TEST(ElementsOfRowsAreReadWhereTheRowsLie) {
  // One element of each row, with rows cut over several tiles, as a matrix product leaves them.
  Graph graph(poplar::Target::createIPUTarget(1, 60, "ipu2"));
  const std::int64_t rows = 20, columns = 4000;
  const Grid grid = {{rows, columns}, {5, 12}, {1, 1}, {12, 1}, 0, 60};
  const Tensor logits = NewTensor(graph, DType::kF32, {rows, columns}, Mapping(grid), "logits");
  const Tensor labels = MappedVariable(graph, DType::kS32, {rows, 1, 1});
  WindowDims dims;
  dims.collapsed_dims = {1};
  dims.operand_batching_dims = {0};
  dims.indices_batching_dims = {0};
  dims.start_index_map = {1};
  dims.index_vector_dim = 2;
  Sequence prog;
  const Tensor out = hlo::gather(graph, logits, labels, dims, {1, 1}, prog, "g");
  PlanRunner runner(graph, 0);
  const Operation& operation = *prog.node()->children.at(0)->operation;
  const TilePlan plan = operation.Plan(runner);
  CHECK_EQ(plan.supersteps.size(), std::size_t{2});
  for (const Vertex& vertex : plan.supersteps[0].groups.at(0).vertices) {
    const Box region = plan.supersteps[0].groups[0].reads[0].region(vertex.box);
    CHECK_EQ(runner.mapping(operation.inputs[0].variable).Held(vertex.tile, operation.inputs[0], region),
             region.num_elements());
  }
  CHECK_EQ(NumElements(plan.temporaries.at(0).placement.shape), 12 * rows);
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::vector<std::int64_t> index;
  for (std::int64_t i = 0; i < rows; ++i) index.push_back(i * 1237 % 4400 - 100);
  runner.Store(logits, values.data());
  runner.Store(labels, Encode(DType::kS32, index).data());
  runner.RunVertices(prog);
  const Bytes bytes = runner.Load(out);
  for (std::int64_t i = 0; i < rows; ++i) {
    float got = 0;
    std::memcpy(&got, bytes.data() + i * 4, 4);
    const std::int64_t column = std::clamp<std::int64_t>(index[static_cast<std::size_t>(i)], 0, columns - 1);
    CHECK_EQ(got, static_cast<float>(i * columns + column));
  }
}

TEST(TablesThatAreSpreadLinearlyStayWhereTheyAre) {
  Graph graph(poplar::Target::createIPUTarget(1, 48, "ipu2"));
  const std::int64_t rows = 5000, columns = 64, windows = 12;
  const Tensor table = MappedVariable(graph, DType::kF32, {rows, columns});
  const Tensor indices = MappedVariable(graph, DType::kS32, {windows});
  WindowDims dims;
  dims.offset_dims = {1};
  dims.collapsed_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  Sequence prog;
  const Tensor out = hlo::gather(graph, table, indices, dims, {1, 64}, prog, "g");
  PlanRunner runner(graph, 0);
  const Operation& operation = *prog.node()->children.at(0)->operation;
  const TilePlan plan = operation.Plan(runner);
  for (const Vertex& vertex : plan.supersteps.at(0).groups.at(0).vertices) {
    const Box region = plan.supersteps[0].groups[0].reads[0].region(vertex.box);
    const std::int64_t held =
        runner.mapping(operation.inputs[0].variable).Held(vertex.tile, operation.inputs[0], region);
    CHECK(region.num_elements() - held <= 2 * columns);
  }
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::vector<std::int64_t> index;
  for (std::int64_t i = 0; i < windows; ++i) index.push_back(i * 433);
  runner.Store(table, values.data());
  runner.Store(indices, Encode(DType::kS32, index).data());
  runner.RunVertices(prog);
  const Bytes bytes = runner.Load(out);
  for (std::int64_t i = 0; i < windows * columns; ++i) {
    float got = 0;
    std::memcpy(&got, bytes.data() + i * 4, 4);
    CHECK_EQ(got, static_cast<float>(index[static_cast<std::size_t>(i / columns)] * columns + i % columns));
  }
}

TEST(GatherLargeUsesAllThreads) {
  Graph graph(poplar::Target::createIPUTarget(1, 16, "ipu2"));
  const std::int64_t rows = 3001, columns = 37, n = 5003;
  const Tensor table = MappedVariable(graph, DType::kF32, {rows, columns});
  const Tensor indices = MappedVariable(graph, DType::kS32, {n});
  WindowDims dims;
  dims.offset_dims = {1};
  dims.collapsed_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  Sequence prog;
  const Tensor out = hlo::gather(graph, table, indices, dims, {1, 37}, prog);
  const Tensor element = hlo::gather(graph, table.slice(3, 4, 1), indices, dims, {1, 1}, prog);
  PlanRunner runner(graph, 0);
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::vector<std::int32_t> index(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<std::int32_t>(i * 7919 % 3300) - 100;
  runner.Store(table, values.data());
  runner.Store(indices, index.data());
  runner.RunWhole(prog);
  const Bytes bytes = runner.Load(out), elements = runner.Load(element);
  const float* got = reinterpret_cast<const float*>(bytes.data());
  const float* got_elements = reinterpret_cast<const float*>(elements.data());
  int wrong = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = std::clamp<std::int64_t>(index[static_cast<std::size_t>(i)], 0, rows - 1);
    for (std::int64_t c = 0; c < columns; ++c) {
      wrong += got[i * columns + c] == static_cast<float>(row * columns + c) ? 0 : 1;
    }
    wrong += got_elements[i] == static_cast<float>(row * columns + 3) ? 0 : 1;
  }
  CHECK_EQ(wrong, 0);
}

TEST(DynamicSliceAndUpdateEqualDefinition) {
  std::mt19937 random(2);
  for (int round = 0; round < (jax_ipu::testing::Everything() ? 400 : 150); ++round) {
    const std::size_t rank = random() % 5;
    const DType type = kTypes[random() % 5];
    Graph graph(poplar::Target::createIPUTarget(1, 1 + random() % 9, "ipu2"));
    Shape shape, sizes, strides_shape;
    for (std::size_t d = 0; d < rank; ++d) {
      shape.push_back(1 + static_cast<std::int64_t>(random() % 7));
      const std::int64_t size = static_cast<std::int64_t>(random() % static_cast<unsigned>(shape[d] + 1));
      sizes.push_back(random() % 2 ? shape[d] : random() % 8 ? std::max<std::int64_t>(1, size) : size);
    }
    Tensor operand = MappedVariable(graph, type, shape);
    if (rank > 1 && random() % 2) {  // a strided view
      operand = operand.dimShuffle([&] {
        std::vector<unsigned> order(rank);
        std::iota(order.begin(), order.end(), 0u);
        std::rotate(order.begin(), order.begin() + 1, order.end());
        return order;
      }());
      std::rotate(shape.begin(), shape.begin() + 1, shape.end());
      std::rotate(sizes.begin(), sizes.begin() + 1, sizes.end());
    }
    if (rank > 0 && random() % 3 == 0) operand = operand.reverse(0);
    const Tensor update = MappedVariable(graph, type, sizes);
    std::vector<Tensor> starts;
    std::vector<std::pair<DType, std::int64_t>> start_values;
    Shape clamped;
    for (std::size_t d = 0; d < rank; ++d) {
      const DType index_type = kIndexTypes[random() % 8];
      const std::int64_t value = IsSigned(index_type) ? static_cast<std::int64_t>(random() % 14) - 5
                                                      : static_cast<std::int64_t>(random() % 10);
      starts.push_back(MappedVariable(graph, index_type, {}));
      start_values.emplace_back(index_type, value);
      clamped.push_back(std::clamp<std::int64_t>(value, 0, shape[d] - sizes[d]));
    }
    Sequence prog, in_place;
    const Tensor slice = hlo::dynamicSlice(graph, operand, starts, Extents(sizes), prog, "slice");
    const Tensor updated = hlo::dynamicUpdateSlice(graph, operand, update, starts, prog, false, "update");
    const Tensor same = hlo::dynamicUpdateSlice(graph, operand, update, starts, in_place, true, "update");

    const std::size_t size = SizeOf(type);
    const Bytes values = Pattern(type, shape, 3), new_values = Pattern(type, sizes, 4);
    Bytes expected_slice(static_cast<std::size_t>(NumElements(sizes)) * size);
    Bytes expected(values.begin(), values.end() - 1);
    for (std::int64_t i = 0; i < NumElements(sizes); ++i) {
      std::int64_t rest = i, element = 0, stride = 1;
      for (std::size_t d = rank; d-- > 0;) {
        element += (rest % sizes[d] + clamped[d]) * stride;
        rest /= sizes[d];
        stride *= shape[d];
      }
      const std::size_t from = static_cast<std::size_t>(element) * size,
                        to = static_cast<std::size_t>(i) * size;
      std::memcpy(expected_slice.data() + to, values.data() + from, size);
      std::memcpy(expected.data() + from, new_values.data() + to, size);
    }
    for (int mode = 0; mode < 3; ++mode) {
      PlanRunner runner(graph, mode == 2 ? 32 : 0);
      runner.Store(operand, values.data());
      runner.Store(update, new_values.data());
      for (std::size_t d = 0; d < rank; ++d) {
        runner.Store(starts[d], Encode(start_values[d].first, {start_values[d].second}).data());
      }
      mode == 0 ? runner.RunWhole(prog) : runner.RunVertices(prog);
      CHECK(runner.Load(slice) == expected_slice);
      CHECK(runner.Load(updated) == expected);
      CHECK(runner.Load(operand) == Bytes(values.begin(), values.end() - 1));
      mode == 0 ? runner.RunWhole(in_place) : runner.RunVertices(in_place);
      CHECK(runner.Load(same) == expected);
    }
  }
}

TEST(UnsignedStartsAboveTheSignedRangeClampToTheEnd) {
  Graph graph(poplar::Target::createIPUTarget(1, 2, "ipu2"));
  const Tensor operand = MappedVariable(graph, DType::kS32, {5}),
               start = MappedVariable(graph, DType::kU64, {});
  Sequence prog;
  const Tensor out = hlo::dynamicSlice(graph, operand, {start}, {2}, prog);
  PlanRunner runner(graph, 0);
  const std::int32_t values[] = {0, 1, 2, 3, 4};
  const std::uint64_t huge = ~std::uint64_t{0};
  runner.Store(operand, values);
  runner.Store(start, &huge);
  runner.RunWhole(prog);
  std::int32_t got[2];
  std::memcpy(got, runner.Load(out).data(), sizeof(got));
  CHECK_EQ(got[0], 3);
  CHECK_EQ(got[1], 4);
}

TEST(SliceableTensorNeedsNoOtherTile) {
  Graph graph(poplar::Target::createIPUTarget(1, 64, "ipu2"));
  const Tensor t = popops::createSliceableTensor(graph, poplar::FLOAT, {100, 48}, {0}, {1}, 0, "t");
  const auto mapping = graph.getTileMapping(t);
  std::size_t tiles = 0;
  for (const auto& intervals : mapping) {
    std::size_t elements = 0;
    for (const auto& i : intervals) elements += i.size();
    tiles += elements > 0 ? 1 : 0;
    CHECK(elements == 0 || elements == 200);  // two columns, all rows
  }
  CHECK_EQ(tiles, std::size_t{24});
}

TEST(SlicedTensorsStartWhereTheyAreToldTo) {
  Graph graph(poplar::Target::createIPUTarget(1, 64, "ipu2"));
  StartLinearMappingsAt(graph, 50);
  const Tensor sliced = popops::createSliceableTensor(graph, poplar::FLOAT, {100, 48}, {0}, {1}, 0, "t");
  WindowDims dims;
  dims.offset_dims = {1};
  dims.collapsed_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  const Tensor table = hlo::createGatherInput(graph, poplar::FLOAT, {7, 20}, {3, 1}, dims, {1, 20});
  for (const Tensor& tensor : {sliced, table}) {
    const auto mapping = graph.getTileMapping(tensor);
    std::size_t tiles = 0;
    for (const auto& intervals : mapping) tiles += intervals.empty() ? 0 : 1;
    CHECK(tiles > 1 && tiles < 64);
    // Tile 0 follows the last one.
    for (std::size_t i = 0; i < tiles; ++i) CHECK(!mapping[(50 + i) % 64].empty());
  }
}

TEST(WrongDimensionNumbersAreRefused) {
  Graph graph(poplar::Target::createIPUTarget(1, 2, "ipu2"));
  const Tensor operand = MappedVariable(graph, DType::kF32, {5, 3}),
               indices = MappedVariable(graph, DType::kS32, {4, 1});
  Sequence prog;
  WindowDims dims;
  dims.offset_dims = {1};
  dims.collapsed_dims = {0};
  dims.start_index_map = {7};
  dims.index_vector_dim = 1;
  CHECK_THROWS(std::exception, hlo::gather(graph, operand, indices, dims, {1, 3}, prog));
  dims.start_index_map = {0};
  CHECK_THROWS(std::exception, hlo::gather(graph, operand, indices, dims, {1, 4}, prog));
  CHECK_THROWS(std::exception, hlo::gather(graph, operand, indices, dims, {2, 3}, prog));
  CHECK_THROWS(std::exception, hlo::dynamicSlice(graph, operand, {indices}, {1, 1}, prog));
}

}  // namespace
}  // namespace ipu_model
