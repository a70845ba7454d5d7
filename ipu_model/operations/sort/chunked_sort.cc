// Batcher's odd-even merge network over the chunks of each row, one superstep per stage.
#include "operations/sort/chunked_sort.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "core/mapping/strides.h"
#include "kernels/copy/strided_copy.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/host/integer_division.h"
#include "kernels/sort/sort.h"
#include "operations/sort/row_parts.h"
#include "operations/sort/sort_cost.h"
#include "operations/vertex_groups.h"

namespace ipu_model {
namespace {

// One stage of the network: chunk c is compared with chunk c + distance.
struct Stage {
  std::int64_t block, distance, chunks;

  // Returns the chunk that `chunk` is merged with, or -1.
  std::int64_t Partner(std::int64_t chunk) const {
    const std::int64_t offset = distance % block, x = chunk - offset;
    if (x >= 0 && x % (2 * distance) < distance) {
      const std::int64_t high = chunk + distance;
      return high < chunks && chunk / (2 * block) == high / (2 * block) ? high : -1;
    }
    const std::int64_t low = chunk - distance;
    if (low - offset < 0 || (low - offset) % (2 * distance) >= distance) return -1;
    return chunk / (2 * block) == low / (2 * block) ? low : -1;
  }
};

std::vector<Stage> Network(std::int64_t chunks) {
  std::vector<Stage> stages;
  for (std::int64_t block = 1; block < chunks; block *= 2) {
    for (std::int64_t distance = block; distance >= 1; distance /= 2)
      stages.push_back({block, distance, chunks});
  }
  return stages;
}

// Divides pairs of chunks, or single chunks, into supersteps in which each tile has one, so that only that
// one has buffers. Adds the numbers of the tiles of one pair.
class Layers {
 public:
  explicit Layers(unsigned num_tiles) : used_(num_tiles, 0) {}

  std::size_t Add(unsigned tile, unsigned other) {
    const std::uint64_t taken = used_[tile] | used_[other];
    std::size_t layer = 0;
    while (layer + 1 < kMost && (taken >> layer & 1) != 0) ++layer;
    used_[tile] |= std::uint64_t{1} << layer;
    used_[other] |= std::uint64_t{1} << layer;
    return layer;
  }

 private:
  static constexpr std::size_t kMost = 64;
  std::vector<std::uint64_t> used_;  // by tile: a bit for each layer
};

// What the vertices share.
struct Chunked {
  std::size_t dim = 0;
  Grid grid;
  std::vector<OperandRef> sorted;  // where the operands are sorted, and the positions if any
  bool positions = true;
  std::shared_ptr<const SortKernel> kernel;  // over the operands and the position

  std::int64_t ChunkOf(const Box& box) const { return box.begin[dim] / grid.grain[dim]; }
  Box PartnerBox(const Stage& stage, const Box& box) const {
    Box partner = box;
    const std::int64_t chunk = stage.Partner(ChunkOf(box));
    partner.begin[dim] = chunk * grid.grain[dim];
    partner.end[dim] = std::min(partner.begin[dim] + grid.grain[dim], grid.shape[dim]);
    return partner;
  }
};

HostTensor DenseTensor(HostContext& context, const HostTensor& like, std::size_t dim, std::int64_t extent) {
  HostTensor t = like;
  t.shape[dim] = extent;
  const auto elements = static_cast<std::size_t>(SetDenseStrides(&t));
  t.data = context.scratch.Allocate(elements * SizeOf(t.type));
  return t;
}

// Both chunks of a pair belong to one superstep, as each is written where the other is read.
template <typename AddVertex>
void AddPairs(const Chunked& shared, const Stage& stage, const std::vector<Vertex>& vertices,
              const AddVertex& add) {
  const std::size_t dim = shared.dim;
  // By the other dimensions' begins and the chunk, because rows may lie on several tiles.
  std::map<std::pair<Shape, std::int64_t>, const Vertex*> waiting;
  Layers layers(shared.grid.num_tiles);
  for (const Vertex& vertex : vertices) {
    const std::int64_t chunk = shared.ChunkOf(vertex.box), partner = stage.Partner(chunk);
    if (partner < 0) continue;
    Shape row = vertex.box.begin;
    row[dim] = 0;
    if (partner > chunk) {
      waiting.emplace(std::make_pair(std::move(row), chunk), &vertex);
      continue;
    }
    const auto other = waiting.find(std::make_pair(std::move(row), partner));
    const std::size_t layer = layers.Add(other->second->tile, vertex.tile);
    add(layer, *other->second);
    add(layer, vertex);
    waiting.erase(other);
  }
}

VertexGroup FirstSort(const std::shared_ptr<const Chunked>& shared, std::vector<Vertex> vertices) {
  VertexGroup group = MakeVertexGroup("popops::SortChunk", std::move(vertices), 1000, kSortVertexBytes);
  const std::size_t operands = shared->sorted.size() - (shared->positions ? 1 : 0);
  for (unsigned i = 0; i < operands; ++i) group.reads.push_back({{OperandRef::Kind::kInput, i}, Same});
  for (const OperandRef& sorted : shared->sorted) group.writes.push_back({sorted, Same});
  group.compute = [shared](HostContext& host, const Box& box, const std::vector<HostTensor>& reads,
                           const std::vector<HostTensor>& writes) {
    std::vector<HostTensor> in = reads;
    if (shared->positions) AddPositions(host, shared->dim, box.begin[shared->dim], &in);
    shared->kernel->Run(host, static_cast<int>(shared->dim), in, writes);
  };
  group.cycles = [shared](const TargetModel& target, const Box& box) {
    const std::int64_t n = box.end[shared->dim] - box.begin[shared->dim];
    return static_cast<std::uint64_t>(box.num_elements() / n) * SortCycles(target, n, shared->sorted.size());
  };
  return group;
}

// Both chunks of a pair are sent to both tiles; each tile keeps its half of the merged elements.
VertexGroup Merge(const std::shared_ptr<const Chunked>& shared, const Stage& stage,
                  std::vector<Vertex> vertices) {
  VertexGroup group = MakeVertexGroup("popops::SortMerge", std::move(vertices), 700, kSortVertexBytes);
  const unsigned count = static_cast<unsigned>(shared->sorted.size());
  for (const OperandRef& sorted : shared->sorted) group.reads.push_back({sorted, Same});
  for (const OperandRef& sorted : shared->sorted) {
    group.reads.push_back(
        {sorted, [shared, stage](const Box& box) { return shared->PartnerBox(stage, box); }});
    group.writes.push_back({sorted, Same});
  }
  group.compute = [shared, stage, count](HostContext& host, const Box& box,
                                         const std::vector<HostTensor>& reads,
                                         const std::vector<HostTensor>& writes) {
    const std::size_t dim = shared->dim;
    const std::int64_t own = reads[0].shape[dim], partner = reads[count].shape[dim];
    const bool low = stage.Partner(shared->ChunkOf(box)) > shared->ChunkOf(box);
    std::vector<HostTensor> both, merged;
    std::int64_t zero[kMaxRank] = {}, after[kMaxRank] = {};
    after[dim] = own;
    for (unsigned i = 0; i < count; ++i) {
      both.push_back(DenseTensor(host, reads[i], dim, own + partner));
      merged.push_back(DenseTensor(host, reads[i], dim, own + partner));
      CopyTensor(host, reads[i], SubTensor(both[i], zero, reads[i].shape));
      CopyTensor(host, reads[count + i], SubTensor(both[i], after, reads[count + i].shape));
    }
    shared->kernel->Run(host, static_cast<int>(dim), both, merged);
    after[dim] = low ? 0 : partner;
    for (unsigned i = 0; i < count; ++i) {
      CopyTensor(host, SubTensor(merged[i], after, writes[i].shape), writes[i]);
    }
  };
  group.cycles = [shared](const TargetModel& target, const Box& box) {
    return MergeCycles(target, box.num_elements(), shared->sorted.size());
  };
  return group;
}

}  // namespace

Grid SortGrid(const Shape& shape, std::size_t dim, const SortedElement& element, unsigned num_tiles,
              const TargetModel& target) {
  const std::int64_t n = shape[dim];
  const std::int64_t rows = std::max<std::int64_t>(1, n > 0 ? NumElements(shape) / n : 1);
  const std::int64_t chunks = ChooseSortChunks(target, n, rows, element, num_tiles).parts;
  Grid grid;
  grid.shape = shape;
  grid.num_tiles = num_tiles;
  grid.parts.assign(shape.size(), 1);
  grid.grain.assign(shape.size(), 1);
  grid.grain[dim] = std::max<std::int64_t>(1, CeilDivide(n, chunks));
  grid.parts[dim] = std::max<std::int64_t>(1, CeilDivide(n, grid.grain[dim]));
  // Rows beyond one for each tile are parts of their own where a tile cannot exchange all of its rows at
  // once.
  const std::int64_t together =
      std::max<std::int64_t>(1, LongestChunk(element, target.bytes_per_tile) / grid.grain[dim]);
  const std::int64_t least = CeilDivide(rows, together);
  std::int64_t tiles = std::max<std::int64_t>(1, num_tiles / grid.parts[dim]);
  const bool more_than_tiles = least > tiles;
  if (more_than_tiles) tiles = least;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d == dim) continue;
    grid.parts[d] = std::clamp<std::int64_t>(shape[d], 1, tiles);
    tiles = more_than_tiles ? CeilDivide(tiles, grid.parts[d]) : tiles / grid.parts[d];
  }
  grid.tile_stride = RowMajorStrides(grid.parts);
  return grid;
}

bool LieAs(const std::vector<View>& views, const Grid& grid, const DeviceContext& context) {
  return std::all_of(views.begin(), views.end(), [&](const View& view) {
    const Grid* const held = context.mapping(view.variable).grid();
    return held != nullptr && *held == grid && view.offset == 0 && view.shape == grid.shape &&
           view.strides == RowMajorStrides(view.shape);
  });
}

void AddPositions(HostContext& context, std::size_t dim, std::int64_t first, std::vector<HostTensor>* in) {
  HostTensor position = in->front();
  const std::int64_t n = position.shape[dim];
  std::uint32_t* values = context.scratch.Allocate<std::uint32_t>(static_cast<std::size_t>(n));
  std::iota(values, values + n, static_cast<std::uint32_t>(first));
  position.data = values;
  position.type = DType::kU32;
  for (int d = 0; d < position.rank; ++d) position.strides[d] = d == static_cast<int>(dim) ? 1 : 0;
  in->push_back(position);
}

void PlanChunkedSort(const Grid& grid, std::size_t dim, const Expression& comparator,
                     const std::vector<OperandRef>& sorted, bool positions, TilePlan* plan) {
  auto shared = std::make_shared<Chunked>();
  shared->dim = dim;
  shared->grid = grid;
  shared->sorted = sorted;
  shared->positions = positions;
  shared->kernel = std::make_shared<const SortKernel>(comparator, positions);
  const std::vector<Vertex> vertices = grid.Vertices();
  std::vector<std::vector<Vertex>> layers;
  const auto add = [&layers](std::size_t layer, const Vertex& vertex) {
    if (layer >= layers.size()) layers.resize(layer + 1);
    layers[layer].push_back(vertex);
  };
  Layers first(grid.num_tiles);
  for (const Vertex& vertex : vertices) add(first.Add(vertex.tile, vertex.tile), vertex);
  for (std::vector<Vertex>& layer : layers)
    plan->supersteps.push_back({{FirstSort(shared, std::move(layer))}});
  for (const Stage& stage : Network(grid.parts[dim])) {
    layers.clear();
    AddPairs(*shared, stage, vertices, add);
    for (std::vector<Vertex>& layer : layers)
      plan->supersteps.push_back({{Merge(shared, stage, std::move(layer))}});
  }
}

VertexGroup StoreSorted(const std::vector<Vertex>& vertices, unsigned operands) {
  VertexGroup store = MakeVertexGroup("popops::SortStore", vertices, 100, kSortVertexBytes);
  for (unsigned i = 0; i < operands; ++i) {
    store.reads.push_back({{OperandRef::Kind::kTemporary, i}, Same});
    store.writes.push_back({{OperandRef::Kind::kOutput, i}, Same});
  }
  store.compute = [](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                     const std::vector<HostTensor>& writes) {
    for (std::size_t i = 0; i < writes.size(); ++i) {
      HostTensor from = reads[i];
      from.type = writes[i].type;  // positions become signed
      CopyTensor(host, from, writes[i]);
    }
  };
  store.cycles = [operands](const TargetModel& target, const Box& box) {
    return StoreSortedCycles(target, operands, box.num_elements());
  };
  return store;
}

}  // namespace ipu_model
