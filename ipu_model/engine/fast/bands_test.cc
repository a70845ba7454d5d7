// Tests which operations run in bands together, and that bands do not change values.
#include "engine/fast/bands.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "check.h"
#include "engine/fast/fast_engine.h"
#include "engine/fast/make_host_plan.h"
#include "popops/ElementWise.hpp"
#include "popops/Reduce.hpp"
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

using Builder = std::function<std::vector<Tensor>(poplar::Graph&, const Tensor&, Sequence*)>;

struct Ran {
  std::vector<ipu_model::BandGroup> groups;
  std::vector<std::vector<std::int32_t>> results;
};

// Runs what `build` makes of a tensor of this shape, whose element i is i % 1009.
Ran RunOn(const std::vector<std::size_t>& shape, const Builder& build) {
  poplar::Graph graph(poplar::Target::createIPUTarget(1, 4, "ipu2"));
  const Tensor x = graph.addVariable(poplar::INT, shape, "x");
  Sequence prog({Copy(graph.addHostToDeviceFIFO("in", poplar::INT, x.numElements()), x)});
  Ran ran;
  for (const Tensor& result : build(graph, x, &prog)) {
    const std::size_t n = result.numElements();
    prog.add(
        Copy(result, graph.addDeviceToHostFIFO("out" + std::to_string(ran.results.size()), poplar::INT, n)));
    ran.results.emplace_back(n);
  }
  const auto compiled = ipu_model::toy::Compile(graph, {prog});
  std::vector<std::int32_t> values(x.numElements());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i % 1009);
  ipu_model::FastEngine engine(compiled);
  engine.ConnectStream(0, values.data());
  for (unsigned k = 0; k < ran.results.size(); ++k) engine.ConnectStream(k + 1, ran.results[k].data());
  engine.Run(0);
  ran.groups = ipu_model::MakeHostPlan(*compiled).bands;
  return ran;
}

std::int32_t Value(std::size_t i) { return static_cast<std::int32_t>(i % 1009); }

Tensor Sum(poplar::Graph& graph, const Tensor& x, const std::vector<std::size_t>& dimensions, Sequence* prog,
           popops::Operation op = popops::Operation::ADD) {
  return popops::reduce(graph, x, dimensions, {op}, *prog);
}

TEST(ShortPiecesOfMemoryAreNoBands) {
  const Builder build = [](poplar::Graph& graph, const Tensor& x, Sequence* prog) {
    const Tensor y = popops::square(graph, x.dimShuffle({1, 0, 2}), *prog);
    return std::vector<Tensor>{popops::add(graph, y, y, *prog)};
  };
  // A band of [4, 64, 2048] along the second dimension is four pieces of at least 8 KiB.
  const Ran pieces = RunOn({4, 64, 2048}, build);
  CHECK_EQ(pieces.groups.size(), std::size_t{1});
  CHECK_EQ(pieces.groups[0].extent, std::int64_t{64});
  const Ran columns = RunOn({1024, 512, 1}, build);
  CHECK(columns.groups.empty());
  for (std::size_t i = 0; i < 512; ++i) {
    const std::int32_t v = Value(3 * 512 + i);
    CHECK_EQ(columns.results[0][i * 1024 + 3], 2 * v * v);
  }
}

TEST(AColumnSumEndsAGroupWithPartialResults) {
  constexpr std::size_t kRows = 3001, kColumns = 120;
  const Ran ran = RunOn({kRows, kColumns}, [](poplar::Graph& graph, const Tensor& x, Sequence* prog) {
    const Tensor y = popops::square(graph, x, *prog), sum = Sum(graph, y, {0}, prog),
                 most = Sum(graph, y, {0}, prog, popops::Operation::MAX);
    // The whole sum is needed: this is no member.
    return std::vector<Tensor>{sum, most, popops::add(graph, sum, most, *prog)};
  });
  CHECK_EQ(ran.groups.size(), std::size_t{1});
  const ipu_model::BandGroup& group = ran.groups[0];
  CHECK_EQ(group.extent, static_cast<std::int64_t>(kRows));
  CHECK_EQ(group.operations.size(), std::size_t{3});
  CHECK(group.operations[0].partials.empty());
  CHECK_EQ(group.operations[1].partials.size(), std::size_t{1});
  CHECK_EQ(group.operations[2].partials.size(), std::size_t{1});
  CHECK(group.partial_bytes >= 2 * group.bands() * static_cast<std::int64_t>(kColumns) * 4);
  // The squares are never in main memory.
  CHECK(group.local_bytes >= group.rows * static_cast<std::int64_t>(kColumns) * 4);
  for (std::size_t c = 0; c < kColumns; ++c) {
    std::int32_t sum = 0, most = 0;
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::int32_t v = Value(r * kColumns + c);
      sum += v * v;
      most = std::max(most, v * v);
    }
    CHECK_EQ(ran.results[0][c], sum);
    CHECK_EQ(ran.results[1][c], most);
    CHECK_EQ(ran.results[2][c], sum + most);
  }
}

// Sums over the first and last dimensions, which are cut along the first one.
TEST(ASumOverSeveralDimensionsIsCutAlongTheOutermost) {
  const Ran ran = RunOn({64, 30, 200}, [](poplar::Graph& graph, const Tensor& x, Sequence* prog) {
    return std::vector<Tensor>{Sum(graph, popops::square(graph, x, *prog), {0, 2}, prog)};
  });
  CHECK_EQ(ran.groups.size(), std::size_t{1});
  CHECK_EQ(ran.groups[0].extent, std::int64_t{64});
  for (std::size_t k = 0; k < 30; ++k) {
    std::uint32_t sum = 0;  // wraps, as the sums do
    for (std::size_t r = 0; r < 64; ++r) {
      for (std::size_t i = 0; i < 200; ++i) {
        const auto v = static_cast<std::uint32_t>(Value((r * 30 + k) * 200 + i));
        sum += v * v;
      }
    }
    CHECK_EQ(ran.results[0][k], static_cast<std::int32_t>(sum));
  }
}

// The next operation needs whole sums, but only of its own positions of the kept dimension.
TEST(SumsThatAreNeededAtOnceAreCutAlongWhatTheyKeep) {
  const Ran ran = RunOn({32, 64, 1024}, [](poplar::Graph& graph, const Tensor& x, Sequence* prog) {
    const Tensor sum = Sum(graph, x, {0, 2}, prog);
    const Tensor spread = sum.expand({0, 0}).broadcast(32, 0).broadcast(1024, 1).dimShuffle({0, 2, 1});
    return std::vector<Tensor>{popops::sub(graph, x, spread, *prog)};
  });
  CHECK_EQ(ran.groups.size(), std::size_t{1});
  CHECK_EQ(ran.groups[0].extent, std::int64_t{64});
  CHECK(ran.groups[0].operations[0].partials.empty());
  std::int32_t sum = 0;
  for (std::size_t n = 0; n < 32; ++n) {
    for (std::size_t i = 0; i < 1024; ++i) sum += Value((n * 64 + 3) * 1024 + i);
  }
  CHECK_EQ(ran.results[0][(5 * 64 + 3) * 1024 + 7], Value((5 * 64 + 3) * 1024 + 7) - sum);
}

// Where one position of the outermost dimension does not fit into the cache, bands run along the next one.
TEST(LargePositionsAreCutFiner) {
  constexpr std::size_t kOuter = 16, kInner = 12, kRows = 64, kColumns = 512;
  const Ran ran =
      RunOn({kOuter, kInner, kRows, kColumns}, [](poplar::Graph& graph, const Tensor& x, Sequence* prog) {
        const Tensor y = popops::square(graph, x, *prog), row = Sum(graph, y, {3}, prog),
                     z = popops::sub(graph, y, row.expand({3}).broadcast(kColumns, 3), *prog);
        return std::vector<Tensor>{z, Sum(graph, z, {0, 1, 2}, prog)};
      });
  CHECK_EQ(ran.groups.size(), std::size_t{1});
  const ipu_model::BandGroup& group = ran.groups[0];
  CHECK_EQ(group.operations.size(), std::size_t{4});
  CHECK_EQ(group.outer, static_cast<std::int64_t>(kOuter));
  CHECK_EQ(group.extent, static_cast<std::int64_t>(kInner));
  CHECK(group.rows * static_cast<std::int64_t>(kRows * kColumns) * 4 <= 512 << 10);
  std::vector<std::int32_t> columns(kColumns);
  std::size_t wrong = 0;
  for (std::size_t r = 0; r < kOuter * kInner * kRows; ++r) {
    std::int32_t sum = 0;
    for (std::size_t c = 0; c < kColumns; ++c) sum += Value(r * kColumns + c) * Value(r * kColumns + c);
    for (std::size_t c = 0; c < kColumns; ++c) {
      const std::int32_t v = Value(r * kColumns + c), z = v * v - sum;
      wrong += ran.results[0][r * kColumns + c] != z ? 1 : 0;
      columns[c] =
          static_cast<std::int32_t>(static_cast<std::uint32_t>(columns[c]) + static_cast<std::uint32_t>(z));
    }
  }
  CHECK_EQ(wrong, std::size_t{0});
  CHECK(ran.results[1] == columns);
}

// As many partial results as values: the coarser bands remain.
TEST(LargePartialResultsAreNotCutFiner) {
  const Ran ran = RunOn({16, 12, 64, 512}, [](poplar::Graph& graph, const Tensor& x, Sequence* prog) {
    return std::vector<Tensor>{Sum(graph, popops::square(graph, x, *prog), {0, 1}, prog)};
  });
  CHECK_EQ(ran.groups.size(), std::size_t{1});
  CHECK_EQ(ran.groups[0].outer, std::int64_t{1});
  CHECK_EQ(ran.groups[0].extent, std::int64_t{16});
}

// The second operation reads every position of the outer dimension.
TEST(OtherOuterPositionsEndAGroup) {
  constexpr std::size_t kShape[] = {16, 12, 64, 512};
  const Ran ran = RunOn({16, 12, 64, 512}, [](poplar::Graph& graph, const Tensor& x, Sequence* prog) {
    const Tensor y = popops::square(graph, x, *prog);
    return std::vector<Tensor>{popops::add(graph, y, y.reverse(0), *prog)};
  });
  CHECK(ran.groups.empty());
  const std::size_t plane = kShape[1] * kShape[2] * kShape[3];
  const std::int32_t first = Value(5), last = Value(15 * plane + 5);
  CHECK_EQ(ran.results[0][5], first * first + last * last);
}

TEST(PartialResultsAsLargeAsTheValuesDoNotPay) {
  const Ran ran = RunOn({8, 1 << 16}, [](poplar::Graph& graph, const Tensor& x, Sequence* prog) {
    return std::vector<Tensor>{Sum(graph, popops::square(graph, x, *prog), {0}, prog)};
  });
  CHECK(ran.groups.empty());
}

// The partial results of the last operation would be as large as its values; those before it are a group.
TEST(WhatDoesNotPayIsLeftOut) {
  const Ran ran = RunOn({8, 1 << 16}, [](poplar::Graph& graph, const Tensor& x, Sequence* prog) {
    const Tensor y = popops::square(graph, x, *prog), z = popops::add(graph, y, y, *prog);
    return std::vector<Tensor>{Sum(graph, z, {0}, prog)};
  });
  CHECK_EQ(ran.groups.size(), std::size_t{1});
  CHECK_EQ(ran.groups[0].operations.size(), std::size_t{2});
}

}  // namespace
