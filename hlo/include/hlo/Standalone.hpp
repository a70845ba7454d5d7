// The functions of hlo/ with nothing but Poplar below them: results are spread over the tiles in blocks, and
// the work is the expansion of the library. A build against an SDK uses them; the model has its own functions
// of these names, which plan and have kernels. Arguments and results are those of the headers of include/hlo.
// All throw NotExpanded, with the name of the type, for types that have no expansion.
#ifndef HLO_STANDALONE_HPP
#define HLO_STANDALONE_HPP

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "hlo/Elementwise.hpp"
#include "hlo/Index.hpp"
#include "hlo/LinearAlgebra.hpp"
#include "hlo/Random.hpp"
#include "hlo/Reduce.hpp"
#include "hlo/Sort.hpp"
#include "hlo/Window.hpp"

namespace hlo::standalone {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

std::vector<Tensor> map(Graph& graph, const Expression& expression, const std::vector<Tensor>& tensors,
                        const std::vector<Tensor>& outputs, Sequence& prog, const DebugContext& debugContext);

Tensor triangularSolve(Graph& graph, const Tensor& a, const Tensor& b, const TriangularOptions& options,
                       Sequence& prog, const DebugContext& debugContext);
Tensor applyReflectors(Graph& graph, const Tensor& packed, const Tensor& taus, const Tensor& x,
                       unsigned below, Sequence& prog, const DebugContext& debugContext);
std::vector<Tensor> implicitQr(Graph& graph, bool bidiagonal, const Tensor& d, const Tensor& e,
                               const std::vector<Tensor>& rows, Sequence& prog,
                               const DebugContext& debugContext);

Tensor dynamicSlice(Graph& graph, const Tensor& operand, const std::vector<Tensor>& starts,
                    const std::vector<std::size_t>& sizes, Sequence& prog, const DebugContext& debugContext);
Tensor dynamicUpdateSlice(Graph& graph, const Tensor& operand, const Tensor& update,
                          const std::vector<Tensor>& starts, Sequence& prog, bool inPlace,
                          const DebugContext& debugContext);
Tensor gather(Graph& graph, const Tensor& operand, const Tensor& indices, const WindowDims& dims,
              const std::vector<std::size_t>& sliceSizes, Sequence& prog, const DebugContext& debugContext);
std::vector<Tensor> scatter(Graph& graph, const std::vector<Tensor>& operands, const Tensor& indices,
                            const std::vector<Tensor>& updates, const WindowDims& dims,
                            const Expression& update, Sequence& prog, bool inPlace,
                            const DebugContext& debugContext);

std::vector<Tensor> reduce(Graph& graph, const std::vector<Tensor>& tensors, const std::vector<Tensor>& inits,
                           const std::vector<std::size_t>& dims, const Expression& body, Sequence& prog,
                           const DebugContext& debugContext, bool unrounded);
// `outShape`: windowOutputShape.
std::vector<Tensor> reduceWindow(Graph& graph, const std::vector<Tensor>& tensors,
                                 const std::vector<Tensor>& inits, const WindowGeometry& geometry,
                                 const std::vector<std::size_t>& outShape, const Expression& combiner,
                                 Sequence& prog, const DebugContext& debugContext);
Tensor selectAndScatter(Graph& graph, const Tensor& operand, const Tensor& source, const Tensor& init,
                        const WindowGeometry& geometry, const Expression& select, const Expression& scatter,
                        Sequence& prog, const DebugContext& debugContext);

// `positions`: as sortWithPositions.
std::vector<Tensor> sort(Graph& graph, const std::vector<Tensor>& operands, std::size_t dimension,
                         const Expression& comparator, bool positions, Sequence& prog,
                         const DebugContext& debugContext);
std::pair<Tensor, Tensor> topK(Graph& graph, const Tensor& operand, std::size_t k, Sequence& prog,
                               bool largest, const DebugContext& debugContext);

std::pair<Tensor, Tensor> rngBitGenerator(Graph& graph, RandomAlgorithm algorithm, const Tensor& state,
                                          const poplar::Type& type, const std::vector<std::size_t>& shape,
                                          Sequence& prog, const DebugContext& debugContext);
void threefry2x32(Graph& graph, const std::array<Tensor, 2>& key, const std::array<CounterWord, 2>& counter,
                  const std::vector<Tensor>& counterTensors, const std::vector<Tensor>& outputs,
                  Sequence& prog, const DebugContext& debugContext);

}  // namespace hlo::standalone

#endif  // HLO_STANDALONE_HPP
