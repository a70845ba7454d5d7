// What an engine knows of its program and of the runs: for printed summaries, files and the reader of
// pva/pva.hpp.
#ifndef IPU_MODEL_ENGINE_REPORT_PROFILE_FILE_H_
#define IPU_MODEL_ENGINE_REPORT_PROFILE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/program/compiled_program.h"
#include "engine/report/blocks.h"
#include "ipu_model/Model.hpp"
#include "ipu_model/Profile.hpp"
#include "ipu_model/Timeline.hpp"
#include "poplar/ProfileValue.hpp"

namespace ipu_model {

// A part of a run, in program order; those of loops once, with their executions.
struct ProfiledStep {
  std::string name, kind;  // kind: "operation", "decision", "stream in", "stream out", "host call", ...
  std::uint64_t executions = 1;
  Cycles cycles;                  // of all executions
  std::uint64_t host_cycles = 0;  // that the device waits for the host, apart from `cycles`
  std::uint64_t bytes = 0;        // over the host link
  std::int64_t operation = -1;    // index into ProfiledRun::work
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("name", self.name);
    visit("kind", self.kind);
    visit("executions", self.executions);
    visit("cycles", self.cycles);
    visit("host_cycles", self.host_cycles);
    visit("bytes", self.bytes);
    visit("operation", self.operation);
  }
};

// One execution of an operation.
struct ProfiledWork {
  std::vector<RunLengths> cycles;  // of each superstep's compute, by tile: (cycles, number of tiles), flat
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("cycles", self.cycles);
  }
};

struct ProfiledRun {
  std::uint32_t program = 0;
  std::string name;
  Cycles cycles;
  std::vector<ProfiledStep> steps;
  std::vector<ProfiledWork> work;  // by operation
  std::vector<ProfiledBlock> blocks;
  std::uint64_t elapsed = 0;  // cycles with those that wait for the host
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("program", self.program);
    visit("name", self.name);
    visit("cycles", self.cycles);
    visit("steps", self.steps);
    visit("work", self.work);
    visit("blocks", self.blocks);
    visit("elapsed", self.elapsed);
  }
};

// A superstep of an operation.
struct ProfiledComputeSet {
  std::string name;
  RunLengths vertices;   // (index into ProfileFile::vertex_types, tile, number), flat
  RunLengths variables;  // that it reads or writes: indices into ProfileFile::variable_names
  RunLengths exchanged;  // those that it reads, if tiles receive elements for it
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("name", self.name);
    visit("vertices", self.vertices);
    visit("variables", self.variables);
    visit("exchanged", self.exchanged);
  }
};

struct ProfileFile {
  std::string version, architecture;
  std::uint32_t num_ipus = 1, num_tiles = 0, replicas = 1, worker_contexts = 0, exchange_bytes_per_cycle = 0;
  std::uint64_t bytes_per_tile = 0;
  double clock_hz = 0;
  // Of all programs. A compute set of a library's function is one of its supersteps.
  std::uint64_t compute_sets = 0, vertices = 0, edges = 0, variables = 0;
  std::vector<std::string> vertex_types, variable_names;
  std::vector<std::int64_t> variable_bytes;                         // of each whole variable
  std::vector<ProfiledComputeSet> sets;                             // of all programs, in no order
  std::vector<std::int64_t> tile_bytes;                             // by tile, at its own fullest moment
  std::vector<std::int64_t> tile_exchange_code, tile_vertex_state;  // bytes by tile, of all operations
  Report report;                                                    // of program 0, and of the memory
  Profile profile;                                                  // of program 0
  std::vector<ProfiledRun> runs;
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("version", self.version);
    visit("architecture", self.architecture);
    visit("num_ipus", self.num_ipus);
    visit("num_tiles", self.num_tiles);
    visit("replicas", self.replicas);
    visit("worker_contexts", self.worker_contexts);
    visit("exchange_bytes_per_cycle", self.exchange_bytes_per_cycle);
    visit("bytes_per_tile", self.bytes_per_tile);
    visit("clock_hz", self.clock_hz);
    visit("compute_sets", self.compute_sets);
    visit("vertices", self.vertices);
    visit("edges", self.edges);
    visit("variables", self.variables);
    visit("vertex_types", self.vertex_types);
    visit("variable_names", self.variable_names);
    visit("variable_bytes", self.variable_bytes);
    visit("sets", self.sets);
    visit("tile_bytes", self.tile_bytes);
    visit("tile_exchange_code", self.tile_exchange_code);
    visit("tile_vertex_state", self.tile_vertex_state);
    visit("report", self.report);
    visit("profile", self.profile);
    visit("runs", self.runs);
  }
};

// Without runs.
ProfileFile DescribeProgram(const CompiledProgram& program);
// Totals as trees: of the program (Engine::getGraphProfile), and of the runs.
poplar::ProfileValue GraphProfileOf(const ProfileFile& file);
poplar::ProfileValue ExecutionProfileOf(const ProfileFile& file);
// What both trees say. Throws poplar::poplar_error for trees of another form.
ProfileFile FileOfProfiles(const poplar::ProfileValue& graph, const poplar::ProfileValue& execution);
// The steps of a run of a program, whose loops made these trips.
ProfiledRun DescribeRun(const CompiledProgram& program, std::uint32_t number, const std::string& name,
                        const std::vector<LoopRun>& loops, const BlockOptions& blocks);

// The form of profile.pop. ReadProfileFile throws poplar::poplar_error with the reason for any other data.
std::string WriteProfileFile(const ProfileFile& file);
ProfileFile ReadProfileFile(std::string_view data);

// profile.pop of that path. Throws poplar::poplar_error, which begins with `function`.
ProfileFile LoadProfileFile(const std::string& path, const std::string& function);

// The text of Engine::printProfileSummary, and of printGraphSummary: what is known without a run.
std::string ProfileSummary(const ProfileFile& file, bool show_steps);
std::string GraphSummary(const ProfileFile& file);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_REPORT_PROFILE_FILE_H_
