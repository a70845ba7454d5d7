// The index along one dimension of a box: first, first + 1, ... `count` values, each `inner` times, again and
// again.
#include "common.hpp"

namespace hlo {

// What an element holds beside the plain conversion of the index. As in hlo/elementwise/fill_iota.cc.
enum Encoding : unsigned { kPlain, kLowBits, kBfloat16, kFloat64, kComplex64 };

// The bits of a number that float64 holds exactly.
inline unsigned long long bitsOfFloat64(unsigned x) {
  if (x == 0) return 0;
  const unsigned zeros = static_cast<unsigned>(__builtin_clz(x)), exponent = 1023 + 31 - zeros;
  const unsigned long long mantissa = (static_cast<unsigned long long>(x) << (zeros + 1)) & 0xffffffffull;
  return static_cast<unsigned long long>(exponent) << 52 | mantissa << 20;
}

template <typename T>
struct Encode {
  // The low bits of an integer that the type extends by its sign, if it has one.
  static T get(unsigned x, unsigned encoding, unsigned bits) {
    if constexpr (sizeof(T) == 1) {
      const unsigned unused = encoding == kLowBits ? 8 - bits : 0;
      return static_cast<T>(static_cast<T>(x << unused) >> unused);
    }
    return static_cast<T>(x);
  }
};
template <>
struct Encode<unsigned short> {
  static unsigned short get(unsigned x, unsigned encoding, unsigned) {
    return encoding == kBfloat16 ? toBfloat16(static_cast<float>(x)) : static_cast<unsigned short>(x);
  }
};
template <>
struct Encode<unsigned long long> {
  static unsigned long long get(unsigned x, unsigned encoding, unsigned) {
    if (encoding == kFloat64) return bitsOfFloat64(x);
    return encoding == kComplex64 ? bitsAs<unsigned>(static_cast<float>(x)) : x;
  }
};
template <>
struct Encode<half> {
  static half get(unsigned x, unsigned, unsigned) { return static_cast<half>(static_cast<float>(x)); }
};

template <typename T>
class Iota : public poplar::MultiVertex {
 public:
  poplar::Output<poplar::Vector<T, poplar::VectorLayout::SPAN, 8>> out;
  unsigned first, count, inner, encoding, bits;
  bool compute(unsigned worker) {
    const Share share = shareOf(worker, numWorkers(), out.size());
    unsigned within = share.begin % inner, index = share.begin / inner % count;
    for (unsigned i = share.begin; i < share.end; ++i) {
      out[i] = Encode<T>::get(first + index, encoding, bits);
      if (++within < inner) continue;
      within = 0;
      if (++index == count) index = 0;
    }
    return true;
  }
};
template class Iota<signed char>;
template class Iota<unsigned char>;
template class Iota<short>;
template class Iota<unsigned short>;
template class Iota<int>;
template class Iota<unsigned int>;
template class Iota<long long>;
template class Iota<unsigned long long>;
template class Iota<half>;
template class Iota<float>;

}  // namespace hlo
