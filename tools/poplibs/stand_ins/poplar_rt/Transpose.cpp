// Stand-in for the vertices of Poplar's unpublished run-time library that popops/Rearrange.cpp uses:
// transpositions of matrices of numSrcRows x numSrcColumns elements, one behind the other.
#include <poplar/HalfFloat.hpp>
#include <poplar/Vertex.hpp>

namespace poplar_rt {

using namespace poplar;

// Sizes are in units of 4 elements, of 8 for single bytes.
template <typename T>
constexpr unsigned unit = sizeof(T) == 1 ? 8 : 4;

template <typename T>
void transpose(const T* src, T* dst, unsigned rows, unsigned columns) {
  for (unsigned r = 0; r < rows; ++r)
    for (unsigned c = 0; c < columns; ++c) dst[c * rows + r] = src[r * columns + c];
}

template <typename T>
class Transpose2D : public Vertex {
 public:
  Vector<Input<Vector<T, VectorLayout::ONE_PTR, 8>>> src;
  Vector<Output<Vector<T, VectorLayout::ONE_PTR, 8>>> dst;
  unsigned short numSrcRows;
  unsigned short numSrcColumns;

  bool compute() {
    for (unsigned i = 0; i < dst.size(); ++i) transpose<T>(&src[i][0], &dst[i][0], numSrcRows, numSrcColumns);
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
    const unsigned rows = numSrcRowsD4Or8 * unit<T>, columns = numSrcColumnsD4Or8 * unit<T>;
    for (unsigned i = 0; i <= numTranspositionsM1; ++i)
      transpose<T>(&src[i * rows * columns], &dst[i * rows * columns], rows, columns);
    return true;
  }
};

// The first `workerCount` workers transpose numTranspositions matrices each, the others one less.
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
    const unsigned rows = numSrcRowsD4Or8 * unit<T>, columns = numSrcColumnsD4Or8 * unit<T>;
    const unsigned total = numWorkers() * (numTranspositions - 1) + workerCount;
    for (unsigned i = worker; i < total; i += numWorkers())
      transpose<T>(&src[i * rows * columns], &dst[i * rows * columns], rows, columns);
    return true;
  }
};

// The work list cuts matrices for the workers of the device; here a worker takes every sixth one.
template <typename T>
class SplitTranspose1D : public MultiVertex {
 public:
  Input<Vector<T, VectorLayout::SPAN, 8>> src;
  Output<Vector<T, VectorLayout::SPAN, 8>> dst;
  Input<Vector<unsigned short, VectorLayout::ONE_PTR>> workList;
  unsigned short numSrcRowsD4Or8;
  unsigned short numSrcColumnsD4Or8;

  bool compute(unsigned worker) {
    const unsigned rows = numSrcRowsD4Or8 * unit<T>, columns = numSrcColumnsD4Or8 * unit<T>;
    const unsigned total = src.size() / (rows * columns);
    for (unsigned i = worker; i < total; i += numWorkers())
      transpose<T>(&src[i * rows * columns], &dst[i * rows * columns], rows, columns);
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
