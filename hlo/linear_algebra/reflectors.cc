#include "linear_algebra/reflectors.h"

#include <string>

#include "codelets.h"
#include "planned.h"
#include "storage.h"

namespace hlo {

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;

void expandQrPanel(Graph& graph, const Tensor& a, const Tensor& packed, const Tensor& taus, const Plan& plan,
                   poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  constexpr const char* kFunction = "qr_panel";
  const poplar::Type type = singleAs(DTypeOf(a.elementType()), kFunction);
  const std::size_t columnDimension = a.rank() - 1;
  const std::size_t rows = a.dim(columnDimension - 1), columns = a.dim(columnDimension);
  const auto codeletOf = [&](const PlannedGroup& group) {
    if (group.codelet == "hlo::QrPanels") {
      PlannedCodelet whole;
      whole.vertexClass = "hlo::QrPanels<" + cppName(type) + ">";
      whole.source = kReflectorsCodelets;
      whole.reads = {"in"};
      whole.writes = {"packed", "taus"};
      whole.set = [=](Graph& g, const VertexRef& ref, const PlannedVertex&) {
        g.setInitialValue(ref["rows"], static_cast<unsigned>(rows));
        g.setInitialValue(ref["columns"], static_cast<unsigned>(columns));
      };
      return whole;
    }
    const bool loads = group.reads.size() == 1, finds = group.writes.size() == 2;
    const char* const name =
        loads ? (finds ? "QrPanelFirst" : "QrPanelLoad") : (finds ? "QrPanelFind" : "QrPanelReflect");
    PlannedCodelet codelet;
    codelet.vertexClass = std::string("hlo::") + name + "<" + cppName(type) + ">";
    codelet.source = kReflectorsCodelets;
    codelet.reads = {"in"};
    if (!loads) codelet.reads = {"", "v", "tau"};
    codelet.writes = {"block"};
    if (finds) codelet.writes.push_back(loads ? "tau" : "next");
    codelet.set = [=](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
      if (loads && !finds) return;
      g.setInitialValue(ref["columns"], static_cast<unsigned>(v.writes[0].extent(columnDimension)));
      if (loads) return;
      g.setInitialValue(ref["first"], static_cast<unsigned>(v.writes[0].begin[columnDimension]));
      g.setInitialValue(ref["column"], static_cast<unsigned>(v.reads[1].begin[columnDimension]));
    };
    return codelet;
  };
  expandPlan(
      graph, plan, {a.reinterpret(type)}, {packed.reinterpret(type), taus.reinterpret(type)},
      [](DType t) { return storedAs(t, kFunction); }, codeletOf, prog, debugContext);
}

void expandApplyReflectors(Graph& graph, const Tensor& packed, const Tensor& taus, const Tensor& x,
                           unsigned below, const Tensor& out, const Plan& plan,
                           poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  constexpr const char* kFunction = "apply_reflectors";
  const poplar::Type type = singleAs(DTypeOf(x.elementType()), kFunction);
  const std::size_t packedColumns = packed.dim(packed.rank() - 1), m = x.dim(x.rank() - 2);
  const auto codeletOf = [&](const PlannedGroup&) {
    PlannedCodelet codelet;
    codelet.vertexClass = "hlo::ApplyReflectors<" + cppName(type) + ">";
    codelet.source = kReflectorsCodelets;
    codelet.reads = {"packed", "taus", "in"};
    codelet.writes = {"out"};
    codelet.set = [=](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
      g.setInitialValue(ref["columns"], static_cast<unsigned>(v.writes[0].extent(x.rank() - 1)));
      g.setInitialValue(ref["m"], static_cast<unsigned>(m));
      g.setInitialValue(ref["packedColumns"], static_cast<unsigned>(packedColumns));
      g.setInitialValue(ref["below"], below);
    };
    return codelet;
  };
  expandPlan(
      graph, plan, {packed.reinterpret(type), taus.reinterpret(type), x.reinterpret(type)},
      {out.reinterpret(type)}, [](DType t) { return storedAs(t, kFunction); }, codeletOf, prog, debugContext);
}

}  // namespace hlo
