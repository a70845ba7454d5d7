// What an operation of hlo/ is besides an operation: a program of vertices that the library hlo makes.
#ifndef IPU_MODEL_CORE_GRAPH_EXPANDABLE_H_
#define IPU_MODEL_CORE_GRAPH_EXPANDABLE_H_

#include <vector>

#include "core/mapping/mapping.h"
#include "core/operation/operation.h"
#include "hlo/Expansion.hpp"

namespace ipu_model {

class Expandable {
 public:
  virtual ~Expandable() = default;
  // Adds the expansion to `prog`. `in` and `out` are the tensors of the operation's inputs and outputs.
  virtual void Expand(const hlo::Expansions& library, poplar::Graph& graph,
                      const std::vector<poplar::Tensor>& in, const std::vector<poplar::Tensor>& out,
                      poplar::program::Sequence& prog) const = 0;
};

// The blocks of a grid whose tiles are numbered in row-major order.
inline hlo::Grid GridOf(const Grid& grid) {
  return {{grid.shape.begin(), grid.shape.end()},
          {grid.parts.begin(), grid.parts.end()},
          {grid.grain.begin(), grid.grain.end()}};
}

// The vertices of an operation whose variables `graph` has.
hlo::Plan PlanOf(const Operation& operation, poplar::Graph& graph);

// Whether output `output` is stored exactly over the input of the same number.
bool IsInPlace(const Operation& operation, unsigned output);

// The inputs `in`, as copies where they share a variable with an output and are not stored over in place:
// vertices may not read what others of their compute set write.
std::vector<poplar::Tensor> InputsBesideOutputs(const Operation& operation, poplar::Graph& graph,
                                                const std::vector<poplar::Tensor>& in,
                                                poplar::program::Sequence& prog);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_GRAPH_EXPANDABLE_H_
