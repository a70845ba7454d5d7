#include "core/graph/runtime_vertices.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "codelets/codelet_library.h"
#include "core/graph/graph_impl.h"
#include "poplar/PerfEstimateFunc.hpp"
#include "poplar/Target.hpp"
#include "poplar/VertexIntrospector.hpp"

namespace ipu_model {
namespace {

using poplar::Target;
using poplar::VertexIntrospector;
using poplar::VertexPerfEstimate;

constexpr char kPrefix[] = "poplar_rt::";

// Sizes are in blocks of 4 elements by 4, of 8 by 8 for single bytes, except in Transpose2D.
constexpr char kSource[] = R"codelet(
#include <poplar/Vertex.hpp>

namespace poplar_rt {

using namespace poplar;

template <typename T>
constexpr unsigned block = sizeof(T) == 1 ? 8 : 4;

// A part of rows x columns elements of a matrix of srcColumns columns, whose transpose has dstColumns.
template <typename T>
inline void transpose(const T* src, T* dst, unsigned rows, unsigned columns, unsigned srcColumns, unsigned dstColumns) {
  for (unsigned r = 0; r < rows; ++r)
    for (unsigned c = 0; c < columns; ++c) dst[c * dstColumns + r] = src[r * srcColumns + c];
}

template <typename T>
class Transpose2D : public Vertex {
 public:
  Vector<Input<Vector<T, VectorLayout::ONE_PTR, 8>>> src;
  Vector<Output<Vector<T, VectorLayout::ONE_PTR, 8>>, VectorLayout::ONE_PTR> dst;
  unsigned short numSrcRows;
  unsigned short numSrcColumns;

  bool compute() {
    for (unsigned i = 0; i < src.size(); ++i)
      transpose<T>(&src[i][0], &dst[i][0], numSrcRows, numSrcColumns, numSrcColumns, numSrcRows);
    return true;
  }
};

template <typename T>
class Transpose1DSingleWorker : public Vertex {
 public:
  Input<Vector<T, VectorLayout::ONE_PTR, 8>> src;
  Output<Vector<T, VectorLayout::ONE_PTR, 8>> dst;
  unsigned short numSrcRowsD4Or8;
  unsigned short numSrcColumnsD4Or8;
  unsigned short numTranspositionsM1;

  bool compute() {
    const unsigned rows = numSrcRowsD4Or8 * block<T>, columns = numSrcColumnsD4Or8 * block<T>;
    for (unsigned i = 0; i <= numTranspositionsM1; ++i)
      transpose<T>(&src[i * rows * columns], &dst[i * rows * columns], rows, columns, columns, rows);
    return true;
  }
};

// The first workerCount workers transpose numTranspositions matrices each, the others one less.
template <typename T>
class Transpose1D : public MultiVertex {
 public:
  Input<Vector<T, VectorLayout::ONE_PTR, 8>> src;
  Output<Vector<T, VectorLayout::ONE_PTR, 8>> dst;
  unsigned short numSrcRowsD4Or8;
  unsigned short numSrcColumnsD4Or8;
  unsigned short numTranspositions;
  unsigned short workerCount;

  bool compute(unsigned worker) {
    const unsigned rows = numSrcRowsD4Or8 * block<T>, columns = numSrcColumnsD4Or8 * block<T>;
    const unsigned total = numWorkers() * (numTranspositions - 1) + workerCount;
    for (unsigned i = worker; i < total; i += numWorkers())
      transpose<T>(&src[i * rows * columns], &dst[i * rows * columns], rows, columns, columns, rows);
    return true;
  }
};

// Few large matrices: for each worker the work list has where its part begins in src and dst (in elements of
// a block's side), and the part's rows and columns in blocks.
template <typename T>
class SplitTranspose1D : public MultiVertex {
 public:
  Input<Vector<T, VectorLayout::ONE_PTR, 8>> src;
  Output<Vector<T, VectorLayout::ONE_PTR, 8>> dst;
  Input<Vector<unsigned short, VectorLayout::SHORT_SPAN>> workList;
  unsigned short numSrcRowsD4Or8;
  unsigned short numSrcColumnsD4Or8;

  bool compute(unsigned worker) {
    if (4 * worker >= workList.size()) return true;
    const unsigned short* work = &workList[4 * worker];
    transpose<T>(&src[work[0] * block<T>], &dst[work[1] * block<T>], work[2] * block<T>, work[3] * block<T>,
                 numSrcColumnsD4Or8 * block<T>, numSrcRowsD4Or8 * block<T>);
    return true;
  }
};

class SetFloatingPoint : public Vertex {
 public:
  InOut<unsigned> state;
  unsigned clear;
  unsigned set;

  bool compute() {
    *state = (*state & ~clear) | set;
    return true;
  }
};

#define INSTANTIATE(T)                       \
  template class Transpose2D<T>;             \
  template class Transpose1DSingleWorker<T>; \
  template class Transpose1D<T>;             \
  template class SplitTranspose1D<T>

INSTANTIATE(unsigned char);
INSTANTIATE(half);
INSTANTIATE(unsigned short);
INSTANTIATE(short);
INSTANTIATE(float);
INSTANTIATE(unsigned int);
INSTANTIATE(int);

}  // namespace poplar_rt
)codelet";

std::shared_ptr<const CodeletLibrary> Compiled() {
  CodeletSource source;
  source.name = "poplar_rt";
  source.files.emplace_back("/poplar_rt.cpp", kSource);
  return CodeletLibrary::Compile(source);
}

// Cycles of a thread. The inner loop of a fast transposition moves 8 bytes in a cycle, that of the general
// one 8 bytes in 5 (PopLibs, lib/poplin/Convolution.cpp, on the choice between them); the rest is the start
// of a vertex and of each matrix.
constexpr std::uint64_t kVertexCycles = 20, kMatrixCycles = 12;

std::uint64_t Fast(std::uint64_t matrices, std::uint64_t bytes_each) {
  return kVertexCycles + matrices * (kMatrixCycles + (bytes_each + 7) / 8);
}
std::uint64_t General(std::uint64_t matrices, std::uint64_t bytes_each) {
  return kVertexCycles + matrices * (kMatrixCycles + (bytes_each + 7) / 8 * 5);
}

std::uint64_t NumberOf(const VertexIntrospector& vertex, const Target& target, const char* field) {
  return vertex.getFieldInfo(field).getInitialValue<std::uint64_t>(target);
}

// A MultiVertex has all of the tile's cycles: those of its slowest worker for each of them.
poplar::PerfEstimateFunc EstimatorOf(const std::string& name, std::uint64_t element_bytes) {
  const std::uint64_t side = element_bytes == 1 ? 8 : 4;
  const auto matrix_bytes = [=](const VertexIntrospector& v, const Target& t) {
    return NumberOf(v, t, "numSrcRowsD4Or8") * side * NumberOf(v, t, "numSrcColumnsD4Or8") * side *
           element_bytes;
  };
  if (name == "Transpose2D") {
    return [=](const VertexIntrospector& v, const Target& t) -> VertexPerfEstimate {
      return General(v.getFieldInfo("src").size(),
                     NumberOf(v, t, "numSrcRows") * NumberOf(v, t, "numSrcColumns") * element_bytes);
    };
  }
  if (name == "Transpose1DSingleWorker") {
    return [=](const VertexIntrospector& v, const Target& t) -> VertexPerfEstimate {
      return Fast(NumberOf(v, t, "numTranspositionsM1") + 1, matrix_bytes(v, t));
    };
  }
  if (name == "SetFloatingPoint")
    return [](const VertexIntrospector&, const Target&) -> VertexPerfEstimate { return kVertexCycles; };
  if (name == "Transpose1D") {
    return [=](const VertexIntrospector& v, const Target& t) -> VertexPerfEstimate {
      return t.getNumWorkerContexts() * Fast(NumberOf(v, t, "numTranspositions"), matrix_bytes(v, t));
    };
  }
  return [=](const VertexIntrospector& v, const Target& t) -> VertexPerfEstimate {
    const auto work = v.getFieldInfo("workList").getInitialValues<std::uint64_t>(t);
    std::uint64_t most = 0;
    for (std::size_t i = 0; i + 3 < work.size(); i += 4)
      most = std::max(most, work[i + 2] * work[i + 3] * side * side * element_bytes);
    return t.getNumWorkerContexts() * Fast(1, most);
  };
}

}  // namespace

void AddRuntimeVertices(GraphImpl* graph, const std::string& vertex_type) {
  constexpr std::size_t kPrefixSize = sizeof(kPrefix) - 1;
  if (vertex_type.compare(0, kPrefixSize, kPrefix) != 0) return;
  std::shared_ptr<const CodeletLibrary> library;
  if (graph->FindCodelet(vertex_type, &library) != nullptr) return;  // or one of the user's
  library = Compiled();
  if (std::find(graph->codelets.begin(), graph->codelets.end(), library) != graph->codelets.end()) return;
  graph->AddCodelets(library);
  for (const codelet::Class* type : library->classes()) {
    const std::string name = type->name;
    const std::size_t open = name.find('<');
    graph->perf_estimators[name] =
        EstimatorOf(name.substr(kPrefixSize, open - kPrefixSize), type->fields[0].element_bytes);
  }
}

}  // namespace ipu_model
