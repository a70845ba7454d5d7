// What the block interpreter decides about one set of tensors before it runs: blocks, which operands are read
// and written in place, which are scalars.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_ELEMENTWISE_ARRANGEMENT_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_ELEMENTWISE_ARRANGEMENT_H_

#include <cstdint>

#include "kernels/elementwise/block_layout.h"
#include "kernels/elementwise/micro_program.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Work on one core below which a second one does not pay, with workers that are spinning.
constexpr double kNanosecondsForThreads = 6000;
// Rows below this length are put together in blocks: where each block is arranged for itself, one for each
// row would cost more than its work.
constexpr std::int64_t kShortRows = 256;

struct Arrangement {
  struct Input {
    BlockForm form;
    MicroFunction load;  // null when the register has the bytes of memory
    int slot;            // -1: read in place
  };
  struct Output {
    BlockForm form;
    MicroFunction store;
    bool direct;  // the step that computes it writes to memory
  };

  const MicroProgram* program;
  BlockLayout layout;
  Walk* walks;  // inputs, then outputs
  Input* inputs;
  Output* outputs;
  bool* scalar;         // per register: one value for the whole block
  int* direct_output;   // per register: the output that it is written to, or -1
  unsigned* scalar_of;  // per step: bits of its scalar operands
  int num_slots;        // for steps and inputs
  std::int64_t slot_bytes;
  double nanoseconds;  // per element on one core
};

// For tensors with at least one element; the arrays are in `scratch`. A tensor without data may lie anywhere.
// Rows below `short_row` elements are put together in blocks.
Arrangement Arrange(const MicroProgram& program, const HostTensor* in, const HostTensor* out,
                    std::int64_t short_row, Scratch& scratch);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_ELEMENTWISE_ARRANGEMENT_H_
