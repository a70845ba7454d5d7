// Scaled additions against PopLibs' getScaledArithmeticSupervisorCycleEstimate
// (lib/popops/PerformanceEstimation.cpp) over a grid. With MODEL_ACCURACY_TABLE set, prints rows of
// docs/model_accuracy.md.
#include "operations/elementwise/scaled_arithmetic_cost.h"

#include <algorithm>
#include <string>
#include <vector>

#include "check.h"
#include "core/target/target_model.h"
#include "operations/elementwise/elementwise_cost.h"
#include "testing/vertex_comparison.h"
#include "testing/vertex_cost.h"

namespace ipu_model {
namespace {

constexpr double kTolerance = 0.01;

struct Step {
  ScalarOp op;
  std::uint16_t left, right;
};
// Registers: x 0, y 1, the scales a 2 and b 3, then the steps.
Expression Program(DType type, const std::vector<Step>& steps) {
  Expression e = OneOperation(ScalarOp::kAdd, type, 3, true);
  e.inputs.assign(2, type);
  e.constants.resize(2);
  e.constants[1].type = type;
  e.code.assign(steps.size(), e.code[0]);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    e.code[i].op = steps[i].op;
    e.code[i].operand[0] = steps[i].left;
    e.code[i].operand[1] = steps[i].right;
  }
  e.outputs = {static_cast<std::uint16_t>(3 + steps.size())};
  return e;
}

constexpr ScalarOp kAdd = ScalarOp::kAdd, kSubtract = ScalarOp::kSubtract, kMultiply = ScalarOp::kMultiply;

struct Vertex {
  const char* name;
  std::vector<Step> steps;
  unsigned supervisor;  // beyond that of ScaledAdd
  bool two_scales;
};
const std::vector<Vertex>& Vertices() {
  static const std::vector<Vertex> vertices = {
      {"ScaledAddSupervisor", {{kMultiply, 1, 3}, {kAdd, 0, 4}}, 0, false},
      {"ScaledSubtractSupervisor", {{kMultiply, 3, 1}, {kSubtract, 0, 4}}, 7, false},
      {"aXPlusbYSupervisor", {{kMultiply, 0, 2}, {kMultiply, 1, 3}, {kAdd, 4, 5}}, 12, true},
      {"aXMinusbYSupervisor", {{kMultiply, 0, 2}, {kMultiply, 1, 3}, {kSubtract, 4, 5}}, 0, true},
      {"XMinusaXPlusbYSupervisor",
       {{kMultiply, 0, 2}, {kSubtract, 0, 4}, {kMultiply, 3, 1}, {kAdd, 5, 6}},
       12,
       true}};
  return vertices;
}

double Theirs(const Vertex& vertex, DType type, unsigned n) {
  const bool half = type == DType::kF16;
  const unsigned width = WidthOf(type), vectors = n / width / kWorkers, rest = n % width;
  double worker = vertex.two_scales && !half ? 16 : 15;
  if (vectors > 0) worker += 6 + 3 * (vectors - 1);
  if (!(vertex.two_scales && !half)) worker += 2;  // is this worker the one with the rest
  worker += 1;
  if (rest != 0 && !half) worker += vertex.two_scales ? 5 : 8;
  if (rest != 0 && half) worker += 5 + (rest >= 2 ? 7 : 0) + (rest == 3 ? 6 : 0);
  worker += 1;
  return 21 + 11 + (rest == 0 ? 7 : 13) + 12 + vertex.supervisor + 6 + kWorkers * worker;
}

TEST(ScaledArithmeticEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const Vertex& vertex : Vertices()) {
    for (const DType type : {DType::kF32, DType::kF16}) {
      Comparison comparison(std::string("popops::") + vertex.name + "<" + NameOf(type) + ">", kTolerance);
      const ElementwiseCost cost(Program(type, vertex.steps), {}, /*in_place=*/true);
      for (const unsigned n : {1u, 2u, 7u, 12u, 64u, 100u, 1000u, 4096u, 30001u})
        comparison.Add(cost.Cycles(target, n), Theirs(vertex, type, n));
    }
  }
}

// Other sums of products, and results that replace no operand, are generated codelets.
TEST(OtherProgramsAreNotScaledArithmetic) {
  const std::vector<bool> scalars = {false, false, true, true};
  const auto form = [&](const std::vector<Step>& steps) {
    return ScaledFormOf(Program(DType::kF32, steps), scalars);
  };
  CHECK(form(Vertices()[0].steps) == ScaledForm::kAdd);
  CHECK(form({{kMultiply, 0, 3}, {kSubtract, 4, 1}}) == ScaledForm::kNone);  // the scaled operand comes first
  CHECK(form({{kMultiply, 0, 1}, {kAdd, 0, 4}}) == ScaledForm::kNone);
  CHECK(form({{kMultiply, 0, 2}, {kAdd, 0, 4}}) == ScaledForm::kNone);
  CHECK(form({{kMultiply, 0, 2}, {kMultiply, 1, 3}, {kMultiply, 4, 5}}) == ScaledForm::kNone);
  CHECK(form({{kMultiply, 1, 2}, {kSubtract, 0, 4}, {kMultiply, 3, 1}, {kAdd, 5, 6}}) == ScaledForm::kNone);
  const TargetModel& target = FindTargetModel("ipu2");
  const Expression add = Program(DType::kF32, Vertices()[0].steps);
  CHECK(ElementwiseCost(add).Cycles(target, 6000) > ElementwiseCost(add, {}, true).Cycles(target, 6000));
}

}  // namespace
}  // namespace ipu_model
