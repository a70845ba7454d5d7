// The cost of an operation's supersteps on every tile: cycles, bytes received, buffers, state and code.
#ifndef IPU_MODEL_ENGINE_COST_EXCHANGE_H_
#define IPU_MODEL_ENGINE_COST_EXCHANGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/mapping/held_counter.h"
#include "core/target/target_model.h"
#include "engine/cost/edge_copies.h"
#include "engine/cost/exchange_traffic.h"
#include "engine/cost/row_exchange.h"
#include "engine/program/plan_context.h"
#include "engine/program/run_lengths.h"

namespace ipu_model {

class ReplicaOperation;

struct SuperstepUse {
  std::uint64_t compute_cycles = 0;  // of the busiest tile
  // What is added to them by copies of tiles' own elements, around the vertices (`AddLocalCopies`).
  std::uint64_t local_copy_cycles = 0;
  std::uint64_t exchange_cycles = 0;  // of the busiest pair of tiles
  std::uint64_t exchange_bytes = 0;   // received by all tiles
  unsigned link_syncs = 0;            // syncs of all IPUs; 0 if the superstep is within one IPU
  std::uint64_t link_bytes = 0;       // received from other IPUs
  // Bytes that vertices use and that their tile does not hold.
  TileBytes buffers;
};

// What a profile shows of a superstep beyond its costs.
struct SuperstepDetail {
  std::string codelets;  // in alphabetical order, joined by " + "
  // (tile, number), flat, of each codelet's vertices.
  std::map<std::string, RunLengths> vertices;
  // By tile, empty if zero on all. `sent` counts bytes for each tile that receives them.
  RunLengths compute_cycles, sent, received;
  unsigned active_tiles = 0;        // that compute
  std::uint64_t total_compute = 0;  // cycles of all tiles together
  // (group of tiles that sends, group that receives, bytes), flat.
  RunLengths pairs;
};

struct CodeletUse {
  std::string codelet;
  std::uint64_t bytes = 0;
  std::vector<bool> tiles;
};

// Adds `use` to `codelets`, by name: a codelet is once on each tile that has one of its vertices.
void Merge(const CodeletUse& use, std::map<std::string, CodeletUse>* codelets);

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
  std::size_t coded_steps = 0;  // without the later trips of loops
  unsigned computing_tiles = 0;
  std::uint64_t num_vertices = 0, num_edges = 0;
  // Only in detailed analyses.
  std::vector<SuperstepDetail> details;  // by step
  std::vector<int> last_reads;           // by input: the last step that reads it, -1 for none
};

// How many neighbouring tiles are one group in SuperstepDetail: so that there are at most 23, or those of an
// IPU if there are several.
unsigned TilesPerGroup(const poplar::Target& target);

// Analyses exchanges. Reads are exact: each vertex receives the distinct elements of its regions that its
// tile does not hold; vertices of one tile that read the same region share it. Elements that are written on
// another tile are received by the tile that holds them. Writes are exact if a superstep writes all of a
// view, otherwise an upper bound. The two tiles of a shared bus receive common data at twice the rate, which
// takes the buses of the sender and its neighbour. A tile sends each element once, whoever receives
// it and through however many operands. Vertices of program::Execute are counted by RowExchange: all of a
// superstep, exactly.
class ExchangeAnalyser {
 public:
  // `detailed`: whether to fill in what only profiles need.
  explicit ExchangeAnalyser(const CompiledProgram& program, bool detailed = false);
  OperationUse Analyse(const Operation& operation);

 private:
  // The accesses of one operand of one vertex group, per tile.
  struct TileAccess {
    std::uint64_t key = 0, last = 0;  // key: sum of the hashes of its regions; last: hash of the last region
    std::int64_t elements = 0, held = 0;
  };
  // A region of the operand that is analysed: one of the vertices that read or write it, and the tiles of all
  // those vertices.
  struct Region {
    std::uint64_t hash;
    std::size_t vertex;
    std::vector<std::pair<unsigned, std::int64_t>> tiles;  // with the elements that they hold
    bool pairs;                                            // whether the tiles are pairs of neighbours
  };
  struct Analysis;
  struct Step;
  // The use of an operation between IPUs.
  OperationUse OverLinks(const Operation& operation, const ReplicaOperation& between);
  void AddTemporaries(Analysis* a);
  void AddLaterTrips(const StepLoop& loop, OperationUse* result);
  // Finds the variables that several operands read.
  void FindShared(const Operation& operation);
  // Cycles, state and code of the vertices; in detailed analyses, what a profile shows of them; what they
  // move.
  void AddVertices(const VertexGroup& group, Step* step, Analysis* a);
  void AddDetails(const VertexGroup& group, Step* step, Analysis* a);
  void AddOperands(const VertexGroup& group, Step* step, Analysis* a);
  // Adds what tiles copy of their own elements so that vertices find their operands in one piece.
  void AddLocalCopies(Step* step, Analysis* a);
  void EndStep(Step step, Analysis* a);
  // The cycles and the code of the exchange of a superstep.
  void CountExchange(bool later_trip, SuperstepUse* use, OperationUse* result);
  // Return true if every vertex's tile holds the elements that it accesses.
  bool Read(const VertexGroup& group, const VertexGroup::Access& access, const View& view,
            const Mapping& mapping, SuperstepUse* use);
  bool Write(const VertexGroup& group, const VertexGroup::Access& access, const View& view,
             const Mapping& mapping, SuperstepUse* use);
  // The same for vertices whose edges are rows of variables, all of a superstep together.
  void AddRows(const VertexGroup& group, const VertexGroup::Access& access, const View& view, bool is_write);
  TileAccess& Touch(unsigned tile);
  void ForgetTouched();
  void Grow(TileBytes* bytes) const {
    if (bytes->empty()) bytes->assign(num_tiles_, 0);
  }
  void Buffer(SuperstepUse* use, unsigned tile, std::int64_t bytes);
  // `tile` holds `held` elements of the region of a vertex, and the others move to it (or from it). The
  // region is that of vertex `vertex`; equal regions have one hash.
  void Note(std::uint64_t hash, std::size_t vertex, unsigned tile, std::int64_t held);
  // Whether sending an operand may take longer than receiving it.
  bool MaySlow(const View& view, const Mapping& mapping) const;
  // Calls `visit(begin, end)` with the numbers of noted regions of an operand that are one box together; its
  // holders are then in holders_. Regions are only joined that `alike(first, other)` allows.
  template <typename Alike, typename F>
  void ForEachRun(HeldCounter* counter, const VertexGroup& group, const VertexGroup::Access& access,
                  Alike&& alike, F&& visit);
  // Counts what the holders of such a run send; EndSending when that is done for all regions.
  void Send(std::size_t begin, std::size_t end);
  void EndSending(HeldCounter* counter, const View& view, const Mapping& mapping);
  // Sets held_.
  void CountHeld(HeldCounter* counter, const View& view);
  std::uint64_t SendCycles();
  bool ReadByPairs(const std::vector<std::pair<unsigned, std::int64_t>>& tiles) const;
  void ForgetRegions();
  // The slot of the region with this hash, or the one to put it in.
  unsigned* SlotOf(std::uint64_t hash);
  // Counts what moves between the holders of the region and its vertices.
  void Move(const Region& region, std::int64_t element_bytes, bool to_vertices);
  // Adds what a profile shows of a superstep.
  void Describe(std::vector<std::string> codelets, const SuperstepUse& use, OperationUse* result);
  void EndExchange(SuperstepDetail* detail);
  // Adds what moves between the IPUs of a target with several. An element crosses the links once for each
  // tile of another IPU that receives it.
  void AddLinks(SuperstepUse* use) const;

  const CompiledProgram& program_;
  PlanContext context_;
  const TargetModel& target_;
  unsigned num_tiles_;
  // Reused between operations.
  std::vector<TileAccess> accesses_;
  std::vector<unsigned> touched_;
  std::vector<std::uint64_t> compute_;
  ExchangeTraffic traffic_;
  const bool detailed_, several_ipus_;
  const unsigned tiles_per_group_, num_groups_;                     // of the pairs in SuperstepDetail
  std::vector<std::pair<const Box*, std::uint64_t>> known_cycles_;  // of the boxes of a vertex group
  // A vertex that needs elements of other tiles of the operand that is analysed: the hash of its region, and
  // how many elements of that its own tile holds.
  struct Need {
    std::size_t vertex;
    std::uint64_t hash;
    std::int64_t held;
  };
  std::vector<Need> needs_;
  std::vector<Region> regions_;
  std::size_t num_regions_ = 0;
  // A hash table of the regions, whose size is a power of two: 0, or the number of a region counted from 1.
  std::vector<unsigned> slots_;
  std::vector<std::pair<unsigned, std::int64_t>> holders_;
  // By tile: elements of the operand that it sends to single tiles and to pairs; and the tiles that send any.
  std::vector<std::pair<std::int64_t, std::int64_t>> sent_of_operand_;
  std::vector<unsigned> senders_;
  TileBytes held_;  // elements of the operand that each tile holds
  // Of variables that several operands of an operation read: elements that each tile has not sent yet in the
  // superstep. Empty before the first are sent.
  std::map<VariableId, TileBytes> unsent_;
  TileBytes of_groups_, readers_of_groups_;  // of one region, by group of tiles
  std::vector<unsigned> group_of_tile_;
  RowExchange rows_;
  EdgeCopies edge_copies_;
  LocalCopies before_, after_;  // the vertices of the superstep
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_COST_EXCHANGE_H_
