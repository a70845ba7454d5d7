#include "elementwise/map.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "elementwise/map_codelet.h"
#include "hlo/Cost.hpp"
#include "parts.h"
#include "storage.h"

namespace hlo {
namespace {

using poplar::Graph;
using poplar::Tensor;

// Outputs whose vertices are on the same tiles for the same elements.
struct Group {
  std::vector<unsigned> outputs;
  std::vector<Part> parts;
};

std::vector<Group> groupsOf(const Graph& graph, const std::vector<Tensor>& outputs) {
  std::vector<Group> groups;
  for (unsigned o = 0; o < outputs.size(); ++o) {
    std::vector<Part> parts = partsOf(graph, outputs[o]);
    const auto same =
        std::find_if(groups.begin(), groups.end(), [&](const Group& group) { return group.parts == parts; });
    if (same == groups.end()) {
      groups.push_back({{o}, std::move(parts)});
    } else {
      same->outputs.push_back(o);
    }
  }
  return groups;
}

// Whether the tensor has the same element everywhere along the dimension.
bool repeatsAlong(const Tensor& tensor, unsigned dimension) {
  if (tensor.numElements() == 1) return true;
  if (tensor.dim(dimension) < 2) return false;
  std::vector<std::size_t> at(tensor.rank(), 0);
  const Tensor first = tensor.index(at).reshape({1});
  at[dimension] = 1;
  return concat(first, tensor.index(at).reshape({1})).containsAliases();
}

// For each tensor, along which of the dimensions `order` it repeats. Empty if none does but for scalars.
std::vector<std::vector<bool>> repetitionsOf(const std::vector<Tensor>& tensors,
                                             const std::vector<unsigned>& order) {
  std::vector<std::vector<bool>> repeats;
  bool any = false;
  for (const Tensor& tensor : tensors) {
    repeats.emplace_back();
    for (const unsigned d : order) {
      repeats.back().push_back(repeatsAlong(tensor, d));
      any = any || (repeats.back().back() && tensor.numElements() > 1);
    }
  }
  return any ? repeats : std::vector<std::vector<bool>>();
}

Tensor stored(const Tensor& tensor) {
  return tensor.reinterpret(storedAs(DTypeOf(tensor.elementType()), "map"));
}

}  // namespace

void expandMap(Graph& graph, const Expression& expression, const std::vector<Tensor>& inputs,
               const std::vector<Tensor>& outputs, const std::vector<int>& inPlace,
               poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  std::vector<bool> scalar;
  for (const Tensor& input : inputs)
    scalar.push_back(input.numElements() == 1 && outputs.at(0).numElements() > 1);
  std::vector<Tensor> from, to;
  for (const Tensor& input : inputs) from.push_back(stored(input));
  for (const Tensor& output : outputs) to.push_back(stored(output));

  const std::vector<Group> groups = groupsOf(graph, outputs);
  std::vector<MapCodelet> codelets;
  for (const Group& group : groups)
    codelets.push_back(generateMap(expression, group.outputs, scalar, inPlace));
  // The vertices of a compute set may not read what others write: what one group overwrites and another reads
  // is copied before.
  std::vector<Tensor> old(inputs.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const unsigned o : groups[g].outputs) {
      if (inPlace[o] < 0) continue;
      const auto i = static_cast<unsigned>(inPlace[o]);
      for (std::size_t other = 0; other < groups.size() && !old[i].valid(); ++other) {
        const std::vector<unsigned>& used = codelets[other].inputs;
        if (other == g || std::find(used.begin(), used.end(), i) == used.end()) continue;
        old[i] = graph.clone(from[i], {debugContext, "old"});
        prog.add(poplar::program::Copy(from[i], old[i], false, debugContext));
      }
    }
  }
  const poplar::ComputeSet computeSet = graph.addComputeSet({debugContext, "map"});
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Group& group = groups[g];
    const MapCodelet& codelet = codelets[g];
    addCodelets(graph, codelet.vertexClass, codelet.source);
    const auto isOver = [&](unsigned input) {
      return std::any_of(group.outputs.begin(), group.outputs.end(),
                         [&](unsigned o) { return inPlace[o] == static_cast<int>(input); });
    };
    const std::vector<unsigned> order = memoryOrder(graph, outputs[group.outputs[0]]);
    const MapCost cost(expression, group.outputs, scalar,
                       std::any_of(codelet.inputs.begin(), codelet.inputs.end(), isOver),
                       repetitionsOf(inputs, order));
    std::map<std::vector<std::vector<std::size_t>>, std::uint64_t> cycles;  // by extents
    // All parts on a tile, which follow each other, are one vertex.
    for (std::size_t first = 0, next; first < group.parts.size(); first = next) {
      const Part& part = group.parts[first];
      std::vector<std::vector<std::size_t>> extents;
      for (next = first; next < group.parts.size() && group.parts[next].tile == part.tile; ++next) {
        extents.emplace_back();
        for (const unsigned d : order)
          extents.back().push_back(group.parts[next].end[d] - group.parts[next].begin[d]);
      }
      const auto [entry, isNew] = cycles.try_emplace(extents, 0);
      if (isNew) entry->second = cost.cyclesOfParts(graph.getTarget(), extents);
      const poplar::VertexRef vertex = addVertex(graph, computeSet, codelet.vertexClass, part, entry->second);
      const auto partsOnTile = [&](const Tensor& tensor) {
        std::vector<Tensor> parts;
        for (std::size_t p = first; p < next; ++p) parts.push_back(group.parts[p].of(tensor));
        return parts.size() > 1 ? concat(parts) : parts[0];
      };
      for (const unsigned i : codelet.inputs) {
        if (isOver(i)) continue;
        const Tensor& tensor = old[i].valid() ? old[i] : from[i];
        graph.connect(vertex["in" + std::to_string(i)],
                      scalar[i] ? tensor.flatten()[0] : partsOnTile(tensor));
      }
      for (const unsigned o : group.outputs)
        graph.connect(vertex["out" + std::to_string(o)], partsOnTile(to[o]));
    }
  }
  prog.add(poplar::program::Execute(computeSet, debugContext));
}

}  // namespace hlo
