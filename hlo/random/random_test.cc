// Random bits: kernel and expansion have the same vertices and values.
#include "hlo/Random.hpp"

#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"

namespace hlo::testing {
namespace {

using jax_ipu::testing::Everything;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

TEST(BitsOfEveryTypeAndShape) {
  struct State {
    RandomAlgorithm algorithm;
    DType type;
    std::size_t elements;
  };
  int form = 0;
  for (const State& row :
       {State{RandomAlgorithm::kThreeFry, DType::kU32, 4}, State{RandomAlgorithm::kThreeFry, DType::kU64, 2},
        State{RandomAlgorithm::kPhilox, DType::kU64, 2}, State{RandomAlgorithm::kPhilox, DType::kU64, 3}}) {
    for (const DType type : {DType::kU8, DType::kU32, DType::kU64}) {
      // All shapes, or every second one, others for the next type.
      bool taken = ++form % 2 == 0;
      for (const std::vector<std::size_t>& shape :
           {std::vector<std::size_t>{}, {5}, {30}, {3, 5}, {3, 4}, {5, 1, 33}, {4, 7, 2}}) {
        taken = !taken;
        if (!taken && !Everything()) continue;
        Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
        const Tensor state = Linear(graph, row.type, {row.elements});
        Sequence prog;
        const auto [next, bits] =
            hlo::rngBitGenerator(graph, row.algorithm, state, poplar::Type(type), shape, prog, "bits");
        ExpansionCheck check(graph, prog, {state}, {next, bits});
        check.SameVertices();
        Bytes bytes = RandomBytes(state, 1);
        for (std::size_t i = 8; i < 16; ++i) bytes[i] = i == 8 ? 0xfe : 0xff;  // the counter wraps
        check.SameValues({bytes}, SameBits);
      }
    }
  }
}

TEST(BlocksOfEveryForm) {
  struct Row {
    std::vector<DType> types;
    bool first_tensor, second_tensor;
  };
  for (const Row& row :
       {Row{{DType::kU8}, false, false}, Row{{DType::kU16}, true, false}, Row{{DType::kU32}, false, true},
        Row{{DType::kU64}, true, true}, Row{{DType::kU32, DType::kU32}, true, true}}) {
    Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
    const std::vector<std::size_t> shape = {6, 33};
    std::array<CounterWord, 2> words;
    words[0] = {row.first_tensor, 7, {33, 1}};
    words[1] = {row.second_tensor, 0, {0, 100}};
    std::vector<Tensor> in, counters, out;
    for (unsigned i = 0; i < 2; ++i) in.push_back(Linear(graph, DType::kU32, shape));
    for (const CounterWord& word : words)
      if (word.has_tensor) counters.push_back(Linear(graph, DType::kU32, shape));
    for (const DType type : row.types) out.push_back(Linear(graph, type, shape));
    Sequence prog;
    hlo::threefry2x32(graph, {in[0], in[1]}, words, counters, out, prog, "blocks");
    in.insert(in.end(), counters.begin(), counters.end());
    ExpansionCheck check(graph, prog, in, out);
    check.SameVertices();
    std::vector<Bytes> values;
    for (unsigned i = 0; i < in.size(); ++i) values.push_back(RandomBytes(in[i], i));
    check.SameValues(values, SameBits);
  }
}

// The words of a block on different tiles.
TEST(OutputsOfTwoMappings) {
  Graph graph(poplar::Target::createIPUTarget(1, 7, "ipu2"));
  const Tensor key = Linear(graph, DType::kU32, {2, 40}), first = Linear(graph, DType::kU32, {40}),
               second = graph.addVariable(poplar::UNSIGNED_INT, {40}, "second");
  graph.setTileMapping(second, 3);
  const CounterWord word{false, 1, {1}};
  Sequence prog;
  hlo::threefry2x32(graph, {key[0], key[1]}, {word, word}, {}, {first, second}, prog, "blocks");
  ExpansionCheck check(graph, prog, {key}, {first, second});
  check.SameVertices();
  check.SameValues({RandomBytes(key, 1)}, SameBits);
}

}  // namespace
}  // namespace hlo::testing
