// Cycles and memory of one tile's part of a convolution.
#ifndef IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_COST_H_
#define IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_COST_H_

#include <array>
#include <cstdint>
#include <limits>

#include "core/target/target_model.h"

namespace ipu_model {

// The products of one vertex: `groups` convolution groups with `features` outputs and `channels` inputs each.
struct ConvolutionWork {
  // One dimension of the field and of the kernel.
  struct Dim {
    std::int64_t out = 1, kernel = 1;
    std::int64_t stride = 1, lhs_dilation = 1;
    bool plain = true;      // neither dilated nor reversed
    bool flattens = false;  // the kernel is one position on unpadded input, so rows can be joined
    bool folds = false;     // the kernel is no larger than the input, so it may become input channels
  };
  std::int64_t groups = 1, features = 1, channels = 1, batch = 1;
  std::array<Dim, 3> dims;          // outermost first; a missing one has extent 1
  std::int64_t input_elements = 0;  // of the region that the vertex reads
  // The temporary memory that the plan should do with, in bytes (PopLibs: getTileTempMemoryBound).
  double most_temporary_bytes = std::numeric_limits<double>::infinity();

  // The sizes of the whole convolution, per group, and how many tiles share it: for rearrangements.
  std::int64_t all_groups = 1, all_features = 1, all_channels = 1, all_batch = 1, all_inputs = 0, tiles = 1;
  std::array<std::int64_t, 3> all_out = {1, 1, 1}, all_kernel = {1, 1, 1};
  // Whether it computes the gradient of weights (PopLibs: Pass::TRAINING_WU).
  bool weight_update = false;

  std::int64_t taps() const { return dims[0].kernel * dims[1].kernel * dims[2].kernel; }
  std::int64_t positions() const { return batch * dims[0].out * dims[1].out * dims[2].out; }
};

// PopLibs' vertices, and multiply-adds for types that none of them takes. PopLibs' planner has no Winograd
// method, and its Winograd codelets have no estimate (lib/poplin/codelets.cpp: "not currently supported").
enum class ConvolutionCodelet {
  kAmp1x1,
  kAmpNx1,
  kSlic,
  kHorizontalMac,
  kVerticalMac,
  kOuterProduct,
  kScalar
};
inline bool IsMatrixUnit(ConvolutionCodelet codelet) {
  return codelet == ConvolutionCodelet::kAmp1x1 || codelet == ConvolutionCodelet::kAmpNx1;
}

struct ConvolutionChoice {
  ConvolutionCodelet codelet = ConvolutionCodelet::kScalar;
  std::uint64_t cycles = 0;
  std::int64_t kernel_positions = 1;  // that have work lists: without those that became input channels
  // Cycles of a superstep before, in which the input is copied so that kernel positions become channels; 0
  // without one.
  std::uint64_t copy_cycles = 0;
  // Temporary memory of a tile, as PopLibs' planner counts it: operands and partial sums in whole groups of
  // channels, or twice what is rearranged, where that is more.
  double temporary_bytes = 0;
  // temporary_bytes is the larger of these two: rearranged data; operands and partial sums. input_bytes: the
  // input's part of the latter.
  double transform_bytes = 0, convolution_bytes = 0, input_bytes = 0;
};

// Returns the codelet that PopLibs' planner finds cheapest among those that do with the work's temporary
// memory, with the tile cycles of all six workers together and of the rearrangement of operands and result
// that it needs, and those of the copy of a folded input. If none does, as PopLibs' planner: with twice the
// memory, and twice that again, and with any in the end. Kernel dimensions become input channels (expandDims)
// if that pays. half_partials: of the AMP; the other codelets have float ones.
ConvolutionChoice ChooseCodelet(const TargetModel& target, DType type, bool half_partials,
                                const ConvolutionWork& work);
// Tile cycles of a vertex that adds `parts` partial sums of `elements` values each.
std::uint64_t ReducePartialsCycles(const TargetModel& target, DType type, DType out, std::int64_t parts,
                                   std::int64_t elements);

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_CONVOLUTION_CONVOLUTION_COST_H_
