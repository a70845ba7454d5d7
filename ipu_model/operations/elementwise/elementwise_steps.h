// Elementwise vertices in steps, each of which receives a part of the operands.
#ifndef IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_STEPS_H_
#define IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_STEPS_H_

#include <cstdint>
#include <vector>

#include "core/mapping/mapping.h"
#include "core/operation/operation.h"

namespace ipu_model {

// Adds to `bytes`, by tile, what the vertices receive of the operand that they read on their own boxes.
void AddReceivedBytes(const DeviceContext& context, const View& operand, const std::vector<Vertex>& vertices,
                      std::vector<std::int64_t>* bytes);

// Cuts the vertices into steps with about equal numbers of elements on each tile. Every element is in one
// step; some steps may be empty.
std::vector<std::vector<Vertex>> CutIntoSteps(const std::vector<Vertex>& vertices, std::int64_t steps,
                                              unsigned num_tiles);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_ELEMENTWISE_ELEMENTWISE_STEPS_H_
