#include "operations/collectives/replica_collective.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "kernels/copy/strided_copy.h"
#include "kernels/elementwise/fill.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

HostTensor Piece(const HostTensor& tensor, std::int64_t piece) {
  std::int64_t begin[kMaxRank] = {piece}, shape[kMaxRank];
  std::copy(tensor.shape, tensor.shape + tensor.rank, shape);
  shape[0] = 1;
  return SubTensor(tensor, begin, shape);
}

}  // namespace

ReplicaCollective::ReplicaCollective(CollectivePattern pattern, ReplicaGroups groups,
                                     std::vector<int> sources, unsigned replicas, LinkMethod method)
    : pattern_(pattern),
      groups_(std::move(groups)),
      sources_(std::move(sources)),
      replicas_(replicas),
      method_(method) {}

void ReplicaCollective::Write(Writer& writer) const {
  writer.Write(pattern_);
  writer.Write(groups_);
  writer.Write(sources_);
  writer.Write(replicas_);
  writer.Write(method_);
}

bool ReplicaCollective::OperandsFit(unsigned /*num_tiles*/) const {
  return inputs.size() == 1 && outputs.size() == 1 && replicas_ <= 4096;
}

void ReplicaCollective::Prepare() {
  const auto fail = [this](const char* what) {
    throw poplar::poplar_error(name + ": collective operation: " + what);
  };
  const Shape &in = inputs[0].shape, &out = outputs[0].shape;
  if (in.empty() || in.size() != out.size() || inputs[0].type != outputs[0].type ||
      !std::equal(in.begin() + 1, in.end(), out.begin() + 1))
    fail("operand and result do not match");
  const std::size_t members = groups_.empty() ? 0 : groups_[0].size();
  std::vector<unsigned> all;
  for (const std::vector<unsigned>& group : groups_) {
    if (group.empty() || group.size() != members) fail("the groups must have the same size");
    all.insert(all.end(), group.begin(), group.end());
  }
  std::sort(all.begin(), all.end());
  if (std::adjacent_find(all.begin(), all.end()) != all.end()) fail("a replica is in two groups");
  if (!all.empty() && all.back() >= replicas_) fail("a group has more replicas than the graph");
  const auto n = static_cast<std::int64_t>(members);
  const bool many_in = pattern_ == CollectivePattern::kTranspose || pattern_ == CollectivePattern::kReduce;
  const bool many_out = pattern_ != CollectivePattern::kPermute;
  if (in[0] != (many_in ? n : 1) || out[0] != (many_out ? n : 1)) fail("wrong number of pieces");
  for (const int source : sources_) {
    if (source >= 0 && !std::binary_search(all.begin(), all.end(), static_cast<unsigned>(source)))
      fail("a source replica is in no group");
  }
}

void ReplicaCollective::Communicate(HostContext& context, const Replica& replica,
                                    const std::vector<HostTensor>& in,
                                    const std::vector<HostTensor>& out) const {
  const std::vector<unsigned>* members = nullptr;
  std::size_t position = 0;
  for (const std::vector<unsigned>& group : groups_) {
    const auto found = std::find(group.begin(), group.end(), replica.index);
    if (found == group.end()) continue;
    members = &group;
    position = static_cast<std::size_t>(found - group.begin());
  }
  if (members == nullptr) {
    const unsigned char zero[16] = {};
    return Fill(context, zero, out[0]);
  }
  const auto part = [&](const HostTensor& tensor, std::size_t giver,
                        std::size_t taker) -> std::optional<HostTensor> {
    if (pattern_ == CollectivePattern::kGather) return tensor;
    if (pattern_ != CollectivePattern::kPermute) return Piece(tensor, static_cast<std::int64_t>(taker));
    const unsigned to = (*members)[taker];
    const int source = to < sources_.size() ? sources_[to] : -1;
    if (source != static_cast<int>((*members)[giver])) return std::nullopt;
    return tensor;
  };
  const auto take = [&](const Meetings::Parts& parts) {
    if (pattern_ != CollectivePattern::kPermute) {
      for (std::size_t p = 0; p < parts.size(); ++p) {
        if (parts[p]) CopyTensor(context, *parts[p], Piece(out[0], static_cast<std::int64_t>(p)));
      }
      return;
    }
    const auto from =
        std::find_if(parts.begin(), parts.end(), [](const auto& given) { return given.has_value(); });
    if (from == parts.end()) {
      const unsigned char zero[16] = {};
      return Fill(context, zero, out[0]);
    }
    CopyTensor(context, **from, out[0]);
  };
  if (members->size() == 1) return take({part(in[0], 0, 0)});
  if (replica.group == nullptr) {
    throw poplar::poplar_error("'" + name + "' needs " + std::to_string(members->size()) +
                               " replicas, but the program runs on one");
  }
  // The result's variable is the same in all replicas and of no other collective.
  replica.group->meetings().Meet(outputs[0].variable, *members, position, in[0], part, take);
}

LinkUse ReplicaCollective::Links(const TargetModel& target) const {
  const auto pieces = static_cast<double>(std::max<std::int64_t>(1, inputs[0].shape[0]));
  const double piece =
      static_cast<double>(inputs[0].num_elements()) * static_cast<double>(SizeOf(inputs[0].type)) / pieces;
  if (pattern_ != CollectivePattern::kPermute) {
    return CollectiveUse(method_, pattern_ != CollectivePattern::kTranspose, groups_, replicas_, piece,
                         target);
  }
  if (groups_.empty() || groups_[0].size() == 1) return {};
  return PermutationUse(sources_, replicas_, piece, target);
}

void ReplicaCollective::Expand(const hlo::Expansions& library, poplar::Graph& graph,
                               const std::vector<poplar::Tensor>& in, const std::vector<poplar::Tensor>& out,
                               poplar::program::Sequence& prog) const {
  using Pattern = hlo::Collective::Pattern;
  const Pattern pattern = pattern_ == CollectivePattern::kGather    ? Pattern::kGather
                          : pattern_ == CollectivePattern::kPermute ? Pattern::kPermute
                                                                    : Pattern::kExchange;
  library.collective(graph, {pattern, groups_, sources_}, in[0], out[0], prog, name);
}

std::unique_ptr<Operation> ReadReplicaCollective(Reader& reader) {
  const auto pattern = reader.Read<CollectivePattern>();
  auto groups = reader.Read<ReplicaGroups>();
  auto sources = reader.Read<std::vector<int>>();
  const auto replicas = reader.Read<unsigned>();
  const auto method = reader.Read<LinkMethod>();
  return std::make_unique<ReplicaCollective>(pattern, std::move(groups), std::move(sources), replicas,
                                             method);
}

}  // namespace ipu_model
