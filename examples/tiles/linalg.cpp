// Vertices of the QR decomposition (qr.py) and of Jacobi's eigenvalue algorithm (jacobi.py).
#include <cmath>
#include <poplar/Vertex.hpp>

using namespace poplar;

// v with H = I - v v^T, where H makes all elements of the column after number `k` zero and keeps those
// before.
class HouseholderVertex : public Vertex {
 public:
  Input<Vector<float>> column;
  Output<Vector<float>> v;
  unsigned k;

  bool compute() {
    float square = 0;
    for (unsigned i = 0; i < column.size(); ++i) {
      v[i] = i < k ? 0 : column[i];
      square += v[i] * v[i];
    }
    const float below = square - v[k] * v[k];
    if (below == 0) {  // nothing to do: H = I
      v[k] = 0;
      return true;
    }
    const float norm = std::sqrt(square);
    v[k] += v[k] < 0 ? -norm : norm;
    const float scale = std::sqrt(2 / (below + v[k] * v[k]));
    for (unsigned i = k; i < v.size(); ++i) v[i] *= scale;
    return true;
  }
};

// x -= v (v^T x), for each row x.
class ReflectVertex : public MultiVertex {
 public:
  InOut<Vector<float>> rows;
  Input<Vector<float>> v;
  unsigned k;  // the elements of v before this one are zero

  bool compute(unsigned worker) {
    const unsigned n = v.size(), count = rows.size() / n;
    for (unsigned r = worker; r < count; r += numWorkers()) {
      float dot = 0;
      for (unsigned i = k; i < n; ++i) dot += v[i] * rows[r * n + i];
      for (unsigned i = k; i < n; ++i) rows[r * n + i] -= dot * v[i];
    }
    return true;
  }
};

// The rotation (c, s) that makes element (p, q) of a symmetric matrix zero, from its columns p and q.
class RotationVertex : public Vertex {
 public:
  Input<Vector<float>> columns;  // p, then q
  Input<Vector<int>> numbers;    // p, q
  Output<Vector<float>> rotation;

  bool compute() {
    const unsigned n = columns.size() / 2, p = numbers[0], q = numbers[1];
    const float pp = columns[p], qq = columns[n + q], pq = columns[q];
    float c = 1, s = 0;
    if (pq != 0) {
      const float tau = (qq - pp) / (2 * pq);
      const float t = (tau < 0 ? -1 : 1) / (std::fabs(tau) + std::sqrt(1 + tau * tau));
      c = 1 / std::sqrt(1 + t * t);
      s = t * c;
    }
    rotation[0] = c;
    rotation[1] = s;
    return true;
  }
};

// Applies the rotation of these columns to them, then the rotations of all pairs to their rows; to `vectors`,
// the columns of the eigenvectors, only the first.
class RotateVertex : public MultiVertex {
 public:
  InOut<Vector<float>> columns;
  InOut<Vector<float>> vectors;
  Input<Vector<float>> rotation;
  Input<Vector<float>> rotations;  // of all pairs
  Input<Vector<int>> numbers;      // of all pairs

  bool compute(unsigned worker) {
    const unsigned n = columns.size() / 2;
    const float c = rotation[0], s = rotation[1];
    for (unsigned pair = worker; pair < n / 2; pair += numWorkers()) {
      const unsigned p = numbers[2 * pair], q = numbers[2 * pair + 1];
      const float cr = rotations[2 * pair], sr = rotations[2 * pair + 1];
      const unsigned rows[2] = {p, q};
      float a[2][2];  // these rows of the rotated columns
      for (unsigned k = 0; k < 2; ++k) {
        const unsigned row = rows[k];
        const float left = columns[row], right = columns[n + row];
        a[k][0] = c * left - s * right;
        a[k][1] = s * left + c * right;
        const float v = vectors[row], w = vectors[n + row];
        vectors[row] = c * v - s * w;
        vectors[n + row] = s * v + c * w;
      }
      for (unsigned column = 0; column < 2; ++column) {
        columns[column * n + p] = cr * a[0][column] - sr * a[1][column];
        columns[column * n + q] = sr * a[0][column] + cr * a[1][column];
      }
    }
    return true;
  }
};
