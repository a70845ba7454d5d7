// Collectives, made of link transfers of pieces between replicas and of reductions on each replica.
#include "hlo/Collectives.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/graph/graph_impl.h"
#include "core/mapping/blocks.h"
#include "core/target/target_model.h"
#include "hlo/Elementwise.hpp"
#include "hlo/Index.hpp"
#include "operations/collectives/replica_collective.h"
#include "poplar/exceptions.hpp"

namespace hlo {
namespace {

using ipu_model::CollectivePattern;
using ipu_model::DType;
using ipu_model::Expression;
using ipu_model::Grid;
using ipu_model::Instruction;
using ipu_model::LinkMethod;
using ipu_model::ScalarOp;
using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::program::Sequence;

// Number of operands of one reduction pass.
constexpr std::size_t kOperandsPerPass = 8;

std::size_t GroupSize(const ReplicaGroups& groups, const DebugContext& debug) {
  if (groups.empty()) throw poplar::poplar_error(debug.getPathName() + ": a collective needs replica groups");
  for (const std::vector<unsigned>& group : groups) {
    if (group.size() != groups[0].size())
      throw poplar::poplar_error(debug.getPathName() + ": the replica groups must have the same size");
  }
  return groups[0].size();
}

LinkMethod MethodOf(const OptionFlags& options) {
  static const std::unordered_map<std::string, LinkMethod> methods = {
      {"auto", LinkMethod::kAuto},
      {"broadcast", LinkMethod::kBroadcast},
      {"clockwise_ring", LinkMethod::kClockwiseRing},
      {"anticlockwise_ring", LinkMethod::kAnticlockwiseRing},
      {"bidirectional_ring_pair", LinkMethod::kBidirectionalRingPair},
      {"meet_in_middle_ring", LinkMethod::kMeetInMiddleRing}};
  LinkMethod method = LinkMethod::kAuto;
  for (const auto& [name, value] : options) {
    const auto found = methods.find(value);
    if (name != "method" || found == methods.end()) {
      throw poplar::invalid_option("collective: the option '" + name + "' = '" + value +
                                   "' is not known; possible: method = auto, broadcast, clockwise_ring, "
                                   "anticlockwise_ring, bidirectional_ring_pair, meet_in_middle_ring");
    }
    method = found->second;
  }
  return method;
}

void CheckDimension(const Tensor& data, std::size_t dimension, std::size_t parts, const DebugContext& debug) {
  if (dimension >= data.rank() || (parts > 0 && data.dim(static_cast<unsigned>(dimension)) % parts != 0)) {
    throw poplar::poplar_error(debug.getPathName() + ": dimension " + std::to_string(dimension) + " of " +
                               data.shapeToString() + " does not divide into " + std::to_string(parts) +
                               " parts");
  }
}

// Maps all pieces to the tiles in the same way, so that the elements to be reduced are on the same tile.
ipu_model::Mapping PiecesMapping(const Graph& graph, DType type, std::int64_t pieces, std::int64_t elements) {
  const poplar::Target& target = graph.getTarget();
  ipu_model::Grid mapping = ipu_model::Grid::Linear(
      elements, std::max<std::int64_t>(1, 128 / static_cast<std::int64_t>(SizeOf(type))),
      target.model().VectorWidth(type), target.getNumTiles(), ipu_model::FirstTile(graph));
  mapping.shape.insert(mapping.shape.begin(), pieces);
  mapping.parts.insert(mapping.parts.begin(), 1);
  mapping.grain.insert(mapping.grain.begin(), 1);
  mapping.tile_stride.insert(mapping.tile_stride.begin(), 0);
  return ipu_model::Mapping(mapping);
}

// The pieces [pieces, elements] as one strided view, with more dimensions where these are needed: the links
// take elements from wherever they lie, so the parts of the columns of a matrix are not copied first.
ipu_model::View ViewOfPieces(Graph& graph, const Tensor& pieces, Sequence& prog, const DebugContext& debug) {
  const auto count = static_cast<std::int64_t>(pieces.dim(0));
  if (pieces.blocks().size() == 1) {
    const ipu_model::View found = pieces.blocks()[0].view(pieces.elementType().id());
    ipu_model::View view = found;
    view.shape = {count};
    view.strides = {static_cast<std::int64_t>(pieces.dim(1))};
    std::size_t d = 0;
    if (count > 1 && !found.shape.empty() && found.shape[0] == count) view.strides[0] = found.strides[d++];
    for (; d < found.shape.size(); ++d) {
      if (found.shape[d] == 1) continue;
      view.shape.push_back(found.shape[d]);
      view.strides.push_back(found.strides[d]);
    }
    if (view.shape.size() == 1) {
      view.shape.push_back(1);
      view.strides.push_back(1);
    }
    if (view.num_elements() == found.num_elements() && view.shape.size() <= ipu_model::kMaxRank) return view;
  }
  return ipu_model::StridedView(graph, pieces, prog, {debug, "operand"});
}

// How what is received lies in memory.
enum class Received {
  kPieces,  // piece after piece, the same elements of all pieces on one tile
  kJoined,  // as the operand, but along the first dimension of the pieces, which are joined there
};

// The dimensions of the pieces in the order of the operand's memory, with the number of the piece, dimension
// 0, before the first one.
std::vector<unsigned> JoinedOrder(const ipu_model::View& pieces) {
  std::vector<unsigned> order(pieces.shape.size() - 1);
  std::iota(order.begin(), order.end(), 1u);
  std::stable_sort(order.begin(), order.end(), [&](unsigned a, unsigned b) {
    return std::abs(pieces.strides[a]) > std::abs(pieces.strides[b]);
  });
  order.insert(std::find(order.begin(), order.end(), 1u), 0);
  return order;
}

// Transfers `pieces` [pieces, elements] between replicas; the result has the same form.
Tensor AddCollective(Graph& graph, CollectivePattern pattern, const Tensor& pieces,
                     const ReplicaGroups& groups, std::vector<int> sources, LinkMethod method, Sequence& prog,
                     const DebugContext& debug, Received received = Received::kPieces) {
  const std::size_t n = pattern == CollectivePattern::kPermute ? 1 : GroupSize(groups, debug);
  const DType type = pieces.elementType().id();
  const ipu_model::Shape flat = {static_cast<std::int64_t>(n), static_cast<std::int64_t>(pieces.dim(1))};
  if (ipu_model::NumElements(flat) == 0)
    return NewTensor(graph, type, flat, PiecesMapping(graph, type, flat[0], flat[1]), debug.getPathName());
  auto operation = std::make_unique<ipu_model::ReplicaCollective>(pattern, groups, std::move(sources),
                                                                  graph.getReplicationFactor(), method);
  operation->name = debug.getPathName();
  operation->inputs.push_back(ViewOfPieces(graph, pieces, prog, debug));
  ipu_model::Shape shape = operation->inputs[0].shape;
  shape[0] = flat[0];
  std::vector<unsigned> order = JoinedOrder(operation->inputs[0]);
  Tensor result;
  if (received == Received::kPieces || order[0] == 0) {
    result = NewTensor(graph, type, shape, PiecesMapping(graph, type, flat[0], flat[1]), debug.getPathName());
  } else {
    ipu_model::Shape in_order;
    std::vector<unsigned> back(order.size());
    for (unsigned d = 0; d < order.size(); ++d) {
      in_order.push_back(shape[order[d]]);
      back[order[d]] = d;
    }
    const ipu_model::Mapping mapping = ipu_model::LinearMapping(graph, type, ipu_model::NumElements(flat));
    result = NewTensor(graph, type, in_order, mapping, debug.getPathName()).dimShuffle(back);
  }
  result.asView(&operation->outputs.emplace_back());
  operation->Prepare();  // throws for invalid groups
  ipu_model::AddOperation(prog, std::move(operation));
  return result.reshape({n, pieces.dim(1)});
}

Tensor AsOnePiece(const Tensor& data) { return data.reshape({1, data.numElements()}); }

// Returns [n, ...], the n parts of `dimension` as the first dimension.
Tensor PartsFirst(const Tensor& data, std::size_t dimension, std::size_t n) {
  std::vector<std::size_t> shape = data.shape();
  shape[dimension] /= n;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dimension), n);
  return data.reshape(shape).dimRoll(static_cast<unsigned>(dimension), 0);
}

// Joins the pieces [n, elements] along `dimension`, which each of them, of the shape `piece`, has as its
// first one: so the result is a strided view.
Tensor JoinPieces(const Tensor& pieces, std::vector<std::size_t> piece, std::size_t dimension) {
  piece[0] *= pieces.dim(0);
  return pieces.reshape(piece).dimRoll(0, static_cast<unsigned>(dimension));
}

// Whether a body is one sum or product of narrow floats, which is computed in f32.
bool InFloat(const Expression& body) {
  const DType type = body.inputs.at(0);
  return (type == DType::kF16 || type == DType::kBF16) && body.code.size() == 1 &&
         (body.code[0].op == ScalarOp::kAdd || body.code[0].op == ScalarOp::kMultiply);
}

std::uint16_t AddConvert(Expression* expression, std::uint16_t operand, DType from, DType to) {
  Instruction convert;
  convert.op = ScalarOp::kConvert;
  convert.operand_type = from;
  convert.result_type = to;
  convert.operand[0] = operand;
  expression->code.push_back(convert);
  return static_cast<std::uint16_t>(expression->inputs.size() + expression->constants.size() +
                                    expression->code.size() - 1);
}

// Returns body(...body(body(x0, x1), x2)..., xn). In later passes, the first operand already has type `wide`.
Expression Fold(const Expression& body, std::size_t operands, DType first_type, DType wide,
                DType result_type) {
  const DType type = body.inputs.at(0);
  Expression fold;
  fold.inputs.assign(operands, type);
  fold.inputs[0] = first_type;
  fold.constants = body.constants;
  const auto widened = [&](std::uint16_t operand) {
    const DType from = fold.inputs[operand];
    return from == wide ? operand : AddConvert(&fold, operand, from, wide);
  };
  std::uint16_t accumulator = widened(0);
  for (std::size_t k = 1; k < operands; ++k) {
    const std::uint16_t value = widened(static_cast<std::uint16_t>(k));
    std::vector<std::uint16_t> registers = {accumulator, value};
    for (std::size_t c = 0; c < body.constants.size(); ++c)
      registers.push_back(static_cast<std::uint16_t>(operands + c));
    for (Instruction instruction : body.code) {
      for (std::uint16_t& operand : instruction.operand)
        operand = operand < registers.size() ? registers[operand] : std::uint16_t{0};
      if (wide != type) instruction.operand_type = instruction.result_type = wide;
      fold.code.push_back(instruction);
      registers.push_back(
          static_cast<std::uint16_t>(operands + fold.constants.size() + fold.code.size() - 1));
    }
    accumulator = registers.at(body.outputs.at(0));
  }
  if (wide != result_type) accumulator = AddConvert(&fold, accumulator, wide, result_type);
  fold.outputs = {accumulator};
  return fold;
}

// Reduces [n, elements] to [elements], in the order of the pieces.
Tensor ReducePieces(Graph& graph, const Tensor& pieces, const Expression& body, Sequence& prog,
                    const DebugContext& debug) {
  const std::size_t n = pieces.dim(0);
  Tensor result = pieces[0];
  const DType type = pieces.elementType().id(), wide = InFloat(body) ? DType::kF32 : type;
  for (std::size_t k = 1; k < n;) {
    std::vector<Tensor> operands = {result};
    for (; k < n && operands.size() < kOperandsPerPass; ++k) operands.push_back(pieces[k]);
    const Expression fold =
        Fold(body, operands.size(), result.elementType().id(), wide, k == n ? type : wide);
    result = map(graph, fold, operands, {Tensor()}, prog, {debug, "reduce"}).at(0);
  }
  return result;
}

void CheckBody(const Tensor& data, const Expression& body, const DebugContext& debug) {
  const DType type = data.elementType().id();
  if (body.inputs != std::vector<DType>{type, type} || body.outputs.size() != 1 ||
      body.TypeOf(body.outputs[0]) != type) {
    throw poplar::poplar_error(debug.getPathName() + ": the body of the collective does not take two " +
                               data.elementType().toString() + " and return one");
  }
}

// Whether an all-gather followed by a full reduction on every replica is cheaper than a reduce-scatter
// followed by an all-gather.
bool GatherToReduce(const Graph& graph, std::size_t elements, DType type, const ReplicaGroups& groups,
                    LinkMethod method) {
  const std::size_t n = groups[0].size();
  if (elements < n || n == 1) return true;
  if (method != LinkMethod::kAuto) return method == LinkMethod::kBroadcast;
  const poplar::Target& target = graph.getTarget();
  const double bytes = static_cast<double>(elements) * static_cast<double>(SizeOf(type));
  const auto cycles = [&](LinkMethod how, double piece_bytes) {
    const auto links =
        CollectiveUse(how, true, groups, graph.getReplicationFactor(), piece_bytes, target.model());
    // n pieces are read and one is written, one word of the data path per cycle on each tile.
    const double reduction = static_cast<double>(n + 1) * piece_bytes / target.getNumTiles();
    return std::pair(static_cast<double>(TotalCycles(links, target.model())),
                     reduction / target.model().data_path_bytes);
  };
  const auto [gather, whole] = cycles(LinkMethod::kBroadcast, bytes);
  const auto [step, part] = cycles(LinkMethod::kAuto, bytes / static_cast<double>(n));
  return gather + whole <= 2 * step + part;
}

Expression SelectByNumber(std::size_t choices, DType type) {
  Expression select;
  select.inputs.assign(choices + 1, type);
  select.inputs[0] = DType::kU32;
  const auto first_code = static_cast<std::uint16_t>(2 * choices);
  std::uint16_t chosen = static_cast<std::uint16_t>(choices);
  for (std::size_t k = 0; k + 1 < choices; ++k) {
    ipu_model::ScalarConstant number;
    number.type = DType::kU32;
    number.bytes[0] = static_cast<unsigned char>(k & 0xff);
    number.bytes[1] = static_cast<unsigned char>(k >> 8);
    select.constants.push_back(number);
    Instruction equal;
    equal.op = ScalarOp::kEq;
    equal.operand_type = DType::kU32;
    equal.result_type = DType::kPred;
    equal.operand[1] = static_cast<std::uint16_t>(choices + 1 + k);
    Instruction choose;
    choose.op = ScalarOp::kSelect;
    choose.operand_type = choose.result_type = type;
    choose.operand[0] = static_cast<std::uint16_t>(first_code + 2 * k);
    choose.operand[1] = static_cast<std::uint16_t>(1 + k);
    choose.operand[2] = chosen;
    select.code.push_back(equal);
    select.code.push_back(choose);
    chosen = static_cast<std::uint16_t>(first_code + 2 * k + 1);
  }
  select.outputs = {chosen};
  return select;
}

// Reduces the groups of each size separately; each replica then selects the result of its own group's size.
Tensor AllReduceOfSizes(Graph& graph, const Tensor& data, const std::map<std::size_t, ReplicaGroups>& by_size,
                        const Expression& body, Sequence& prog, const DebugContext& debug,
                        const OptionFlags& options) {
  std::vector<std::uint32_t> number_of(graph.getReplicationFactor(), 0);
  std::vector<Tensor> operands(1);
  for (const auto& [size, groups] : by_size) {
    for (const std::vector<unsigned>& group : groups) {
      for (const unsigned member : group) {
        if (member >= number_of.size()) {
          throw poplar::poplar_error(debug.getPathName() + ": a group has replica " + std::to_string(member) +
                                     " of a graph with " + std::to_string(number_of.size()));
        }
        number_of[member] = static_cast<std::uint32_t>(operands.size() - 1);
      }
    }
    operands.push_back(allReduce(graph, data, groups, body, prog, debug, options).flatten());
  }
  const Tensor index = graph.addReplicationIndexConstant({debug, "replica"});
  const Tensor numbers =
      graph.addConstant(poplar::UNSIGNED_INT, {number_of.size()}, number_of.data(), {debug, "groups"});
  graph.setTileMapping(index, 0);
  graph.setTileMapping(numbers, 0);
  const Tensor mine = dynamicSlice(graph, numbers, {index}, {1}, prog, {debug, "group"});
  operands[0] = mine.broadcast(static_cast<unsigned>(data.numElements()), 0);
  const Expression select = SelectByNumber(operands.size() - 1, data.elementType().id());
  return map(graph, select, operands, {Tensor()}, prog, {debug, "select"}).at(0).reshape(data.shape());
}

}  // namespace

Tensor allGather(Graph& graph, const Tensor& data, std::size_t dimension, const ReplicaGroups& groups,
                 Sequence& prog, const DebugContext& debugContext, const OptionFlags& options) {
  CheckDimension(data, dimension, 1, debugContext);
  const Tensor first = data.dimRoll(static_cast<unsigned>(dimension), 0);
  const Tensor pieces = AddCollective(graph, CollectivePattern::kGather, AsOnePiece(first), groups, {},
                                      MethodOf(options), prog, debugContext, Received::kJoined);
  return JoinPieces(pieces, first.shape(), dimension);
}

Tensor allToAll(Graph& graph, const Tensor& data, std::size_t splitDimension, std::size_t concatDimension,
                const ReplicaGroups& groups, Sequence& prog, const DebugContext& debugContext,
                const OptionFlags& options) {
  const std::size_t n = GroupSize(groups, debugContext);
  CheckDimension(data, splitDimension, n, debugContext);
  CheckDimension(data, concatDimension, 1, debugContext);
  const Tensor parts =
      PartsFirst(data, splitDimension, n).dimRoll(static_cast<unsigned>(concatDimension) + 1, 1);
  const std::vector<std::size_t> piece(parts.shape().begin() + 1, parts.shape().end());
  const Tensor pieces =
      AddCollective(graph, CollectivePattern::kTranspose, parts.reshape({n, data.numElements() / n}), groups,
                    {}, MethodOf(options), prog, debugContext, Received::kJoined);
  return JoinPieces(pieces, piece, concatDimension);
}

Tensor reduceScatter(Graph& graph, const Tensor& data, std::size_t dimension, const ReplicaGroups& groups,
                     const Expression& body, Sequence& prog, const DebugContext& debugContext,
                     const OptionFlags& options) {
  const std::size_t n = GroupSize(groups, debugContext);
  CheckDimension(data, dimension, n, debugContext);
  CheckBody(data, body, debugContext);
  std::vector<std::size_t> piece = data.shape();
  piece[dimension] /= n;
  const Tensor parts = PartsFirst(data, dimension, n).reshape({n, data.numElements() / n});
  const Tensor pieces = AddCollective(graph, CollectivePattern::kReduce, parts, groups, {}, MethodOf(options),
                                      prog, debugContext);
  return ReducePieces(graph, pieces, body, prog, debugContext).reshape(piece);
}

Tensor allReduce(Graph& graph, const Tensor& data, const ReplicaGroups& groups, const Expression& body,
                 Sequence& prog, const DebugContext& debugContext, const OptionFlags& options) {
  const std::size_t elements = data.numElements();
  CheckBody(data, body, debugContext);
  std::map<std::size_t, ReplicaGroups> by_size;
  for (const std::vector<unsigned>& group : groups) by_size[group.size()].push_back(group);
  if (elements == 0) return data;
  if (by_size.size() > 1) return AllReduceOfSizes(graph, data, by_size, body, prog, debugContext, options);
  const std::size_t n = GroupSize(groups, debugContext);
  const LinkMethod method = MethodOf(options);
  if (GatherToReduce(graph, elements, data.elementType().id(), groups, method)) {
    const Tensor pieces = AddCollective(graph, CollectivePattern::kGather, AsOnePiece(data), groups, {},
                                        method, prog, debugContext);
    return ReducePieces(graph, pieces, body, prog, debugContext).reshape(data.shape());
  }
  // Every replica reduces one part. The padding of the last part is reduced as well and then dropped.
  const std::size_t filling = (n - elements % n) % n;
  Tensor flat = data.flatten();
  if (filling > 0) flat = poplar::concat(flat, flat.slice(0, filling));
  const Tensor own = reduceScatter(graph, flat, 0, groups, body, prog, debugContext, options);
  return allGather(graph, own, 0, groups, prog, debugContext, options)
      .slice(0, elements)
      .reshape(data.shape());
}

std::vector<Tensor> allReduce(Graph& graph, const std::vector<Tensor>& datas, const ReplicaGroups& groups,
                              const Expression& body, Sequence& prog, const DebugContext& debugContext,
                              const OptionFlags& options) {
  if (datas.size() == 1) return {allReduce(graph, datas[0], groups, body, prog, debugContext, options)};
  std::vector<Tensor> flat;
  for (const Tensor& data : datas) {
    CheckBody(data, body, debugContext);
    flat.push_back(data.flatten());
  }
  if (flat.empty()) return {};
  const Tensor all = allReduce(graph, poplar::concat(flat), groups, body, prog, debugContext, options);
  std::vector<Tensor> results;
  std::size_t begin = 0;
  for (const Tensor& data : datas) {
    const std::size_t end = begin + data.numElements();
    results.push_back(all.slice(begin, end).reshape(data.shape()));
    begin = end;
  }
  return results;
}

Tensor permute(Graph& graph, const Tensor& data, const std::vector<int>& sources, Sequence& prog,
               const DebugContext& debugContext) {
  std::vector<unsigned> all(sources.size());
  for (std::size_t r = 0; r < all.size(); ++r) all[r] = static_cast<unsigned>(r);
  return AddCollective(graph, CollectivePattern::kPermute, AsOnePiece(data), {all}, sources,
                       LinkMethod::kAuto, prog, debugContext)
      .reshape(data.shape());
}

Tensor broadcast(Graph& graph, const Tensor& data, const ReplicaGroups& groups, Sequence& prog,
                 const DebugContext& debugContext) {
  std::vector<int> sources;
  for (const std::vector<unsigned>& group : groups) {
    for (const unsigned member : group) {
      if (member >= sources.size()) sources.resize(member + 1, -1);
      sources[member] = static_cast<int>(group[0]);
    }
  }
  return AddCollective(graph, CollectivePattern::kPermute, AsOnePiece(data), groups, sources,
                       LinkMethod::kAuto, prog, debugContext)
      .reshape(data.shape());
}

}  // namespace hlo
