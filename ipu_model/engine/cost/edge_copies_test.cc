// What tiles copy so that the edges of explicit vertices are pieces of memory.
#include "engine/cost/edge_copies.h"

#include <utility>

#include "check.h"

namespace ipu_model {
namespace {

constexpr unsigned kTiles = 4;

// Two variables of 6 rows of 8 elements: tiles 0 and 1 have the left and the right half of each row.
std::vector<Variable> Halves() {
  std::vector<Variable> variables(2);
  for (Variable& v : variables) {
    std::vector<MappedInterval> intervals;
    for (std::int64_t row = 0; row < 6; ++row) {
      intervals.push_back({8 * row, 8 * row + 4, 0});
      intervals.push_back({8 * row + 4, 8 * row + 8, 1});
    }
    v.num_elements = 48;
    v.mapping = Mapping(std::move(intervals));
  }
  return variables;
}

std::vector<View> Views() {
  std::vector<View> views(2);
  for (VariableId v = 0; v < 2; ++v) {
    views[v].variable = v;
    views[v].shape = {48};
    views[v].strides = {1};
  }
  return views;
}

void CheckCopy(const LocalCopy& copy, std::int64_t rows, std::int64_t elements) {
  CHECK_EQ(copy.rows, rows);
  CHECK_EQ(copy.elements, elements);
}

TEST(EdgesThatLieTogetherOrArriveAreNotCopied) {
  const std::vector<Variable> variables = Halves();
  EdgeCopies copies(variables);
  CheckCopy(copies.Of(0, {{0, 8, 4}}, Views()), 0, 0);
  // Rows of the tile that follow one another in its memory.
  CheckCopy(copies.Of(0, {{0, 0, 4}, {0, 8, 4}, {0, 16, 4}}, Views()), 0, 0);
  // Nothing is on the tile.
  CheckCopy(copies.Of(0, {{0, 4, 4}}, Views()), 0, 0);
  CheckCopy(copies.Of(2, {{0, 0, 4}, {1, 8, 4}}, Views()), 0, 0);
}

TEST(WhatATileHasOfOtherEdgesIsCopied) {
  const std::vector<Variable> variables = Halves();
  EdgeCopies copies(variables);
  // Half of it arrives.
  CheckCopy(copies.Of(0, {{0, 0, 8}}, Views()), 1, 4);
  // Rows with the neighbour's next column.
  CheckCopy(copies.Of(0, {{0, 0, 5}, {0, 8, 5}, {0, 16, 5}}, Views()), 3, 12);
  // Parts of rows, rows in another order, a row twice, two variables.
  CheckCopy(copies.Of(0, {{0, 0, 3}, {0, 8, 3}}, Views()), 2, 6);
  CheckCopy(copies.Of(0, {{0, 8, 4}, {0, 0, 4}}, Views()), 2, 8);
  CheckCopy(copies.Of(0, {{0, 0, 4}, {0, 0, 4}}, Views()), 2, 8);
  CheckCopy(copies.Of(0, {{0, 0, 4}, {1, 0, 4}}, Views()), 2, 8);
  // Two rows that lie together are one, and what arrives between others keeps them apart.
  CheckCopy(copies.Of(0, {{0, 0, 4}, {0, 8, 4}, {1, 0, 4}}, Views()), 2, 12);
  CheckCopy(copies.Of(0, {{0, 0, 4}, {1, 4, 2}, {0, 8, 4}}, Views()), 2, 8);
}

TEST(CopiesTakeTheRowsOfTheWorkersAndTheMemorysRate) {
  const TargetModel& target = FindTargetModel("ipu2");
  CHECK_EQ(LocalCopyCycles(target, 4, {10, 400}), std::uint64_t{10 * (15 + 20)});
  CHECK_EQ(LocalCopyCycles(target, 4, {0, 0}), std::uint64_t{0});
  // Single elements are moved one by one.
  CHECK_EQ(LocalCopyCycles(target, 4, {100, 100}), std::uint64_t{125});
  LocalCopies copies;
  copies.Reset(kTiles);
  CHECK(!copies.any());
  copies.Add(target, 1, 4, {1, 3});
  copies.Add(target, 1, 4, {2, 4}, /*buffered=*/false);
  CHECK(copies.any() && copies.rows[1] == 3 && copies.bytes[1] == 16 && copies.cycles[0] == 0);
}

}  // namespace
}  // namespace ipu_model
