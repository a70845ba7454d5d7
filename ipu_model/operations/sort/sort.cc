// Sort. Rows that fit are sorted whole, on one tile each. Longer rows are cut into chunks: each chunk is
// sorted on its tile, then Batcher's odd-even merge network runs over the chunks, one superstep per stage.
#include "kernels/sort/sort.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "core/expandable.h"
#include "core/graph_impl.h"
#include "core/operand_check.h"
#include "core/serialise.h"
#include "core/strides.h"
#include "core/target_model.h"
#include "hlo/Sort.hpp"
#include "kernels/copy/slice.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/host/integer_division.h"
#include "operations/data_views.h"
#include "operations/index/slice_partition.h"
#include "operations/readers.h"
#include "operations/sort/sort_cost.h"
#include "operations/vertex_groups.h"
#include "poplar/exceptions.hpp"
#include "popops/Sort.hpp"

namespace ipu_model {
namespace {

constexpr std::uint64_t kVertexBytes = 40;  // pointers, lengths and strides (model estimate)

// A superstep more must save this part of the cycles: it takes code, and time to compile.
constexpr double kLeastGain = 0.05;

// Bytes that a tile may take for the chunks that a superstep brings it: elements and their positions.
std::int64_t LongestChunk(std::int64_t element_bytes, std::int64_t bytes_per_tile) {
  constexpr std::int64_t kPositionBytes = 4;
  return std::max<std::int64_t>(1, SliceBudget(bytes_per_tile) / (2 * (element_bytes + kPositionBytes)));
}

std::int64_t NumStages(std::int64_t chunks) {
  std::int64_t levels = 0;
  while ((std::int64_t{1} << levels) < chunks) ++levels;
  return levels * (levels + 1) / 2;
}

// Cycles of `rows` rows of n elements on each tile, in `chunks` chunks.
double CyclesInChunks(const TargetModel& target, std::int64_t n, std::int64_t rows, std::int64_t chunks,
                      std::size_t operands, std::int64_t element_bytes) {
  if (chunks == 1) return static_cast<double>(rows) * static_cast<double>(SortCycles(target, n, operands));
  const std::int64_t length = CeilDivide(n, chunks);
  const double exchanged =
      static_cast<double>(rows * length * (element_bytes + 4)) / target.exchange_bytes_per_cycle;
  return static_cast<double>(rows) * static_cast<double>(SortCycles(target, length, operands + 1)) +
         static_cast<double>(NumStages(chunks)) *
             (static_cast<double>(MergeCycles(target, rows * length, operands + 1)) + exchanged +
              target.sync_cycles);
}

// The number of chunks of a row with the fewest cycles.
std::int64_t ChooseChunks(const TargetModel& target, std::int64_t n, std::int64_t rows, std::size_t operands,
                          std::int64_t element_bytes, unsigned num_tiles) {
  const std::int64_t least =
      std::max<std::int64_t>(1, CeilDivide(n, LongestChunk(element_bytes, target.bytes_per_tile)));
  const std::int64_t most = std::max<std::int64_t>(least, std::min<std::int64_t>(num_tiles / rows, n / 2));
  std::int64_t best = least;
  const auto cycles_of = [&](std::int64_t chunks) {
    const std::int64_t rows_of_tile = CeilDivide(rows * chunks, static_cast<std::int64_t>(num_tiles));
    return CyclesInChunks(target, n, rows_of_tile, chunks, operands, element_bytes);
  };
  double best_cycles = cycles_of(least);
  // Two or three chunks gain too little for their stages.
  constexpr std::int64_t kFewest = 4;
  for (std::int64_t chunks = std::max(kFewest, 2 * least); least > 1 || most >= kFewest; chunks *= 2) {
    chunks = std::min(chunks, most);
    const double cycles = cycles_of(chunks);
    if (cycles < (1 - kLeastGain) * best_cycles) {
      best_cycles = cycles;
      best = chunks;
    }
    if (chunks >= most) break;
  }
  return best;
}

// Returns the partition for sorting: rows are spread, the sort dimension is cut into parts of equal length
// (the last may be shorter).
Partition SortPartition(const Shape& shape, std::size_t dim, std::size_t operands, std::int64_t element_bytes,
                        unsigned num_tiles, const TargetModel& target) {
  const std::int64_t n = shape[dim];
  const std::int64_t rows = std::max<std::int64_t>(1, n > 0 ? NumElements(shape) / n : 1);
  const std::int64_t chunks = ChooseChunks(target, n, rows, operands, element_bytes, num_tiles);
  Partition partition;
  partition.shape = shape;
  partition.num_tiles = num_tiles;
  partition.parts.assign(shape.size(), 1);
  partition.grain.assign(shape.size(), 1);
  partition.grain[dim] = std::max<std::int64_t>(1, CeilDivide(n, chunks));
  partition.parts[dim] = std::max<std::int64_t>(1, CeilDivide(n, partition.grain[dim]));
  // Rows beyond one for each tile are parts of their own where a tile cannot exchange all of its rows at
  // once.
  const std::int64_t together =
      std::max<std::int64_t>(1, LongestChunk(element_bytes, target.bytes_per_tile) / partition.grain[dim]);
  const std::int64_t least = CeilDivide(rows, together);
  std::int64_t tiles = std::max<std::int64_t>(1, num_tiles / partition.parts[dim]);
  const bool more_than_tiles = least > tiles;
  if (more_than_tiles) tiles = least;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d == dim) continue;
    partition.parts[d] = std::clamp<std::int64_t>(shape[d], 1, tiles);
    tiles = more_than_tiles ? CeilDivide(tiles, partition.parts[d]) : tiles / partition.parts[d];
  }
  partition.tile_stride = TileStrides(partition.parts);
  return partition;
}

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
  Partition partition;
  std::vector<OperandRef> sorted;            // where the operands are sorted, and the positions
  std::shared_ptr<const SortKernel> kernel;  // over the operands and the position

  std::int64_t ChunkOf(const Box& box) const { return box.begin[dim] / partition.grain[dim]; }
  Box PartnerBox(const Stage& stage, const Box& box) const {
    Box partner = box;
    const std::int64_t chunk = stage.Partner(ChunkOf(box));
    partner.begin[dim] = chunk * partition.grain[dim];
    partner.end[dim] = std::min(partner.begin[dim] + partition.grain[dim], partition.shape[dim]);
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

// inputs: operands; outputs: the sorted operands.
class SortOperation : public Operation, public Expandable {
 public:
  SortOperation(std::size_t dim, Expression comparator)
      : dim_(dim),
        comparator_(std::move(comparator)),
        kernel_(std::make_shared<const SortKernel>(comparator_)) {}

  std::string_view kind() const override { return "popops::sort"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    const std::size_t n = inputs.size();
    if (n == 0 || outputs.size() != n || dim_ >= inputs[0].shape.size() || !SameShapes(inputs, 0, n) ||
        comparator_.inputs.size() != 2 * n || comparator_.outputs.size() != 1 ||
        comparator_.TypeOf(comparator_.outputs[0]) != DType::kPred)
      return false;
    for (std::size_t i = 0; i < n; ++i) {
      if (outputs[i].shape != inputs[0].shape || outputs[i].type != inputs[i].type ||
          comparator_.inputs[2 * i] != inputs[i].type || comparator_.inputs[2 * i + 1] != inputs[i].type)
        return false;
    }
    return true;
  }
  void Write(Writer& writer) const override {
    writer.Write(dim_);
    writer.Write(comparator_);
  }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    kernel_->Run(context, static_cast<int>(dim_), in, out);
  }

  Partition MakePartition(unsigned num_tiles, const TargetModel& target) const {
    std::int64_t bytes = 0;
    for (const View& view : inputs) bytes += static_cast<std::int64_t>(SizeOf(view.type));
    return SortPartition(inputs[0].shape, dim_, inputs.size(), bytes, num_tiles, target);
  }

  TilePlan Plan(const DeviceContext& context) const override {
    const Partition partition = MakePartition(context.num_tiles(), context.target());
    return partition.parts[dim_] == 1 ? PlanWhole(partition)
                                      : PlanChunks(partition, LieAs(partition, context));
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    library.sort(graph, InputsBesideOutputs(*this, graph, in, prog), dim_, comparator_, out,
                 PlanOf(*this, graph), prog, name);
  }

 private:
  TilePlan PlanWhole(const Partition& partition) const {
    VertexGroup group = MakeVertexGroup("popops::Sort", partition.Vertices(), 900, kVertexBytes);
    for (unsigned i = 0; i < inputs.size(); ++i) {
      group.reads.push_back({{OperandRef::Kind::kInput, i}, Same});
      group.writes.push_back({{OperandRef::Kind::kOutput, i}, Same});
    }
    group.compute = [dim = static_cast<int>(dim_), kernel = kernel_](
                        HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                        const std::vector<HostTensor>& writes) { kernel->Run(host, dim, reads, writes); };
    group.cycles = [dim = dim_, operands = inputs.size()](const TargetModel& target, const Box& box) {
      const std::int64_t n = box.end[dim] - box.begin[dim];
      const std::int64_t rows = n > 0 ? box.num_elements() / n : 0;
      return static_cast<std::uint64_t>(rows) * SortCycles(target, n, operands);
    };
    TilePlan plan;
    plan.supersteps.push_back({{std::move(group)}});
    return plan;
  }

  // Whether the results lie as the chunks do, so that these need no memory of their own.
  bool LieAs(const Partition& partition, const DeviceContext& context) const {
    for (const View& view : outputs) {
      const Partition* const held = context.mapping(view.variable).partition();
      if (held == nullptr || !(*held == partition) || view.offset != 0 || view.shape != partition.shape ||
          view.strides != RowMajorStrides(view.shape))
        return false;
    }
    return true;
  }

  TilePlan PlanChunks(const Partition& partition, bool in_results) const {
    auto shared = std::make_shared<Chunked>();
    shared->dim = dim_;
    shared->partition = partition;
    shared->kernel = std::make_shared<const SortKernel>(comparator_, true);
    const unsigned n = static_cast<unsigned>(inputs.size());
    TilePlan plan;
    for (unsigned i = 0; i < n && in_results; ++i) shared->sorted.push_back({OperandRef::Kind::kOutput, i});
    for (unsigned i = 0; i < n && !in_results; ++i) {
      shared->sorted.push_back({OperandRef::Kind::kTemporary, i});
      plan.temporaries.push_back({inputs[i].type, partition});
    }
    shared->sorted.push_back({OperandRef::Kind::kTemporary, static_cast<unsigned>(plan.temporaries.size())});
    plan.temporaries.push_back({DType::kU32, partition});  // positions before the sort
    const std::vector<Vertex> vertices = partition.Vertices();
    std::vector<std::vector<Vertex>> layers;
    const auto add = [&layers](std::size_t layer, const Vertex& vertex) {
      if (layer >= layers.size()) layers.resize(layer + 1);
      layers[layer].push_back(vertex);
    };
    Layers first(partition.num_tiles);
    for (const Vertex& vertex : vertices) add(first.Add(vertex.tile, vertex.tile), vertex);
    for (std::vector<Vertex>& layer : layers)
      plan.supersteps.push_back({{FirstSort(shared, std::move(layer))}});
    for (const Stage& stage : Network(partition.parts[dim_])) {
      layers.clear();
      AddPairs(*shared, stage, vertices, add);
      for (std::vector<Vertex>& layer : layers)
        plan.supersteps.push_back({{Merge(shared, stage, std::move(layer))}});
    }
    if (!in_results) plan.supersteps.push_back({{Store(n, vertices)}});
    return plan;
  }

  // Both chunks of a pair belong to one superstep, as each is written where the other is read.
  template <typename AddVertex>
  static void AddPairs(const Chunked& shared, const Stage& stage, const std::vector<Vertex>& vertices,
                       const AddVertex& add) {
    const std::size_t dim = shared.dim;
    // By the other dimensions' begins and the chunk, because rows may lie on several tiles.
    std::map<std::pair<Shape, std::int64_t>, const Vertex*> waiting;
    Layers layers(shared.partition.num_tiles);
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

  static VertexGroup Store(unsigned n, const std::vector<Vertex>& vertices) {
    VertexGroup store = MakeVertexGroup("popops::SortStore", vertices, 100, kVertexBytes);
    for (unsigned i = 0; i < n; ++i) {
      store.reads.push_back({{OperandRef::Kind::kTemporary, i}, Same});
      store.writes.push_back({{OperandRef::Kind::kOutput, i}, Same});
    }
    store.compute = [](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                       const std::vector<HostTensor>& writes) {
      for (std::size_t i = 0; i < writes.size(); ++i) CopyTensor(host, reads[i], writes[i]);
    };
    store.cycles = [n](const TargetModel& target, const Box& box) {
      return StoreSortedCycles(target, n, box.num_elements());
    };
    return store;
  }

  static VertexGroup FirstSort(const std::shared_ptr<const Chunked>& shared, std::vector<Vertex> vertices) {
    VertexGroup group = MakeVertexGroup("popops::SortChunk", std::move(vertices), 1000, kVertexBytes);
    for (unsigned i = 0; i + 1 < shared->sorted.size(); ++i)
      group.reads.push_back({{OperandRef::Kind::kInput, i}, Same});
    for (const OperandRef& sorted : shared->sorted) group.writes.push_back({sorted, Same});
    group.compute = [shared](HostContext& host, const Box& box, const std::vector<HostTensor>& reads,
                             const std::vector<HostTensor>& writes) {
      std::vector<HostTensor> in = reads;
      // A position per element of the row, broadcast over the rows.
      HostTensor position = writes.back();
      const std::int64_t n = position.shape[shared->dim];
      std::uint32_t* values = host.scratch.Allocate<std::uint32_t>(static_cast<std::size_t>(n));
      std::iota(values, values + n, static_cast<std::uint32_t>(box.begin[shared->dim]));
      position.data = values;
      for (int d = 0; d < position.rank; ++d)
        position.strides[d] = d == static_cast<int>(shared->dim) ? 1 : 0;
      in.push_back(position);
      shared->kernel->Run(host, static_cast<int>(shared->dim), in, writes);
    };
    group.cycles = [shared](const TargetModel& target, const Box& box) {
      const std::int64_t n = box.end[shared->dim] - box.begin[shared->dim];
      return static_cast<std::uint64_t>(box.num_elements() / n) *
             SortCycles(target, n, shared->sorted.size());
    };
    return group;
  }

  // Both chunks of a pair are sent to both tiles; each tile keeps its half of the merged elements.
  static VertexGroup Merge(const std::shared_ptr<const Chunked>& shared, const Stage& stage,
                           std::vector<Vertex> vertices) {
    VertexGroup group = MakeVertexGroup("popops::SortMerge", std::move(vertices), 700, kVertexBytes);
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

  std::size_t dim_;
  Expression comparator_;
  std::shared_ptr<const SortKernel> kernel_;
};

void CheckSort(const std::vector<poplar::Tensor>& operands, std::size_t dimension,
               const Expression& comparator, const std::string& name) {
  if (operands.empty() || dimension >= operands[0].rank()) {
    throw poplar::poplar_error(name + ": sort needs operands with dimension " + std::to_string(dimension));
  }
  bool fits = comparator.inputs.size() == 2 * operands.size() && comparator.outputs.size() == 1 &&
              comparator.TypeOf(comparator.outputs[0]) == DType::kPred;
  for (std::size_t i = 0; fits && i < operands.size(); ++i) {
    const DType type = operands[i].elementType().id();
    fits = operands[i].shape() == operands[0].shape() && comparator.inputs[2 * i] == type &&
           comparator.inputs[2 * i + 1] == type;
  }
  if (!fits) throw poplar::poplar_error(name + ": the sort comparator does not fit the operands");
}

// a_0 < b_0; the other operands only move along.
Expression Less(const std::vector<poplar::Tensor>& operands) {
  Expression less;
  for (const poplar::Tensor& t : operands) less.inputs.insert(less.inputs.end(), 2, t.elementType().id());
  Instruction code;
  code.op = ScalarOp::kLt;
  code.operand_type = less.inputs[0];
  code.result_type = DType::kPred;
  code.operand[1] = 1;
  less.code = {code};
  less.outputs = {static_cast<std::uint16_t>(less.inputs.size())};
  return less;
}

}  // namespace

std::unique_ptr<Operation> ReadSort(Reader& reader) {
  const std::size_t dim = reader.Read<std::size_t>();
  return std::make_unique<SortOperation>(dim, reader.Read<Expression>());
}

}  // namespace ipu_model

namespace hlo {

std::vector<poplar::Tensor> sort(poplar::Graph& graph, const std::vector<poplar::Tensor>& operands,
                                 std::size_t dimension, const ipu_model::Expression& comparator,
                                 poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  CheckSort(operands, dimension, comparator, name);
  auto operation = std::make_unique<SortOperation>(dimension, comparator);
  operation->name = name;
  for (const poplar::Tensor& operand : operands) {
    operation->inputs.push_back(StridedView(graph, operand, prog, {debugContext, "operand"}));
  }
  const poplar::Target& target = graph.getTarget();
  const Partition partition = operation->MakePartition(target.getNumTiles(), ModelOf(target));
  std::vector<poplar::Tensor> results;
  for (const View& view : operation->inputs) {
    results.push_back(NewTensor(graph, view.type, view.shape, Mapping(partition), name));
    results.back().asView(&operation->outputs.emplace_back());
  }
  AddOperation(prog, std::move(operation));
  return results;
}

}  // namespace hlo

namespace popops {

poplar::Tensor sort(poplar::Graph& graph, const poplar::Tensor& t, unsigned dim,
                    poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  return hlo::sort(graph, {t}, dim, ipu_model::Less({t}), prog, debugContext)[0];
}

void sortInPlace(poplar::Graph& graph, const poplar::Tensor& t, unsigned dim, poplar::program::Sequence& prog,
                 const poplar::DebugContext& debugContext) {
  prog.add(poplar::program::Copy(sort(graph, t, dim, prog, debugContext), t, false, debugContext));
}

poplar::Tensor sortKeyValue(poplar::Graph& graph, const poplar::Tensor& k, const poplar::Tensor& v,
                            unsigned dim, poplar::program::Sequence& prog,
                            const poplar::DebugContext& debugContext) {
  return hlo::sort(graph, {k, v}, dim, ipu_model::Less({k, v}), prog, debugContext)[1];
}

void sortKeyValueInPlace(poplar::Graph& graph, const poplar::Tensor& k, const poplar::Tensor& v, unsigned dim,
                         poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  const auto sorted = hlo::sort(graph, {k, v}, dim, ipu_model::Less({k, v}), prog, debugContext);
  prog.add(poplar::program::Copy(sorted[0], k, false, debugContext));
  prog.add(poplar::program::Copy(sorted[1], v, false, debugContext));
}

}  // namespace popops
