// Cycles that nobody gives: from the compiled loops, or the default; and nothing compiled for those that are
// given.
#include "core/vertices/vertex_estimate.h"

#include <filesystem>
#include <functional>
#include <sstream>

#include "check.h"
#include "ipu_model/Model.hpp"
#include "poplar/Engine.hpp"
#include "testing/codelet_cache.h"

namespace ipu_model {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;

const toy::CodeletCache cache;

const char* const kCodelets = R"cpp(
#include <poplar/Vertex.hpp>
  using namespace poplar;
  struct Add : Vertex {
    Input<Vector<float>> x;
    Output<Vector<float>> out;
    void compute() {
      for (unsigned i = 0; i < x.size(); ++i) out[i] = x[i] + 1;
    }
  };
  struct AddSix : MultiVertex {
    Input<Vector<float>> x;
    Output<Vector<float>> out;
    void compute(unsigned worker) {
      for (unsigned i = worker; i < x.size(); i += numWorkers()) out[i] = x[i] + 1;
    }
  };
  struct Through : Vertex {
    Input<Vector<float>> x;
    Output<Vector<float>> out;
    float (*function)(float);
    void compute() {
      for (unsigned i = 0; i < x.size(); ++i) out[i] = function(x[i]);
    }
  };
)cpp";

// The report of one vertex with `elements` in each field.
Report ReportOfVertex(const char* type, std::size_t elements,
                      const std::function<void(Graph&, const VertexRef&)>& estimate = {},
                      const std::string& source = kCodelets) {
  Graph graph(poplar::Target::createIPUTarget(1, 16, "ipu2"));
  std::istringstream codelets(source);
  graph.addCodelets(codelets);
  const Tensor x = graph.addVariable(poplar::FLOAT, {elements}, "x"),
               y = graph.addVariable(poplar::FLOAT, {elements}, "y");
  graph.setTileMapping(x, 0);
  graph.setTileMapping(y, 0);
  const poplar::ComputeSet cs = graph.addComputeSet("cs");
  const VertexRef v = graph.addVertex(cs, type, {{"x", x}, {"out", y}});
  graph.setTileMapping(v, 0);
  if (estimate) estimate(graph, v);
  return ReportOf(poplar::compileGraph(graph, {poplar::program::Execute(cs)}));
}

std::string Codelet(const Report& report) { return report.operations.at(0).codelets.at(0); }

int NumLoopsFiles() {
  int number = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(cache.path()))
    number += entry.path().filename().string().rfind("loops", 0) == 0 ? 1 : 0;
  return number;
}

TEST(given_cycles_need_no_second_compilation) {
  const Report given =
      ReportOfVertex("Add", 64, [](Graph& g, const VertexRef& v) { g.setPerfEstimate(v, 20); });
  CHECK_EQ(given.cycles.compute, 120u);
  const Report registered = ReportOfVertex("Add", 64, [](Graph& g, const VertexRef&) {
    g.registerPerfEstimator("Add", [](const poplar::VertexIntrospector& v, const poplar::Target&) {
      return poplar::VertexPerfEstimate(v.getFieldInfo("x").size());
    });
  });
  CHECK_EQ(registered.cycles.compute, 384u);
  CHECK_EQ(Codelet(given), std::string("Add"));
  CHECK_EQ(Codelet(registered), std::string("Add"));
  CHECK_EQ(NumLoopsFiles(), 0);
  ReportOfVertex("Add", 64);
  CHECK_EQ(NumLoopsFiles(), 1);
}

TEST(elements_of_a_vector_have_size_one) {
  std::size_t first = 0, second = 0;
  bool beyond_throws = false;
  ReportOfVertex("Add", 64, [&](Graph& g, const VertexRef&) {
    g.registerPerfEstimator("Add", [&](const poplar::VertexIntrospector& v, const poplar::Target&) {
      const poplar::FieldData& x = v.getFieldInfo("x");
      first = x.getSizeAtIndex(0);
      second = x[1].size();
      try {
        x.getSizeAtIndex(64);
      } catch (const std::out_of_range&) {
        beyond_throws = true;
      }
      return poplar::VertexPerfEstimate(1);
    });
  });
  CHECK_EQ(first, 64u);
  CHECK_EQ(second, 1u);
  CHECK(beyond_throws);
}

TEST(cycles_from_the_compiled_loop_grow_with_the_elements) {
  for (const char* type : {"Add", "AddSix"}) {
    const auto cycles = [type](std::size_t n) { return ReportOfVertex(type, n).cycles.compute; };
    const std::uint64_t c60 = cycles(60), c120 = cycles(120), c240 = cycles(240);
    CHECK_EQ(c240 - c120, 2 * (c120 - c60));
    // A load, an addition, a store, the index and the end of the loop; a few more on some compilers. A vertex
    // of one worker has a sixth of the tile's cycles.
    const std::uint64_t one = (c120 - c60) / 60, workers = std::string(type) == "Add" ? 6 : 1;
    CHECK(one >= 4 * workers && one <= 9 * workers);
    CHECK_EQ(Codelet(ReportOfVertex(type, 60)), std::string(type) + " (cycles: from the compiled loop)");
  }
}

TEST(the_default_where_the_loop_is_not_understood) {
  const TargetModel& target = FindTargetModel("ipu2");
  const Report report = ReportOfVertex("Through", 10);
  CHECK_EQ(Codelet(report), std::string("Through (cycles: default estimate)"));
  CHECK_EQ(report.cycles.compute, 6 * (target.supervisor_overhead + 20u * target.codelet_cycles_per_element));
}

TEST(what_does_not_compile_to_assembly_is_tried_again) {
  // Only the second compilation has half precision in registers.
  const std::string source = std::string("#ifdef __AVX512FP16__\n#error not here\n#endif\n") + kCodelets;
  const int before = NumLoopsFiles();
  const Report report = ReportOfVertex("Add", 10, {}, source);
  CHECK_EQ(Codelet(report), std::string("Add (cycles: default estimate)"));
  CHECK_EQ(NumLoopsFiles(), before);
}

TEST(cycles_of_loops) {
  const TargetModel& target = FindTargetModel("ipu2");
  const auto cycles = [&](codelet::VertexKind kind, const CompiledLoops& loops, const VertexSizes& sizes) {
    return LoopCycles(target, kind, loops, sizes) - target.supervisor_overhead;
  };
  // 24 elements of 4 bytes; the same as 3 vectors.
  const VertexSizes flat = {48, 24, 96, 4, 1}, list = {48, 24, 96, 4, 3};
  const CompiledLoops by_element = {{5, 0}, {10, 0}, {{{7, 0}, 4}}}, by_pair = {{5, 0}, {}, {{{7, 0}, 8}}},
                      unknown = {{5, 0}, {}, {{{7, 0}, 0}}}, two = {{5, 0}, {}, {{{7, 0}, 4}, {{2, 0}, 8}}},
                      by_six = {{5, 0}, {}, {{{7, 0}, 24}}}, none = {{5, 0}, {}, {}};
  CHECK_EQ(cycles(codelet::kWorkerVertex, none, flat), 5u);
  CHECK_EQ(cycles(codelet::kWorkerVertex, by_element, flat), 5u + 10 + 24 * 7);
  CHECK_EQ(cycles(codelet::kWorkerVertex, by_element, list), 5u + 3 * 10 + 24 * 7);
  CHECK_EQ(cycles(codelet::kWorkerVertex, by_pair, flat), 5u + 12 * 7);
  CHECK_EQ(cycles(codelet::kWorkerVertex, unknown, flat), 5u + 24 * 7);
  CHECK_EQ(cycles(codelet::kWorkerVertex, two, flat), 5u + 24 * 7 + 12 * 2);
  CHECK_EQ(cycles(codelet::kSupervisorVertex, by_element, flat), 5u + 10 + 24 * 7);
  // An innermost loop over the references to the vectors of a list, as of the first element of each.
  VertexSizes rows = list;
  rows.has_list = true;
  CHECK_EQ(cycles(codelet::kWorkerVertex, by_six, flat), 5u + 4 * 7);
  CHECK_EQ(cycles(codelet::kWorkerVertex, by_six, rows), 5u + 3 * 7);
  CHECK_EQ(cycles(codelet::kWorkerVertex, by_element, rows), 5u + 3 * 10 + 24 * 7);
  // Six workers share the elements, whether each has a part or every sixth.
  CHECK_EQ(cycles(codelet::kMultiVertex, by_element, flat), 6u * (5 + 10 + 4 * 7));
  CHECK_EQ(cycles(codelet::kMultiVertex, by_six, flat), 6u * (5 + 4 * 7));
  // A library call costs what it costs in each trip; no number of elements wraps.
  const CompiledLoops calls = {{}, {}, {{{1, 1}, 4}}};
  CHECK_EQ(cycles(codelet::kWorkerVertex, calls, flat), 24u * (1 + 277));
  const VertexSizes huge = {std::uint64_t{1} << 60, std::uint64_t{1} << 60, std::uint64_t{1} << 62, 4, 1};
  CHECK(cycles(codelet::kWorkerVertex, by_element, huge) < std::uint64_t{1} << 50);
}

}  // namespace
}  // namespace ipu_model
