// The vertices of Poplar's own runtime, which every graph has without addCodelets: poplar_rt::Transpose1D,
// Transpose1DSingleWorker, Transpose2D and SplitTranspose1D, which PopLibs' rearrangements add, and
// SetFloatingPoint.
#ifndef IPU_MODEL_CORE_GRAPH_RUNTIME_VERTICES_H_
#define IPU_MODEL_CORE_GRAPH_RUNTIME_VERTICES_H_

#include <string>

namespace ipu_model {

class GraphImpl;

// Gives the graph the runtime's vertices, with their cycles, if `vertex_type` is one of them.
void AddRuntimeVertices(GraphImpl* graph, const std::string& vertex_type);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_GRAPH_RUNTIME_VERTICES_H_
