#include "sort/sort.h"

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

std::string typeOf(DType type) { return cppName(storedAs(type, "sort")); }

// Top-k compares integers, and the bits of other numbers.
poplar::Type heldAs(DType type) {
  return type == DType::kPred || ipu_model::IsFloat(type) ? bitsOf(type, "top_k") : storedAs(type, "top_k");
}

// "a0[x], b0[y], a1[x], b1[y], ..., result": the arguments of the comparator.
std::string compared(std::size_t n, const std::string& a, const std::string& x, const std::string& b,
                     const std::string& y) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) {
    const std::string k = std::to_string(i);
    text += a + k + "[" + x + "], " + b + k + "[" + y + "], ";
  }
  return text + "result";
}

// For each of n fields, `statement` with its number in place of "#".
std::string forEach(std::size_t n, const std::string& statement) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) {
    for (const char c : statement) text += c == '#' ? std::to_string(i) : std::string(1, c);
  }
  return text;
}

const char* const kRows =
    "  unsigned length, step;\n"
    "  bool compute(unsigned worker) {\n"
    "    const Share share = rowsOf(worker, numWorkers(), out0.size() / length, step);\n"
    "    for (unsigned r = share.begin; r < share.end; ++r) {\n"
    "      const Row row(r, length, step);\n";

// Sorts rows. `positions`: whether there is one more result, the position of each element before. `inPlace`:
// the results have the operands already.
PlannedCodelet generateSort(const Expression& comparator, bool positions, bool inPlace) {
  const std::size_t n = comparator.inputs.size() / 2, results = n + (positions ? 1 : 0);
  PlannedCodelet codelet;
  std::string fields;
  for (std::size_t i = 0; i < results; ++i) {
    const std::string k = std::to_string(i), type = i < n ? typeOf(comparator.inputs[2 * i]) : "unsigned";
    fields += (inPlace && i < n ? "  Update<" : "  Out<") + type + "> out" + k + ";\n";
    codelet.writes.push_back("out" + k);
    if (i == n) break;
    codelet.reads.push_back(inPlace ? "" : "in" + k);
    if (!inPlace) fields += "  In<" + type + "> in" + k + ";\n";
  }
  std::string load = inPlace ? "" : forEach(n, "        out#[row[k]] = in#[row[k]];\n");
  if (positions) {
    fields += "  unsigned first;\n";
    load += "        out" + std::to_string(n) + "[row[k]] = first + k;\n";
  }
  codelet.vertexClass = generateClass(
      kSortCodelets, "Sort", generateFunction(comparator, "Less"),
      fields + kRows + "      for (unsigned k = 0; k < length; ++k) {\n" + load +
          "      }\n      sortRow(*this, row, length);\n    }\n    return true;\n  }\n"
          "  bool less(unsigned a, unsigned b) {\n    bool result;\n    Less::apply(" +
          compared(n, "out", "a", "out", "b") + ");\n    return result;\n  }\n" +
          "  void exchange(unsigned a, unsigned b) {\n" +
          forEach(results, "    const auto x# = out#[a];\n    out#[a] = out#[b];\n    out#[b] = x#;\n") +
          "  }\n",
      &codelet.source);
  return codelet;
}

// Makes of each row its half of the elements of two rows. `positions`: the last operand, which orders
// elements that compare as equal; without it those are alike.
PlannedCodelet generateMerge(const Expression& comparator, bool positions) {
  const std::size_t n = comparator.inputs.size() / 2, count = n + (positions ? 1 : 0);
  PlannedCodelet codelet;
  std::string fields;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string k = std::to_string(i), type = i < n ? typeOf(comparator.inputs[2 * i]) : "unsigned";
    fields += "  Update<" + type + "> out" + k + ";\n  In<" + type + "> other" + k + ";\n";
    codelet.writes.push_back("out" + k);
  }
  codelet.reads.assign(count, "");
  for (std::size_t i = 0; i < count; ++i) codelet.reads.push_back("other" + std::to_string(i));
  const std::string last = std::to_string(n);
  const std::string ties =
      positions ? "    if (result) return true;\n    Less::apply(" + compared(n, "other", "b", "out", "a") +
                      ");\n    return !result && out" + last + "[a] < other" + last + "[b];\n"
                : "    return result;\n";
  codelet.vertexClass = generateClass(
      kSortCodelets, "SortMerge", generateFunction(comparator, "Less"),
      fields + "  unsigned others;\n  bool keepsFirst;\n" + kRows +
          "      const Row other(r, others, step);\n"
          "      if (keepsFirst) keepFirst(*this, row, length, other, others);\n"
          "      else keepLast(*this, row, length, other, others);\n    }\n    return true;\n  }\n"
          "  bool ownFirst(unsigned a, unsigned b) {\n    bool result;\n    Less::apply(" +
          compared(n, "out", "a", "other", "b") + ");\n" + ties +
          "  }\n  void move(unsigned to, unsigned from) {\n" +
          forEach(count, "    out#[to] = out#[from];\n") +
          "  }\n  void take(unsigned to, unsigned from) {\n" +
          forEach(count, "    out#[to] = other#[from];\n") + "  }\n",
      &codelet.source);
  return codelet;
}

// Copies the sorted elements, and their positions.
PlannedCodelet generateStore(const Expression& comparator, bool positions) {
  const std::size_t n = comparator.inputs.size() / 2, results = n + (positions ? 1 : 0);
  PlannedCodelet codelet;
  std::string fields, copies;
  for (std::size_t i = 0; i < results; ++i) {
    const std::string k = std::to_string(i), type = i < n ? typeOf(comparator.inputs[2 * i]) : "unsigned";
    fields += "  In<" + type + "> in" + k + ";\n  Out<" + type + "> out" + k + ";\n";
    codelet.reads.push_back("in" + k);
    codelet.writes.push_back("out" + k);
  }
  codelet.vertexClass =
      generateClass(kSortCodelets, "SortStore", "",
                    fields +
                        "  bool compute(unsigned worker) {\n"
                        "    const Share share = shareOf(worker, numWorkers(), out0.size());\n"
                        "    for (unsigned i = share.begin; i < share.end; ++i) {\n" +
                        forEach(results, "      out#[i] = in#[i];\n") + "    }\n    return true;\n  }\n",
                    &codelet.source);
  codelet.set = [](Graph&, const VertexRef&, const PlannedVertex&) {};
  return codelet;
}

}  // namespace

void expandSort(Graph& graph, const std::vector<Tensor>& operands, std::size_t dimension,
                const Expression& comparator, const std::vector<Tensor>& out, const Plan& plan,
                poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  refuseSmallFloats(comparator, "sort");
  std::vector<Tensor> in, results;
  const auto stored = [](const Tensor& t) {
    return t.reinterpret(storedAs(DTypeOf(t.elementType()), "sort"));
  };
  for (const Tensor& t : operands) in.push_back(stored(t));
  for (const Tensor& t : out)
    results.push_back(results.size() < in.size() ? stored(t) : t.reinterpret(poplar::UNSIGNED_INT));
  const bool inPlace = operands[0] == out[0];
  const auto codeletOf = [&](const PlannedGroup& group) {
    const bool sorts = group.reads[0].kind == PlannedTensor::Kind::kInput;
    const bool positions = group.writes.size() > operands.size();
    if (isTemporary(group.reads[0]) && !isTemporary(group.writes[0]))
      return generateStore(comparator, positions);
    PlannedCodelet codelet =
        sorts ? generateSort(comparator, positions, inPlace) : generateMerge(comparator, positions);
    codelet.set = [=, n = group.writes.size()](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
      const Region& own = v.writes[0];
      const std::size_t step = own.stride(dimension);
      g.setInitialValue(ref["length"], static_cast<unsigned>(own.extent(dimension)));
      g.setInitialValue(ref["step"], static_cast<unsigned>(step));
      if (sorts && positions) g.setInitialValue(ref["first"], static_cast<unsigned>(own.begin[dimension]));
      if (sorts) return;
      const Region& other = v.reads[n];
      g.setInitialValue(ref["others"], static_cast<unsigned>(other.extent(dimension)));
      g.setInitialValue(ref["keepsFirst"], own.begin[dimension] < other.begin[dimension]);
    };
    return codelet;
  };
  expandPlan(
      graph, plan, in, results, [](DType type) { return storedAs(type, "sort"); }, codeletOf, prog,
      debugContext);
}

void expandTopK(Graph& graph, const Tensor& operand, bool largest, const Tensor& values,
                const Tensor& indices, const Plan& plan, poplar::program::Sequence& prog,
                const poplar::DebugContext& debugContext) {
  const DType type = DTypeOf(operand.elementType());
  const auto codeletOf = [&](const PlannedGroup& group) {
    const bool merges = isTemporary(group.reads[0]);
    PlannedCodelet codelet;
    codelet.vertexClass = std::string("hlo::") + (merges ? "TopKMerge<" : "TopK<") + cppName(heldAs(type));
    for (const bool option : {ipu_model::IsFloat(type), largest})
      codelet.vertexClass += option ? ", true" : ", false";
    codelet.vertexClass += ", " + std::to_string(unusedBits(type)) + ">";
    codelet.source = std::string(kSortCodelets) + "template class " + codelet.vertexClass + ";\n";
    codelet.reads = {"values"};
    if (merges) codelet.reads.push_back("positions");
    codelet.writes = {"best", "places"};
    codelet.set = [merges](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
      const Region &read = v.reads[0], &written = v.writes[0];
      const std::size_t last = read.begin.size() - 1;
      const std::size_t length = read.extent(last) * (merges ? read.extent(last - 1) : 1);
      g.setInitialValue(ref["length"], static_cast<unsigned>(length));
      g.setInitialValue(ref["k"], static_cast<unsigned>(written.extent(written.begin.size() - 1)));
      if (!merges) g.setInitialValue(ref["first"], static_cast<int>(read.begin[last]));
    };
    return codelet;
  };
  expandPlan(graph, plan, {operand.reinterpret(heldAs(type))}, {values.reinterpret(heldAs(type)), indices},
             heldAs, codeletOf, prog, debugContext);
}

}  // namespace hlo
