// Where every variable lives in host memory while the fast engine runs, and the instructions that remain.
#ifndef IPU_MODEL_ENGINE_HOST_PLAN_H_
#define IPU_MODEL_ENGINE_HOST_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/host_code.h"

namespace ipu_model {

struct HostLocation {
  enum class Kind : std::uint8_t {
    kArena,     // at `offset` of the engine's memory
    kConstant,  // in the program's constant data
    kStream     // in the host memory of stream `stream`
  };
  Kind kind = Kind::kArena;
  std::uint32_t stream = 0;
  std::size_t offset = 0;
  // The variable has one view, and lies in the row-major order of that view instead of its own.
  bool in_view_order = false;

  // Where the elements of a view of the variable lie in the location's memory.
  View Placed(const View& view) const;
};

// One operation of a group, and for its inputs, then outputs: the dimension that the bands run along, or -1;
// and where each begins in the memory of the worker that runs the band, or -1 for those in their own place.
struct BandedOperation {
  std::uint32_t operation;
  std::vector<int> dimensions;
  std::vector<std::int64_t> local;
};

// Operations that run band by band: `rows` positions of `extent` at a time. Variables that nothing else uses
// need no more memory than one band for each worker: `local_bytes` for all of them.
struct BandGroup {
  std::vector<BandedOperation> operations;
  std::int64_t extent = 0, rows = 0;
  std::int64_t local_bytes = 0;
};

struct HostPlan {
  HostCode code;
  std::vector<BandGroup> bands;
  std::vector<HostLocation> locations;  // by VariableId
  // The arena: variables that keep their contents between runs come first, temporaries of all programs share
  // the rest.
  std::size_t state_bytes = 0, arena_bytes = 0;
  struct StreamUse {
    std::uint32_t stream = 0;
    bool bound = false;  // a variable lives in its memory: no transfer instruction
  };
  std::vector<std::vector<StreamUse>> streams;  // by program
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_HOST_PLAN_H_
