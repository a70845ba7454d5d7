// Reduction vertices against PopLibs' estimators over a grid, written here as their source has them
// (lib/popops/reduction/CycleEstimationFunctions.cpp), for one worker of six with equal shares. With
// MODEL_ACCURACY_TABLE set, prints rows of docs/model_accuracy.md.
#include "operations/reduce/reduce_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>

#include "check.h"
#include "core/target/target_model.h"
#include "testing/test_instructions.h"
#include "testing/vertex_comparison.h"

namespace ipu_model {
namespace {

constexpr unsigned kWorkers = 6;

constexpr double kTolerance = 0.01;

struct Case {
  const char* name;
  ScalarOp op;
  DType type, result;
  DType body() const { return type == DType::kF16 || result == DType::kF16 ? DType::kF16 : DType::kF32; }
};
const Case kCases[] = {{"add,float,float", ScalarOp::kAdd, DType::kF32, DType::kF32},
                       {"add,half,half", ScalarOp::kAdd, DType::kF16, DType::kF16},
                       {"add,half,float", ScalarOp::kAdd, DType::kF16, DType::kF32},
                       {"add,float,half", ScalarOp::kAdd, DType::kF32, DType::kF16},
                       {"max,float,float", ScalarOp::kMaximum, DType::kF32, DType::kF32},
                       {"max,half,half", ScalarOp::kMaximum, DType::kF16, DType::kF16}};

// Where vertices share the values of a result, what they write: sums of half are float.
DType HeldBy(const Case& c) { return c.op == ScalarOp::kAdd ? DType::kF32 : c.type; }

double Strided(const Case& c, unsigned partials, unsigned outputs) {
  const unsigned width = c.type == DType::kF16 ? 4 : 2;
  const bool to_float = c.op == ScalarOp::kAdd && c.result == DType::kF32;
  double after = c.type == DType::kF16 ? 1 + (to_float ? 6 : 7) : (c.op == ScalarOp::kAdd ? 3 : 2) + 2;
  const double outer = 3 + after + (3 + 1.0 * (partials - 1));
  return 3 + 2 + 6 + 5 + outer * ((outputs + width - 1) / width);
}

double AllContinuous(const Case& c, unsigned partials, unsigned outputs) {
  const unsigned width = c.type == DType::kF16 ? 4 : 2;
  return 1.0 * outputs * (partials / width) + ((partials & 1) != 0 ? 2 : 0) + 12.0 * outputs + 10 + 7;
}

double SingleInput(const Case& c, unsigned partials) {
  const unsigned path = c.type == DType::kF16 ? 4 : 2, vector = c.op == ScalarOp::kAdd ? 2 * path : path;
  const unsigned loads = vector / path;
  return 1 + 2 + 6 + loads * partials / vector + 5 + partials % vector + 3 +
         (c.result == DType::kF16 ? 5 : 0);
}

TEST(StridedReduceEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const Case& c : kCases) {
    Comparison comparison(std::string("popops::Reduce<") + c.name + ",STRIDED_REDUCE>", kTolerance);
    const ElementwiseCost combiner(BinaryBody(c.op, c.body()));
    for (const unsigned partials : {2u, 16u, 100u, 784u})
      for (const unsigned outputs : {24u, 96u, 240u, 2400u})
        comparison.Add(ReduceCycles(target, combiner, {c.type, c.result}, partials * outputs, outputs, false),
                       kWorkers * Strided(c, partials, outputs / kWorkers));
  }
}

TEST(ContiguousReduceEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const Case& c : kCases) {
    Comparison comparison(std::string("popops::Reduce<") + c.name + ",ALL_REGIONS_CONTINUOUS>", kTolerance);
    const ElementwiseCost combiner(BinaryBody(c.op, c.body()));
    for (const unsigned partials : {2u, 17u, 100u, 784u})
      for (const unsigned outputs : {12u, 96u, 240u, 2400u})
        comparison.Add(ReduceCycles(target, combiner, {c.type, c.result}, partials * outputs, outputs, true),
                       kWorkers * AllContinuous(c, partials, outputs / kWorkers));
  }
}

// One result: one worker adds all values, or every worker a sixth of them and then one vertex their sums.
TEST(SingleResultEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const Case& c : kCases) {
    Comparison comparison(std::string("popops::Reduce<") + c.name + ",SCALAR_OUTPUT_SINGLE_INPUT>",
                          kTolerance);
    const ElementwiseCost combiner(BinaryBody(c.op, c.body()));
    for (const unsigned partials : {12u, 24u, 1200u, 30000u}) {
      const Case first{"", c.op, c.type, HeldBy(c)}, second{"", c.op, HeldBy(c), c.result};
      const double divided = SingleInput(first, partials / kWorkers) + SingleInput(second, kWorkers);
      comparison.Add(ReduceCycles(target, combiner, {c.type, c.result}, partials, 1, true),
                     kWorkers * std::min(SingleInput(c, partials), divided));
    }
  }
}

// A few values are not worth a second vertex, which costs as much as adding 30 more.
TEST(FewValuesAreNotDivided) {
  const TargetModel& target = FindTargetModel("ipu2");
  const ElementwiseCost sum(BinaryBody(ScalarOp::kAdd, DType::kF32));
  CHECK_EQ(ReduceCycles(target, sum, 10, 2, false), std::uint64_t{kWorkers} * (16 + 11 + 4));
  CHECK_EQ(ReduceCycles(target, sum, 40, 1, true), std::uint64_t{kWorkers} * (9 + 20 + 8));
}

}  // namespace
}  // namespace ipu_model
