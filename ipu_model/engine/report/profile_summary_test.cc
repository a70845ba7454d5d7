// Profiles of programs that do not fit, as Poplar's users look at them.
#include <filesystem>
#include <sstream>
#include <string>

#include "check.h"
#include "poplar/Engine.hpp"
#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"
#include "poplar/exceptions.hpp"

namespace {

using namespace poplar;

TEST(ProfilesOfProgramsThatDoNotFitAreSavedAndPrinted) {
  const std::string folder = (std::filesystem::temp_directory_path() / "ipu_model_large_test").string();
  const std::string path = folder + "/profile.pop";
  Graph graph(Target::createIPUTarget(1, 4, "ipu2"));
  const Tensor x = graph.addVariable(FLOAT, {1 << 20}, "large source");
  const Tensor y = graph.addVariable(FLOAT, {1 << 20}, "large copy");
  graph.setTileMapping(x, 1);
  graph.setTileMapping(y, 2);
  for (const bool saved : {false, true}) {
    OptionFlags options;
    if (saved) options = {{"autoReport.all", "true"}, {"autoReport.directory", folder}};
    try {
      Engine engine(graph, program::Copy(x, y), options);
      CHECK(false);
    } catch (const graph_memory_allocation_error& error) {
      CHECK_EQ(error.profilePath, saved ? path : "");
    }
  }
  std::ostringstream text;
  printGraphSummary(text, path, {{"showVarStorage", "true"}});
  for (const char* part : {"Target:", "Number of variables:", "Tiles out of memory", "large "})
    CHECK(text.str().find(part) != std::string::npos);
  CHECK(text.str().find("Programs executed") == std::string::npos);
  CHECK_THROWS(invalid_option, printGraphSummary(text, path, {{"showVar", "true"}}));
  std::filesystem::remove_all(folder);
  try {
    printGraphSummary(text, path);
    CHECK(false);
  } catch (const poplar_error& error) {
    CHECK(std::string(error.what()).find("printGraphSummary: cannot read") == 0);
  }
}

}  // namespace
