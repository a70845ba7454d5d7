#include "linear_algebra/lu_panel.h"

#include <string>

#include "codelets.h"
#include "planned.h"
#include "storage.h"

namespace hlo {

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;

void expandLuPanel(Graph& graph, const Tensor& a, const Tensor& factors, const Tensor& pivots,
                   const Tensor& order, const Plan& plan, poplar::program::Sequence& prog,
                   const poplar::DebugContext& debugContext) {
  constexpr const char* kFunction = "lu_panel";
  const poplar::Type type = singleAs(DTypeOf(a.elementType()), kFunction);
  const std::size_t columns = a.dim(a.rank() - 1), rowDimension = a.rank() - 2, rows = a.dim(rowDimension);
  enum { kFactors, kPivots, kOrder };  // outputs
  unsigned column = 0;                 // of the steps, one for each
  const auto codeletOf = [&](const PlannedGroup& group) {
    if (group.codelet == "hlo::LuPanels") {
      PlannedCodelet whole;
      whole.source = kLuPanelCodelets;
      whole.vertexClass = "hlo::LuPanels<" + cppName(type) + ">";
      whole.reads = {"in"};
      whole.writes = {"factors", "pivots", "order"};
      whole.set = [=](Graph& g, const VertexRef& ref, const PlannedVertex&) {
        g.setInitialValue(ref["rows"], static_cast<unsigned>(rows));
        g.setInitialValue(ref["columns"], static_cast<unsigned>(columns));
      };
      return whole;
    }
    const bool loads = group.reads[0].kind == PlannedTensor::Kind::kInput,
               orders = !isTemporary(group.writes[0]) && group.writes[0].index == kOrder,
               notes = !isTemporary(group.writes[0]) && group.writes[0].index == kPivots;
    PlannedCodelet codelet;
    codelet.source = kLuPanelCodelets;
    const char* const name = loads ? "LuPanelLoad" : notes ? "LuPanelPivot" : "LuPanelStep";
    codelet.vertexClass =
        orders ? "hlo::LuPanelOrder" : std::string("hlo::") + name + "<" + cppName(type) + ">";
    if (orders) {
      codelet.reads = {"pivots"};
      codelet.writes = {"order"};
      codelet.set = [](Graph&, const VertexRef&, const PlannedVertex&) {};
      return codelet;
    }
    codelet.reads = loads   ? std::vector<std::string>{"in"}
                    : notes ? std::vector<std::string>{"offers"}
                            : std::vector<std::string>{"", "offers", "row"};
    codelet.writes = notes ? std::vector<std::string>{"pivot"} : std::vector<std::string>{"block", "offer"};
    codelet.set = [=, column = column](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
      g.setInitialValue(ref["columns"], static_cast<unsigned>(columns));
      if (!notes) g.setInitialValue(ref["first"], static_cast<unsigned>(v.writes[0].begin[rowDimension]));
      if (loads) return;
      const Region& offers = v.reads[notes ? 0 : 1];
      g.setInitialValue(ref["column"], column);
      g.setInitialValue(ref["tiles"], static_cast<unsigned>(offers.extent(rowDimension)));
    };
    if (notes) ++column;  // the last group of its superstep
    return codelet;
  };
  expandPlan(
      graph, plan, {a.reinterpret(type)}, {factors.reinterpret(type), pivots, order},
      [](DType t) { return storedAs(t, kFunction); }, codeletOf, prog, debugContext);
}

}  // namespace hlo
