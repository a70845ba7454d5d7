// Vertices on whole arrays: copies, fills, scaled sums, rows of tables.
#include <poplar/Vertex.hpp>

using namespace poplar;

template <typename T>
class Copy : public MultiVertex {
 public:
  Input<Vector<T>> x;
  Output<Vector<T>> out;
  bool compute(unsigned worker) {
    for (unsigned i = worker; i < out.size(); i += numWorkers()) out[i] = x[i];
    return true;
  }
};

template <typename T>
class Fill : public MultiVertex {
 public:
  Output<Vector<T>> out;
  T value;
  bool compute(unsigned worker) {
    for (unsigned i = worker; i < out.size(); i += numWorkers()) out[i] = value;
    return true;
  }
};

// A += scaleB * B
template <typename T>
class ScaledAdd : public MultiVertex {
 public:
  InOut<Vector<T>> A;
  Input<Vector<T>> B;
  Input<Vector<T>> scaleB;
  bool compute(unsigned worker) {
    for (unsigned i = worker; i < A.size(); i += numWorkers()) A[i] = A[i] + scaleB[0] * B[i];
    return true;
  }
};

// A -= scaleB * B
template <typename T>
class ScaledSubtract : public MultiVertex {
 public:
  InOut<Vector<T>> A;
  Input<Vector<T>> B;
  Input<Vector<T>> scaleB;
  bool compute(unsigned worker) {
    for (unsigned i = worker; i < A.size(); i += numWorkers()) A[i] = A[i] - scaleB[0] * B[i];
    return true;
  }
};

// The index of a row as jax.numpy takes it: negative from the end, and outside the last or the first.
static unsigned RowAt(int index, unsigned rows) {
  const int n = static_cast<int>(rows), at = index < 0 ? index + n : index;
  return at < 0 ? 0 : at >= n ? n - 1 : at;
}

// Rows of x by their indices.
template <typename T>
class GatherRows : public MultiVertex {
 public:
  Input<Vector<T>> x;
  Input<Vector<int>> indices;
  Output<Vector<T>> out;
  bool compute(unsigned worker) {
    const unsigned width = out.size() / indices.size(), rows = x.size() / width;
    for (unsigned r = worker; r < indices.size(); r += numWorkers()) {
      const unsigned from = RowAt(indices[r], rows) * width;
      for (unsigned i = 0; i < width; ++i) out[r * width + i] = x[from + i];
    }
    return true;
  }
};

// Sets rows of A by their indices, or adds to them, in the order of the indices; rows outside of A are left
// out.
template <typename T, bool adds>
class ScatterRows : public Vertex {
 public:
  InOut<Vector<T>> A;
  Input<Vector<int>> indices;
  Input<Vector<T>> updates;
  bool compute() {
    const unsigned width = updates.size() / indices.size();
    const int rows = static_cast<int>(A.size() / width);
    for (unsigned r = 0; r < indices.size(); ++r) {
      const int at = indices[r] < 0 ? indices[r] + rows : indices[r];
      if (at < 0 || at >= rows) continue;
      for (unsigned i = 0; i < width; ++i) {
        T& element = A[static_cast<unsigned>(at) * width + i];
        const T update = updates[r * width + i];
        element = adds ? static_cast<T>(element + update) : update;
      }
    }
    return true;
  }
};

#define FOR_STORED_TYPE(T) \
  template class Copy<T>;  \
  template class Fill<T>;

#define FOR_TYPE(T)                     \
  FOR_STORED_TYPE(T)                    \
  template class ScaledAdd<T>;          \
  template class ScaledSubtract<T>;     \
  template class GatherRows<T>;         \
  template class ScatterRows<T, false>; \
  template class ScatterRows<T, true>;

FOR_TYPE(float)
FOR_TYPE(half)
FOR_TYPE(int)
FOR_TYPE(unsigned)
FOR_STORED_TYPE(bool)
FOR_STORED_TYPE(signed char)
FOR_STORED_TYPE(unsigned char)
FOR_STORED_TYPE(short)
FOR_STORED_TYPE(unsigned short)
