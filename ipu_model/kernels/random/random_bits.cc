// Random bits in XLA's element order.
#include "kernels/random/random_bits.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "kernels/host/isa.h"
#include "kernels/random/random_loops.h"

namespace ipu_model {
namespace {

constexpr std::int64_t kBlock = 256;

struct State {
  std::uint64_t key = 0, low = 0, high = 0;
};

State Load(RandomAlgorithm algorithm, const HostTensor& state) {
  const std::int64_t bytes = state.num_elements() * static_cast<std::int64_t>(SizeOf(state.type));
  if (bytes != 16 && !(bytes == 24 && algorithm == RandomAlgorithm::kPhilox)) {
    throw std::invalid_argument("rng_bit_generator: the state must be 16 bytes, or 24 for Philox");
  }
  std::uint64_t words[3] = {};
  std::memcpy(words, state.data, static_cast<std::size_t>(bytes));
  State s{words[0], words[1], words[2]};
  // As in XLA: a state without the upper half of the counter uses the key for it.
  if (bytes == 16) s.high = words[0];
  return s;
}

// XLA draws two 32-bit words per ThreeFry block, and concatenates the second words to the first ones along
// one dimension: the first even one, or else the longest.
std::size_t SplitDim(const std::vector<std::int64_t>& whole) {
  std::size_t longest = 0;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (whole[d] % 2 == 0) return d;
    if (whole[d] > whole[longest]) longest = d;
  }
  return longest;
}

// The sources of consecutive elements along the innermost dimension: block number and word of each element.
class Places {
 public:
  Places(RandomAlgorithm algorithm, std::size_t bytes, const std::vector<std::int64_t>& whole)
      : whole_(whole), per_block_(algorithm == RandomAlgorithm::kPhilox ? (bytes == 8 ? 2 : 4) : 1) {
    if (algorithm == RandomAlgorithm::kThreeFry && bytes < 8) split_ = static_cast<int>(SplitDim(whole));
  }

  // `at` is the position, in the whole result, of the first of n elements along the last dimension.
  void Run(const std::vector<std::int64_t>& at, std::int64_t n, std::uint64_t* block,
           std::uint8_t* word) const {
    const int rank = static_cast<int>(whole_.size());
    std::uint64_t index = 0, step = 1;
    std::uint8_t half = 0;
    for (int d = 0; d < rank; ++d) {
      const std::size_t i = static_cast<std::size_t>(d);
      const std::int64_t extent = d == split_ ? (whole_[i] + 1) / 2 : whole_[i];
      index *= static_cast<std::uint64_t>(extent);
      if (d == rank - 1 && d == split_) continue;
      index += static_cast<std::uint64_t>(d == split_ ? at[i] / 2 : at[i]);
      if (d == split_) half = static_cast<std::uint8_t>(at[i] % 2);
    }
    if (rank > 0 && split_ == rank - 1) {
      for (std::int64_t e = 0; e < n; ++e) {
        const std::uint64_t position = static_cast<std::uint64_t>(at.back() + e);
        block[e] = index + position / 2;
        word[e] = static_cast<std::uint8_t>(position % 2);
      }
    } else if (per_block_ == 1) {
      for (std::int64_t e = 0; e < n; ++e) {
        block[e] = index + static_cast<std::uint64_t>(e) * step;
        word[e] = half;
      }
    } else {
      for (std::int64_t e = 0; e < n; ++e) {
        const std::uint64_t flat = index + static_cast<std::uint64_t>(e);
        block[e] = flat / per_block_;
        word[e] = static_cast<std::uint8_t>(flat % per_block_);
      }
    }
  }

 private:
  const std::vector<std::int64_t>& whole_;
  std::uint64_t per_block_;
  int split_ = -1;
};

void Store(std::size_t bytes, std::uint64_t value, char* out) {
  std::memcpy(out, &value, bytes);
}  // little-endian

class Generator {
 public:
  Generator(RandomAlgorithm algorithm, const State& state, std::size_t bytes)
      : algorithm_(algorithm), state_(state), bytes_(bytes) {}

  // Writes out[e] for the elements e in [0, n), n <= kBlock, whose block numbers do not decrease.
  void Generate(const std::uint64_t* block, const std::uint8_t* word, std::int64_t n, char* out) const {
    // Elements of one block are adjacent, so generate each block once.
    std::uint64_t low[kBlock], high[kBlock];
    std::int16_t slot[kBlock];
    std::int64_t blocks = 0;
    for (std::int64_t e = 0; e < n; ++e) {
      if (e == 0 || block[e] != block[e - 1]) {
        low[blocks] = state_.low + block[e];
        high[blocks] = state_.high + (low[blocks] < state_.low ? 1 : 0);
        ++blocks;
      }
      slot[e] = static_cast<std::int16_t>(blocks - 1);
    }
    std::uint32_t words[4][kBlock];
    std::uint32_t* const pointers[4] = {words[0], words[1], words[2], words[3]};
    if (algorithm_ == RandomAlgorithm::kThreeFry) {
      JAX_IPU_FOR_ISA(ThreeFry)(state_.key, low, blocks, pointers);
    } else {
      JAX_IPU_FOR_ISA(Philox)(state_.key, low, high, blocks, pointers);
    }
    if (bytes_ == 8) {
      for (std::int64_t e = 0; e < n; ++e) {
        const std::size_t first = algorithm_ == RandomAlgorithm::kPhilox ? 2u * word[e] : 0u;
        Store(8, words[first][slot[e]] | std::uint64_t{words[first + 1][slot[e]]} << 32, out + 8 * e);
      }
    } else {
      for (std::int64_t e = 0; e < n; ++e) {
        Store(bytes_, words[word[e]][slot[e]], out + static_cast<std::int64_t>(bytes_) * e);
      }
    }
  }

 private:
  RandomAlgorithm algorithm_;
  State state_;
  std::size_t bytes_;
};

}  // namespace

void RandomBits(HostContext& context, RandomAlgorithm algorithm, const HostTensor& state,
                const std::vector<std::int64_t>& whole, const std::vector<std::int64_t>& begin,
                const HostTensor& out) {
  const std::int64_t elements = out.num_elements();
  if (elements == 0) return;
  const std::size_t bytes = SizeOf(out.type);
  const Generator generator(algorithm, Load(algorithm, state), bytes);
  const Places places(algorithm, bytes, whole);
  const std::int64_t length = out.rank == 0 ? 1 : out.shape[out.rank - 1];
  const std::int64_t chunks = (length + kBlock - 1) / kBlock;
  ParallelFor(
      context.pool, elements / length * chunks, std::max<std::int64_t>(1, 8192 / std::min(length, kBlock)),
      [&](std::int64_t from, std::int64_t to) {
        std::vector<std::int64_t> at(whole.size());
        std::uint64_t block[kBlock];
        std::uint8_t word[kBlock];
        for (std::int64_t chunk = from; chunk < to; ++chunk) {
          const std::int64_t row = chunk / chunks, first = chunk % chunks * kBlock;
          const std::int64_t n = std::min(kBlock, length - first);
          for (std::int64_t d = out.rank - 2, rest = row; d >= 0; --d) {
            const std::size_t i = static_cast<std::size_t>(d);
            at[i] = begin[i] + rest % out.shape[d];
            rest /= out.shape[d];
          }
          if (out.rank > 0) at.back() = begin.back() + first;
          places.Run(at, n, block, word);
          generator.Generate(block, word, n,
                             out.as<char>() + (row * length + first) * static_cast<std::int64_t>(bytes));
        }
      });
}

void AdvanceState(RandomAlgorithm algorithm, const HostTensor& state, const std::vector<std::int64_t>& whole,
                  int element_bits, const HostTensor& new_state) {
  const State s = Load(algorithm, state);
  std::uint64_t blocks = 1;
  for (const std::int64_t d : whole) blocks *= static_cast<std::uint64_t>(d);
  if (algorithm == RandomAlgorithm::kPhilox) {
    const std::uint64_t per_block = element_bits == 64 ? 2 : 4;
    blocks = (blocks + per_block - 1) / per_block;
  } else if (element_bits < 64 && !whole.empty()) {
    const std::uint64_t extent = static_cast<std::uint64_t>(whole[SplitDim(whole)]);
    blocks = extent == 0 ? 0 : blocks / extent * ((extent + 1) / 2);
  }
  const std::uint64_t low = s.low + blocks, high = s.high + (low < s.low ? 1 : 0);
  const std::uint64_t words[3] = {s.key, low, high};
  std::memcpy(new_state.data, words,
              static_cast<std::size_t>(new_state.num_elements()) * SizeOf(new_state.type));
}

}  // namespace ipu_model
