// Runs one vertex on copies of its elements, and finds what it writes elsewhere.
#ifndef IPU_MODEL_CORE_VERTICES_CHECKED_VERTEX_H_
#define IPU_MODEL_CORE_VERTICES_CHECKED_VERTEX_H_

#include <cstddef>
#include <functional>
#include <string>

#include "core/vertices/vertex_program.h"

namespace ipu_model {

// `load` copies the elements of an edge, by its number in the vertex, to memory between guards; `store`
// copies those of an edge that the vertex writes back. Returns why the vertex failed, or "": it crashed
// (RunGuarded), wrote beside an edge, or to an input. The edges stay connected to the copies.
using LoadEdge = std::function<void(std::size_t edge, unsigned char* to)>;
using StoreEdge = std::function<void(std::size_t edge, const unsigned char* from)>;
std::string RunChecked(const VertexProgram& program, VertexInstances* instances, std::size_t vertex,
                       double seconds, const LoadEdge& load, const StoreEdge& store);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_VERTICES_CHECKED_VERTEX_H_
