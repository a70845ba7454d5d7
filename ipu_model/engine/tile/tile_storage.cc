#include "engine/tile/tile_storage.h"

#include <algorithm>
#include <cstring>

#include "kernels/host/host_tensor.h"

namespace ipu_model {
namespace {

// Moves one transfer: kGather reads the tile memory, otherwise writes it.
template <bool kGather, std::size_t kBytes>
void MoveStrided(unsigned char* tile, std::ptrdiff_t stride, unsigned char* local, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (kGather) {
      std::memcpy(local, tile, kBytes);
    } else {
      std::memcpy(tile, local, kBytes);
    }
    tile += stride;
    local += kBytes;
  }
}

template <bool kGather>
void Move(unsigned char* tile, const TileMove& t, std::size_t element_bytes, unsigned char* local) {
  local += t.local * element_bytes;
  tile += t.address;
  if (t.stride == 1) {
    if (kGather) {
      std::memcpy(local, tile, t.count * element_bytes);
    } else {
      std::memcpy(tile, local, t.count * element_bytes);
    }
    return;
  }
  const auto stride = static_cast<std::ptrdiff_t>(t.stride) * static_cast<std::ptrdiff_t>(element_bytes);
  switch (element_bytes) {
    case 1:
      return MoveStrided<kGather, 1>(tile, stride, local, t.count);
    case 2:
      return MoveStrided<kGather, 2>(tile, stride, local, t.count);
    case 4:
      return MoveStrided<kGather, 4>(tile, stride, local, t.count);
    case 8:
      return MoveStrided<kGather, 8>(tile, stride, local, t.count);
    default:
      return MoveStrided<kGather, 16>(tile, stride, local, t.count);
  }
}

}  // namespace

const Placement::PlacedInterval* Placement::Find(std::int64_t element) const {
  const auto interval = std::upper_bound(intervals.begin(), intervals.end(), element,
                                         [](std::int64_t e, const PlacedInterval& r) { return e < r.end; });
  return interval != intervals.end() && interval->begin <= element ? &*interval : nullptr;
}

Placement TileStorage::Allocate(const Mapping& mapping, std::int64_t num_elements,
                                std::size_t element_bytes) {
  Placement placement;
  placement.element_bytes = element_bytes;
  mapping.ForEachInterval(0, num_elements, [&](std::int64_t begin, std::int64_t end, unsigned tile) {
    std::vector<unsigned char>& memory = memories_.at(tile);
    if (placement.intervals.empty() || placement.intervals.back().tile != tile) {
      // The data path loads 8 bytes at a time.
      memory.resize((memory.size() + 7) / 8 * 8);
    }
    placement.intervals.push_back({begin, end, tile, static_cast<std::uint32_t>(memory.size())});
    memory.resize(memory.size() + static_cast<std::size_t>(end - begin) * element_bytes);
  });
  return placement;
}

void TileStorage::Fill(const Placement& placement, unsigned char value) {
  for (const Placement::PlacedInterval& interval : placement.intervals) {
    std::memset(memories_[interval.tile].data() + interval.address, value,
                static_cast<std::size_t>(interval.end - interval.begin) * placement.element_bytes);
  }
}

void TileStorage::Gather(const std::vector<TileMove>& moves, std::size_t element_bytes,
                         unsigned char* local) const {
  for (const TileMove& t : moves) {
    // Move<true> only reads the tile.
    Move<true>(const_cast<unsigned char*>(memories_[t.tile].data()), t, element_bytes, local);
  }
}

void TileStorage::Scatter(const std::vector<TileMove>& moves, std::size_t element_bytes,
                          const unsigned char* local) {
  for (const TileMove& t : moves) {
    // Move<false> only reads the local buffer.
    Move<false>(memories_[t.tile].data(), t, element_bytes, const_cast<unsigned char*>(local));
  }
}

std::vector<TileMove> TileMovesOf(const View& view, const Box& region, const Placement& placement) {
  std::vector<TileMove> moves;
  if (region.num_elements() == 0) return moves;
  // Dimensions innermost first; adjacent ones are merged if one stride steps through both.
  std::int64_t extent[kMaxRank], stride[kMaxRank], element = view.offset;
  int rank = 0;
  for (std::size_t d = view.shape.size(); d-- > 0;) {
    element += region.begin[d] * view.strides[d];
    const std::int64_t e = region.end[d] - region.begin[d], s = view.strides[d];
    if (e == 1) continue;
    if (rank > 0 && s == stride[rank - 1] * extent[rank - 1]) {
      extent[rank - 1] *= e;
    } else {
      extent[rank] = e;
      stride[rank++] = s;
    }
  }
  if (rank == 0) {
    extent[0] = 1;
    stride[0] = 1;
    rank = 1;
  }
  std::int64_t index[kMaxRank] = {};
  std::uint32_t local = 0;
  const Placement::PlacedInterval* interval = nullptr;
  while (true) {
    const std::int64_t s = stride[0];
    for (std::int64_t i = 0; i < extent[0];) {
      const std::int64_t x = element + i * s;
      if (interval == nullptr || x < interval->begin || x >= interval->end) interval = placement.Find(x);
      if (interval == nullptr) throw UnplacedElement(x);
      std::int64_t n = extent[0] - i;
      if (s > 0) n = std::min(n, (interval->end - 1 - x) / s + 1);
      if (s < 0) n = std::min(n, (x - interval->begin) / -s + 1);
      const auto address = static_cast<std::uint32_t>(
          interval->address + static_cast<std::size_t>(x - interval->begin) * placement.element_bytes);
      moves.push_back(
          {interval->tile, address, local, static_cast<std::uint32_t>(n), static_cast<std::int32_t>(s)});
      local += static_cast<std::uint32_t>(n);
      i += n;
    }
    int d = 1;
    for (; d < rank; ++d) {
      element += stride[d];
      if (++index[d] < extent[d]) break;
      element -= stride[d] * extent[d];
      index[d] = 0;
    }
    if (d >= rank) return moves;
  }
}

}  // namespace ipu_model
