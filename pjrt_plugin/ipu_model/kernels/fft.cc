// Fourier transforms: mixed-radix Stockham over several lines at once; lengths with a large prime factor by
// Bluestein's convolution.
#include "pjrt_plugin/ipu_model/kernels/fft.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "pjrt_plugin/ipu_model/kernels/fft_loops.h"
#include "pjrt_plugin/ipu_model/kernels/isa.h"
#include "pjrt_plugin/ipu_model/kernels/transpose.h"

namespace ipu_model {
namespace {

constexpr std::int64_t kLargestRadix = 13;
constexpr std::int64_t kMaxLines = 16;
// Complex numbers that a group of lines may take, so that it stays in the second-level cache.
constexpr std::int64_t kGroup = 32 << 10;
constexpr double kPi = 3.14159265358979323846;

std::vector<std::int64_t> Factors(std::int64_t n) {
  std::vector<std::int64_t> factors;
  for (const std::int64_t p : {4, 2, 3, 5}) {
    for (; n % p == 0; n /= p) factors.push_back(p);
  }
  for (std::int64_t p = 7; n > 1 && p <= kLargestRadix; p += 2) {
    for (; n % p == 0; n /= p) factors.push_back(p);
  }
  if (n > 1) factors.push_back(n);
  return factors;
}

// The transform of a length whose prime factors are small.
template <typename T>
class Direct {
 public:
  explicit Direct(std::int64_t n)
      : n_(n), factors_(Factors(n)), re_(static_cast<std::size_t>(n)), im_(re_.size()) {
    for (std::int64_t t = 0; t < n; ++t) {
      const double angle = -2 * kPi * static_cast<double>(t) / static_cast<double>(n);
      re_[static_cast<std::size_t>(t)] = static_cast<T>(std::cos(angle));
      im_[static_cast<std::size_t>(t)] = static_cast<T>(std::sin(angle));
    }
  }
  std::int64_t length() const { return n_; }
  std::int64_t largest_factor() const {
    return factors_.empty() ? 1 : *std::max_element(factors_.begin(), factors_.end());
  }

  // Forward, on arrays [n][lines]; the result is in (*re, *im), which are exchanged with (*other_re,
  // *other_im) as often as there are stages.
  void Run(std::int64_t lines, T** re, T** im, T** other_re, T** other_im) const {
    std::int64_t n = n_, s = lines;
    for (const std::int64_t p : factors_) {
      const FftStage<T> stage{p,          n / p, s,   n_ / n,    n_,       re_.data(),
                              im_.data(), *re,   *im, *other_re, *other_im};
      HasAvx512() ? avx512::RunStage(stage) : avx2::RunStage(stage);
      std::swap(*re, *other_re);
      std::swap(*im, *other_im);
      n /= p;
      s *= p;
    }
  }

 private:
  std::int64_t n_;
  std::vector<std::int64_t> factors_;
  std::vector<T> re_, im_;
};

// Any length: directly, or as the convolution with a chirp (Bluestein) of a power of two.
template <typename T>
class Transform {
 public:
  explicit Transform(std::int64_t n) : n_(n), direct_(std::make_unique<Direct<T>>(n)) {
    if (direct_->largest_factor() <= kLargestRadix) return;
    std::int64_t m = 1;
    while (m < 2 * n - 1) m *= 2;
    direct_ = std::make_unique<Direct<T>>(m);
    chirp_re_.resize(static_cast<std::size_t>(n));
    chirp_im_.resize(static_cast<std::size_t>(n));
    std::vector<T> re(static_cast<std::size_t>(m), T{0}), im(re), other_re(re), other_im(re);
    for (std::int64_t k = 0; k < n; ++k) {
      // exp(-pi i k^2 / n); the angle repeats with k^2 mod 2n.
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

  // Length of the arrays that Run works on.
  std::int64_t work_length() const { return direct_->length(); }

  // As Direct::Run, on arrays of work_length() of which the first n are data.
  void Run(std::int64_t lines, T** re, T** im, T** other_re, T** other_im) const {
    if (chirp_re_.empty()) return direct_->Run(lines, re, im, other_re, other_im);
    const std::int64_t m = work_length();
    Multiply(lines, n_, chirp_re_.data(), chirp_im_.data(), T{1}, *re, *im);
    std::fill(*re + n_ * lines, *re + m * lines, T{0});
    std::fill(*im + n_ * lines, *im + m * lines, T{0});
    direct_->Run(lines, re, im, other_re, other_im);
    Multiply(lines, m, filter_re_.data(), filter_im_.data(), static_cast<T>(1.0 / static_cast<double>(m)),
             *re, *im);
    direct_->Run(lines, im, re, other_im, other_re);  // parts exchanged: the inverse
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

// Lines of a tensor beside the arrays [n][count] of their real and imaginary parts, through squares in vector
// registers: one cache line of each line at a time, because lines are often a power of two apart.
template <typename T>
class LineMover {
 public:
  // `parts`: numbers of an element, 2 when it is complex. `step`: numbers from one element of a line to the
  // next.
  LineMover(std::int64_t parts, std::int64_t step, std::int64_t count, T* re, T* im)
      : parts_(parts), step_(step), count_(count), array_{re, im} {}

  // Elements [0, n) of line l, which begins at lines[l].
  void Load(const T* const* lines, std::int64_t n) const {
    Move(
        lines, n, [](const T* outside, T* inside) { *inside = *outside; },
        [](auto line, auto row) { TransposeRows<Bits>(line, row); });
    if (parts_ == 1) std::fill(array_[1], array_[1] + n * count_, T{0});
  }
  void Store(T* const* lines, std::int64_t n) const {
    Move(
        lines, n, [](T* outside, const T* inside) { *outside = *inside; },
        [](auto line, auto row) { TransposeRows<Bits>(row, line); });
  }

 private:
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  static constexpr std::int64_t kSide = kTransposeSide<Bits>,
                                kLine = 64 / static_cast<std::int64_t>(sizeof(T));

  // Number f of a line: the arrays' row of element f / parts.
  T* Row(std::int64_t f) const {
    return array_[parts_ == 2 ? f & 1 : 0] + (parts_ == 2 ? f >> 1 : f) * count_;
  }

  template <typename P, typename One, typename Square>
  void Move(P const* lines, std::int64_t n, One one, Square square) const {
    const std::int64_t lines_in_squares = step_ == parts_ ? count_ / kSide * kSide : 0;
    const std::int64_t numbers = n * parts_, in_squares = numbers / kLine * kLine;
    for (std::int64_t f = 0; lines_in_squares > 0 && f < in_squares; f += kLine) {
      for (std::int64_t l = 0; l < lines_in_squares; l += kSide) {
        for (std::int64_t g = f; g < f + kLine; g += kSide)
          square([=](int k) { return lines[l + k] + g; }, [=](int i) { return Row(g + i) + l; });
      }
    }
    const auto rest = [&](std::int64_t first, std::int64_t from_line) {
      for (std::int64_t f = first; f < numbers; ++f) {
        const std::int64_t outside = f / parts_ * step_ + f % parts_;
        T* const row = Row(f);
        for (std::int64_t l = from_line; l < count_; ++l) one(lines[l] + outside, row + l);
      }
    };
    if (lines_in_squares > 0) rest(in_squares, 0);
    if (lines_in_squares < count_) rest(0, lines_in_squares);
  }

  std::int64_t parts_, step_, count_;
  T* array_[2];
};

// Element offsets of line `line` of a tensor: all dimensions but `dim`, row-major.
std::int64_t LineOffset(const HostTensor& t, int dim, std::int64_t line) {
  std::int64_t offset = 0;
  for (int d = t.rank - 1; d >= 0; --d) {
    if (d == dim) continue;
    offset += line % t.shape[d] * t.strides[d];
    line /= t.shape[d];
  }
  return offset;
}

template <typename T>
void RunLines(HostContext& context, const Transform<T>& transform, std::int64_t n, bool inverse, int dim,
              const HostTensor& in, const HostTensor& out) {
  const std::int64_t lines = in.num_elements() / in.shape[dim];
  const std::int64_t group = std::clamp<std::int64_t>(kGroup / transform.work_length(), 1, kMaxLines);
  const std::int64_t groups = (lines + group - 1) / group;
  const int workers =
      lines * n < (8 << 10) ? 1 : static_cast<int>(std::min<std::int64_t>(groups, context.pool.size()));
  const std::int64_t size = transform.work_length() * group;
  T* memory = context.scratch.Allocate<T>(static_cast<std::size_t>(4 * size * workers));
  const std::int64_t in_parts = IsComplex(in.type) ? 2 : 1, out_parts = IsComplex(out.type) ? 2 : 1;
  const T scale = inverse ? static_cast<T>(1.0 / static_cast<double>(n)) : T{1};
  WorkShares shares(groups, workers);
  auto task = [&](int w) {
    for (std::int64_t g = shares.Next(w); g != WorkShares::kNone; g = shares.Next(w)) {
      T* re = memory + 4 * size * w;
      T *im = re + size, *other_re = im + size, *other_im = other_re + size;
      const std::int64_t first = g * group, count = std::min(group, lines - first);
      const T* from[kMaxLines];
      T* to[kMaxLines];
      for (std::int64_t l = 0; l < count; ++l) {
        from[l] = in.as<T>() + LineOffset(in, dim, first + l) * in_parts;
        to[l] = out.as<T>() + LineOffset(out, dim, first + l) * out_parts;
      }
      const std::int64_t given = std::min(n, in.shape[dim]);
      LineMover<T>(in_parts, in.strides[dim] * in_parts, count, re, im).Load(from, given);
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
      if (inverse) {
        for (T* part : {re, im})
          for (std::int64_t i = 0; i < n * count; ++i) part[i] *= scale;
      }
      LineMover<T>(out_parts, out.strides[dim] * out_parts, count, re, im).Store(to, out.shape[dim]);
    }
  };
  if (workers > 1) {
    context.pool.Run(workers, TaskRef(task));
  } else {
    task(0);
  }
}

}  // namespace

struct FftTables {
  std::unique_ptr<const Transform<float>> single;
  std::unique_ptr<const Transform<double>> twice;
};

FftPlan::FftPlan(DType type, std::int64_t length) : type_(type), length_(length) {
  auto tables = std::make_unique<FftTables>();
  if (length > 0 && type == DType::kC64) tables->single = std::make_unique<const Transform<float>>(length);
  if (length > 0 && type == DType::kC128) tables->twice = std::make_unique<const Transform<double>>(length);
  tables_ = std::move(tables);
}

FftPlan::~FftPlan() = default;
FftPlan::FftPlan(FftPlan&&) noexcept = default;

void FftPlan::Run(HostContext& context, bool inverse, int dim, const HostTensor& in,
                  const HostTensor& out) const {
  if (out.num_elements() == 0) return;
  if (type_ == DType::kC64) {
    RunLines(context, *tables_->single, length_, inverse, dim, in, out);
  } else {
    RunLines(context, *tables_->twice, length_, inverse, dim, in, out);
  }
}

}  // namespace ipu_model
