#include "window/window.h"

#include <algorithm>
#include <string>

#include "codelets.h"
#include "combine.h"
#include "elementwise/map_codelet.h"
#include "planned.h"
#include "storage.h"

namespace hlo {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;

const char* const kNumbers =
    "  poplar::Vector<int> windows, extent, size, stride, dilation, base, padding;\n";
const char* const kWindows =
    "    const Windows<decltype(windows)> all{windows, extent, size, stride, dilation, base, padding};\n";
const char* const kShare = "    const Share share = shareOf(worker, numWorkers(), out0.size());\n";

bool isNarrow(DType type) { return type == DType::kF16 || type == DType::kBF16; }

Tensor stored(const Tensor& tensor, const char* function) {
  return tensor.reinterpret(storedAs(DTypeOf(tensor.elementType()), function));
}

// The fields of codelets/window.hpp's Windows, for windows `windows` over the part `operand`.
void setWindows(Graph& graph, const VertexRef& ref, const WindowGeometry& geometry, const Region& windows,
                const Region& operand) {
  std::vector<int> count, extent, size, stride, dilation, base, padding;
  for (std::size_t d = 0; d < windows.begin.size(); ++d) {
    const WindowDimension& w = geometry.dim[d];
    count.push_back(static_cast<int>(windows.extent(d)));
    extent.push_back(static_cast<int>(operand.extent(d)));
    size.push_back(static_cast<int>(w.size));
    stride.push_back(static_cast<int>(w.stride));
    dilation.push_back(static_cast<int>(w.window_dilation));
    base.push_back(static_cast<int>(w.base_dilation));
    padding.push_back(static_cast<int>(w.padding_low +
                                       static_cast<std::int64_t>(operand.begin[d]) * w.base_dilation -
                                       static_cast<std::int64_t>(windows.begin[d]) * w.stride));
  }
  graph.setInitialValue(ref["windows"], count);
  graph.setInitialValue(ref["extent"], extent);
  graph.setInitialValue(ref["size"], size);
  graph.setInitialValue(ref["stride"], stride);
  graph.setInitialValue(ref["dilation"], dilation);
  graph.setInitialValue(ref["base"], base);
  graph.setInitialValue(ref["padding"], padding);
}

// What the classes of reduceWindow share: the fields, and the text that declares accumulators a<i> with the
// inits, reads the value b<i> at `place`, and stores the accumulators at `at`.
struct Texts {
  std::string fields, start, load, store;
  Texts(const Expression& body, const Expression& held) {
    for (std::size_t i = 0; i < body.outputs.size(); ++i) {
      const DType from = body.inputs[i], to = held.inputs[i];
      const std::string k = std::to_string(i), narrow = cppName(storedAs(from, "reduce_window")),
                        type = cppName(storedAs(to, "reduce_window"));
      fields += "  In<" + narrow + "> value" + k + ", init" + k + ";\n  Out<" + narrow + "> out" + k + ";\n";
      start += "      " + type + " a" + k + " = " + converted("init" + k + "[0]", from, to) + ";\n";
      load +=
          "        const " + type + " b" + k + " = " + converted("value" + k + "[place]", from, to) + ";\n";
      store += "      out" + k + "[at] = " + converted("a" + k, to, from) + ";\n";
    }
  }
};

// Each result for itself.
std::string windowMembers(const Texts& t, std::size_t n) {
  const std::string a = listOf("a", n);
  return t.fields + kNumbers + "  bool compute(unsigned worker) {\n" + kShare + kWindows +
         "    for (unsigned at = share.begin; at < share.end; ++at) {\n" + t.start +
         "      all.forEach(at, [&](unsigned place) {\n" + t.load + "        Combine::apply(" + a + ", " +
         listOf("b", n) + ", " + a + ");\n      });\n" + t.store + "    }\n    return true;\n  }\n";
}

// A loop over lines of `length` elements, which are `inner` apart: `before` each line, and `step` for each
// `place` of it, from the end if `backwards`. Parts of words have one writer.
std::string loopOverLines(const std::string& before, const std::string& step, const std::string& after = "") {
  return "  unsigned length, inner;\n  bool backwards;\n  bool compute(unsigned worker) {\n"
         "    const unsigned lines = out0.size() / length;\n"
         "    const bool together = inner > 1 && sizeof(out0[0]) < 4;\n"
         "    Share share = shareOf(worker, numWorkers(), lines);\n"
         "    if (together) share = {0, worker == 0 ? lines : 0};\n"
         "    for (unsigned line = share.begin; line < share.end; ++line) {\n" +
         before +
         "      for (unsigned step = 0; step < length; ++step) {\n"
         "        const unsigned position = backwards ? length - 1 - step : step;\n"
         "        const unsigned place = (line / inner * length + position) * inner + line % inner;\n"
         "        const unsigned at = place;\n" +
         step + "      }\n" + after + "    }\n    return true;\n  }\n";
}

// Adds b to a; in a line from the end b is in front of a, except that `first` it follows the init.
std::string accumulate(std::size_t n, const std::string& first) {
  const std::string a = listOf("a", n), b = listOf("b", n);
  return "        if (backwards && " + first + ") {\n          Combine::apply(" + b + ", " + a + ", " + a +
         ");\n        } else {\n          Combine::apply(" + a + ", " + b + ", " + a + ");\n        }\n";
}

// Running results.
std::string runningMembers(const Texts& t, std::size_t n) {
  return t.fields + loopOverLines(t.start, t.load + accumulate(n, "step > 0") + t.store);
}

// The three classes of running results whose lines are cut into chunks, of one operand: running results of
// chunks, each from its own first element, and their totals; the values before chunks, from the totals; and
// the combination of both.
struct CutLines {
  std::string chunk, totals, combination;
  CutLines(const Texts& t, DType from, DType to) {
    const std::string narrow = cppName(storedAs(from, "reduce_window")),
                      type = cppName(storedAs(to, "reduce_window"));
    chunk = "  In<" + narrow + "> value0;\n  Out<" + narrow + "> out0, total;\n" +
            loopOverLines("      " + type + " a0 = 0;\n",
                          t.load + "        if (step == 0) {\n          a0 = b0;\n        } else {\n" +
                              accumulate(1, "true") + "        }\n" + t.store,
                          "      total[line] = " + converted("a0", to, from) + ";\n");
    totals = t.fields + loopOverLines(t.start, t.store + t.load + accumulate(1, "step > 0"));
    combination =
        "  Update<" + narrow + "> out0;\n  In<" + narrow + "> before;\n" +
        loopOverLines("", "        " + type + " a0 = " + converted("before[line]", from, to) +
                              ";\n        const " + type + " b0 = " + converted("out0[place]", from, to) +
                              ";\n" + accumulate(1, "true") + t.store);
  }
};

}  // namespace

void expandReduceWindow(Graph& graph, const std::vector<Tensor>& values, const std::vector<Tensor>& inits,
                        const WindowGeometry& geometry, const Running& running, const Expression& combiner,
                        const std::vector<Tensor>& out, const Plan& plan, poplar::program::Sequence& prog,
                        const poplar::DebugContext& debugContext) {
  refuseSmallFloats(combiner, "reduce_window");
  const std::size_t n = values.size();
  const bool narrow = std::any_of(combiner.inputs.begin(), combiner.inputs.end(), isNarrow);
  if (narrow && !running.rounds && !isSingle(combiner))
    refuse("reduce_window", "a body of several operations of f16 or bf16");
  for (std::size_t i = 0; i < n; ++i) {
    if (combiner.inputs[i] != combiner.inputs[n + i])
      refuse("reduce_window", "a result of another type than the operand");
  }
  const Expression held = running.rounds ? combiner : widened(combiner);
  std::vector<Tensor> in, results;
  for (const Tensor& t : values) in.push_back(stored(t, "reduce_window"));
  for (const Tensor& t : inits) in.push_back(stored(t, "reduce_window"));
  for (const Tensor& t : out) results.push_back(stored(t, "reduce_window"));
  const bool isRunning = running.dimension >= 0;
  const Texts texts(combiner, held);
  const auto setLines = [&](Graph& g, const VertexRef& ref, const Region& lines) {
    const auto along = static_cast<std::size_t>(running.dimension);
    g.setInitialValue(ref["length"], static_cast<unsigned>(lines.extent(along)));
    g.setInitialValue(ref["inner"], static_cast<unsigned>(lines.stride(along)));
    g.setInitialValue(ref["backwards"], running.backwards);
  };
  const auto codeletOf = [&](const PlannedGroup& group) {
    PlannedCodelet codelet;
    const auto generate = [&](const char* prefix, const std::string& members) {
      codelet.vertexClass =
          generateClass(kWindowCodelets, prefix, generateFunction(held, "Combine"), members, &codelet.source);
    };
    if (!plan.temporaries.empty()) {
      const CutLines cut(texts, combiner.inputs[0], held.inputs[0]);
      const bool scansTotals = isTemporary(group.writes[0]),
                 combines = !scansTotals && isTemporary(group.reads[0]);
      generate(scansTotals ? "ScanTotals"
               : combines  ? "ScanCombine"
                           : "ScanChunk",
               scansTotals ? cut.totals
               : combines  ? cut.combination
                           : cut.chunk);
      codelet.reads = {"value0"};
      codelet.writes = {"out0"};
      if (scansTotals) codelet.reads.push_back("init0");
      if (combines) codelet.reads = {"before", ""};
      if (!scansTotals && !combines) codelet.writes.push_back("total");
      codelet.set = [&](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
        setLines(g, ref, v.writes[0]);
      };
      return codelet;
    }
    generate(isRunning ? "Running" : "ReduceWindow",
             isRunning ? runningMembers(texts, n) : windowMembers(texts, n));
    for (const char* name : {"value", "init"})
      for (std::size_t i = 0; i < n; ++i) codelet.reads.push_back(name + std::to_string(i));
    for (std::size_t i = 0; i < n; ++i) codelet.writes.push_back("out" + std::to_string(i));
    codelet.set = [&](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
      if (isRunning) return setLines(g, ref, v.box);
      setWindows(g, ref, geometry, v.writes[0], v.reads[0]);
    };
    return codelet;
  };
  expandPlan(
      graph, plan, in, results, [](DType type) { return storedAs(type, "reduce_window"); }, codeletOf, prog,
      debugContext);
}

// Every worker looks at all windows, and adds what falls into its share.
void expandSelectAndScatter(Graph& graph, const Tensor& operand, const Tensor& source, const Tensor& init,
                            const WindowGeometry& geometry, const Expression& select,
                            const Expression& scatter, const Tensor& out, const Plan& plan,
                            poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  constexpr const char* kFunction = "select_and_scatter";
  refuseSmallFloats(select, kFunction);
  refuseSmallFloats(scatter, kFunction);
  const std::string type = cppName(storedAs(DTypeOf(out.elementType()), kFunction));
  PlannedCodelet codelet;
  codelet.vertexClass = generateClass(
      kWindowCodelets, "SelectAndScatter",
      generateFunction(select, "Select") + generateFunction(scatter, "Combine"),
      "  In<" + type + "> operand, source, init;\n  Out<" + type + "> out0;\n" + kNumbers +
          "  poplar::Vector<int> first, part;\n  bool compute(unsigned worker) {\n" + kShare + kWindows +
          "    for (unsigned at = share.begin; at < share.end; ++at) out0[at] = init[0];\n"
          "    for (unsigned window = 0; window < source.size(); ++window) {\n"
          "      bool any = false;\n"
          "      unsigned chosen = 0;\n"
          "      all.forEach(window, [&](unsigned place) {\n"
          "        bool keep = false;\n"
          "        if (any) Select::apply(operand[chosen], operand[place], keep);\n"
          "        if (!keep) chosen = place;\n"
          "        any = true;\n"
          "      });\n"
          "      const long long to = any ? placeIn(chosen, extent, first, part) : -1;\n"
          "      if (to < share.begin || to >= share.end) continue;\n"
          "      Combine::apply(out0[to], source[window], out0[to]);\n"
          "    }\n    return true;\n  }\n",
      &codelet.source);
  codelet.reads = {"operand", "source", "init"};
  codelet.writes = {"out0"};
  codelet.set = [&](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
    setWindows(g, ref, geometry, v.reads[1], v.reads[0]);
    std::vector<int> first, part;
    for (std::size_t d = 0; d < v.box.begin.size(); ++d) {
      first.push_back(static_cast<int>(v.box.begin[d]) - static_cast<int>(v.reads[0].begin[d]));
      part.push_back(static_cast<int>(v.box.extent(d)));
    }
    g.setInitialValue(ref["first"], first);
    g.setInitialValue(ref["part"], part);
  };
  expandPlan(
      graph, plan, {stored(operand, kFunction), stored(source, kFunction), stored(init, kFunction)},
      {stored(out, kFunction)}, [](DType t) { return storedAs(t, kFunction); },
      [&](const PlannedGroup&) { return codelet; }, prog, debugContext);
}

}  // namespace hlo
