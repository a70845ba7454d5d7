// The dimension numbers of gather and scatter by dimension of the operand.
#ifndef HLO_WINDOW_WINDOW_DIMS_H_
#define HLO_WINDOW_WINDOW_DIMS_H_

#include <cstddef>
#include <vector>

#include "hlo/WindowDims.hpp"

namespace hlo {

// "Windows" means the result of a gather or the updates of a scatter.
struct ResolvedDims {
  // By dimension of the operand; -1 for none.
  std::vector<int> component;  // of the index, which gives the start
  std::vector<int> batching;   // the batch dimension that it is paired with
  std::vector<int> window;     // the dimension of windows
  std::vector<int> wrap;       // what is added to a negative index
  // By batch dimension: the dimensions of windows and of the indices.
  std::vector<unsigned> batch, index;

  // The dimension of windows that the operand's dimension d moves along, or -1.
  int along(std::size_t d) const {
    return batching[d] >= 0 ? static_cast<int>(batch[static_cast<unsigned>(batching[d])]) : window[d];
  }
};

ResolvedDims resolve(const WindowDims& dims, std::size_t operandRank, std::size_t indicesRank,
                     std::size_t windowsRank);

// The row-major steps of a shape.
std::vector<std::size_t> stepsOf(const std::vector<std::size_t>& shape);

}  // namespace hlo

#endif  // HLO_WINDOW_WINDOW_DIMS_H_
