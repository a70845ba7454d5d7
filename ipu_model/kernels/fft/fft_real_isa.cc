// Stages of real transforms: the complex stages, restricted to the elements that are not conjugates of
// others. Radix 2, 3, 4, 5 and any other.
#include "kernels/fft/fft_butterfly_isa.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// Terms that are added at a time by the butterfly of other radices.
constexpr std::int64_t kGroup = 4;
constexpr int kGeneral = 0;  // stands for any other radix

template <typename T, int kRadix>
struct Stage {
  static constexpr std::int64_t kMost = kRadix == kGeneral ? kLargestRadix : kRadix;
  const RealFftStage<T>& g;

  std::int64_t Radix() const { return kRadix == kGeneral ? g.p : kRadix; }
  std::int64_t Length() const { return Radix() * g.m; }  // of the joined spectrum

  // The offsets of row `row` of spectrum `part`, and of the joined spectrum, in their arrays.
  std::int64_t Part(std::int64_t row, std::int64_t part) const { return (row * Radix() + part) * g.s; }
  std::int64_t Whole(std::int64_t row) const { return row * g.s; }
  // Element t of the joined spectrum is in rows Row(t) - 1 and Row(t); in the second half, its conjugate is.
  bool IsMirrored(std::int64_t t) const { return 2 * t > Length(); }
  std::int64_t Row(std::int64_t t) const { return 2 * (IsMirrored(t) ? Length() - t : t); }

  template <typename V>
  [[gnu::always_inline]] void Transform(C<V>* x) const {
    if constexpr (kRadix == kGeneral) {
      GeneralButterfly(g.roots, Radix(), kGroup, x);
    } else {
      Butterfly<T, kRadix>(x);
    }
  }
  template <typename V>
  [[gnu::always_inline]] void Twiddle(std::int64_t column, C<V>* x) const {
    for (std::int64_t c = 1; c < Radix(); ++c)
      x[c] = Rotate(x[c], RootOf(g.roots, c * column * g.roots.step));
  }

  // Joins the real elements 0 of the parts.
  void JoinFirst() const {
    ForLanes<T>(g.s, [&](std::int64_t q, auto zero) {
      using V = decltype(zero);
      C<V> x[kMost];
      x[0] = {LoadLanes<V>(g.in + q), zero};
      for (std::int64_t c = 1; c < Radix(); ++c) x[c] = {LoadLanes<V>(g.in + Part(0, c) + q), zero};
      Transform(x);
      StoreLanes(g.out + q, x[0].re);
      for (std::int64_t r = 1; 2 * r < Radix(); ++r) {
        StoreLanes(g.out + Whole(2 * g.m * r - 1) + q, x[r].re);
        StoreLanes(g.out + Whole(2 * g.m * r) + q, x[r].im);
      }
      if (Radix() % 2 == 0) StoreLanes(g.out + Whole(Length() - 1) + q, x[Radix() / 2].re);
    });
  }
  void SplitFirst() const {
    // Swapping the real and imaginary parts gives the inverse.
    ForLanes<T>(g.s, [&](std::int64_t q, auto zero) {
      using V = decltype(zero);
      C<V> x[kMost];
      x[0] = {zero, LoadLanes<V>(g.in + q)};
      for (std::int64_t r = 1; 2 * r < Radix(); ++r) {
        const V re = LoadLanes<V>(g.in + Whole(2 * g.m * r - 1) + q),
                im = LoadLanes<V>(g.in + Whole(2 * g.m * r) + q);
        x[r] = {im, re};
        x[Radix() - r] = {-im, re};
      }
      if (Radix() % 2 == 0) x[Radix() / 2] = {zero, LoadLanes<V>(g.in + Whole(Length() - 1) + q)};
      Transform(x);
      for (std::int64_t c = 0; c < Radix(); ++c) StoreLanes(g.out + Part(0, c) + q, x[c].im);
    });
  }

  // Joins the complex elements `column` of the parts.
  void JoinColumn(std::int64_t column) const {
    ForLanes<T>(g.s, [&](std::int64_t q, auto zero) {
      using V = decltype(zero);
      C<V> x[kMost];
      for (std::int64_t c = 0; c < Radix(); ++c)
        x[c] = {LoadLanes<V>(g.in + Part(2 * column - 1, c) + q),
                LoadLanes<V>(g.in + Part(2 * column, c) + q)};
      Twiddle(column, x);
      Transform(x);
      for (std::int64_t r = 0; r < Radix(); ++r) {
        const std::int64_t t = column + g.m * r, row = Row(t);
        StoreLanes(g.out + Whole(row - 1) + q, x[r].re);
        StoreLanes(g.out + Whole(row) + q, IsMirrored(t) ? -x[r].im : x[r].im);
      }
    });
  }
  void SplitColumn(std::int64_t column) const {
    ForLanes<T>(g.s, [&](std::int64_t q, auto zero) {
      using V = decltype(zero);
      C<V> x[kMost];
      for (std::int64_t r = 0; r < Radix(); ++r) {
        const std::int64_t t = column + g.m * r, row = Row(t);
        const V im = LoadLanes<V>(g.in + Whole(row) + q);
        x[r] = {IsMirrored(t) ? -im : im, LoadLanes<V>(g.in + Whole(row - 1) + q)};
      }
      Transform(x);
      Twiddle(column, x);
      for (std::int64_t c = 0; c < Radix(); ++c) {
        StoreLanes(g.out + Part(2 * column - 1, c) + q, x[c].im);
        StoreLanes(g.out + Part(2 * column, c) + q, x[c].re);
      }
    });
  }

  // Joins the real elements m / 2 of the parts, for even m: only for radices 2 and 4, which come first in
  // factorisations.
  void JoinMiddle() const {
    const std::int64_t row = g.m;
    ForLanes<T>(g.s, [&](std::int64_t q, auto zero) {
      using V = decltype(zero);
      V x[4];
      for (std::int64_t c = 0; c < Radix(); ++c) x[c] = LoadLanes<V>(g.in + Part(g.m - 1, c) + q);
      if constexpr (kRadix == 2) {
        StoreLanes(g.out + Whole(row - 1) + q, x[0]);
        StoreLanes(g.out + Whole(row) + q, -x[1]);
      } else {
        constexpr T kHalfRoot = static_cast<T>(0.70710678118654752440);
        const V re = RoundedProduct(x[1] - x[3], kHalfRoot), im = RoundedProduct(x[1] + x[3], -kHalfRoot);
        StoreLanes(g.out + Whole(row - 1) + q, x[0] + re);
        StoreLanes(g.out + Whole(row) + q, im - x[2]);
        StoreLanes(g.out + Whole(3 * row - 1) + q, x[0] - re);
        StoreLanes(g.out + Whole(3 * row) + q, im + x[2]);
      }
    });
  }
  void SplitMiddle() const {
    const std::int64_t row = g.m;
    ForLanes<T>(g.s, [&](std::int64_t q, auto zero) {
      using V = decltype(zero);
      const auto in = [&](std::int64_t i) { return LoadLanes<V>(g.in + Whole(i) + q); };
      V x[4];
      if constexpr (kRadix == 2) {
        const V re = in(row - 1), im = in(row);
        x[0] = re + re;
        x[1] = -(im + im);
      } else {
        constexpr T kRoot = static_cast<T>(1.41421356237309504880);
        const V a = in(row - 1), b = in(row), c = in(3 * row - 1), d = in(3 * row);
        const V re = a - c, im = d + b;
        x[0] = (a + c) + (a + c);
        x[1] = RoundedProduct(re - im, kRoot);
        x[2] = (d - b) + (d - b);
        x[3] = RoundedProduct(re + im, -kRoot);
      }
      for (std::int64_t c = 0; c < Radix(); ++c) StoreLanes(g.out + Part(g.m - 1, c) + q, x[c]);
    });
  }

  void Join() const {
    JoinFirst();
    for (std::int64_t column = 1; 2 * column < g.m; ++column) JoinColumn(column);
    if constexpr (kRadix == 2 || kRadix == 4) {
      if (g.m % 2 == 0) JoinMiddle();
    }
  }
  void Split() const {
    SplitFirst();
    for (std::int64_t column = 1; 2 * column < g.m; ++column) SplitColumn(column);
    if constexpr (kRadix == 2 || kRadix == 4) {
      if (g.m % 2 == 0) SplitMiddle();
    }
  }
};

// Calls f with the stage of the radix.
template <typename T, typename F>
void Visit(const RealFftStage<T>& stage, F&& f) {
  switch (stage.p) {
    case 2:
      return f(Stage<T, 2>{stage});
    case 3:
      return f(Stage<T, 3>{stage});
    case 4:
      return f(Stage<T, 4>{stage});
    case 5:
      return f(Stage<T, 5>{stage});
    default:
      return f(Stage<T, kGeneral>{stage});
  }
}
constexpr auto kJoin = [](const auto& stage) { stage.Join(); };
constexpr auto kSplit = [](const auto& stage) { stage.Split(); };

}  // namespace

void RunJoin(const RealFftStage<float>& stage) { Visit(stage, kJoin); }
void RunJoin(const RealFftStage<double>& stage) { Visit(stage, kJoin); }
void RunSplit(const RealFftStage<float>& stage) { Visit(stage, kSplit); }
void RunSplit(const RealFftStage<double>& stage) { Visit(stage, kSplit); }

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
