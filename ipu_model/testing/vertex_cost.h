// What tests of vertex costs share: programs of one operation, and numbers of the target.
#ifndef IPU_MODEL_TESTING_VERTEX_COST_H_
#define IPU_MODEL_TESTING_VERTEX_COST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/elementwise/program/expression.h"

namespace ipu_model {

constexpr unsigned kWorkers = 6;

inline unsigned Ceil(std::int64_t a, unsigned b) { return static_cast<unsigned>((a + b - 1) / b); }

// Target::getVectorWidth
inline unsigned WidthOf(DType type) { return 8 / static_cast<unsigned>(SizeOf(type)); }

// The largest share of a worker in splitRegionsBetweenWorkers, with two grains or more for each worker: as
// few vertices as the largest share allows have equal numbers of grains.
inline unsigned LargestRegion(unsigned elements, unsigned grain) {
  const unsigned grains = Ceil(elements, grain);
  unsigned share = Ceil(grains, kWorkers);
  share = std::max(share, Ceil(grains, std::max(1u, grains / 2)));
  const unsigned vertices = Ceil(grains, share);
  unsigned largest = 0;
  for (unsigned v = 0; v < vertices; ++v) {
    const unsigned begin = v * grains / vertices * grain, end = (v + 1) * grains / vertices * grain;
    largest = std::max(largest, std::min(elements, end) - begin);
  }
  return largest;
}

// The operation on up to three operands, inputs 0, 1 and 2; the last operand is a constant if `constant`.
inline Expression OneOperation(ScalarOp op, DType type, int operands, bool constant) {
  Expression e;
  e.inputs.assign(static_cast<std::size_t>(operands - (constant ? 1 : 0)), type);
  if (constant) {
    e.constants.emplace_back();
    e.constants[0].type = type;
  }
  Instruction i;
  i.op = op;
  i.operand_type = i.result_type = type;
  for (int k = 0; k < operands; ++k) i.operand[k] = static_cast<std::uint16_t>(k);
  e.code = {i};
  e.outputs = {static_cast<std::uint16_t>(operands)};
  return e;
}

}  // namespace ipu_model

#endif  // IPU_MODEL_TESTING_VERTEX_COST_H_
