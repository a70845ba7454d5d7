#include "index/gather.h"

#include <string>

#include "codelets.h"
#include "index/gather_rounds.h"
#include "planned.h"
#include "storage.h"
#include "window/window_dims.h"

namespace hlo {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;

// What the vertices of a gather share. The indices are one tensor, or a scalar for each component.
struct Problem {
  ResolvedDims dims;
  std::vector<std::size_t> operand, out, sizes;
  std::size_t indexVectorDim;
  bool scalars;
  const std::vector<GatherSplit>& splits;

  bool indexed(std::size_t d) const { return dims.component[d] >= 0 && sizes[d] < operand[d]; }
};

// The fields of codelets/gather.cpp's Source, for a vertex that computes `out` of the result from an operand
// whose element 0 is at `origin`.
void setSource(Graph& graph, const VertexRef& ref, const Problem& p, const Region& out,
               const std::vector<std::size_t>& origin, const Region& indices) {
  std::vector<int> along, limit, first, extent, step(p.out.size(), 0);
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    along.push_back(p.dims.along(d));
    limit.push_back(static_cast<int>(p.operand[d] - p.sizes[d]));
    const std::size_t begin = along[d] < 0 ? 0 : out.begin[static_cast<std::size_t>(along[d])];
    first.push_back(static_cast<int>(begin) - static_cast<int>(origin[d]));
  }
  for (std::size_t j = 0; j < p.out.size(); ++j) extent.push_back(static_cast<int>(out.extent(j)));
  int componentStep = 1;
  if (!p.scalars) {
    const std::vector<std::size_t> steps = stepsOf(indices.shape());
    for (std::size_t b = 0; b < p.dims.batch.size(); ++b)
      step[p.dims.batch[b]] = static_cast<int>(steps[p.dims.index[b]]);
    componentStep = p.indexVectorDim < steps.size() ? static_cast<int>(steps[p.indexVectorDim]) : 0;
  }
  graph.setInitialValue(ref["along"], along);
  graph.setInitialValue(ref["component"], p.dims.component);
  graph.setInitialValue(ref["wrap"], p.dims.wrap);
  graph.setInitialValue(ref["limit"], limit);
  graph.setInitialValue(ref["first"], first);
  graph.setInitialValue(ref["extent"], extent);
  graph.setInitialValue(ref["indexStep"], step);
  graph.setInitialValue(ref["componentStep"], componentStep);
}

// The part of the result that a vertex looks up. Its box has the operand's dimensions, then those of the
// batch.
Region lookedUp(const Problem& p, const PlannedVertex& v) {
  Region region{std::vector<std::size_t>(p.out.size(), 0), p.out};
  const auto set = [&](std::size_t j, std::size_t from) {
    region.begin[j] = v.box.begin[from];
    region.end[j] = v.box.end[from];
  };
  for (std::size_t b = 0; b < p.dims.batch.size(); ++b) set(p.dims.batch[b], p.operand.size() + b);
  for (std::size_t d = 0; d < p.operand.size(); ++d)
    if (p.dims.window[d] >= 0 && !p.indexed(d)) set(static_cast<std::size_t>(p.dims.window[d]), d);
  return region;
}

void setSplits(Graph& graph, const VertexRef& ref, const std::vector<GatherSplit>& splits) {
  std::vector<int> split, parts, begins;
  for (const GatherSplit& s : splits) {
    split.push_back(static_cast<int>(s.dimension));
    parts.push_back(static_cast<int>(s.begins.size()));
    begins.insert(begins.end(), s.begins.begin(), s.begins.end());
  }
  graph.setInitialValue(ref["split"], split);
  graph.setInitialValue(ref["parts"], parts);
  graph.setInitialValue(ref["begins"], begins);
}

void expand(Graph& graph, const Problem& problem, const std::string& function, const Tensor& operand,
            const std::vector<Tensor>& indices, const Tensor& out, const Plan& plan,
            poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  const poplar::Type bits = bitsOf(DTypeOf(out.elementType()), function);
  const poplar::Type index = storedAs(DTypeOf(indices.at(0).elementType()), function);
  std::vector<Tensor> in = {operand.reinterpret(bits)};
  for (const Tensor& t : indices) {
    if (storedAs(DTypeOf(t.elementType()), function) != index)
      refuse(function, "a slice whose starts have several types");
    in.push_back(t.reinterpret(index));
  }
  const auto codeletOf = [&](const PlannedGroup& group) {
    const bool picks = isTemporary(group.reads[0]);
    PlannedCodelet codelet;
    codelet.vertexClass = std::string("hlo::") + (picks ? "PickPart" : "Gather") + "<" + cppName(bits) +
                          ", " + cppName(index) + ">";
    codelet.source = std::string(kGatherCodelets) + "template class " + codelet.vertexClass + ";\n";
    codelet.reads.assign(group.reads.size(), "indices");
    codelet.reads[0] = picks ? "partial" : "operand";
    codelet.writes = {"out"};
    codelet.set = [&, picks](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
      if (picks) {
        setSource(g, ref, problem, v.writes[0], std::vector<std::size_t>(problem.operand.size(), 0),
                  v.reads[1]);
        setSplits(g, ref, problem.splits);
        return;
      }
      setSource(g, ref, problem, lookedUp(problem, v), v.reads[0].begin, v.reads[1]);
      std::vector<int> part;
      for (std::size_t d = 0; d < problem.operand.size(); ++d)
        part.push_back(static_cast<int>(v.reads[0].extent(d)));
      g.setInitialValue(ref["part"], part);
    };
    return codelet;
  };
  expandPlan(
      graph, plan, in, {out.reinterpret(bits)}, [&](DType type) { return bitsOf(type, function); }, codeletOf,
      prog, debugContext);
}

}  // namespace

void expandDynamicSlice(Graph& graph, const Tensor& operand, const std::vector<Tensor>& starts,
                        const Tensor& out, const GatherPlan& plan, poplar::program::Sequence& prog,
                        const poplar::DebugContext& debugContext) {
  if (starts.empty()) {
    prog.add(poplar::program::Copy(operand, out, false, debugContext));
    return;
  }
  WindowDims dims;
  for (unsigned d = 0; d < operand.rank(); ++d) {
    dims.offset_dims.push_back(d);
    dims.start_index_map.push_back(d);
  }
  const Problem problem{resolve(dims, operand.rank(), 1, out.rank()),
                        operand.shape(),
                        out.shape(),
                        out.shape(),
                        0,
                        true,
                        plan.splits};
  expand(graph, problem, "dynamic_slice", operand, starts, out, plan.plan, prog, debugContext);
}

void expandGather(Graph& graph, const Tensor& operand, const Tensor& indices, const WindowDims& dims,
                  const std::vector<std::size_t>& sliceSizes, const Tensor& out, const GatherPlan& plan,
                  poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  if (plan.rounds) return expandGatherRounds(graph, operand, indices, out, plan, prog, debugContext);
  const Problem problem{
      resolve(dims, operand.rank(), indices.rank(), out.rank()), operand.shape(), out.shape(), sliceSizes,
      static_cast<std::size_t>(dims.index_vector_dim),           false,           plan.splits};
  expand(graph, problem, "gather", operand, {indices}, out, plan.plan, prog, debugContext);
}

}  // namespace hlo
