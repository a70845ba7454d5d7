// The elements that a vertex accesses are compared as runs: as if each were listed.
#include "testing/expansion_check.h"

#include <set>

namespace hlo::testing {
namespace {

using Listed = std::set<std::pair<VariableId, std::int64_t>>;

void List(const View& view, const Box& region, Listed* listed) {
  Shape at = region.begin;
  const std::int64_t elements = region.num_elements();
  for (std::int64_t i = 0; i < elements; ++i) {
    std::int64_t rest = i, element = view.offset;
    for (std::size_t d = at.size(); d-- > 0;) {
      const std::int64_t extent = region.end[d] - region.begin[d];
      element += (region.begin[d] + rest % extent) * view.strides[d];
      rest /= extent;
    }
    listed->emplace(view.variable, element);
  }
}

Listed ListedIn(const Elements& runs) {
  Listed listed;
  for (const ElementRun& run : runs)
    for (std::int64_t element = run.begin; element < run.end; ++element)
      CHECK(listed.emplace(run.variable, element).second);
  return listed;
}

TEST(RunsAreTheElementsOfTheirRegions) {
  std::mt19937 random(1);
  const auto below = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
  std::map<Listed, Elements> known;
  for (int round = 0; round < 3000; ++round) {
    Elements runs;
    Listed listed;
    for (int regions = 1 + static_cast<int>(below(3)); regions > 0; --regions) {
      View view;
      view.variable = static_cast<VariableId>(below(2));
      view.offset = below(4);
      Box region;
      for (std::int64_t rank = below(4); rank > 0; --rank) {
        view.shape.push_back(3);
        view.strides.push_back(below(4));
        region.begin.push_back(below(3));
        region.end.push_back(region.begin.back() + below(4 - static_cast<unsigned>(region.begin.back())));
      }
      AddElements(view, region, &runs);
      List(view, region, &listed);
    }
    SortRuns(&runs);
    CHECK(ListedIn(runs) == listed);
    // Equal sets have equal runs.
    CHECK(known.try_emplace(listed, runs).first->second == runs);
  }
}

}  // namespace
}  // namespace hlo::testing
