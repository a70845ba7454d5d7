// What all codelets of this library share.
#include <cstdint>
#include <cstring>
#include <poplar/Vertex.hpp>

namespace hlo {

template <typename T>
using In = poplar::Input<poplar::Vector<T, poplar::VectorLayout::SPAN, 8>>;
template <typename T>
using Out = poplar::Output<poplar::Vector<T, poplar::VectorLayout::SPAN, 8>>;
template <typename T>
using Update = poplar::InOut<poplar::Vector<T, poplar::VectorLayout::SPAN, 8>>;

// The elements of one worker: a part of whole 64-bit words, because workers that store halves of one word
// race.
struct Share {
  unsigned begin, end;
};
template <unsigned kGrain = 8>  // elements of one byte in 64 bits
inline Share shareOf(unsigned worker, unsigned workers, unsigned elements) {
  const unsigned grains = (elements + kGrain - 1) / kGrain, each = (grains + workers - 1) / workers;
  const unsigned begin = worker * each * kGrain, end = begin + each * kGrain;
  return {begin < elements ? begin : elements, end < elements ? end : elements};
}

// The same for things of which `grain` together end with a 64-bit word.
inline Share groupsOf(unsigned worker, unsigned workers, unsigned things, unsigned grain) {
  const Share share = shareOf<1>(worker, workers, (things + grain - 1) / grain);
  const unsigned begin = share.begin * grain, end = share.end * grain;
  return {begin < things ? begin : things, end < things ? end : things};
}

template <typename To, typename From>
inline To bitsAs(From from) {
  static_assert(sizeof(To) == sizeof(From), "the types have equal sizes");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// bfloat16 is held as its bits. Rounds to nearest even.
inline unsigned short toBfloat16(float x) {
  const auto bits = bitsAs<unsigned>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<unsigned short>((bits >> 16) | 0x40u);
  return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
inline float fromBfloat16(unsigned short x) { return bitsAs<float>(static_cast<unsigned>(x) << 16); }

}  // namespace hlo
