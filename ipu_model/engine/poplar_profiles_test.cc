// Profiles that pva reads, and programs as text, in the Poplar API.
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "ipu_model/Model.hpp"
#include "poplar/Engine.hpp"
#include "poplar/exceptions.hpp"
#include "popops/ElementWise.hpp"
#include "testing/small_device.h"

using namespace poplar;
using namespace poplar::program;
using ipu_model::toy::OnTile;
using ipu_model::toy::SmallDevice;
using jax_ipu::testing::Contains;
using jax_ipu::testing::MessageOf;

namespace {

// The compute sets and exchanges of a report, each with its variables and their bytes.
std::string VisitedPrograms(const pva::Report& report) {
  struct Visitor : pva::ProgramVisitor {
    void visitOnTileExecute(const pva::OnTileExecuteProgram& program) override {
      CHECK(!program.computeset().vertices().empty());
      Add(program.name(), program.vars());
    }
    void visitDoExchange(const pva::DoExchangeProgram& program) override {
      Add("exchange of " + program.name(), program.vars());
    }
    void Add(const std::string& name, const std::vector<pva::Var>& vars) {
      seen += name + ":";
      for (const pva::Var& var : vars) seen += " " + var.name() + " " + std::to_string(var.bytes());
      seen += ";";
    }
    std::string seen;
  } visitor;
  for (const pva::Program& program : report.compilation().programs()) program->accept(visitor);
  return visitor.seen;
}

TEST(ProfilesNameWhatIsExchanged) {
  const Device device = SmallDevice();
  Graph graph(device);
  const Tensor x = OnTile(graph, FLOAT, {4}, 2, "x"), y = OnTile(graph, FLOAT, {4}, 1, "y");
  const std::string folder = (std::filesystem::temp_directory_path() / "ipu_model_exchange_test").string();
  std::string seen;
  {
    Engine engine(graph, Copy(x, y, false, "move"),
                  {{"autoReport.outputGraphProfile", "true"}, {"autoReport.directory", folder}});
    engine.load(device);
    seen = VisitedPrograms(engine.getReport());
  }
  std::filesystem::remove_all(folder);
  CHECK(Contains(seen, "exchange of move: x 16;"));
  CHECK(Contains(seen, ";move: x 16 y 16;"));
}

TEST(ProfilesAreWrittenAndRead) {
  const std::string folder = (std::filesystem::temp_directory_path() / "ipu_model_profile_test").string();
  std::filesystem::remove_all(folder);
  const Device device = SmallDevice();
  Graph graph(device);
  const Tensor x = OnTile(graph, FLOAT, {8}, 2, "x");
  Sequence main;
  popops::mulInPlace(graph, x, x, main, "square");
  Engine engine(graph, main, {{"autoReport.all", "true"}, {"autoReport.directory", folder}});
  engine.load(device);
  engine.run(0, "step");
  const pva::Report report = pva::openReport(folder + "/profile.pop");
  CHECK_EQ(report.compilation().target().numTiles(), 4u);
  CHECK_EQ(report.compilation().graph().numComputeSets(), 1u);
  CHECK_EQ(report.compilation().graph().numVars(), 1u);
  CHECK_EQ(report.compilation().tiles().size(), 4u);
  CHECK(report.compilation().tiles()[2].memory().total().excludingGaps() >
        report.compilation().tiles()[0].memory().total().excludingGaps());
  CHECK_EQ(report.execution().runs().size(), 1u);
  CHECK_EQ(report.execution().runs()[0].name(), "step");
  CHECK_EQ(report.execution().runs()[0].cycles(), ipu_model::LastRunCycles(engine));
  CHECK_EQ(report.execution().steps()[0].program()->name(), "square");
  CHECK_EQ(report.execution().steps()[0].cycles().total(), ipu_model::LastRunCycles(engine));
  const auto sets = report.compilation().computeSets();
  CHECK_EQ(sets.size(), 1u);
  CHECK_EQ(sets[0].name(), "square");
  CHECK_EQ(sets[0].vertices().size(), report.compilation().graph().numVertices());
  const auto on_tile = report.compilation().tiles()[2].memory().vertices();
  CHECK_EQ(on_tile.size(), sets[0].vertices().size());
  CHECK(Contains(on_tile[0].type().name(), "popops::"));
  CHECK(report.compilation().tiles()[0].memory().vertices().empty());
  CHECK_EQ(VisitedPrograms(report), "square: x 32;");
  const auto categories = report.compilation().tiles()[2].memory().category();
  CHECK(categories.vertexInstanceState().nonInterleaved().nonOverlapped() > 0);
  CHECK_EQ(report.compilation().tiles()[0].memory().category().vertexInstanceState().total(), 0u);
  const auto executed = report.execution().steps()[0].computeSets();
  CHECK_EQ(executed.size(), 1u);
  CHECK_EQ(executed[0].name(), "square");
  CHECK_EQ(executed[0].cyclesByTile().size(), 4u);
  CHECK_EQ(executed[0].cyclesByTile()[2], report.execution().steps()[0].cycles().compute);
  CHECK_EQ(executed[0].cyclesByTile()[1], 0u);
  std::ostringstream text;
  engine.printProfileSummary(text, {{"showExecutionSteps", "true"}});
  for (const char* part :
       {"Target:", "Memory Usage:", "Number of compute sets:", "operation 'square'", "Tiles per IPU"})
    CHECK(Contains(text.str(), part));
  engine.resetExecutionProfile();
  CHECK(engine.getReport().execution().runs().empty());
  CHECK(Contains(MessageOf<poplar_error>([&] { pva::openReport(folder + "/none.pop"); }), "cannot read"));
  std::filesystem::remove_all(folder);
}

TEST(ProgramsAreDumped) {
  Graph graph(SmallDevice());
  const Tensor x = OnTile(graph, FLOAT, {2}, 0, "x"), y = OnTile(graph, FLOAT, {2}, 1, "y");
  Sequence body;
  body.add(Copy(x, y, false, "to \"y\""));
  popops::addInPlace(graph, x, y, body);
  Sequence prog({Repeat(3, body, "thrice")}, "main");
  std::ostringstream text;
  dumpProgram(graph, prog, text);
  CHECK(Contains(text.str(), R"({"type":"Sequence","name":"main","children":[)"));
  CHECK(Contains(text.str(), R"({"type":"Repeat","name":"thrice","count":3,"children":[)"));
  CHECK(Contains(text.str(), R"({"type":"Copy","name":"to \"y\""})"));
  CHECK(Contains(text.str(), R"({"type":"Execute",)"));
  text.str("");
  graph.outputComputeGraph(text, {prog});
  CHECK(Contains(text.str(), "op0 [shape=box,label=\"to \\\"y\\\"\"]"));
  CHECK(Contains(text.str(), "op1 [shape=box,"));
  CHECK(Contains(text.str(), "[label=\"x\"]"));
  text.str("");
  graph.serialize(text, SerializationFormat::Binary);
  CHECK(Contains(text.str(), R"({"name":"y","type":"float","shape":[2],"constant":false,"on":[1]})"));
  text.str("");
  dumpProgram(graph, Sequence(), text);
  CHECK_EQ(text.str(), std::string("{\"type\":\"Sequence\",\"name\":\"\"}\n"));
}

}  // namespace
