// Windows of updates at run-time places of an operand; hlo/index/scatter.cc generates the vertex classes.
#include "indexed.hpp"
#include "scalarComplex.hpp"

namespace hlo {

// By dimension of the operand: the extent of this part of it; the component of the index that gives the
// start, or the batch dimension that it is paired with, -1 for none; `wrap` and `limit` of the start;
// `first`, the place of the window's element 0 for a start of 0; the extent of the window and its step in the
// updates. By batch dimension: the extent, and the steps in updates and indices.
template <typename Indices, typename Numbers>
struct Windows {
  const Indices& indices;
  const Numbers &part, &component, &batching, &wrap, &limit, &first, &window, &windowStep;
  const Numbers &rows, &rowStep, &indexStep;
  int componentStep;

  // Calls f(place in the operand, place in the updates) for what is in the share, row by row. Windows that
  // are not wholly inside the whole operand are skipped.
  template <typename F>
  void forEach(Share share, const F& f) const {
    unsigned count = 1, elements = 1;
    for (unsigned b = 0; b < rows.size(); ++b) count *= rows[b];
    for (unsigned d = 0; d < window.size(); ++d) elements *= window[d];
    for (unsigned row = 0; row < count; ++row) {
      long long start[kMostDimensions];
      unsigned update = 0;
      if (!find(row, start, &update)) continue;
      for (unsigned e = 0; e < elements; ++e) {
        long long place = 0, weight = 1;
        unsigned from = update, rest = e;
        bool inside = true;
        for (unsigned d = part.size(); d-- > 0;) {
          const unsigned along = rest % window[d];
          const long long position = start[d] + along;
          rest /= window[d];
          from += along * windowStep[d];
          inside = inside && position >= 0 && position < part[d];
          place += position * weight;
          weight *= part[d];
        }
        if (inside && place >= share.begin && place < share.end) f(static_cast<unsigned>(place), from);
      }
    }
  }

 private:
  bool find(unsigned row, long long* start, unsigned* update) const {
    unsigned coordinate[kMostDimensions], index = 0;
    for (unsigned b = rows.size(); b-- > 0;) {
      coordinate[b] = row % rows[b];
      row /= rows[b];
      index += coordinate[b] * indexStep[b];
      *update += coordinate[b] * rowStep[b];
    }
    for (unsigned d = 0; d < part.size(); ++d) {
      start[d] = batching[d] >= 0 ? coordinate[batching[d]] : 0;
      if (component[d] >= 0) {
        start[d] = wrapped(indices[index + component[d] * componentStep], wrap[d]);
        if (start[d] < 0 || start[d] > limit[d]) return false;
      }
      start[d] += first[d];
    }
    return true;
  }
};

}  // namespace hlo
