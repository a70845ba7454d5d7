// Python: codelets and vertices of users, and the cycle counter of tiles.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/variant.h>

#include <optional>
#include <sstream>
#include <variant>

#include "bindings/bindings.h"
#include "hlo/CycleStamp.hpp"
#include "ipu_model/Model.hpp"
#include "poplar/GraphElements.hpp"

namespace jax_ipu::bindings {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;
using Number = std::variant<bool, std::int64_t, double>;

void AddCodelets(Graph& graph, const std::string& source, const std::string& flags) {
  std::stringstream text(source);
  graph.addCodelets(text, flags);
}

// One vertex on each tile, as one superstep; vertex i is connected to the elements [i] of each tensor.
void ExecuteVertices(Graph& graph, const std::string& vertex, const std::vector<unsigned>& tiles,
                     const std::vector<std::pair<std::string, Tensor>>& edges,
                     const std::vector<std::pair<std::string, Number>>& values,
                     std::optional<std::uint64_t> cycles, Sequence& sequence, const std::string& name) {
  for (const auto& [field, tensor] : edges) {
    if (tensor.rank() == 0 || tensor.dim(0) != tiles.size()) {
      throw std::invalid_argument("the tensor for the field '" + field + "' has the shape " +
                                  tensor.shapeToString() + " for " + std::to_string(tiles.size()) + " tiles");
    }
  }
  const poplar::ComputeSet set = graph.addComputeSet(name);
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const poplar::VertexRef ref = graph.addVertex(set, vertex);
    graph.setTileMapping(ref, tiles[i]);
    for (const auto& [field, tensor] : edges) graph.connect(ref[field], tensor[i]);
    for (const auto& entry : values) {
      std::visit([&graph, field = ref[entry.first]](auto value) { graph.setInitialValue(field, value); },
                 entry.second);
    }
    if (cycles.has_value()) graph.setPerfEstimate(ref, *cycles);
  }
  sequence.add(poplar::program::Execute(set, name));
}

// Element [i] of a tensor to tiles[i].
void MapToTiles(Graph& graph, const Tensor& tensor, const std::vector<unsigned>& tiles) {
  if (tensor.rank() == 0 || tensor.dim(0) != tiles.size()) {
    throw std::invalid_argument("a tensor of the shape " + tensor.shapeToString() + " for " +
                                std::to_string(tiles.size()) + " tiles");
  }
  Graph::TileToTensorMapping mapping(graph.getTarget().getNumTiles());
  const std::size_t each = tiles.empty() ? 0 : tensor.numElements() / tiles.size();
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    if (tiles[i] >= mapping.size()) {
      throw std::invalid_argument("there is no tile " + std::to_string(tiles[i]) + ": the target has " +
                                  std::to_string(mapping.size()) + " tiles");
    }
    mapping[tiles[i]].emplace_back(i * each, (i + 1) * each);
  }
  graph.setTileMapping(tensor, mapping);
}

// Whether each element [i] lies on tiles[i], in order.
bool IsOnTiles(Graph& graph, const Tensor& tensor, const std::vector<unsigned>& tiles) {
  if (tensor.rank() == 0 || tensor.dim(0) != tiles.size() || tensor.numElements() == 0) return false;
  const std::size_t each = tensor.numElements() / tiles.size();
  const Tensor rows = tensor.reshape({tiles.size(), each});
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const Tensor row = rows[i];
    if (!ipu_model::IsRowMajor(row)) return false;
    const auto mapping = graph.getTileMapping(row);
    if (tiles[i] >= mapping.size() || mapping[tiles[i]].size() != 1) return false;
    const poplar::Interval& interval = mapping[tiles[i]][0];
    if (interval.begin() != 0 || interval.end() != each) return false;
  }
  return true;
}

}  // namespace

void BindVertices(nb::module_& module) {
  module.def("add_codelets", &AddCodelets, nb::arg("graph"), nb::arg("source"), nb::arg("flags"),
             "Compiles C++ source of codelets.");
  module.def("execute_vertices", &ExecuteVertices, nb::arg("graph"), nb::arg("vertex"), nb::arg("tiles"),
             nb::arg("edges"), nb::arg("values"), nb::arg("cycles").none(), nb::arg("seq"), nb::arg("name"));
  module.def("map_to_tiles", &MapToTiles, nb::arg("graph"), nb::arg("tensor"), nb::arg("tiles"));
  module.def("is_on_tiles", &IsOnTiles, nb::arg("graph"), nb::arg("tensor"), nb::arg("tiles"));
  module.def(
      "cycle_stamp",
      [](Graph& graph, const Tensor& out, Sequence& sequence, const std::string& name, bool sync) {
        if (sync) sequence.add(poplar::program::Sync(poplar::SyncType::INTERNAL, name));
        hlo::cycleStamp(graph, out, sequence, name);
      },
      nb::arg("graph"), nb::arg("out"), nb::arg("seq"), nb::arg("name"), nb::arg("sync"));
}

}  // namespace jax_ipu::bindings
