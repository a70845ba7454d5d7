// Updates of slices: kernel and expansion have the same vertices and values.
#include "hlo/Index.hpp"
#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"

namespace hlo::testing {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

template <typename S>
void CheckUpdate(DType type, DType index, bool in_place, const std::vector<S>& at) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  const Tensor t = Linear(graph, type, {5, 9, 8}), update = Linear(graph, type, {2, 9, 3});
  std::vector<Tensor> starts;
  for (unsigned d = 0; d < 3; ++d) {
    starts.push_back(graph.addVariable(poplar::Type(index), {}, "start"));
    graph.setTileMapping(starts.back(), d);
  }
  Sequence prog;
  const Tensor out = hlo::dynamicUpdateSlice(graph, t, update, starts, prog, in_place, "update");
  std::vector<Tensor> inputs = {t, update};
  inputs.insert(inputs.end(), starts.begin(), starts.end());
  ExpansionCheck check(graph, prog, inputs, {out});
  check.SameVertices();
  std::vector<Bytes> values = {RandomBytes(t, 1), RandomBytes(update, 2)};
  for (const S start : at) values.push_back(BytesOf(start));
  check.SameValues(values, SameBits);
}

TEST(PositionsAreClamped) {
  for (const bool in_place : {false, true}) {
    for (const std::vector<std::int32_t>& at :
         {std::vector<std::int32_t>{1, 0, 4}, {3, 5, 5}, {-4, 1, 99}, {99, -1, -99}})
      CheckUpdate(DType::kF32, DType::kS32, in_place, at);
  }
}

TEST(EveryType) {
  for (const DType type : {DType::kPred, DType::kS8, DType::kF8E5M2, DType::kF16, DType::kBF16, DType::kS64,
                           DType::kF64, DType::kC64})
    CheckUpdate<std::int32_t>(type, DType::kS32, type != DType::kS8, {2, 0, 4});
  CheckUpdate<std::uint32_t>(DType::kF32, DType::kU32, true, {2, 0, 4000000000u});
  CheckUpdate<std::int64_t>(DType::kF32, DType::kS64, true,
                            {-(std::int64_t{1} << 40), 0, std::int64_t{1} << 40});
  CheckUpdate<std::uint8_t>(DType::kF32, DType::kU8, false, {2, 0, 200});
}

// The update is a part of the tensor itself, which is copied before.
TEST(UpdateFromTheSameTensor) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  const Tensor t = Linear(graph, DType::kF32, {6, 9});
  const Tensor start = graph.addVariable(poplar::INT, {}, "start");
  graph.setTileMapping(start, 0);
  Sequence prog;
  hlo::dynamicUpdateSlice(graph, t, t.slice(0, 2), {start, start}, prog, true, "update");
  ExpansionCheck check(graph, prog, {t, start}, {t});
  const std::vector<Bytes> values = {RandomBytes(t, 1), BytesOf(std::int32_t{3})};
  check.SameValues(
      values, [](DType type, const void* a, const void* b) { return std::memcmp(a, b, SizeOf(type)) == 0; });
}

}  // namespace
}  // namespace hlo::testing
