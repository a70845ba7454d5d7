#include "index/scatter.h"

#include <string>
#include <utility>

#include "codelets.h"
#include "combine.h"
#include "elementwise/map_codelet.h"
#include "hlo/SingleOperation.hpp"
#include "index/gather_rounds.h"
#include "planned.h"
#include "storage.h"
#include "window/window_dims.h"

namespace hlo {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;

struct Problem {
  ResolvedDims dims;
  std::vector<std::size_t> operand, updates;
  std::size_t indexVectorDim;
};

// The fields of codelets/scatter.hpp's Windows, for a vertex that has `box` of the operand.
void setWindows(Graph& graph, const VertexRef& ref, const Problem& p, const Region& box,
                const Region& indices, const Region& updates) {
  const std::vector<std::size_t> updateSteps = stepsOf(updates.shape()),
                                 indexSteps = stepsOf(indices.shape());
  std::vector<int> part, limit, first, window, windowStep, rows, rowStep, indexStep;
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    const int along = p.dims.along(d);
    const auto dim = static_cast<std::size_t>(along);
    const bool hasWindow = p.dims.window[d] >= 0;
    part.push_back(static_cast<int>(box.extent(d)));
    limit.push_back(static_cast<int>(p.operand[d] - (hasWindow ? p.updates[dim] : 1)));
    first.push_back(static_cast<int>(along < 0 ? 0 : updates.begin[dim]) - static_cast<int>(box.begin[d]));
    window.push_back(hasWindow ? static_cast<int>(updates.extent(dim)) : 1);
    windowStep.push_back(hasWindow ? static_cast<int>(updateSteps[dim]) : 0);
  }
  for (std::size_t b = 0; b < p.dims.batch.size(); ++b) {
    rows.push_back(static_cast<int>(updates.extent(p.dims.batch[b])));
    rowStep.push_back(static_cast<int>(updateSteps[p.dims.batch[b]]));
    indexStep.push_back(static_cast<int>(indexSteps[p.dims.index[b]]));
  }
  graph.setInitialValue(ref["part"], part);
  graph.setInitialValue(ref["component"], p.dims.component);
  graph.setInitialValue(ref["batching"], p.dims.batching);
  graph.setInitialValue(ref["wrap"], p.dims.wrap);
  graph.setInitialValue(ref["limit"], limit);
  graph.setInitialValue(ref["first"], first);
  graph.setInitialValue(ref["window"], window);
  graph.setInitialValue(ref["windowStep"], windowStep);
  graph.setInitialValue(ref["rows"], rows);
  graph.setInitialValue(ref["rowStep"], rowStep);
  graph.setInitialValue(ref["indexStep"], indexStep);
  graph.setInitialValue(ref["componentStep"], p.indexVectorDim < indexSteps.size()
                                                  ? static_cast<int>(indexSteps[p.indexVectorDim])
                                                  : 0);
}

// Where the vertices of a group begin.
enum class Start { kInPlace, kOperand, kNeutral };

std::string fieldsOf(const std::vector<std::string>& types, Start start) {
  std::string fields;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::string k = std::to_string(i);
    if (start == Start::kOperand) fields += "  In<" + types[i] + "> operand" + k + ";\n";
    fields += std::string("  ") + (start == Start::kInPlace ? "Update" : "Out") + "<" + types[i] + "> out" +
              k + ";\n";
  }
  return fields;
}

PlannedCodelet makeCodelet(const char* prefix, const Expression& update, const std::string& members) {
  PlannedCodelet codelet;
  codelet.vertexClass =
      generateClass(kScatterCodelets, prefix, generateFunction(update, "Combine"), members, &codelet.source);
  return codelet;
}

// What changes no result of the operation, as C++ of the type that holds it.
std::string neutral(const Expression& update) {
  const DType type = update.inputs[0];
  const Instruction* const only = SingleOperation(update);
  const std::uint64_t bits = only == nullptr ? 0 : NeutralBits(only->op, type).value_or(0);
  const std::string name = cppName(storedAs(type, "scatter"));
  if (type != DType::kF32 && type != DType::kF16)
    return "static_cast<" + name + ">(" + std::to_string(bits) + "ull)";
  const bool negative = bits >> (8 * ipu_model::SizeOf(type) - 1) != 0;
  const char* const size = only == nullptr || only->op == ScalarOp::kAdd ? "0.0f"
                           : only->op == ScalarOp::kMultiply             ? "1.0f"
                                                                         : "__builtin_inff()";
  return "static_cast<" + name + ">(" + (negative ? "-" : "") + size + ")";
}

// Applies the updates one after another. The neutral start is for partial results. `marks`: sets a mark where
// it writes.
PlannedCodelet generateUpdates(const Expression& update, const std::vector<std::string>& types,
                               const std::string& index, Start start, bool marks) {
  const std::size_t n = types.size();
  std::string begin;
  std::string fields = fieldsOf(types, start) + "  In<" + index + "> indices;\n";
  if (marks) {
    fields += std::string("  ") + (start == Start::kInPlace ? "Update" : "Out") + "<unsigned char> mark;\n";
    if (start != Start::kInPlace)
      begin += "    for (unsigned at = share.begin; at < share.end; ++at) mark[at] = 0;\n";
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::string k = std::to_string(i);
    fields += "  In<" + types[i] + "> update" + k + ";\n";
    if (start != Start::kInPlace)
      begin += "    for (unsigned at = share.begin; at < share.end; ++at) out" + k +
               "[at] = " + (start == Start::kOperand ? "operand" + k + "[at]" : neutral(update)) + ";\n";
  }
  return makeCodelet(
      "Scatter", update,
      fields +
          "  poplar::Vector<int> part, component, batching, wrap, limit, first, window, windowStep;\n"
          "  poplar::Vector<int> rows, rowStep, indexStep;\n  int componentStep;\n  bool compute(unsigned "
          "worker) {\n    const Share share = shareOf(worker, numWorkers(), out0.size());\n" +
          begin +
          "    const Windows<decltype(indices), decltype(part)> windows{indices, part, component, batching, "
          "wrap, limit, first, window, windowStep, rows, rowStep, indexStep, componentStep};\n"
          "    windows.forEach(share, [&](unsigned to, unsigned from) { Combine::apply(" +
          listOf("out", n, "[to]") + ", " + listOf("update", n, "[from]") + ", " + listOf("out", n, "[to]") +
          ");" + (marks ? " mark[to] = 1;" : "") + " });\n    return true;\n  }\n");
}

// Takes of each element the last partial result that is marked, or the operand's.
PlannedCodelet generateLast(const Expression& update, const std::vector<std::string>& types, Start start) {
  return makeCodelet(
      "ScatterLast", update,
      fieldsOf(types, start) + "  In<" + types.at(0) +
          "> partial;\n  In<unsigned char> marks;\n  bool compute(unsigned worker) {\n    const Share share "
          "= "
          "shareOf(worker, numWorkers(), out0.size());\n    for (unsigned at = share.begin; at < share.end; "
          "++at) {\n      unsigned from = partial.size() + at;\n      do from -= out0.size(); while (from >= "
          "out0.size() && !marks[from]);\n      if (marks[from]) out0[at] = partial[from];\n" +
          (start == Start::kInPlace ? "" : "      else out0[at] = operand0[at];\n") +
          "    }\n    return true;\n  }\n");
}

// Adds partial results, one after another.
PlannedCodelet generateTotal(const Expression& update, const std::vector<std::string>& types, Start start) {
  const std::string type = types.at(0);
  return makeCodelet(
      "ScatterTotal", update,
      fieldsOf(types, start) + "  In<" + type +
          "> partial;\n  bool compute(unsigned worker) {\n    const Share share = shareOf(worker, "
          "numWorkers(), out0.size());\n    for (unsigned at = share.begin; at < share.end; ++at) {\n      " +
          type + " total = " + (start == Start::kInPlace ? "out0" : "operand0") +
          "[at];\n      for (unsigned from = at; from < partial.size(); from += out0.size()) "
          "Combine::apply(total, partial[from], total);\n      out0[at] = total;\n    }\n    return true;\n  "
          "}\n");
}

// Combines the updates of one block, from the neutral element on. A worker has rows of its own, and goes over
// the entries of all.
PlannedCodelet generateSumBlock(const Expression& update, const std::string& type,
                                const GatherRounds& rounds) {
  PlannedCodelet codelet = makeCodelet(
      "ScatterSumBlock", update,
      "  Out<" + type + "> sums;\n  In<" + type +
          "> updates;\n  In<unsigned> entries, ends;\n  Update<unsigned> next;\n"
          "  unsigned width, buckets, placeBits;\n  bool compute(unsigned worker) {\n"
          "    const Share own = shareOf(worker, numWorkers(), sums.size() / width);\n"
          "    for (unsigned at = own.begin * width; at < own.end * width; ++at) sums[at] = " +
          neutral(update) +
          ";\n    const unsigned bucket = next[worker];\n"
          "    for (unsigned other = 0; other < numWorkers(); ++other) {\n"
          "      unsigned i = bucket == 0 ? shareOf(other, numWorkers(), entries.size()).begin\n"
          "                               : ends[other * buckets + bucket - 1];\n"
          "      for (const unsigned end = ends[other * buckets + bucket]; i < end; ++i) {\n"
          "        const unsigned place = entries[i] >> placeBits;\n"
          "        if (place < own.begin || place >= own.end) continue;\n"
          "        const unsigned from = (entries[i] & ((1u << placeBits) - 1)) * width;\n"
          "        for (unsigned k = 0; k < width; ++k)\n"
          "          Combine::apply(sums[place * width + k], updates[from + k], sums[place * width + k]);\n"
          "      }\n    }\n    next[worker] = bucket + 1;\n    return true;\n  }\n");
  codelet.reads = {"entries", "ends", "updates", ""};
  codelet.writes = {"sums", "next"};
  codelet.set = [&rounds](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
    unsigned columns = 1;  // of the vertex: behind its number, parts and rows
    for (std::size_t d = 3; d < v.writes[0].begin.size(); ++d)
      columns *= static_cast<unsigned>(v.writes[0].extent(d));
    g.setInitialValue(ref["width"], columns);
    g.setInitialValue(ref["buckets"], rounds.buckets);
    g.setInitialValue(ref["placeBits"], rounds.placeBits);
  };
  return codelet;
}

// Adds what all vertices have sent of one block, one after another.
PlannedCodelet generateAddSums(const Expression& update, const std::string& type) {
  PlannedCodelet codelet = makeCodelet(
      "ScatterAddSums", update,
      "  Update<" + type + "> out;\n  In<" + type +
          "> sums;\n  Update<unsigned> trip;\n  unsigned block;\n  bool compute(unsigned worker) {\n"
          "    const Share share = shareOf(worker, numWorkers(), block);\n"
          "    const unsigned first = trip[worker] * block;\n"
          "    for (unsigned at = share.begin; at < share.end && first + at < out.size(); ++at) {\n      " +
          type +
          " total = out[first + at];\n"
          "      for (unsigned from = at; from < sums.size(); from += block) "
          "Combine::apply(total, sums[from], total);\n      out[first + at] = total;\n    }\n"
          "    ++trip[worker];\n    return true;\n  }\n");
  codelet.reads = {"sums", "", ""};
  codelet.writes = {"out", "trip"};
  codelet.set = [](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
    unsigned block = 1;
    for (std::size_t d = 1; d < v.reads[0].begin.size(); ++d)
      block *= static_cast<unsigned>(v.reads[0].extent(d));
    g.setInitialValue(ref["block"], block);
  };
  return codelet;
}

// The codelet of a group of a plan in rounds. Its temporaries have the numbers of
// ipu_model/operations/index/rounds_order.h.
PlannedCodelet codeletOfRounds(const PlannedGroup& group, const GatherRounds& rounds,
                               const Expression& update, const std::string& type, const std::string& index) {
  if (group.reads.empty()) return roundsCodelet("GatherStart<unsigned>", {}, {"trip"});
  if (group.reads.size() == 4) return generateSumBlock(update, type, rounds);
  if (group.reads.size() == 3) return generateAddSums(update, type);
  if (group.reads[0].index == 1) return orderCodelet(rounds, index);
  return roundsCodelet("GatherRows<" + type + ">", {"rows"}, {"held"});
}

// An update without operations moves bits.
Expression inHeldTypes(Expression update) {
  if (!update.code.empty()) return update;
  for (DType& type : update.inputs) type = DTypeOf(bitsOf(type, "scatter"));
  return update;
}

}  // namespace

void expandScatter(Graph& graph, const std::vector<Tensor>& operands, const Tensor& indices,
                   const std::vector<Tensor>& updates, const WindowDims& dims, const Expression& update,
                   const std::vector<Tensor>& out, bool inPlace, const ScatterPlan& plan,
                   poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  const std::size_t n = operands.size();
  refuseSmallFloats(update, "scatter");
  const Expression body = inHeldTypes(update);
  std::vector<poplar::Type> held;
  std::vector<std::string> types;
  for (std::size_t i = 0; i < n; ++i) {
    held.push_back(storedAs(body.inputs[i], "scatter"));
    types.push_back(cppName(held.back()));
  }
  const poplar::Type index = storedAs(DTypeOf(indices.elementType()), "scatter");
  std::vector<Tensor> in, results;
  for (std::size_t i = 0; i < n; ++i) in.push_back(operands[i].reinterpret(held[i]));
  in.push_back(indices.reinterpret(index));
  for (std::size_t i = 0; i < n; ++i) in.push_back(updates[i].reinterpret(held[i]));
  for (std::size_t i = 0; i < n; ++i) results.push_back(out[i].reinterpret(held[i]));
  const Problem problem{resolve(dims, operands[0].rank(), indices.rank(), updates[0].rank()),
                        operands[0].shape(), updates[0].shape(),
                        static_cast<std::size_t>(dims.index_vector_dim)};
  const auto codeletOf = [&](const PlannedGroup& group) {
    if (plan.rounds) return codeletOfRounds(group, *plan.rounds, body, types[0], cppName(index));
    const bool partial = isTemporary(group.writes[0]), total = !partial && isTemporary(group.reads.back());
    const bool marks = group.writes.size() > n, last = total && group.reads.size() > n + 1;
    const bool over = inPlace || group.reads[0].kind == PlannedTensor::Kind::kOutput;
    // After the first block of updates, the partial results are there.
    const bool further = partial && isTemporary(group.reads[0]);
    const Start start = further || (over && !partial) ? Start::kInPlace
                        : partial                     ? Start::kNeutral
                                                      : Start::kOperand;
    PlannedCodelet codelet = last    ? generateLast(body, types, start)
                             : total ? generateTotal(body, types, start)
                                     : generateUpdates(body, types, cppName(index), start, marks);
    for (std::size_t i = 0; i < n; ++i) {
      codelet.writes.push_back("out" + std::to_string(i));
      if (!partial || further) codelet.reads.push_back(over || further ? "" : "operand" + std::to_string(i));
    }
    if (marks) {
      codelet.writes.push_back("mark");
      if (further) codelet.reads.push_back("");
    }
    if (total) {
      codelet.reads.push_back("partial");
      if (last) codelet.reads.push_back("marks");
      codelet.set = [](Graph&, const VertexRef&, const PlannedVertex&) {};
      return codelet;
    }
    const std::size_t first = codelet.reads.size();  // the indices, then the updates
    codelet.reads.push_back("indices");
    for (std::size_t i = 0; i < n; ++i) codelet.reads.push_back("update" + std::to_string(i));
    codelet.set = [&, partial, first](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
      Region box = v.box;
      if (partial) {  // the first dimension is that of the partial results
        box.begin.erase(box.begin.begin());
        box.end.erase(box.end.begin());
      }
      setWindows(g, ref, problem, box, v.reads[first], v.reads[first + 1]);
    };
    return codelet;
  };
  // Partial results of updates that move bits, and their marks, are held as bits, too.
  const auto stored = [&update](DType type) {
    return update.code.empty() ? bitsOf(type, "scatter") : storedAs(type, "scatter");
  };
  expandPlan(graph, plan.plan, in, results, stored, codeletOf, prog, debugContext);
}

}  // namespace hlo
