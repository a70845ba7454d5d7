// Random bits from counters; hlo/random/random.cc adds the classes. ThreeFry 2x32 with 20 rounds and Philox
// 4x32 with 10 rounds: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#include "common.hpp"

namespace hlo {

struct Pair {
  unsigned x, y;
};

inline Pair threefry(unsigned k0, unsigned k1, unsigned x, unsigned y) {
  const unsigned keys[3] = {k0, k1, k0 ^ k1 ^ 0x1bd11bdau};
  constexpr unsigned rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  x += keys[0];
  y += keys[1];
  for (unsigned group = 0; group < 5; ++group) {
    for (unsigned r = 0; r < 4; ++r) {
      const unsigned rotation = rotations[group % 2][r];
      x += y;
      y = (y << rotation | y >> (32 - rotation)) ^ x;
    }
    x += keys[(group + 1) % 3];
    y += keys[(group + 2) % 3] + group + 1;
  }
  return {x, y};
}

// A state of 16 or 24 bytes: the key, and the counter, whose upper half is the key where it is not given.
struct RandomState {
  unsigned long long key, low, high;
  void load(const void* bytes, unsigned size) {
    unsigned long long words[3] = {};
    std::memcpy(words, bytes, size);
    key = words[0];
    low = words[1];
    high = size == 16 ? words[0] : words[2];
  }
  void advance(unsigned long long blocks) {
    low += blocks;
    if (low < blocks) ++high;
  }
  void threefryBlock(unsigned* out) const {
    const Pair pair = threefry(static_cast<unsigned>(key), static_cast<unsigned>(key >> 32),
                               static_cast<unsigned>(low), static_cast<unsigned>(low >> 32));
    out[0] = pair.x;
    out[1] = pair.y;
  }
  void philoxBlock(unsigned* out) const {
    unsigned x[4] = {static_cast<unsigned>(low), static_cast<unsigned>(low >> 32),
                     static_cast<unsigned>(high), static_cast<unsigned>(high >> 32)};
    unsigned k0 = static_cast<unsigned>(key), k1 = static_cast<unsigned>(key >> 32);
    for (unsigned round = 0; round < 10; ++round) {
      const unsigned long long p = x[0] * 0xd2511f53ull, q = x[2] * 0xcd9e8d57ull;
      x[0] = static_cast<unsigned>(q >> 32) ^ x[1] ^ k0;
      x[1] = static_cast<unsigned>(q);
      x[2] = static_cast<unsigned>(p >> 32) ^ x[3] ^ k1;
      x[3] = static_cast<unsigned>(p);
      k0 += 0x9e3779b9u;
      k1 += 0xbb67ae85u;
    }
    for (unsigned i = 0; i < 4; ++i) out[i] = x[i];
  }
};

// A box of a tensor of random elements: the extents of the tensor and of the box, and where that begins. One
// dimension may be `split`: neighbours along it have the words of one block. Otherwise a block has the words
// of `perBlock` elements.
template <typename E, typename S>
class RandomBits : public poplar::MultiVertex {
 public:
  In<S> state;
  Out<E> out;
  poplar::Vector<unsigned> whole, part, first;
  int split;
  unsigned perBlock;
  bool isPhilox;
  bool compute(unsigned worker) {
    constexpr unsigned kMostDimensions = 16;
    RandomState start;
    start.load(&state[0], state.size() * sizeof(S));
    const Share share = shareOf(worker, numWorkers(), out.size());
    for (unsigned at = share.begin; at < share.end; ++at) {
      unsigned position[kMostDimensions], word = 0;
      for (unsigned d = part.size(), rest = at; d-- > 0; rest /= part[d])
        position[d] = first[d] + rest % part[d];
      unsigned long long block = 0;
      for (unsigned d = 0; d < part.size(); ++d) {
        const bool halves = static_cast<int>(d) == split;
        block = block * (halves ? (whole[d] + 1) / 2 : whole[d]) + (halves ? position[d] / 2 : position[d]);
        if (halves) word = position[d] % 2;
      }
      if (perBlock > 1) {
        word = static_cast<unsigned>(block % perBlock);
        block /= perBlock;
      }
      RandomState counter = start;
      counter.advance(block);
      unsigned words[4];
      isPhilox ? counter.philoxBlock(words) : counter.threefryBlock(words);
      if (sizeof(E) == 8) {
        out[at] =
            static_cast<E>(words[2 * word] | static_cast<unsigned long long>(words[2 * word + 1]) << 32);
      } else {
        out[at] = static_cast<E>(words[word]);
      }
    }
    return true;
  }
};

// The state after so many blocks.
template <typename S>
class AdvanceState : public poplar::MultiVertex {
 public:
  In<S> state;
  Out<S> next;
  unsigned long long blocks;
  bool compute(unsigned worker) {
    if (worker != 0) return true;
    RandomState counter;
    counter.load(&state[0], state.size() * sizeof(S));
    counter.advance(blocks);
    const unsigned long long words[3] = {counter.key, counter.low, counter.high};
    std::memcpy(&next[0], words, next.size() * sizeof(S));
    return true;
  }
};

}  // namespace hlo
