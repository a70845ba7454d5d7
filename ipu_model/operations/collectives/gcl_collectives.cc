// Graphcore's collective functions (gcl), in terms of the general ones.
#include <map>
#include <string>

#include "gcl/Collectives.hpp"
#include "hlo/Collectives.hpp"
#include "kernels/elementwise/program/expression.h"
#include "poplar/exceptions.hpp"

namespace gcl {
namespace {

using ipu_model::DType;
using ipu_model::Expression;
using ipu_model::ScalarOp;
using poplar::DebugContext;
using poplar::Graph;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::program::Sequence;

// Returns the groups with their members in ascending order.
hlo::ReplicaGroups GroupsOf(const Graph& graph, const CommGroup& group, const DebugContext& debug) {
  const unsigned replicas = graph.getReplicationFactor();
  unsigned size = replicas, stride = 1;
  if (group.type != CommGroupType::ALL) {
    size = group.replicaGroupSize;
    stride = group.replicaGroupStride;
    if (group.type == CommGroupType::ORTHOGONAL && size > 0) stride = replicas / size;
    if (size == 0 || stride == 0 || replicas % size != 0 || (replicas / size) % stride != 0) {
      throw poplar::poplar_error(debug.getPathName() + ": groups of " + std::to_string(size) +
                                 " with stride " + std::to_string(stride) + " do not divide " +
                                 std::to_string(replicas) + " replicas");
    }
  }
  hlo::ReplicaGroups groups;
  for (unsigned block = 0; block < replicas; block += size * stride) {
    for (unsigned first = block; first < block + stride; ++first) {
      std::vector<unsigned>& members = groups.emplace_back();
      for (unsigned i = 0; i < size; ++i) members.push_back(first + i * stride);
    }
  }
  return groups;
}

std::size_t SizeOfGroup(const Graph& graph, const CommGroup& group) {
  return group.type == CommGroupType::ALL ? graph.getReplicationFactor() : group.replicaGroupSize;
}

bool TakesType(CollectiveOperator op, DType type) {
  switch (op) {
    case CollectiveOperator::LOGICAL_AND:
    case CollectiveOperator::LOGICAL_OR:
      return type == DType::kPred;
    case CollectiveOperator::MIN:
    case CollectiveOperator::MAX:
      if (type == DType::kU32) return true;
      break;
    default:
      break;
  }
  return type == DType::kF32 || type == DType::kF16 || type == DType::kS32 || type == DType::kS64 ||
         type == DType::kU64;
}

Expression BodyOf(CollectiveOperator op, const poplar::Type& type, const DebugContext& debug) {
  static const std::map<CollectiveOperator, ScalarOp> operations = {
      {CollectiveOperator::ADD, ScalarOp::kAdd},         {CollectiveOperator::MUL, ScalarOp::kMultiply},
      {CollectiveOperator::MIN, ScalarOp::kMinimum},     {CollectiveOperator::MAX, ScalarOp::kMaximum},
      {CollectiveOperator::LOGICAL_AND, ScalarOp::kAnd}, {CollectiveOperator::LOGICAL_OR, ScalarOp::kOr}};
  const auto found = operations.find(op);
  if (found == operations.end()) {
    throw poplar::poplar_error(debug.getPathName() +
                               ": the model has no collective reduction with MEAN, SQUARE_ADD or LOCAL");
  }
  if (!TakesType(op, type.id())) {
    throw poplar::poplar_error(debug.getPathName() + ": the operator of the collective does not support " +
                               type.toString());
  }
  ipu_model::Instruction combine;
  combine.op = found->second;
  combine.operand_type = combine.result_type = type.id();
  combine.operand[1] = 1;
  Expression body;
  body.inputs = {type.id(), type.id()};
  body.code = {combine};
  body.outputs = {2};
  return body;
}

}  // namespace

Tensor allReduceCrossReplica(Graph& graph, const Tensor& data, CollectiveOperator op, Sequence& prog,
                             const CommGroup& group, const DebugContext& debugContext,
                             const OptionFlags& options) {
  return hlo::allReduce(graph, data, GroupsOf(graph, group, debugContext),
                        BodyOf(op, data.elementType(), debugContext), prog, debugContext, options);
}

Tensor allReduceCrossReplica(Graph& graph, const Tensor& data, CollectiveOperator op, Sequence& prog,
                             const DebugContext& debugContext, const OptionFlags& options) {
  return allReduceCrossReplica(graph, data, op, prog, CommGroup(), debugContext, options);
}

std::vector<Tensor> allReduceCrossReplica(Graph& graph, const std::vector<Tensor>& datas,
                                          CollectiveOperator op, Sequence& prog, const CommGroup& group,
                                          const DebugContext& debugContext, const OptionFlags& options) {
  const hlo::ReplicaGroups groups = GroupsOf(graph, group, debugContext);
  std::map<DType, std::vector<std::size_t>> by_type;
  for (std::size_t i = 0; i < datas.size(); ++i) by_type[datas[i].elementType().id()].push_back(i);
  std::vector<Tensor> results(datas.size());
  for (const auto& [type, positions] : by_type) {
    std::vector<Tensor> alike;
    for (const std::size_t i : positions) alike.push_back(datas[i]);
    const Expression body = BodyOf(op, poplar::Type(type), debugContext);
    alike = hlo::allReduce(graph, alike, groups, body, prog, debugContext, options);
    for (std::size_t k = 0; k < positions.size(); ++k) results[positions[k]] = alike[k];
  }
  return results;
}

Tensor reduceScatterCrossReplica(Graph& graph, const Tensor& data, CollectiveOperator op, Sequence& prog,
                                 const CommGroup& group, const DebugContext& debugContext,
                                 const OptionFlags& options) {
  const hlo::ReplicaGroups groups = GroupsOf(graph, group, debugContext);
  const std::size_t k = SizeOfGroup(graph, group), elements = data.numElements();
  if (data.rank() != 1) {
    throw poplar::poplar_error(debugContext.getPathName() + ": a reduce-scatter takes one dimension, not " +
                               data.shapeToString());
  }
  Tensor whole = data;
  if (const std::size_t filling = (k - elements % k) % k) {
    const std::vector<unsigned char> zeros(filling * SizeOf(data.elementType().id()), 0);
    const Tensor zero = graph.addConstant(data.elementType(), {filling},
                                          static_cast<const void*>(zeros.data()), {debugContext, "filling"});
    graph.setTileMapping(zero, 0);
    whole = poplar::concat(data, zero);
  }
  return hlo::reduceScatter(graph, whole, 0, groups, BodyOf(op, data.elementType(), debugContext), prog,
                            debugContext, options);
}

Tensor allGatherCrossReplica(Graph& graph, const Tensor& data, Sequence& prog, const CommGroup& group,
                             const DebugContext& debugContext, const OptionFlags& options) {
  return hlo::allGather(graph, data.expand({0}), 0, GroupsOf(graph, group, debugContext), prog, debugContext,
                        options);
}

Tensor allToAllCrossReplica(Graph& graph, const Tensor& data, Sequence& prog, const CommGroup& group,
                            const DebugContext& debugContext, const OptionFlags& options) {
  if (data.rank() == 0 || data.dim(0) != SizeOfGroup(graph, group)) {
    throw poplar::poplar_error(debugContext.getPathName() + ": the first dimension of " +
                               data.shapeToString() + " is not the number of replicas in a group");
  }
  return hlo::allToAll(graph, data, 0, 0, GroupsOf(graph, group, debugContext), prog, debugContext, options);
}

}  // namespace gcl
