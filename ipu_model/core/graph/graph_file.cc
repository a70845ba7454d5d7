// poplar::Graph::serialize.
#include <ostream>
#include <string>
#include <vector>

#include "core/graph/graph_impl.h"
#include "core/json.h"
#include "poplar/Graph.hpp"

namespace poplar {
namespace {

template <typename T>
std::string List(const std::vector<T>& numbers) {
  std::string text;
  for (const T& n : numbers) text += (text.empty() ? "" : ",") + std::to_string(n);
  return "[" + text + "]";
}

}  // namespace

void Graph::serialize(std::ostream& out, SerializationFormat /*both are the same*/) const {
  const ipu_model::GraphImpl& graph = *impl_;
  out << "{\"target\":" << ipu_model::QuotedJson(graph.target.getTargetArchString())
      << ",\"tiles\":" << graph.target.getNumTiles() << ",\"replicas\":" << graph.replication_factor
      << ",\"variables\":[";
  const char* separator = "\n";
  for (std::size_t v = 0; v < graph.variables.size(); ++v) {
    const ipu_model::Variable& variable = graph.variables[v];
    const Tensor whole = graph.TensorOf(static_cast<ipu_model::VariableId>(v));
    std::vector<unsigned> tiles;
    const TileToTensorMapping mapping = getTileMapping(whole, false);
    for (unsigned tile = 0; tile < mapping.size(); ++tile)
      if (!mapping[tile].empty()) tiles.push_back(tile);
    out << separator << "{\"name\":" << ipu_model::QuotedJson(variable.name)
        << ",\"type\":" << ipu_model::QuotedJson(whole.elementType().toString())
        << ",\"shape\":" << List(whole.shape()) << ",\"constant\":" << (variable.constant ? "true" : "false")
        << ",\"on\":" << List(tiles) << "}";
    separator = ",\n";
  }
  out << "],\"streams\":[";
  separator = "\n";
  for (const ipu_model::Stream& stream : graph.streams) {
    out << separator << "{\"name\":" << ipu_model::QuotedJson(stream.name)
        << ",\"elements\":" << stream.num_elements
        << ",\"to_device\":" << (stream.host_to_device ? "true" : "false") << "}";
    separator = ",\n";
  }
  out << "]}\n";
}

}  // namespace poplar
