// The operation behind poplin::matMulGrouped, and its kernel.
#include "operations/product/matmul.h"

#include <string_view>
#include <utility>

#include "core/operation/operand_check.h"
#include "core/operation/serialise.h"
#include "core/vertices/limits_buffers.h"
#include "kernels/product/gemm.h"
#include "kernels/product/small_product.h"
#include "operations/product/half_partials.h"
#include "operations/product/matmul_steps.h"
#include "operations/product/matmul_vertices.h"
#include "operations/readers.h"

namespace ipu_model {
namespace {

class MatMulOperation : public Operation, public LimitsBuffers {
 public:
  explicit MatMulOperation(MatMulPlan plan, std::int64_t buffer_limit = 0) : plan_(std::move(plan)) {
    limit_ = buffer_limit;
  }

  std::string_view kind() const override { return "poplin::matMulGrouped"; }

  bool OperandsFit(unsigned num_tiles) const override {
    if (!HasOperands(*this, 2, 1)) return false;
    const Shape &a = inputs[0].shape, &b = inputs[1].shape, &out = outputs[0].shape;
    if (a.size() != 3 || b.size() != 3 || out.size() != 3) return false;
    return a[0] == b[0] && a[2] == b[1] && out == Shape{a[0], a[1], b[2]} &&
           GemmAccumulator(inputs[0].type, inputs[1].type, outputs[0].type) != DType::kCount &&
           IsSplitOf(plan_.grid, {a[0], a[1], b[2], a[2]}, num_tiles) &&
           IsModest({plan_.output_steps, plan_.depth_steps, 1 << 20});
  }
  void Write(Writer& writer) const override {
    writer.Write(plan_.grid);
    writer.Write(plan_.stage_sums);
    writer.Write(plan_.output_dim == kRowDim);
    writer.Write(plan_.output_steps);
    writer.Write(plan_.keeps_operand);
    writer.Write(plan_.depth_steps);
    for (const bool flag :
         {plan_.rows_in_units, plan_.rearrange_a, plan_.rearrange_b, plan_.wide_weight_loads})
      writer.Write(flag);
    writer.Write(plan_.received_a);
    writer.Write(plan_.received_b);
    writer.Write(plan_.partial_type);
    writer.Write(plan_.half_step);
    writer.Write(limit_);
  }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    if (plan_.half_step > 0) return HalfProduct(context, Stepped(), in[0], in[1], out[0]);
    Gemm(context, in[0], in[1], out[0]);
  }

  std::unique_ptr<BoundKernel> Bind(const std::vector<HostTensor>& in,
                                    const std::vector<HostTensor>& out) const override {
    if (plan_.half_step > 0) return nullptr;
    return BindSmallProduct(in[0], in[1], out[0]);
  }

  double flops() const override {
    return 2.0 * static_cast<double>(outputs[0].num_elements()) * static_cast<double>(inputs[0].shape[2]);
  }

  TilePlan Plan(const DeviceContext& context) const override {
    return TilePlanOfMatMul(Stepped(), inputs, outputs, context);
  }

 private:
  bool HasPlanFor(std::int64_t bytes) const override {
    return HasStepsWithin(plan_, inputs[0].type, inputs[1].type, static_cast<double>(bytes));
  }

  MatMulPlan Stepped() const {
    if (limit_ == 0) return plan_;
    MatMulPlan plan = StepsWithin(plan_, inputs[0].type, inputs[1].type, static_cast<double>(limit_));
    // Half results of one step have nothing to add; those of several are sums, which are floats.
    if (plan.half_step == 0 && plan.depth_steps > 1)
      plan.partial_type = GemmAccumulator(inputs[0].type, inputs[1].type, outputs[0].type);
    return plan;
  }

  MatMulPlan plan_;
};

std::int64_t ReadPositive(Reader& reader) {
  const auto value = reader.Read<std::int64_t>();
  if (value < 1) reader.Fail("a count of a matrix product plan is not positive");
  return value;
}

}  // namespace

std::unique_ptr<Operation> MakeMatMul(MatMulPlan plan) {
  return std::make_unique<MatMulOperation>(std::move(plan));
}

std::unique_ptr<Operation> ReadMatMul(Reader& reader) {
  MatMulPlan plan;
  plan.grid = reader.Read<Grid>();
  plan.stage_sums = ReadPositive(reader);
  plan.output_dim = reader.Read<bool>() ? kRowDim : kColumnDim;
  plan.output_steps = ReadPositive(reader);
  plan.keeps_operand = reader.Read<bool>();
  plan.depth_steps = ReadPositive(reader);
  for (bool* flag : {&plan.rows_in_units, &plan.rearrange_a, &plan.rearrange_b, &plan.wide_weight_loads})
    *flag = reader.Read<bool>();
  plan.received_a = reader.Read<std::int64_t>();
  plan.received_b = reader.Read<std::int64_t>();
  plan.partial_type = reader.Read<DType>();
  plan.half_step = reader.ReadInteger(0, 512);
  const std::int64_t limit = LimitsBuffers::ReadLimit(reader);
  const bool keeps_in_steps = plan.output_steps > 1 && plan.depth_steps == 1;
  if (plan.grid.shape.size() != 4 || plan.grid.parts[kDepthDim] < plan.stage_sums ||
      (plan.keeps_operand && !keeps_in_steps))
    reader.Fail("a matrix product plan is damaged");
  return std::make_unique<MatMulOperation>(std::move(plan), limit);
}

}  // namespace ipu_model
