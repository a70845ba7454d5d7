// Cycles of PopLibs' convolution vertices beside those of amp_cost.h, in closed form.
// Source: lib/poplin/PerformanceEstimation.hpp; the .cc file names the function of each.
#ifndef IPU_MODEL_OPERATIONS_PRODUCT_VERTEX_COST_H_
#define IPU_MODEL_OPERATIONS_PRODUCT_VERTEX_COST_H_

#include <cstdint>

#include "core/target/target_model.h"
#include "operations/product/amp_cost.h"

namespace ipu_model {

// A kernel: positions of the innermost dimension, and of the others together.
struct KernelShape {
  std::int64_t others = 1, width = 1;
};

// ConvPartial1xNSLIC: windows of 4 kernel positions in the width. Half operands have float partial sums.
struct SlicVertex {
  std::int64_t groups_per_group;  // 1, 2 or 4: groups of 4, 2 or 1 channels
  std::int64_t conv_groups;       // of groups_per_group groups
  std::int64_t stride = 1;        // of the outputs in the width, 1 or 2
  bool quarter = false;           // quarter operands: groups_per_group is 1, of 8 channels
};
std::uint64_t SlicCycles(const TargetModel& target, const SlicVertex& vertex, const KernelShape& kernel,
                         const AmpField& field);

// ConvPartialHorizontalMac with float partial sums: dot products over the input channels.
struct HmacVertex {
  bool half;
  std::int64_t groups, channels, features;
  bool one_tap;  // uses the specialisation for 1x1 kernels
};
std::uint64_t HmacCycles(const TargetModel& target, const HmacVertex& vertex, const KernelShape& kernel,
                         const AmpField& field);

// ConvPartialVerticalMac on half operands with float partial sums: 4 groups of one output channel each.
struct VmacVertex {
  std::int64_t conv_groups;  // of 4 groups
  std::int64_t channels;     // inputs of a group
};
std::uint64_t VmacCycles(const TargetModel& target, const VmacVertex& vertex, const KernelShape& kernel,
                         const AmpField& field);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_PRODUCT_VERTEX_COST_H_
