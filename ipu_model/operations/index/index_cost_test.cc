// Slices and scatters against PopLibs' estimators over a grid, written here as their source has them
// (lib/popops/PerformanceEstimation.cpp, popopsCycleEstimators.cpp). With MODEL_ACCURACY_TABLE set, prints
// rows of docs/model_accuracy.md.
#include "operations/index/index_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>

#include "check.h"
#include "core/target_model.h"
#include "testing/vertex_comparison.h"

namespace ipu_model {
namespace {

constexpr unsigned kWorkers = 6;
unsigned Ceil(unsigned a, unsigned b) { return (a + b - 1) / b; }

constexpr double kTolerance = 0.01;

TEST(MultiSliceEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const DType type : {DType::kF32, DType::kF16, DType::kU8}) {
    const unsigned size = static_cast<unsigned>(SizeOf(type));
    Comparison comparison(std::string("popops::MultiSlice<") + NameOf(type) + ">", kTolerance);
    for (const unsigned rows : {1u, 6u, 7u, 100u, 1000u}) {
      for (const unsigned elements : {1u, 4u, 30u, 64u, 768u}) {
        const unsigned width = size == 1 ? 4 : 2, cycles = size == 1 ? 3 : 2;
        unsigned vectors = Ceil(elements, width);
        if (rows == 1) vectors = Ceil(vectors, kWorkers);
        comparison.Add(SliceCycles(target, type, rows, elements, 0),
                       (30.0 + Ceil(rows, kWorkers) * (19 + vectors * cycles)) * kWorkers);
      }
    }
  }
}

TEST(DynamicSliceEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const DType type : {DType::kF32, DType::kF16, DType::kU8, DType::kS64}) {
    Comparison comparison(std::string("popops::DynamicSlice1D<") + NameOf(type) + ">", kTolerance);
    for (const unsigned elements : {1u, 7u, 64u, 1000u, 30000u}) {
      const bool bytes = SizeOf(type) == 1, wide = SizeOf(type) == 8;
      const unsigned share = Ceil((wide ? 2 : 1) * elements, kWorkers);
      const unsigned copies = share / (bytes || SizeOf(type) == 2 ? 4 : 2);
      const double worker = bytes ? 76 + (72 + 2 * copies) : 39 + (24 + 2 * copies);
      comparison.Add(DynamicSliceCycles(target, type, elements), 11 + 1 + 6 + 1 + 6 + worker * kWorkers);
    }
  }
}

TEST(MultiUpdateAddEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const DType type : {DType::kF32, DType::kF16}) {
    const bool four = type == DType::kF32;
    Comparison comparison(std::string("popops::ScaledMultiUpdateOp<") + NameOf(type) + ",add>", kTolerance);
    for (const unsigned rows : {6u, 60u, 600u}) {
      for (const unsigned elements : {2u, 4u, 8u, 64u, 768u}) {
        if (!four && elements == 2) continue;
        const bool special = four ? elements == 2 || elements == 4 : elements == 4;
        double entry = 3 + (four ? 29 : 30) - (special ? 1 : 0) + 2 + 2 + (four ? 2 : 0);
        double in_range = four ? 11 : 12 + 1;
        if (special)
          in_range = four ? (elements == 2 ? 8 : 16) : 9;
        else
          in_range += (elements / (four ? 2 : 4) - 1.0) * 3;
        const double mine = rows / kWorkers;
        comparison.Add(ScatterCycles(target, type, rows, 1, elements, 0),
                       (entry + in_range * mine + 5 * (rows - mine)) * kWorkers);
      }
    }
  }
}

}  // namespace
}  // namespace ipu_model

int main() { return jax_ipu::testing::RunTests(); }
