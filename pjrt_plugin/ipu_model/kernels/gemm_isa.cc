// The blocked matrix product: panels of 512 k, A in tiles of up to 14 rows, B in strips of 32 columns (f32,
// AVX-512; other types and AVX2 accordingly). Compiled once per instruction set.
#include <array>
#include <cassert>
#include <type_traits>
#include <utility>

#include "pjrt_plugin/ipu_model/kernels/gemm_pack.h"
#include "pjrt_plugin/ipu_model/kernels/gemm_problem.h"
#include "pjrt_plugin/ipu_model/kernels/gemm_tile.h"
#include "pjrt_plugin/ipu_model/kernels/gemv.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// Sums restart every kPanel k and are added to C: 512 gives XLA:CPU's bits, and B strips fit the L2 cache.
constexpr std::int64_t kPanel = 512;
// Columns of B packed at once: bounds the packed panel to 4 MiB of f32.
constexpr std::int64_t kColumnBlock = 2048;
// Rows of A packed at once: 344 KiB of f32, a third of the L2 cache.
template <typename T>
constexpr std::int64_t kRowBlock = 672 / static_cast<std::int64_t>(sizeof(T));
// B is read where it is while that is done at most three times (measured break-even), or when it is in L1
// anyway.
constexpr std::int64_t kUnpackedRows = 3 * kTileRows;
constexpr std::int64_t kSmallBytes = 32 << 10;
// k between prefetching some lines of the next strip: few at a time, as misses in flight are few.
constexpr std::int64_t kAheadStep = 32;
// Multiply-adds from which a second worker pays: 48^3.
constexpr double kParallelWork = 48.0 * 48.0 * 48.0;

// Prefetches a block of rows into the L2 cache, some lines at a time: rows that lie pages apart defeat the
// hardware prefetcher.
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
  std::int64_t a_row;  // used when A is not packed
  const T* b;
  std::int64_t b_step;
  T* c;
  std::int64_t c_row;
  int columns;
  bool add;
  bool large_c;  // more than the L2 cache should hold
  std::int64_t half_step;
  ReadAhead* ahead;          // of the next strip
  std::int64_t ahead_lines;  // read every kAheadStep k
};

template <typename T, int kRows, int kVectors, bool kPacked>
void RunTile(const TileCall<T>& call) {
  RegisterTile<T, kRows, kVectors> tile;
  tile.Zero();
  // C's rows may lie pages apart, where hardware does not prefetch: its lines come while the sums are made.
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

// Adds to C, which is rounded to f16 after every half_step k.
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
// By packed, vectors - 1, rows.
template <typename T>
constexpr std::array<TileFunction<T>, kTileRows + 1> kTiles[2][kTileVectors] = {
    {MakeTiles<T, 1, false>(std::make_integer_sequence<int, kTileRows>()),
     MakeTiles<T, 2, false>(std::make_integer_sequence<int, kTileRows>())},
    {MakeTiles<T, 1, true>(std::make_integer_sequence<int, kTileRows>()),
     MakeTiles<T, 2, true>(std::make_integer_sequence<int, kTileRows>())}};

template <typename T>
using PackFunction = void (*)(const void* from, std::int64_t across, std::int64_t along, int valid,
                              std::int64_t length, int width, T* panel);
template <typename T, typename Source>
void Pack(const void* from, std::int64_t across, std::int64_t along, int valid, std::int64_t length,
          int width, T* panel) {
  PackPanel<T, Source>(static_cast<const Source*>(from), across, along, valid, length, width, panel);
}
template <typename T>
PackFunction<T> PackerOf(DType type) {
  if constexpr (std::is_same_v<T, float>) {
    if (type == DType::kF16) return Pack<T, Half>;
    if (type == DType::kBF16) return Pack<T, BrainFloat>;
  } else if constexpr (std::is_same_v<T, std::uint32_t>) {
    if (type == DType::kS8) return Pack<T, std::int8_t>;
    if (type == DType::kU8) return Pack<T, std::uint8_t>;
    if (type == DType::kPred) return Pack<T, Logical>;
  }
  assert(SizeOf(type) == sizeof(T));
  return Pack<T, T>;
}

template <typename T>
using StoreFunction = void (*)(const T* from, std::int64_t from_row, int rows, int columns, void* to,
                               std::int64_t to_row, std::int64_t to_column);
template <typename T>
StoreFunction<T> StorerOf(DType type) {
  if constexpr (std::is_same_v<T, float>) {
    if (type == DType::kF16) return StoreBlock<T, Half>;
    if (type == DType::kBF16) return StoreBlock<T, BrainFloat>;
  } else if constexpr (std::is_same_v<T, std::uint32_t>) {
    if (type == DType::kPred) return StoreBlock<T, Logical>;
    if (SizeOf(type) == 1) return StoreBlock<T, std::uint8_t>;
    if (SizeOf(type) == 2) return StoreBlock<T, std::uint16_t>;
  }
  assert(SizeOf(type) == sizeof(T));
  return StoreBlock<T, T>;
}

// One product A . B on one or more workers.
template <typename T>
class BlockedProduct {
 public:
  BlockedProduct(const GemmProblem& problem, int workers)
      : p_(problem),
        workers_(workers),
        pack_a_(PackerOf<T>(problem.a.type)),
        pack_b_(PackerOf<T>(problem.b.type)),
        store_(StorerOf<T>(problem.c.type)) {
    strip_ = p_.n <= kLanes<T> ? kLanes<T> : kTileColumns<T>;
    const std::int64_t strips = (p_.n + strip_ - 1) / strip_, tiles = (p_.m + kTileRows - 1) / kTileRows;
    const bool same_a = SizeOf(p_.a.type) == sizeof(T), same_b = SizeOf(p_.b.type) == sizeof(T);
    // Rows of A whose distance is a multiple of 1 KiB fall into the same few sets of the L1 cache.
    const bool spread_rows = p_.a.row * Bytes() % 1024 != 0;
    direct_a_ = same_a && p_.a.column == 1 &&
                (strips == 1 || (strips == 2 && spread_rows) ||
                 (p_.a.row >= 0 && p_.m * p_.a.row * Bytes() <= kSmallBytes));
    direct_b_ = same_b && p_.b.column == 1 &&
                (p_.m <= kUnpackedRows || (p_.b.row >= 0 && p_.k * p_.b.row * Bytes() <= kSmallBytes));
    direct_c_ = SizeOf(p_.c.type) == sizeof(T) && p_.c.column == 1;
    // By strips every worker packs all of A, and its strips just before their use; by rows B is packed
    // jointly.
    by_strips_ = p_.m <= kRowBlock<T> && (workers == 1 || Imbalance(strips) <= Imbalance(tiles));
    // A smaller B stays in the L2 cache.
    reads_ahead_ = by_strips_ && p_.k * p_.n * static_cast<std::int64_t>(SizeOf(p_.b.type)) >= kStreamedBytes;
  }

  // Elements of T this needs for all workers together.
  std::size_t ScratchElements() const {
    return static_cast<std::size_t>(workers_) * WorkerElements() + SharedElements();
  }
  void SetScratch(T* scratch) { scratch_ = scratch; }

  void Run(ThreadPool& pool, std::int64_t group) {
    a_ = Offset(p_.a, group * p_.a.group);
    b_ = Offset(p_.b, group * p_.b.group);
    c_ = const_cast<unsigned char*>(Offset(p_.c, group * p_.c.group));
    for (std::int64_t column = 0; column < p_.n; column += kColumnBlock) {
      const std::int64_t columns = std::min(kColumnBlock, p_.n - column);
      const std::int64_t strips = (columns + strip_ - 1) / strip_;
      const auto panel_at = [&](std::int64_t k) {
        return Panel{column, columns, k, std::min(kPanel, p_.k - k)};
      };
      if (by_strips_) {
        Phase(pool, [&](int w) {
          for (std::int64_t k = 0; k < p_.k; k += kPanel)
            Compute(panel_at(k), w, 0, p_.m, strips * w / workers_, strips * (w + 1) / workers_);
        });
        continue;
      }
      for (std::int64_t k = 0; k < p_.k; k += kPanel) {
        const Panel panel = panel_at(k);
        if (!direct_b_) {
          Phase(pool, [&](int w) {
            for (std::int64_t s = strips * w / workers_; s < strips * (w + 1) / workers_; ++s)
              PackStrip(panel, s, Shared() + s * strip_ * panel.length);
          });
        }
        Phase(pool,
              [&](int w) { Compute(panel, w, p_.m * w / workers_, p_.m * (w + 1) / workers_, 0, strips); });
      }
    }
  }

 private:
  struct Panel {
    std::int64_t column, columns, k, length;
  };

  using TilesByRows = std::array<TileFunction<T>, kTileRows + 1>;
  const TilesByRows (*Tiles() const)[kTileVectors] {
    if constexpr (std::is_same_v<T, float>) {
      if (p_.half_step > 0) return kHalfTiles;
    }
    return kTiles<T>;
  }

  static constexpr std::int64_t Bytes() { return static_cast<std::int64_t>(sizeof(T)); }
  static const unsigned char* Offset(const GemmMatrix& matrix, std::int64_t elements) {
    return static_cast<const unsigned char*>(matrix.data) +
           elements * static_cast<std::int64_t>(SizeOf(matrix.type));
  }
  double Imbalance(std::int64_t pieces) const {
    return static_cast<double>((pieces + workers_ - 1) / workers_ * workers_) / static_cast<double>(pieces);
  }
  bool NeedsSums() const { return !direct_c_ && p_.k > kPanel; }

  // Private: A tiles, one strip of B, slack of the packing. Shared: packed B (by rows), partial sums of C.
  std::size_t WorkerElements() const {
    const std::int64_t length = std::min(kPanel, p_.k);
    return static_cast<std::size_t>(std::min(kRowBlock<T>, p_.m) * length + strip_ * length + 2 * kLanes<T>) /
               16 * 16 +
           16;
  }
  std::size_t PackedElements() const {
    if (by_strips_ || direct_b_) return 0;
    const std::int64_t strips = (std::min(kColumnBlock, p_.n) + strip_ - 1) / strip_;
    return static_cast<std::size_t>(strips * strip_ * std::min(kPanel, p_.k));
  }
  std::size_t SharedElements() const {
    return PackedElements() + (NeedsSums() ? static_cast<std::size_t>(p_.m * p_.n) : 0);
  }
  T* Private(int worker) { return scratch_ + static_cast<std::size_t>(worker) * WorkerElements(); }
  T* Shared() { return Private(workers_); }
  T* Sums() { return Shared() + PackedElements(); }

  template <typename F>
  void Phase(ThreadPool& pool, F&& f) {
    if (workers_ == 1) {
      f(0);
    } else {
      pool.Run(workers_, TaskRef(f));
    }
  }

  // What a worker reads after a strip: the next one, or its first of the next panel.
  ReadAhead Ahead(const Panel& panel, std::int64_t strip, std::int64_t strip_begin,
                  std::int64_t strip_end) const {
    std::int64_t k = panel.k, length = panel.length;
    if (++strip == strip_end) {
      strip = strip_begin;
      k += length;
      length = std::min(kPanel, p_.k - k);
      if (length == 0) return {};
    }
    const auto size = static_cast<std::int64_t>(SizeOf(p_.b.type));
    const std::int64_t column = panel.column + strip * strip_;
    const std::int64_t columns = std::min<std::int64_t>(strip_, p_.n - column);
    const unsigned char* const from = b_ + (k * p_.b.row + column * p_.b.column) * size;
    if (p_.b.column == 1) return {from, length, p_.b.row * size, columns * size};
    if (p_.b.row == 1) return {from, columns, p_.b.column * size, length * size};
    return {};
  }

  void PackStrip(const Panel& panel, std::int64_t strip, T* to) const {
    const std::int64_t column = panel.column + strip * strip_;
    pack_b_(b_ + (panel.k * p_.b.row + column * p_.b.column) * static_cast<std::int64_t>(SizeOf(p_.b.type)),
            p_.b.column, p_.b.row, static_cast<int>(std::min<std::int64_t>(strip_, p_.n - column)),
            panel.length, strip_, to);
  }

  void Compute(const Panel& panel, int worker, std::int64_t row_begin, std::int64_t row_end,
               std::int64_t strip_begin, std::int64_t strip_end) {
    if (strip_begin == strip_end) return;
    T* const packed_a = Private(worker);
    T* const packed_strip = (packed_a + std::min(kRowBlock<T>, p_.m) * panel.length + kLanes<T>);
    for (std::int64_t block = row_begin; block < row_end; block += kRowBlock<T>) {
      const std::int64_t rows = std::min(kRowBlock<T>, row_end - block);
      // Balanced heights: 16 rows are 8 + 8, not 14 + 2.
      const std::int64_t tiles = (rows + kTileRows - 1) / kTileRows;
      if (!direct_a_) {
        for (std::int64_t t = 0; t < tiles; ++t) {
          const std::int64_t r = rows * t / tiles, height = rows * (t + 1) / tiles - r;
          pack_a_(a_ + ((block + r) * p_.a.row + panel.k * p_.a.column) *
                           static_cast<std::int64_t>(SizeOf(p_.a.type)),
                  p_.a.row, p_.a.column, static_cast<int>(height), panel.length, static_cast<int>(height),
                  packed_a + r * panel.length);
        }
      }
      for (std::int64_t s = strip_begin; s < strip_end; ++s) {
        const std::int64_t column = panel.column + s * strip_;
        TileCall<T> call;
        call.k = panel.length;
        call.columns = static_cast<int>(std::min<std::int64_t>(strip_, p_.n - column));
        call.add = panel.k > 0;
        call.large_c = p_.m * p_.n * Bytes() >= kStreamedBytes;
        call.half_step = p_.half_step;
        call.a_row = p_.a.row;
        const int vectors = call.columns <= kLanes<T> ? 1 : 2;
        if (direct_b_ && call.columns == vectors * kLanes<T>) {
          call.b = reinterpret_cast<const T*>(b_) + panel.k * p_.b.row + column;
          call.b_step = p_.b.row;
        } else {
          call.b_step = strip_;
          if (by_strips_ || direct_b_) {
            PackStrip(panel, s, packed_strip);
            call.b = packed_strip;
          } else {
            call.b = Shared() + s * strip_ * panel.length;
          }
        }
        ReadAhead ahead;
        if (reads_ahead_) ahead = Ahead(panel, s, strip_begin, strip_end);
        call.ahead = &ahead;
        const std::int64_t steps = tiles * ((panel.length + kAheadStep - 1) / kAheadStep);
        call.ahead_lines = (ahead.Lines() + steps - 1) / steps;
        const auto& functions = Tiles()[direct_a_ ? 0 : 1][vectors - 1];
        for (std::int64_t t = 0; t < tiles; ++t) {
          const std::int64_t r = rows * t / tiles, height = rows * (t + 1) / tiles - r;
          call.a = direct_a_ ? reinterpret_cast<const T*>(a_) + (block + r) * p_.a.row + panel.k
                             : packed_a + r * panel.length;
          RunOne(panel, functions[static_cast<std::size_t>(height)], call, block + r,
                 static_cast<int>(height), column);
        }
      }
    }
  }

  [[gnu::always_inline]] void RunOne(const Panel& panel, TileFunction<T> function, TileCall<T>& call,
                                     std::int64_t row, int height, std::int64_t column) {
    if (direct_c_) {
      call.c = reinterpret_cast<T*>(c_) + row * p_.c.row + column;
      call.c_row = p_.c.row;
      function(call);
    } else {
      FinishOne(panel, function, call, row, height, column);
    }
  }

  // Results of another type or with strided columns: sums are kept apart and converted after the last panel.
  void FinishOne(const Panel& panel, TileFunction<T> function, TileCall<T>& call, std::int64_t row,
                 int height, std::int64_t column) {
    if (NeedsSums()) {
      call.c = Sums() + row * p_.n + column;
      call.c_row = p_.n;
      function(call);
      if (panel.k + panel.length < p_.k) return;
      Convert(call.c, call.c_row, height, call.columns, row, column);
    } else {
      alignas(kVectorBytes) T tile[kTileRows * kTileColumns<T>];
      call.c = tile;
      call.c_row = kTileColumns<T>;
      function(call);
      Convert(tile, kTileColumns<T>, height, call.columns, row, column);
    }
  }
  void Convert(const T* from, std::int64_t from_row, int rows, int columns, std::int64_t row,
               std::int64_t column) {
    store_(from, from_row, rows, columns,
           c_ + (row * p_.c.row + column * p_.c.column) * static_cast<std::int64_t>(SizeOf(p_.c.type)),
           p_.c.row, p_.c.column);
  }

  const GemmProblem& p_;
  int workers_;
  PackFunction<T> pack_a_, pack_b_;
  StoreFunction<T> store_;
  std::int64_t strip_ = 0;
  bool direct_a_ = false, direct_b_ = false, direct_c_ = false, by_strips_ = false, reads_ahead_ = false;
  T* scratch_ = nullptr;
  const unsigned char *a_ = nullptr, *b_ = nullptr;
  unsigned char* c_ = nullptr;
};

template <typename T>
void RunTyped(HostContext& context, const GemmProblem& p) {
  const double work = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  const int workers = work * static_cast<double>(p.groups) < kParallelWork ? 1 : context.pool.size();
  // Whole products per worker where they are many or small: no joint phases.
  if (workers > 1 && p.groups >= workers && (work < 64 * kParallelWork || p.groups >= 4 * workers)) {
    BlockedProduct<T> prototype(p, 1);
    const std::size_t elements = (prototype.ScratchElements() + 15) / 16 * 16;
    T* scratch = context.scratch.Allocate<T>(elements * static_cast<std::size_t>(workers));
    auto task = [&](int w) {
      BlockedProduct<T> product(p, 1);
      product.SetScratch(scratch + static_cast<std::size_t>(w) * elements);
      for (std::int64_t g = p.groups * w / workers; g < p.groups * (w + 1) / workers; ++g)
        product.Run(context.pool, g);
    };
    context.pool.Run(workers, TaskRef(task));
    return;
  }
  BlockedProduct<T> product(p, work < kParallelWork ? 1 : workers);
  product.SetScratch(context.scratch.Allocate<T>(product.ScratchElements()));
  for (std::int64_t g = 0; g < p.groups; ++g) product.Run(context.pool, g);
}

}  // namespace

void RunGemm(HostContext& context, const GemmProblem& problem) {
  if (problem.half_step == 0 && RunFewRows(context, problem)) return;
  switch (problem.accumulator) {
    case DType::kF32:
      return RunTyped<float>(context, problem);
    case DType::kF64:
      return RunTyped<double>(context, problem);
    case DType::kU32:
      return RunTyped<std::uint32_t>(context, problem);
    default:
      assert(problem.accumulator == DType::kU64);
      return RunTyped<std::uint64_t>(context, problem);
  }
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
