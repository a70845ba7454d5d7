// The blocks of a run: Poplar's lightweight profiling, of which Graphcore's tutorial on it is the source.
#ifndef IPU_MODEL_ENGINE_REPORT_BLOCKS_H_
#define IPU_MODEL_ENGINE_REPORT_BLOCKS_H_

#include <cstdint>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ipu_model/Profile.hpp"
#include "ipu_model/Timeline.hpp"
#include "poplar/Target.hpp"

namespace ipu_model {

// Which parts of runs are blocks.
struct BlockOptions {
  std::string blocks,
      programs;            // regular expressions of whole names: of Blocks, of all programs; empty for none
  std::uint64_t tile = 0;  // of each IPU, where blocks are recorded
  std::uint64_t buffer_bytes = 1000;  // on that tile
  bool flush = true;                  // the buffer is emptied before it is full
  bool transfers = false;             // those of streams are blocks as well
};

// A block, once it has ended. Cycles count from the begin of the run and include those that wait for the
// host.
struct ProfiledBlock {
  std::string name,
      kind;  // kind: "scope", "loop", "operation", "overflow", "stream begin", "stream mid", ...
  std::uint64_t tile = 0, from = 0, to = 0;
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("name", self.name);
    visit("kind", self.kind);
    visit("tile", self.tile);
    visit("from", self.from);
    visit("to", self.to);
  }
};

class BlockRecorder {
 public:
  BlockRecorder(const BlockOptions& options, const poplar::Target& target);

  // The next step of the run. `tile_cycles`: of an operation, by superstep as in ProfiledWork; others have
  // null.
  void Add(const Timeline::Step& step, std::string_view name, const std::vector<RunLengths>* tile_cycles);

  // In the order of their begin, outer ones first.
  std::vector<ProfiledBlock> Take();
  std::uint64_t clock() const { return clock_; }  // cycles so far

 private:
  struct Open {
    std::string name;
    const char* kind;
    std::uint64_t from, executions;
    bool recorded;
    std::set<std::uint64_t> ipus;  // that compute in it
  };
  struct Buffer {
    std::uint64_t blocks = 0;
    std::optional<std::size_t> overflow;  // index into blocks_
  };

  void AddOperation(const Timeline::Step& step, std::string_view name,
                    const std::vector<RunLengths>* tile_cycles);
  void AddTransfer(const Timeline::Step& step, std::string_view name);
  void Begin(std::string_view name, const char* kind, std::uint64_t executions, bool recorded);
  void End();
  // On the tile of each of these IPUs, or of all IPUs where there are none.
  void Record(std::string_view name, const char* kind, std::uint64_t from, std::uint64_t executions,
              const std::set<std::uint64_t>& ipus);
  void RecordOn(std::uint64_t tile, std::string_view name, const char* kind, std::uint64_t from,
                std::uint64_t to, std::uint64_t executions);

  const BlockOptions options_;
  const poplar::Target target_;
  const std::regex blocks_filter_, programs_filter_;
  std::uint64_t clock_ = 0;
  std::vector<Open> open_;
  std::vector<Buffer> buffers_;  // by tile
  std::vector<ProfiledBlock> blocks_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_REPORT_BLOCKS_H_
