// Tests which operations run in bands together, and that bands do not change values.
#include "engine/bands.h"

#include <cstdint>
#include <functional>
#include <vector>

#include "check.h"
#include "engine/fast_engine.h"
#include "engine/make_host_plan.h"
#include "testing/mix_operation.h"

namespace {

using ipu_model::toy::AddMix;
using poplar::Tensor;
using poplar::program::Copy;
using poplar::program::Sequence;

constexpr std::size_t kSize = 1 << 18;

std::uint32_t Mixed(std::uint32_t a, std::uint32_t b) { return a * 3 + b + 1; }

// Runs y = mix(x, x), then z = mix(y, of(y)). Returns the groups of bands, and compares z with `expected(y,
// i)`.
std::vector<ipu_model::BandGroup> RunPair(
    std::size_t size, const std::function<Tensor(const Tensor&)>& of,
    const std::function<std::uint32_t(const std::vector<std::uint32_t>&, std::size_t)>& expected,
    bool in_loop = false, bool read_later = false) {
  poplar::Graph graph(poplar::Target::createIPUTarget(1, 4, "ipu2"));
  const Tensor x = graph.addVariable(poplar::INT, {size}, "x"),
               y = graph.addVariable(poplar::INT, {size}, "y"),
               z = graph.addVariable(poplar::INT, {size}, "z");
  const auto in = graph.addHostToDeviceFIFO("in", poplar::INT, size);
  const auto out = graph.addDeviceToHostFIFO("out", poplar::INT, size);
  Sequence first, second;
  AddMix(&first, x, x, y, false);
  AddMix(&second, y, of(y), z, false);
  Sequence prog({Copy(in, x)});
  if (in_loop) {
    prog.add(first);
    prog.add(poplar::program::Repeat(3, second));
  } else {
    prog.add(first);
    prog.add(second);
  }
  prog.add(Copy(z, out));
  if (read_later) prog.add(Copy(y.reverse(0), graph.addDeviceToHostFIFO("later", poplar::INT, size)));
  const auto compiled = ipu_model::toy::Compile(graph, {prog});
  std::vector<std::uint32_t> values(size), results(size), middle(size);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = static_cast<std::uint32_t>(i * 2654435761u);
    middle[i] = Mixed(values[i], values[i]);
  }
  ipu_model::FastEngine engine(compiled);
  engine.ConnectStream(0, values.data());
  engine.ConnectStream(1, results.data());
  std::vector<std::uint32_t> later(read_later ? size : 0);
  if (read_later) engine.ConnectStream(2, later.data());
  engine.Run(0);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < size; ++i) wrong += results[i] != Mixed(middle[i], expected(middle, i));
  for (std::size_t i = 0; i < later.size(); ++i) wrong += later[i] != middle[size - 1 - i];
  CHECK_EQ(wrong, std::size_t{0});
  return ipu_model::MakeHostPlan(*compiled).bands;
}

TEST(SameElementsRunInBands) {
  const auto groups = RunPair(
      kSize, [](const Tensor& y) { return y; },
      [](const std::vector<std::uint32_t>& y, std::size_t i) { return y[i]; });
  CHECK_EQ(groups.size(), std::size_t{1});
  CHECK_EQ(groups[0].operations.size(), std::size_t{2});
  CHECK_EQ(groups[0].extent, static_cast<std::int64_t>(kSize));
  CHECK(groups[0].rows * 8 <= groups[0].extent && groups[0].rows >= 1024);
  // x and z are in the host's memory, y is in the worker's memory.
  CHECK_EQ(groups[0].local_bytes, groups[0].rows * 4);
}

TEST(WhatIsUsedLaterIsNotLocal) {
  const auto groups = RunPair(
      kSize, [](const Tensor& y) { return y; },
      [](const std::vector<std::uint32_t>& y, std::size_t i) { return y[i]; }, false, true);
  CHECK_EQ(groups.size(), std::size_t{1});
  CHECK_EQ(groups[0].local_bytes, std::int64_t{0});
}

TEST(OtherElementsDoNot) {
  const auto reversed = RunPair(
      kSize, [](const Tensor& y) { return y.reverse(0); },
      [](const std::vector<std::uint32_t>& y, std::size_t i) { return y[y.size() - 1 - i]; });
  CHECK(reversed.empty());
  const auto repeated = RunPair(
      kSize, [](const Tensor& y) { return y.slice(5, 6).broadcast(kSize, 0); },
      [](const std::vector<std::uint32_t>& y, std::size_t) { return y[5]; });
  CHECK(repeated.empty());
}

// A row that is computed for an operation on a matrix, which runs in place.
TEST(AVectorDoesNotCutAMatrixIntoColumns) {
  constexpr std::size_t kSide = 512;
  poplar::Graph graph(poplar::Target::createIPUTarget(1, 4, "ipu2"));
  const Tensor row = graph.addVariable(poplar::INT, {kSide}, "row"),
               made = graph.addVariable(poplar::INT, {kSide}, "made"),
               matrix = graph.addVariable(poplar::INT, {kSide, kSide}, "matrix");
  const auto in = graph.addHostToDeviceFIFO("in", poplar::INT, kSide);
  const auto out = graph.addDeviceToHostFIFO("out", poplar::INT, kSide * kSide);
  Sequence prog({Copy(in, row)});
  AddMix(&prog, row, row, made, false);
  AddMix(&prog, matrix, made.expand({0}).broadcast(kSide, 0), matrix, true);
  prog.add(Copy(matrix, out));
  CHECK(ipu_model::MakeHostPlan(*ipu_model::toy::Compile(graph, {prog})).bands.empty());
}

TEST(SmallOnesAndEntriesOfLoopsDoNot) {
  const auto same = [](const Tensor& y) { return y; };
  const auto own = [](const std::vector<std::uint32_t>& y, std::size_t i) { return y[i]; };
  CHECK(RunPair(1000, same, own).empty());
  CHECK(RunPair(kSize, same, own, true).empty());
}

}  // namespace

int main() { return jax_ipu::testing::RunTests(); }
