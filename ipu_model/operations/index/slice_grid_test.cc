// Tile mappings for indexing with run-time values.
#include "operations/index/slice_grid.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "check.h"
#include "core/mapping/strides.h"

using namespace ipu_model;

namespace {

std::int64_t LargestBlock(const Grid& grid) {
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < grid.shape.size(); ++d) elements *= grid.LargestPart(static_cast<int>(d));
  return elements;
}

Grid Spread(const Shape& shape, const std::vector<bool>& sliced, unsigned num_tiles,
            DType type = DType::kF16) {
  return SliceGrid(shape, sliced, type, num_tiles, std::numeric_limits<std::int64_t>::max());
}

// The smallest largest block that any parts of two dimensions give.
std::int64_t LeastBlock(Grid grid, std::size_t one, std::size_t other, std::int64_t num_tiles) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (grid.parts[one] = 1; grid.parts[one] <= num_tiles; ++grid.parts[one]) {
    grid.parts[other] = num_tiles / grid.parts[one];
    least = std::min(least, LargestBlock(grid));
  }
  return least;
}

TEST(OuterDimensionsAreCutFirst) {
  const Grid grid = Spread({12, 100, 64}, {true, false, false}, 200);
  CHECK(grid.parts == Shape({1, 100, 2}));
  CHECK(grid.tile_stride == Shape({200, 2, 1}));
  CHECK(Spread({64, 8}, {false, true}, 16).parts == Shape({16, 1}));
}

// With whole rows alone, some tiles would have one and others two.
TEST(BlocksAreBalanced) {
  for (const Shape& rows : {Shape{2048, 768}, {768, 256}, {1473, 700}, {33, 1024}, {5, 7}, {1472, 8}}) {
    for (const unsigned num_tiles : {1472u, 64u, 7u, 1u}) {
      const Grid grid = Spread({12, rows[0], rows[1]}, {true, false, false}, num_tiles);
      CHECK_EQ(grid.parts[0], 1);
      CHECK(NumElements(grid.parts) <= num_tiles);
      const std::int64_t least = LeastBlock(grid, 1, 2, num_tiles);
      CHECK(LargestBlock(grid) * 15 <= least * 16);
    }
  }
  const Grid grid = Spread({2048, 768}, {false, false}, 1472);
  // 2 whole rows are 1,536 elements, all tiles together 1,069 each at least.
  CHECK_EQ(LargestBlock(grid), 1080);
}

TEST(ThreeDimensionsAreBalanced) {
  const Grid grid = Spread({9, 50, 9, 36}, {false, true, false, false}, 100);
  CHECK_EQ(grid.parts[1], 1);
  CHECK(NumElements(grid.parts) <= 100);
  // 9 x 9 x 36 elements on 100 tiles, in fours: 32 each at least.
  CHECK_EQ(LargestBlock(grid), 50 * 36);
}

// A dimension that is sliced is cut where a tile would hold too much of it, into parts for the tiles that are
// left.
TEST(LongSlicedDimensionsAreCut) {
  const Grid grid = SliceGrid({4, 10000}, {false, true}, DType::kF32, 40, 8000);
  CHECK(grid.parts == Shape({4, 5}));
  const Grid full = SliceGrid({40, 10000}, {false, true}, DType::kF32, 40, 8000);
  CHECK(full.parts == Shape({40, 1}));
}

TEST(EmptyAndScalar) {
  CHECK(Spread({}, {}, 8).parts.empty());
  CHECK(Spread({0, 5}, {false, false}, 8).parts == Shape({1, 2}));
}

}  // namespace
