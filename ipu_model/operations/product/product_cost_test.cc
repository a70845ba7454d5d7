#include "operations/product/product_cost.h"

#include "check.h"
#include "core/target/target_model.h"
#include "operations/product/matmul_plan.h"

namespace ipu_model {
namespace {

ProductVertex VertexOf(DType operand, DType partial, const ProductBlock& block) {
  return ProductVertexOf(FindTargetModel("ipu2"), operand, partial, block, false);
}

// PopLibs takes its horizontal multiply-accumulates for products of one row, where the AMP would idle.
TEST(OneChannelIsDotProducts) {
  constexpr DType kF16 = DType::kF16, kF32 = DType::kF32;
  const ProductBlock row{1, 4, 1, 52, true}, block{1, 4, 32, 52, true};
  CHECK(VertexOf(kF32, kF32, row) == ProductVertex::kHorizontalMac);
  CHECK(VertexOf(kF16, kF32, row) == ProductVertex::kHorizontalMac);
  CHECK(VertexOf(kF32, kF32, block) == ProductVertex::kAmp);
  CHECK(VertexOf(kF16, kF16, row) == ProductVertex::kAmp);
  // Its sums are floats, which half results would have to be converted from.
  CHECK(VertexOf(kF16, kF32, {1, 4, 1, 52, false}) == ProductVertex::kAmp);
  // Channels are padded to whole words: odd depths cost no more than the next even one.
  const auto cycles = [](std::int64_t depth) {
    return ProductCycles(FindTargetModel("ipu2"), DType::kF32, DType::kF32, {1, 4, 1, depth, true}, false);
  };
  CHECK_EQ(cycles(51), cycles(52));
}

// PopLibs' getMultiStageReducePlan, for counts that have divisors and those that have none.
TEST(StagesOfPartialSums) {
  CHECK_EQ(StageSums(15), 1);
  CHECK_EQ(StageSums(16), 4);
  CHECK_EQ(StageSums(22), 5);
  CHECK_EQ(StageSums(23), 5);
  CHECK_EQ(StageSums(64), 8);
  for (std::int64_t sum = 0; sum < 5; ++sum) {
    const std::int64_t terms = FirstTerm(23, 5, sum + 1) - FirstTerm(23, 5, sum);
    CHECK(terms == 4 || terms == 5);
  }
  CHECK_EQ(FirstTerm(23, 5, 5), 23);
}

}  // namespace
}  // namespace ipu_model
