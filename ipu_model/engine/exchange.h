// What the supersteps of one operation need on every tile: cycles, bytes received, buffers, state and code.
#ifndef IPU_MODEL_ENGINE_EXCHANGE_H_
#define IPU_MODEL_ENGINE_EXCHANGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/target_model.h"
#include "engine/plan_context.h"

namespace ipu_model {

using TileBytes = std::vector<std::int64_t>;  // by tile; empty when zero everywhere

struct SuperstepUse {
  std::uint64_t compute_cycles = 0;   // of the busiest tile
  std::uint64_t exchange_cycles = 0;  // of the busiest pair of tiles
  std::uint64_t exchange_bytes = 0;   // received by all tiles
  unsigned link_syncs = 0;            // of all IPUs; 0: the step is within one
  std::uint64_t link_bytes = 0;       // received from other IPUs
  // What vertices use and their tile does not hold.
  TileBytes buffers;
};

struct CodeletUse {
  std::string codelet;
  std::uint64_t bytes = 0;
  std::vector<bool> tiles;
};

struct TemporaryUse {
  unsigned first_step = 0, last_step = 0;
  TileBytes bytes;
};

struct OperationUse {
  std::vector<SuperstepUse> steps;
  std::vector<TemporaryUse> temporaries;
  std::vector<CodeletUse> codelets;
  TileBytes vertex_state;
  TileBytes exchange_code;
  unsigned computing_tiles = 0;
};

// Exact for reads: each vertex receives the distinct elements of its regions that its tile does not hold;
// vertices of one tile that read the same region share it. Elements written on another tile than their own
// are received by their owner; exact when a superstep writes all of a view, else an upper bound. The two
// tiles of a shared bus receive what both need at twice the rate. What a tile sends is not a limit: senders
// broadcast.
class ExchangeAnalyser {
 public:
  explicit ExchangeAnalyser(const CompiledProgram& program);
  OperationUse Analyse(const Operation& operation);

 private:
  // One operand of one group of vertices, per tile.
  struct TileAccess {
    std::uint64_t key = 0, last = 0;  // sum of the hashes of its regions; hash of the last region
    std::int64_t elements = 0, held = 0;
  };
  // True when every vertex's tile holds what it accesses.
  bool Read(const VertexGroup& group, const VertexGroup::Access& access, const View& view,
            const Mapping& mapping, SuperstepUse* use);
  bool Write(const VertexGroup& group, const VertexGroup::Access& access, const View& view,
             const Mapping& mapping, SuperstepUse* use);
  TileAccess& Touch(unsigned tile);
  void ForgetTouched();
  void Buffer(SuperstepUse* use, unsigned tile, std::int64_t bytes);

  const CompiledProgram& program_;
  PlanContext context_;
  const TargetModel& target_;
  unsigned num_tiles_;
  // Reused between operations.
  std::vector<TileAccess> accesses_;
  std::vector<unsigned> touched_;
  std::vector<std::uint64_t> compute_;
  TileBytes received_, shared_;  // by tile; by pair of tiles
  TileBytes fragments_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_EXCHANGE_H_
