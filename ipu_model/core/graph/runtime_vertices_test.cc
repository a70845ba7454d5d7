// What every graph has without codelets of the user: the runtime's transpositions, the state of the tiles
// that programs save and set, and the division of a target by replicas.
#include "core/graph/runtime_vertices.h"

#include <array>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "ipu_model/Model.hpp"
#include "ipu_model/Replicas.hpp"
#include "poplar/CSRFunctions.hpp"
#include "poplar/Engine.hpp"
#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"
#include "poplar/RandomSeed.hpp"
#include "poplar/exceptions.hpp"
#include "testing/codelet_cache.h"

namespace ipu_model {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::CodeletCache cache;
constexpr const char* kEngines[] = {"fast", "tile"};

poplar::Target TargetOf(unsigned ipus, unsigned tiles) {
  return poplar::Target::createIPUTarget(ipus, tiles, "ipu2");
}

std::vector<unsigned> Read(poplar::Engine* engine, const std::string& handle, std::size_t n) {
  std::vector<unsigned> values(n);
  engine->readTensor(handle, values.data(), values.data() + n);
  return values;
}

struct Matrices {
  std::string vertex;
  unsigned rows, columns, count;
  std::vector<std::pair<std::string, unsigned>> numbers;
  std::vector<unsigned> work;  // of SplitTranspose1D
};

// Compares all matrices with their transposes.
TEST(transpositions_of_the_runtime) {
  for (const Matrices& m : std::vector<Matrices>{
           {"Transpose2D", 3, 5, 2, {{"numSrcRows", 3}, {"numSrcColumns", 5}}, {}},
           {"Transpose1DSingleWorker",
            8,
            4,
            3,
            {{"numSrcRowsD4Or8", 2}, {"numSrcColumnsD4Or8", 1}, {"numTranspositionsM1", 2}},
            {}},
           // Eight matrices: two workers have two, four have one.
           {"Transpose1D",
            4,
            12,
            8,
            {{"numSrcRowsD4Or8", 1}, {"numSrcColumnsD4Or8", 3}, {"numTranspositions", 2}, {"workerCount", 2}},
            {}},
           // Two matrices, whose rows two workers share.
           {"SplitTranspose1D",
            8,
            4,
            2,
            {{"numSrcRowsD4Or8", 2}, {"numSrcColumnsD4Or8", 1}},
            {0, 0, 1, 1, 4, 1, 1, 1, 8, 8, 1, 1, 12, 9, 1, 1}}}) {
    for (const char* engine_name : kEngines) {
      Graph graph(TargetOf(1, 2));
      const unsigned size = m.rows * m.columns, all = size * m.count;
      const Tensor in = graph.addVariable(poplar::UNSIGNED_SHORT, {all}, "in"),
                   out = graph.addVariable(poplar::UNSIGNED_SHORT, {all}, "out");
      graph.setTileMapping(in, 1);
      graph.setTileMapping(out, 1);
      const poplar::ComputeSet cs = graph.addComputeSet("transpose");
      const poplar::VertexRef v = graph.addVertex(cs, "poplar_rt::" + m.vertex + "<unsigned short>");
      graph.setTileMapping(v, 1);
      if (m.vertex == "Transpose2D") {
        std::vector<Tensor> sources, results;
        for (unsigned i = 0; i < m.count; ++i) {
          sources.push_back(in.slice(i * size, (i + 1) * size));
          results.push_back(out.slice(i * size, (i + 1) * size));
        }
        graph.connect(v["src"], sources);
        graph.connect(v["dst"], results);
      } else {
        graph.connect(v["src"], in);
        graph.connect(v["dst"], out);
      }
      for (const auto& [field, number] : m.numbers) graph.setInitialValue(v[field], number);
      if (!m.work.empty()) {
        const Tensor work = graph.addConstant<unsigned>(poplar::UNSIGNED_SHORT, {m.work.size()}, m.work);
        graph.setTileMapping(work, 1);
        graph.connect(v["workList"], work);
      }
      graph.createHostWrite("in", in);
      graph.createHostRead("out", out);
      poplar::Engine engine(graph, poplar::program::Execute(cs), {{"execution", engine_name}});
      engine.load();
      std::vector<unsigned short> values(all), results(all);
      for (unsigned i = 0; i < all; ++i) values[i] = static_cast<unsigned short>(i);
      engine.writeTensor("in", values.data(), values.data() + all);
      engine.run();
      engine.readTensor("out", results.data(), results.data() + all);
      bool equal = true;
      for (unsigned i = 0; i < all; ++i) {
        const unsigned matrix = i / size, r = i % size / m.columns, c = i % m.columns;
        equal = equal && results[matrix * size + c * m.rows + r] == i;
      }
      CHECK(equal);
    }
  }
  Graph graph(TargetOf(1, 1));
  CHECK(graph.hasCodelet("poplar_rt::Transpose1D<half>") && !graph.hasCodelet("poplar_rt::None"));
  CHECK_EQ(graph.getMaxVertexFieldValue("poplar_rt::Transpose2D<float>", "numSrcRows"), 65535u);
}

// Cycles: twice the matrices or the elements take longer; the fast forms are faster than the general one.
TEST(cycles_of_transpositions) {
  const auto cycles = [](const std::string& vertex, unsigned rows, unsigned matrices) {
    Graph graph(TargetOf(1, 1));
    const unsigned size = rows * 4 * matrices;
    const Tensor in = graph.addVariable(poplar::HALF, {size}, "in"),
                 out = graph.addVariable(poplar::HALF, {size}, "out");
    for (const Tensor& t : {in, out}) graph.setTileMapping(t, 0);
    const poplar::ComputeSet cs = graph.addComputeSet("transpose");
    const poplar::VertexRef v = graph.addVertex(cs, "poplar_rt::" + vertex + "<half>");
    graph.setTileMapping(v, 0);
    if (vertex == "Transpose2D") {
      graph.connect(v["src"], std::vector<Tensor>{in});
      graph.connect(v["dst"], std::vector<Tensor>{out});
      graph.setInitialValue(v["numSrcRows"], rows * matrices);
      graph.setInitialValue(v["numSrcColumns"], 4);
    } else {
      graph.connect(v["src"], in);
      graph.connect(v["dst"], out);
      graph.setInitialValue(v["numSrcRowsD4Or8"], rows / 4);
      graph.setInitialValue(v["numSrcColumnsD4Or8"], 1);
      graph.setInitialValue(v["numTranspositionsM1"], matrices - 1);
    }
    poplar::Engine engine(graph, poplar::program::Execute(cs));
    engine.load();
    engine.run();
    return LastRunCycles(engine);
  };
  const auto one = cycles("Transpose1DSingleWorker", 8, 1), two = cycles("Transpose1DSingleWorker", 8, 2),
             larger = cycles("Transpose1DSingleWorker", 16, 1), general = cycles("Transpose2D", 8, 1);
  CHECK(one < larger && larger < two && larger < general);
}

TEST(seeds_of_the_workers) {
  for (const char* engine_name : kEngines) {
    Graph graph(TargetOf(1, 3));
    Sequence main;
    const Tensor first = poplar::getHwSeeds(graph, main);
    CHECK((first.shape() == std::vector<std::size_t>{3, 6, 4}));
    Graph part = graph.createVirtualGraph(1, 2);
    const Tensor own = part.addVariable(poplar::UNSIGNED_INT, {1, 6, 4}, "own");
    part.setTileMapping(own, 0);
    graph.setInitialValue(own, 7u);
    poplar::setHwSeeds(part, own, main);
    const Tensor second = poplar::getHwSeeds(graph, main);
    poplar::setHwSeeds(graph, first, main);
    const Tensor third = poplar::getHwSeeds(graph, main);
    graph.createHostRead("first", first);
    graph.createHostRead("second", second);
    graph.createHostRead("third", third);
    CHECK_THROWS(poplar::poplar_error, poplar::setHwSeeds(graph, own, main));
    poplar::Engine engine(graph, main, {{"execution", engine_name}});
    engine.load();
    engine.run();
    const auto a = Read(&engine, "first", 72), b = Read(&engine, "second", 72);
    std::set<std::vector<unsigned>> different;
    for (std::size_t i = 0; i < 72; i += 4) different.emplace(a.begin() + i, a.begin() + i + 4);
    CHECK_EQ(different.size(), 18u);
    for (std::size_t i = 0; i < 72; ++i) CHECK_EQ(b[i], i / 24 == 1 ? 7u : a[i]);
    CHECK(Read(&engine, "third", 72) == a);
  }
}

TEST(behaviours_that_the_model_has_not_are_named) {
  std::ostringstream text;
  std::streambuf* const before = std::cerr.rdbuf(text.rdbuf());
  Graph graph(TargetOf(1, 2));
  Sequence main;
  poplar::setFloatingPointBehaviour(graph, main, {false, false, false, false, true}, "none");
  poplar::setStochasticRounding(graph, main, false, "off");
  const std::string silent = text.str();
  poplar::setFloatingPointBehaviour(graph, main, {false, true, false, false, false}, "div0");
  poplar::setStochasticRounding(graph, main, true, "rounding");
  std::cerr.rdbuf(before);
  CHECK_EQ(silent, "");
  CHECK(text.str().find("'div0': the model has no floating-point exceptions") != std::string::npos);
  CHECK(text.str().find("'rounding': the model has no stochastic rounding") != std::string::npos);
}

TEST(floating_point_behaviour_is_kept) {
  for (const char* engine_name : kEngines) {
    Graph graph(TargetOf(1, 2));
    Sequence main;
    poplar::setFloatingPointBehaviour(graph, main, {true, false, false, false, true});
    const Tensor a = poplar::getAndModifyFloatingPointBehaviour(
        graph, main, {true, true, false, false, false}, {false, false, true, false, false});
    poplar::setStochasticRounding(graph, main, true);
    const Tensor b = poplar::getAndModifyFloatingPointBehaviour(graph, main, {}, {});
    poplar::setFloatingPointBehaviour(graph, main, a);
    poplar::setStochasticRounding(graph, main, false);
    const Tensor c = poplar::getAndModifyFloatingPointBehaviour(graph, main, {}, {});
    graph.createHostRead("a", a);
    graph.createHostRead("b", b);
    graph.createHostRead("c", c);
    CHECK_THROWS(poplar::poplar_error, poplar::setFloatingPointBehaviour(graph, main, a.slice(0, 1)));
    poplar::Engine engine(graph, main, {{"execution", engine_name}});
    engine.load();
    engine.run();
    CHECK((Read(&engine, "a", 2) == std::vector<unsigned>{17, 17}));
    CHECK((Read(&engine, "b", 2) == std::vector<unsigned>{28, 28}));
    CHECK((Read(&engine, "c", 2) == std::vector<unsigned>{17, 17}));
  }
}

TEST(replicas_divide_the_target) {
  const auto part = [](unsigned ipus, unsigned tiles, unsigned replicas) {
    const Graph graph(TargetOf(ipus, tiles), poplar::replication_factor(replicas));
    CHECK_EQ(graph.getReplicationFactor(), replicas);
    return std::vector<unsigned>{graph.getTarget().getNumIPUs(), graph.getTarget().getNumTiles()};
  };
  CHECK((part(2, 1472, 2) == std::vector<unsigned>{1, 1472}));
  CHECK((part(4, 8, 2) == std::vector<unsigned>{2, 16}));
  CHECK((part(1, 8, 2) == std::vector<unsigned>{1, 4}));
  CHECK((part(2, 8, 4) == std::vector<unsigned>{1, 4}));
  CHECK((part(1, 8, 1) == std::vector<unsigned>{1, 8}));
  for (const auto& [ipus, tiles, replicas] :
       {std::array{2u, 8u, 3u}, {1u, 8u, 3u}, {3u, 8u, 2u}, {1u, 8u, 0u}})
    CHECK_THROWS(poplar::poplar_error, part(ipus, tiles, replicas));
  const poplar::Target replica = TargetOf(2, 5);
  CHECK(TargetOfReplica(TargetOfReplicas(replica, 4), 4) == replica);
}

}  // namespace
}  // namespace ipu_model
