// The memory of every tile by liveness: the peak over all programs.
#ifndef IPU_MODEL_ENGINE_TILE_MEMORY_H_
#define IPU_MODEL_ENGINE_TILE_MEMORY_H_

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/exchange.h"
#include "ipu_model/Model.hpp"

namespace ipu_model {

// Operations with equal plans share one entry.
using OperationUses = std::unordered_map<const Operation*, std::shared_ptr<const OperationUse>>;

// Computes the memory part of the report. Variables that are never live at the same time share memory,
// without fragmentation. Contents that a later run or another program needs stay live.
class MemoryAnalysis {
 public:
  explicit MemoryAnalysis(const CompiledProgram& program);
  ~MemoryAnalysis();

  // Whether the variables alone fit. If not, fills the report. Needs no plans.
  bool VariablesFit(Report* report);
  void Fill(const OperationUses& uses, Report* report);

  // After Fill: the operations whose buffers and temporaries make a tile overflow, and the bytes that the
  // tiles with these have left for them.
  std::vector<std::pair<const Operation*, std::int64_t>> LackingBuffers() const;

 private:
  class Walk;
  std::unique_ptr<Walk> walk_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_TILE_MEMORY_H_
