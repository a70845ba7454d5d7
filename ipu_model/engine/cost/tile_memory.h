// The memory of every tile by liveness: the peak over all programs.
#ifndef IPU_MODEL_ENGINE_COST_TILE_MEMORY_H_
#define IPU_MODEL_ENGINE_COST_TILE_MEMORY_H_

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/cost/exchange.h"
#include "engine/program/run_lengths.h"
#include "ipu_model/Model.hpp"

namespace ipu_model {

// Operations with equal plans share one entry.
using OperationUses = std::unordered_map<const Operation*, std::shared_ptr<const OperationUse>>;

// The memory in detail, for profiles.
struct MemoryProfile {
  // The bytes on the tiles in one moment: a row of `rows`, their sum, and the fullest tile.
  struct Line {
    std::uint32_t row;
    std::int64_t bytes, fullest_bytes;
    unsigned fullest_tile;
  };
  std::vector<Line> lines;
  RunLengthRows rows;  // empty if it would have more than Profile::kMostValues values
  bool too_many_rows = false;
  // By instruction of program 0: its first line, or -1. An operation has a line for each superstep, and at
  // least one.
  std::vector<std::int64_t> first_line;

  // A variable that takes memory while program 0 runs. Instructions are counted from the program's first.
  struct Life {
    VariableId variable;
    bool lasting;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> live;  // inclusive
    std::vector<std::uint32_t> reads, writes;
  };
  std::vector<Life> lives;

  // At each tile's own peak.
  TileBytes variables, temporaries, buffers, constants, vertex_state, code, total;
  // Of the fullest tile.
  std::uint32_t peak_program = 0, peak_instruction = 0, peak_step = 0;
};

// Computes the memory part of the report. Variables that are never live at the same time share memory,
// without fragmentation. Contents that a later run or another program needs stay live.
class MemoryAnalysis {
 public:
  explicit MemoryAnalysis(const CompiledProgram& program);
  ~MemoryAnalysis();

  // Whether the variables alone fit. If not, fills the report. Needs no plans.
  bool VariablesFit(Report* report);
  void Fill(const OperationUses& uses, Report* report);

  // After Fill, or VariablesFit if they do not fit, whose numbers it explains.
  void Profile(MemoryProfile* profile);
  TileBytes BytesOf(VariableId variable) const;  // by tile

  // After Fill: the operations whose buffers and temporaries make a tile overflow, and the bytes that the
  // tiles with these have left for them.
  std::vector<std::pair<const Operation*, std::int64_t>> LackingBuffers() const;

 private:
  class Walk;
  std::unique_ptr<Walk> walk_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_COST_TILE_MEMORY_H_
