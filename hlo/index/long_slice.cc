#include "index/long_slice.h"

#include <string>
#include <utility>

#include "codelets.h"
#include "planned.h"
#include "storage.h"

namespace hlo {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;

std::vector<unsigned> numbers(const std::vector<std::size_t>& values) {
  return std::vector<unsigned>(values.begin(), values.end());
}

// How many elements the starts leave free, by dimension.
std::vector<unsigned> largestStarts(const std::vector<std::size_t>& whole,
                                    const std::vector<std::size_t>& window) {
  std::vector<unsigned> last;
  for (std::size_t d = 0; d < whole.size(); ++d) last.push_back(static_cast<unsigned>(whole[d] - window[d]));
  return last;
}

struct Problem {
  std::string function;
  std::vector<std::size_t> whole, window;
  bool inPlace;
};

void expand(Graph& graph, const Problem& p, std::vector<Tensor> in, const std::vector<Tensor>& starts,
            const Tensor& out, const LongSlicePlan& plan, poplar::program::Sequence& prog,
            const poplar::DebugContext& debugContext) {
  const bool updates = in.size() == 2;
  const poplar::Type bits = bitsOf(DTypeOf(out.elementType()), p.function);
  const poplar::Type index = storedAs(DTypeOf(starts.at(0).elementType()), p.function);
  for (Tensor& t : in) t = t.reinterpret(bits);
  for (const Tensor& start : starts) {
    if (storedAs(DTypeOf(start.elementType()), p.function) != index)
      refuse(p.function, "a slice whose starts have several types");
    in.push_back(start.reinterpret(index));
  }
  const std::vector<unsigned> last = largestStarts(p.whole, p.window);
  auto digit = plan.digits.begin();  // one for each superstep, in order
  const auto codeletOf = [&](const PlannedGroup& group) {
    const SliceDigit& own = *digit++;
    const bool places = updates && !isTemporary(group.writes[0]);
    PlannedCodelet codelet;
    codelet.vertexClass = std::string("hlo::") +
                          (!places     ? "LongSliceShift"
                           : p.inPlace ? "LongUpdateInPlace"
                                       : "LongUpdate") +
                          "<" + cppName(bits) + ", " + cppName(index) + ">";
    codelet.source = std::string(kLongSliceCodelets) + "template class " + codelet.vertexClass + ";\n";
    const std::size_t values = own.above / own.weight;
    codelet.reads.assign(values, "from");
    if (places) codelet.reads.emplace_back(p.inPlace ? "" : "operand");
    codelet.reads.resize(group.reads.size());  // the starts are fields of their own
    codelet.writes = {"out"};
    codelet.set = [&, own, places, values](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
      std::vector<Tensor> positions;
      for (std::size_t d = 0; d < starts.size(); ++d)
        if (places || d == own.dimension) positions.push_back(in[in.size() - starts.size() + d]);
      g.setFieldSize(ref["starts"], positions.size());
      for (std::size_t i = 0; i < positions.size(); ++i)
        g.connect(ref["starts"][i], positions[i].reshape({}));
      std::vector<unsigned> regions;
      std::size_t before = 0;
      for (std::size_t value = 0; value < values; ++value) {
        const Region& region = v.reads[value];
        regions.push_back(static_cast<unsigned>(before));
        std::size_t elements = 1;
        for (const std::size_t begin : region.begin) regions.push_back(static_cast<unsigned>(begin));
        for (const std::size_t extent : region.shape()) {
          regions.push_back(static_cast<unsigned>(extent));
          elements *= extent;
        }
        before += elements;
      }
      g.setInitialValue(ref["digit"], numbers({own.dimension, own.weight, own.above, updates ? 0u : 1u}));
      g.setInitialValue(ref["regions"], regions);
      g.setInitialValue(ref["begin"], numbers(v.box.begin));
      g.setInitialValue(ref["extent"], numbers(v.box.shape()));
      g.setInitialValue(ref["last"], places ? last : std::vector<unsigned>{last[own.dimension]});
      if (places) g.setInitialValue(ref["updated"], numbers(p.window));
    };
    return codelet;
  };
  expandPlan(
      graph, plan.plan, in, {out.reinterpret(bits)}, [&](DType type) { return bitsOf(type, p.function); },
      codeletOf, prog, debugContext);
}

}  // namespace

void expandLongSlice(Graph& graph, const Tensor& operand, const std::vector<Tensor>& starts,
                     const Tensor& out, const LongSlicePlan& plan, poplar::program::Sequence& prog,
                     const poplar::DebugContext& debugContext) {
  expand(graph, {"dynamic_slice", operand.shape(), out.shape(), false}, {operand}, starts, out, plan, prog,
         debugContext);
}

void expandLongUpdate(Graph& graph, const Tensor& operand, const Tensor& update,
                      const std::vector<Tensor>& starts, const Tensor& out, bool inPlace,
                      const LongSlicePlan& plan, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext) {
  expand(graph, {"dynamic_update_slice", operand.shape(), update.shape(), inPlace}, {operand, update}, starts,
         out, plan, prog, debugContext);
}

}  // namespace hlo
