// The reader of profiles.
#include "pva/pva.hpp"

#include <fstream>
#include <sstream>

#include "engine/profile_file.h"
#include "poplar/exceptions.hpp"

namespace pva {

std::size_t Graph::numComputeSets() const { return data_->compute_sets; }
std::size_t Graph::numVertices() const { return data_->vertices; }
std::size_t Graph::numEdges() const { return data_->edges; }
std::size_t Graph::numVars() const { return data_->variables; }

std::string Target::architecture() const { return data_->architecture; }
std::size_t Target::numIPUs() const { return data_->num_ipus; }
std::size_t Target::tilesPerIpu() const { return data_->num_tiles / data_->num_ipus; }
std::size_t Target::numTiles() const { return data_->num_tiles; }
std::size_t Target::numReplicas() const { return data_->replicas; }
std::size_t Target::bytesPerTile() const { return data_->bytes_per_tile; }
std::size_t Target::bytesPerIPU() const { return bytesPerTile() * tilesPerIpu(); }
std::size_t Target::totalMemory() const { return bytesPerTile() * numTiles(); }
double Target::clockFrequency() const { return data_->clock_hz; }

std::size_t Tile::ipu() const { return id_ / Target(data_).tilesPerIpu(); }
TileMemory Tile::memory() const { return TileMemory(static_cast<std::uint64_t>(data_->tile_bytes.at(id_))); }

std::vector<Tile> CompilationReport::tiles() const {
  std::vector<Tile> tiles;
  for (std::size_t i = 0; i < data_->num_tiles; ++i) tiles.emplace_back(data_, i);
  return tiles;
}

Program ExecutionStep::program() const {
  const ipu_model::ProfiledStep& step = data_->runs.at(run_).steps.at(step_);
  return {step.name, step.kind};
}
std::uint64_t ExecutionStep::executions() const { return data_->runs.at(run_).steps.at(step_).executions; }
Cycles ExecutionStep::cycles() const {
  const ipu_model::Cycles& cycles = data_->runs.at(run_).steps.at(step_).cycles;
  return {cycles.compute, cycles.exchange, cycles.sync};
}

std::string Run::name() const {
  const ipu_model::ProfiledRun& run = data_->runs.at(index_);
  return run.name.empty() ? "program " + std::to_string(run.program) : run.name;
}
std::uint64_t Run::cycles() const { return data_->runs.at(index_).cycles.total(); }
double Run::microseconds() const { return static_cast<double>(cycles()) / data_->clock_hz * 1e6; }
std::vector<ExecutionStep> Run::steps() const {
  std::vector<ExecutionStep> steps;
  for (std::size_t i = 0; i < data_->runs.at(index_).steps.size(); ++i) steps.emplace_back(data_, index_, i);
  return steps;
}

std::vector<Run> ExecutionReport::runs() const {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < data_->runs.size(); ++i) runs.emplace_back(data_, i);
  return runs;
}
std::vector<ExecutionStep> ExecutionReport::steps() const {
  std::vector<ExecutionStep> steps;
  for (const Run& run : runs()) {
    const std::vector<ExecutionStep> of_run = run.steps();
    steps.insert(steps.end(), of_run.begin(), of_run.end());
  }
  return steps;
}

PoplarVersion Report::poplarVersion() const { return PoplarVersion(data_->version); }

Report openReport(const std::string& filename) {
  std::ifstream in(filename, std::ios::binary);
  std::ostringstream data;
  data << in.rdbuf();
  if (!in) {
    throw poplar::poplar_error("pva::openReport: cannot read '" + filename +
                               "'; engines write profile.pop with the option autoReport.all = true");
  }
  try {
    return Report(std::make_shared<const ipu_model::ProfileFile>(ipu_model::ReadProfileFile(data.str())));
  } catch (const poplar::poplar_error& error) {
    throw poplar::poplar_error("pva::openReport: '" + filename + "': " + error.what());
  }
}

}  // namespace pva
