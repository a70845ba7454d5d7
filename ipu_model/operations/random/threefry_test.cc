// threefry2x32 against its definition, whole and vertex by vertex.
#include "kernels/random/threefry.h"

#include "hlo/Random.hpp"
#include "operations/random/random_cost.h"
#include "testing/bound_kernel_check.h"
#include "testing/plan_runner.h"

namespace ipu_model {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

std::uint64_t Hash(std::uint32_t k0, std::uint32_t k1, std::uint32_t x, std::uint32_t y) {
  const std::uint32_t keys[3] = {k0, k1, k0 ^ k1 ^ 0x1bd11bdau};
  constexpr int kRotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  x += k0;
  y += k1;
  for (unsigned round = 0; round < 20; ++round) {
    const int rotation = kRotations[round % 8];
    x += y;
    y = (y << rotation | y >> (32 - rotation)) ^ x;
    if (round % 4 != 3) continue;
    const unsigned group = round / 4 + 1;
    x += keys[group % 3];
    y += keys[(group + 1) % 3] + group;
  }
  return std::uint64_t{x} << 32 | y;
}

// Known answers of Random123 (kat_vectors, threefry2x32 with 20 rounds).
TEST(KnownAnswers) {
  CHECK_EQ(Hash(0, 0, 0, 0), 0x6b20015999ba4efeull);
  CHECK_EQ(Hash(0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff), 0x1cb996fcbb002be7ull);
  CHECK_EQ(Hash(0x13198a2e, 0x03707344, 0x243f6a88, 0x85a308d3), 0xc4923a9c483df7a0ull);
}

struct Case {
  std::vector<std::size_t> shape;
  bool key_of_row, tensor_x, tensor_y;
  bool transposed;  // the results in memory
};

class Problem {
 public:
  Problem(const Case& c, DType type, bool words)
      : case_(c), graph_(poplar::Target::createIPUTarget(1, 5, "ipu2")) {
    const std::vector<std::size_t>& shape = c.shape;
    const std::size_t rank = shape.size(), rows = rank > 1 ? shape[0] : 1;
    for (int w = 0; w < 2; ++w) {
      key_.push_back(Variable(DType::kU32, {c.key_of_row ? rows : 1}));
      std::vector<std::size_t> column(rank, 1);
      if (c.key_of_row) column[0] = rows;
      Tensor whole = key_.back().reshape(column);
      for (std::size_t d = 0; d < rank; ++d) {
        if (whole.dim(static_cast<unsigned>(d)) != shape[d])
          whole = whole.broadcast(static_cast<unsigned>(shape[d]), static_cast<unsigned>(d));
      }
      broadcast_[static_cast<std::size_t>(w)] = whole;
      words_[static_cast<std::size_t>(w)].has_tensor = w == 0 ? c.tensor_x : c.tensor_y;
      words_[static_cast<std::size_t>(w)].start = w == 0 ? 5 : 0xfffffff0u;
      for (std::size_t d = 0; d < rank; ++d)
        words_[static_cast<std::size_t>(w)].strides.push_back(static_cast<std::uint32_t>(3 * d + 7 + w));
      if (words_[static_cast<std::size_t>(w)].has_tensor) tensors_.push_back(Variable(DType::kU32, shape));
    }
    for (int o = 0; o < (words ? 2 : 1); ++o) {
      if (c.transposed && rank == 2) {
        outputs_.push_back(Variable(type, {shape[1], shape[0]}).dimShuffle({1, 0}));
      } else {
        outputs_.push_back(Variable(type, shape));
      }
    }
    hlo::threefry2x32(graph_, broadcast_, words_, tensors_, outputs_, prog_);
  }

  void Check() {
    const std::size_t size = SizeOf(outputs_[0].elementType().id());
    for (const bool whole : {true, false}) {
      PlanRunner runner(graph_, 0);
      const auto fill = [&](const Tensor& tensor, std::uint32_t seed) {
        std::vector<std::uint32_t> values(tensor.numElements());
        for (std::uint32_t i = 0; i < values.size(); ++i) values[i] = seed * 2654435761u + i * 40503u;
        runner.Store(tensor, values.data());
        return values;
      };
      const auto k0 = fill(key_[0], 3), k1 = fill(key_[1], 4);
      std::vector<std::uint32_t> added[2];
      std::size_t next = 0;
      for (std::size_t w = 0; w < 2; ++w)
        if (words_[w].has_tensor) added[w] = fill(tensors_[next++], 9);
      whole ? runner.RunWhole(prog_) : runner.RunVertices(prog_);
      std::vector<Bytes> got;
      for (const Tensor& out : outputs_) got.push_back(runner.Load(out));
      for (std::size_t i = 0; i < outputs_[0].numElements(); ++i) {
        std::uint32_t counter[2];
        std::size_t row = 0;
        for (std::size_t w = 0; w < 2; ++w) {
          counter[w] = words_[w].start;
          std::size_t rest = i;
          for (std::size_t d = case_.shape.size(); d-- > 0;) {
            row = rest % case_.shape[d];
            counter[w] += static_cast<std::uint32_t>(row) * words_[w].strides[d];
            rest /= case_.shape[d];
          }
          if (words_[w].has_tensor) counter[w] += added[w][i];
        }
        const std::size_t k = case_.key_of_row ? row : 0;
        const std::uint64_t block = Hash(k0[k], k1[k], counter[0], counter[1]), x = block >> 32,
                            y = block & 0xffffffffu;
        if (outputs_.size() == 2) {
          CHECK_EQ(Value(got[0], i, size), x);
          CHECK_EQ(Value(got[1], i, size), y);
        } else {
          const std::uint64_t mask = size == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * size)) - 1;
          CHECK_EQ(Value(got[0], i, size), (size == 8 ? block : x ^ y) & mask);
        }
      }
    }
  }

 private:
  static std::uint64_t Value(const Bytes& bytes, std::size_t i, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + i * size, size);
    return value;
  }
  Tensor Variable(DType type, const std::vector<std::size_t>& shape) {
    return MappedVariable(graph_, type, Shape(shape.begin(), shape.end()));
  }

  Case case_;
  Graph graph_;
  std::vector<Tensor> key_, tensors_, outputs_;
  std::array<Tensor, 2> broadcast_;
  std::array<hlo::CounterWord, 2> words_;
  Sequence prog_;
};

TEST(BlocksAreThoseOfTheDefinition) {
  const std::vector<Case> cases = {
      {{}, false, false, false, false},      {{1}, false, false, true, false},
      {{17}, false, false, false, false},    {{2500}, false, false, false, false},
      {{2500}, false, true, true, false},    {{7, 33}, true, false, false, false},
      {{7, 33}, false, false, false, true},  {{7, 33}, true, true, false, true},
      {{3, 4, 5}, true, false, true, false}, {{3, 1, 70}, false, false, false, false},
  };
  for (const Case& c : cases) {
    for (const DType type : {DType::kU8, DType::kU16, DType::kU32, DType::kU64})
      Problem(c, type, false).Check();
    Problem(c, DType::kU32, true).Check();
  }
}

TEST(BoundBlocksAreTheSame) {
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  for (const std::int64_t columns : {1, 33, 1500, 5000}) {
    const std::int64_t rows = 3;
    std::vector<std::uint32_t> key = {1, 2, 3, 4, 5, 6}, words(static_cast<std::size_t>(2 * rows * columns));
    const auto tensor = [&](std::uint32_t* data, std::int64_t row_stride, std::int64_t column_stride) {
      HostTensor t;
      t.type = DType::kU32;
      t.data = data;
      t.rank = 2;
      t.shape[0] = rows;
      t.shape[1] = columns;
      t.strides[0] = row_stride;
      t.strides[1] = column_stride;
      return t;
    };
    const std::vector<HostTensor> in = {tensor(key.data(), 2, 0), tensor(key.data() + 1, 2, 0)};
    // Both words lie in one order in memory, and the second one is spread.
    const std::vector<HostTensor> out = {tensor(words.data(), columns, 1),
                                         tensor(words.data() + rows * columns, 1, rows)};
    const hlo::CounterWord counter[2] = {{false, 1, {7, 0}},
                                         {false, 9, {static_cast<std::uint32_t>(columns), 1}}};
    const int bound = CheckBound(
        in, out, [&] { Threefry(context, in, counter, {0, 0}, out); },
        [&](const auto& i, const auto& o) { return BindThreefry(i, counter, o); });
    CHECK_EQ(bound, rows * columns > 8192 ? 0 : 2);
  }
}

TEST(OtherOperandsAreRefused) {
  Graph graph(poplar::Target::createIPUTarget(1, 1, "ipu2"));
  const auto variable = [&](DType type, const Shape& shape) { return MappedVariable(graph, type, shape); };
  const std::array<Tensor, 2> key = {variable(DType::kU32, {4}), variable(DType::kU32, {4})};
  const std::array<hlo::CounterWord, 2> words = {{{false, 0, {1}}, {false, 0, {1}}}};
  Sequence prog;
  const auto run = [&](const std::array<hlo::CounterWord, 2>& counter, const std::vector<Tensor>& outputs) {
    hlo::threefry2x32(graph, key, counter, {}, outputs, prog);
  };
  run(words, {variable(DType::kU16, {4})});
  CHECK_THROWS(std::exception, run(words, {variable(DType::kF32, {4})}));
  CHECK_THROWS(std::exception, run(words, {variable(DType::kU32, {5})}));
  CHECK_THROWS(std::exception, run(words, {variable(DType::kU64, {4}), variable(DType::kU64, {4})}));
  CHECK_THROWS(std::exception, run(words, {}));
  CHECK_THROWS(std::exception, run({{{false, 0, {}}, {false, 0, {1}}}}, {variable(DType::kU32, {4})}));
  CHECK_THROWS(std::exception, run({{{true, 0, {1}}, {false, 0, {1}}}}, {variable(DType::kU32, {4})}));
}

// The codelet is far cheaper than the operations of the hash one by one.
TEST(CyclesAreThoseOfTheRounds) {
  const TargetModel& target = FindTargetModel("ipu2");
  const ThreefryCost one(DType::kU32, true, 1, 0), both(DType::kU32, false, 2, 0);
  const auto per_element = [&](const ThreefryCost& cost) {
    return static_cast<double>(cost.Cycles(target, 12000) - cost.Cycles(target, 6000)) / 6000;
  };
  CHECK(per_element(one) > 110 && per_element(one) < 130);
  CHECK(per_element(both) >= per_element(one));
}

}  // namespace
}  // namespace ipu_model
