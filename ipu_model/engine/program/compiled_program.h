// A compiled graph as plain data: what compileGraph makes, both engines run, and serialize writes.
#ifndef IPU_MODEL_ENGINE_PROGRAM_COMPILED_PROGRAM_H_
#define IPU_MODEL_ENGINE_PROGRAM_COMPILED_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/graph/graph_impl.h"
#include "core/program/program_node.h"
#include "ipu_model/Model.hpp"
#include "poplar/Target.hpp"

namespace ipu_model {

// Immutable after compilation or deserialisation; shared by all engines that run it.
struct DeviceAnalysis;  // engine/report/device_report.h

// A main program beside programs[0], and what is known of it.
struct FurtherMain {
  std::uint32_t program = 0;
  Report report;
  double host_nanoseconds = 0;
};

struct CompiledProgram {
  explicit CompiledProgram(const poplar::Target& t) : target(t) {}

  poplar::Target target;
  unsigned io_tiles = 0;  // of the tiles of the target, the last ones, where no operation computes
  unsigned replication_factor = 1;
  // By VariableId. Variables that no program uses are cleared: no elements, no mapping, no constant data.
  std::vector<Variable> variables;
  std::vector<std::shared_ptr<const ProgramNode>> programs;
  std::vector<std::shared_ptr<const ProgramNode>> functions;
  std::vector<Stream> streams;
  std::vector<HostFunction> host_functions;
  std::vector<RemoteBuffer> remote_buffers;
  // Those of the vertices in `programs` and `functions`.
  std::vector<std::shared_ptr<const CodeletLibrary>> codelets;
  // Their programs are the last of `programs`.
  std::vector<HostHandle> host_handles;
  Report report;  // cycles of programs[0], the main program; memory over all programs
  // Rough run time of programs[0] on the fast engine. Bodies of loops with an unknown trip count are counted
  // once.
  double host_nanoseconds = 0;
  std::vector<FurtherMain> further_mains;
  // What the report was made from, for ProfileOf; null unless the compilation was for one. Not stored.
  std::shared_ptr<DeviceAnalysis> analysis;

  // Those of a main program; null for another.
  const Report* report_of(unsigned program) const;
  // Calls Prepare of every operation. Only the first call, from any engine, has an effect.
  void Prepare() const;
  const Stream& StreamNamed(std::string_view name,
                            std::uint32_t* index) const;  // throws stream_connection_error

 private:
  mutable std::once_flag prepared_;
};

// The nodes reachable from `roots`, every node once, children before parents. Throws control_program_error
// when a program contains itself.
std::vector<const ProgramNode*> NodesOf(const std::vector<std::shared_ptr<const ProgramNode>>& roots);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_PROGRAM_COMPILED_PROGRAM_H_
