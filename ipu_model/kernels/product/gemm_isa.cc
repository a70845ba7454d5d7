// The blocked matrix product: panels of 512 k, A in tiles of up to 14 rows, B in strips of 32 columns (for
// f32 with AVX-512; other types and AVX2 accordingly). Compiled per instruction set.
#include <array>
#include <cassert>
#include <type_traits>

#include "kernels/product/gemm_call.h"
#include "kernels/product/gemm_pack.h"
#include "kernels/product/gemm_problem.h"
#include "kernels/product/gemv.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// Sums restart every kPanel k and are then added to C. With 512, the bits equal XLA:CPU's, and strips of B
// fit into L2.
constexpr std::int64_t kPanel = 512;
// Columns of B that are packed at once; limits the packed panel to 4 MiB of f32.
constexpr std::int64_t kColumnBlock = 2048;
// Tiles of A that are used for all strips of B in turn: 344 KiB with AVX-512, a third of the L2 cache.
template <typename T>
constexpr std::int64_t kChunkTiles = 672 / static_cast<std::int64_t>(sizeof(T)) / kTileRows;
// Tiles of A that are packed at once; limits the packed panel to 4 MiB.
template <typename T>
constexpr std::int64_t kBlockTiles = 12 * kChunkTiles<T>;
// k of A that are packed at once for few rows, so that the workers synchronise once per two panels.
constexpr std::int64_t kStripPass = 2 * kPanel;
// With fewer strips per worker, the load is not balanced.
constexpr std::int64_t kFewestStrips = 4;
// B is read in place if each element is read at most three times (measured break-even), or if B fits into L1.
constexpr std::int64_t kUnpackedRows = 3 * kTileRows;
constexpr std::int64_t kSmallBytes = 32 << 10;
// Multiply-adds from which a second worker pays.
constexpr double kParallelWork = 48.0 * 48.0 * 48.0;

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

// One product A . B on one or more workers. By strips (few rows): A is packed jointly, and each worker packs
// a strip of B just before its use. By rows: A and B are packed jointly. Then the workers share the tiles.
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
    tiles_ = (p_.m + kTileRows - 1) / kTileRows;
    const std::int64_t strips = (p_.n + strip_ - 1) / strip_;
    const bool same_a = SizeOf(p_.a.type) == sizeof(T), same_b = SizeOf(p_.b.type) == sizeof(T);
    // Rows of A at a distance that is a multiple of 1 KiB compete for the same few sets of the L1 cache.
    const bool spread_rows = p_.a.row * Bytes() % 1024 != 0;
    direct_a_ = same_a && p_.a.column == 1 &&
                (strips == 1 || (strips == 2 && spread_rows) ||
                 (p_.a.row >= 0 && p_.m * p_.a.row * Bytes() <= kSmallBytes));
    direct_b_ = same_b && p_.b.column == 1 &&
                (p_.m <= kUnpackedRows || (p_.b.row >= 0 && p_.k * p_.b.row * Bytes() <= kSmallBytes));
    direct_c_ = SizeOf(p_.c.type) == sizeof(T) && p_.c.column == 1;
    by_strips_ = tiles_ <= kChunkTiles<T> && (workers == 1 || strips >= kFewestStrips * workers);
    // A smaller B stays in the L2 cache.
    reads_ahead_ = by_strips_ && p_.k * p_.n * static_cast<std::int64_t>(SizeOf(p_.b.type)) >= kStreamedBytes;
    pass_ = std::min(by_strips_ ? kStripPass : kPanel, p_.k);
    // Includes a vector of slack, because the last row is written as whole vectors.
    packed_tile_ = (p_.m + tiles_ - 1) / tiles_ * std::min(kPanel, p_.k) + kLanes<T>;
  }

  // The scratch memory of all workers together, in elements of T.
  std::size_t ScratchElements() const {
    return static_cast<std::size_t>(workers_) * StripElements() + PackedAElements() + PackedBElements() +
           (NeedsSums() ? static_cast<std::size_t>(p_.m * p_.n) : 0);
  }
  void SetScratch(T* scratch) {
    strips_of_workers_ = scratch;
    packed_a_ = scratch + static_cast<std::size_t>(workers_) * StripElements();
    packed_b_ = packed_a_ + PackedAElements();
    sums_ = packed_b_ + PackedBElements();
  }

  void Run(ThreadPool& pool, std::int64_t group) {
    a_ = Offset(p_.a, group * p_.a.group);
    b_ = Offset(p_.b, group * p_.b.group);
    c_ = const_cast<unsigned char*>(Offset(p_.c, group * p_.c.group));
    if (by_strips_) {
      RunByStrips(pool);
    } else {
      for (std::int64_t column = 0; column < p_.n; column += kColumnBlock)
        RunByRows(pool, column, std::min(kColumnBlock, p_.n - column));
    }
  }

 private:
  // A range of k, which starts at `place` in the packed A.
  struct Panel {
    std::int64_t k, length, place;
  };
  struct Tiles {
    std::int64_t begin, end;
  };

  using TilesByRows = std::array<TileFunction<T>, kTileRows + 1>;
  const TilesByRows (*Functions() const)[kTileVectors] {
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
  bool NeedsSums() const { return !direct_c_ && p_.k > kPanel; }

  std::size_t StripElements() const {
    return static_cast<std::size_t>(strip_ * std::min(kPanel, p_.k) + kLanes<T> + 15) / 16 * 16;
  }
  std::size_t PackedAElements() const {
    if (direct_a_) return 0;
    const std::int64_t panels = (pass_ + kPanel - 1) / kPanel;
    return static_cast<std::size_t>(panels * std::min(tiles_, kBlockTiles<T>) * packed_tile_ + 15) / 16 * 16;
  }
  std::size_t PackedBElements() const {
    if (by_strips_ || direct_b_) return 0;
    const std::int64_t strips = (std::min(kColumnBlock, p_.n) + strip_ - 1) / strip_;
    return static_cast<std::size_t>(strips * strip_ * std::min(kPanel, p_.k));
  }
  T* StripOf(int worker) const {
    return strips_of_workers_ + static_cast<std::size_t>(worker) * StripElements();
  }

  // Calls f(worker, piece) for every piece.
  template <typename F>
  void Share(ThreadPool& pool, std::int64_t pieces, F&& f) {
    if (workers_ == 1) {
      for (std::int64_t p = 0; p < pieces; ++p) f(0, p);
      return;
    }
    WorkShares shares(pieces, workers_);
    auto task = [&](int w) {
      for (std::int64_t p = shares.Next(w); p != WorkShares::kNone; p = shares.Next(w)) f(w, p);
    };
    pool.Run(workers_, TaskRef(task));
  }

  // Tiles have nearly equal heights: 16 rows are cut into 8 + 8, not 14 + 2.
  std::int64_t Row(std::int64_t tile) const { return p_.m * tile / tiles_; }

  void RunByStrips(ThreadPool& pool) {
    const std::int64_t strips = (p_.n + strip_ - 1) / strip_;
    for (std::int64_t begin = 0; begin < p_.k; begin += kStripPass) {
      const std::int64_t length = std::min(kStripPass, p_.k - begin), panels = (length + kPanel - 1) / kPanel;
      const auto panel_at = [&](std::int64_t i) {
        return Panel{begin + i * kPanel, std::min(kPanel, length - i * kPanel), i * tiles_ * packed_tile_};
      };
      if (!direct_a_) {
        Share(pool, panels * tiles_,
              [&](int, std::int64_t i) { PackTile(panel_at(i / tiles_), 0, i % tiles_); });
      }
      Share(pool, strips, [&](int w, std::int64_t s) {
        for (std::int64_t i = 0; i < panels; ++i) {
          ReadAhead ahead;
          if (reads_ahead_) {
            ahead = i + 1 < panels ? Ahead(panel_at(i + 1), s) : Ahead(panel_at(0), s + 1);
          }
          Compute(panel_at(i), {0, tiles_}, 0, s * strip_, Strip(panel_at(i), s * strip_, w, nullptr), ahead);
        }
      });
    }
  }

  void RunByRows(ThreadPool& pool, std::int64_t column, std::int64_t columns) {
    const std::int64_t strips = (columns + strip_ - 1) / strip_;
    for (std::int64_t k = 0; k < p_.k; k += kPanel) {
      const Panel panel{k, std::min(kPanel, p_.k - k), 0};
      for (std::int64_t block = 0; block < tiles_; block += kBlockTiles<T>) {
        const std::int64_t tiles = std::min(kBlockTiles<T>, tiles_ - block);
        const std::int64_t packed_tiles = direct_a_ ? 0 : tiles,
                           packed_strips = direct_b_ || block > 0 ? 0 : strips;
        if (packed_tiles + packed_strips > 0) {
          Share(pool, packed_tiles + packed_strips, [&](int, std::int64_t i) {
            if (i < packed_tiles) {
              PackTile(panel, block, block + i);
            } else {
              const std::int64_t s = i - packed_tiles;
              PackStrip(panel, column + s * strip_, packed_b_ + s * strip_ * panel.length);
            }
          });
        }
        // Chunks of A that stay in the L2 cache, and enough pieces for all workers.
        const std::int64_t wanted = workers_ == 1 ? 1 : (workers_ * kPiecesPerWorker + strips - 1) / strips;
        const std::int64_t chunks =
            std::min(tiles, std::max((tiles + kChunkTiles<T> - 1) / kChunkTiles<T>, wanted));
        Share(pool, chunks * strips, [&](int w, std::int64_t i) {
          const std::int64_t chunk = i / strips, s = i % strips;
          const Tiles part{block + tiles * chunk / chunks, block + tiles * (chunk + 1) / chunks};
          const T* const packed = direct_b_ ? nullptr : packed_b_ + s * strip_ * panel.length;
          Compute(panel, part, block, column + s * strip_, Strip(panel, column + s * strip_, w, packed), {});
        });
      }
    }
  }

  // The lines to prefetch before the strip is packed.
  ReadAhead Ahead(const Panel& panel, std::int64_t strip) const {
    const std::int64_t column = strip * strip_, columns = std::min<std::int64_t>(strip_, p_.n - column);
    if (columns <= 0) return {};
    const auto size = static_cast<std::int64_t>(SizeOf(p_.b.type));
    const unsigned char* const from = b_ + (panel.k * p_.b.row + column * p_.b.column) * size;
    if (p_.b.column == 1) return {from, panel.length, p_.b.row * size, columns * size};
    if (p_.b.row == 1) return {from, columns, p_.b.column * size, panel.length * size};
    return {};
  }

  T* PackedTile(const Panel& panel, std::int64_t block, std::int64_t tile) const {
    return packed_a_ + panel.place + (tile - block) * packed_tile_;
  }
  void PackTile(const Panel& panel, std::int64_t block, std::int64_t tile) const {
    const std::int64_t row = Row(tile);
    const int height = static_cast<int>(Row(tile + 1) - row);
    pack_a_(a_ + (row * p_.a.row + panel.k * p_.a.column) * static_cast<std::int64_t>(SizeOf(p_.a.type)),
            p_.a.row, p_.a.column, height, panel.length, height, PackedTile(panel, block, tile));
  }
  void PackStrip(const Panel& panel, std::int64_t column, T* to) const {
    pack_b_(b_ + (panel.k * p_.b.row + column * p_.b.column) * static_cast<std::int64_t>(SizeOf(p_.b.type)),
            p_.b.column, p_.b.row, static_cast<int>(std::min<std::int64_t>(strip_, p_.n - column)),
            panel.length, strip_, to);
  }

  struct StripOfB {
    const T* data;
    std::int64_t step;
  };
  // Returns the strip in place, or its packed copy `packed`, or packs it now.
  StripOfB Strip(const Panel& panel, std::int64_t column, int worker, const T* packed) const {
    const std::int64_t columns = std::min<std::int64_t>(strip_, p_.n - column);
    if (direct_b_ && columns % kLanes<T> == 0)
      return {reinterpret_cast<const T*>(b_) + panel.k * p_.b.row + column, p_.b.row};
    if (packed != nullptr) return {packed, strip_};
    PackStrip(panel, column, StripOf(worker));
    return {StripOf(worker), strip_};
  }

  void Compute(const Panel& panel, const Tiles& tiles, std::int64_t block, std::int64_t column,
               const StripOfB& strip, ReadAhead ahead) const {
    TileCall<T> call;
    call.k = panel.length;
    call.columns = static_cast<int>(std::min<std::int64_t>(strip_, p_.n - column));
    call.add = panel.k > 0;
    call.large_c = p_.m * p_.n * Bytes() >= kStreamedBytes;
    call.half_step = p_.half_step;
    call.a_row = p_.a.row;
    call.b = strip.data;
    call.b_step = strip.step;
    call.ahead = &ahead;
    const std::int64_t steps = (tiles.end - tiles.begin) * ((panel.length + kAheadStep - 1) / kAheadStep);
    call.ahead_lines = (ahead.Lines() + steps - 1) / steps;
    const auto& functions = Functions()[direct_a_ ? 0 : 1][call.columns <= kLanes<T> ? 0 : 1];
    for (std::int64_t t = tiles.begin; t < tiles.end; ++t) {
      const std::int64_t row = Row(t);
      const int height = static_cast<int>(Row(t + 1) - row);
      call.a =
          direct_a_ ? reinterpret_cast<const T*>(a_) + row * p_.a.row + panel.k : PackedTile(panel, block, t);
      RunOne(panel, functions[static_cast<std::size_t>(height)], call, row, height, column);
    }
  }

  [[gnu::always_inline]] void RunOne(const Panel& panel, TileFunction<T> function, TileCall<T>& call,
                                     std::int64_t row, int height, std::int64_t column) const {
    if (direct_c_) {
      call.c = reinterpret_cast<T*>(c_) + row * p_.c.row + column;
      call.c_row = p_.c.row;
      function(call);
    } else {
      FinishOne(panel, function, call, row, height, column);
    }
  }

  // For results of another type or with strided columns: keeps the sums apart and converts them after the
  // last panel.
  void FinishOne(const Panel& panel, TileFunction<T> function, TileCall<T>& call, std::int64_t row,
                 int height, std::int64_t column) const {
    if (NeedsSums()) {
      call.c = sums_ + row * p_.n + column;
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
               std::int64_t column) const {
    store_(from, from_row, rows, columns,
           c_ + (row * p_.c.row + column * p_.c.column) * static_cast<std::int64_t>(SizeOf(p_.c.type)),
           p_.c.row, p_.c.column);
  }

  const GemmProblem& p_;
  int workers_;
  PackFunction<T> pack_a_, pack_b_;
  StoreFunction<T> store_;
  std::int64_t strip_ = 0, tiles_ = 0, pass_ = 0, packed_tile_ = 0;
  bool direct_a_ = false, direct_b_ = false, direct_c_ = false, by_strips_ = false, reads_ahead_ = false;
  T *strips_of_workers_ = nullptr, *packed_a_ = nullptr, *packed_b_ = nullptr, *sums_ = nullptr;
  const unsigned char *a_ = nullptr, *b_ = nullptr;
  unsigned char* c_ = nullptr;
};

template <typename T>
void RunTyped(HostContext& context, const GemmProblem& p) {
  const double work = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  const int workers = work * static_cast<double>(p.groups) < kParallelWork ? 1 : context.pool.size();
  // If the products are many or small, each worker computes whole products, without joint phases.
  if (workers > 1 && p.groups >= workers && (work < 64 * kParallelWork || p.groups >= 4 * workers)) {
    BlockedProduct<T> prototype(p, 1);
    const std::size_t elements = (prototype.ScratchElements() + 15) / 16 * 16;
    T* scratch = context.scratch.Allocate<T>(elements * static_cast<std::size_t>(workers));
    const std::int64_t pieces = std::min(p.groups, workers * kPiecesPerWorker);
    WorkShares shares(pieces, workers);
    auto task = [&](int w) {
      BlockedProduct<T> product(p, 1);
      product.SetScratch(scratch + static_cast<std::size_t>(w) * elements);
      for (std::int64_t i = shares.Next(w); i != WorkShares::kNone; i = shares.Next(w)) {
        for (std::int64_t g = p.groups * i / pieces; g < p.groups * (i + 1) / pieces; ++g)
          product.Run(context.pool, g);
      }
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
