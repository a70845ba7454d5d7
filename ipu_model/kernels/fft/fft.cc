// Fourier transforms: mixed-radix Stockham over several lines at once. Real transforms compute half of the
// spectrum. Lengths with a large prime factor use Bluestein's convolution.
#include "kernels/fft/fft.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>
#include <vector>

#include "kernels/fft/fft_loops.h"
#include "kernels/host/isa.h"

namespace ipu_model {
namespace {

constexpr std::int64_t kMaxLines = 16;
// Complex numbers in a group of lines, so that the group stays in the second-level cache.
constexpr std::int64_t kGroup = 32 << 10;
constexpr long double kExactPi = 3.14159265358979323846264338327950288L;
constexpr double kPi = static_cast<double>(kExactPi);

double Operations(std::int64_t n) {
  const auto length = static_cast<double>(n);
  return 5 * length * std::log2(std::max(length, 2.0));
}

// Returns the factors of n: a single 2 first, if there is one, then the factors of `even`, then the odd
// primes. A remainder without prime factors up to kLargestRadix is one factor.
std::vector<std::int64_t> Factors(std::int64_t n, std::initializer_list<std::int64_t> even) {
  std::vector<std::int64_t> factors;
  for (const std::int64_t p : even) {
    for (; n % p == 0; n /= p) factors.push_back(p);
  }
  if (n % 2 == 0) {
    n /= 2;
    factors.push_back(2);
    std::swap(factors.front(), factors.back());
  }
  for (std::int64_t p = 3; n > 1 && p <= kLargestRadix; p += 2) {
    for (; n % p == 0; n /= p) factors.push_back(p);
  }
  if (n > 1) factors.push_back(n);
  return factors;
}

// exp(-2 pi i t / n) for all t, as products of the entries of two tables of about sqrt(n / 2) entries, in
// f64.
template <typename T>
class Roots {
 public:
  explicit Roots(std::int64_t n) : re_(static_cast<std::size_t>(n)), im_(re_.size()) {
    int shift = 1;
    const std::int64_t needed = (n + 2) / 2;  // the others are conjugates
    while ((std::int64_t{1} << (2 * shift)) < needed) ++shift;
    const std::int64_t size = std::int64_t{1} << shift;
    std::vector<Root> fine, coarse;
    for (std::int64_t t = 0; t < size; ++t) fine.push_back(Exactly(t, n));
    for (std::int64_t t = 0; t < needed; t += size) coarse.push_back(Exactly(t, n));
    for (std::int64_t t = 0; t < n; ++t) {
      const std::int64_t first = std::min(t, n - t);
      const Root a = fine[static_cast<std::size_t>(first & (size - 1))],
                 b = coarse[static_cast<std::size_t>(first >> shift)];
      const T im = static_cast<T>(a.re * b.im + a.im * b.re);
      re_[static_cast<std::size_t>(t)] = static_cast<T>(a.re * b.re - a.im * b.im);
      im_[static_cast<std::size_t>(t)] = 2 * t <= n ? -im : im;
    }
  }
  // Returns every step-th root.
  FftRoots<T> Every(std::int64_t step) const {
    return {re_.data(), im_.data(), static_cast<std::int64_t>(re_.size()), step};
  }

 private:
  struct Root {
    double re, im;
  };
  // Returns exp(2 pi i t / n), computed from an angle of at most pi / 4.
  static Root Exactly(std::int64_t t, std::int64_t n) {
    if (t == 0) return {1, 0};
    const double unit = static_cast<double>(kExactPi / 4 / static_cast<long double>(n));
    const std::int64_t eighths = 8 * t, turned = eighths > 2 * n ? 4 * n - eighths : eighths;
    Root root{std::cos(static_cast<double>(turned) * unit), std::sin(static_cast<double>(turned) * unit)};
    if (turned > n) {
      const double rest = static_cast<double>(2 * n - turned) * unit;
      root = {std::sin(rest), std::cos(rest)};
    }
    if (eighths > 2 * n) root.re = -root.re;
    return root;
  }

  std::vector<T> re_, im_;
};

// The transform of a length with small prime factors.
template <typename T>
class Direct {
 public:
  explicit Direct(std::int64_t n) : n_(n), factors_(Factors(n, {8, 4})), roots_(n) {}
  std::int64_t length() const { return n_; }

  // Computes the forward transform on arrays [n][lines]. Each stage swaps (*re, *im) with (*other_re,
  // *other_im); the result is in (*re, *im).
  void Run(std::int64_t lines, T** re, T** im, T** other_re, T** other_im) const {
    std::int64_t n = n_, s = lines;
    for (const std::int64_t p : factors_) {
      const FftStage<T> stage{p, n / p, s, roots_.Every(n_ / n), *re, *im, *other_re, *other_im};
      JAX_IPU_FOR_ISA(RunStage(stage));
      std::swap(*re, *other_re);
      std::swap(*im, *other_im);
      n /= p;
      s *= p;
    }
  }

 private:
  std::int64_t n_;
  std::vector<std::int64_t> factors_;
  Roots<T> roots_;
};

// Transforms between real numbers and their spectra (see RealFftStage), for lengths with small prime factors.
template <typename T>
class RealTransform {
 public:
  explicit RealTransform(std::int64_t n) : n_(n), factors_(Factors(n, {4})), roots_(n) {}
  static bool IsFor(std::int64_t n) {
    const std::vector<std::int64_t> factors = Factors(n, {4});
    return std::all_of(factors.begin(), factors.end(), [](std::int64_t p) { return p <= kLargestRadix; });
  }

  // Transforms arrays [n][lines]. Each stage swaps *data with *other; the result is in *data.
  void Run(bool inverse, std::int64_t lines, T** data, T** other) const {
    std::int64_t joined = inverse ? 1 : n_;  // number of spectra
    for (std::size_t i = 0; i < factors_.size(); ++i) {
      const std::int64_t p = inverse ? factors_[i] : factors_[factors_.size() - 1 - i];
      if (!inverse) joined /= p;
      const RealFftStage<T> stage{p, n_ / joined / p, joined * lines, roots_.Every(joined), *data, *other};
      if (inverse) {
        JAX_IPU_FOR_ISA(RunSplit(stage));
        joined *= p;
      } else {
        JAX_IPU_FOR_ISA(RunJoin(stage));
      }
      std::swap(*data, *other);
    }
  }

 private:
  std::int64_t n_;
  std::vector<std::int64_t> factors_;
  Roots<T> roots_;
};

// The transform of any length: directly, or as a convolution with a chirp (Bluestein) of power-of-two length.
template <typename T>
class Transform {
 public:
  explicit Transform(std::int64_t n) : n_(n), direct_(std::make_unique<Direct<T>>(n)) {
    const std::int64_t m = FftConvolutionLength(n);
    if (m == 0) return;
    direct_ = std::make_unique<Direct<T>>(m);
    chirp_re_.resize(static_cast<std::size_t>(n));
    chirp_im_.resize(static_cast<std::size_t>(n));
    std::vector<T> re(static_cast<std::size_t>(m), T{0}), im(re), other_re(re), other_im(re);
    for (std::int64_t k = 0; k < n; ++k) {
      // exp(-pi i k^2 / n). The angle depends only on k^2 mod 2n.
      const std::int64_t square =
          static_cast<std::int64_t>(static_cast<unsigned __int128>(k) * static_cast<unsigned __int128>(k) %
                                    static_cast<unsigned __int128>(2 * n));
      const double angle = -kPi * static_cast<double>(square) / static_cast<double>(n);
      const std::size_t i = static_cast<std::size_t>(k);
      chirp_re_[i] = static_cast<T>(std::cos(angle));
      chirp_im_[i] = static_cast<T>(std::sin(angle));
      re[i] = re[static_cast<std::size_t>((m - k) % m)] = chirp_re_[i];
      im[i] = im[static_cast<std::size_t>((m - k) % m)] = -chirp_im_[i];
    }
    T *r = re.data(), *i = im.data(), *ro = other_re.data(), *io = other_im.data();
    direct_->Run(1, &r, &i, &ro, &io);
    filter_re_.assign(r, r + m);
    filter_im_.assign(i, i + m);
  }

  // The length of the arrays that Run works on.
  std::int64_t work_length() const { return direct_->length(); }
  double operations() const {
    if (chirp_re_.empty()) return Operations(n_);
    const std::int64_t m = work_length();
    return 2 * Operations(m) + 6 * static_cast<double>(2 * n_ + m);  // plus three complex products
  }

  // Like Direct::Run, on arrays of work_length() elements, of which the first n are data.
  void Run(std::int64_t lines, T** re, T** im, T** other_re, T** other_im) const {
    if (chirp_re_.empty()) return direct_->Run(lines, re, im, other_re, other_im);
    const std::int64_t m = work_length();
    Multiply(lines, n_, chirp_re_.data(), chirp_im_.data(), T{1}, *re, *im);
    std::fill(*re + n_ * lines, *re + m * lines, T{0});
    std::fill(*im + n_ * lines, *im + m * lines, T{0});
    direct_->Run(lines, re, im, other_re, other_im);
    Multiply(lines, m, filter_re_.data(), filter_im_.data(), static_cast<T>(1.0 / static_cast<double>(m)),
             *re, *im);
    // Swapping the real and imaginary parts gives the inverse.
    direct_->Run(lines, im, re, other_im, other_re);
    Multiply(lines, n_, chirp_re_.data(), chirp_im_.data(), T{1}, *re, *im);
  }

 private:
  static void Multiply(std::int64_t lines, std::int64_t n, const T* wr, const T* wi, T scale, T* re, T* im) {
    for (std::int64_t k = 0; k < n; ++k) {
      const T a = wr[k] * scale, b = wi[k] * scale;
      for (std::int64_t q = k * lines; q < (k + 1) * lines; ++q) {
        const T x = re[q], y = im[q];
        re[q] = x * a - y * b;
        im[q] = x * b + y * a;
      }
    }
  }

  std::int64_t n_;
  std::unique_ptr<const Direct<T>> direct_;
  std::vector<T> chirp_re_, chirp_im_, filter_re_, filter_im_;
};

template <typename T>
void Load(const FftLines<T>& lines, const T* const* from, std::int64_t n) {
  JAX_IPU_FOR_ISA(LoadLines(lines, from, n));
}
template <typename T>
void Store(const FftLines<T>& lines, T* const* to, std::int64_t n) {
  JAX_IPU_FOR_ISA(StoreLines(lines, to, n));
}

// Returns the element offset of line `line` of a tensor: a row-major index over all dimensions except `dim`.
std::int64_t LineOffset(const HostTensor& t, int dim, std::int64_t line) {
  std::int64_t offset = 0;
  for (int d = t.rank - 1; d >= 0; --d) {
    if (d == dim) continue;
    offset += line % t.shape[d] * t.strides[d];
    line /= t.shape[d];
  }
  return offset;
}

// Some lines of a transform, and the memory of the worker that transforms them.
template <typename T>
struct LineGroup {
  T* memory;
  std::int64_t count;
  const T* from[kMaxLines];
  T* to[kMaxLines];
};

// Calls f(group) for groups of lines. Each line takes `work` complex numbers in each of two buffers.
template <typename T, typename F>
void ForLineGroups(HostContext& context, std::int64_t n, std::int64_t work, int dim, const HostTensor& in,
                   const HostTensor& out, F&& f) {
  const std::int64_t lines = in.num_elements() / in.shape[dim];
  const std::int64_t most = std::clamp<std::int64_t>(2 * kGroup / work, 1, kMaxLines);
  const std::int64_t groups = (lines + most - 1) / most;
  const int workers =
      lines * n < (8 << 10) ? 1 : static_cast<int>(std::min<std::int64_t>(groups, context.pool.size()));
  T* const memory = context.scratch.Allocate<T>(static_cast<std::size_t>(2 * work * most * workers));
  const std::int64_t in_parts = IsComplex(in.type) ? 2 : 1, out_parts = IsComplex(out.type) ? 2 : 1;
  WorkShares shares(groups, workers);
  auto task = [&](int w) {
    LineGroup<T> group;
    group.memory = memory + 2 * work * most * w;
    for (std::int64_t g = shares.Next(w); g != WorkShares::kNone; g = shares.Next(w)) {
      const std::int64_t first = g * most;
      group.count = std::min(most, lines - first);
      for (std::int64_t l = 0; l < group.count; ++l) {
        group.from[l] = in.as<T>() + LineOffset(in, dim, first + l) * in_parts;
        group.to[l] = out.as<T>() + LineOffset(out, dim, first + l) * out_parts;
      }
      f(group);
    }
  };
  if (workers > 1) {
    context.pool.Run(workers, TaskRef(task));
  } else {
    task(0);
  }
}

template <typename T>
void ScaleRows(T scale, std::int64_t numbers, T* row) {
  if (scale == T{1}) return;
  JAX_IPU_FOR_ISA(ScaleNumbers(scale, numbers, row));
}

template <typename T>
void RunLines(HostContext& context, const Transform<T>& transform, std::int64_t n, bool inverse, T scale,
              int dim, const HostTensor& in, const HostTensor& out) {
  const std::int64_t in_parts = IsComplex(in.type) ? 2 : 1, out_parts = IsComplex(out.type) ? 2 : 1;
  ForLineGroups<T>(context, n, 2 * transform.work_length(), dim, in, out, [&](const LineGroup<T>& group) {
    const std::int64_t count = group.count, size = transform.work_length() * count;
    T* re = group.memory;
    T *im = re + size, *other_re = im + size, *other_im = other_re + size;
    const std::int64_t given = std::min(n, in.shape[dim]);
    Load<T>({in_parts, in.strides[dim] * in_parts, count, re, im}, group.from, given);
    for (std::int64_t k = given; k < n; ++k) {  // the conjugate half
      const T *mirror_re = re + (n - k) * count, *mirror_im = im + (n - k) * count;
      for (std::int64_t l = 0; l < count; ++l) {
        re[k * count + l] = mirror_re[l];
        im[k * count + l] = -mirror_im[l];
      }
    }
    if (inverse) {
      transform.Run(count, &im, &re, &other_im, &other_re);
    } else {
      transform.Run(count, &re, &im, &other_re, &other_im);
    }
    if (in_parts == 1) {  // elements that are real by symmetry
      std::fill_n(im, count, T{0});
      if (n % 2 == 0) std::fill_n(im + n / 2 * count, count, T{0});
    }
    for (T* part : {re, im}) ScaleRows(scale, n * count, part);
    Store<T>({out_parts, out.strides[dim] * out_parts, count, re, im}, group.to, out.shape[dim]);
  });
}

// The half spectrum in memory has an imaginary part of element 0, which is 0; RealFftStage leaves it out. The
// rows of real lines and of RealFftStage therefore start at 1, and those of the half spectrum at 0.
template <typename T>
void RunRealLines(HostContext& context, const RealTransform<T>& transform, std::int64_t n, bool inverse,
                  T scale, int dim, const HostTensor& in, const HostTensor& out) {
  ForLineGroups<T>(context, n, n + 2, dim, in, out, [&](const LineGroup<T>& group) {
    const std::int64_t count = group.count;
    T *data = group.memory + count, *other = data + (n + 2) * count;
    if (inverse) {
      Load<T>({2, in.strides[dim] * 2, count, data - count, nullptr}, group.from, n / 2 + 1);
      std::copy_n(data - count, count, data);
    } else {
      Load<T>({1, in.strides[dim], count, data, nullptr}, group.from, n);
    }
    transform.Run(inverse, count, &data, &other);
    ScaleRows(scale, n * count, data);
    if (inverse) {
      Store<T>({1, out.strides[dim], count, data, nullptr}, group.to, n);
    } else {
      std::copy_n(data, count, data - count);
      std::fill_n(data, count, T{0});
      if (n % 2 == 0) std::fill_n(data + n * count, count, T{0});
      Store<T>({2, out.strides[dim] * 2, count, data - count, nullptr}, group.to, n / 2 + 1);
    }
  });
}

}  // namespace

std::int64_t FftConvolutionLength(std::int64_t n) {
  const std::vector<std::int64_t> factors = Factors(n, {8, 4});
  if (factors.empty() || *std::max_element(factors.begin(), factors.end()) <= kLargestRadix) return 0;
  std::int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  return m;
}

struct FftTables {
  virtual ~FftTables() = default;
  virtual void Run(HostContext& context, bool inverse, double scale, int dim, const HostTensor& in,
                   const HostTensor& out) const = 0;
  virtual double operations() const = 0;
};

namespace {

template <typename T>
class TablesOf : public FftTables {
 public:
  TablesOf(std::int64_t length, bool real) : length_(length) {
    if (real && RealTransform<T>::IsFor(length)) {
      real_ = std::make_unique<const RealTransform<T>>(length);
    } else {
      complex_ = std::make_unique<const Transform<T>>(length);
    }
  }
  void Run(HostContext& context, bool inverse, double scale, int dim, const HostTensor& in,
           const HostTensor& out) const override {
    if (real_ != nullptr) {
      RunRealLines(context, *real_, length_, inverse, static_cast<T>(scale), dim, in, out);
    } else {
      RunLines(context, *complex_, length_, inverse, static_cast<T>(scale), dim, in, out);
    }
  }
  double operations() const override {
    return real_ != nullptr ? Operations(length_) / 2 : complex_->operations();
  }

 private:
  std::int64_t length_;
  std::unique_ptr<const RealTransform<T>> real_;
  std::unique_ptr<const Transform<T>> complex_;
};

}  // namespace

FftPlan::FftPlan(DType type, std::int64_t length, bool real) : length_(length), real_(real) {
  if (length == 0) return;
  if (type == DType::kC64) {
    tables_ = std::make_unique<const TablesOf<float>>(length, real);
  } else {
    tables_ = std::make_unique<const TablesOf<double>>(length, real);
  }
}

FftPlan::~FftPlan() = default;
FftPlan::FftPlan(FftPlan&&) noexcept = default;

double FftPlan::operations() const { return tables_ == nullptr ? 0 : tables_->operations(); }

void FftPlan::Run(HostContext& context, bool inverse, double scale, int dim, const HostTensor& in,
                  const HostTensor& out) const {
  if (out.num_elements() > 0) tables_->Run(context, inverse, scale, dim, in, out);
}

}  // namespace ipu_model
