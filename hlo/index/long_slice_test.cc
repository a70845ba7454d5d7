// Slices and updates that are too long for one tile: kernel and expansion have the same vertices and values.
#include "hlo/Index.hpp"
#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"

namespace hlo::testing {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

struct Starts {
  std::vector<Tensor> tensors;
  std::vector<Bytes> values;
};

template <typename S>
Starts StartsOf(Graph& graph, DType type, const std::vector<S>& at) {
  Starts starts;
  for (unsigned d = 0; d < at.size(); ++d) {
    starts.tensors.push_back(graph.addVariable(poplar::Type(type), {}, "start"));
    graph.setTileMapping(starts.tensors.back(), d);
    starts.values.push_back(BytesOf(at[d]));
  }
  return starts;
}

template <typename S>
void CheckSlice(DType type, DType index, const std::vector<std::size_t>& shape,
                const std::vector<std::size_t>& sizes, const std::vector<S>& at) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  const Tensor t = Linear(graph, type, shape);
  const Starts starts = StartsOf(graph, index, at);
  Sequence prog;
  const Tensor out = hlo::dynamicSlice(graph, t, starts.tensors, sizes, prog, "slice");
  std::vector<Tensor> inputs = {t};
  inputs.insert(inputs.end(), starts.tensors.begin(), starts.tensors.end());
  ExpansionCheck check(graph, prog, inputs, {out});
  check.SameVertices();
  std::vector<Bytes> values = {RandomBytes(t, 1)};
  values.insert(values.end(), starts.values.begin(), starts.values.end());
  check.SameValues(values, SameBits);
}

void CheckUpdate(DType type, bool in_place, const std::vector<std::size_t>& shape,
                 const std::vector<std::size_t>& sizes, const std::vector<std::int32_t>& at) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  const Tensor t = Linear(graph, type, shape), update = Linear(graph, type, sizes);
  const Starts starts = StartsOf(graph, DType::kS32, at);
  Sequence prog;
  const Tensor out = hlo::dynamicUpdateSlice(graph, t, update, starts.tensors, prog, in_place, "update");
  std::vector<Tensor> inputs = {t, update};
  inputs.insert(inputs.end(), starts.tensors.begin(), starts.tensors.end());
  ExpansionCheck check(graph, prog, inputs, {out});
  check.SameVertices();
  std::vector<Bytes> values = {RandomBytes(t, 1), RandomBytes(update, 2)};
  values.insert(values.end(), starts.values.begin(), starts.values.end());
  check.SameValues(values, SameBits);
}

TEST(SliceOfALine) {
  for (const std::int32_t at : {0, 1, 4097, 15006, -3, 99999})
    CheckSlice<std::int32_t>(DType::kF32, DType::kS32, {45007}, {30001}, {at});
}

TEST(SliceOfTwoDimensions) {
  for (const std::vector<std::int32_t>& at : {std::vector<std::int32_t>{0, 1}, {1, 1000}, {7, -1}})
    CheckSlice<std::int32_t>(DType::kF32, DType::kS32, {3, 15001}, {2, 14000}, at);
}

TEST(EveryType) {
  CheckSlice<std::int32_t>(DType::kS8, DType::kS32, {90000}, {85000}, {2});
  CheckSlice<std::uint32_t>(DType::kF16, DType::kU32, {60000}, {50000}, {4000000000u});
  CheckSlice<std::int64_t>(DType::kF64, DType::kS64, {20000}, {15000}, {std::int64_t{1} << 40});
  CheckSlice<std::uint8_t>(DType::kC64, DType::kU8, {20000}, {15000}, {200});
}

TEST(Update) {
  for (const bool in_place : {false, true}) {
    for (const std::int32_t at : {0, 1, 4097, 15006, -3, 99999})
      CheckUpdate(DType::kF32, in_place, {45007}, {30001}, {at});
    CheckUpdate(DType::kF16, in_place, {3, 30001}, {2, 28000}, {1, 1234});
  }
}

}  // namespace
}  // namespace hlo::testing
