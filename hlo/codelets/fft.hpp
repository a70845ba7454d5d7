// Fourier transforms of the rows of dense boxes: stages of mixed radix in place, or a convolution with a
// chirp (Bluestein) where the length has a large prime factor.
#include "complex.hpp"
#include "rows.hpp"

namespace hlo {

constexpr unsigned kLargestRadix = 109;  // that hlo/fft/fft.cc uses

// Complex numbers at equal distances in memory.
struct Numbers {
  float* data;
  unsigned step, imaginary;  // from one to the next, and from the real to the imaginary part
  Complex load(unsigned k) const { return {data[k * step], data[k * step + imaginary]}; }
  void store(unsigned k, Complex x) const {
    data[k * step] = x.re;
    data[k * step + imaginary] = x.im;
  }
};

// exp(-2 pi i t / order), or its conjugate, as a product of table entries: of t % 2^shift, then of
// t / 2^shift.
struct Roots {
  const float* table;
  unsigned order, shift;
  bool conjugated;
  Complex operator[](unsigned t) const {
    const float *low = table + 2 * (t & ((1u << shift) - 1)),
                *high = table + 2 * ((1u << shift) + (t >> shift));
    const Complex root = Complex{low[0], low[1]} * Complex{high[0], high[1]};
    return conjugated ? conjugate(root) : root;
  }
};

// A transform of length n, a product of radices.
struct Stages {
  const unsigned* radices;
  unsigned count, n;
  // Where number i is stored before the stages in time, and number i of the result after those in frequency.
  unsigned placeOf(unsigned i) const {
    unsigned place = 0, m = n;
    for (unsigned s = 0; s < count; i /= radices[s++]) {
      m /= radices[s];
      place += i % radices[s] * m;
    }
    return place;
  }
};

// One stage: within blocks of p m numbers, transforms the numbers [j][k], j < p and k < m, along j. Twiddle
// factors multiply what goes in (decimation in time), or else what comes out (in frequency).
template <bool kInTime>
void runStage(const Numbers& x, unsigned n, unsigned p, unsigned m, const Roots& roots) {
  const unsigned step = roots.order / (p * m);
  Complex in[kLargestRadix], unit[kLargestRadix];
  if (p != 2 && p != 4)
    for (unsigned q = 0; q < p; ++q) unit[q] = roots[q * (roots.order / p)];
  for (unsigned block = 0; block < n; block += p * m) {
    for (unsigned k = 0; k < m; ++k) {
      for (unsigned j = 0; j < p; ++j) {
        in[j] = x.load(block + j * m + k);
        if (kInTime && j * k != 0) in[j] = in[j] * roots[j * k * step];
      }
      const auto put = [&](unsigned q, Complex value) {
        if (!kInTime && q * k != 0) value = value * roots[q * k * step];
        x.store(block + q * m + k, value);
      };
      if (p == 2) {
        put(0, in[0] + in[1]);
        put(1, in[0] - in[1]);
      } else if (p == 4) {
        const Complex a = in[0] + in[2], b = in[0] - in[2], c = in[1] + in[3], d = in[1] - in[3];
        const Complex turned = roots.conjugated ? Complex{-d.im, d.re} : Complex{d.im, -d.re};
        put(0, a + c);
        put(1, b + turned);
        put(2, a - c);
        put(3, b - turned);
      } else {
        for (unsigned q = 0; q < p; ++q) {
          Complex sum = in[0];
          for (unsigned j = 1, t = q; j < p; ++j, t = t + q < p ? t + q : t + q - p)
            sum = sum + in[j] * unit[t];
          put(q, sum);
        }
      }
    }
  }
}
inline void runInTime(const Numbers& x, const Stages& stages, const Roots& roots) {
  for (unsigned s = stages.count, m = 1; s-- > 0; m *= stages.radices[s])
    runStage<true>(x, stages.n, stages.radices[s], m, roots);
}
inline void runInFrequency(const Numbers& x, const Stages& stages, const Roots& roots) {
  for (unsigned s = 0, m = stages.n; s < stages.count; ++s)
    runStage<false>(x, stages.n, stages.radices[s], m /= stages.radices[s], roots);
}

// What is transformed: complex numbers, real ones into the first half of their spectrum, or that half back.
enum class Signal { kComplex, kReal, kHalf };

// A row of the input. kPacked: an even number of real numbers is transformed as half as many complex ones.
// `twice` has the roots of twice the order of the transform.
template <Signal kSignal, bool kPacked, typename E>
struct Given {
  const float* data;
  Row row;
  unsigned n;
  Roots twice;
  float scale;

  Given(const E* elements, Row row, unsigned n, const Roots& twice, float scale)
      : data(reinterpret_cast<const float*>(elements)), row(row), n(n), twice(twice), scale(scale) {}
  Complex at(unsigned k) const { return {data[2 * row[k]], data[2 * row[k] + 1]}; }
  Complex number(unsigned k) const {
    if (kSignal == Signal::kComplex) return at(k);
    if (kSignal == Signal::kReal)
      return kPacked ? Complex{data[row[2 * k]], data[row[2 * k + 1]]} : Complex{data[row[k]], 0};
    if (kPacked) {
      Complex a = at(k), b = conjugate(at(n - k));
      if (k == 0) a.im = b.im = 0;
      const Complex odd = (a - b) * twice[k];
      return a + b + Complex{-odd.im, odd.re};
    }
    if (k == 0) return {at(0).re, 0};
    return 2 * k <= n ? at(k) : conjugate(at(n - k));
  }
  Complex operator[](unsigned k) const {
    const Complex x = number(k);
    return {x.re * scale, x.im * scale};
  }
};

// The spectrum of 2 n real numbers, of n + 1 elements, from the transform of n pairs of them, in place.
inline void unpackSpectrum(const Numbers& x, unsigned n, const Roots& twice) {
  const Complex first = x.load(0);
  x.store(0, {first.re + first.im, 0});
  x.store(n, {first.re - first.im, 0});
  for (unsigned k = 1; 2 * k <= n; ++k) {
    const Complex a = x.load(k), b = conjugate(x.load(n - k)), sum = a + b, rest = a - b;
    const Complex even{sum.re * 0.5f, sum.im * 0.5f},
        odd = Complex{rest.im * 0.5f, rest.re * -0.5f} * twice[k];
    x.store(k, even + odd);
    x.store(n - k, conjugate(even - odd));
  }
}

// The elements of a row of the output as complex numbers, two reals as one.
template <typename E>
Numbers numbersOf(E* elements, const Row& row) {
  float* const data = reinterpret_cast<float*>(elements);
  if (sizeof(E) == 8) return {data + 2 * row.begin, 2 * row.step, 1};
  return {data + row.begin, 2 * row.step, row.step};
}

// Rows whose transform is computed in the output.
template <Signal kSignal, bool kPacked, typename I, typename O>
class Fft : public poplar::MultiVertex {
 public:
  In<I> in;
  Out<O> out;
  poplar::Vector<float> roots;
  poplar::Vector<unsigned> radices;
  unsigned inLength, outLength, step, n, shift;
  bool inverse;
  float scale;

  bool compute(unsigned worker) {
    const Roots twice{&roots[0], 2 * n, shift, inverse};
    const Stages stages{&radices[0], static_cast<unsigned>(radices.size()), n};
    const Share share = rowsOf<8 / sizeof(O)>(worker, numWorkers(), out.size() / outLength, step);
    for (unsigned r = share.begin; r < share.end; ++r) {
      const Given<kSignal, kPacked, I> given(&in[0], Row(r, inLength, step), n, twice, scale);
      const Numbers x = numbersOf(&out[0], Row(r, outLength, step));
      for (unsigned k = 0; k < n; ++k) x.store(stages.placeOf(k), given[k]);
      runInTime(x, stages, twice);
      if (kSignal == Signal::kReal) unpackSpectrum(x, n, twice);
    }
    return true;
  }
};

// Rows whose transform is computed beside the output, in `work`: `workLength` numbers of each worker that has
// a share. If that is more than n, then the transform is a convolution; `filter` is the transform of the
// chirp.
template <Signal kSignal, bool kPacked, typename I, typename O>
class FftBeside : public poplar::MultiVertex {
 public:
  In<I> in;
  Out<O> out;
  Out<unsigned long long> work;
  poplar::Vector<float> roots, workRoots, filter;
  poplar::Vector<unsigned> radices;
  unsigned inLength, outLength, step, n, shift, workLength, workShift;
  bool inverse;
  float scale;

  bool compute(unsigned worker) {
    const unsigned workers = work.size() / workLength;
    if (worker >= workers) return true;
    const Share share = rowsOf<8 / sizeof(O)>(worker, workers, out.size() / outLength, step);
    const Roots twice{&roots[0], 2 * n, shift, inverse};
    const Stages stages{&radices[0], static_cast<unsigned>(radices.size()), workLength};
    const Numbers x{reinterpret_cast<float*>(&work[worker * workLength]), 2, 1};
    for (unsigned r = share.begin; r < share.end; ++r) {
      const Given<kSignal, kPacked, I> given(&in[0], Row(r, inLength, step), n, twice, scale);
      if (workLength == n) {
        for (unsigned k = 0; k < n; ++k) x.store(stages.placeOf(k), given[k]);
        runInTime(x, stages, twice);
      } else {
        convolve(x, stages, given, twice);
      }
      store(x, Row(r, outLength, step), twice);
    }
    return true;
  }

 private:
  // X[k] = c[k] sum_j (x[j] c[j]) / c[k - j], where c[k] = exp(-pi i k^2 / n).
  template <typename G>
  void convolve(const Numbers& x, const Stages& stages, const G& given, const Roots& twice) const {
    for (unsigned k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), ++k)
      x.store(k, given[k] * twice[square]);
    for (unsigned k = n; k < workLength; ++k) x.store(k, {0, 0});
    Roots turns{&workRoots[0], workLength, workShift, false};
    runInFrequency(x, stages, turns);
    for (unsigned k = 0; k < workLength; ++k)
      x.store(k, x.load(k) * Complex{filter[2 * k], filter[2 * k + 1]});
    turns.conjugated = true;
    runInTime(x, stages, turns);
    for (unsigned k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), ++k)
      x.store(k, x.load(k) * twice[square]);
  }
  void store(const Numbers& x, const Row& row, const Roots& twice) {
    float* const data = reinterpret_cast<float*>(&out[0]);
    if (kSignal == Signal::kHalf && !kPacked) {
      for (unsigned k = 0; k < n; ++k) data[row[k]] = x.load(k).re;
      return;
    }
    const Numbers to = numbersOf(&out[0], row);
    const unsigned stored = kSignal == Signal::kReal && !kPacked ? outLength : n;
    for (unsigned k = 0; k < stored; ++k) to.store(k, x.load(k));
    if (kSignal != Signal::kReal) return;
    if (kPacked)
      unpackSpectrum(to, n, twice);
    else
      to.store(0, {x.load(0).re, 0});
  }
};

}  // namespace hlo
