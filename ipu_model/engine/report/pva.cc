// The reader of profiles.
#include "pva/pva.hpp"

#include <map>

#include "engine/report/profile_file.h"
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
TileMemory Tile::memory() const { return {data_, id_}; }
Memory TileMemory::total() const { return Memory(static_cast<std::uint64_t>(data_->tile_bytes.at(tile_))); }

namespace {

void AddVertices(const ipu_model::ProfileFile& file, const ipu_model::ProfiledComputeSet& set,
                 const std::int64_t* only_tile, std::vector<VertexInstance>* out) {
  for (std::size_t i = 0; i + 2 < set.vertices.size(); i += 3) {
    const std::int64_t tile = set.vertices[i + 1];
    if (only_tile != nullptr && tile != *only_tile) continue;
    const VertexInstance vertex(VertexType(file.vertex_types.at(static_cast<std::size_t>(set.vertices[i]))),
                                static_cast<std::size_t>(tile));
    out->insert(out->end(), static_cast<std::size_t>(set.vertices[i + 2]), vertex);
  }
}

}  // namespace

std::vector<VertexInstance> TileMemory::vertices() const {
  std::vector<VertexInstance> vertices;
  const auto tile = static_cast<std::int64_t>(tile_);
  for (const ipu_model::ProfiledComputeSet& set : data_->sets) AddVertices(*data_, set, &tile, &vertices);
  return vertices;
}

MemoryCategories TileMemory::category() const {
  return {static_cast<std::uint64_t>(data_->tile_exchange_code.at(tile_)),
          static_cast<std::uint64_t>(data_->tile_vertex_state.at(tile_))};
}

std::string ComputeSet::name() const { return data_->sets.at(index_).name; }
std::vector<VertexInstance> ComputeSet::vertices() const {
  std::vector<VertexInstance> vertices;
  AddVertices(*data_, data_->sets.at(index_), nullptr, &vertices);
  return vertices;
}
std::vector<ComputeSet> CompilationReport::computeSets() const {
  std::vector<ComputeSet> sets;
  for (std::size_t i = 0; i < data_->sets.size(); ++i) sets.emplace_back(data_, i);
  return sets;
}

std::string Var::name() const { return data_->variable_names.at(index_); }
std::uint64_t Var::bytes() const { return static_cast<std::uint64_t>(data_->variable_bytes.at(index_)); }

Program::Program(Data data, std::size_t set, bool exchange)
    : data_(std::move(data)),
      set_(set),
      name_(data_->sets.at(set).name),
      type_(exchange ? "exchange" : "operation"),
      exchange_(exchange) {}
Program::Type Program::type() const {
  static const std::map<std::string, Type> types = {
      {"operation", Type::OnTileExecute},  {"exchange", Type::DoExchange},
      {"scope", Type::Sequence},           {"loop", Type::Repeat},
      {"loop end", Type::Repeat},          {"decision", Type::Sync},
      {"host call", Type::HostFunction},   {"stream begin", Type::StreamCopyBegin},
      {"stream in", Type::StreamCopyMid},  {"stream out", Type::StreamCopyMid},
      {"stream mid", Type::StreamCopyMid}, {"stream end", Type::StreamCopyEnd},
      {"overflow", Type::Overflow},
  };
  const auto found = types.find(type_);
  return found == types.end() ? Type::Unknown : found->second;
}
void Program::accept(ProgramVisitor& visitor) const {
  if (data_ == nullptr) return;
  if (exchange_) {
    visitor.visitDoExchange(DoExchangeProgram(data_, set_));
  } else {
    visitor.visitOnTileExecute(OnTileExecuteProgram(data_, set_));
  }
}
std::vector<Var> Program::VarsOf(const std::vector<std::int64_t>& variables) const {
  std::vector<Var> vars;
  for (const std::int64_t v : variables) vars.emplace_back(data_, static_cast<std::size_t>(v));
  return vars;
}
std::vector<Var> OnTileExecuteProgram::vars() const { return VarsOf(data_->sets.at(set_).variables); }
std::vector<Var> DoExchangeProgram::vars() const { return VarsOf(data_->sets.at(set_).exchanged); }
std::vector<Program> CompilationReport::programs() const {
  std::vector<Program> programs;
  for (std::size_t i = 0; i < data_->sets.size(); ++i) {
    if (!data_->sets[i].exchanged.empty()) programs.emplace_back(data_, i, true);
    programs.emplace_back(data_, i, false);
  }
  return programs;
}

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

std::vector<ComputeSetExecution> ExecutionStep::computeSets() const {
  const ipu_model::ProfiledRun& run = data_->runs.at(run_);
  const ipu_model::ProfiledStep& step = run.steps.at(step_);
  std::vector<ComputeSetExecution> sets;
  if (step.operation < 0) return sets;
  for (const ipu_model::RunLengths& of_set : run.work.at(static_cast<std::size_t>(step.operation)).cycles) {
    std::vector<std::uint64_t> cycles;
    for (std::size_t i = 0; i + 1 < of_set.size(); i += 2)
      cycles.insert(cycles.end(), static_cast<std::size_t>(of_set[i + 1]),
                    static_cast<std::uint64_t>(of_set[i]));
    cycles.resize(data_->num_tiles);
    sets.emplace_back(step.name, std::move(cycles));
  }
  return sets;
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

std::shared_ptr<Program> BlockExecution::program() const {
  const ipu_model::ProfiledBlock& block = data_->runs.at(run_).blocks.at(block_);
  return std::make_shared<Program>(block.name, block.kind);
}
std::size_t BlockExecution::tile() const { return data_->runs.at(run_).blocks.at(block_).tile; }
std::uint64_t BlockExecution::cyclesFrom() const {
  return run_begin_ + data_->runs.at(run_).blocks.at(block_).from;
}
std::uint64_t BlockExecution::cyclesTo() const {
  return run_begin_ + data_->runs.at(run_).blocks.at(block_).to;
}
bool BlockExecution::isStreamCopy() const {
  const Program::Type type = program()->type();
  return type == Program::Type::StreamCopyBegin || type == Program::Type::StreamCopyMid ||
         type == Program::Type::StreamCopyEnd;
}
bool BlockExecution::isOverflow() const { return program()->type() == Program::Type::Overflow; }
std::vector<BlockExecution> ExecutionReport::blocks(std::size_t tile) const {
  std::vector<BlockExecution> blocks;
  std::uint64_t begin = 0;
  for (std::size_t run = 0; run < data_->runs.size(); ++run) {
    const ipu_model::ProfiledRun& of_run = data_->runs[run];
    for (std::size_t i = 0; i < of_run.blocks.size(); ++i)
      if (of_run.blocks[i].tile == tile) blocks.emplace_back(data_, run, i, begin);
    begin += of_run.elapsed;
  }
  return blocks;
}

PoplarVersion Report::poplarVersion() const { return PoplarVersion(data_->version); }

Report openReport(const std::string& filename) {
  return Report(std::make_shared<const ipu_model::ProfileFile>(
      ipu_model::LoadProfileFile(filename, "pva::openReport")));
}

}  // namespace pva
