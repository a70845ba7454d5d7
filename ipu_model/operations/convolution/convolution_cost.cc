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

Int InGroups(Int channels, Int group) { return CeilDivide(channels, group) * group; }

// What rearranging operands and result takes in PopLibs' planner.
struct Transform {
  Int cycles = 0;
  double bytes = 0;  // of temporary memory on a tile
};

// PopLibs: addTransformCycleEstimate. Operands and result are rearranged if kernel dimensions are folded, or
// if channels are padded to whole groups of inputs or outputs; the result also if its groups are not those
// that the next layer is expected to read. A gradient of weights always rearranges all three: it sums over
// the batch, so that what are batches in the other two products of a step are its input channels.
Transform TransformOf(const TargetModel& target, DType type, const Work& work, const Folded& f,
                      Int input_group, Int output_group) {
  const bool folds = f.folds, update = work.weight_update;
  const bool pads_inputs = f.all_channels % input_group != 0;
  const bool pads_outputs = work.all_features % output_group != 0;
  const Int inputs = InGroups(f.all_channels, input_group);
  const Int outputs = InGroups(work.all_features, output_group);
  const Int channels = f.all_channels * work.all_features;
  const Int positions = work.all_batch * work.all_out[0] * work.all_out[1] * work.all_out[2];
  Transform transform;
  const auto on_tile = [&](Int elements) {
    const Int each = CeilDivide(elements * work.all_groups, work.tiles);
    // Source and copy are live at the same time.
    transform.bytes = std::max(transform.bytes, 2.0 * static_cast<double>(each) * SizeOf(type));
    return each;
  };
  const auto move = [&](Int elements, Int dim_size) {
    return static_cast<Int>(RearrangeCycles(target, type, on_tile(elements), dim_size));
  };
  if (folds) {
    transform.cycles += move(positions * inputs, channels);
    // The tile receives the input of every kernel position that it folds.
    const Int expanded = work.groups * f.field.rows * f.field.row_positions * f.channels;
    transform.cycles += std::max<Int>(0, expanded - work.input_elements) * static_cast<Int>(SizeOf(type)) /
                        target.exchange_bytes_per_cycle;
  } else if (pads_inputs || update) {
    transform.cycles += move(work.all_inputs * inputs / std::max<Int>(1, work.all_channels), channels);
  }
  if (folds || pads_inputs || pads_outputs || update) {
    const Int taps = work.all_kernel[0] * work.all_kernel[1] * work.all_kernel[2] / f.folded_taps;
    transform.cycles += move(taps * inputs * outputs, channels);
  }
  if (pads_outputs || update) {
    transform.cycles += move(positions * outputs, work.all_features);
  } else if (output_group != target.AmpInputGroup(type)) {
    const Int each = on_tile(positions * outputs);
    transform.cycles += RegroupCycles(target, type, each, work.all_features, output_group);
  }
  return transform;
}

class Chooser {
 public:
  Chooser(const TargetModel& target, DType type, bool half_partials, const Work& work)
      : target_(target), type_(type), half_partials_(half_partials), work_(work) {}

  ConvolutionChoice Best() {
    if (target_.AmpMacsPerCycle(type_) == 0) {
      best_ = {ConvolutionCodelet::kScalar,
               static_cast<std::uint64_t>(ScalarCycles(target_, type_, work_)),
               work_.taps(),
               0,
               0,
               0,
               0,
               0};
      return best_;
    }
    unsigned foldable = 0;
    // PopLibs does not fold kernels that are larger than the input.
    for (unsigned d = 0; d < 3; ++d) {
      const Work::Dim& dim = work_.dims[d];
      const Int taps = work_.all_kernel[d];
      if (dim.folds && taps > 0 && (taps > 1 || dim.stride > 1)) foldable |= 1u << d;
    }
    // PopLibs divides the innermost kernel dimension as input channels only.
    constexpr unsigned kInner = 4;
    const bool inner_split = work_.dims[2].kernel < work_.all_kernel[2] && (foldable & kInner) != 0;
    for (unsigned folds = inner_split ? kInner : 0; folds < 8; ++folds) {
      if ((folds & ~foldable) == 0) Amp(Fold(work_, folds));
    }
    if (inner_split) return best_;
    Slic();
    if (SizeOf(type_) == 1) return best_;
    Hmac();
    Vmac();
    OuterProduct();
    return best_;
  }

 private:
  // What PopLibs' planner knows of a method beside its cycles.
  struct Method {
    ConvolutionCodelet codelet;
    Int input_group = 1, output_group = 1;  // channels
    Int group_group = 1;                    // convolution groups that a vertex computes together
    DType partial = DType::kF32;
    Int kernel_positions = 1;
    Transform transform = {};
  };

  // `cycles`: of the vertex.
  void Offer(const Method& m, const Folded& f, std::uint64_t cycles) {
    double input_bytes = 0;
    const double convolution_bytes = ConvolutionBytes(m, f, &input_bytes);
    const double bytes = std::max(m.transform.bytes, convolution_bytes);
    const double doublings = Doublings(bytes);
    // PopLibs copies an input whose kernel positions become channels, before the tiles receive their parts
    // (lib/poplin/Convolution.cpp, rearrangeActs). Its planner knows what that moves, not what it costs to
    // call.
    const Int moves = f.folds ? m.transform.cycles : 0;
    const Int total = static_cast<Int>(cycles) + m.transform.cycles;
    if (std::make_pair(doublings, total) >= least_) return;
    least_ = {doublings, total};
    const Int copy = moves > 0 ? moves + Int{target_.local_copy_call_cycles} : 0;
    best_ = {m.codelet,
             static_cast<std::uint64_t>(std::max<Int>(0, total - moves)),
             m.kernel_positions,
             static_cast<std::uint64_t>(copy),
             bytes,
             m.transform.bytes,
             convolution_bytes,
             input_bytes};
  }

  // How often the planner doubles its memory until the method fits (lib/poplin/ConvPlan.cpp, minimizeMemory):
  // up to twice a tile's, then it has no bound.
  double Doublings(double bytes) const {
    double doublings = 0;
    for (double bound = work_.most_temporary_bytes; bytes > bound; bound *= 2) {
      ++doublings;
      if (bound >= 2.0 * target_.bytes_per_tile) break;
    }
    return doublings;
  }

  // PopLibs: addConvTempMemoryEstimate. Without the zeros around a tile's input, which are few.
  double ConvolutionBytes(const Method& m, const Folded& f, double* input_bytes) const {
    const Int groups = InGroups(work_.groups, m.group_group);
    const Int inputs = InGroups(f.channels, m.input_group);
    const Int outputs = InGroups(work_.features, m.output_group);
    const Int field = f.folds ? f.field.rows * f.field.row_positions
                              : work_.input_elements / std::max<Int>(1, work_.groups * work_.channels);
    const Int taps = f.kernel[0] * f.kernel[1] * f.kernel[2];
    const double partials = static_cast<double>(groups * outputs * work_.positions()) * SizeOf(m.partial);
    *input_bytes = static_cast<double>(groups * inputs * field) * SizeOf(type_);
    double bytes =
        *input_bytes + static_cast<double>(groups * inputs * taps * outputs) * SizeOf(type_) + partials;
    if (m.codelet == ConvolutionCodelet::kSlic) {
      constexpr double kSlicBytes = 200;
      bytes += partials * static_cast<double>(m.group_group) / static_cast<double>(groups) + kSlicBytes;
    }
    return bytes;
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
        // A group may have the outputs of two passes, so that the next layer finds them as it wants its
        // inputs.
        for (const Int passes : {Int{1}, target_.AmpInputGroup(type_) / used}) {
          AmpMethod method;
          method.operand = type_;
          method.float_partials = float_partials;
          method.units = used;
          method.passes = std::max<Int>(1, passes);
          method.filter_height = height;
          if (used == units || method.passes == 1) AmpOf(f, method);
          if (passes <= 1 || SizeOf(type_) == 1) break;
        }
        if (used == Int{8}) break;
      }
    }
  }

  void AmpOf(const Folded& f, const AmpMethod& method) {
    const Int input_group = method.InputGroup(target_), output_group = method.OutputGroup();
    const AmpGroups groups{work_.groups, CeilDivide(f.channels, input_group),
                           CeilDivide(work_.features, output_group)};
    Method m{ConvolutionCodelet::kAmp1x1, input_group, output_group};
    m.partial = method.float_partials ? DType::kF32 : DType::kF16;
    m.transform = TransformOf(target_, type_, work_, f, input_group, output_group);
    if (f.one_row && method.filter_height == 1) {
      Offer(m, f, Amp1x1Cycles(target_, method, groups, f.field.row_positions));
      return;
    }
    m.codelet = ConvolutionCodelet::kAmpNx1;
    m.kernel_positions = f.kernel[0] * f.kernel[1] * f.kernel[2];
    Offer(m, f,
          AmpNx1Cycles(target_, method, groups, CeilDivide(f.kernel[0], method.filter_height),
                       f.kernel[1] * f.kernel[2], f.field));
  }

  KernelShape Kernel() const { return {work_.dims[0].kernel * work_.dims[1].kernel, work_.dims[2].kernel}; }

  // Returns a method without folded dimensions.
  Method Plain(ConvolutionCodelet codelet, const Folded& f, Int input_group, Int output_group,
               Int group_group) const {
    Method m{codelet, input_group, output_group, group_group};
    m.kernel_positions = work_.taps();
    m.transform = TransformOf(target_, type_, work_, f, input_group, output_group);
    return m;
  }

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
      Offer(Plain(ConvolutionCodelet::kSlic, plain, channels, channels, per_group), plain,
            SlicCycles(target_, vertex, Kernel(), plain.field));
    }
  }

  void Hmac() {
    const Folded plain = Fold(work_, 0);
    const bool half = SizeOf(type_) == 2;
    const HmacVertex vertex{half, work_.groups, work_.channels, work_.features, plain.one_row};
    Offer(Plain(ConvolutionCodelet::kHorizontalMac, plain, half ? 2 : 1, 1, 1), plain,
          HmacCycles(target_, vertex, Kernel(), plain.field));
  }

  void Vmac() {
    if (SizeOf(type_) != 2 || work_.features != 1) return;
    const Folded plain = Fold(work_, 0);
    const VmacVertex vertex{CeilDivide(work_.groups, 4), work_.channels};
    Method m{ConvolutionCodelet::kVerticalMac, 1, 1, 4};
    m.kernel_positions = work_.taps();
    if (work_.weight_update) m.transform = TransformOf(target_, type_, work_, plain, 1, 1);
    Offer(m, plain, VmacCycles(target_, vertex, Kernel(), plain.field));
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
    Method m{ConvolutionCodelet::kOuterProduct, 1, 1, 1};
    m.partial = type_;
    const Folded plain = Fold(work_, 0);
    if (work_.weight_update) m.transform = TransformOf(target_, type_, work_, plain, 1, 1);
    Offer(m, plain,
          OuterProductCycles(target_, SizeOf(type_) > 2, work_.dims[2].out, work_.features * work_.groups));
  }

  const TargetModel& target_;
  const DType type_;
  const bool half_partials_;
  const Work& work_;
  ConvolutionChoice best_;
  // Doublings of the memory and cycles of the choice, with its copy.
  std::pair<double, Int> least_ = {std::numeric_limits<double>::infinity(), 0};
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
