#include "index/gather_rounds.h"

#include <string>
#include <utility>

#include "codelets.h"
#include "planned.h"
#include "storage.h"

namespace hlo {
namespace {

using poplar::Graph;
using poplar::VertexRef;

// The temporaries whose numbers the plan does not change (ipu_model/operations/index/gather_rounds_plan.cc).
enum : unsigned { kTrip = 3, kBlocks = 4 };

bool isTemporary(const PlannedTensor& tensor, unsigned number) {
  return hlo::isTemporary(tensor) && tensor.index == number;
}

void setFinder(Graph& graph, const VertexRef& ref, const GatherRounds& rounds) {
  const std::vector<unsigned> begins(rounds.rowBegins.begin(), rounds.rowBegins.end());
  graph.setInitialValue(ref["begins"], begins);
  graph.setInitialValue(ref["partsOfRow"],
                        static_cast<float>(begins.size() - 1) / static_cast<float>(begins.back()));
  graph.setInitialValue(ref["wrap"], static_cast<int>(rounds.wrap));
  graph.setInitialValue(ref["limit"], static_cast<int>(rounds.limit));
  graph.setInitialValue(ref["groupShift"], rounds.groupShift);
  graph.setInitialValue(ref["shares"], rounds.shares);
}

}  // namespace

PlannedCodelet roundsCodelet(const std::string& name, std::vector<std::string> reads,
                             std::vector<std::string> writes) {
  PlannedCodelet codelet;
  codelet.vertexClass = "hlo::" + name;
  codelet.source = std::string(kGatherRoundsCodelets) + "template class " + codelet.vertexClass + ";\n";
  codelet.reads = std::move(reads);
  codelet.writes = std::move(writes);
  codelet.set = [](Graph&, const VertexRef&, const PlannedVertex&) {};
  return codelet;
}

PlannedCodelet orderCodelet(const GatherRounds& rounds, const std::string& index) {
  PlannedCodelet codelet =
      roundsCodelet("GatherOrder<" + index + ">", {"indices"}, {"entries", "ends", "next"});
  codelet.set = [&rounds](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
    setFinder(g, ref, rounds);
    g.setInitialValue(ref["drops"], rounds.drops);
    g.setInitialValue(ref["blockShift"], rounds.blockShift);
    g.setInitialValue(ref["placeBits"], rounds.placeBits);
    g.setInitialValue(ref["share"], static_cast<unsigned>(v.box.begin[1]));
    g.setInitialValue(ref["steps"], rounds.steps);
    g.setInitialValue(ref["buckets"], rounds.buckets);
  };
  return codelet;
}

void expandGatherRounds(Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& indices,
                        const poplar::Tensor& out, const GatherPlan& plan, poplar::program::Sequence& prog,
                        const poplar::DebugContext& debugContext) {
  const std::string function = "gather";
  const GatherRounds& rounds = *plan.rounds;
  const poplar::Type bits = bitsOf(DTypeOf(out.elementType()), function);
  const poplar::Type index = storedAs(DTypeOf(indices.elementType()), function);
  const std::string element = "<" + cppName(bits) + ">";
  std::size_t width = 1;
  for (unsigned d = 1; d < operand.rank(); ++d) width *= operand.dim(d);

  const auto codeletOf = [&](const PlannedGroup& group) {
    if (group.reads.empty()) return roundsCodelet("GatherStart<unsigned>", {}, {"trip"});
    if (isTemporary(group.reads[0], kBlocks)) {
      PlannedCodelet codelet = roundsCodelet("GatherLookUpBlock" + element,
                                             {"blocks", "entries", "ends", "", ""}, {"out", "next"});
      codelet.set = [&](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
        unsigned columns = 1;  // of the vertex: behind parts and rows
        for (std::size_t d = 2; d < v.reads[0].begin.size(); ++d)
          columns *= static_cast<unsigned>(v.reads[0].extent(d));
        g.setInitialValue(ref["width"], columns);
        g.setInitialValue(ref["buckets"], rounds.buckets);
        g.setInitialValue(ref["placeBits"], rounds.placeBits);
      };
      return codelet;
    }
    if (group.reads.size() == 2 && isTemporary(group.reads[1], kTrip))
      return roundsCodelet("GatherTakeBlock" + element, {"rows", ""}, {"block", "trip"});
    if (group.reads.size() == 2) {
      PlannedCodelet codelet = roundsCodelet("GatherPickShare<" + cppName(bits) + ", " + cppName(index) + ">",
                                             {"partial", "indices"}, {"out"});
      codelet.set = [&](Graph& g, const VertexRef& ref, const PlannedVertex&) {
        setFinder(g, ref, rounds);
        g.setInitialValue(ref["width"], static_cast<unsigned>(width));
      };
      return codelet;
    }
    if (group.reads[0].index == 0) return roundsCodelet("GatherRows" + element, {"rows"}, {"held"});
    return orderCodelet(rounds, cppName(index));
  };
  const auto stored = [&](ipu_model::DType type) {
    return type == DTypeOf(out.elementType()) ? bits : storedAs(type, function);
  };
  expandPlan(graph, plan.plan, {operand.reinterpret(bits), indices.reinterpret(index)},
             {out.reinterpret(bits)}, stored, codeletOf, prog, debugContext);
}

}  // namespace hlo
