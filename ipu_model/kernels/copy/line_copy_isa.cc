// Lines and short segments in vectors of the instruction set. Compiled per instruction set.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/copy/line_copy.h"
#include "kernels/vector/vector_types.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

struct Bytes16 {
  std::uint64_t low, high;
};

template <typename T>
void Reversed(const void* from, void* to, std::int64_t n) {
  const T* s = static_cast<const T*>(from);
  T* d = static_cast<T*>(to);
  // Upwards in the source, because hardware prefetchers follow reads better that way.
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) d[n - 1 - i] = s[i - n + 1];
}

// Loops over a constant number of lines, or with a constant step, become loops over vectors.
template <typename T, int kLines>
void Weave(const T* __restrict s, std::int64_t stride, T* __restrict d, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 4
    for (int l = 0; l < kLines; ++l) d[i * kLines + l] = s[l * stride + i];
  }
}
template <typename T>
void Woven(const void* from, std::int64_t stride, std::int64_t lines, void* to, std::int64_t n) {
  const T* s = static_cast<const T*>(from);
  T* d = static_cast<T*>(to);
  switch (lines) {
    case 1:
      return Weave<T, 1>(s, stride, d, n);
    case 2:
      return Weave<T, 2>(s, stride, d, n);
    case 3:
      return Weave<T, 3>(s, stride, d, n);
    default:
      return Weave<T, 4>(s, stride, d, n);
  }
}

template <typename T>
void Joined(const void* const* from, std::int64_t lines, void* to, std::int64_t n) {
  const T* const* s = reinterpret_cast<const T* const*>(from);
  T* __restrict d = static_cast<T*>(to);
  const T* const __restrict a = s[0], * const __restrict b = s[lines > 1 ? 1 : 0], * const __restrict c = s[lines > 2 ? 2 : 0], * const __restrict e = s[lines - 1];
  switch (lines) {
    case 1:
      for (std::int64_t i = 0; i < n; ++i) d[i] = a[i];
      return;
    case 2:
      for (std::int64_t i = 0; i < n; ++i) {
        d[2 * i] = a[i];
        d[2 * i + 1] = b[i];
      }
      return;
    case 3:
      for (std::int64_t i = 0; i < n; ++i) {
        d[3 * i] = a[i];
        d[3 * i + 1] = b[i];
        d[3 * i + 2] = c[i];
      }
      return;
    default:
      for (std::int64_t i = 0; i < n; ++i) {
        d[4 * i] = a[i];
        d[4 * i + 1] = b[i];
        d[4 * i + 2] = c[i];
        d[4 * i + 3] = e[i];
      }
  }
}

// Permutes the bytes of 16.
struct ByteWindow {
  static constexpr std::int64_t kSize = 16, kLane = 1;
  __m128i order;
  explicit ByteWindow(const std::uint8_t* lanes)
      : order(_mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes))) {}
  void Copy(const char* from, char* to) const {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_shuffle_epi8(v, order));
  }
};
// Permutes the words of a register.
struct WordWindow {
  static constexpr std::int64_t kSize = kVectorBytes, kLane = 4;
#ifdef __AVX512F__
  static constexpr __mmask16 kAll = 0xffff;
  __m512i order;
  explicit WordWindow(const std::uint8_t* lanes)
      : order(_mm512_maskz_cvtepu8_epi32(kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes)))) {}
  void Copy(const char* from, char* to) const {
    _mm512_storeu_si512(to, _mm512_maskz_permutexvar_epi32(kAll, order, _mm512_loadu_si512(from)));
  }
#else
  __m256i order;
  explicit WordWindow(const std::uint8_t* lanes)
      : order(_mm256_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes)))) {}
  void Copy(const char* from, char* to) const {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(v, order));
  }
#endif
};

#ifdef __AVX512F__
// Windows that read and write some of their lanes only.
struct MaskedBytes {
  static constexpr std::int64_t kSize = 16, kLane = 1;
  __m128i order;
  __mmask16 read, write;
  MaskedBytes(const std::uint8_t* lanes, std::uint32_t from, std::uint32_t to)
      : order(_mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes))),
        read(static_cast<__mmask16>(from)),
        write(static_cast<__mmask16>(to)) {}
  void Copy(const char* from, char* to) const {
    _mm_mask_storeu_epi8(to, write, _mm_shuffle_epi8(_mm_maskz_loadu_epi8(read, from), order));
  }
};
struct MaskedHalves {
  static constexpr std::int64_t kSize = 64, kLane = 2;
  static constexpr __mmask32 kAll = 0xffffffff;
  __m512i order;
  __mmask32 read, write;
  MaskedHalves(const std::uint8_t* lanes, std::uint32_t from, std::uint32_t to)
      : order(_mm512_maskz_cvtepu8_epi16(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes)))),
        read(from),
        write(to) {}
  void Copy(const char* from, char* to) const {
    const __m512i v = _mm512_maskz_loadu_epi16(read, from);
    _mm512_mask_storeu_epi16(to, write, _mm512_maskz_permutexvar_epi16(kAll, order, v));
  }
};
struct MaskedWords {
  static constexpr std::int64_t kSize = 64, kLane = 4;
  __m512i order;
  __mmask16 read, write;
  MaskedWords(const std::uint8_t* lanes, std::uint32_t from, std::uint32_t to)
      : order(WordWindow(lanes).order),
        read(static_cast<__mmask16>(from)),
        write(static_cast<__mmask16>(to)) {}
  void Copy(const char* from, char* to) const {
    const __m512i v = _mm512_maskz_loadu_epi32(read, from);
    _mm512_mask_storeu_epi32(to, write, _mm512_maskz_permutexvar_epi32(WordWindow::kAll, order, v));
  }
};
#endif

template <typename T>
void Repeated(const void* from, std::int64_t step, void* to, std::int64_t n, std::int64_t times) {
  const T* s = static_cast<const T*>(from);
  T* d = static_cast<T*>(to);
  // The same line several times.
  if (step == 1 && times <= LineCopies::kMostWoven) return Woven<T>(from, 0, times, to, n);
  std::int64_t i = 0;
  if constexpr (sizeof(T) <= 4) {
    // Several elements out of one vector. What is written behind them is written again, except at the end.
    using Window = std::conditional_t<sizeof(T) == 4, WordWindow, ByteWindow>;
    constexpr std::int64_t kN = Window::kSize / static_cast<std::int64_t>(sizeof(T));
    const std::int64_t group = step > 0 ? std::min(kN / times, 1 + (kN - 1) / step) : 0;
    if (group > 1) {
      constexpr auto kParts = static_cast<std::int64_t>(sizeof(T)) / Window::kLane;
      std::uint8_t lanes[Window::kSize] = {};
      for (std::int64_t j = 0; j < group * times * kParts; ++j)
        lanes[j] = static_cast<std::uint8_t>(j / kParts / times * step * kParts + j % kParts);
      const Window window(lanes);
      const std::int64_t written = n * times - kN, read = (n - 1) * step + 1 - kN;
      for (; i * times <= written && i * step <= read; i += group)
        window.Copy(reinterpret_cast<const char*>(s + i * step), reinterpret_cast<char*>(d + i * times));
    }
  }
  if constexpr (sizeof(T) <= 8) {
    // A vector is written for each element, and its end by the next one again.
    constexpr std::int64_t kWidth = std::min<std::int64_t>(kLanes<T>, 16);
    typedef T Memory __attribute__((vector_size(kWidth * sizeof(T)), aligned(sizeof(T)), may_alias));
    if (times <= kWidth) {
      for (const std::int64_t last = n * times - kWidth; i * times <= last; ++i)
        *reinterpret_cast<Memory*>(d + i * times) = Memory{} + s[i * step];
    }
  }
  for (; i < n; ++i) std::fill_n(d + i * times, times, s[i * step]);
}

template <typename T, int kStep>
void Pick(const T* __restrict s, std::int64_t step, T* __restrict d, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) d[i] = s[i * (kStep > 0 ? kStep : step)];
}
#ifdef __AVX512F__
// Every fourth of the words: the even ones of the even pairs.
void PickFourth(const std::uint32_t* s, std::uint32_t* d, std::int64_t n) {
  const __m512i pairs = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i words = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  std::int64_t i = 0;
  for (; i + 16 < n; i += 16) {
    const std::uint32_t* const p = s + 4 * i;
    const __m512i low = _mm512_permutex2var_epi64(_mm512_loadu_si512(p), pairs, _mm512_loadu_si512(p + 16));
    const __m512i high =
        _mm512_permutex2var_epi64(_mm512_loadu_si512(p + 32), pairs, _mm512_loadu_si512(p + 48));
    _mm512_storeu_si512(d + i, _mm512_permutex2var_epi32(low, words, high));
  }
  for (; i < n; ++i) d[i] = s[4 * i];
}
#endif
template <typename T>
void Picked(const void* from, std::int64_t step, void* to, std::int64_t n) {
  const T* s = static_cast<const T*>(from);
  T* d = static_cast<T*>(to);
  switch (step) {
    case 2:
      return Pick<T, 2>(s, step, d, n);
    case 3:
      return Pick<T, 3>(s, step, d, n);
    case 4:
#ifdef __AVX512F__
      if constexpr (sizeof(T) == 4) return PickFourth(s, d, n);
#endif
      return Pick<T, 4>(s, step, d, n);
    default:
      return Pick<T, 0>(s, step, d, n);
  }
}

// The words of a segment; the last one may overlap the one before it. All are read before any is written,
// because operands of a damaged stored program may overlap.
template <std::int64_t kBytes>
void FixedSegments(const char* from, std::int64_t step, char* to, std::int64_t to_step, std::int64_t n) {
  using Word = std::conditional_t<
      kBytes >= 16, Bytes16,
      std::conditional_t<
          kBytes >= 8, std::uint64_t,
          std::conditional_t<kBytes >= 4, std::uint32_t,
                             std::conditional_t<kBytes >= 2, std::uint16_t, std::uint8_t> > > >;
  constexpr auto kWord = static_cast<std::int64_t>(sizeof(Word));
  constexpr int kWords = static_cast<int>((kBytes + kWord - 1) / kWord);
  constexpr auto kOffset = [](int w) { return std::min(w * kWord, kBytes - kWord); };
  for (std::int64_t i = 0; i < n; ++i) {
    Word words[kWords];
#pragma GCC unroll 8
    for (int w = 0; w < kWords; ++w) std::memcpy(&words[w], from + i * step + kOffset(w), sizeof(Word));
#pragma GCC unroll 8
    for (int w = 0; w < kWords; ++w) std::memcpy(to + i * to_step + kOffset(w), &words[w], sizeof(Word));
  }
}
using SegmentFunction = decltype(&FixedSegments<1>);
template <std::size_t... kBytes>
constexpr std::array<SegmentFunction, sizeof...(kBytes)> EachLength(std::index_sequence<kBytes...>) {
  return {FixedSegments<static_cast<std::int64_t>(kBytes) + 1>...};
}
constexpr auto kFixedSegments = EachLength(std::make_index_sequence<kLongestSegment>());

// Copies as many segments at a time as a window holds, at least two. A window may reach over the segments in
// the source and in the result, but not over the ends of a line.
template <typename Window>
bool CopyWindows(const char* from, const SegmentLines& lines, char* to) {
  constexpr std::int64_t kSize = Window::kSize, kLane = Window::kLane;
  const auto [step, bytes, n, count, from_step, to_step] = lines;
  const std::int64_t apart = std::abs(step);
  if (apart == 0 || bytes > kSize || bytes % kLane != 0 || step % kLane != 0) return false;
  const std::int64_t group = std::min(kSize / bytes, 1 + (kSize - bytes) / apart);
  // The segments at either end of a line over whose end a window would reach, in the source or in the result.
  const std::int64_t read = (group - 1) * apart + bytes, written = group * bytes;
  const std::int64_t margin =
      std::max((kSize - read + apart - 1) / apart, (kSize - written + bytes - 1) / bytes);
  if (group < 2 || n < 2 * margin + group) return false;
  std::uint8_t lanes[16] = {};
  for (std::int64_t i = 0; i < group; ++i) {
    const std::int64_t segment = step > 0 ? i * step : (group - 1 - i) * apart;
    for (std::int64_t b = 0; b < bytes; b += kLane)
      lanes[(i * bytes + b) / kLane] = static_cast<std::uint8_t>((segment + b) / kLane);
  }
  const Window window(lanes);
  const SegmentFunction one_by_one = kFixedSegments[static_cast<std::size_t>(bytes - 1)];
  for (std::int64_t line = 0; line < count; ++line, from += from_step, to += to_step) {
    one_by_one(from, step, to, bytes, margin);
    std::int64_t i = margin;
    for (; i + group + margin <= n; i += group) {
      const std::int64_t lowest = step > 0 ? i : i + group - 1;
      window.Copy(from + lowest * step, to + i * bytes);
    }
    one_by_one(from + i * step, step, to + i * bytes, bytes, n - i);
  }
  return true;
}

#ifdef __AVX512F__
// A window of so many stores of words takes the time of a masked store.
constexpr std::int64_t kMaskedStore = 4;

// Copies as many segments at a time as masked windows of the source and of the result hold.
template <typename Window>
bool SpreadWindows(const char* from, std::int64_t step, std::int64_t bytes, char* to, std::int64_t to_step,
                   std::int64_t n) {
  constexpr std::int64_t kSize = Window::kSize, kLane = Window::kLane;
  if (step <= 0 || to_step <= 0 || bytes > kSize || (step | bytes | to_step) % kLane != 0) return false;
  const std::int64_t group = 1 + (kSize - bytes) / std::max(step, to_step);
  if (group < 2 || n < group || group * ((bytes + 7) / 8) <= kMaskedStore) return false;
  const auto window = [&](std::int64_t segments) {
    std::uint8_t lanes[kSize] = {};
    std::uint32_t read = 0, write = 0;
    for (std::int64_t i = 0; i < segments; ++i) {
      for (std::int64_t b = 0; b < bytes; b += kLane) {
        const std::int64_t source = (i * step + b) / kLane, result = (i * to_step + b) / kLane;
        lanes[result] = static_cast<std::uint8_t>(source);
        read |= 1u << source;
        write |= 1u << result;
      }
    }
    return Window(lanes, read, write);
  };
  const Window whole = window(group);
  std::int64_t i = 0;
  for (; i + group <= n; i += group) whole.Copy(from + i * step, to + i * to_step);
  if (i < n) window(n - i).Copy(from + i * step, to + i * to_step);
  return true;
}
#endif

template <typename T>
void Tiled(const void* from, std::int64_t step, const std::uint8_t* place, std::int64_t count, void* to,
           std::int64_t n) {
  const T* s = static_cast<const T*>(from);
  T* d = static_cast<T*>(to);
  std::int64_t i = 0;
  if constexpr (sizeof(T) == WordWindow::kLane) {
    // A tile that is read from one vector. Windows may reach over a tile, but not over the ends of all tiles.
    constexpr std::int64_t kN = WordWindow::kSize / WordWindow::kLane;
    const std::int64_t reach = *std::max_element(place, place + count) + 1;
    if (reach <= kN && step > 0) {
      std::uint8_t lanes[LineCopies::kLargestTile + 16] = {};
      std::copy_n(place, count, lanes);
      const std::int64_t end = (count + kN - 1) / kN * kN, read = (n - 1) * step + reach - kN;
      const WordWindow first(lanes);
      for (; i * step <= read && i * count + end <= n * count; ++i) {
        const char* const tile = reinterpret_cast<const char*>(s + i * step);
        first.Copy(tile, reinterpret_cast<char*>(d + i * count));
        for (std::int64_t v = kN; v < end; v += kN)
          WordWindow(lanes + v).Copy(tile, reinterpret_cast<char*>(d + i * count + v));
      }
    }
  }
  for (; i < n; ++i) {
    for (std::int64_t j = 0; j < count; ++j) d[i * count + j] = s[i * step + place[j]];
  }
}

template <typename T>
constexpr LineCopies kCopies = {Reversed<T>, Repeated<T>, Woven<T>, Joined<T>, Picked<T>, Tiled<T>};

}  // namespace

void CopySegments(const void* from, const SegmentLines& lines, void* to) {
  const char* s = static_cast<const char*>(from);
  char* d = static_cast<char*>(to);
  if (CopyWindows<ByteWindow>(s, lines, d) || CopyWindows<WordWindow>(s, lines, d)) return;
  const SegmentFunction one_by_one = kFixedSegments[static_cast<std::size_t>(lines.bytes - 1)];
  for (std::int64_t i = 0; i < lines.lines; ++i)
    one_by_one(s + i * lines.from_step, lines.step, d + i * lines.to_step, lines.bytes, lines.n);
}

void SpreadSegments(const void* from, std::int64_t step, std::int64_t bytes, void* to, std::int64_t to_step,
                    std::int64_t n) {
  const char* s = static_cast<const char*>(from);
  char* d = static_cast<char*>(to);
#ifdef __AVX512F__
  if (SpreadWindows<MaskedWords>(s, step, bytes, d, to_step, n) ||
      SpreadWindows<MaskedHalves>(s, step, bytes, d, to_step, n) ||
      SpreadWindows<MaskedBytes>(s, step, bytes, d, to_step, n))
    return;
#endif
  kFixedSegments[static_cast<std::size_t>(bytes - 1)](s, step, d, to_step, n);
}

LineCopies FindLineCopies(std::size_t size) {
  switch (size) {
    case 1:
      return kCopies<std::uint8_t>;
    case 2:
      return kCopies<std::uint16_t>;
    case 4:
      return kCopies<std::uint32_t>;
    case 8:
      return kCopies<std::uint64_t>;
    default:
      return kCopies<Bytes16>;
  }
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
