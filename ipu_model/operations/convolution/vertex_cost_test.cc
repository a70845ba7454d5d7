// Our closed forms against PopLibs' estimators (lib/poplin/PerformanceEstimation.hpp), which are written here
// as their source has them, with one work list for each worker. With MODEL_ACCURACY_TABLE set, prints rows of
// docs/model_accuracy.md.
#include "operations/product/vertex_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "check.h"
#include "core/target/target_model.h"
#include "operations/convolution/convolution_cost.h"
#include "testing/vertex_comparison.h"

namespace ipu_model {
namespace {

constexpr unsigned kWorkers = 6;
unsigned Ceil(unsigned a, unsigned b) { return (a + b - 1) / b; }

std::vector<std::vector<unsigned>> Grid(unsigned rows, unsigned width) {
  std::vector<std::vector<unsigned>> lists;
  for (unsigned i = 0; i < kWorkers; ++i) {
    lists.emplace_back();
    const unsigned end = (i + 1) * rows * width / kWorkers;
    for (unsigned at = i * rows * width / kWorkers; at < end;) {
      const unsigned row_end = std::min((at / width + 1) * width, end);
      lists.back().push_back(row_end - at);
      at = row_end;
    }
  }
  return lists;
}

struct Field {
  unsigned rows, width;
};
const std::vector<Field> kFields = {{1, 1},   {1, 3},  {2, 2},  {4, 7},    {7, 7},
                                    {14, 14}, {3, 56}, {28, 1}, {112, 112}};

double Brnzdec(unsigned n) { return 6.0 * (n - 1) + 1; }

double SlicInner(const Field& f, unsigned stride, bool implicit_zeroing) {
  double most = 0;
  for (const auto& list : Grid(f.rows, f.width)) {
    double cycles = 2 + 3 + 1 + 2 + 4 + 2 + 2 + 1;
    for (const unsigned n : list) {
      cycles += 10 + (implicit_zeroing ? 1 : 0);
      double row = 0;
      if (stride == 1) {
        if (n < 5) {
          if (implicit_zeroing)
            row = 10 + (n > 1 ? n : 0) + 3;
          else
            row = 7 + (n == 1 ? 6 : 1 + (n - 1) + 2 + (4 - n) + 2 + (3 - (4 - n)) + 3);
        } else {
          row = 15 + (n - 5);
        }
      } else {
        row = n < 3 ? 7 + (n == 1 ? 3 : 5) + 3 : 15 + 2 * (n - 3);
      }
      row -= 1;
      cycles += 3 + row * 2;
    }
    most = std::max(most, cycles);
  }
  return most * kWorkers;
}

double Slic(unsigned groups_per_group, unsigned conv_groups, unsigned kernel_others, unsigned kernel_width,
            const Field& f, unsigned stride) {
  double load = 16;
  if (groups_per_group == 1)
    load += 6 + 6 + 6;
  else
    load += 9 + 6 + (groups_per_group == 2 ? 12 : 10) * kWorkers + 6;
  const unsigned blocks = Ceil(kernel_width, 4) * kernel_others;
  const double body = load + 3 + 2 + 1 + 6 + 1 + 6 + 1;
  return 28 + (15.0 * conv_groups + Brnzdec(conv_groups)) + (body * blocks + Brnzdec(blocks)) +
         (conv_groups * SlicInner(f, stride, true) +
          conv_groups * (blocks - 1.0) * SlicInner(f, stride, false));
}

double SlicInnerQuarter(const Field& f, unsigned stride, bool implicit_zeroing) {
  double most = 0;
  for (const auto& list : Grid(f.rows, f.width)) {
    double cycles = 20;
    for (const unsigned n : list) {
      cycles += 24;
      double row = 0;
      if (stride == 1 && implicit_zeroing) {
        const std::array<unsigned, 5> few = {0, 3, 5, 9, 10};
        row = n < 5 ? 8 + few[n] : 14 + (n - 5);
      } else if (stride == 1) {
        const std::array<unsigned, 5> few = {0, 8, 10, 13, 13};
        row = 18 + (n < 5 ? 2 + few[n] : 12 + (n - 5));
      } else {
        row = n < 3 ? 6 + (n == 1 ? 3 : 6) : 13 + 2 * (n - 3);
      }
      cycles += row * 2;
    }
    most = std::max(most, cycles);
  }
  return most * kWorkers;
}

double SlicQuarter(unsigned conv_groups, unsigned kernel_others, unsigned kernel_width, const Field& f,
                   unsigned stride) {
  const unsigned blocks = Ceil(kernel_width, 4) * kernel_others;
  const double call = kWorkers * 6, load = 32 + 6;
  return 43 + conv_groups *
                  (kWorkers * 13 + 15 +
                   (call + load + kWorkers * 6 + 12 + SlicInnerQuarter(f, stride, true) +
                    (blocks - 1.0) * (call + load + kWorkers * 5 + 8 + SlicInnerQuarter(f, stride, false))));
}

double Dot(bool half, unsigned size) {
  const unsigned acts = half ? 4 : 2;
  for (unsigned width = acts;; width /= 2) {
    if (size % width != 0) continue;
    return (1 + 2) + 3 + 1 + (width < acts ? 1 : 0) + size / width * (width >= acts ? 1.0 : 2.0) -
           (half ? 1 : 0);
  }
}

double Hmac(bool half, unsigned groups, unsigned channels, unsigned features, unsigned kernel, const Field& f,
            bool use1x1) {
  const unsigned split = kWorkers / std::gcd(kWorkers, f.rows), most = Ceil(f.rows * split, kWorkers);
  std::vector<unsigned> sizes(most / split, f.width);
  if (most % split != 0) sizes.push_back(most % split * (f.width + split - 1) / split);
  double worker = 16;
  for (unsigned k = 0; k < kernel; ++k) {
    worker += 16 - (use1x1 ? 15 : half ? 6 : 0);
    for (const unsigned size : sizes) {
      if (size == 0)
        worker += 7;
      else
        worker += (use1x1 ? 13 : 19) +
                  (use1x1 ? 1 + size * (2 + Dot(half, channels)) : size * (7 + Dot(half, channels)));
    }
  }
  const double zero =
      use1x1 ? 0
             : (Ceil(Ceil(f.rows * f.width, kWorkers), 2) + 14 - 9) * double{kWorkers} * features * groups;
  return zero + (half ? 65 : 58) - (use1x1 ? 10 : 0) + kWorkers * 9 + kWorkers * (use1x1 ? 15 : 0) +
         groups * (23 + (15 + features * (10 + kWorkers * worker)));
}

double Vmac(unsigned conv_groups, unsigned channels, unsigned kernel_others, unsigned kernel_width,
            const Field& f) {
  const unsigned outputs = f.rows * f.width, split = kWorkers / std::gcd(kWorkers, outputs);
  const unsigned most = Ceil(outputs * split, kWorkers);
  double worker = 19;
  const auto add = [&](unsigned size) { worker += 7 + 5 + 3 + 2 * (size - 1.0); };
  for (unsigned k = 0; k < kernel_others; ++k) {
    for (unsigned r = 0; r < most / split; ++r) add(kernel_width);
    for (unsigned r = 0; r < most % split; ++r) add(Ceil(kernel_width, split));
  }
  const double zero = 4 + Ceil(outputs, 2);
  const double reduce = 10 - 1 + (7 + 2 + 2 * (kWorkers - 1)) * Ceil(outputs, kWorkers) / 4;
  return 61 + 14 + 25 + 1 + (zero + 32 + channels * (24 + kWorkers * worker) + reduce) * conv_groups;
}

constexpr double kTolerance = 0.001;

TEST(SlicEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  Comparison comparison("poplin::ConvPartial1xNSLIC<half,float>", kTolerance);
  for (const unsigned per_group : {1u, 2u, 4u})
    for (const unsigned conv_groups : {1u, 5u})
      for (const auto& [others, width] : std::vector<std::array<unsigned, 2>>{{1, 3}, {3, 3}, {7, 7}})
        for (const unsigned stride : {1u, 2u})
          for (const Field& f : kFields)
            comparison.Add(
                SlicCycles(target, {per_group, conv_groups, stride}, {others, width}, {f.rows, f.width}),
                Slic(per_group, conv_groups, others, width, f, stride));
}

TEST(QuarterSlicEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu21");
  Comparison comparison("poplin::ConvPartial1xNSLIC<quarter,half>", kTolerance);
  for (const unsigned conv_groups : {1u, 5u})
    for (const auto& [others, width] : std::vector<std::array<unsigned, 2>>{{1, 3}, {3, 3}, {7, 7}})
      for (const unsigned stride : {1u, 2u})
        for (const Field& f : kFields)
          comparison.Add(
              SlicCycles(target, {1, conv_groups, stride, true}, {others, width}, {f.rows, f.width}),
              SlicQuarter(conv_groups, others, width, f, stride));
}

TEST(HorizontalMacEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const bool half : {false, true}) {
    Comparison comparison(
        std::string("poplin::ConvPartialHorizontalMac<") + (half ? "half,float>" : "float,float>"),
        kTolerance);
    for (const unsigned channels : {2u, 4u, 6u, 30u, 64u})
      for (const unsigned features : {1u, 3u})
        for (const unsigned kernel : {1u, 9u})
          for (const Field& f : kFields)
            comparison.Add(
                HmacCycles(target, {half, 2, channels, features, half && kernel == 1 && f.rows == 1},
                           {1, kernel}, {f.rows, f.width}),
                Hmac(half, 2, channels, features, kernel, f, half && kernel == 1 && f.rows == 1));
  }
}

TEST(VerticalMacEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  Comparison comparison("poplin::ConvPartialVerticalMac<half,float>", kTolerance);
  for (const unsigned conv_groups : {1u, 4u})
    for (const unsigned channels : {1u, 2u})
      for (const auto& [others, width] : std::vector<std::array<unsigned, 2>>{{1, 3}, {3, 3}, {5, 5}})
        for (const Field& f : kFields)
          comparison.Add(VmacCycles(target, {conv_groups, channels}, {others, width}, {f.rows, f.width}),
                         Vmac(conv_groups, channels, others, width, f));
}

ConvolutionWork WorkOfKernel(std::int64_t channels, std::int64_t features, std::int64_t kernel,
                             std::int64_t size, std::int64_t groups = 1) {
  ConvolutionWork work;
  work.groups = work.all_groups = groups;
  work.features = work.all_features = features;
  work.channels = work.all_channels = channels;
  work.input_elements = groups * channels * (size + kernel - 1) * (size + kernel - 1);
  work.all_inputs = channels * (size + kernel - 1) * (size + kernel - 1);
  for (const std::size_t d : {0, 2}) {
    work.dims[d].out = work.all_out[d] = size;
    work.dims[d].kernel = work.all_kernel[d] = kernel;
    work.dims[d].flattens = kernel == 1;
    work.dims[d].folds = true;
  }
  return work;
}

// The codelets that PopLibs' planner takes: the AMP for many channels, SLIC for groups of 4, and the vertical
// multiply-accumulates or SLIC for depthwise convolutions.
TEST(Choices) {
  const TargetModel& target = FindTargetModel("ipu2");
  const auto choice = [&](DType type, const ConvolutionWork& work) {
    return ChooseCodelet(target, type, false, work).codelet;
  };
  CHECK(choice(DType::kF16, WorkOfKernel(64, 64, 1, 14)) == ConvolutionCodelet::kAmp1x1);
  CHECK(choice(DType::kF16, WorkOfKernel(64, 64, 3, 14)) == ConvolutionCodelet::kAmpNx1);
  CHECK(choice(DType::kF16, WorkOfKernel(4, 4, 3, 28)) == ConvolutionCodelet::kSlic);
  const ConvolutionCodelet depthwise = choice(DType::kF16, WorkOfKernel(1, 1, 3, 28, 32));
  CHECK(depthwise == ConvolutionCodelet::kSlic || depthwise == ConvolutionCodelet::kVerticalMac);
  CHECK(choice(DType::kS32, WorkOfKernel(4, 4, 3, 28)) == ConvolutionCodelet::kScalar);
  ConvolutionWork row = WorkOfKernel(1, 2, 1, 1);
  row.dims[2].out = row.all_out[2] = row.all_inputs = row.input_elements = 3;
  CHECK(choice(DType::kF32, row) == ConvolutionCodelet::kOuterProduct);
  row.channels = row.all_channels = 2;
  CHECK(choice(DType::kF32, row) != ConvolutionCodelet::kOuterProduct);
  const ConvolutionCodelet quarter =
      ChooseCodelet(FindTargetModel("ipu21"), DType::kF8E4M3FN, false, WorkOfKernel(8, 8, 3, 28)).codelet;
  CHECK(quarter == ConvolutionCodelet::kSlic);
}

// Few input channels do not pay for a whole group of the AMP in every kernel position: kernel positions
// become channels, or kernel rows share a pass.
TEST(FewChannelsAreFolded) {
  const TargetModel& target = FindTargetModel("ipu2");
  const ConvolutionWork few = WorkOfKernel(4, 64, 7, 14), many = WorkOfKernel(16, 64, 7, 14);
  CHECK(ChooseCodelet(target, DType::kF16, false, few).cycles * 2 <
        ChooseCodelet(target, DType::kF16, false, many).cycles);
}

// PopLibs copies the input then, in a superstep of its own.
TEST(AFoldedInputIsCopied) {
  const TargetModel& target = FindTargetModel("ipu2");
  const ConvolutionChoice plain = ChooseCodelet(target, DType::kF16, false, WorkOfKernel(64, 64, 1, 14));
  CHECK_EQ(plain.copy_cycles, 0u);
  const ConvolutionChoice folded = ChooseCodelet(target, DType::kF16, false, WorkOfKernel(3, 64, 7, 14));
  CHECK(folded.codelet == ConvolutionCodelet::kAmp1x1 && folded.kernel_positions == 1);
  CHECK(folded.copy_cycles > target.local_copy_call_cycles);
}

// The operands and the result of a gradient of weights are rearranged (PopLibs: addTransformCycleEstimate,
// isConvWeightUpdate), element by element: 5 / 4 cycles for each of two bytes, and an exchange.
TEST(GradientsOfWeightsAreRearranged) {
  const TargetModel& target = FindTargetModel("ipu2");
  ConvolutionWork work = WorkOfKernel(64, 64, 3, 14);
  const ConvolutionChoice plain = ChooseCodelet(target, DType::kF16, false, work);
  work.weight_update = true;
  const ConvolutionChoice update = ChooseCodelet(target, DType::kF16, false, work);
  CHECK(plain.codelet == update.codelet);
  const auto rearranged = [](std::uint64_t elements) {
    return Ceil(2 * elements * 5, 2 * 4) + Ceil(2 * elements, 4);
  };
  const std::uint64_t inputs = 64 * 16 * 16, weights = 64 * 64 * 9, results = 64 * 14 * 14;
  const std::uint64_t moved = rearranged(inputs) + rearranged(weights) + rearranged(results);
  // Without it, results in groups of 8 are regrouped, or take two passes in groups of 16.
  CHECK(update.cycles <= plain.cycles + moved);
  CHECK(update.cycles > plain.cycles + moved * 9 / 10);
}

}  // namespace
}  // namespace ipu_model
