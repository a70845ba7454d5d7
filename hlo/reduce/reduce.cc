#include "reduce/reduce.h"

#include <algorithm>
#include <string>

#include "codelets.h"
#include "combine.h"
#include "elementwise/map_codelet.h"
#include "planned.h"
#include "storage.h"
#include "window/window_dims.h"

namespace hlo {
namespace {

using poplar::Graph;
using poplar::Tensor;

std::string typeOf(DType type) { return cppName(storedAs(type, "reduce")); }

// Combines the values of each result in row-major order, then its init with that. `held`: the body in the
// types of accumulators, which partial results have as well; `results`: the types of results.
PlannedCodelet generateReduce(const Expression& body, const Expression& held,
                              const std::vector<DType>& results, bool ofPartials, bool toPartials) {
  const std::size_t n = body.outputs.size();
  const std::string a = listOf("a", n), b = listOf("b", n), total = toPartials ? "a" : "s";
  PlannedCodelet codelet;
  std::string fields, load, next, start, store;
  for (std::size_t i = 0; i < n; ++i) {
    const DType type = body.inputs[i], wide = held.inputs[i];
    const DType given = ofPartials ? wide : type, result = toPartials ? wide : results[i];
    const std::string k = std::to_string(i), accumulator = typeOf(wide);
    fields += "  In<" + typeOf(given) + "> value" + k + ";\n  Out<" + typeOf(result) + "> out" + k + ";\n";
    load += "      " + accumulator + " a" + k + " = count > 0 ? " +
            converted("value" + k + "[base]", given, wide) + " : static_cast<" + accumulator + ">(0);\n";
    next += "        const " + accumulator + " b" + k + " = " +
            converted("value" + k + "[place]", given, wide) + ";\n";
    store += "      out" + k + "[at] = " + converted(total + k, wide, result) + ";\n";
    codelet.reads.push_back("value" + k);
    codelet.writes.push_back("out" + k);
    if (toPartials) continue;
    fields += "  In<" + typeOf(type) + "> init" + k + ";\n";
    start += "      " + accumulator + " s" + k + " = " + converted("init" + k + "[0]", type, wide) + ";\n";
  }
  if (!toPartials) {
    const std::string s = listOf("s", n);
    start += "      if (count > 0) Combine::apply(" + s + ", " + a + ", " + s + ");\n";
    for (std::size_t i = 0; i < n; ++i) codelet.reads.push_back("init" + std::to_string(i));
  }
  codelet.vertexClass =
      generateClass(kReduceCodelets, "Reduce", generateFunction(held, "Combine"),
                    fields +
                        "  poplar::Vector<unsigned> kept, keptStep, reduced, reducedStep;\n"
                        "  bool compute(unsigned worker) {\n"
                        "    const Share share = shareOf(worker, numWorkers(), out0.size());\n"
                        "    const unsigned count = product(reduced);\n"
                        "    for (unsigned at = share.begin; at < share.end; ++at) {\n"
                        "      const unsigned base = placeOf(at, kept, keptStep);\n" +
                        load +
                        "      for (unsigned k = 1; k < count; ++k) {\n"
                        "        const unsigned place = base + placeOf(k, reduced, reducedStep);\n" +
                        next + "        Combine::apply(" + a + ", " + b + ", " + a + ");\n      }\n" + start +
                        store + "    }\n    return true;\n  }\n",
                    &codelet.source);
  return codelet;
}

}  // namespace

void expandReduce(Graph& graph, const std::vector<Tensor>& values, const std::vector<Tensor>& inits,
                  const std::vector<std::size_t>& dims, const Expression& body,
                  const std::vector<Tensor>& out, const Plan& plan, poplar::program::Sequence& prog,
                  const poplar::DebugContext& debugContext) {
  refuseSmallFloats(body, "reduce");
  std::vector<Tensor> in, results;
  const auto stored = [](const Tensor& t) {
    return t.reinterpret(storedAs(DTypeOf(t.elementType()), "reduce"));
  };
  for (const Tensor& t : values) in.push_back(stored(t));
  for (const Tensor& t : inits) in.push_back(stored(t));
  std::vector<DType> resultTypes;
  for (const Tensor& t : out) {
    results.push_back(stored(t));
    resultTypes.push_back(DTypeOf(t.elementType()));
  }
  const Expression held = accumulated(body);
  const auto codeletOf = [&](const PlannedGroup& group) {
    // Partial results have leading dimensions for the parts of the reduced ones.
    const bool ofPartials = isTemporary(group.reads[0]);
    PlannedCodelet codelet =
        generateReduce(body, held, resultTypes, ofPartials, isTemporary(group.writes[0]));
    codelet.set = [&, ofPartials](Graph& g, const poplar::VertexRef& ref, const PlannedVertex& v) {
      const std::vector<std::size_t> shape = v.reads[0].shape();
      const std::vector<std::size_t> steps = stepsOf(shape);
      std::vector<unsigned> kept, keptStep, reduced, reducedStep;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        const bool isReduced =
            ofPartials ? d < dims.size() : std::find(dims.begin(), dims.end(), d) != dims.end();
        (isReduced ? reduced : kept).push_back(static_cast<unsigned>(shape[d]));
        (isReduced ? reducedStep : keptStep).push_back(static_cast<unsigned>(steps[d]));
      }
      g.setInitialValue(ref["kept"], kept);
      g.setInitialValue(ref["keptStep"], keptStep);
      g.setInitialValue(ref["reduced"], reduced);
      g.setInitialValue(ref["reducedStep"], reducedStep);
    };
    return codelet;
  };
  expandPlan(
      graph, plan, in, results, [](DType type) { return storedAs(type, "reduce"); }, codeletOf, prog,
      debugContext);
}

}  // namespace hlo
