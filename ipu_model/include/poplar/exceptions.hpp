// The exceptions of the API. Source: Graphcore's Poplar and PopLibs API reference, "Exceptions". Those that
// the model never throws are for programs that catch or throw them.
#ifndef POPLAR_EXCEPTIONS_HPP
#define POPLAR_EXCEPTIONS_HPP

#include <ostream>
#include <stdexcept>
#include <string>

#include "poplar/ProfileValue.hpp"

namespace poplar {

struct poplar_error : std::runtime_error {
  explicit poplar_error(const std::string& message) : poplar_error(message, "poplar_error") {}

  std::string type;  // the name of the class

 protected:
  poplar_error(const std::string& message, const char* name) : std::runtime_error(message), type(name) {}
};

// An exception class with nothing of its own but a name. Those derived from it pass theirs on.
#define POPLAR_EXCEPTION(name, base)                                                      \
  struct name : base {                                                                    \
    explicit name(const std::string& message) : name(message, #name) {}                   \
                                                                                          \
   protected:                                                                             \
    name(const std::string& message, const char* type_name) : base(message, type_name) {} \
  }

// Calls that do not fit together.
POPLAR_EXCEPTION(control_program_error, poplar_error);
POPLAR_EXCEPTION(graph_object_load_error, poplar_error);
POPLAR_EXCEPTION(graph_object_creation_error, poplar_error);
POPLAR_EXCEPTION(graph_connection_error, poplar_error);
POPLAR_EXCEPTION(graph_cycle_error, poplar_error);
POPLAR_EXCEPTION(graph_recursion_error, poplar_error);
POPLAR_EXCEPTION(graph_replication_error, poplar_error);
POPLAR_EXCEPTION(unknown_vertex_type, poplar_error);
POPLAR_EXCEPTION(unknown_field, poplar_error);
POPLAR_EXCEPTION(invalid_option, poplar_error);
POPLAR_EXCEPTION(invalid_tile_mapping, poplar_error);
POPLAR_EXCEPTION(invalid_machine_model, poplar_error);
POPLAR_EXCEPTION(type_error, poplar_error);
POPLAR_EXCEPTION(tensor_creation_error, poplar_error);
POPLAR_EXCEPTION(tensor_io_state_error, poplar_error);
POPLAR_EXCEPTION(tensor_metadata_error, poplar_error);
// An element or dimension that a tensor has not.
POPLAR_EXCEPTION(index_error, poplar_error);
POPLAR_EXCEPTION(overflow_error, poplar_error);
POPLAR_EXCEPTION(parse_error, poplar_error);
POPLAR_EXCEPTION(file_load_error, poplar_error);
POPLAR_EXCEPTION(stream_connection_error, poplar_error);
POPLAR_EXCEPTION(stream_memory_allocation_error, poplar_error);
POPLAR_EXCEPTION(memory_elem_constraints_error, poplar_error);
POPLAR_EXCEPTION(profiling_disabled, poplar_error);
POPLAR_EXCEPTION(missing_profile_data, poplar_error);
POPLAR_EXCEPTION(missing_graph_profile, poplar_error);
POPLAR_EXCEPTION(missing_perf_estimate, poplar_error);

// Codelets that do not compile: the compiler's message.
POPLAR_EXCEPTION(graph_program_compilation_error, poplar_error);

// Codelets that do not link.
struct link_error : poplar_error {
  explicit link_error(const std::string& message, const std::string& linker_output = "")
      : poplar_error(message, "link_error"), output(linker_output) {}
  std::string output;  // what the linker said
};

// A symbol that is not defined, on a tile.
struct symbol_error : poplar_error {
  symbol_error(const std::string& name, unsigned tile)
      : poplar_error("there is no symbol '" + name + "' on tile " + std::to_string(tile), "symbol_error") {}
};

// A program that is too large for the tiles.
struct graph_memory_allocation_error : poplar_error {
  explicit graph_memory_allocation_error(const std::string& message)
      : poplar_error(message, "graph_memory_allocation_error") {}
  // A map with the target and the bytes on each tile, of a program that was compiled and did not fit.
  ProfileValue graphProfile;
  // The file with its profile (printGraphSummary prints it), if an option autoReport asked for one.
  std::string profilePath;
};

// A run that failed.
POPLAR_EXCEPTION(runtime_error, poplar_error);
// Raised by the program itself (AbortOnCondition).
POPLAR_EXCEPTION(application_runtime_error, runtime_error);
// Failures of the system, which the model has not.
POPLAR_EXCEPTION(system_runtime_error, runtime_error);
POPLAR_EXCEPTION(unrecoverable_runtime_error, system_runtime_error);
POPLAR_EXCEPTION(unknown_runtime_error, system_runtime_error);

#undef POPLAR_EXCEPTION

// What makes a device usable again.
enum class RecoveryAction { IPU_RESET, LINK_RESET, PARTITION_RESET, FULL_RESET };

inline std::string toString(RecoveryAction action) {
  switch (action) {
    case RecoveryAction::IPU_RESET:
      return "IPU_RESET";
    case RecoveryAction::LINK_RESET:
      return "LINK_RESET";
    case RecoveryAction::PARTITION_RESET:
      return "PARTITION_RESET";
    case RecoveryAction::FULL_RESET:
      break;
  }
  return "FULL_RESET";
}
inline std::ostream& operator<<(std::ostream& out, RecoveryAction action) { return out << toString(action); }

struct recoverable_runtime_error : system_runtime_error {
  recoverable_runtime_error(RecoveryAction action, const std::string& message)
      : system_runtime_error(message, "recoverable_runtime_error"), action_(action) {}
  RecoveryAction getRecoveryAction() const { return action_; }

 private:
  RecoveryAction action_;
};

}  // namespace poplar

#endif  // POPLAR_EXCEPTIONS_HPP
