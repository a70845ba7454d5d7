// Copies around explicit vertices: an edge refers to one piece of memory, so what a tile has of an edge whose
// elements do not lie so is copied before or after the vertices run (Poplar's PreArrange and PostArrange).
#ifndef IPU_MODEL_ENGINE_COST_EDGE_COPIES_H_
#define IPU_MODEL_ENGINE_COST_EDGE_COPIES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "core/graph/graph_impl.h"
#include "core/mapping/box.h"
#include "core/operation/local_copy.h"
#include "core/vertices/vertex_program.h"
#include "engine/cost/exchange_traffic.h"

namespace ipu_model {

// By tile.
struct LocalCopies {
  std::vector<std::uint64_t> cycles;  // without those of calling the copy
  TileBytes rows, bytes;              // `bytes`: of the copies

  void Reset(unsigned num_tiles);
  // `buffered`: whether the copy has memory of its own.
  void Add(const TargetModel& target, unsigned tile, std::int64_t size, const LocalCopy& copy,
           bool buffered = true);
  bool any() const { return any_; }

 private:
  bool any_ = false;
};

class EdgeCopies {
 public:
  explicit EdgeCopies(const std::vector<Variable>& variables) : variables_(variables) {}

  // Adds what the tiles copy before the vertices of a compute set run, and after. Equal edges of the vertices
  // of a tile are one copy.
  void Count(const VertexProgram& program, const std::vector<View>& inputs, const std::vector<View>& outputs,
             const TargetModel& target, LocalCopies* before, LocalCopies* after);
  // What `tile` copies of one edge.
  LocalCopy Of(unsigned tile, const std::vector<VertexInterval>& edge, const std::vector<View>& operands);

 private:
  const TileOrder& OrderOf(VariableId variable);

  const std::vector<Variable>& variables_;
  std::map<VariableId, TileOrder> orders_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_COST_EDGE_COPIES_H_
