// Moves lines of a tensor to and from the arrays in which the stages transform them.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/copy/transpose.h"
#include "kernels/fft/fft_loops.h"
#include "kernels/vector/register_transpose.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// Lines whose numbers are adjacent pass through squares in vector registers, one cache line of each line at a
// time, because lines are often a power of two apart. Lines that are themselves adjacent pass in rows.
template <typename T>
class LineMover {
 public:
  explicit LineMover(const FftLines<T>& lines)
      : parts_(lines.parts), step_(lines.step), count_(lines.count), array_{lines.re, lines.im} {}

  void Load(const T* const* lines, std::int64_t n) const {
    if (AreAdjacent(lines)) {
      for (std::int64_t k = 0; k < n; ++k) Split(lines[0] + k * step_, k * count_);
    } else {
      Move(
          lines, n, [](const T* outside, T* inside) { *inside = *outside; },
          [](auto line, auto row) { TransposeRows<Bits>(line, row); },
          [](auto line, auto row) { TransposeRegisters(line, row); });
    }
    if (parts_ == 1 && array_[1] != nullptr) std::fill(array_[1], array_[1] + n * count_, T{0});
  }
  void Store(T* const* lines, std::int64_t n) const {
    if (AreAdjacent(lines)) {
      for (std::int64_t k = 0; k < n; ++k) Join(k * count_, lines[0] + k * step_);
      return;
    }
    Move(
        lines, n, [](T* outside, const T* inside) { *outside = *inside; },
        [](auto line, auto row) { TransposeRows<Bits>(row, line); },
        [](auto line, auto row) { TransposeRegisters(row, line); });
  }

 private:
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  using Register = typename VectorTypes<T>::Register;
  using Memory = typename VectorTypes<T>::Memory;
  static constexpr std::int64_t kSmall = kTransposeSide<Bits>, kLarge = kLanes<T>,
                                kLine = 64 / static_cast<std::int64_t>(sizeof(T));

  template <typename P>
  bool AreAdjacent(P const* lines) const {
    if (step_ == parts_ || (parts_ == 2 && array_[1] == nullptr)) return false;
    for (std::int64_t l = 1; l < count_; ++l) {
      if (lines[l] - lines[l - 1] != parts_) return false;
    }
    return true;
  }

  // One element of every line, at `from`, to the array elements from `at` on.
  void Split(const T* from, std::int64_t at) const {
    T *re = array_[0] + at, *im = array_[1] + at;
    if (parts_ == 1) {
      std::copy_n(from, count_, re);
      return;
    }
    std::int64_t l = 0;
    for (; l + kLarge <= count_; l += kLarge) {
      const Register a = *reinterpret_cast<const Memory*>(from + 2 * l),
                     b = *reinterpret_cast<const Memory*>(from + 2 * l + kLarge);
      *reinterpret_cast<Memory*>(re + l) = EverySecond<T>::Of(a, b, 0);
      *reinterpret_cast<Memory*>(im + l) = EverySecond<T>::Of(a, b, 1);
    }
    for (; l < count_; ++l) {
      re[l] = from[2 * l];
      im[l] = from[2 * l + 1];
    }
  }
  void Join(std::int64_t at, T* to) const {
    const T *re = array_[0] + at, *im = array_[1] + at;
    if (parts_ == 1) {
      std::copy_n(re, count_, to);
      return;
    }
    std::int64_t l = 0;
    for (; l + kLarge <= count_; l += kLarge) {
      const Register a = *reinterpret_cast<const Memory*>(re + l),
                     b = *reinterpret_cast<const Memory*>(im + l);
      *reinterpret_cast<Memory*>(to + 2 * l) = Interleave<T>::Low(a, b);
      *reinterpret_cast<Memory*>(to + 2 * l + kLarge) = Interleave<T>::High(a, b);
    }
    for (; l < count_; ++l) {
      to[2 * l] = re[l];
      to[2 * l + 1] = im[l];
    }
  }

  // The square of full registers: to(i)[k] = from(k)[i].
  template <typename From, typename To>
  static void TransposeRegisters(From from, To to) {
    Register rows[kLanes<T>];
#pragma GCC unroll 16
    for (int k = 0; k < kLanes<T>; ++k) rows[k] = *reinterpret_cast<const Memory*>(from(k));
    Transpose<T>(rows);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<T>; ++i) *reinterpret_cast<Memory*>(to(i)) = rows[i];
  }

  // Returns the array row of number f of a line, which belongs to element f / parts.
  T* Row(std::int64_t f) const {
    if (array_[1] == nullptr) return array_[0] + f * count_;
    return array_[parts_ == 2 ? f & 1 : 0] + (parts_ == 2 ? f >> 1 : f) * count_;
  }

  template <typename P, typename One, typename Small, typename Large>
  void Move(P const* lines, std::int64_t n, One one, Small small, Large large) const {
    const std::int64_t in_large = step_ == parts_ ? count_ / kLarge * kLarge : 0;
    const std::int64_t lines_in_squares = step_ == parts_ ? count_ / kSmall * kSmall : 0;
    const std::int64_t numbers = n * parts_, in_squares = numbers / kLine * kLine;
    for (std::int64_t f = 0; lines_in_squares > 0 && f < in_squares; f += kLine) {
      std::int64_t l = 0;
      for (; l < in_large; l += kLarge) {
        for (std::int64_t g = f; g < f + kLine; g += kLarge)
          large([=](int k) { return lines[l + k] + g; }, [=](int i) { return Row(g + i) + l; });
      }
      for (; l < lines_in_squares; l += kSmall) {
        for (std::int64_t g = f; g < f + kLine; g += kSmall)
          small([=](int k) { return lines[l + k] + g; }, [=](int i) { return Row(g + i) + l; });
      }
    }
    const auto rest = [&](std::int64_t first, std::int64_t from_line) {
      std::int64_t element = first / parts_, part = first % parts_;
      for (std::int64_t f = first; f < numbers; ++f) {
        const std::int64_t outside = element * step_ + part;
        T* const row = array_[1] == nullptr ? array_[0] + f * count_ : array_[part] + element * count_;
        for (std::int64_t l = from_line; l < count_; ++l) one(lines[l] + outside, row + l);
        if (++part == parts_) {
          part = 0;
          ++element;
        }
      }
    };
    if (lines_in_squares > 0) rest(in_squares, 0);
    if (lines_in_squares < count_) rest(0, lines_in_squares);
  }

  std::int64_t parts_, step_, count_;
  T* array_[2];
};

template <typename T>
void Multiply(T scale, std::int64_t n, T* numbers) {
  for (std::int64_t i = 0; i < n; ++i) numbers[i] *= scale;
}

}  // namespace

void LoadLines(const FftLines<float>& lines, const float* const* from, std::int64_t n) {
  LineMover<float>(lines).Load(from, n);
}
void LoadLines(const FftLines<double>& lines, const double* const* from, std::int64_t n) {
  LineMover<double>(lines).Load(from, n);
}
void StoreLines(const FftLines<float>& lines, float* const* to, std::int64_t n) {
  LineMover<float>(lines).Store(to, n);
}
void StoreLines(const FftLines<double>& lines, double* const* to, std::int64_t n) {
  LineMover<double>(lines).Store(to, n);
}
void ScaleNumbers(float scale, std::int64_t n, float* numbers) { Multiply(scale, n, numbers); }
void ScaleNumbers(double scale, std::int64_t n, double* numbers) { Multiply(scale, n, numbers); }

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
