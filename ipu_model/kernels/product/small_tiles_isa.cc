// Products of small matrices, many or one: tiles on the operands as they lie, without packed copies.
#include <array>
#include <type_traits>
#include <utility>

#include "kernels/product/gemm_pack.h"
#include "kernels/product/gemm_tile.h"
#include "kernels/product/small_tiles.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// One tile: kRows rows of C, and kVectors vectors of columns, of the last of which only `columns` are used.
template <typename T>
struct Tile {
  std::int64_t k;
  const T* a;
  std::int64_t a_row, a_column;
  const T* b;
  std::int64_t b_row;
  T* c;
  std::int64_t c_row;
  int columns;
};

template <typename T, int kRows, int kVectors>
void RunTile(const Tile<T>& t) {
  RegisterTile<T, kRows, kVectors> tile;
  tile.Zero();
  const auto accumulate = [&](std::int64_t a_column) __attribute__((always_inline)) {
    if (t.columns == kVectors * kLanes<T>) {
      tile.Accumulate(t.k, t.a, t.a_row, a_column, t.b, t.b_row);
    } else {
      tile.AccumulatePart(t.k, t.a, t.a_row, a_column, t.b, t.b_row, t.columns);
    }
  };
  if (t.a_column == 1) {
    accumulate(1);
  } else {
    accumulate(t.a_column);
  }
  tile.Store(t.c, t.c_row, t.columns);
}

template <typename T>
using TileFunction = void (*)(const Tile<T>&);
template <typename T, int kVectors, int... kIndices>
constexpr std::array<TileFunction<T>, kTileRows + 1> MakeTiles(std::integer_sequence<int, kIndices...>) {
  return {nullptr, RunTile<T, kIndices + 1, kVectors>...};
}
// Indexed by vectors - 1, rows.
template <typename T>
constexpr std::array<TileFunction<T>, kTileRows + 1> kTiles[kTileVectors] = {
    MakeTiles<T, 1>(std::make_integer_sequence<int, kTileRows>()),
    MakeTiles<T, 2>(std::make_integer_sequence<int, kTileRows>())};

template <typename T>
void RunGroups(const GemmProblem& p, std::int64_t begin, std::int64_t end, void* scratch) {
  const std::int64_t height = BalancedRows(p.m, kTileRows);
  T* const packed = static_cast<T*>(scratch);
  for (std::int64_t g = begin; g < end; ++g) {
    Tile<T> tile;
    tile.k = p.k;
    tile.a_row = p.a.row;
    tile.a_column = p.a.column;
    tile.c_row = p.c.row;
    const T* const a = static_cast<const T*>(p.a.data) + g * p.a.group;
    const T* const b = static_cast<const T*>(p.b.data) + g * p.b.group;
    T* const c = static_cast<T*>(const_cast<void*>(p.c.data)) + g * p.c.group;
    for (std::int64_t column = 0; column < p.n; column += kTileColumns<T>) {
      tile.columns = static_cast<int>(std::min<std::int64_t>(kTileColumns<T>, p.n - column));
      tile.b = b + column;
      tile.b_row = p.b.row;
      if (p.b.column != 1) {
        PackPanel<T, T>(b + column * p.b.column, p.b.column, p.b.row, tile.columns, p.k, kTileColumns<T>,
                        packed);
        tile.b = packed;
        tile.b_row = kTileColumns<T>;
      }
      const auto& functions = kTiles<T>[tile.columns <= kLanes<T> ? 0 : 1];
      for (std::int64_t row = 0; row < p.m; row += height) {
        const std::int64_t rows = std::min(height, p.m - row);
        tile.a = a + row * p.a.row;
        tile.c = c + row * p.c.row + column;
        functions[static_cast<std::size_t>(rows)](tile);
      }
    }
  }
}

}  // namespace

SmallTiles FindSmallTiles(const GemmProblem& p) {
  const auto find = [&](auto zero) -> SmallTiles {
    using T = decltype(zero);
    const bool packs = p.b.column != 1;
    return {RunGroups<T>,
            packs ? static_cast<std::size_t>(p.k * kTileColumns<T> + kLanes<T>) * sizeof(T) : 0};
  };
  const DType type = p.accumulator;
  const auto all = [&](DType stored) {
    return p.a.type == stored && p.b.type == stored && p.c.type == stored;
  };
  if (type == DType::kF32 && all(DType::kF32)) return find(float{});
  if (type == DType::kF64 && all(DType::kF64)) return find(double{});
  return {};
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
