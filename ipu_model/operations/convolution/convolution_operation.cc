#include "operations/convolution/convolution_operation.h"

#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "core/operation/operand_check.h"
#include "core/target/target_model.h"
#include "core/vertices/limits_buffers.h"
#include "operations/convolution/convolution_serial.h"
#include "operations/convolution/convolution_vertices.h"
#include "operations/readers.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

constexpr std::int64_t kLargestInteger = std::int64_t{1} << 40;

ConvolutionGeometry ReadGeometry(Reader& reader) {
  ConvolutionGeometry g;
  g.spatial = static_cast<int>(reader.ReadInteger(0, kMaxPlannedSpatial));
  for (int d = 0; d < g.spatial; ++d) {
    ConvolutionWindow& w = g.window[d];
    w.stride = reader.ReadInteger(1, kLargestInteger);
    w.padding_low = reader.ReadInteger(-kLargestInteger, kLargestInteger);
    w.lhs_dilation = reader.ReadInteger(1, kLargestInteger);
    w.rhs_dilation = reader.ReadInteger(1, kLargestInteger);
    w.reversed = reader.Read<bool>();
  }
  g.feature_groups = reader.ReadInteger(1, kLargestInteger);
  g.batch_groups = reader.ReadInteger(1, kLargestInteger);
  return g;
}

// inputs: lhs, rhs; outputs: the result.
class ConvolutionOperation : public Operation, public LimitsBuffers {
 public:
  // planned_bytes: the temporary memory that the split was planned for. weight_update: as in
  // ConvolutionProblem. target: null where a split stays as it is.
  ConvolutionOperation(const ConvolutionGeometry& geometry, ConvolutionSplit split, std::int64_t half_step,
                       std::int64_t planned_bytes, bool weight_update, std::int64_t buffer_limit,
                       const poplar::Target* target = nullptr)
      : geometry_(geometry),
        split_(std::move(split)),
        half_step_(half_step),
        planned_bytes_(planned_bytes),
        weight_update_(weight_update) {
    if (target != nullptr) target_ = *target;
    limit_ = buffer_limit;
  }

  std::string_view kind() const override { return "poplin::convolution"; }

  bool OperandsFit(unsigned num_tiles) const override {
    const auto spatial = static_cast<std::size_t>(geometry_.spatial);
    if (!HasOperands(*this, 2, 1)) return false;
    const Shape &lhs = inputs[0].shape, &rhs = inputs[1].shape, &out = outputs[0].shape;
    for (const Shape* shape : {&lhs, &rhs, &out}) {
      if (shape->size() != spatial + 2) return false;
    }
    CheckConvolutionTypes(inputs[0].type, inputs[1].type, outputs[0].type);
    const std::int64_t batch = geometry_.batch_groups, features = geometry_.feature_groups;
    if (batch > rhs[0] + 1 || features > rhs[0] + 1 || (batch > 1 && features > 1)) return false;
    bool fits = lhs[1] == rhs[1] * features && lhs[0] == out[0] * batch && rhs[0] == out[1] &&
                rhs[0] % (batch * features) == 0;
    Shape space = {out[0], out[1], rhs[1]};
    space.insert(space.end(), out.begin() + 2, out.end());
    space.insert(space.end(), rhs.begin() + 2, rhs.end());
    for (std::size_t d = 0; d < spatial; ++d) {
      const ConvolutionWindow& w = geometry_.window[d];
      fits = fits && IsModest({lhs[d + 2], w.lhs_dilation}) && IsModest({rhs[d + 2], w.rhs_dilation}) &&
             IsModest({out[d + 2] + 1, w.stride});
    }
    return fits && IsSplitOf(split_.grid, space, num_tiles) && CoversParts(Problem(), split_);
  }
  void Write(Writer& writer) const override {
    WriteGeometry(writer, geometry_);
    writer.Write(split_.grid);
    for (const SerialCut* cut : {&split_.serial.outputs, &split_.serial.sums}) {
      writer.Write(cut->dim);
      writer.Write(cut->steps);
      writer.Write(cut->size);
    }
    writer.Write(split_.serial.keeps_input);
    writer.Write(half_step_);
    writer.Write(planned_bytes_);
    writer.Write(weight_update_);
    writer.Write(limit_);
  }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    ConvolveWhole(Problem(), Limited(), context, in[0], in[1], out[0]);
  }

  TilePlan Plan(const DeviceContext& context) const override {
    return PlanConvolution(Problem(), Limited(), outputs[0], context);
  }

  double flops() const override {
    return Problem().multiply_adds() * (IsComplex(outputs[0].type) ? 8.0 : 2.0);
  }

 private:
  bool HasPlanFor(std::int64_t bytes) const override {
    const ConvolutionProblem problem = Problem();
    return NumElements(problem.out) == 0 || HasSerialSplit(problem, split_, static_cast<double>(bytes)) ||
           SplitWithin(bytes).has_value();
  }

  // Where the parts of the split are too large for any steps, another split takes its place.
  void PlanAgain() override {
    if (!is_lowered()) {
      std::tie(split_, half_step_) = *planned_;
      return;
    }
    if (!planned_) planned_.emplace(split_, half_step_);
    const ConvolutionProblem problem = Problem();
    if (NumElements(problem.out) == 0 || HasSerialSplit(problem, split_, static_cast<double>(limit_))) return;
    const std::optional<ConvolutionSplit> within = SplitWithin(limit_);
    if (!within) return;
    split_ = *within;
    if (!UsesMatrixUnit(problem, split_, target_->model())) half_step_ = 0;
  }

  std::optional<ConvolutionSplit> SplitWithin(std::int64_t bytes) const {
    if (!target_) return std::nullopt;
    if (within_bytes_ != bytes) {
      within_ = ConvolutionSplitWithin(Problem(), target_->model(), target_->getNumTiles(),
                                       static_cast<double>(bytes));
      within_bytes_ = bytes;
    }
    return within_;
  }

  ConvolutionProblem Problem() const {
    return {geometry_,        inputs[0].shape, inputs[1].shape,
            outputs[0].shape, inputs[0].type,  inputs[1].type,
            outputs[0].type,  half_step_,      static_cast<double>(planned_bytes_),
            weight_update_};
  }

  // The split, in more steps if the program does not fit otherwise.
  ConvolutionSplit Limited() const {
    const ConvolutionProblem problem = Problem();
    if (limit_ >= planned_bytes_ || NumElements(problem.out) == 0) return split_;
    return {split_.grid, LimitSerialSplit(problem, split_, static_cast<double>(limit_))};
  }

  ConvolutionGeometry geometry_;
  ConvolutionSplit split_;
  std::int64_t half_step_;  // as in ConvolutionProblem
  std::optional<std::pair<ConvolutionSplit, std::int64_t>>
      planned_;  // these two, before the limit was lowered
  std::int64_t planned_bytes_;
  bool weight_update_;
  std::optional<poplar::Target> target_;
  // What was found last, and for how many bytes.
  mutable std::optional<ConvolutionSplit> within_;
  mutable std::int64_t within_bytes_ = 0;
};

bool SameKind(DType a, DType b) {
  const auto kind = [](DType t) { return IsComplex(t) ? 2 : IsFloat(t) ? 1 : 0; };
  return kind(a) == kind(b);
}

}  // namespace

void WriteGeometry(Writer& writer, const ConvolutionGeometry& g) {
  writer.Write(g.spatial);
  for (int d = 0; d < g.spatial; ++d) {
    const ConvolutionWindow& w = g.window[d];
    writer.Write(w.stride);
    writer.Write(w.padding_low);
    writer.Write(w.lhs_dilation);
    writer.Write(w.rhs_dilation);
    writer.Write(w.reversed);
  }
  writer.Write(g.feature_groups);
  writer.Write(g.batch_groups);
}

void CheckConvolutionTypes(DType lhs, DType rhs, DType out) {
  for (DType type : {lhs, rhs, out}) {
    if (type == DType::kPred || type == DType::kF8E8M0FNU) {
      throw poplar::type_error(std::string("convolution does not support ") + NameOf(type) +
                               "; convert first");
    }
  }
  if (!SameKind(lhs, rhs) || !SameKind(lhs, out)) {
    throw poplar::type_error(std::string("convolution of ") + NameOf(lhs) + " with a " + NameOf(rhs) +
                             " kernel into " + NameOf(out) +
                             ": all must be floating point, all integer or all complex; convert first");
  }
}

std::unique_ptr<Operation> MakeConvolution(const ConvolutionProblem& problem, ConvolutionSplit split,
                                           std::int64_t planned_bytes, const poplar::Target& target) {
  return std::make_unique<ConvolutionOperation>(problem.geometry, std::move(split), problem.half_step,
                                                planned_bytes, problem.weight_update, planned_bytes, &target);
}

std::unique_ptr<Operation> ReadConvolution(Reader& reader) {
  const ConvolutionGeometry geometry = ReadGeometry(reader);
  ConvolutionSplit split;
  split.grid = reader.Read<Grid>();
  for (SerialCut* cut : {&split.serial.outputs, &split.serial.sums}) {
    cut->dim = static_cast<int>(reader.ReadInteger(0, kMaxRank));
    cut->steps = reader.ReadInteger(1, kLargestInteger);
    cut->size = reader.ReadInteger(0, kLargestInteger);
  }
  split.serial.keeps_input = reader.Read<bool>();
  const std::int64_t half_step = reader.ReadInteger(0, 512);
  const std::int64_t planned_bytes = reader.ReadInteger(1, kLargestInteger);
  const bool weight_update = reader.Read<bool>();
  return std::make_unique<ConvolutionOperation>(geometry, std::move(split), half_step, planned_bytes,
                                                weight_update, LimitsBuffers::ReadLimit(reader));
}

}  // namespace ipu_model
