// Random bits against values computed by XLA:CPU (jax 0.10.2, lax.rng_bit_generator), whole and vertex by
// vertex.
#include "kernels/random/random_bits.h"

#include "hlo/Random.hpp"
#include "testing/plan_runner.h"

namespace ipu_model {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

constexpr std::uint64_t kKey = 0x0123456789abcdef, kCounter = 0xfffffffffffffffe;

struct Case {
  RandomAlgorithm algorithm;
  DType type;
  std::vector<std::size_t> shape;
  std::uint64_t counter;   // after the call
  std::uint64_t checksum;  // sum of (position + 1) * value
};

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {RandomAlgorithm::kThreeFry, DType::kU8, {}, 18446744073709551615ull, 0x5bull},
      {RandomAlgorithm::kThreeFry, DType::kU8, {1}, 18446744073709551615ull, 0x5bull},
      {RandomAlgorithm::kThreeFry, DType::kU8, {5}, 1ull, 0x99cull},
      {RandomAlgorithm::kThreeFry, DType::kU8, {8}, 2ull, 0x101dull},
      {RandomAlgorithm::kThreeFry, DType::kU8, {3, 5}, 7ull, 0x3a08ull},
      {RandomAlgorithm::kThreeFry, DType::kU8, {3, 4}, 4ull, 0x356aull},
      {RandomAlgorithm::kThreeFry, DType::kU8, {2, 3}, 1ull, 0xff2ull},
      {RandomAlgorithm::kThreeFry, DType::kU8, {5, 1, 3}, 7ull, 0x499cull},
      {RandomAlgorithm::kThreeFry, DType::kU8, {4, 7, 2}, 26ull, 0x341efull},
      {RandomAlgorithm::kThreeFry, DType::kU16, {}, 18446744073709551615ull, 0x215bull},
      {RandomAlgorithm::kThreeFry, DType::kU16, {1}, 18446744073709551615ull, 0x215bull},
      {RandomAlgorithm::kThreeFry, DType::kU16, {5}, 1ull, 0x98e9cull},
      {RandomAlgorithm::kThreeFry, DType::kU16, {8}, 2ull, 0x137c1dull},
      {RandomAlgorithm::kThreeFry, DType::kU16, {3, 5}, 7ull, 0x49d808ull},
      {RandomAlgorithm::kThreeFry, DType::kU16, {3, 4}, 4ull, 0x2bfb6aull},
      {RandomAlgorithm::kThreeFry, DType::kU16, {2, 3}, 1ull, 0xd8cf2ull},
      {RandomAlgorithm::kThreeFry, DType::kU16, {5, 1, 3}, 7ull, 0x43079cull},
      {RandomAlgorithm::kThreeFry, DType::kU16, {4, 7, 2}, 26ull, 0x32c7befull},
      {RandomAlgorithm::kThreeFry, DType::kU32, {}, 18446744073709551615ull, 0xb0f4215bull},
      {RandomAlgorithm::kThreeFry, DType::kU32, {1}, 18446744073709551615ull, 0xb0f4215bull},
      {RandomAlgorithm::kThreeFry, DType::kU32, {5}, 1ull, 0x89efc8e9cull},
      {RandomAlgorithm::kThreeFry, DType::kU32, {8}, 2ull, 0x14f8af7c1dull},
      {RandomAlgorithm::kThreeFry, DType::kU32, {3, 5}, 7ull, 0x3d90a9d808ull},
      {RandomAlgorithm::kThreeFry, DType::kU32, {3, 4}, 4ull, 0x21e576fb6aull},
      {RandomAlgorithm::kThreeFry, DType::kU32, {2, 3}, 1ull, 0xc31e58cf2ull},
      {RandomAlgorithm::kThreeFry, DType::kU32, {5, 1, 3}, 7ull, 0x3f4fda079cull},
      {RandomAlgorithm::kThreeFry, DType::kU32, {4, 7, 2}, 26ull, 0x2dbe8af7befull},
      {RandomAlgorithm::kThreeFry, DType::kU64, {}, 18446744073709551615ull, 0xe19a60b4b0f4215bull},
      {RandomAlgorithm::kThreeFry, DType::kU64, {1}, 18446744073709551615ull, 0xe19a60b4b0f4215bull},
      {RandomAlgorithm::kThreeFry, DType::kU64, {5}, 3ull, 0x96bad10dab06b5efull},
      {RandomAlgorithm::kThreeFry, DType::kU64, {8}, 6ull, 0x338b861e2e5d881aull},
      {RandomAlgorithm::kThreeFry, DType::kU64, {3, 5}, 13ull, 0x2099baa5b0402dcdull},
      {RandomAlgorithm::kThreeFry, DType::kU64, {3, 4}, 10ull, 0x179267a6a1be6a2dull},
      {RandomAlgorithm::kThreeFry, DType::kU64, {2, 3}, 4ull, 0xa5d7f862942150ffull},
      {RandomAlgorithm::kThreeFry, DType::kU64, {5, 1, 3}, 13ull, 0x2099baa5b0402dcdull},
      {RandomAlgorithm::kThreeFry, DType::kU64, {4, 7, 2}, 54ull, 0x4478a361df6b3948ull},
      {RandomAlgorithm::kPhilox, DType::kU8, {}, 18446744073709551615ull, 0x94ull},
      {RandomAlgorithm::kPhilox, DType::kU8, {1}, 18446744073709551615ull, 0x94ull},
      {RandomAlgorithm::kPhilox, DType::kU8, {5}, 0ull, 0xb79ull},
      {RandomAlgorithm::kPhilox, DType::kU8, {8}, 0ull, 0x1858ull},
      {RandomAlgorithm::kPhilox, DType::kU8, {3, 5}, 2ull, 0x43b8ull},
      {RandomAlgorithm::kPhilox, DType::kU8, {3, 4}, 1ull, 0x2f82ull},
      {RandomAlgorithm::kPhilox, DType::kU8, {2, 3}, 0ull, 0x10b9ull},
      {RandomAlgorithm::kPhilox, DType::kU8, {5, 1, 3}, 2ull, 0x43b8ull},
      {RandomAlgorithm::kPhilox, DType::kU8, {4, 7, 2}, 12ull, 0x3468full},
      {RandomAlgorithm::kPhilox, DType::kU16, {}, 18446744073709551615ull, 0x5194ull},
      {RandomAlgorithm::kPhilox, DType::kU16, {1}, 18446744073709551615ull, 0x5194ull},
      {RandomAlgorithm::kPhilox, DType::kU16, {5}, 0ull, 0x72279ull},
      {RandomAlgorithm::kPhilox, DType::kU16, {8}, 0ull, 0x136258ull},
      {RandomAlgorithm::kPhilox, DType::kU16, {3, 5}, 2ull, 0x4fb1b8ull},
      {RandomAlgorithm::kPhilox, DType::kU16, {3, 4}, 1ull, 0x31b982ull},
      {RandomAlgorithm::kPhilox, DType::kU16, {2, 3}, 0ull, 0xa45b9ull},
      {RandomAlgorithm::kPhilox, DType::kU16, {5, 1, 3}, 2ull, 0x4fb1b8ull},
      {RandomAlgorithm::kPhilox, DType::kU16, {4, 7, 2}, 12ull, 0x385d88full},
      {RandomAlgorithm::kPhilox, DType::kU32, {}, 18446744073709551615ull, 0xa485194ull},
      {RandomAlgorithm::kPhilox, DType::kU32, {1}, 18446744073709551615ull, 0xa485194ull},
      {RandomAlgorithm::kPhilox, DType::kU32, {5}, 0ull, 0x53d0a2279ull},
      {RandomAlgorithm::kPhilox, DType::kU32, {8}, 0ull, 0xdf3a56258ull},
      {RandomAlgorithm::kPhilox, DType::kU32, {3, 5}, 2ull, 0x3a3c57b1b8ull},
      {RandomAlgorithm::kPhilox, DType::kU32, {3, 4}, 1ull, 0x1fdca0b982ull},
      {RandomAlgorithm::kPhilox, DType::kU32, {2, 3}, 0ull, 0x65fbf45b9ull},
      {RandomAlgorithm::kPhilox, DType::kU32, {5, 1, 3}, 2ull, 0x3a3c57b1b8ull},
      {RandomAlgorithm::kPhilox, DType::kU32, {4, 7, 2}, 12ull, 0x2e5fdb0d88full},
      {RandomAlgorithm::kPhilox, DType::kU64, {}, 18446744073709551615ull, 0x41c5f8060a485194ull},
      {RandomAlgorithm::kPhilox, DType::kU64, {1}, 18446744073709551615ull, 0x41c5f8060a485194ull},
      {RandomAlgorithm::kPhilox, DType::kU64, {5}, 1ull, 0x156d39a1b5da961ull},
      {RandomAlgorithm::kPhilox, DType::kU64, {8}, 2ull, 0xbc4b66add3608bf4ull},
      {RandomAlgorithm::kPhilox, DType::kU64, {3, 5}, 6ull, 0x7950444dae2275bcull},
      {RandomAlgorithm::kPhilox, DType::kU64, {3, 4}, 4ull, 0xc86a9fe6b28646fbull},
      {RandomAlgorithm::kPhilox, DType::kU64, {2, 3}, 1ull, 0x859aa00b7d5950b5ull},
      {RandomAlgorithm::kPhilox, DType::kU64, {5, 1, 3}, 6ull, 0x7950444dae2275bcull},
      {RandomAlgorithm::kPhilox, DType::kU64, {4, 7, 2}, 26ull, 0x1a2700f290ee8620ull},
  };
  return cases;
}

std::uint64_t Checksum(const Bytes& bytes, std::size_t size) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size() / size; ++i) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + i * size, size);
    sum += (i + 1) * value;
  }
  return sum;
}

TEST(BitsAreThoseOfXla) {
  for (const Case& c : Cases()) {
    Graph graph(poplar::Target::createIPUTarget(1, 5, "ipu2"));
    const Tensor state = graph.addVariable(poplar::UNSIGNED_LONGLONG, {2}, "state");
    poputil::mapTensorLinearly(graph, state);
    Sequence prog;
    const auto [new_state, bits] =
        hlo::rngBitGenerator(graph, c.algorithm, state, poplar::Type(c.type), c.shape, prog);
    poputil::mapTensorLinearly(graph, bits, 1, 1);
    for (const bool whole : {true, false}) {
      PlanRunner runner(graph, 0);
      const std::uint64_t values[] = {kKey, kCounter};
      runner.Store(state, values);
      whole ? runner.RunWhole(prog) : runner.RunVertices(prog);
      CHECK_EQ(Checksum(runner.Load(bits), SizeOf(c.type)), c.checksum);
      std::uint64_t got[2];
      std::memcpy(got, runner.Load(new_state).data(), sizeof(got));
      CHECK_EQ(got[0], kKey);
      CHECK_EQ(got[1], c.counter);
    }
  }
}

TEST(FirstWords) {
  constexpr std::uint32_t kThreeFry[] = {2968789339u, 3784990900u, 188576916u, 2901984476u, 2862930057u};
  constexpr std::uint32_t kPhilox[] = {172511636u, 1103493126u, 3598856174u, 948282324u, 1105943027u};
  for (const bool philox : {false, true}) {
    Scratch scratch;
    HostContext context{ThreadPool::Global(), scratch};
    std::uint64_t words[] = {kKey, kCounter};
    std::uint32_t out[5];
    HostTensor state, bits;
    state.type = DType::kU64;
    bits.type = DType::kU32;
    state.data = words;
    bits.data = out;
    state.rank = bits.rank = 1;
    state.strides[0] = bits.strides[0] = 1;
    state.shape[0] = 2;
    bits.shape[0] = 5;
    RandomBits(context, philox ? RandomAlgorithm::kPhilox : RandomAlgorithm::kThreeFry, state, {5}, {0},
               bits);
    for (int i = 0; i < 5; ++i) CHECK_EQ(out[i], (philox ? kPhilox : kThreeFry)[i]);
  }
}

TEST(LargeResultsEqualTheirParts) {
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  std::uint64_t words[] = {kKey, kCounter, 7};
  HostTensor state;
  state.type = DType::kU64;
  state.data = words;
  state.rank = 1;
  state.strides[0] = 1;
  for (const bool philox : {false, true}) {
    state.shape[0] = philox ? 3 : 2;
    const auto algorithm = philox ? RandomAlgorithm::kPhilox : RandomAlgorithm::kThreeFry;
    const std::int64_t rows = 101, columns = 1003;
    std::vector<std::uint32_t> all(static_cast<std::size_t>(rows * columns)),
        part(static_cast<std::size_t>(columns));
    HostTensor bits;
    bits.type = DType::kU32;
    bits.data = all.data();
    bits.rank = 2;
    bits.shape[0] = rows;
    bits.shape[1] = bits.strides[0] = columns;
    bits.strides[1] = 1;
    RandomBits(context, algorithm, state, {rows, columns}, {0, 0}, bits);
    bits.data = part.data();
    bits.shape[0] = 1;
    bits.shape[1] = columns - 3;
    for (const std::int64_t row : {std::int64_t{0}, std::int64_t{50}, rows - 1}) {
      RandomBits(context, algorithm, state, {rows, columns}, {row, 3}, bits);
      CHECK(std::equal(part.begin(), part.begin() + (columns - 3), all.begin() + row * columns + 3));
    }
  }
}

TEST(OtherStatesAreRefused) {
  Graph graph(poplar::Target::createIPUTarget(1, 1, "ipu2"));
  const Tensor state = graph.addVariable(poplar::UNSIGNED_LONGLONG, {3}, "state");
  Sequence prog;
  CHECK_THROWS(std::exception, hlo::rngBitGenerator(graph, RandomAlgorithm::kThreeFry, state,
                                                    poplar::UNSIGNED_INT, {4}, prog));
  CHECK_THROWS(std::exception,
               hlo::rngBitGenerator(graph, RandomAlgorithm::kPhilox, state, poplar::FLOAT, {4}, prog));
}

}  // namespace
}  // namespace ipu_model
