// Windows of an operand at run-time places, next to each other. E: an integer with the bytes of an element,
// S: the type of the indices. hlo/index/gather.cc adds the classes.
#include "common.hpp"
#include "indexed.hpp"

namespace hlo {

// Where the elements of the result come from. By dimension of the operand: `along`, the dimension of the
// result that it moves along, and `component`, that of the index which gives the start, both -1 for none;
// `wrap` and `limit` of the start; `first`, the place of the result's element 0 for a start of 0. By
// dimension of the result: its extent, and the step of the indices.
template <typename Indices, typename Numbers>
struct Source {
  const Indices& indices;
  const Numbers &along, &component, &wrap, &limit, &first, &extent, &indexStep;
  int componentStep;

  // Writes the position in every dimension of the operand.
  void find(unsigned at, long long* position) const {
    unsigned coordinate[kMostDimensions], index = 0;
    for (unsigned j = extent.size(); j-- > 0;) {
      coordinate[j] = at % extent[j];
      at /= extent[j];
      index += coordinate[j] * indexStep[j];
    }
    for (unsigned d = 0; d < along.size(); ++d) {
      position[d] = first[d];
      if (along[d] >= 0) position[d] += coordinate[along[d]];
      if (component[d] >= 0)
        position[d] += clamped(wrapped(indices[index + component[d] * componentStep], wrap[d]), limit[d]);
    }
  }
};

// Elements outside of this part of the operand are zero.
template <typename E, typename S>
class Gather : public poplar::MultiVertex {
 public:
  In<E> operand;
  In<S> indices;
  Out<E> out;
  poplar::Vector<int> along, component, wrap, limit, first, extent, indexStep;
  int componentStep;
  poplar::Vector<int> part;  // the extents of the operand
  bool compute(unsigned worker) {
    const Source<decltype(indices), decltype(along)> source{indices, along,  component, wrap,         limit,
                                                            first,   extent, indexStep, componentStep};
    const Share share = shareOf(worker, numWorkers(), out.size());
    long long position[kMostDimensions];
    for (unsigned at = share.begin; at < share.end; ++at) {
      source.find(at, position);
      long long place = 0;
      bool inside = true;
      for (unsigned d = 0; d < part.size(); ++d) {
        inside = inside && position[d] >= 0 && position[d] < part[d];
        place = place * part[d] + position[d];
      }
      out[at] = inside ? operand[place] : E{0};
    }
    return true;
  }
};

// Picks each element from the result of the part of the operand that contains it. The dimensions `split` have
// parts that begin at `begins`, one dimension after another, `parts` of each.
template <typename E, typename S>
class PickPart : public poplar::MultiVertex {
 public:
  In<E> partial;
  In<S> indices;
  Out<E> out;
  poplar::Vector<int> along, component, wrap, limit, first, extent, indexStep;
  int componentStep;
  poplar::Vector<int> split, parts, begins;
  bool compute(unsigned worker) {
    const Source<decltype(indices), decltype(along)> source{indices, along,  component, wrap,         limit,
                                                            first,   extent, indexStep, componentStep};
    const Share share = shareOf(worker, numWorkers(), out.size());
    long long position[kMostDimensions];
    for (unsigned at = share.begin; at < share.end; ++at) {
      source.find(at, position);
      unsigned part = 0, known = 0;
      for (unsigned k = 0; k < split.size(); ++k) {
        unsigned low = 0;  // the last part that begins at or before the element
        for (unsigned high = parts[k]; high - low > 1;) {
          const unsigned middle = low + (high - low) / 2;
          (begins[known + middle] <= position[split[k]] ? low : high) = middle;
        }
        part = part * parts[k] + low;
        known += parts[k];
      }
      out[at] = partial[part * out.size() + at];
    }
    return true;
  }
};

}  // namespace hlo
