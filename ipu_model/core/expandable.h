// What an operation of hlo/ is besides an operation: a program of vertices that the library hlo makes.
#ifndef IPU_MODEL_CORE_EXPANDABLE_H_
#define IPU_MODEL_CORE_EXPANDABLE_H_

#include <vector>

#include "core/mapping.h"
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

// The blocks of a partition whose tiles are numbered in row-major order.
inline hlo::Grid GridOf(const Partition& partition) {
  return {{partition.shape.begin(), partition.shape.end()},
          {partition.parts.begin(), partition.parts.end()},
          {partition.grain.begin(), partition.grain.end()}};
}

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_EXPANDABLE_H_
