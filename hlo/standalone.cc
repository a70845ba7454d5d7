#include "hlo/Standalone.hpp"

#include <algorithm>
#include <utility>

#include "combine.h"
#include "hlo/Expansion.hpp"
#include "hlo/Library.hpp"
#include "storage.h"
#include "whole_plan.h"
#include "window/window_dims.h"

namespace hlo::standalone {
namespace {

using poplar::Type;
using Shape = std::vector<std::size_t>;

constexpr auto kInput = PlannedTensor::Kind::kInput;
constexpr auto kOutput = PlannedTensor::Kind::kOutput;

unsigned tilesOf(const Graph& graph) { return graph.getTarget().getNumTiles(); }

// The blocks of a result, whose dimensions may all be cut but those that `whole` lists.
Grid spread(const Graph& graph, const Shape& shape, const std::vector<std::size_t>& whole = {}) {
  std::vector<bool> free(shape.size(), true);
  for (const std::size_t d : whole) free[d] = false;
  return gridOver(shape, free, tilesOf(graph));
}

Region at(const Part& part) { return {part.begin, part.end}; }
Region wholeOf(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

// Accesses to n tensors from `first` on.
void addOwn(std::vector<WholeAccess>* list, PlannedTensor::Kind kind, unsigned first, std::size_t n) {
  for (unsigned i = 0; i < n; ++i) list->push_back(own(kind, first + i));
}
void addAll(std::vector<WholeAccess>* list, PlannedTensor::Kind kind, unsigned first,
            const std::vector<Tensor>& tensors) {
  for (unsigned i = 0; i < tensors.size(); ++i) list->push_back(all(kind, first + i, tensors[i].shape()));
}

// The first input whose tile mapping a result can have, or null.
const Tensor* mappedInput(const std::vector<Tensor>& tensors) {
  for (const Tensor& t : tensors)
    if (!t.containsAliases() && !t.containsConstant()) return &t;
  return nullptr;
}

}  // namespace

std::vector<Tensor> map(Graph& graph, const Expression& expression, const std::vector<Tensor>& tensors,
                        const std::vector<Tensor>& outputs, Sequence& prog,
                        const DebugContext& debugContext) {
  const Shape shape = tensors.empty() ? outputs.at(0).shape() : tensors[0].shape();
  std::vector<Tensor> inputs, results;
  std::vector<int> inPlace;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    inPlace.push_back(-1);
    results.push_back(outputs[o]);
    if (outputs[o].valid()) {
      const auto same = std::find(tensors.begin(), tensors.end(), outputs[o]);
      if (same != tensors.end()) inPlace[o] = static_cast<int>(same - tensors.begin());
      continue;
    }
    const Type type = ipu_model::TypeOf(expression.TypeOf(expression.outputs[o]));
    const Tensor* const like = mappedInput(tensors);
    results[o] = like == nullptr ? variableOn(graph, spread(graph, shape), type, {debugContext, "out"})
                                 : graph.clone(type, *like, {debugContext, "out"});
  }
  // What is written in place is no other input as well.
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Tensor input = tensors[i];
    for (std::size_t o = 0; o < results.size(); ++o) {
      if (inPlace[o] == static_cast<int>(i) || !input.intersectsWith(results[o])) continue;
      const Tensor copy = graph.clone(results[o], {debugContext, "old"});
      prog.add(poplar::program::Copy(tensors[i], copy, false, debugContext));
      input = copy;
      break;
    }
    inputs.push_back(input);
  }
  if (results.at(0).numElements() > 0)
    library().map(graph, expression, inputs, results, inPlace, prog, debugContext);
  return results;
}

Tensor triangularSolve(Graph& graph, const Tensor& a, const Tensor& b, const TriangularOptions& options,
                       Sequence& prog, const DebugContext& debugContext) {
  const std::size_t equations = options.left_side ? b.rank() - 2 : b.rank() - 1;
  Grid grid = spread(graph, b.shape(), {equations});
  const Tensor out = variableOn(graph, grid, b.elementType(), {debugContext, "x"});
  if (out.numElements() > 0)
    library().triangularSolve(graph, a, b, out, false, options, grid, prog, debugContext);
  return out;
}

Tensor applyReflectors(Graph& graph, const Tensor& packed, const Tensor& taus, const Tensor& x,
                       unsigned below, Sequence& prog, const DebugContext& debugContext) {
  const std::size_t batch = x.rank() - 2;
  const Grid grid = spread(graph, x.shape(), {batch});
  const Tensor out = variableOn(graph, grid, x.elementType(), {debugContext, "out"});
  // The matrices of the part.
  const auto matrices = [batch](const Tensor& t) {
    return [batch, shape = t.shape()](const Part& part) {
      Region region = wholeOf(shape);
      for (std::size_t d = 0; d < batch; ++d) {
        region.begin[d] = part.begin[d];
        region.end[d] = part.end[d];
      }
      return region;
    };
  };
  Plan plan;
  plan.supersteps = {{groupOf(
      partsOf(grid, tilesOf(graph)),
      {{{kInput, 0}, matrices(packed)}, {{kInput, 1}, matrices(taus)}, own(kInput, 2)}, {own(kOutput, 0)})}};
  if (out.numElements() > 0)
    library().applyReflectors(graph, packed, taus, x, below, out, plan, prog, debugContext);
  return out;
}

std::vector<Tensor> implicitQr(Graph& graph, bool bidiagonal, const Tensor& d, const Tensor& e,
                               const std::vector<Tensor>& rows, Sequence& prog,
                               const DebugContext& debugContext) {
  const std::size_t batch = d.rank() - 1;
  const auto vectors = [batch](const Tensor& t) {
    return [batch, shape = t.shape()](const Part& part) {
      Region region = wholeOf(shape);
      for (std::size_t k = 0; k < batch; ++k) {
        region.begin[k] = part.begin[k];
        region.end[k] = part.end[k];
      }
      return region;
    };
  };
  std::vector<Tensor> inputs = {d, e}, outputs;
  Plan plan;
  std::vector<PlannedGroup>& groups = plan.supersteps.emplace_back();
  for (unsigned o = 0; o <= rows.size(); ++o) {
    const Tensor& like = o == 0 ? d : rows[o - 1];
    const Grid grid = spread(graph, like.shape(), {batch});
    outputs.push_back(variableOn(graph, grid, like.elementType(), {debugContext, "out"}));
    if (outputs.back().numElements() == 0) continue;
    std::vector<WholeAccess> reads = {{{kInput, 0}, vectors(d)}, {{kInput, 1}, vectors(e)}};
    if (o > 0) {
      reads.push_back(own(kInput, o + 1));
      inputs.push_back(rows[o - 1]);
    }
    groups.push_back(groupOf(partsOf(grid, tilesOf(graph)), reads, {own(kOutput, o)}));
  }
  if (!groups.empty()) library().implicitQr(graph, bidiagonal, inputs, outputs, plan, prog, debugContext);
  return outputs;
}

Tensor dynamicSlice(Graph& graph, const Tensor& operand, const std::vector<Tensor>& starts,
                    const std::vector<std::size_t>& sizes, Sequence& prog, const DebugContext& debugContext) {
  std::vector<std::size_t> sliced;
  for (unsigned d = 0; d < operand.rank(); ++d)
    if (sizes[d] < operand.dim(d)) sliced.push_back(d);
  const Grid grid = spread(graph, sizes, sliced);
  const Tensor out = variableOn(graph, grid, operand.elementType(), {debugContext, "slice"});
  const auto source = [shape = operand.shape(), sliced](const Part& part) {
    Region region = at(part);
    for (const std::size_t d : sliced) {
      region.begin[d] = 0;
      region.end[d] = shape[d];
    }
    return region;
  };
  std::vector<WholeAccess> reads = {{{kInput, 0}, source}};
  addAll(&reads, kInput, 1, starts);
  GatherPlan plan;
  plan.plan.supersteps = {{groupOf(partsOf(grid, tilesOf(graph)), reads, {own(kOutput, 0)}, source)}};
  if (out.numElements() > 0) library().dynamicSlice(graph, operand, starts, out, plan, prog, debugContext);
  return out;
}

Tensor dynamicUpdateSlice(Graph& graph, const Tensor& operand, const Tensor& update,
                          const std::vector<Tensor>& starts, Sequence& prog, bool inPlace,
                          const DebugContext& debugContext) {
  const Tensor out = inPlace ? operand : graph.clone(operand, {debugContext, "updated"});
  if (out.numElements() > 0)
    library().dynamicUpdateSlice(graph, operand, update, starts, out, inPlace, prog, debugContext);
  return out;
}

Tensor gather(Graph& graph, const Tensor& operand, const Tensor& indices, const WindowDims& dims,
              const std::vector<std::size_t>& sliceSizes, Sequence& prog, const DebugContext& debugContext) {
  Shape batchShape;
  for (unsigned d = 0; d < indices.rank(); ++d)
    if (static_cast<std::int64_t>(d) != dims.index_vector_dim) batchShape.push_back(indices.dim(d));
  const std::size_t rank = batchShape.size() + dims.offset_dims.size();
  const ResolvedDims resolved = resolve(dims, operand.rank(), indices.rank(), rank);
  Shape shape(rank, 0);
  std::vector<std::size_t> looked;  // dimensions of the result along which windows start anywhere
  const auto windowOf = [&](std::size_t d) { return static_cast<std::size_t>(resolved.window[d]); };
  const auto indexed = [&](std::size_t d) {
    return resolved.component[d] >= 0 && sliceSizes[d] < operand.dim(static_cast<unsigned>(d));
  };
  for (std::size_t b = 0; b < batchShape.size(); ++b) shape[resolved.batch[b]] = batchShape[b];
  for (std::size_t d = 0; d < operand.rank(); ++d) {
    if (resolved.window[d] < 0) continue;
    shape[windowOf(d)] = sliceSizes[d];
    if (indexed(d)) looked.push_back(windowOf(d));
  }
  const Grid grid = spread(graph, shape, looked);
  const Tensor out = variableOn(graph, grid, operand.elementType(), {debugContext, "gather"});
  if (out.numElements() == 0) return out;
  const auto source = [&](const Part& part) {
    Region region = wholeOf(operand.shape());
    for (std::size_t d = 0; d < operand.rank(); ++d) {
      if (resolved.window[d] < 0 || indexed(d)) continue;
      region.begin[d] = part.begin[windowOf(d)];
      region.end[d] = part.end[windowOf(d)];
    }
    return region;
  };
  const auto places = [&](const Part& part) {
    Region region = wholeOf(indices.shape());
    for (std::size_t b = 0; b < batchShape.size(); ++b) {
      region.begin[resolved.index[b]] = part.begin[resolved.batch[b]];
      region.end[resolved.index[b]] = part.end[resolved.batch[b]];
    }
    return region;
  };
  const auto box = [&](const Part& part) {
    Region region = source(part);
    for (const unsigned b : resolved.batch) {
      region.begin.push_back(part.begin[b]);
      region.end.push_back(part.end[b]);
    }
    return region;
  };
  GatherPlan plan;
  plan.plan.supersteps = {{groupOf(partsOf(grid, tilesOf(graph)),
                                   {{{kInput, 0}, source}, {{kInput, 1}, places}}, {own(kOutput, 0)}, box)}};
  library().gather(graph, operand, indices, dims, sliceSizes, out, plan, prog, debugContext);
  return out;
}

std::vector<Tensor> scatter(Graph& graph, const std::vector<Tensor>& operands, const Tensor& indices,
                            const std::vector<Tensor>& updates, const WindowDims& dims,
                            const Expression& update, Sequence& prog, bool inPlace,
                            const DebugContext& debugContext) {
  std::vector<Tensor> out;
  for (const Tensor& operand : operands)
    out.push_back(inPlace ? operand : graph.clone(operand, {debugContext, "scattered"}));
  if (out.at(0).numElements() == 0) return out;
  const auto n = static_cast<unsigned>(operands.size());
  std::vector<WholeAccess> reads, writes;
  addOwn(&reads, kInput, 0, n);
  addAll(&reads, kInput, n, {indices});
  addAll(&reads, kInput, n + 1, updates);
  addOwn(&writes, kOutput, 0, n);
  Plan plan;
  plan.supersteps = {{groupOf(partsOf(graph, out[0]), reads, writes)}};
  library().scatter(graph, operands, indices, updates, dims, update, out, inPlace, {plan, {}}, prog,
                    debugContext);
  return out;
}

std::vector<Tensor> reduce(Graph& graph, const std::vector<Tensor>& tensors, const std::vector<Tensor>& inits,
                           const std::vector<std::size_t>& dims, const Expression& body, Sequence& prog,
                           const DebugContext& debugContext, bool unrounded) {
  const Expression held = accumulated(body);
  const Shape whole = tensors.at(0).shape();
  Shape shape;
  std::vector<std::size_t> kept;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) != dims.end()) continue;
    shape.push_back(whole[d]);
    kept.push_back(d);
  }
  const Grid grid = spread(graph, shape);
  const auto values = [whole, kept](const Part& part) {
    Region region = wholeOf(whole);
    for (std::size_t k = 0; k < kept.size(); ++k) {
      region.begin[kept[k]] = part.begin[k];
      region.end[kept[k]] = part.end[k];
    }
    return region;
  };
  std::vector<Tensor> out;
  std::vector<WholeAccess> reads, writes;
  const auto n = static_cast<unsigned>(tensors.size());
  for (unsigned i = 0; i < n; ++i) {
    const bool wide = unrounded && held.inputs[i] == DType::kF32;
    const poplar::Type type = wide ? poplar::FLOAT : tensors[i].elementType();
    out.push_back(variableOn(graph, grid, type, {debugContext, "out"}));
    reads.push_back({{kInput, i}, values});
  }
  addAll(&reads, kInput, n, inits);
  addOwn(&writes, kOutput, 0, n);
  Plan plan;
  plan.supersteps = {{groupOf(partsOf(grid, tilesOf(graph)), reads, writes)}};
  if (out[0].numElements() > 0)
    library().reduce(graph, tensors, inits, dims, body, out, plan, prog, debugContext);
  return out;
}

std::vector<Tensor> reduceWindow(Graph& graph, const std::vector<Tensor>& tensors,
                                 const std::vector<Tensor>& inits, const WindowGeometry& geometry,
                                 const std::vector<std::size_t>& outShape, const Expression& combiner,
                                 Sequence& prog, const DebugContext& debugContext) {
  const Grid grid = spread(graph, outShape);
  std::vector<Tensor> out;
  for (const Tensor& t : tensors)
    out.push_back(variableOn(graph, grid, t.elementType(), {debugContext, "out"}));
  std::vector<WholeAccess> reads, writes;
  const auto n = static_cast<unsigned>(tensors.size());
  addAll(&reads, kInput, 0, tensors);
  addAll(&reads, kInput, n, inits);
  addOwn(&writes, kOutput, 0, n);
  Plan plan;
  plan.supersteps = {{groupOf(partsOf(grid, tilesOf(graph)), reads, writes)}};
  if (out.at(0).numElements() > 0)
    library().reduceWindow(graph, tensors, inits, geometry, {-1, false, false}, combiner, out, plan, prog,
                           debugContext);
  return out;
}

Tensor selectAndScatter(Graph& graph, const Tensor& operand, const Tensor& source, const Tensor& init,
                        const WindowGeometry& geometry, const Expression& select, const Expression& scatter,
                        Sequence& prog, const DebugContext& debugContext) {
  const Grid grid = spread(graph, operand.shape());
  const Tensor out = variableOn(graph, grid, operand.elementType(), {debugContext, "out"});
  std::vector<WholeAccess> reads;
  addAll(&reads, kInput, 0, {operand, source, init});
  Plan plan;
  plan.supersteps = {{groupOf(partsOf(grid, tilesOf(graph)), reads, {own(kOutput, 0)})}};
  if (out.numElements() > 0)
    library().selectAndScatter(graph, operand, source, init, geometry, select, scatter, out, plan, prog,
                               debugContext);
  return out;
}

std::vector<Tensor> sort(Graph& graph, const std::vector<Tensor>& operands, std::size_t dimension,
                         const Expression& comparator, bool positions, Sequence& prog,
                         const DebugContext& debugContext) {
  const Grid grid = spread(graph, operands.at(0).shape(), {dimension});
  std::vector<Tensor> out;
  for (const Tensor& t : operands)
    out.push_back(variableOn(graph, grid, t.elementType(), {debugContext, "sorted"}));
  if (positions) out.push_back(variableOn(graph, grid, poplar::INT, {debugContext, "positions"}));
  std::vector<WholeAccess> reads, writes;
  addOwn(&reads, kInput, 0, operands.size());
  addOwn(&writes, kOutput, 0, out.size());
  Plan plan;
  plan.supersteps = {{groupOf(partsOf(grid, tilesOf(graph)), reads, writes)}};
  if (out[0].numElements() > 0)
    library().sort(graph, operands, dimension, comparator, out, plan, prog, debugContext);
  return out;
}

std::pair<Tensor, Tensor> topK(Graph& graph, const Tensor& operand, std::size_t k, Sequence& prog,
                               bool largest, const DebugContext& debugContext) {
  const std::size_t last = operand.rank() - 1;
  Shape shape = operand.shape();
  shape[last] = k;
  const Grid grid = spread(graph, shape, {last});
  const Tensor values = variableOn(graph, grid, operand.elementType(), {debugContext, "values"}),
               indices = variableOn(graph, grid, poplar::INT, {debugContext, "indices"});
  const auto rows = [last, length = operand.dim(static_cast<unsigned>(last))](const Part& part) {
    Region region = at(part);
    region.end[last] = length;
    return region;
  };
  Plan plan;
  plan.supersteps = {
      {groupOf(partsOf(grid, tilesOf(graph)), {{{kInput, 0}, rows}}, {own(kOutput, 0), own(kOutput, 1)})}};
  if (values.numElements() > 0)
    library().topK(graph, operand, largest, values, indices, plan, prog, debugContext);
  return {values, indices};
}

std::pair<Tensor, Tensor> rngBitGenerator(Graph& graph, RandomAlgorithm algorithm, const Tensor& state,
                                          const Type& type, const Shape& shape, Sequence& prog,
                                          const DebugContext& debugContext) {
  const Grid grid = spread(graph, shape);
  const Tensor bits = variableOn(graph, grid, type, {debugContext, "bits"}),
               next = graph.addVariable(state.elementType(), state.shape(), {debugContext, "state"});
  graph.setTileMapping(next, 0);
  const Part one{0, {0}, {state.numElements()}};
  Plan plan;
  plan.supersteps = {{groupOf({one}, {own(kInput, 0)}, {own(kOutput, 0)})}};
  if (bits.numElements() > 0)
    plan.supersteps[0].push_back(
        groupOf(partsOf(grid, tilesOf(graph)), {all(kInput, 0, state.shape())}, {own(kOutput, 1)}));
  library().rngBitGenerator(graph, algorithm, state, next, bits, plan, prog, debugContext);
  return {next, bits};
}

void threefry2x32(Graph& graph, const std::array<Tensor, 2>& key, const std::array<CounterWord, 2>& counter,
                  const std::vector<Tensor>& counterTensors, const std::vector<Tensor>& outputs,
                  Sequence& prog, const DebugContext& debugContext) {
  if (outputs.at(0).numElements() == 0) return;
  std::vector<Tensor> inputs = {key[0], key[1]};
  inputs.insert(inputs.end(), counterTensors.begin(), counterTensors.end());
  std::vector<WholeAccess> reads;
  addOwn(&reads, kInput, 0, inputs.size());
  Plan plan;
  std::vector<PlannedGroup>& groups = plan.supersteps.emplace_back();
  for (unsigned o = 0; o < outputs.size(); ++o)
    groups.push_back(groupOf(partsOf(graph, outputs[o]), reads, {own(kOutput, o)}));
  library().threefry2x32(graph, inputs, counter, outputs, plan, prog, debugContext);
}

}  // namespace hlo::standalone
