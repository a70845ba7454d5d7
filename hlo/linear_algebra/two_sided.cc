#include "linear_algebra/two_sided.h"

#include <algorithm>
#include <string>

#include "codelets.h"
#include "planned.h"
#include "storage.h"

namespace hlo {
namespace {

constexpr unsigned kColumns = 0, kRows = 2;  // outputs

bool isOutput(const PlannedTensor& tensor, unsigned index) {
  return tensor.kind == PlannedTensor::Kind::kOutput && tensor.index == index;
}

}  // namespace

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;

void expandTwoSided(Graph& graph, TwoSidedForm form, const Tensor& a, const std::vector<Tensor>& out,
                    const Plan& plan, poplar::program::Sequence& prog,
                    const poplar::DebugContext& debugContext) {
  constexpr const char* kFunction = "two_sided";
  const poplar::Type type = singleAs(DTypeOf(a.elementType()), kFunction);
  const std::size_t columnDimension = a.rank() - 2, rowDimension = a.rank() - 1;
  const auto n = static_cast<unsigned>(a.dim(rowDimension));
  const bool bidiagonal = form == TwoSidedForm::kBidiagonal, hermitian = form == TwoSidedForm::kTridiagonal;
  const unsigned under = bidiagonal ? 0 : 1;  // the pivot, from the diagonal on
  const unsigned workers = graph.getTarget().getNumWorkerContexts(),
                 words = static_cast<unsigned>(SizeOf(DTypeOf(a.elementType())) / sizeof(float));
  const auto codeletOf = [&](const PlannedGroup& group) {
    PlannedCodelet codelet;
    codelet.source = kTwoSidedCodelets;
    if (group.codelet == "hlo::TwoSidedMatrices") {
      codelet.vertexClass = std::string(bidiagonal  ? "hlo::TwoSidedMatricesBidiagonal<"
                                        : hermitian ? "hlo::TwoSidedMatricesHermitian<"
                                                    : "hlo::TwoSidedMatricesGeneral<") +
                            cppName(type) + ">";
      codelet.reads = {"in"};
      codelet.writes = {"block", "taus"};
      if (bidiagonal) codelet.writes.insert(codelet.writes.end(), {"rows", "rowTaus"});
      codelet.set = [=](Graph& g, const VertexRef& ref, const PlannedVertex&) {
        g.setInitialValue(ref["n"], n);
        g.setFieldSize(ref["work"], std::size_t{2} * n * workers * words);
      };
      return codelet;
    }
    codelet.set = [](Graph&, const VertexRef&, const PlannedVertex&) {};
    std::string name;
    const auto first = [columnDimension](const Region& region) {
      return static_cast<unsigned>(region.begin[columnDimension]);
    };
    if (isOutput(group.writes[0], kColumns)) {
      const bool loads = group.reads[0].kind == PlannedTensor::Kind::kInput, finds = group.writes.size() > 1;
      name = loads ? "Load" : bidiagonal ? "Subtract" : hermitian ? "ReflectHermitian" : "ReflectGeneral";
      codelet.reads = loads        ? std::vector<std::string>{"in"}
                      : bidiagonal ? std::vector<std::string>{"", "v", "", "z", "y", "w"}
                      : hermitian  ? std::vector<std::string>{"", "v", "tau", "y"}
                                   : std::vector<std::string>{"", "v", "tau", "z", "y"};
      codelet.writes = {"block"};
      if (finds) {
        name += "AndFind";
        codelet.writes.push_back("found");
      }
      codelet.set = [=](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
        if (loads && !finds) return;
        const unsigned next = loads ? 0 : first(v.reads[1]) + 1;
        g.setInitialValue(ref["n"], n);
        g.setInitialValue(ref["first"], first(v.writes[0]));
        g.setInitialValue(ref["next"], next);
        g.setInitialValue(ref["pivot"], next + under);
      };
    } else if (isOutput(group.writes[0], kRows)) {
      name = "FindRow";
      codelet.reads = {"row", "z"};
      codelet.writes = {"w", "tau"};
    } else if (group.writes[0].index == 1) {
      name = "Project";
      codelet.reads = {"block", "v", "tau"};
      codelet.writes = {"z"};
      codelet.set = [=](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
        g.setInitialValue(ref["pivot"], first(v.reads[1]) + under);
        g.setInitialValue(ref["conjugates"], hermitian);
      };
    } else {
      name = bidiagonal ? "MultiplyRest" : "Multiply";
      codelet.reads = {"block", "v", "tau"};
      if (bidiagonal) codelet.reads.insert(codelet.reads.end(), {"u", "z"});
      codelet.writes = {"y"};
    }
    codelet.vertexClass = "hlo::TwoSided" + name + "<" + cppName(type) + ">";
    return codelet;
  };
  std::vector<Tensor> results;
  for (const Tensor& t : out) results.push_back(t.reinterpret(type));
  expandPlan(
      graph, plan, {a.reinterpret(type)}, results, [](DType t) { return storedAs(t, kFunction); }, codeletOf,
      prog, debugContext);
}

}  // namespace hlo
