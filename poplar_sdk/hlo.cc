// The functions of include/hlo/ over Graphcore's SDK: expansions of the library hlo, PopLibs' functions, or
// an error that says what there is not.
#include <algorithm>

#include "hlo/Convolution.hpp"
#include "hlo/CycleStamp.hpp"
#include "hlo/Expansion.hpp"
#include "hlo/Fft.hpp"
#include "hlo/Library.hpp"
#include "hlo/Standalone.hpp"
#include "poplar/CycleCount.hpp"
#include "poplar/exceptions.hpp"
#include "poputil/TileMapping.hpp"

namespace hlo {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

namespace {

[[noreturn]] void missing(const char* function) {
  throw NotExpanded(
      std::string(function) +
      ": its division over tiles is planned by the IPU model only; run the program on the model");
}

}  // namespace

std::vector<Tensor> map(Graph& graph, const Expression& expression, const std::vector<Tensor>& tensors,
                        const std::vector<Tensor>& outputs, Sequence& prog,
                        const DebugContext& debugContext) {
  return standalone::map(graph, expression, tensors, outputs, prog, debugContext);
}
void fill(Graph& graph, const Tensor& tensor, const std::string& bytes, Sequence& prog,
          const DebugContext& debugContext) {
  if (tensor.numElements() > 0) library().fill(graph, tensor, bytes, prog, debugContext);
}
void iota(Graph& graph, const Tensor& tensor, std::size_t dimension, Sequence& prog,
          const DebugContext& debugContext) {
  if (tensor.numElements() > 0) library().iota(graph, tensor, dimension, prog, debugContext);
}

Tensor triangularSolve(Graph& graph, const Tensor& a, const Tensor& b, const TriangularOptions& options,
                       Sequence& prog, const DebugContext& debugContext) {
  return standalone::triangularSolve(graph, a, b, options, prog, debugContext);
}
LuPanel luPanel(Graph&, const Tensor&, Sequence&, const DebugContext&) { missing("lu_panel"); }
QrPanel qrPanel(Graph&, const Tensor&, Sequence&, const DebugContext&) { missing("qr_panel"); }
TwoSided twoSided(Graph&, TwoSidedForm, const Tensor&, Sequence&, const DebugContext&) {
  missing("two_sided");
}
std::vector<Tensor> schur(Graph&, const Tensor&, bool, bool, Sequence&, const DebugContext&) {
  missing("schur");
}
Tensor applyReflectors(Graph& graph, const Tensor& packed, const Tensor& taus, const Tensor& x,
                       unsigned below, Sequence& prog, const DebugContext& debugContext) {
  return standalone::applyReflectors(graph, packed, taus, x, below, prog, debugContext);
}
std::vector<Tensor> tridiagonalQr(Graph& graph, const Tensor& d, const Tensor& e,
                                  const std::vector<Tensor>& rows, Sequence& prog,
                                  const DebugContext& debugContext) {
  return standalone::implicitQr(graph, false, d, e, rows, prog, debugContext);
}
std::vector<Tensor> bidiagonalQr(Graph& graph, const Tensor& d, const Tensor& e,
                                 const std::vector<Tensor>& rows, Sequence& prog,
                                 const DebugContext& debugContext) {
  return standalone::implicitQr(graph, true, d, e, rows, prog, debugContext);
}

Tensor dynamicSlice(Graph& graph, const Tensor& operand, const std::vector<Tensor>& starts,
                    const std::vector<std::size_t>& sizes, Sequence& prog, const DebugContext& debugContext) {
  return standalone::dynamicSlice(graph, operand, starts, sizes, prog, debugContext);
}
Tensor dynamicUpdateSlice(Graph& graph, const Tensor& operand, const Tensor& update,
                          const std::vector<Tensor>& starts, Sequence& prog, bool inPlace,
                          const DebugContext& debugContext) {
  return standalone::dynamicUpdateSlice(graph, operand, update, starts, prog, inPlace, debugContext);
}
Tensor gather(Graph& graph, const Tensor& operand, const Tensor& indices, const WindowDims& dims,
              const std::vector<std::size_t>& sliceSizes, Sequence& prog, const DebugContext& debugContext) {
  return standalone::gather(graph, operand, indices, dims, sliceSizes, prog, debugContext);
}
Tensor createGatherInput(Graph& graph, const poplar::Type& type, const std::vector<std::size_t>& shape,
                         const std::vector<std::size_t>&, const WindowDims&, const std::vector<std::size_t>&,
                         const DebugContext& debugContext, bool) {
  const Tensor input = graph.addVariable(type, shape, debugContext);
  poputil::mapTensorLinearly(graph, input);
  return input;
}
std::vector<Tensor> scatter(Graph& graph, const std::vector<Tensor>& operands, const Tensor& indices,
                            const std::vector<Tensor>& updates, const WindowDims& dims, bool,
                            const Expression& update, Sequence& prog, bool inPlace,
                            const DebugContext& debugContext) {
  return standalone::scatter(graph, operands, indices, updates, dims, update, prog, inPlace, debugContext);
}

std::vector<Tensor> reduce(Graph& graph, const std::vector<Tensor>& tensors, const std::vector<Tensor>& inits,
                           const std::vector<std::size_t>& dims, const Expression& body, Sequence& prog,
                           const DebugContext& debugContext, bool unrounded) {
  return standalone::reduce(graph, tensors, inits, dims, body, prog, debugContext, unrounded);
}

std::vector<Tensor> reduceWindow(Graph& graph, const std::vector<Tensor>& tensors,
                                 const std::vector<Tensor>& inits, const WindowParameters& params,
                                 const Expression& combiner, Sequence& prog,
                                 const DebugContext& debugContext) {
  return standalone::reduceWindow(graph, tensors, inits, params.geometry,
                                  windowOutputShape(tensors.at(0).shape(), params), combiner, prog,
                                  debugContext);
}
Tensor selectAndScatter(Graph& graph, const Tensor& operand, const Tensor& source, const Tensor& init,
                        const WindowParameters& params, const Expression& select, const Expression& scatter,
                        Sequence& prog, const DebugContext& debugContext) {
  return standalone::selectAndScatter(graph, operand, source, init, params.geometry, select, scatter, prog,
                                      debugContext);
}

std::vector<Tensor> sort(Graph& graph, const std::vector<Tensor>& operands, std::size_t dimension,
                         const Expression& comparator, Sequence& prog, const DebugContext& debugContext) {
  return standalone::sort(graph, operands, dimension, comparator, false, prog, debugContext);
}

std::vector<Tensor> sortWithPositions(Graph& graph, const std::vector<Tensor>& operands,
                                      std::size_t dimension, const Expression& comparator, Sequence& prog,
                                      const DebugContext& debugContext) {
  return standalone::sort(graph, operands, dimension, comparator, true, prog, debugContext);
}
// Sorts elsewhere and copies back, so any mapping does.
Tensor createSortOperand(Graph& graph, const std::vector<poplar::Type>& types, std::size_t number,
                         const std::vector<std::size_t>& shape, std::size_t, const Expression&, bool,
                         const DebugContext& debugContext) {
  const Tensor operand = graph.addVariable(types.at(number), shape, debugContext);
  poputil::mapTensorLinearly(graph, operand);
  return operand;
}
std::vector<Tensor> sortInPlace(Graph& graph, const std::vector<Tensor>& operands, std::size_t dimension,
                                const Expression& comparator, bool positions, Sequence& prog,
                                const DebugContext& debugContext) {
  const std::vector<Tensor> results =
      standalone::sort(graph, operands, dimension, comparator, positions, prog, debugContext);
  for (std::size_t i = 0; i < operands.size(); ++i)
    prog.add(poplar::program::Copy(results[i], operands[i], false, debugContext));
  return {results.begin() + static_cast<std::ptrdiff_t>(operands.size()), results.end()};
}
std::pair<Tensor, Tensor> topK(Graph& graph, const Tensor& operand, std::size_t k, Sequence& prog,
                               bool largest, const DebugContext& debugContext) {
  return standalone::topK(graph, operand, k, prog, largest, debugContext);
}

// Poplar has no complex type, so no tensor can be the operand.
Tensor fft(Graph&, const Tensor&, FftType, const std::vector<std::size_t>&, Sequence&, const DebugContext&,
           double) {
  missing("fft");
}

std::pair<Tensor, Tensor> rngBitGenerator(Graph& graph, RandomAlgorithm algorithm, const Tensor& state,
                                          const poplar::Type& type, const std::vector<std::size_t>& shape,
                                          Sequence& prog, const DebugContext& debugContext) {
  return standalone::rngBitGenerator(graph, algorithm, state, type, shape, prog, debugContext);
}
void threefry2x32(Graph& graph, const std::array<Tensor, 2>& key, const std::array<CounterWord, 2>& counter,
                  const std::vector<Tensor>& counterTensors, const std::vector<Tensor>& outputs,
                  Sequence& prog, const DebugContext& debugContext) {
  standalone::threefry2x32(graph, key, counter, counterTensors, outputs, prog, debugContext);
}

void cycleStamp(Graph& graph, const Tensor& out, Sequence& prog, const DebugContext& debugContext) {
  for (unsigned i = 0; i < out.dim(0); ++i) {
    const auto mapping = graph.getTileMapping(out[i]);
    unsigned tile = 0;
    while (tile + 1 < mapping.size() && mapping[tile].empty()) ++tile;
    const Tensor stamp =
        poplar::cycleStamp(graph, prog, tile, poplar::SyncType::INTERNAL, {debugContext, "stamp"});
    prog.add(poplar::program::Copy(stamp, out[i], false, debugContext));
  }
}
// Nothing is known of it here: hardware measures.
std::uint64_t cyclesBetweenStamps(const poplar::Target&) { return 0; }

}  // namespace hlo
