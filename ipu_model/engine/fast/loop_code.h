// Machine code for loops of small operations, for which the fast engine's steps take longer than the
// operations.
#ifndef IPU_MODEL_ENGINE_FAST_LOOP_CODE_H_
#define IPU_MODEL_ENGINE_FAST_LOOP_CODE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/program/host_code.h"
#include "kernels/elementwise/vector_code/register_file.h"
#include "kernels/host/bound_kernel.h"
#include "kernels/host/machine_code.h"

namespace ipu_model {

// What the code of a loop uses of its engine. All addresses stay valid as long as the engine.
struct LoopEnvironment {
  struct Kernel {
    const BoundKernel* kernel = nullptr;  // null if the operation is not bound
    std::vector<CodeAddress> in, out;
  };

  const HostCode* host = nullptr;
  std::function<Kernel(std::uint32_t operation)> kernel;
  struct Predicate {
    DType type;
    CodeAddress address;
  };
  std::function<Predicate(std::uint32_t predicate)> predicate;
  std::uint64_t* counters = nullptr;
  std::function<std::uint64_t*(std::uint32_t loop)> entries, trips;  // of ExecutedCycles
  void* engine = nullptr;
  // Runs one instruction that is not control flow, or looks for cancellation. Neither throws; they return
  // false if the loop has to end.
  bool (*step)(void* engine, std::uint32_t instruction) = nullptr;
  bool (*poll)(void* engine) = nullptr;
};

// The instructions [begin, end) of a loop. It is entered at `begin` and left at `end`.
struct LoopCode {
  std::uint32_t begin = 0, end = 0;
  std::vector<std::uint32_t> operations;  // whose bound kernels it runs
  MachineCode code;

  // Runs the loop. `bases`: the table of base pointers (see CodeAddress). Returns false if the engine said
  // that it has to end.
  bool Run(unsigned char* const* bases) const {
    return reinterpret_cast<bool (*)(unsigned char* const*)>(const_cast<void*>(code.entry()))(bases);
  }
};

// Compiles the outermost loops that have calls which gain by it and nothing that cannot be compiled.
std::vector<LoopCode> CompileLoops(const LoopEnvironment& environment);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_FAST_LOOP_CODE_H_
