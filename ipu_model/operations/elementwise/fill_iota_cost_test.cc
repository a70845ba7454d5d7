// Fill and Iota against PopLibs' estimators over a grid (getFill1DCycleEstimate and modelContiguousFill in
// lib/popops/PerformanceEstimation.cpp and FillModelling.cpp; Iota in popopsCycleEstimators.cpp). With
// MODEL_ACCURACY_TABLE set, prints rows of docs/model_accuracy.md.
#include "operations/elementwise/fill_iota_cost.h"

#include <algorithm>
#include <string>
#include <vector>

#include "check.h"
#include "core/target/target_model.h"
#include "testing/vertex_comparison.h"
#include "testing/vertex_cost.h"

namespace ipu_model {
namespace {

constexpr double kTolerance = 0.01;
const std::vector<unsigned> kSizes = {1, 2, 3, 7, 12, 64, 100, 1000, 4096, 30001};

double FillOf(DType type, unsigned size) {
  switch (SizeOf(type)) {
    case 8:
      return 5.0 + size;
    case 1:
      return size < 64 ? 28.0 + size / 4 : 39.0 + size / 8;
    case 2:
      return size < 3 ? 9.0 + 6 * size : 26.0 + size / 4;
    default:
      return 23.0 + size / 2 + size % 2;
  }
}

TEST(FillEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const DType type : {DType::kF32, DType::kF16, DType::kPred, DType::kS32, DType::kS64}) {
    Comparison comparison(std::string("popops::Fill<") + NameOf(type) + ">", kTolerance);
    for (const unsigned size : kSizes) {
      const unsigned width = WidthOf(type), grains = std::max(Ceil(Ceil(size, width), kWorkers), 2u);
      comparison.Add(FillCycles(target, type, size), kWorkers * FillOf(type, std::min(size, grains * width)));
    }
  }
}

TEST(IotaEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const DType type : {DType::kS32, DType::kU32}) {
    Comparison comparison(std::string("popops::Iota<") + NameOf(type) + ">", kTolerance);
    for (const unsigned size : kSizes)
      comparison.Add(IotaCycles(target, type, size),
                     kWorkers * (10.0 + 4 + 3 * Ceil(LargestRegion(size, 2), 2)));
  }
}

}  // namespace
}  // namespace ipu_model
