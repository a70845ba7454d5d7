#include "collectives/collectives.h"

#include <algorithm>
#include <map>
#include <string>

#include "codelets.h"
#include "hlo/Cost.hpp"
#include "parts.h"
#include "storage.h"

namespace hlo {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;
using poplar::program::Sequence;

constexpr unsigned kNoPiece = ~0u;

// What the replicas of one collective share.
class Collectives {
 public:
  Collectives(Graph& graph, const Collective& collective, const Tensor& pieces, Sequence& prog,
              const poplar::DebugContext& debugContext)
      : graph_(graph), collective_(collective), prog_(prog), debugContext_(debugContext) {
    type_ = bitsOf(DTypeOf(pieces.elementType()), "collective");
    pieces_ = pieces.reinterpret(type_);
    vertexClass_ = "hlo::SelectPieces<" + cppName(type_) + ">";
    addCodelets(graph, vertexClass_, kCollectivesCodelets);
    index_ = graph.addReplicationIndexConstant({debugContext, "replica"});
    graph.setTileMapping(index_, 0);
    position_.assign(graph.getReplicationFactor(), kNoPiece);
    for (const std::vector<unsigned>& group : collective.groups)
      for (unsigned p = 0; p < group.size(); ++p) position_[group[p]] = p;
  }

  // Every member gets a piece of every other, or the piece that the other has for it.
  void exchange(const Tensor& out) {
    const auto members = static_cast<unsigned>(collective_.groups.at(0).size());
    const bool gathers = collective_.pattern == Collective::Pattern::kGather;
    // Piece k is for the member k places further on, and what is received is from k places before.
    Tensor sent = pieces_;
    if (!gathers) {
      sent = newPieces("sent", members);
      select(pieces_, sent, [&](unsigned position, unsigned k) { return (position + k) % members; });
    }
    const Tensor received = newPieces("received", members);
    prog_.add(poplar::program::Copy(sent[0], received[0], false, debugContext_));
    for (unsigned k = 1; k < members; ++k) {
      std::map<unsigned, unsigned> to;
      for (unsigned r = 0; r < position_.size(); ++r) to[r] = r;
      for (const std::vector<unsigned>& group : collective_.groups)
        for (unsigned p = 0; p < members; ++p) to[group[p]] = group[(p + k) % members];
      prog_.add(
          poplar::program::CrossReplicaCopy(gathers ? sent[0] : sent[k], received[k], to, debugContext_));
    }
    select(received, out.reinterpret(type_), [&](unsigned position, unsigned from) {
      return position == kNoPiece ? kNoPiece : (position + members - from) % members;
    });
  }

  // In each round every replica sends to one other: a source with several receivers takes as many rounds.
  void permute(const Tensor& out) {
    const auto replicas = static_cast<unsigned>(position_.size());
    std::vector<unsigned> round(replicas, kNoPiece), sends(replicas, 0);
    std::vector<std::map<unsigned, unsigned>> rounds;
    for (unsigned r = 0; r < replicas; ++r) {
      const int source =
          position_[r] != kNoPiece && r < collective_.sources.size() ? collective_.sources[r] : -1;
      if (source < 0) continue;
      round[r] = sends[static_cast<unsigned>(source)]++;
      if (round[r] == rounds.size()) rounds.emplace_back();
      rounds[round[r]][static_cast<unsigned>(source)] = r;
    }
    const Tensor received =
        newPieces("received", static_cast<unsigned>(std::max<std::size_t>(1, rounds.size())));
    for (unsigned k = 0; k < rounds.size(); ++k) {
      complete(&rounds[k], replicas);
      prog_.add(poplar::program::CrossReplicaCopy(pieces_[0], received[k], rounds[k], debugContext_));
    }
    if (rounds.empty()) prog_.add(poplar::program::Copy(pieces_[0], received[0], false, debugContext_));
    selectByReplica(received, out.reinterpret(type_), 1, round);
  }

 private:
  // Every replica sends and receives.
  static void complete(std::map<unsigned, unsigned>* to, unsigned replicas) {
    std::vector<bool> receives(replicas, false);
    for (const auto& pair : *to) receives[pair.second] = true;
    unsigned free = 0;
    for (unsigned r = 0; r < replicas; ++r) {
      if (to->count(r) > 0) continue;
      while (receives[free]) ++free;
      (*to)[r] = free;
      receives[free] = true;
    }
  }

  // The part of each tile: the same elements of all pieces.
  std::vector<Part> columns(unsigned pieces) const {
    const std::size_t elements = pieces_.dim(1), tiles = graph_.getTarget().getNumTiles();
    const std::size_t each = ((elements + tiles - 1) / tiles + 7) / 8 * 8;
    std::vector<Part> parts;
    for (std::size_t begin = 0; begin < elements; begin += each)
      parts.push_back(
          {static_cast<unsigned>(parts.size()), {0, begin}, {pieces, std::min(elements, begin + each)}});
    return parts;
  }

  Tensor newPieces(const char* name, unsigned pieces) {
    const Tensor variable = graph_.addVariable(type_, {pieces, pieces_.dim(1)}, {debugContext_, name});
    for (const Part& part : columns(pieces))
      graph_.setTileMapping(variable.slice(part.begin, part.end), part.tile);
    return variable;
  }

  template <typename Choose>
  void select(const Tensor& from, const Tensor& to, const Choose& choose) {
    std::vector<unsigned> choice;
    const auto outs = static_cast<unsigned>(to.dim(0));
    for (const unsigned position : position_)
      for (unsigned p = 0; p < outs; ++p)
        choice.push_back(position == kNoPiece ? kNoPiece : choose(position, p));
    selectByReplica(from, to, outs, choice);
  }
  void selectByReplica(const Tensor& from, const Tensor& to, unsigned outs,
                       const std::vector<unsigned>& choice) {
    const poplar::ComputeSet computeSet = graph_.addComputeSet({debugContext_, "select"});
    for (const Part& part : columns(outs)) {
      const VertexRef vertex = addVertex(graph_, computeSet, vertexClass_, part,
                                         iotaCycles(graph_.getTarget(), DTypeOf(type_), part.elements()));
      Part source = part;
      source.end[0] = from.dim(0);
      graph_.connect(vertex["pieces"], source.of(from));
      graph_.connect(vertex["replica"], index_.reshape({}));
      graph_.connect(vertex["out"], part.of(to));
      graph_.setInitialValue(vertex["choice"], choice);
      graph_.setInitialValue(vertex["outs"], outs);
    }
    prog_.add(poplar::program::Execute(computeSet, debugContext_));
  }

  Graph& graph_;
  const Collective& collective_;
  Sequence& prog_;
  const poplar::DebugContext& debugContext_;
  poplar::Type type_;
  Tensor pieces_, index_;
  std::string vertexClass_;
  std::vector<unsigned> position_;  // by replica: in its group
};

}  // namespace

void expandCollective(Graph& graph, const Collective& collective, const Tensor& pieces, const Tensor& out,
                      Sequence& prog, const poplar::DebugContext& debugContext) {
  const auto flat = [](const Tensor& tensor) { return tensor.flatten(1, tensor.rank()); };
  Collectives all(graph, collective, flat(pieces), prog, debugContext);
  if (collective.pattern == Collective::Pattern::kPermute)
    all.permute(flat(out));
  else
    all.exchange(flat(out));
}

}  // namespace hlo
