#include "core/mapping/mapping.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>

#include "check.h"
#include "core/mapping/held_counter.h"
#include "core/mapping/strides.h"
#include "core/target/target_model.h"
#include "ipu_model/Chips.hpp"

using namespace ipu_model;

namespace {

Mapping Intervals(const std::vector<MappedInterval>& intervals) { return Mapping(intervals); }

using Random = std::mt19937;
std::int64_t Uniform(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

// The definition of a grid, element by element.
std::vector<unsigned> TilesByDefinition(const Grid& p) {
  std::vector<unsigned> tiles(static_cast<std::size_t>(NumElements(p.shape)), 0);
  for (std::int64_t e = 0; e < NumElements(p.shape); ++e) {
    std::int64_t rest = e, sum = p.first_tile;
    for (int d = static_cast<int>(p.shape.size()) - 1; d >= 0; --d) {
      const std::int64_t index = rest % p.shape[d];
      rest /= p.shape[d];
      const std::int64_t grains = (p.shape[d] + p.grain[d] - 1) / p.grain[d], grain = index / p.grain[d];
      for (std::int64_t part = 0; part < p.parts[d]; ++part) {
        if (part * grains / p.parts[d] <= grain && grain < (part + 1) * grains / p.parts[d]) {
          sum += part * p.tile_stride[d];
        }
      }
    }
    tiles[static_cast<std::size_t>(e)] = static_cast<unsigned>(sum % p.num_tiles);
  }
  return tiles;
}

Grid RandomGrid(Random& random) {
  Grid p;
  const auto rank = Uniform(random, 0, 3);
  for (std::int64_t d = 0; d < rank; ++d) {
    p.shape.push_back(Uniform(random, 1, 8));
    p.parts.push_back(Uniform(random, 1, 4));
    p.grain.push_back(Uniform(random, 1, 3));
    p.tile_stride.push_back(Uniform(random, 0, 5));
  }
  p.num_tiles = static_cast<unsigned>(Uniform(random, 1, 16));
  p.first_tile = static_cast<unsigned>(Uniform(random, 0, 20));
  return p;
}

Mapping RandomMapping(Random& random, std::int64_t* elements, std::vector<unsigned>* tiles) {
  if (Uniform(random, 0, 2) > 0) {
    const Grid p = RandomGrid(random);
    *elements = NumElements(p.shape);
    *tiles = TilesByDefinition(p);
    return Mapping(p);
  }
  *elements = Uniform(random, 1, 60);
  tiles->clear();
  std::vector<MappedInterval> intervals;
  for (std::int64_t begin = 0; begin < *elements;) {
    const std::int64_t end = std::min(*elements, begin + Uniform(random, 1, 9));
    intervals.push_back({begin, end, static_cast<unsigned>(Uniform(random, 0, 15))});
    tiles->insert(tiles->end(), static_cast<std::size_t>(end - begin), intervals.back().tile);
    begin = end;
  }
  return Mapping(intervals);
}

// A slice, subsample, reversal, permutation or broadcast, or an arbitrary strided view inside the variable.
View RandomView(Random& random, std::int64_t elements, const Mapping& mapping) {
  View view;
  if (mapping.grid() != nullptr && Uniform(random, 0, 1) == 0) {
    std::int64_t stride = 1;
    const Shape& shape = mapping.grid()->shape;
    for (std::size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
      const std::int64_t begin = Uniform(random, 0, shape[d] - 1), step = Uniform(random, 1, 2);
      const std::int64_t extent = Uniform(random, 1, (shape[d] - begin - 1) / step + 1);
      const bool reversed = Uniform(random, 0, 3) == 0;
      view.offset += (reversed ? begin + (extent - 1) * step : begin) * stride;
      const auto at =
          static_cast<std::ptrdiff_t>(Uniform(random, 0, static_cast<std::int64_t>(view.shape.size())));
      view.shape.insert(view.shape.begin() + at, extent);
      view.strides.insert(view.strides.begin() + at, (reversed ? -step : step) * stride);
    }
    if (Uniform(random, 0, 3) == 0) {
      view.shape.push_back(3);
      view.strides.push_back(0);
    }
    return view;
  }
  view.offset = Uniform(random, 0, elements - 1);
  std::int64_t low = view.offset, high = elements - 1 - view.offset;
  const auto rank = Uniform(random, 0, 3);
  for (std::int64_t d = 0; d < rank; ++d) {
    std::int64_t extent = Uniform(random, 1, 6), stride = Uniform(random, -7, 7);
    const std::int64_t reach = (extent - 1) * std::abs(stride);
    if ((stride < 0 && reach > low) || (stride > 0 && reach > high)) stride = 0;
    if (stride < 0) low -= reach;
    if (stride > 0) high -= reach;
    view.shape.push_back(extent);
    view.strides.push_back(stride);
  }
  return view;
}

template <typename F>
void ForEachIndex(const Box& box, F&& f) {
  if (box.num_elements() == 0) return;
  Shape index = box.begin;
  while (true) {
    f(index);
    int d = static_cast<int>(index.size()) - 1;
    for (; d >= 0; --d) {
      if (++index[d] < box.end[d]) break;
      index[d] = box.begin[d];
    }
    if (d < 0) return;
  }
}

std::int64_t ElementOf(const View& view, const Shape& index) {
  std::int64_t e = view.offset;
  for (std::size_t d = 0; d < index.size(); ++d) e += index[d] * view.strides[d];
  return e;
}

}  // namespace

TEST(LinearFollowsMapTensorLinearly) {
  // 32 floats need at least 32 per tile, so one tile. 1472 * 32 floats need one tile each.
  CHECK_EQ(Grid::Linear(32, 32, 2, 1472).num_parts(), 1);
  CHECK_EQ(Grid::Linear(1472 * 32, 32, 2, 1472).num_parts(), 1472);
  // 100 floats are 50 grains, on at most 3 tiles of at least 16 grains: ceil(50 / 3) = 17 grains, 3 tiles.
  const Grid p = Grid::Linear(100, 32, 2, 1472);
  CHECK_EQ(p.num_parts(), 3);
  CHECK_EQ(p.Begin(0, 1), 32);
  CHECK_EQ(p.Begin(0, 2), 66);
  CHECK_EQ(p.Begin(0, 3), 100);
  CHECK_EQ(p.LargestPart(0), 34);
  CHECK_EQ(Grid::Linear(0, 32, 2, 1472).Vertices().size(), 0u);
  const unsigned first = Grid::Linear(5, 32, 2, 1472, 7).Vertices().at(0).tile;
  CHECK_EQ(first, 7u);
}

TEST(GridNumbersTilesRowMajor) {
  const std::vector<Vertex> v = Grid::Of({4, 6}, {2, 3}, 16, 1).Vertices();
  CHECK_EQ(v.size(), 6u);
  CHECK_EQ(v[4].tile, 5u);
  CHECK(v[4].box.begin == Shape({2, 2}));
  CHECK(v[4].box.end == Shape({4, 4}));
}

TEST(ScalarGridHasOneVertex) {
  const std::vector<Vertex> v = Grid::Of({}, {}, 4, 3).Vertices();
  CHECK_EQ(v.size(), 1u);
  CHECK_EQ(v[0].tile, 3u);
  CHECK_EQ(Mapping(Grid::Of({}, {}, 4, 3)).TileOf(0), 3u);
  CHECK_EQ(Mapping(Grid::Of({}, {}, 4, 3)).Held(3, View{}, Box{}), 1);
}

TEST(GridClosedFormsMatchTheirDefinition) {
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    const Grid p = RandomGrid(random);
    for (int d = 0; d < static_cast<int>(p.shape.size()); ++d) {
      std::int64_t largest = 0;
      for (std::int64_t part = 0; part < p.parts[d]; ++part) {
        largest = std::max(largest, p.Begin(d, part + 1) - p.Begin(d, part));
        for (std::int64_t e = p.Begin(d, part); e < p.Begin(d, part + 1); ++e) CHECK_EQ(p.PartOf(d, e), part);
      }
      CHECK_EQ(p.LargestPart(d), largest);
      CHECK_EQ(p.Begin(d, p.parts[d]), p.shape[d]);
    }
    std::int64_t covered = 0;
    for (const Vertex& v : p.Vertices()) covered += v.box.num_elements();
    CHECK_EQ(covered, NumElements(p.shape));
  }
}

TEST(MappingsMatchBruteForce) {
  Random random(2);
  for (int i = 0; i < 4000; ++i) {
    std::int64_t elements = 0;
    std::vector<unsigned> tiles;
    const Mapping mapping = RandomMapping(random, &elements, &tiles);
    CHECK(mapping.Complete(elements));
    CHECK(!mapping.Complete(elements + 1));
    std::vector<std::int64_t> per_tile(16, 0);
    for (std::int64_t e = 0; e < elements; ++e) {
      CHECK_EQ(mapping.TileOf(e), tiles[static_cast<std::size_t>(e)]);
      ++per_tile[tiles[static_cast<std::size_t>(e)]];
    }
    CHECK(mapping.ElementsPerTile(elements, 16) == per_tile);
    const std::int64_t begin = Uniform(random, 0, elements), end = Uniform(random, begin, elements);
    std::int64_t next = begin;
    mapping.ForEachInterval(begin, end, [&](std::int64_t b, std::int64_t e, unsigned tile) {
      CHECK_EQ(b, next);
      for (; next < e; ++next) CHECK_EQ(tiles[static_cast<std::size_t>(next)], tile);
    });
    CHECK_EQ(next, end);

    const View view = RandomView(random, elements, mapping);
    Box region = Box::Whole(view.shape);
    for (std::size_t d = 0; d < view.shape.size(); ++d) {
      region.begin[d] = Uniform(random, 0, view.shape[d]);
      region.end[d] = Uniform(random, region.begin[d], view.shape[d]);
    }
    std::vector<std::int64_t> held(16, 0);
    ForEachIndex(
        region, [&](const Shape& index) { ++held[tiles[static_cast<std::size_t>(ElementOf(view, index))]]; });
    HeldCounter counter(mapping, view);
    const std::int64_t repeats =
        region.num_elements() == 0 ? 1 : region.num_elements() / counter.Distinct(region);
    for (unsigned tile = 0; tile < 16; ++tile) {
      CHECK_EQ(mapping.Held(tile, view, region), held[tile]);
      CHECK_EQ(counter.Held(tile, region) * repeats, held[tile]);
    }
    std::vector<std::int64_t> of_holders(16, 0);
    std::vector<std::pair<unsigned, std::int64_t>> holders;
    counter.Holders(region, &holders);
    for (const auto& [tile, elements] : holders) of_holders.at(tile) += elements * repeats;
    CHECK(of_holders == held);
    for (unsigned i = 0; i < 16; ++i) {  // in another order
      const unsigned tile = i * 5 % 16;
      CHECK_EQ(counter.Held(tile, region) * repeats, held[tile]);
    }

    std::map<Shape, unsigned> seen;
    for (const Vertex& v : mapping.VerticesOver(view, 16)) {
      CHECK(v.box.num_elements() > 0);
      ForEachIndex(v.box, [&](const Shape& index) {
        CHECK(seen.emplace(index, v.tile).second);
        CHECK_EQ(tiles[static_cast<std::size_t>(ElementOf(view, index))], v.tile);
      });
    }
    CHECK_EQ(static_cast<std::int64_t>(seen.size()), view.num_elements());
    if (jax_ipu::testing::Failures() > 20) return;
  }
}

// A tile has many parts of a batch of matrices: those of a region are found, and no others.
TEST(RegionsOfManyPartsOnATile) {
  Random random(3);
  for (int i = 0; i < 400; ++i) {
    Grid grid;
    grid.shape = {Uniform(random, 60, 120), Uniform(random, 1, 4), Uniform(random, 1, 4)};
    grid.parts = {grid.shape[0], Uniform(random, 1, grid.shape[1]), Uniform(random, 1, grid.shape[2])};
    if (i % 4 == 0) grid.parts[0] = 1;
    grid.grain = {1, 1, 1};
    grid.tile_stride = {grid.parts[1] * grid.parts[2], grid.parts[2], 1};
    grid.num_tiles = static_cast<unsigned>(Uniform(random, 1, 8));
    grid.first_tile = static_cast<unsigned>(Uniform(random, 0, 10));
    const std::vector<unsigned> tiles = TilesByDefinition(grid);
    const Mapping mapping(grid);
    const View view = RandomView(random, NumElements(grid.shape), mapping);
    HeldCounter counter(mapping, view);
    for (int k = 0; k < 8; ++k) {
      Box region = Box::Whole(view.shape);
      for (std::size_t d = 0; d < view.shape.size(); ++d) {
        region.begin[d] = Uniform(random, 0, view.shape[d]);
        region.end[d] = Uniform(random, region.begin[d], view.shape[d]);
      }
      std::vector<std::int64_t> held(8, 0);
      ForEachIndex(region, [&](const Shape& index) {
        ++held[tiles[static_cast<std::size_t>(ElementOf(view, index))]];
      });
      const std::int64_t repeats =
          region.num_elements() == 0 ? 1 : region.num_elements() / counter.Distinct(region);
      for (unsigned tile = 0; tile < 8; ++tile) CHECK_EQ(counter.Held(tile, region) * repeats, held[tile]);
    }
  }
}

// Blocks of a few rows, among the intervals of many other tiles.
TEST(RowsAcrossManyIntervals) {
  std::vector<MappedInterval> intervals;
  for (std::int64_t e = 0; e < 64 * 64; e += 4)
    intervals.push_back({e, e + 4, static_cast<unsigned>(e / 4 % 16 + e / 1024)});
  const Mapping mapping(intervals);
  for (const bool transposed : {false, true}) {
    View view;
    view.offset = transposed ? 7 : 63 * 64;
    view.shape = {3, 64, 56};
    view.strides = transposed ? Shape{0, 1, 64} : Shape{0, -64, 1};
    HeldCounter counter(mapping, view);
    for (std::int64_t top = 0; top < 48; top += 5) {
      const Box region{{1, top, top / 2}, {3, top + 9, top / 2 + 6}};
      std::vector<std::int64_t> held(20, 0), found(20, 0);
      ForEachIndex(region, [&](const Shape& index) { ++held[mapping.TileOf(ElementOf(view, index))]; });
      std::vector<std::pair<unsigned, std::int64_t>> holders;
      counter.Holders(region, &holders);
      for (const auto& [tile, elements] : holders) found[tile] += 2 * elements;  // a repeat is held once
      for (unsigned tile = 0; tile < 20; ++tile) CHECK_EQ(mapping.Held(tile, view, region), held[tile]);
      CHECK(found == held);
    }
  }
}

TEST(AlignedViewsGiveOneVertexPerTile) {
  const Mapping grid(Grid::Of({64, 48}, {8, 4}, 1472));
  const View transposed{0, DType::kF32, 0, {48, 64}, {1, 48}};
  CHECK_EQ(grid.VerticesOver(transposed, 1472).size(), 32u);
  const Mapping linear(Grid::Linear(64 * 48, 32, 48, 1472));
  const View matrix{0, DType::kF32, 0, {64, 48}, {48, 1}};
  CHECK_EQ(linear.VerticesOver(matrix, 1472).size(), 64u);
}

// As the operands of products are mapped: columns are in 8 blocks of 16, of which each is cut into 7 parts.
TEST(ViewsAcrossCutDimensionsGiveOneVertexPerPart) {
  const Mapping mapping(Grid::Of({1, 512, 8, 16}, {1, 25, 8, 7}, 1472));
  const std::vector<View> views = {{0, DType::kF32, 0, {512, 128}, {128, 1}},
                                   {0, DType::kF32, 0, {128, 512}, {1, 128}},
                                   {0, DType::kF32, 511 * 128 + 127, {512, 128}, {-128, -1}}};
  for (const View& view : views) CHECK_EQ(mapping.VerticesOver(view, 1472).size(), 1400u);
  // 40 columns from the middle of a block on: the end of one, two whole blocks, no more.
  const View columns{0, DType::kF32, 8, {512, 40}, {128, 1}};
  CHECK(mapping.VerticesOver(columns, 1472).size() <= 25u * 3 * 7);
}

TEST(ReorderedGridsKeepEveryElementOnItsTile) {
  Random random(5);
  int permuted = 0;
  for (int round = 0; round < 500; ++round) {
    const Grid grid = RandomGrid(random);
    const std::size_t rank = grid.shape.size();
    std::vector<std::size_t> order(rank);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    const Shape strides = RowMajorStrides(grid.shape);
    View view{0, DType::kF32, 0, {}, {}};
    for (const std::size_t d : order) {
      view.shape.push_back(grid.shape[d]);
      view.strides.push_back(strides[d]);
    }
    Grid reordered;
    CHECK(ReorderedGrid(Mapping(grid), view, &reordered));
    const auto tiles = TilesByDefinition(grid), now = TilesByDefinition(reordered);
    std::int64_t element = 0;
    ForEachIndex(Box::Whole(view.shape), [&](const Shape& index) {
      CHECK_EQ(now[static_cast<std::size_t>(element++)],
               tiles[static_cast<std::size_t>(ElementOf(view, index))]);
    });
    if (!std::is_sorted(order.begin(), order.end())) ++permuted;
  }
  CHECK(permuted > 100);
}

TEST(ReorderedGridsOfFactorsAndOfOtherViews) {
  // A dimension of 12 is cut as [3, 4], and the view's outermost dimension is all of it.
  const Mapping mapping(Grid::Of({5, 3, 4}, {1, 3, 2}, 6));
  Grid reordered;
  CHECK(ReorderedGrid(mapping, {0, DType::kF32, 0, {12, 5}, {1, 12}}, &reordered));
  CHECK(reordered.shape == (Shape{3, 4, 5}));
  CHECK(reordered.tile_stride == (Shape{2, 1, 6}));
  CHECK(!ReorderedGrid(mapping, {0, DType::kF32, 0, {6, 10}, {1, 6}}, &reordered));
  CHECK(!ReorderedGrid(mapping, {0, DType::kF32, 0, {12, 4}, {1, 12}}, &reordered));
  CHECK(!ReorderedGrid(mapping, {0, DType::kF32, 11, {12, 5}, {-1, 12}}, &reordered));
  CHECK(!ReorderedGrid(Intervals({{0, 60, 0}}), {0, DType::kF32, 0, {12, 5}, {1, 12}}, &reordered));
}

// The groups of a product are two dimensions of its operand, between which the array has another one.
TEST(ReorderedGridsSplitDimensions) {
  Random random(9);
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    const Shape shape = {Uniform(random, 1, 6), Uniform(random, 1, 6), Uniform(random, 1, 6)};
    const std::int64_t joined = shape[0] * shape[1];
    const Grid grid =
        Grid::Of({joined, shape[2]}, {Uniform(random, 1, joined), Uniform(random, 1, shape[2])}, 40);
    const View view{0, DType::kF32, 0, {shape[0], shape[2], shape[1]}, {shape[1] * shape[2], 1, shape[2]}};
    Grid reordered;
    if (!ReorderedGrid(Mapping(grid), view, &reordered)) continue;
    ++found;
    const auto tiles = TilesByDefinition(grid), now = TilesByDefinition(reordered);
    std::int64_t element = 0;
    ForEachIndex(Box::Whole(view.shape), [&](const Shape& index) {
      CHECK_EQ(now[static_cast<std::size_t>(element++)],
               tiles[static_cast<std::size_t>(ElementOf(view, index))]);
    });
  }
  CHECK(found > 150);
  const Mapping heads(Grid::Of({32, 256, 64}, {32, 46, 1}, 1472));
  Grid reordered;
  CHECK(ReorderedGrid(heads, {0, DType::kF32, 0, {4, 256, 8, 64}, {131072, 64, 16384, 1}}, &reordered));
}

TEST(EqualPlacementsCompareEqual) {
  const Mapping grid(Grid::Linear(8, 1, 1, 2));
  CHECK(grid == Intervals({{0, 4, 0}, {4, 8, 1}}));
  CHECK(!(grid == Intervals({{0, 5, 0}, {5, 8, 1}})));
  CHECK(Mapping(Grid::Of({2, 4}, {2, 1}, 2)) == grid);
}

TEST(IntervalsAtElements) {
  const Mapping grids[] = {Mapping(Grid::Linear(100, 4, 4, 7)), Mapping(Grid::Of({6, 4, 5}, {2, 1, 3}, 5)),
                           Mapping(Grid::Of({6, 4, 5}, {3, 2, 1}, 4, 3)), Mapping(Grid::Of({12}, {1}, 4, 2))};
  for (const Mapping& mapping : grids) {
    const std::int64_t elements = NumElements(mapping.grid()->shape);
    std::vector<MappedInterval> all;
    mapping.Intervals(0, elements, &all);
    for (std::int64_t e = 0; e < elements; ++e) {
      const MappedInterval at = mapping.IntervalAt(e);
      const auto whole = std::find_if(all.begin(), all.end(), [&](const auto& r) { return e < r.end; });
      CHECK(at.begin <= e && e < at.end && at.begin >= whole->begin && at.end <= whole->end);
      CHECK_EQ(at.tile, whole->tile);
    }
    CHECK(mapping.IntervalAt(elements).tile == kNoTile && mapping.IntervalAt(elements).begin == elements);
  }
  const Mapping gaps = Intervals({{2, 4, 1}, {4, 6, 0}, {9, 10, 1}});
  const auto is = [&](std::int64_t element, std::int64_t begin, std::int64_t end, unsigned tile) {
    const MappedInterval at = gaps.IntervalAt(element);
    return at.begin == begin && at.end == end && at.tile == tile;
  };
  CHECK(is(0, 0, 2, kNoTile) && is(3, 2, 4, 1) && is(4, 4, 6, 0) && is(7, 6, 9, kNoTile) && is(9, 9, 10, 1));
  CHECK(gaps.IntervalAt(10).tile == kNoTile && Mapping().IntervalAt(5).begin == 0);
}

TEST(LaterIntervalsReplaceEarlierOnes) {
  Mapping mapping;
  CHECK(mapping.empty());
  mapping.Overwrite({{6, 8, 1}, {0, 4, 0}}, 8);
  CHECK(!mapping.empty() && !mapping.Complete(8));
  mapping.Overwrite({{4, 6, 0}}, 8);
  CHECK(mapping.Complete(8) && mapping == Intervals({{0, 6, 0}, {6, 8, 1}}));
  mapping.Overwrite({{5, 7, 2}}, 8);
  mapping.Overwrite({{6, 7, 3}}, 8);
  CHECK(mapping == Intervals({{0, 5, 0}, {5, 6, 2}, {6, 7, 3}, {7, 8, 1}}));
  mapping.Overwrite({{2, 4, 4}, {0, 3, 4}, {2, 4, 4}, {3, 4, 5}}, 8);  // of a tensor with aliases
  CHECK(mapping == Intervals({{0, 4, 4}, {4, 5, 0}, {5, 6, 2}, {6, 7, 3}, {7, 8, 1}}));
  Mapping grid(Grid::Linear(8, 1, 1, 2));
  grid.Overwrite({{0, 1, 5}}, 8);
  CHECK(grid.grid() == nullptr && grid == Intervals({{0, 1, 5}, {1, 4, 0}, {4, 8, 1}}));
}

TEST(WrongMappingsAreRefused) {
  CHECK_THROWS(std::invalid_argument, Intervals({{0, 4, 0}, {3, 8, 1}}));
  CHECK_THROWS(std::invalid_argument, Mapping(Grid{{4}, {0}, {1}, {1}, 0, 1}));
  CHECK_THROWS(std::out_of_range, Intervals({{0, 4, 0}}).TileOf(4));
  CHECK_THROWS(std::out_of_range, Mapping(Grid::Linear(4, 1, 1, 2)).TileOf(4));
  const View view{0, DType::kF32, 0, {4}, {1}};
  CHECK_THROWS(std::out_of_range, Intervals({{0, 4, 9}}).VerticesOver(view, 4));
}

TEST(TargetTable) {
  CHECK_EQ(FindTargetModel("ipu2").num_tiles, 1472u);
  CHECK_EQ(FindTargetModel("ipu1").num_tiles, 1216u);
  CHECK_EQ(FindTargetModel("bow").clock_hz, 1.85e9);
  CHECK_EQ(FindTargetModel("bow").AmpMacsPerCycle(DType::kF16), 64u);
  CHECK_EQ(FindTargetModel("ipu2").AmpMacsPerCycle(DType::kS32), 0u);
  CHECK_EQ(FindTargetModel("ipu2").VectorWidth(DType::kF16), 4u);
  CHECK_EQ(FindTargetModel("ipu2").AmpInputGroup(DType::kF32), 8u);
  std::string message;
  try {
    FindTargetModel("ipu9");
  } catch (const std::invalid_argument& e) {
    message = e.what();
  }
  for (const std::string& name : ChipNames()) CHECK(message.find(name) != std::string::npos);
}
