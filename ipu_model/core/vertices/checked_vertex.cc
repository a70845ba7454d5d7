#include "core/vertices/checked_vertex.h"

#include <cstring>
#include <vector>

#include "codelets/edge_memory.h"
#include "codelets/vertex_guard.h"

namespace ipu_model {
namespace {

std::string Outside(const VertexProgram& program, const ProgramVertex& vertex, const EdgeMemory::Place& place,
                    const char* does) {
  const VertexEdge& edge = vertex.edges[place.edge];
  const codelet::Field& field = program.FieldOf(vertex, edge);
  const std::size_t size = field.element_bytes;
  return std::string("it ") + does + " outside of its field '" + field.name + "' of " +
         std::to_string(edge.elements()) + " elements, " + std::to_string((place.distance - 1) / size + 1) +
         (place.after ? " after the last" : " before the first");
}

}  // namespace

std::string RunChecked(const VertexProgram& program, VertexInstances* instances, std::size_t number,
                       double seconds, const LoadEdge& load, const StoreEdge& store) {
  thread_local EdgeMemory memory;
  thread_local std::vector<std::size_t> sizes;
  thread_local std::vector<unsigned char> inputs;
  const ProgramVertex& v = program.vertices[number];
  sizes.clear();
  for (const VertexEdge& edge : v.edges)
    sizes.push_back(static_cast<std::size_t>(edge.elements()) * program.FieldOf(v, edge).element_bytes);
  memory.Begin(sizes);
  inputs.clear();
  for (std::size_t e = 0; e < v.edges.size(); ++e) {
    unsigned char* const data = memory.edge(e);
    load(e, data);
    if (v.edges[e].writes.empty()) inputs.insert(inputs.end(), data, data + sizes[e]);
    instances->Connect(number, e, data);
  }
  std::size_t failed = number;
  const void* fault = nullptr;
  std::string reason = RunGuarded(instances->vertices().data(), number, number + 1, seconds, &failed, &fault);
  EdgeMemory::Place place;
  if (fault != nullptr && memory.Find(fault, &place)) reason = Outside(program, v, place, "accesses memory");
  if (reason.empty() && memory.Damage(&place)) reason = Outside(program, v, place, "writes");
  std::size_t at = 0;
  for (std::size_t e = 0; e < v.edges.size() && reason.empty(); ++e) {
    if (!v.edges[e].writes.empty()) continue;
    if (sizes[e] > 0 && std::memcmp(memory.edge(e), inputs.data() + at, sizes[e]) != 0)
      reason = std::string("it writes to its input '") + program.FieldOf(v, v.edges[e]).name + "'";
    at += sizes[e];
  }
  for (std::size_t e = 0; e < v.edges.size() && reason.empty(); ++e) {
    if (!v.edges[e].writes.empty()) store(e, memory.edge(e));
  }
  return reason;
}

}  // namespace ipu_model
