// Vertices of triangular systems and Cholesky factors against PopLibs' estimators
// (lib/poplin/poplinCycleEstimators.cpp), which give the cycles of one worker. With MODEL_ACCURACY_TABLE set,
// prints rows of docs/model_accuracy.md.
#include "operations/linear_algebra/linear_algebra_cost.h"

#include <cstdint>
#include <vector>

#include "check.h"
#include "testing/vertex_comparison.h"

namespace ipu_model {
namespace {

constexpr std::int64_t kWorkers = 6;
constexpr double kTolerance = 0.01;
const std::vector<std::int64_t> kSizes = {2, 3, 8, 16, 32, 64, 100};

TEST(TriangularSolveEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  for (const bool lower : {true, false}) {
    Comparison comparison(lower ? "poplin::TriangularSolve<lower>" : "poplin::TriangularSolve<upper>",
                          kTolerance);
    for (const std::int64_t n : kSizes) {
      const std::int64_t cycles = lower ? 3 * n * n / 2 + 180 * n - 126 : 27 * n * n / 4 + 327 * n / 2 + 54;
      // A vertex for each right-hand side: two for each worker.
      for (const std::int64_t sides : {2 * kWorkers, 4 * kWorkers}) {
        comparison.Add(TriangularSolveCycles(target, DType::kF32, sides * n, n, lower, sides),
                       static_cast<double>(sides * cycles));
      }
    }
  }
}

TEST(CholeskyEqualsPopLibs) {
  const TargetModel& target = FindTargetModel("ipu2");
  Comparison comparison("poplin::Cholesky", kTolerance);
  for (const std::int64_t n : kSizes) {
    const std::int64_t cycles = n * n * n + 102 * n * n + 101 * n + 102;
    // One matrix occupies one worker, as six do all.
    for (const std::int64_t matrices : {std::int64_t{1}, kWorkers}) {
      comparison.Add(CholeskyCycles(target, DType::kF32, matrices * n * n, n),
                     static_cast<double>(kWorkers * cycles));
    }
  }
}

TEST(ComplexNumbersTakeFourTimesAsLong) {
  const TargetModel& target = FindTargetModel("ipu2");
  const std::uint64_t once = target.supervisor_overhead;
  CHECK_EQ(CholeskyCycles(target, DType::kC64, 256, 16) - once,
           4 * (CholeskyCycles(target, DType::kF32, 256, 16) - once));
  CHECK(CholeskyCycles(target, DType::kF32, 0, 0) > 0);
  CHECK(TriangularSolveCycles(target, DType::kF32, 0, 4, true, 1) > 0);
}

}  // namespace
}  // namespace ipu_model
