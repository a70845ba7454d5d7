#include "random/random.h"

#include <cstdint>
#include <string>

#include "codelets.h"
#include "combine.h"
#include "planned.h"
#include "storage.h"

namespace hlo {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;

// Elements of up to 32 bits take the words of a ThreeFry block in the order of XLA: neighbours along one
// dimension, the first even one, or else the longest.
unsigned splitDimension(const std::vector<std::size_t>& whole) {
  unsigned longest = 0;
  for (unsigned d = 0; d < whole.size(); ++d) {
    if (whole[d] % 2 == 0) return d;
    if (whole[d] > whole[longest]) longest = d;
  }
  return longest;
}

std::vector<unsigned> extentsOf(const Region& region) {
  const std::vector<std::size_t> shape = region.shape();
  return {shape.begin(), shape.end()};
}

}  // namespace

void expandRngBitGenerator(Graph& graph, RandomAlgorithm algorithm, const Tensor& state,
                           const Tensor& newState, const Tensor& bits, const Plan& plan,
                           poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  constexpr const char* kFunction = "rng_bit_generator";
  const poplar::Type stateType = bitsOf(DTypeOf(state.elementType()), kFunction),
                     type = bitsOf(DTypeOf(bits.elementType()), kFunction);
  const bool philox = algorithm == RandomAlgorithm::kPhilox, wide = type == poplar::UNSIGNED_LONGLONG;
  const std::vector<std::size_t> whole = bits.shape();
  const int split = !philox && !wide && !whole.empty() ? static_cast<int>(splitDimension(whole)) : -1;
  const unsigned perBlock = philox ? (wide ? 2 : 4) : 1;
  unsigned long long blocks = bits.numElements();
  if (split >= 0 && blocks > 0) {
    const std::size_t extent = whole[static_cast<unsigned>(split)];
    blocks = blocks / extent * ((extent + 1) / 2);
  }
  blocks = (blocks + perBlock - 1) / perBlock;
  const auto codeletOf = [&](const PlannedGroup& group) {
    const bool advances = group.writes[0].index == 0;
    PlannedCodelet codelet;
    codelet.vertexClass = advances ? "hlo::AdvanceState<" + cppName(stateType) + ">"
                                   : "hlo::RandomBits<" + cppName(type) + ", " + cppName(stateType) + ">";
    codelet.source = std::string(kRandomCodelets) + "template class " + codelet.vertexClass + ";\n";
    codelet.reads = {"state"};
    codelet.writes = {advances ? "next" : "out"};
    codelet.set = [&, advances](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
      if (advances) return g.setInitialValue(ref["blocks"], blocks);
      g.setInitialValue(ref["whole"], std::vector<unsigned>(whole.begin(), whole.end()));
      g.setInitialValue(ref["part"], extentsOf(v.box));
      g.setInitialValue(ref["first"], std::vector<unsigned>(v.box.begin.begin(), v.box.begin.end()));
      g.setInitialValue(ref["split"], split);
      g.setInitialValue(ref["perBlock"], perBlock);
      g.setInitialValue(ref["isPhilox"], philox);
    };
    return codelet;
  };
  expandPlan(
      graph, plan, {state.reinterpret(stateType)}, {newState.reinterpret(stateType), bits.reinterpret(type)},
      [](DType t) { return storedAs(t, kFunction); }, codeletOf, prog, debugContext);
}

void expandThreefry(Graph& graph, const std::vector<Tensor>& inputs,
                    const std::array<CounterWord, 2>& counter, const std::vector<Tensor>& outputs,
                    const Plan& plan, poplar::program::Sequence& prog,
                    const poplar::DebugContext& debugContext) {
  constexpr const char* kFunction = "threefry2x32";
  const std::string type = cppName(storedAs(DTypeOf(outputs.at(0).elementType()), kFunction));
  const auto codeletOf = [&](const PlannedGroup& group) {
    std::string fields, counters, stores;
    PlannedCodelet codelet;
    codelet.reads = {"key0", "key1"};
    for (unsigned w = 0; w < 2; ++w) {
      const std::string k = std::to_string(w);
      fields += "  In<unsigned int> key" + k + ";\n  poplar::Vector<unsigned> step" + k +
                ";\n  unsigned start" + k + ";\n";
      counters += "      unsigned c" + k + " = start" + k;
      if (counter[w].has_tensor) {
        fields += "  In<unsigned int> counter" + k + ";\n";
        counters += " + counter" + k + "[at]";
        codelet.reads.push_back("counter" + k);
      }
      counters += ";\n";
    }
    for (const PlannedTensor& to : group.writes) {
      const std::string k = std::to_string(to.index);
      fields += "  Out<" + type + "> out" + k + ";\n";
      codelet.writes.push_back("out" + k);
      stores += "      out" + k + "[at] = " +
                (outputs.size() == 2            ? std::string(to.index == 0 ? "pair.x" : "pair.y")
                 : type == "unsigned long long" ? "static_cast<" + type + ">(pair.x) << 32 | pair.y"
                                                : "static_cast<" + type + ">(pair.x ^ pair.y)") +
                ";\n";
    }
    codelet.vertexClass =
        generateClass(kRandomCodelets, "Threefry", "",
                      fields +
                          "  poplar::Vector<unsigned> part;\n"
                          "  bool compute(unsigned worker) {\n"
                          "    const Share share = shareOf(worker, numWorkers(), " +
                          codelet.writes[0] +
                          ".size());\n"
                          "    for (unsigned at = share.begin; at < share.end; ++at) {\n" +
                          counters +
                          "      for (unsigned d = part.size(), rest = at; d-- > 0; rest /= part[d]) {\n"
                          "        c0 += rest % part[d] * step0[d];\n"
                          "        c1 += rest % part[d] * step1[d];\n"
                          "      }\n"
                          "      const Pair pair = threefry(key0[at], key1[at], c0, c1);\n" +
                          stores + "    }\n    return true;\n  }\n",
                      &codelet.source);
    codelet.set = [&](Graph& g, const VertexRef& ref, const PlannedVertex& v) {
      g.setInitialValue(ref["part"], extentsOf(v.box));
      for (unsigned w = 0; w < 2; ++w) {
        std::uint32_t start = counter[w].start;
        for (std::size_t d = 0; d < v.box.begin.size(); ++d)
          start += counter[w].strides[d] * static_cast<std::uint32_t>(v.box.begin[d]);
        g.setInitialValue(ref["start" + std::to_string(w)], start);
        g.setInitialValue(ref["step" + std::to_string(w)], counter[w].strides);
      }
    };
    return codelet;
  };
  expandPlan(
      graph, plan, inputs, outputs, [](DType t) { return storedAs(t, kFunction); }, codeletOf, prog,
      debugContext);
}

}  // namespace hlo
