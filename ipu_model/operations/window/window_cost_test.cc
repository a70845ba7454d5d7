// Pooling against PopLibs' estimator over a grid (getPoolingCycles in lib/popnn/PerformanceEstimation.hpp,
// with the work lists of poolVertexCycleEstimate in lib/popnn/PoolVertices.cpp), element by element as its
// source counts. With MODEL_ACCURACY_TABLE set, prints rows of docs/model_accuracy.md.
#include "operations/window/window_cost.h"

#include <algorithm>
#include <string>
#include <vector>

#include "check.h"
#include "core/target/target_model.h"
#include "testing/vertex_comparison.h"
#include "testing/vertex_cost.h"

namespace ipu_model {
namespace {

constexpr double kTolerance = 0.02;  // the first values of a share are rounded up

struct Field {
  unsigned batch, channels, height, width;
};

// For each worker and partial row, the number of elements of each entry of its work list.
std::vector<std::vector<unsigned>> RowsOfWorkers(const Field& f, unsigned step) {
  std::vector<std::vector<unsigned>> rows(kWorkers);
  const unsigned elements = f.batch * f.height * f.width;
  for (unsigned w = 0; w < kWorkers; ++w) {
    const unsigned end = (w + 1) * elements / kWorkers;
    for (unsigned at = w * elements / kWorkers; at < end;) {
      const unsigned next = std::min(end, (at / f.width + 1) * f.width);
      rows[w].push_back(Ceil(next - at, step));
      at = next;
    }
  }
  return rows;
}

double Theirs(Pooling pooling, DType type, const Field& f, unsigned kernel, unsigned step) {
  const bool gradient = pooling == Pooling::kMaxGradient, max = pooling != Pooling::kSum;
  const unsigned vectors = f.channels / WidthOf(type), field = f.batch * f.height * f.width;
  double longest = 0;
  for (const std::vector<unsigned>& rows : RowsOfWorkers(f, step)) {
    double cycles = 4 + 2 + 2 + 7 + 2 + 2;
    cycles += 4 + Ceil(field * vectors, kWorkers);
    cycles += 5 + 1 + 2;
    if (!rows.empty()) {
      cycles += 2 + (max ? 1 : 2);
      if (gradient) cycles += 6 + 2 + 2;
      cycles += 3 + 2 + 2 * 2 + 1;
      for (const unsigned elements : rows) {
        cycles += 13;
        for (unsigned k = 0; k < kernel; ++k) {
          cycles += 20 + 1;
          for (unsigned v = 0; v < vectors; ++v) {
            const unsigned repeat = elements - 1;
            const unsigned loop = gradient ? 7 + 5 * repeat : max ? 4 + 3 * repeat : 5 + 3 * repeat;
            cycles += 2 + loop + 1;
          }
          cycles += 1 + 3;
        }
        cycles += 2;
      }
    }
    longest = std::max(longest, cycles + 1);
  }
  return 7 + longest * kWorkers + 6;
}

// Windows over the second and third of four dimensions, channels last.
WindowGeometry Windows(unsigned size, unsigned stride) {
  WindowGeometry geometry;
  geometry.rank = 4;
  for (const int d : {1, 2}) {
    geometry.dim[d].size = size;
    geometry.dim[d].stride = stride;
  }
  return geometry;
}

void Compare(const char* vertex, Pooling pooling) {
  const TargetModel& target = FindTargetModel("ipu2");
  const bool gradient = pooling == Pooling::kMaxGradient;
  for (const DType type : {DType::kF32, DType::kF16}) {
    Comparison comparison(std::string("popnn::") + vertex + "<" + NameOf(type) + ">", kTolerance);
    for (const Field& f : std::vector<Field>{{1, 4, 1, 1},
                                             {1, 16, 2, 3},
                                             {1, 64, 7, 7},
                                             {2, 8, 14, 14},
                                             {4, 32, 3, 28},
                                             {1, 4, 56, 56},
                                             {16, 128, 1, 2}}) {
      for (const unsigned size : {2u, 3u}) {
        for (const unsigned stride : {1u, 2u}) {
          const Shape field = {f.batch, f.height, f.width, f.channels};
          const Shape operand = {f.batch, 64, 64, f.channels};
          const PoolingShape shape =
              PoolingShapeOf(Windows(size, stride), operand, Box::Whole(field), 3, gradient);
          // The rows of the kernel that meet a row of the operand.
          const unsigned height = gradient ? Ceil(size, stride) : size;
          comparison.Add(PoolingCycles(target, pooling, type, shape),
                         Theirs(pooling, type, f, height * size, gradient ? stride : 1));
        }
      }
    }
  }
}

TEST(MaxPoolingEqualsPopLibs) { Compare("MaxPooling", Pooling::kMax); }
TEST(SumPoolingEqualsPopLibs) { Compare("SumPooling", Pooling::kSum); }
TEST(MaxPoolingGradEqualsPopLibs) { Compare("MaxPoolingGrad", Pooling::kMaxGradient); }

// Few channels take elements of the batch.
TEST(FewChannelsAreVectors) {
  const TargetModel& target = FindTargetModel("ipu2");
  const auto cycles = [&](std::int64_t batch, std::int64_t channels) {
    PoolingShape shape;
    shape.batch = batch;
    shape.channels = channels;
    shape.rows = shape.row = 8;
    shape.taps = 4;
    return PoolingCycles(target, Pooling::kMax, DType::kF16, shape);
  };
  CHECK_EQ(cycles(8, 1), cycles(2, 4));
  CHECK_EQ(cycles(2, 2), cycles(1, 4));
  CHECK_EQ(cycles(1, 1), cycles(1, 4));  // padded
}

}  // namespace
}  // namespace ipu_model
