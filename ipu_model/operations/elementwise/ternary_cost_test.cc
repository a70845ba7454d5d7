// Selections and clamps against PopLibs' estimators over a grid (lib/popops/popopsCycleEstimators.cpp), each
// with the share of a worker that ternaryOp in lib/popops/ElementWise.cpp gives. With MODEL_ACCURACY_TABLE
// set, prints rows of docs/model_accuracy.md.
#include "operations/elementwise/ternary_cost.h"

#include <algorithm>
#include <functional>
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
const std::vector<unsigned> kSizes = {1, 2, 7, 12, 64, 100, 1000, 4096, 30001};

// Compares the operation with `theirs`, the cycles of a worker on so many elements.
void Compare(const std::string& vertex, ScalarOp op, DType type, const std::vector<bool>& scalars,
             const std::function<double(unsigned)>& theirs) {
  const TargetModel& target = FindTargetModel("ipu2");
  Comparison comparison("popops::" + vertex + "<" + NameOf(type) + ">", kTolerance);
  Expression e = OneOperation(op, type, 3, false);
  if (op == ScalarOp::kSelect) e.inputs[0] = DType::kPred;
  const ElementwiseCost cost(e, scalars);
  for (const unsigned size : kSizes)
    comparison.Add(cost.Cycles(target, size),
                   kWorkers * theirs(LargestRegion(size, std::max(WidthOf(type), 4u))));
}

TEST(SelectEqualsPopLibs) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kS32, DType::kPred}) {
    Compare("Select", ScalarOp::kSelect, type, {false, false, false},
            [](unsigned n) { return 5 + 6 + 5.0 * n; });
    // One value that is a scalar is broadcast to a tensor.
    Compare("Select", ScalarOp::kSelect, type, {false, false, true},
            [](unsigned n) { return 5 + 6 + 5.0 * n; });
    Compare("BroadcastSelect", ScalarOp::kSelect, type, {false, true, true}, [type](unsigned n) {
      const unsigned size = static_cast<unsigned>(SizeOf(type));
      if (size == 4) return 10 + 8 + 4.0 * n;
      if (size == 2) return 10 + (n % 2 == 1 ? 23 : 30) + 4.0 * n;
      return 10 + 40 + n / 4 * 17.0 + 26;
    });
    Compare("BroadcastSelectorSelect", ScalarOp::kSelect, type, {true, false, false}, [type](unsigned n) {
      const unsigned bytes = n * static_cast<unsigned>(SizeOf(type));
      return 12 + 12 + 23 + bytes / 4 + bytes % 4 * 5.0;
    });
  }
}

TEST(ClampEqualsPopLibs) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kS32}) {
    const auto theirs = [type](unsigned n) {
      if (type == DType::kS32) return 5 + 6 + 7.0 * n;
      // basicOpLoopCycles divides the cycles of all elements by the width of a vector.
      return 5 + 6 + double{1} * (2 * (n + WidthOf(type) - 1) / WidthOf(type));
    };
    Compare("Clamp", ScalarOp::kClamp, type, {false, false, false}, theirs);
    Compare("BroadcastClamp", ScalarOp::kClamp, type, {true, false, true}, theirs);
  }
}

}  // namespace
}  // namespace ipu_model
