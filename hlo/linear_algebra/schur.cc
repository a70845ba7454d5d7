#include "linear_algebra/schur.h"

#include <string>

#include "codelets.h"
#include "planned.h"
#include "storage.h"

namespace hlo {

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;

void expandSchur(Graph& graph, bool balanced, const Tensor& a, const std::vector<Tensor>& out,
                 const Plan& plan, poplar::program::Sequence& prog,
                 const poplar::DebugContext& debugContext) {
  constexpr const char* kFunction = "schur";
  const poplar::Type type = singleAs(DTypeOf(a.elementType()), kFunction);
  const auto n = static_cast<unsigned>(a.dim(a.rank() - 1));
  const auto codeletOf = [&](const PlannedGroup&) {
    PlannedCodelet codelet;
    codelet.source = kSchurCodelets;
    codelet.vertexClass =
        std::string(out.size() > 1 ? "hlo::SchurVectors<" : "hlo::Schur<") + cppName(type) + ">";
    codelet.reads = {"in"};
    codelet.writes = {"t"};
    if (out.size() > 1) codelet.writes.push_back("z");
    codelet.set = [=](Graph& g, const VertexRef& ref, const PlannedVertex&) {
      g.setInitialValue(ref["n"], n);
      g.setInitialValue(ref["balanced"], balanced);
    };
    return codelet;
  };
  std::vector<Tensor> results;
  for (const Tensor& t : out) results.push_back(t.reinterpret(type));
  expandPlan(
      graph, plan, {a.reinterpret(type)}, results, [](DType t) { return storedAs(t, kFunction); }, codeletOf,
      prog, debugContext);
}

}  // namespace hlo
