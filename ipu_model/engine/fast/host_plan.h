// The location of every variable in host memory while the fast engine runs, and the instructions that remain.
#ifndef IPU_MODEL_ENGINE_FAST_HOST_PLAN_H_
#define IPU_MODEL_ENGINE_FAST_HOST_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/program/host_code.h"

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
  // True if the variable has one view and is stored in the row-major order of that view.
  bool in_view_order = false;
  // If the variable has its elements in a part of another one, which has this location otherwise: the part,
  // in the shape of the one view of the variable that is used.
  std::optional<View> part;

  // Returns the elements of a view of the variable as a view of the location's memory.
  View Placed(const View& view) const;
};

// One operation of a group. For its inputs and then its outputs: the dimension along which the bands run, or
// -1; the dimension of the group's outer positions, if there are several; and the offset in the memory of the
// worker that runs the band, or -1 for operands in their own location. If `partials` is not empty, a band
// makes partial results, which are combined after the last band: the offsets of those of all bands, for each
// output, in the group's memory.
struct BandedOperation {
  std::uint32_t operation;
  std::vector<int> dimensions, outer_dimensions;
  std::vector<std::int64_t> local;
  std::vector<std::int64_t> partials;
};

// Operations that run band by band: one of `outer` positions, and `rows` of `extent` positions at a time.
// Variables that nothing else uses need memory for one band per worker; `local_bytes` is the sum over these
// variables.
struct BandGroup {
  std::vector<BandedOperation> operations;
  std::int64_t outer = 1, extent = 0, rows = 0;
  std::int64_t local_bytes = 0, partial_bytes = 0;

  std::int64_t inner_bands() const { return (extent + rows - 1) / rows; }
  std::int64_t bands() const { return outer * inner_bands(); }
};

struct HostPlan {
  HostCode code;
  std::vector<BandGroup> bands;
  std::vector<HostLocation> locations;  // by VariableId
  // The arena: variables that keep their contents between runs come first; temporaries of all programs share
  // the rest.
  std::size_t state_bytes = 0, arena_bytes = 0;
  struct StreamUse {
    std::uint32_t stream = 0;
    bool bound = false;  // whether a variable is in its memory, without a transfer instruction
  };
  std::vector<std::vector<StreamUse>> streams;  // by program
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_FAST_HOST_PLAN_H_
