#include "linear_algebra/implicit_qr.h"

#include <algorithm>
#include <string>

#include "codelets.h"
#include "planned.h"
#include "storage.h"

namespace hlo {

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;

void expandImplicitQr(Graph& graph, bool bidiagonal, const std::vector<Tensor>& inputs,
                      const std::vector<Tensor>& outputs, const Plan& plan, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext) {
  constexpr const char* kFunction = "implicit_qr";
  const Tensor& d = inputs[0];
  const poplar::Type type = singleAs(DTypeOf(d.elementType()), kFunction);
  const auto n = static_cast<unsigned>(d.dim(d.rank() - 1));
  const unsigned workers = graph.getTarget().getNumWorkerContexts();
  const auto codeletOf = [&](const PlannedGroup& group) {
    if (group.codelet == "hlo::ImplicitQrMatrices") {
      PlannedCodelet whole;
      whole.source = kImplicitQrCodelets;
      whole.vertexClass = std::string("hlo::ImplicitQrMatrices") + (outputs.size() > 2   ? "BothSides"
                                                                    : outputs.size() > 1 ? "Rows"
                                                                    : bidiagonal         ? "<true>"
                                                                                         : "<false>");
      whole.reads = {"d", "e"};
      whole.writes = {"values"};
      const std::vector<std::string> rows = {"rows", "rightRows"}, results = {"out", "rightOut"};
      for (std::size_t i = 1; i < outputs.size(); ++i) {
        whole.reads.push_back(rows[i - 1]);
        whole.writes.push_back(results[i - 1]);
      }
      whole.set = [=](Graph& g, const VertexRef& ref, const PlannedVertex&) {
        g.setInitialValue(ref["n"], n);
        g.setFieldSize(ref["work"], std::size_t{n} * workers);
        const char* const fields[] = {"columns", "rightColumns"};
        for (std::size_t i = 1; i < outputs.size(); ++i)
          g.setInitialValue(ref[fields[i - 1]], static_cast<unsigned>(outputs[i].dim(outputs[i].rank() - 1)));
      };
      return whole;
    }
    const unsigned output = group.writes[0].index;  // the values, the rows from the left, from the right
    PlannedCodelet codelet;
    codelet.vertexClass = std::string(output == 0 ? "hlo::ImplicitQrValues" : "hlo::ImplicitQr") +
                          (bidiagonal ? "<true>" : "<false>");
    codelet.source = kImplicitQrCodelets;
    codelet.reads = {"d", "e"};
    codelet.writes = {output == 0 ? "values" : "out"};
    if (output > 0) codelet.reads.push_back("rows");
    codelet.set = [=](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
      g.setInitialValue(ref["n"], n);
      if (output == 0) return g.setFieldSize(ref["work"], n);
      const auto columns = static_cast<unsigned>(v.writes[0].extent(v.writes[0].begin.size() - 1));
      g.setFieldSize(ref["work"], std::size_t{2} * n * std::min(workers, columns));
      g.setInitialValue(ref["columns"], columns);
      g.setInitialValue(ref["right"], output == 2);
    };
    return codelet;
  };
  std::vector<Tensor> in, out;
  for (const Tensor& t : inputs) in.push_back(t.reinterpret(type));
  for (const Tensor& t : outputs) out.push_back(t.reinterpret(type));
  expandPlan(
      graph, plan, in, out, [](DType t) { return storedAs(t, kFunction); }, codeletOf, prog, debugContext);
}

}  // namespace hlo
