#include "core/program/copy.h"

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"
#include "poplar/Engine.hpp"
#include "poplar/MetadataCreation.hpp"
#include "poplar/Program.hpp"
#include "poplar/Target.hpp"
#include "poplar/exceptions.hpp"
#include "testing/plan_runner.h"

using namespace ipu_model;
using poplar::program::Sequence;

namespace {

constexpr unsigned kTiles = 64;

using Random = std::mt19937;
std::int64_t Uniform(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

poplar::Graph NewGraph() { return poplar::Graph(poplar::Target::createIPUTarget(1, kTiles, "ipu2")); }

// A grid of the shape, each dimension of which may first be split into two.
Grid RandomGrid(Random& random, const Shape& shape) {
  Grid p{{}, {}, {}, {}, static_cast<unsigned>(Uniform(random, 0, 70)), kTiles};
  const auto add = [&](std::int64_t extent) {
    p.shape.push_back(extent);
    p.parts.push_back(Uniform(random, 0, 2) == 0 ? 1 : Uniform(random, 1, std::min<std::int64_t>(extent, 5)));
    p.grain.push_back(Uniform(random, 1, 2));
    p.tile_stride.push_back(Uniform(random, 0, 9));
  };
  for (const std::int64_t extent : shape) {
    const std::int64_t inner = extent % 2 == 0 && Uniform(random, 0, 1) == 0 ? extent / 2 : extent;
    if (inner != extent) add(2);
    add(inner);
  }
  return p;
}

// Returns a view without aliases: dimensions in another order, reversed, cut or merged.
poplar::Tensor RandomView(Random& random, poplar::Tensor t) {
  for (std::int64_t i = Uniform(random, 0, 4); i > 0; --i) {
    const auto d = static_cast<unsigned>(Uniform(random, 0, static_cast<std::int64_t>(t.rank()) - 1));
    const auto extent = static_cast<std::int64_t>(t.dim(d));
    switch (Uniform(random, 0, 4)) {
      case 0: {
        std::vector<unsigned> order(t.rank());
        std::iota(order.begin(), order.end(), 0u);
        std::shuffle(order.begin(), order.end(), random);
        t = t.dimShuffle(order);
        break;
      }
      case 1:
        t = t.reverse(d);
        break;
      case 2: {
        const std::int64_t begin = Uniform(random, 0, extent - 1), end = Uniform(random, begin + 1, extent);
        t = t.slice(static_cast<std::size_t>(begin), static_cast<std::size_t>(end), d);
        break;
      }
      case 3:
        t = t.subSample(static_cast<unsigned>(Uniform(random, 1, 3)), d);
        break;
      default:
        if (d + 1 < t.rank()) t = t.flatten(d, d + 2);
    }
  }
  return t;
}

// Returns the vertices of all copies. Checks that each is on the tile that holds what it writes.
std::vector<Vertex> VerticesOf(const Sequence& prog, const DeviceContext& context) {
  std::vector<Vertex> vertices;
  for (const auto& child : prog.node()->children) {
    const Operation& copy = *child->operation;
    for (const Superstep& step : copy.Plan(context).supersteps) {
      for (const VertexGroup& group : step.groups) {
        CHECK_EQ(group.writes.size(), 1u);
        const View& out = copy.outputs[group.writes[0].tensor.index];
        for (const Vertex& v : group.vertices) {
          CHECK_EQ(context.mapping(out.variable).Held(v.tile, out, v.box), v.box.num_elements());
        }
        vertices.insert(vertices.end(), group.vertices.begin(), group.vertices.end());
      }
    }
  }
  return vertices;
}

std::vector<std::int32_t> Values(std::size_t n, std::int32_t first) {
  std::vector<std::int32_t> values(n);
  std::iota(values.begin(), values.end(), first);
  return values;
}

}  // namespace

TEST(CopiesBetweenAnyViewsAndMappings) {
  Random random(7);
  for (int trial = 0; trial < 600; ++trial) {
    poplar::Graph graph = NewGraph();
    Shape shape(static_cast<std::size_t>(Uniform(random, 1, 3)));
    for (std::int64_t& extent : shape) extent = Uniform(random, 1, 12);
    const auto variable = [&] {
      return NewTensor(graph, DType::kS32, shape, Mapping(RandomGrid(random, shape)), "variable");
    };
    const poplar::Tensor x = variable(), y = variable();
    // The source has the destination's shape: views of both are cut to what they have in common.
    poplar::Tensor from = RandomView(random, x).flatten(), to = RandomView(random, y);
    if (from.numElements() < to.numElements()) {
      to = to.flatten().slice(0, from.numElements(), 0);
    } else {
      from = from.slice(0, to.numElements(), 0).reshape(to.shape());
    }
    Sequence prog;
    prog.add(poplar::program::Copy(from, to));
    const std::vector<std::int32_t> first = Values(x.numElements(), 0),
                                    second = Values(x.numElements(), 10000);
    PlanRunner whole(graph, 0), vertices(graph, 0), direct(graph, 0);
    for (PlanRunner* runner : {&whole, &vertices, &direct}) {
      runner->Store(x, first.data());
      runner->Store(y, second.data());
    }
    std::size_t written = 0;
    for (const Vertex& v : VerticesOf(prog, whole)) written += static_cast<std::size_t>(v.box.num_elements());
    CHECK(written <= to.numElements());  // a copy of an element to itself has no vertex
    whole.RunWhole(prog);
    vertices.RunVertices(prog);
    CHECK(whole.Load(y) == vertices.Load(y));
    CHECK(whole.Load(x) == direct.Load(x));
    // Element by element.
    const poplar::Tensor a = from.flatten(), b = to.flatten();
    for (std::size_t i = 0; i < a.numElements(); ++i) {
      const Bytes bytes = direct.Load(a.slice(i, i + 1, 0));
      direct.Store(b.slice(i, i + 1, 0), bytes.data());
    }
    CHECK(whole.Load(y) == direct.Load(y));
    if (jax_ipu::testing::Failures() > 10) return;
  }
}

// The mapping of a product's operand: rows and blocks of columns are cut, and columns within a block.
TEST(CopiesHaveOneVertexForEachPart) {
  Random random(8);
  for (int trial = 0; trial < 100; ++trial) {
    poplar::Graph graph = NewGraph();
    const std::int64_t blocks = Uniform(random, 2, 4), columns = Uniform(random, 4, 9), rows = 12;
    const std::int64_t row_parts = Uniform(random, 1, 5), column_parts = Uniform(random, 1, 3);
    const Grid grid{{1, rows, blocks, columns},
                    {1, row_parts, blocks, column_parts},
                    {1, 1, 1, 1},
                    {0, 1, row_parts, row_parts * blocks},
                    0,
                    kTiles};
    const Shape shape{rows, blocks * columns};
    const poplar::Tensor y = NewTensor(graph, DType::kS32, shape, Mapping(grid), "y");
    const poplar::Tensor x =
        NewTensor(graph, DType::kS32, shape, Mapping(Grid::Linear(NumElements(shape), 1, 2, kTiles)), "x");
    const std::int32_t seven = 7;
    const poplar::Tensor value = graph.addConstant(poplar::INT, {1}, &seven);
    graph.setTileMapping(value, 0);
    const auto n = static_cast<std::size_t>(NumElements(shape));
    const std::vector<std::pair<poplar::Tensor, poplar::Tensor>> copies = {
        {x, y},
        {x.flatten(), y.flatten()},
        {x.reshape({3, 4, static_cast<std::size_t>(blocks * columns)}).dimShuffle({1, 0, 2}),
         y.reshape({4, 3, static_cast<std::size_t>(blocks * columns)})},
        {x.transpose(), y.transpose()},
        {x.reverse(1), y.reverse(1)},
        {value.broadcast(static_cast<unsigned>(n), 0).reshape(y.shape()), y},
        {y, graph.clone(y)},
    };
    for (const auto& [from, to] : copies) {
      Sequence prog;
      prog.add(poplar::program::Copy(from, to));
      PlanRunner runner(graph, 0);
      const std::vector<Vertex> vertices = VerticesOf(prog, runner);
      // A dimension of the view that ends within a part cuts it into at most three boxes.
      const std::size_t most = static_cast<std::size_t>(grid.num_parts()) * (to.rank() == 3 ? 3 : 1);
      CHECK(vertices.size() <= most);
      std::int64_t copied = 0;
      for (const Vertex& v : vertices) copied += v.box.num_elements();
      CHECK_EQ(copied, NumElements(shape));
    }
  }
}

TEST(CopiesOfQuartersCopyTheirMetadata) {
  using poplar::QuarterMetadata;
  using poplar::program::Copy;
  using Format = QuarterMetadata::Format;
  for (const char* mode : {"fast", "tile"}) {
    poplar::Graph graph = NewGraph();
    const auto add = [&](const poplar::Tensor& metadata, unsigned tile) {
      const poplar::Tensor made = graph.addVariable(poplar::QUARTER, metadata, {6});
      graph.setTileMapping(made, tile);
      return made;
    };
    const poplar::Tensor in = graph.addVariable(poplar::QUARTER, {6}, "in");
    graph.setTileMapping(in, 1);
    const poplar::Tensor whole = graph.clone(in), part = graph.clone(in.slice(1, 4));
    const poplar::Tensor shared = add(in.getMetadata(), 2);
    const poplar::Tensor fixed = add(poplar::createConstantMetadataTensor(graph, Format::F143, 2), 3);
    const poplar::Tensor same = add(poplar::createConstantMetadataTensor(graph, Format::F143, 2), 0);
    // Elements whose format is not known when the program is made cannot become those of a fixed one.
    CHECK_THROWS(poplar::control_program_error, Copy(in, fixed));
    Sequence prog;
    prog.add(Copy(in, whole));
    prog.add(Copy(whole.slice(1, 4), part));
    prog.add(Copy(whole, shared));
    prog.add(Copy(same, fixed));
    graph.createHostWrite("in", in);
    graph.createHostRead("part", part);
    graph.createHostRead("shared", shared);
    poplar::Engine engine(graph, prog, {{"execution", mode}});
    engine.load(poplar::Device(graph.getTarget(), 0));
    const std::vector<unsigned char> bytes = {1, 2, 3, 4, 5, 6};
    const QuarterMetadata given(Format::F152, -7);
    engine.writeTensor("in", given, bytes.data(), bytes.data() + 6);
    engine.run();
    QuarterMetadata of_part, of_shared;
    std::vector<unsigned char> out(3), all(6);
    engine.readTensor("part", of_part, out.data(), out.data() + 3);
    engine.readTensor("shared", of_shared, all.data(), all.data() + 6);
    CHECK(of_part == given && of_shared == given);
    CHECK((out == std::vector<unsigned char>{2, 3, 4}) && all == bytes);
  }
}
