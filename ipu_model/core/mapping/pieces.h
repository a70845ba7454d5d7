// The order of a tensor's elements: the parts of its blocks, as they follow each other in the flattened
// tensor.
#ifndef IPU_MODEL_CORE_MAPPING_PIECES_H_
#define IPU_MODEL_CORE_MAPPING_PIECES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/mapping/blocks.h"

namespace ipu_model {

// Walks over blocks that fill an index space, in its row-major order, without a copy of a block.
template <typename F>
class PieceWalk {
 public:
  // Calls f(variable, offset, rank, extents, strides) for each piece; the arrays are gone afterwards.
  PieceWalk(const Blocks& blocks, F f) : blocks_(blocks), f_(std::move(f)), levels_(blocks.rank() + 1) {
    if (blocks.size() == 1) {
      Emit({0, blocks[0].offset()}, 0);
      return;
    }
    Level& all = levels_[0];
    all.parts.reserve(blocks.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) all.parts.push_back({i, blocks[i].offset()});
    Walk(0);
  }

 private:
  // A block from the element on that the outer dimensions choose.
  struct Part {
    std::size_t block;
    std::int64_t offset;
  };
  struct Level {
    std::vector<Part> parts, active;
    std::vector<std::int64_t> cuts;
  };

  std::int64_t Begin(const Part& p, std::size_t d) const { return blocks_[p.block].begin(d); }
  std::int64_t End(const Part& p, std::size_t d) const { return blocks_[p.block].end(d); }

  void Emit(const Part& p, std::size_t d) {
    const ConstBlock b = blocks_[p.block];
    f_(b.variable(), p.offset, b.rank() - d, b.extents() + d, b.strides() + d);
  }

  // The parts of levels_[d], which tile the dimensions from d on.
  void Walk(std::size_t d) {
    Level& level = levels_[d];
    std::vector<Part>& parts = level.parts;
    if (parts.size() == 1) {
      Emit(parts[0], d);
      return;
    }
    const auto before = [&](const Part& a, const Part& b) { return Begin(a, d) < Begin(b, d); };
    if (!std::is_sorted(parts.begin(), parts.end(), before)) std::sort(parts.begin(), parts.end(), before);
    bool stacked = true;  // one after another in this dimension
    for (std::size_t i = 1; i < parts.size() && stacked; ++i)
      stacked = End(parts[i - 1], d) == Begin(parts[i], d);
    if (stacked) {
      for (const Part& p : parts) Emit(p, d);
      return;
    }
    level.cuts.clear();
    for (const Part& p : parts) {
      level.cuts.push_back(Begin(p, d));
      level.cuts.push_back(End(p, d));
    }
    std::sort(level.cuts.begin(), level.cuts.end());
    level.cuts.erase(std::unique(level.cuts.begin(), level.cuts.end()), level.cuts.end());
    // Those that reach into the slab between two cuts: looking at all for each would take the square of their
    // number.
    level.active.clear();
    auto next = parts.begin();
    for (std::size_t c = 0; c + 1 < level.cuts.size(); ++c) {
      const std::int64_t low = level.cuts[c], high = level.cuts[c + 1];
      level.active.erase(std::remove_if(level.active.begin(), level.active.end(),
                                        [&](const Part& p) { return End(p, d) <= low; }),
                         level.active.end());
      for (; next != parts.end() && Begin(*next, d) <= low; ++next) level.active.push_back(*next);
      if (level.active.size() == 1) {
        EmitSlab(level.active[0], d, low, high);
        continue;
      }
      // Rows of several blocks alternate.
      for (std::int64_t i = low; i < high; ++i) {
        std::vector<Part>& row = levels_[d + 1].parts;
        row.clear();
        for (const Part& p : level.active) {
          const ConstBlock b = blocks_[p.block];
          row.push_back({p.block, p.offset + (i - b.begin(d)) * b.stride(d)});
        }
        Walk(d + 1);
      }
    }
  }

  void EmitSlab(const Part& p, std::size_t d, std::int64_t low, std::int64_t high) {
    const ConstBlock b = blocks_[p.block];
    extents_.assign(b.extents() + d, b.extents() + b.rank());
    extents_[0] = high - low;
    f_(b.variable(), p.offset + (low - b.begin(d)) * b.stride(d), b.rank() - d, extents_.data(),
       b.strides() + d);
  }

  const Blocks& blocks_;
  F f_;
  std::vector<Level> levels_;  // by dimension
  std::vector<std::int64_t> extents_;
};

// Calls f(variable, offset, rank, extents, strides) for the pieces, in the order of the flattened tensor.
template <typename F>
void ForEachPiece(const Blocks& blocks, F&& f) {
  if (!blocks.empty()) PieceWalk<F&>(blocks, f);
}

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_MAPPING_PIECES_H_
