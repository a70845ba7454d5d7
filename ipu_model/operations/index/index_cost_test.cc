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
#include "core/target/target_model.h"
#include "testing/vertex_comparison.h"
#include "testing/vertex_cost.h"

namespace ipu_model {
namespace {

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

TEST(DynamicUpdateSliceEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const DType type : {DType::kF32, DType::kF16, DType::kU8, DType::kS64}) {
    // Its estimator is that of DynamicSlice1D.
    Comparison comparison(std::string("popops::DynamicUpdateSlice1D<") + NameOf(type) + ">", kTolerance);
    for (const unsigned elements : {2u, 12u, 100u, 4096u}) {
      const unsigned size = static_cast<unsigned>(SizeOf(type));
      const unsigned share = Ceil(size == 8 ? 2 * elements : elements, kWorkers);
      const double worker = size == 1 ? 148 + 2.0 * (share / 4) : 63 + 2.0 * (share / (size == 2 ? 4 : 2));
      comparison.Add(DynamicSliceCycles(target, type, elements), 25 + worker * kWorkers);
    }
  }
}

TEST(MultiUpdateEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const DType type : {DType::kF32, DType::kF16, DType::kU8}) {
    const unsigned size = static_cast<unsigned>(SizeOf(type));
    Comparison comparison(std::string("popops::MultiUpdate<") + NameOf(type) + ">", kTolerance);
    for (const unsigned rows : {6u, 60u, 600u}) {
      for (const unsigned elements : {1u, 4u, 30u, 64u, 768u}) {
        const double copy = size == 1 ? 3.0 * Ceil(elements, 4) : 2.0 * Ceil(elements, 2);
        const unsigned mine = rows / kWorkers;
        comparison.Add(ScatterCycles(target, UpdateKind::kReplace, type, rows, 1, elements, 0),
                       kWorkers * (29 + mine * (19 + copy) + 8.0 * (rows - mine)));
      }
    }
  }
}

// getMultiUpdateOpCycleEstimate; an atom is the narrowest store, 4 bytes.
TEST(MultiUpdateOpEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const bool scaled : {true, false}) {
    for (const DType type : {DType::kF32, DType::kF16}) {
      const bool four = type == DType::kF32;
      Comparison comparison(std::string(scaled ? "popops::ScaledMultiUpdateOp<" : "popops::MultiUpdateOp<") +
                                NameOf(type) + (scaled ? ",add>" : ",max>"),
                            kTolerance);
      for (const unsigned rows : {6u, 60u, 600u}) {
        for (const unsigned elements : {1u, 2u, 4u, 7u, 8u, 64u, 768u}) {
          const bool special = scaled && (four ? elements == 2 || elements == 4 : elements == 4);
          double entry = 3 + (four ? 29 : 30) - (special ? 1 : 0);
          if (scaled) entry += 2 + 2 + (four ? 2 : 0);
          double in_range = four ? 11 : scaled ? 13 : 12;
          if (!four && elements % 2 == 1) {
            in_range += 20.0 * elements;
          } else if (special) {
            in_range = four ? (elements == 2 ? 8 : 16) : 9;
          } else {
            in_range += (elements / (four ? 1 : 2) - 1.0) * 3;
          }
          const double mine = rows / kWorkers;
          comparison.Add(ScatterCycles(target, scaled ? UpdateKind::kAdd : UpdateKind::kOther, type, rows, 1,
                                       elements, 0),
                         (entry + in_range * mine + 5 * (rows - mine)) * kWorkers);
        }
      }
    }
  }
}

// The vertices of lookups and sums in rounds, by their instructions.
TEST(RoundsCostWhatTheirLoopsDo) {
  const TargetModel& target = FindTargetModel("ipu2");
  const std::uint64_t workers = target.worker_contexts;
  // 100 indices for each worker, and 10 blocks.
  CHECK_EQ(OrderLookupsCycles(target, 600, 10, 0),
           workers * (40 + 100 * (2 * 24 + 3 + 6) + 60) + target.supervisor_overhead);
  CHECK_EQ(OrderLookupsCycles(target, 600, 10, 1),
           OrderLookupsCycles(target, 600, 10, 0) + workers * 100 * 6);
  // All are in one block; of 25 blocks, one may have four standard deviations more than 4.
  CHECK_EQ(LookUpBlockCycles(target, DType::kF32, 600, 1, 1), workers * (42 + 100 * 24));
  CHECK_EQ(LookUpBlockCycles(target, DType::kF32, 600, 25, 1), workers * (42 + (4 + 4 * 2 + 1) * 24));
  CHECK_EQ(TakeBlockCycles(target, DType::kF32, 16), workers * (24 + 16));
  CHECK_EQ(AddToBlockCycles(target, UpdateKind::kAdd, DType::kF32, 25, 1, 1),
           ScatterCycles(target, UpdateKind::kAdd, DType::kF32, 25, 1, 1, 0) + workers * (60 + 75));
  CHECK(PickShareCycles(target, DType::kF32, 600, 1, 0) > SliceCycles(target, DType::kF32, 600, 1, 0));
}

}  // namespace
}  // namespace ipu_model
