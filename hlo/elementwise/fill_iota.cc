#include "elementwise/fill_iota.h"

#include <cstdint>
#include <cstring>

#include "codelets.h"
#include "hlo/Cost.hpp"
#include "hlo/Plan.hpp"
#include "parts.h"
#include "storage.h"

namespace hlo {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;

// As in codelets/iota.cpp.
enum Encoding : unsigned { kPlain, kLowBits, kBfloat16, kFloat64, kComplex64 };

Encoding encodingOf(DType type) {
  switch (type) {
    case DType::kS2:
    case DType::kS4:
    case DType::kU2:
    case DType::kU4:
      return kLowBits;
    case DType::kBF16:
      return kBfloat16;
    case DType::kF64:
      return kFloat64;
    case DType::kC64:
      return kComplex64;
    default:
      break;
  }
  if (!ipu_model::IsInteger(type) && type != DType::kF16 && type != DType::kF32)
    refuse("iota", std::string("the type ") + ipu_model::NameOf(type));
  return kPlain;
}

}  // namespace

void expandFill(Graph& graph, const Tensor& tensor, const std::string& bytes, poplar::program::Sequence& prog,
                const poplar::DebugContext& debugContext) {
  const poplar::Type bits = bitsOf(DTypeOf(tensor.elementType()), "fill");
  const std::string vertexClass = "hlo::Fill<" + cppName(bits) + ">";
  addCodelets(graph, vertexClass, kFillCodelets);
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  const Tensor out = tensor.reinterpret(bits);
  const poplar::ComputeSet computeSet = graph.addComputeSet({debugContext, "fill"});
  for (const Part& part : partsOf(graph, out)) {
    const VertexRef vertex =
        addVertex(graph, computeSet, vertexClass, part,
                  fillCycles(graph.getTarget(), DTypeOf(tensor.elementType()), part.elements()));
    graph.connect(vertex["out"], part.of(out));
    graph.setInitialValue(vertex["value"], value);
  }
  prog.add(poplar::program::Execute(computeSet, debugContext));
}

void expandIota(Graph& graph, const Tensor& tensor, std::size_t dimension, poplar::program::Sequence& prog,
                const poplar::DebugContext& debugContext) {
  const DType type = DTypeOf(tensor.elementType());
  const Encoding encoding = encodingOf(type);
  const poplar::Type stored = storedAs(type, "iota");
  const std::string vertexClass = "hlo::Iota<" + cppName(stored) + ">";
  addCodelets(graph, vertexClass, kIotaCodelets);
  const Tensor out = tensor.reinterpret(stored);
  const poplar::ComputeSet computeSet = graph.addComputeSet({debugContext, "iota"});
  for (const Part& part : partsOf(graph, out)) {
    const VertexRef vertex =
        addVertex(graph, computeSet, vertexClass, part, iotaCycles(graph.getTarget(), type, part.elements()));
    graph.connect(vertex["out"], part.of(out));
    const Region box{part.begin, part.end};
    graph.setInitialValue(vertex["first"], box.begin[dimension]);
    graph.setInitialValue(vertex["count"], box.extent(dimension));
    graph.setInitialValue(vertex["inner"], box.stride(dimension));
    graph.setInitialValue(vertex["encoding"], encoding);
    graph.setInitialValue(vertex["bits"], type == DType::kS2 || type == DType::kU2 ? 2 : 4);
  }
  prog.add(poplar::program::Execute(computeSet, debugContext));
}

}  // namespace hlo
