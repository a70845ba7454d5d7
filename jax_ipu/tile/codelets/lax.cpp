// Vertices for primitives of jax.lax that move elements or multiply parts.
#include <cstring>
#include <poplar/Vertex.hpp>

using namespace poplar;

// Products and sums of halves are computed as floats.
template <typename T>
struct Wide {
  using type = T;
};
template <>
struct Wide<half> {
  using type = float;
};

// Counts along one dimension: `count` numbers, each `inner` times.
template <typename T>
class Iota : public MultiVertex {
 public:
  Output<Vector<T>> out;
  unsigned inner, count;
  bool compute(unsigned worker) {
    for (unsigned i = worker; i < out.size(); i += numWorkers()) {
      out[i] = static_cast<typename Wide<T>::type>(i / inner % count);
    }
    return true;
  }
};

// The elements, as another type of the same size.
template <typename T, typename U>
class Bits : public MultiVertex {
 public:
  Input<Vector<T>> x;
  Output<Vector<U>> out;
  bool compute(unsigned worker) {
    for (unsigned i = worker; i < out.size(); i += numWorkers()) {
      const T from = x[i];
      U to;
      std::memcpy(&to, &from, sizeof(to));
      out[i] = to;
    }
    return true;
  }
};

// Rows of x by their numbers. A number outside takes `fill`, or the nearest row.
template <typename T, typename Index>
class GatherFirst : public MultiVertex {
 public:
  Input<Vector<T>> x;
  Input<Vector<Index>> indices;
  Output<Vector<T>> out;
  unsigned row;
  bool fills;
  T fill;
  bool compute(unsigned worker) {
    const unsigned rows = x.size() / row;
    for (unsigned i = worker; i < indices.size(); i += numWorkers()) {
      const Index index = indices[i];
      const bool below = index < 0, above = !below && static_cast<unsigned>(index) >= rows;
      const unsigned from = below ? 0 : above ? rows - 1 : static_cast<unsigned>(index);
      for (unsigned k = 0; k < row; ++k)
        out[i * row + k] = fills && (below || above) ? fill : x[from * row + k];
    }
    return true;
  }
};

enum class Scatter { kSet, kAdd, kMultiply, kMax, kMin };

// Changes rows of x, in the order of the indices, so that one worker does all. A number outside changes
// nothing, or the nearest row.
template <typename T, typename Index, Scatter how>
class ScatterFirst : public Vertex {
 public:
  InOut<Vector<T>> x;
  Input<Vector<Index>> indices;
  Input<Vector<T>> updates;
  unsigned row;
  bool clips;
  bool compute() {
    const unsigned rows = x.size() / row;
    for (unsigned i = 0; i < indices.size(); ++i) {
      const Index index = indices[i];
      const bool below = index < 0, above = !below && static_cast<unsigned>(index) >= rows;
      if ((below || above) && !clips) continue;
      const unsigned at = below ? 0 : above ? rows - 1 : static_cast<unsigned>(index);
      for (unsigned k = 0; k < row; ++k) {
        const typename Wide<T>::type a = x[at * row + k], b = updates[i * row + k];
        x[at * row + k] = how == Scatter::kSet        ? b
                          : how == Scatter::kAdd      ? a + b
                          : how == Scatter::kMultiply ? a * b
                          : how == Scatter::kMax      ? (a != a || a > b ? a : b)
                                                      : (a != a || a < b ? a : b);
      }
    }
    return true;
  }
};

// out[lo, li, ro, ri] = sum over k of lhs[lo, k, li] * rhs[ro, k, ri], with sums in float for halves.
template <typename L, typename R, typename T>
class Dot : public MultiVertex {
 public:
  Input<Vector<L>> lhs;
  Input<Vector<R>> rhs;
  Output<Vector<T>> out;
  unsigned count, lhsOuter, lhsInner, rhsOuter, rhsInner;
  bool compute(unsigned worker) {
    const unsigned columns = rhsOuter * rhsInner;
    for (unsigned i = worker; i < out.size(); i += numWorkers()) {
      const unsigned left = i / columns, right = i % columns;
      const unsigned a = left / lhsInner * count * lhsInner + left % lhsInner;
      const unsigned b = right / rhsInner * count * rhsInner + right % rhsInner;
      typename Wide<T>::type sum = 0;
      for (unsigned k = 0; k < count; ++k) {
        sum +=
            static_cast<typename Wide<T>::type>(static_cast<typename Wide<L>::type>(lhs[a + k * lhsInner])) *
            static_cast<typename Wide<T>::type>(static_cast<typename Wide<R>::type>(rhs[b + k * rhsInner]));
      }
      out[i] = sum;
    }
    return true;
  }
};
