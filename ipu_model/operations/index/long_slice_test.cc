// Long slices and updates with little memory for buffers.
#include <numeric>

#include "core/graph/graph_impl.h"
#include "core/program/program_node.h"
#include "core/vertices/limits_buffers.h"
#include "hlo/Index.hpp"
#include "operations/index/long_slice_plan.h"
#include "testing/plan_runner.h"

namespace ipu_model {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

constexpr std::int64_t kWhole = 45007, kWindow = 30001;

// Runs `make` with lower and lower limits; `make` returns the result of x, a window and a start.
template <typename Make, typename Expected>
void CheckLimits(const Make& make, const Expected& expected) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  const Tensor x = MappedVariable(graph, DType::kS32, {kWhole}),
               window = MappedVariable(graph, DType::kS32, {kWindow}),
               start = MappedVariable(graph, DType::kS32, {});
  Sequence prog;
  const Tensor out = make(graph, x, window, start, prog);
  auto& limits = dynamic_cast<LimitsBuffers&>(*prog.node()->children.back()->operation);
  std::vector<std::int32_t> values(kWhole), updates(kWindow);
  std::iota(values.begin(), values.end(), 1);
  std::iota(updates.begin(), updates.end(), -kWindow);
  std::size_t fewest = 0, most = 0;
  for (const std::int64_t limit : {0, 200'000, 60'000, 4'000}) {
    if (limit > 0) CHECK(limits.CanDoWith(limit) && limits.LimitBuffers(limit));
    for (const std::int32_t at : {0, 1, 9999, 15006, 99999}) {
      PlanRunner runner(graph, 0);
      runner.Store(x, values.data());
      runner.Store(window, updates.data());
      runner.Store(start, &at);
      runner.RunVertices(prog);
      CHECK(runner.supersteps() >= most);
      most = runner.supersteps();
      if (fewest == 0) fewest = most;
      const Bytes got = runner.Load(out);
      const std::vector<std::int32_t> want =
          expected(values, updates, std::min<std::int64_t>(at, kWhole - kWindow));
      CHECK(std::memcmp(got.data(), want.data(), want.size() * sizeof(std::int32_t)) == 0);
    }
  }
  CHECK(most > 2 * fewest);
}

TEST(SliceWithLittleMemory) {
  CheckLimits([](Graph& graph, const Tensor& x, const Tensor&, const Tensor& start,
                 Sequence& prog) { return hlo::dynamicSlice(graph, x, {start}, {kWindow}, prog, "slice"); },
              [](const std::vector<std::int32_t>& x, const std::vector<std::int32_t>&, std::int64_t at) {
                return std::vector<std::int32_t>(x.begin() + at, x.begin() + at + kWindow);
              });
}

TEST(UpdateWithLittleMemory) {
  for (const bool in_place : {false, true}) {
    CheckLimits(
        [in_place](Graph& graph, const Tensor& x, const Tensor& window, const Tensor& start, Sequence& prog) {
          return hlo::dynamicUpdateSlice(graph, x, window, {start}, prog, in_place, "update");
        },
        [](std::vector<std::int32_t> x, const std::vector<std::int32_t>& window, std::int64_t at) {
          std::copy(window.begin(), window.end(), x.begin() + at);
          return x;
        });
  }
}

// One digit weighs as little as the number of digits allows.
TEST(TemporariesAreHardlyLongerThanTheWindow) {
  for (const std::int64_t window : {1'000'000, 3'000'000, 5'000'000, 9'000'000}) {
    const LongSlice made = PlanLongSlice({10'000'000}, {window}, DType::kF32, 1472, 0);
    const std::int64_t held = made.plan.temporaries.at(0).placement.shape[0], room = 10'000'000 - window;
    CHECK(held >= window + (room + 1) / 4);
    CHECK(held <= window + (room + 1) / 3);
    CHECK_EQ(made.digits.size(), made.plan.supersteps.size());
  }
}

}  // namespace
}  // namespace ipu_model
