#include "operations/convolution/convolution_cost.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/host/integer_division.h"
#include "operations/product/amp_cost.h"
#include "operations/product/product_cost.h"
#include "operations/product/vertex_cost.h"

namespace ipu_model {
namespace {

using Int = std::int64_t;
using Work = ConvolutionWork;

// Returns the cycles of one multiply-add on `width` lanes. 32-bit integers: the multiply and add of the
// elementwise cost table. Types that the processor lacks are computed in software.
Int ScalarStepCycles(DType type) {
  switch (type) {
    case DType::kC64:
      return 8;
    case DType::kF64:
      return 60;
    case DType::kC128:
      return 240;
    default:
      return SizeOf(type) == 8 ? 30 : 14;
  }
}

Int ScalarCycles(const TargetModel& target, DType type, const Work& work) {
  constexpr Int kCyclesPerOutput = 8;  // addressing, rounding and store
  const Int outputs = work.groups * work.features * work.positions();
  return target.supervisor_overhead +
         outputs * (work.channels * work.taps() * ScalarStepCycles(type) + kCyclesPerOutput);
}

// A convolution with some kernel dimensions folded into its input channels: PopLibs' expandDims, which reads
// the input of every kernel position as a channel of its own (lib/poplin/ConvModel.cpp, expandDim).
struct Folded {
  std::array<Int, 3> kernel;
  Int channels, all_channels, folded_taps = 1;
  AmpField field;
  bool one_row = false;  // a 1x1 vertex can take the outputs
  bool folds = false;
};

// Dimensions whose kernel is one position are joined with the batch to one long row
// (calculateFlattenedParams). A dilated input is only read at some of the outputs of a kernel position
// (partitionConvPartialByWorker).
Folded Fold(const Work& work, unsigned folds) {
  Folded f{};
  f.channels = work.channels;
  f.all_channels = work.all_channels;
  f.folds = folds != 0;
  int inner = -1;
  std::array<Int, 3> out{};
  std::array<bool, 3> flat{};
  bool same_steps = true;
  for (std::size_t d = 0; d < 3; ++d) {
    const Work::Dim& dim = work.dims[d];
    const bool folded = (folds >> d & 1) != 0;
    f.kernel[d] = folded ? 1 : dim.kernel;
    if (folded) {
      f.channels *= dim.kernel;
      f.all_channels *= work.all_kernel[d];
      f.folded_taps *= work.all_kernel[d];
    }
    const Int step = folded ? 1 : dim.lhs_dilation / std::gcd(dim.lhs_dilation, dim.stride);
    out[d] = CeilDivide(dim.out, step);
    flat[d] = folded || dim.flattens;
    if (flat[d]) inner = static_cast<int>(d);
    same_steps = same_steps && (folded || dim.stride == dim.lhs_dilation);
  }
  Int batch = work.batch;
  if (inner >= 0) {
    for (int d = 0; d < inner; ++d) {
      if (!flat[static_cast<std::size_t>(d)]) continue;
      batch *= out[static_cast<std::size_t>(d)];
      out[static_cast<std::size_t>(d)] = 1;
    }
    out[static_cast<std::size_t>(inner)] *= batch;
    batch = 1;
  }
  f.field = {batch * out[0] * out[1], out[2]};
  f.one_row = f.kernel[0] * f.kernel[1] * f.kernel[2] == 1 && same_steps && f.field.rows == 1 &&
              (inner >= 0 || work.all_batch == 1);
  return f;
}

// Cycles of rearranging operands and result in PopLibs' planner (addTransformCycleEstimate): if kernel
// dimensions are folded, or if channels are padded to whole groups of inputs or outputs.
Int TransformCycles(const TargetModel& target, DType type, const Work& work, const Folded& f, Int input_group,
                    Int output_group) {
  const bool folds = f.folds;
  const bool pads_inputs = f.all_channels % input_group != 0;
  const bool pads_outputs = work.all_features % output_group != 0;
  if (!folds && !pads_inputs && !pads_outputs) return 0;
  const Int inputs = CeilDivide(f.all_channels, input_group) * input_group;
  const Int outputs = CeilDivide(work.all_features, output_group) * output_group;
  const Int channels = f.all_channels * work.all_features;
  const auto move = [&](Int elements, Int dim_size) {
    return static_cast<Int>(
        RearrangeCycles(target, type, CeilDivide(elements * work.all_groups, work.tiles), dim_size));
  };
  const Int positions = work.all_batch * work.all_out[0] * work.all_out[1] * work.all_out[2];
  Int cycles = 0;
  if (folds) {
    cycles += move(positions * inputs, channels);
    // The tile receives the input of every kernel position that it folds.
    const Int expanded = work.groups * f.field.rows * f.field.row_positions * f.channels;
    cycles += std::max<Int>(0, expanded - work.input_elements) * static_cast<Int>(SizeOf(type)) /
              target.exchange_bytes_per_cycle;
  } else if (pads_inputs) {
    cycles += move(work.all_inputs * inputs / std::max<Int>(1, work.all_channels), channels);
  }
  cycles +=
      move(work.all_kernel[0] * work.all_kernel[1] * work.all_kernel[2] / f.folded_taps * inputs * outputs,
           channels);
  if (pads_outputs) cycles += move(positions * outputs, work.all_features);
  return cycles;
}

class Chooser {
 public:
  Chooser(const TargetModel& target, DType type, bool half_partials, const Work& work)
      : target_(target), type_(type), half_partials_(half_partials), work_(work) {}

  ConvolutionChoice Best() {
    if (target_.AmpMacsPerCycle(type_) == 0) {
      best_ = {ConvolutionCodelet::kScalar, static_cast<std::uint64_t>(ScalarCycles(target_, type_, work_)),
               work_.taps(), 0};
      return best_;
    }
    unsigned foldable = 0;
    // PopLibs does not fold kernels that are larger than the input.
    for (unsigned d = 0; d < 3; ++d) {
      const Work::Dim& dim = work_.dims[d];
      const Int taps = work_.all_kernel[d];
      if (dim.folds && taps > 0 && (taps > 1 || dim.stride > 1)) foldable |= 1u << d;
    }
    for (unsigned folds = 0; folds < 8; ++folds) {
      if ((folds & ~foldable) == 0) Amp(Fold(work_, folds));
    }
    Slic();
    if (SizeOf(type_) == 1) return best_;
    Hmac();
    Vmac();
    OuterProduct();
    return best_;
  }

 private:
  // `moves`: of the copy of a folded input. PopLibs' planner knows what that moves, not what it costs to
  // call.
  void Offer(ConvolutionCodelet codelet, Int cycles, Int kernel_positions, Int moves = 0) {
    if (cycles + moves >= least_) return;
    least_ = cycles + moves;
    const Int copy = moves > 0 ? moves + Int{target_.local_copy_call_cycles} : 0;
    best_ = {codelet, static_cast<std::uint64_t>(std::max<Int>(0, cycles)), kernel_positions,
             static_cast<std::uint64_t>(copy)};
  }

  void Amp(const Folded& f) {
    const bool float_partials = !half_partials_ && SizeOf(type_) > 1;
    const Int units = target_.AmpUnits(type_, float_partials);
    for (Int height = 1; height <= 4; height *= 2) {
      // Several kernel rows share the input channels of a pass, where there are few.
      if (height > 1 && (f.kernel[0] == 1 || f.all_channels > target_.AmpInputGroup(type_) / height))
        continue;
      for (const Int used : {units, Int{8}}) {
        if (used != units && (used > units || work_.features > used || SizeOf(type_) == 1)) continue;
        AmpMethod method;
        method.operand = type_;
        method.float_partials = float_partials;
        method.units = used;
        method.filter_height = height;
        const Int input_group = method.InputGroup(target_);
        const AmpGroups groups{work_.groups, CeilDivide(f.channels, input_group),
                               CeilDivide(work_.features, used)};
        Int transform = TransformCycles(target_, type_, work_, f, input_group, used), moves = 0;
        // PopLibs copies an input whose kernel positions become channels, before the tiles receive their
        // parts (lib/poplin/Convolution.cpp, rearrangeActs).
        if (f.folds) moves = std::exchange(transform, 0);
        if (f.one_row && height == 1) {
          Offer(ConvolutionCodelet::kAmp1x1,
                transform + static_cast<Int>(Amp1x1Cycles(target_, method, groups, f.field.row_positions)), 1,
                moves);
        } else {
          Offer(ConvolutionCodelet::kAmpNx1,
                transform +
                    static_cast<Int>(AmpNx1Cycles(target_, method, groups, CeilDivide(f.kernel[0], height),
                                                  f.kernel[1] * f.kernel[2], f.field)),
                f.kernel[0] * f.kernel[1] * f.kernel[2], moves);
        }
        if (used == Int{8}) break;
      }
    }
  }

  KernelShape Kernel() const { return {work_.dims[0].kernel * work_.dims[1].kernel, work_.dims[2].kernel}; }

  void Slic() {
    for (const Work::Dim& dim : work_.dims) {
      if (!dim.plain || dim.lhs_dilation != 1) return;
    }
    if (SizeOf(type_) > 2 || work_.dims[2].stride > 2) return;
    const Folded plain = Fold(work_, 0);
    const bool quarter = SizeOf(type_) == 1;
    for (const Int channels : {1, 2, 4, 8}) {
      if (work_.channels > channels || work_.features > channels || quarter != (channels == 8)) continue;
      const Int per_group = quarter ? 1 : 4 / channels;
      const SlicVertex vertex{per_group, CeilDivide(work_.groups, per_group), work_.dims[2].stride, quarter};
      Offer(ConvolutionCodelet::kSlic,
            TransformCycles(target_, type_, work_, plain, channels, channels) +
                static_cast<Int>(SlicCycles(target_, vertex, Kernel(), plain.field)),
            work_.taps());
    }
  }

  void Hmac() {
    const Folded plain = Fold(work_, 0);
    const bool half = SizeOf(type_) == 2;
    const HmacVertex vertex{half, work_.groups, work_.channels, work_.features, plain.one_row};
    Offer(ConvolutionCodelet::kHorizontalMac,
          TransformCycles(target_, type_, work_, plain, half ? 2 : 1, 1) +
              static_cast<Int>(HmacCycles(target_, vertex, Kernel(), plain.field)),
          work_.taps());
  }

  void Vmac() {
    if (SizeOf(type_) != 2 || work_.features != 1) return;
    const Folded plain = Fold(work_, 0);
    const VmacVertex vertex{CeilDivide(work_.groups, 4), work_.channels};
    Offer(ConvolutionCodelet::kVerticalMac,
          static_cast<Int>(VmacCycles(target_, vertex, Kernel(), plain.field)), work_.taps());
  }

  // PopLibs: addOuterProductConstraints, and getConvVertexOuterProductCandidates: products in the operands'
  // type, so a narrower type than that of the sums has nothing to add up.
  void OuterProduct() {
    if (work_.channels != 1 || work_.batch != 1 || work_.taps() != 1) return;
    for (const Work::Dim& dim : work_.dims) {
      const bool missing = !dim.folds && dim.out == 1;
      if (!dim.plain || !(dim.flattens || missing)) return;
    }
    if (work_.dims[0].out != 1 || work_.dims[1].out != 1) return;
    const Int taps = work_.all_kernel[0] * work_.all_kernel[1] * work_.all_kernel[2];
    if (SizeOf(type_) == 2 && !half_partials_ && (work_.all_channels != 1 || taps != 1)) return;
    Offer(ConvolutionCodelet::kOuterProduct,
          static_cast<Int>(OuterProductCycles(target_, SizeOf(type_) > 2, work_.dims[2].out,
                                              work_.features * work_.groups)),
          1);
  }

  const TargetModel& target_;
  const DType type_;
  const bool half_partials_;
  const Work& work_;
  ConvolutionChoice best_;
  Int least_ = std::numeric_limits<Int>::max();  // of the choice, with its copy
};

}  // namespace

ConvolutionChoice ChooseCodelet(const TargetModel& target, DType type, bool half_partials, const Work& work) {
  return Chooser(target, type, half_partials, work).Best();
}

std::uint64_t ReducePartialsCycles(const TargetModel& target, DType type, DType out, std::int64_t parts,
                                   std::int64_t elements) {
  return PartialSumCycles(target, type, out, parts, elements);
}

}  // namespace ipu_model
