// One register tile of a blocked product: what it computes, and the functions that do it. Only for files
// compiled per instruction set (*_isa.cc).
#ifndef IPU_MODEL_KERNELS_PRODUCT_GEMM_CALL_H_
#define IPU_MODEL_KERNELS_PRODUCT_GEMM_CALL_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/product/gemm_tile.h"

namespace ipu_model {
namespace ISA_NAMESPACE {

// Interval in k between prefetches of the next strip: few at a time, because few misses can be in flight.
constexpr std::int64_t kAheadStep = 32;

// Prefetches a block of rows into the L2 cache, a few lines at a time, because the hardware prefetcher misses
// rows that are pages apart.
class ReadAhead {
 public:
  ReadAhead() = default;
  // `rows` rows of `bytes` bytes, `stride` bytes apart.
  ReadAhead(const unsigned char* data, std::int64_t rows, std::int64_t stride, std::int64_t bytes)
      : row_(data), stride_(stride), bytes_(bytes), rows_(rows) {}
  std::int64_t Lines() const { return rows_ * ((bytes_ + kLine - 1) / kLine); }
  void Next(std::int64_t lines) {
    for (; lines > 0 && rows_ > 0; --lines) {
      __builtin_prefetch(row_ + at_, 0, 2);
      at_ += kLine;
      if (at_ >= bytes_) {
        at_ = 0;
        row_ += stride_;
        --rows_;
      }
    }
  }

 private:
  static constexpr std::int64_t kLine = 64;
  const unsigned char* row_ = nullptr;
  std::int64_t stride_ = 0, bytes_ = 0, rows_ = 0, at_ = 0;
};

template <typename T>
struct TileCall {
  std::int64_t k;
  const T* a;
  std::int64_t a_row;  // only used if A is not packed
  const T* b;
  std::int64_t b_step;
  T* c;
  std::int64_t c_row;
  int columns;
  bool add;
  bool large_c;  // larger than the L2 cache should hold
  std::int64_t half_step;
  ReadAhead* ahead;          // prefetches the next strip
  std::int64_t ahead_lines;  // lines that are prefetched every kAheadStep k
};

template <typename T, int kRows, int kVectors, bool kPacked>
void RunTile(const TileCall<T>& call) {
  RegisterTile<T, kRows, kVectors> tile;
  tile.Zero();
  // C's rows may be pages apart, which the hardware prefetcher misses. Prefetch them while the sums are
  // computed.
  if (call.large_c) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) __builtin_prefetch(call.c + r * call.c_row + v * kLanes<T>, 1);
    }
  }
  const auto accumulate = [&](std::int64_t k, std::int64_t length) __attribute__((always_inline)) {
    const T* const a = call.a + k * (kPacked ? kRows : 1);
    const T* const b = call.b + k * call.b_step;
    if constexpr (kPacked) {
      tile.Accumulate(length, a, 1, kRows, b, call.b_step);
    } else {
      tile.Accumulate(length, a, call.a_row, 1, b, call.b_step);
    }
  };
  if (call.ahead_lines == 0) {
    accumulate(0, call.k);
  } else {
    for (std::int64_t k = 0; k < call.k; k += kAheadStep) {
      call.ahead->Next(call.ahead_lines);
      accumulate(k, std::min(kAheadStep, call.k - k));
    }
  }
  if (call.add) tile.AddFrom(call.c, call.c_row, call.columns);
  tile.Store(call.c, call.c_row, call.columns);
}

// Adds to C, and rounds C to f16, after every half_step k.
template <typename T, int kRows, int kVectors, bool kPacked>
void RunHalfTile(const TileCall<T>& call) {
  for (std::int64_t k = 0; k < call.k; k += call.half_step) {
    TileCall<T> step = call;
    step.k = std::min(call.half_step, call.k - k);
    step.a += k * (kPacked ? kRows : 1);
    step.b += k * call.b_step;
    RegisterTile<T, kRows, kVectors> tile;
    tile.Zero();
    if constexpr (kPacked) {
      tile.Accumulate(step.k, step.a, 1, kRows, step.b, step.b_step);
    } else {
      tile.Accumulate(step.k, step.a, step.a_row, 1, step.b, step.b_step);
    }
    tile.AddFrom(step.c, step.c_row, step.columns);
    tile.RoundToHalf();
    tile.Store(step.c, step.c_row, step.columns);
  }
}

template <typename T>
using TileFunction = void (*)(const TileCall<T>&);

template <int kVectors, bool kPacked, int... kIndices>
constexpr std::array<TileFunction<float>, kTileRows + 1> MakeHalfTiles(
    std::integer_sequence<int, kIndices...>) {
  return {nullptr, RunHalfTile<float, kIndices + 1, kVectors, kPacked>...};
}
constexpr std::array<TileFunction<float>, kTileRows + 1> kHalfTiles[2][kTileVectors] = {
    {MakeHalfTiles<1, false>(std::make_integer_sequence<int, kTileRows>()),
     MakeHalfTiles<2, false>(std::make_integer_sequence<int, kTileRows>())},
    {MakeHalfTiles<1, true>(std::make_integer_sequence<int, kTileRows>()),
     MakeHalfTiles<2, true>(std::make_integer_sequence<int, kTileRows>())}};

template <typename T, int kVectors, bool kPacked, int... kIndices>
constexpr std::array<TileFunction<T>, kTileRows + 1> MakeTiles(std::integer_sequence<int, kIndices...>) {
  return {nullptr, RunTile<T, kIndices + 1, kVectors, kPacked>...};
}
// Indexed by packed, vectors - 1, rows.
template <typename T>
constexpr std::array<TileFunction<T>, kTileRows + 1> kTiles[2][kTileVectors] = {
    {MakeTiles<T, 1, false>(std::make_integer_sequence<int, kTileRows>()),
     MakeTiles<T, 2, false>(std::make_integer_sequence<int, kTileRows>())},
    {MakeTiles<T, 1, true>(std::make_integer_sequence<int, kTileRows>()),
     MakeTiles<T, 2, true>(std::make_integer_sequence<int, kTileRows>())}};

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_PRODUCT_GEMM_CALL_H_
