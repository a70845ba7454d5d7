// Engine::setPrintStream: the text of codelets.
#include "codelets/codelet_output.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "poplar/Engine.hpp"
#include "poplar/Graph.hpp"
#include "poplar/IPUModel.hpp"
#include "testing/codelet_cache.h"

namespace {

using namespace poplar;

const ipu_model::toy::CodeletCache cache;

constexpr char kSource[] = R"codelet(
#include <poplar/Vertex.hpp>
#include <print.h>

class Says : public poplar::Vertex {
 public:
  poplar::Input<poplar::Vector<float>> in;
  poplar::Output<float> out;
  bool compute() {
    printf("%s %u %g\n", "elements:", static_cast<unsigned>(in.size()), in[0]);
    printf("plain\n");
    printf("c");
    printf("%600d|", 1);
    *out = in[0];
    return true;
  }
};
)codelet";

}  // namespace

TEST(TheStreamHasWhatCodeletsPrint) {
  const Device device = IPUModel("ipu2").createDevice();
  Graph graph(device);
  std::istringstream source(kSource);
  graph.addCodelets(source);
  const unsigned n = 64, each = 1024;  // enough work for several threads
  const Tensor x = graph.addVariable(FLOAT, {n, each}, "x"), y = graph.addVariable(FLOAT, {n}, "y");
  const ComputeSet set = graph.addComputeSet("say");
  for (unsigned i = 0; i < n; ++i) {
    graph.setTileMapping(x[i], i);
    graph.setTileMapping(y[i], i);
    graph.setTileMapping(graph.addVertex(set, "Says", {{"in", x[i]}, {"out", y[i]}}), i);
  }
  for (const char* mode : {"fast", "tile"}) {
    Engine engine(graph, program::Execute(set), {{"execution", mode}});
    std::ostringstream text;
    engine.setPrintStream(text);
    engine.loadAndRun(device);
    const std::string printed = text.str();
    CHECK_EQ(printed.size(), n * (std::string("elements: 1024 0\nplain\nc").size() + 601));
    CHECK_EQ(std::count(printed.begin(), printed.end(), '|'), std::ptrdiff_t{n});
    CHECK(printed.find("elements: 1024 0\n") != std::string::npos);
    CHECK(printed.find("plain\n") != std::string::npos);
  }
}
