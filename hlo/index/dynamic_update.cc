#include "index/dynamic_update.h"

#include <algorithm>
#include <string>

#include "codelets.h"
#include "hlo/Cost.hpp"
#include "parts.h"
#include "storage.h"

namespace hlo {

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;

// Every tile updates the part of the result that it holds; the update's sliced dimensions are sent to all
// tiles.
void expandDynamicUpdate(Graph& graph, const Tensor& operand, const Tensor& update,
                         const std::vector<Tensor>& starts, const Tensor& out, bool inPlace,
                         poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  const DType type = DTypeOf(out.elementType());
  const poplar::Type bits = bitsOf(type, "dynamic_update_slice");
  const poplar::Type index =
      starts.empty() ? poplar::INT : storedAs(DTypeOf(starts[0].elementType()), "dynamic_update_slice");
  std::vector<Tensor> positions;
  for (const Tensor& start : starts) {
    if (storedAs(DTypeOf(start.elementType()), "dynamic_update_slice") != index)
      refuse("dynamic_update_slice", "a slice whose starts have several types");
    positions.push_back(start.reinterpret(index));
  }
  const std::string vertexClass = std::string("hlo::DynamicUpdate") + (inPlace ? "InPlace" : "") + "<" +
                                  cppName(bits) + ", " + cppName(index) + ">";
  addCodelets(graph, vertexClass,
              std::string(kDynamicUpdateCodelets) + "template class " + vertexClass + ";\n");
  const Tensor from = operand.reinterpret(bits), over = update.reinterpret(bits), to = out.reinterpret(bits);
  const poplar::ComputeSet computeSet = graph.addComputeSet({debugContext, "update"});
  for (const Part& part : partsOf(graph, to)) {
    Part sent = part;
    std::vector<bool> sliced;
    for (unsigned d = 0; d < to.rank(); ++d) {
      sliced.push_back(over.dim(d) < to.dim(d));
      if (!sliced[d]) continue;
      sent.begin[d] = 0;
      sent.end[d] = over.dim(d);
    }
    const std::size_t elements = std::min(part.elements(), sent.elements());
    const VertexRef vertex = addVertex(graph, computeSet, vertexClass, part,
                                       dynamicUpdateCycles(graph.getTarget(), type, elements));
    if (!inPlace) graph.connect(vertex["operand"], part.of(from));
    graph.connect(vertex["update"], sent.of(over));
    graph.connect(vertex["out"], part.of(to));
    graph.setFieldSize(vertex["starts"], positions.size());
    for (std::size_t d = 0; d < positions.size(); ++d)
      graph.connect(vertex["starts"][d], positions[d].reshape({}));
    // By dimension: the box, the elements of the update, and the largest start; where all elements are
    // updated, the start is that of the box.
    std::vector<unsigned> begin, extent, updated, last;
    for (unsigned d = 0; d < to.rank(); ++d) {
      begin.push_back(static_cast<unsigned>(sliced[d] ? part.begin[d] : 0));
      extent.push_back(static_cast<unsigned>(part.end[d] - part.begin[d]));
      updated.push_back(static_cast<unsigned>(sent.end[d] - sent.begin[d]));
      last.push_back(static_cast<unsigned>(sliced[d] ? to.dim(d) - over.dim(d) : 0));
    }
    graph.setInitialValue(vertex["begin"], begin);
    graph.setInitialValue(vertex["extent"], extent);
    graph.setInitialValue(vertex["updated"], updated);
    graph.setInitialValue(vertex["last"], last);
  }
  prog.add(poplar::program::Execute(computeSet, debugContext));
}

}  // namespace hlo
