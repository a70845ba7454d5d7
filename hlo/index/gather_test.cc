// Slices and gathers: kernel and expansion have the same vertices and values.
#include "hlo/Index.hpp"
#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"
#include "testing/window_dims.h"

namespace hlo::testing {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

template <typename S>
void CheckSlice(DType type, DType index, const std::vector<std::size_t>& sizes, const std::vector<S>& at) {
  Graph graph = SmallGraph();
  const Tensor t = Linear(graph, type, {5, 9, 8});
  std::vector<Tensor> inputs = {t}, starts;
  std::vector<Bytes> values = {RandomBytes(t, 1)};
  for (unsigned d = 0; d < 3; ++d) {
    starts.push_back(graph.addVariable(poplar::Type(index), {}, "start"));
    graph.setTileMapping(starts.back(), d);
    inputs.push_back(starts.back());
    values.push_back(BytesOf(at[d]));
  }
  Sequence prog;
  const Tensor out = hlo::dynamicSlice(graph, t, starts, sizes, prog, "slice");
  ExpansionCheck check(graph, prog, inputs, {out});
  check.SameVertices();
  check.SameValues(values, SameBits);
}

TEST(StartsAreClamped) {
  for (const std::vector<std::size_t>& sizes :
       {std::vector<std::size_t>{2, 9, 3}, {5, 1, 8}, {1, 4, 8}, {5, 9, 8}}) {
    for (const std::vector<std::int32_t>& at :
         {std::vector<std::int32_t>{1, 0, 4}, {3, 5, 5}, {-4, 1, 99}, {99, -1, -99}})
      CheckSlice(DType::kF32, DType::kS32, sizes, at);
  }
}

TEST(SlicesOfEveryType) {
  for (const DType type : {DType::kPred, DType::kS4, DType::kS8, DType::kF8E5M2, DType::kF16, DType::kBF16,
                           DType::kS64, DType::kF64, DType::kC64})
    CheckSlice<std::int32_t>(type, DType::kS32, {2, 9, 3}, {2, 0, 4});
  CheckSlice<std::uint32_t>(DType::kF32, DType::kU32, {2, 9, 3}, {2, 0, 4000000000u});
  CheckSlice<std::int64_t>(DType::kF32, DType::kS64, {2, 9, 3},
                           {-(std::int64_t{1} << 40), 0, std::int64_t{1} << 40});
  CheckSlice<std::uint8_t>(DType::kF32, DType::kU8, {2, 9, 3}, {2, 0, 200});
}

struct GatherRow {
  std::vector<std::size_t> operand, indices, sizes;
  WindowDims dims;
};

const GatherRow kRows[] = {
    {{40, 6}, {9}, {1, 6}, Dims({1}, {0}, {0}, 1)},                        // rows
    {{40, 6}, {9, 1}, {1, 6}, Dims({0}, {0}, {0}, 1)},                     // the window first
    {{40, 6}, {9}, {1, 6}, Dims({1}, {0}, {0}, 1, {}, {}, {40})},          // negative indices
    {{6, 40}, {3, 4}, {6, 1}, Dims({0}, {1}, {1}, 2)},                     // columns, two batch dimensions
    {{20, 30}, {7, 2}, {1, 1}, Dims({}, {0, 1}, {0, 1}, 1)},               // elements
    {{20, 30}, {2, 7}, {3, 5}, Dims({1, 2}, {}, {1, 0}, 0)},               // windows, components first
    {{4, 20, 3}, {4, 5, 1}, {1, 1, 3}, Dims({2}, {1}, {1}, 2, {0}, {0})},  // a paired batch dimension
    {{20, 4, 3}, {5, 4}, {2, 1, 3}, Dims({1, 3}, {}, {0}, 2, {1}, {1})},   // the second one, of windows
    {{40}, {}, {3}, Dims({0}, {}, {0}, 0)},                                // one window
    {{64, 200}, {600}, {1, 200}, Dims({1}, {0}, {0}, 1)},                  // in several steps
};

void CheckGather(const GatherRow& row, DType type, DType index, bool as_planned) {
  Graph graph = SmallGraph();
  const Tensor t = as_planned ? hlo::createGatherInput(graph, poplar::Type(type), row.operand, row.indices,
                                                       row.dims, row.sizes, "operand")
                              : Linear(graph, type, row.operand);
  const Tensor indices = Linear(graph, index, row.indices);
  Sequence prog;
  const Tensor out = hlo::gather(graph, t, indices, row.dims, row.sizes, prog, "gather");
  ExpansionCheck check(graph, prog, {t, indices}, {out});
  check.SameVertices();
  // Some indices are outside.
  std::mt19937 random(3);
  Bytes places;
  for (std::size_t i = 0; i < indices.numElements(); ++i) {
    const std::int64_t place = static_cast<std::int64_t>(random() % 70) - 15;
    const Bytes bytes = BytesOf(place);
    places.insert(places.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(SizeOf(index)));
  }
  check.SameValues({RandomBytes(t, 1), places}, SameBits);
}

TEST(EveryFormOfGather) {
  for (const GatherRow& row : kRows)
    for (const bool as_planned : {false, true}) CheckGather(row, DType::kF32, DType::kS32, as_planned);
}

TEST(GathersOfEveryType) {
  for (const DType type : {DType::kPred, DType::kS8, DType::kF16, DType::kBF16, DType::kF64, DType::kC64})
    CheckGather(kRows[2], type, DType::kS32, false);
  for (const DType index : {DType::kS8, DType::kU8, DType::kS64, DType::kU32})
    CheckGather(kRows[5], DType::kF32, index, false);
}

TEST(Complex128IsRefused) {
  Graph graph = SmallGraph();
  const Tensor t = Linear(graph, DType::kC128, {9}), start = graph.addVariable(poplar::INT, {}, "start");
  graph.setTileMapping(start, 0);
  Sequence prog;
  hlo::dynamicSlice(graph, t, {start}, {2}, prog, "the slice");
  CHECK(Refusal(graph, prog).find(NameOf(DType::kC128)) != std::string::npos);
}

}  // namespace
}  // namespace hlo::testing
