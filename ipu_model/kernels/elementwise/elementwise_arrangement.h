// The block interpreter's decisions for one set of tensors, made before it runs: the blocks, the operands
// that are read and written in place, and the scalars.
#ifndef IPU_MODEL_KERNELS_ELEMENTWISE_ELEMENTWISE_ARRANGEMENT_H_
#define IPU_MODEL_KERNELS_ELEMENTWISE_ELEMENTWISE_ARRANGEMENT_H_

#include <cstdint>

#include "kernels/elementwise/block_order.h"
#include "kernels/elementwise/program/micro_program.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Work on one core below which a second core does not pay, even if the workers are spinning.
constexpr double kNanosecondsForThreads = 6000;
// Rows below this length share blocks. Each block is arranged at run time, and the arrangement of one short
// row would cost more than its work.
constexpr std::int64_t kShortRows = 256;

struct Arrangement {
  struct Input {
    BlockForm form;
    MicroFunction load;  // null if the register has the same bytes as memory
    int slot;            // -1: read in place
  };
  struct Output {
    BlockForm form;
    MicroFunction store;
    bool direct;  // the step that computes it writes to its memory
  };

  const MicroProgram* program;
  BlockOrder order;
  Walk* walks;  // inputs, then outputs
  Input* inputs;
  Output* outputs;
  bool* scalar;         // per register: true for one value for the whole block
  int* direct_output;   // per register: the output that it is written to, or -1
  unsigned* scalar_of;  // per step: a bit for each scalar operand
  bool* per_row;        // per register: true for one value for each row of the block; null if none is
  int num_slots;        // slots of steps and inputs
  std::int64_t slot_bytes;
  double nanoseconds;  // per element on one core
};

// Arranges tensors with at least one element; the arrays are allocated from `scratch`. A tensor without data
// may get any address later. Several rows shorter than `short_row` elements share a block.
Arrangement Arrange(const MicroProgram& program, const HostTensor* in, const HostTensor* out,
                    std::int64_t short_row, Scratch& scratch);

// Holds operands that are the same along every row, and what is computed of such operands only, as one value
// for each row of the block. Nothing changes if rows are too short, or if a tensor is written from such
// values.
void HoldOneValuePerRow(Arrangement* arrangement, Scratch& scratch);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_ELEMENTWISE_ELEMENTWISE_ARRANGEMENT_H_
