#include "linear_algebra/cholesky_columns.h"

#include <string>

#include "codelets.h"
#include "planned.h"
#include "storage.h"

namespace hlo {

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;

void expandCholeskyColumns(Graph& graph, const Tensor& a, const Tensor& out, bool lower, const Plan& plan,
                           poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  constexpr const char* kFunction = "cholesky";
  const poplar::Type type = singleAs(DTypeOf(a.elementType()), kFunction);
  const std::size_t rows = a.rank() - 2, columns = a.rank() - 1;
  const auto codeletOf = [&](const PlannedGroup& group) {
    const bool loads = !isTemporary(group.reads[0]), stores = !isTemporary(group.writes[0]);
    PlannedCodelet codelet;
    codelet.source = kLinearAlgebraCodelets;
    codelet.vertexClass = std::string("hlo::") +
                          (loads    ? "CopyMatrix"
                           : stores ? "CholeskyStore"
                                    : "CholeskyColumn") +
                          "<" + cppName(type) + ">";
    codelet.reads = loads    ? std::vector<std::string>{"from"}
                    : stores ? std::vector<std::string>{"last", "factor"}
                             : std::vector<std::string>{"", "pivot"};
    codelet.writes = {loads ? "to" : stores ? "out" : "rows"};
    codelet.set = [=](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
      const Region& own = v.writes[0];
      const auto set = [&](const char* field, std::size_t value) {
        g.setInitialValue(ref[field], static_cast<unsigned>(value));
      };
      set("columns", own.extent(columns));
      if (loads || stores) set("rows", own.extent(rows));
      if (loads) g.setInitialValue(ref["adjoint"], !lower);
      if (stores) {
        set("firstRow", own.begin[rows]);
        set("firstColumn", own.begin[columns]);
        g.setInitialValue(ref["lower"], lower);
      }
      if (!loads && !stores) g.setInitialValue(ref["hasPivot"], own.begin[rows] == v.reads[1].begin[rows]);
    };
    return codelet;
  };
  expandPlan(
      graph, plan, {a.reinterpret(type)}, {out.reinterpret(type)},
      [](DType t) { return singleAs(t, kFunction); }, codeletOf, prog, debugContext);
}

}  // namespace hlo
