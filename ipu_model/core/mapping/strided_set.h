// Strided element sets in the coordinates of a grid: the arithmetic behind Mapping and HeldCounter.
#ifndef IPU_MODEL_CORE_MAPPING_STRIDED_SET_H_
#define IPU_MODEL_CORE_MAPPING_STRIDED_SET_H_

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "core/mapping/mapping.h"
#include "kernels/host/host_tensor.h"
#include "kernels/host/integer_division.h"

namespace ipu_model::internal {

// The elements of a region of a view, as base + sum(i_d * stride_d) with positive strides, largest first.
// Dimensions of extent 1 and broadcast dimensions are left out; `repeats` counts the latter.
struct StridedSet {
  struct Dim {
    std::int64_t extent, stride;
    int view_dim;
    bool reversed;
  };
  int rank = 0;
  Dim dims[kMaxRank];
  std::int64_t base = 0, repeats = 1;

  std::int64_t Span() const {
    std::int64_t span = 0;
    for (int d = 0; d < rank; ++d) span += (dims[d].extent - 1) * dims[d].stride;
    return span;
  }
  void Sort() {
    std::sort(dims, dims + rank, [](const Dim& a, const Dim& b) { return a.stride > b.stride; });
  }
};

// Returns false if the region is empty.
inline bool Canonicalise(const View& view, const Box* region, StridedSet* set) {
  const std::size_t rank = view.shape.size();
  if (rank > kMaxRank) throw std::invalid_argument("a view has more than 16 dimensions");
  set->base = view.offset;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t begin = region ? region->begin[d] : 0;
    const std::int64_t extent = region ? region->end[d] - begin : view.shape[d];
    std::int64_t stride = view.strides[d];
    if (extent <= 0) return false;
    set->base += begin * stride;
    if (extent == 1) continue;
    if (stride == 0) {
      set->repeats *= extent;
      continue;
    }
    const bool reversed = stride < 0;
    if (reversed) {
      set->base += (extent - 1) * stride;
      stride = -stride;
    }
    set->dims[set->rank++] = {extent, stride, static_cast<int>(d), reversed};
  }
  set->Sort();
  return true;
}

// The first of sorted intervals that ends after an element.
using IntervalIterator = std::vector<MappedInterval>::const_iterator;
inline IntervalIterator FirstEndingAfter(IntervalIterator begin, IntervalIterator end, std::int64_t element) {
  return std::upper_bound(begin, end, element,
                          [](std::int64_t e, const MappedInterval& r) { return e < r.end; });
}

// Calls f(begin, end) for the elements of the set, as intervals, without its repeats.
// Returns false, and calls nothing, if there would be more than `most` intervals.
template <typename F>
bool ForEachIntervalOfSet(const StridedSet& set, std::int64_t most, F&& f) {
  const bool rows = set.rank > 0 && set.dims[set.rank - 1].stride == 1;
  const std::int64_t length = rows ? set.dims[set.rank - 1].extent : 1;
  const int outer = rows ? set.rank - 1 : set.rank;
  std::int64_t index[kMaxRank] = {}, intervals = 1, begin = set.base;
  for (int d = 0; d < outer; ++d) intervals *= set.dims[d].extent;
  if (intervals > most) return false;
  while (true) {
    f(begin, begin + length);
    int d = outer - 1;
    for (; d >= 0; --d) {
      begin += set.dims[d].stride;
      if (++index[d] < set.dims[d].extent) break;
      begin -= set.dims[d].extent * set.dims[d].stride;
      index[d] = 0;
    }
    if (d < 0) return true;
  }
}

// One digit of a nested strided sum, in the coordinate of its grid dimension.
struct Digit {
  std::int64_t extent, step;
  int source;  // index into StridedSet::dims
};

// Returns the number of index tuples of digits[d...] with low <= base + sum < high.
inline std::int64_t CountWithin(const Digit* digits, int n, std::int64_t base, std::int64_t low,
                                std::int64_t high) {
  std::int64_t span = 0, total = 1;
  for (int d = 0; d < n; ++d) {
    span += (digits[d].extent - 1) * digits[d].step;
    total *= digits[d].extent;
  }
  if (base >= high || base + span < low) return 0;
  if (base >= low && base + span < high) return total;
  const std::int64_t extent = digits[0].extent, step = digits[0].step;
  const std::int64_t inner_span = span - (extent - 1) * step, inner_total = total / extent;
  const std::int64_t first = std::max<std::int64_t>(0, -FloorDivide(base + inner_span - low, step));
  const std::int64_t last = std::min(extent - 1, FloorDivide(high - 1 - base, step));
  const std::int64_t full_first = std::max<std::int64_t>(0, -FloorDivide(base - low, step));
  const std::int64_t full_last = std::min(extent - 1, FloorDivide(high - 1 - base - inner_span, step));
  const auto partial = [&](std::int64_t from, std::int64_t to) {
    std::int64_t count = 0;
    for (std::int64_t i = from; i <= to; ++i) {
      count += CountWithin(digits + 1, n - 1, base + i * step, low, high);
    }
    return count;
  };
  if (full_first > full_last) return partial(first, last);
  return (full_last - full_first + 1) * inner_total + partial(first, full_first - 1) +
         partial(full_last + 1, last);
}

// Appends boxes of index tuples (n begins, then n ends) that contain exactly the tuples that CountWithin
// counts. `current` has room for one box.
inline void BoxesWithin(const Digit* digits, int n, int depth, std::int64_t base, std::int64_t low,
                        std::int64_t high, std::int64_t* current, std::vector<std::int64_t>* out) {
  std::int64_t span = 0;
  for (int d = depth; d < n; ++d) span += (digits[d].extent - 1) * digits[d].step;
  if (base >= high || base + span < low) return;
  const auto emit_with_whole = [&](int from) {
    for (int d = from; d < n; ++d) {
      current[d] = 0;
      current[n + d] = digits[d].extent;
    }
    out->insert(out->end(), current, current + 2 * n);
  };
  if (base >= low && base + span < high) {
    emit_with_whole(depth);
    return;
  }
  const std::int64_t extent = digits[depth].extent, step = digits[depth].step;
  const std::int64_t inner_span = span - (extent - 1) * step;
  const std::int64_t first = std::max<std::int64_t>(0, -FloorDivide(base + inner_span - low, step));
  const std::int64_t last = std::min(extent - 1, FloorDivide(high - 1 - base, step));
  const std::int64_t full_first = std::max<std::int64_t>(0, -FloorDivide(base - low, step));
  const std::int64_t full_last = std::min(extent - 1, FloorDivide(high - 1 - base - inner_span, step));
  const auto partial = [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i <= to; ++i) {
      current[depth] = i;
      current[n + depth] = i + 1;
      BoxesWithin(digits, n, depth + 1, base + i * step, low, high, current, out);
    }
  };
  if (full_first > full_last) {
    partial(first, last);
    return;
  }
  partial(first, full_first - 1);
  current[depth] = full_first;
  current[n + depth] = full_last + 1;
  emit_with_whole(depth + 1);
  partial(full_last + 1, last);
}

// A strided set in the coordinates of a grid. Adjacent dimensions of the grid over which one
// dimension of the set runs form one group, with one coordinate; the other groups are single dimensions. So
// the set is a product over the groups.
struct Aligned {
  int rank = 0;                       // number of groups
  int first_dim[kMaxRank + 1];        // dimensions of the grid, by group
  std::int64_t coordinate[kMaxRank];  // of the base element, by group
  Digit digits[kMaxRank];             // by group
  int first_digit[kMaxRank + 1];
};

inline void Align(const Grid& grid, const StridedSet& set, Aligned* out) {
  const int rank = static_cast<int>(grid.shape.size());
  std::int64_t stride[kMaxRank + 1], length[kMaxRank];  // by group
  stride[rank] = 1;
  for (int k = rank; k-- > 0;) {
    out->first_dim[k] = k;
    length[k] = grid.shape[k];
    stride[k] = stride[k + 1];
    if (k + 1 < rank) stride[k] *= grid.shape[k + 1];
  }
  out->first_dim[rank] = rank;
  out->rank = rank;
  const auto join_with_next = [&](int k) {
    length[k] *= length[k + 1];
    stride[k] = stride[k + 1];
    --out->rank;
    for (int i = k + 1; i < out->rank; ++i) {
      length[i] = length[i + 1];
      stride[i] = stride[i + 1];
    }
    for (int i = k + 1; i <= out->rank; ++i) out->first_dim[i] = out->first_dim[i + 1];
  };
  // Joins groups until no digit has a step that is not whole and no sum of digits exceeds its group.
  int group[kMaxRank];  // by dimension of the set
  for (bool joined = true; joined;) {
    joined = false;
    for (int k = 0; k < out->rank; ++k) out->coordinate[k] = set.base / stride[k] % length[k];
    for (int d = 0; d < set.rank && !joined; ++d) {
      int k = out->rank - 1;
      while (k > 0 && set.dims[d].stride >= stride[k] * length[k]) --k;
      group[d] = k;
      if (set.dims[d].stride % stride[k] != 0) {
        join_with_next(k);
        joined = true;
      }
    }
    for (int k = 1; k < out->rank && !joined; ++k) {
      std::int64_t reach = out->coordinate[k];
      for (int d = 0; d < set.rank; ++d) {
        if (group[d] == k) reach += (set.dims[d].extent - 1) * (set.dims[d].stride / stride[k]);
      }
      if (reach < length[k]) continue;
      join_with_next(k - 1);
      joined = true;
    }
  }
  int n = 0;
  for (int k = 0; k < out->rank; ++k) {
    out->first_digit[k] = n;
    for (int d = 0; d < set.rank; ++d) {  // in falling order of strides
      if (group[d] == k) out->digits[n++] = {set.dims[d].extent, set.dims[d].stride / stride[k], d};
    }
  }
  out->first_digit[out->rank] = n;
}

// Appends where each part of a dimension begins, and where the last one ends: as Grid::Begin, without a
// division for every part.
inline void AppendBegins(const Grid& grid, std::size_t dim, std::vector<std::int64_t>* out) {
  const std::int64_t parts = grid.parts[dim], shape = grid.shape[dim], grain = grid.grain[dim];
  const std::int64_t grains = CeilDivide(shape, grain), quotient = grains / parts, rest = grains % parts;
  out->reserve(out->size() + static_cast<std::size_t>(parts) + 1);
  std::int64_t begin = 0, remainder = 0;  // part * grains = begin * parts + remainder
  for (std::int64_t part = 0; part < parts; ++part) {
    out->push_back(std::min(shape, begin * grain));
    begin += quotient;
    remainder += rest;
    if (remainder >= parts) {
      remainder -= parts;
      ++begin;
    }
  }
  out->push_back(shape);
}

// Calls f(begin, end) for the intervals of elements, within the dimensions [first, last) of `shape`, of
// the box from `begin` to `end` (both by dimension), in order.
template <typename F>
void ForEachIntervalOfBox(const Shape& shape, int first, int last, const std::int64_t* begin,
                          const std::int64_t* end, F&& f) {
  std::int64_t index[kMaxRank];
  for (int d = first; d < last; ++d) {
    index[d] = begin[d];
    if (begin[d] >= end[d]) return;
  }
  int inner = last;  // dimensions from here on are whole
  std::int64_t unit = 1;
  while (inner > first && begin[inner - 1] == 0 && end[inner - 1] == shape[inner - 1]) {
    unit *= shape[--inner];
  }
  if (inner == first) {
    f(std::int64_t{0}, unit);
    return;
  }
  const int cut = inner - 1;
  while (true) {
    std::int64_t row = 0;
    for (int d = first; d < cut; ++d) row = row * shape[d] + index[d];
    row *= shape[cut];
    f((row + begin[cut]) * unit, (row + end[cut]) * unit);
    int d = cut - 1;
    for (; d >= first; --d) {
      if (++index[d] < end[d]) break;
      index[d] = begin[d];
    }
    if (d < first) return;
  }
}

// The same for one part of a grid.
template <typename F>
void ForEachIntervalOfPart(const Grid& grid, int first, int last, const std::int64_t* part, F&& f) {
  std::int64_t begin[kMaxRank], end[kMaxRank];
  for (int d = first; d < last; ++d) {
    begin[d] = grid.Begin(d, part[d]);
    end[d] = grid.Begin(d, part[d] + 1);
  }
  ForEachIntervalOfBox(grid.shape, first, last, begin, end, f);
}

// Calls f(part indices) for every part of the dimensions [first, last), in row-major order.
template <typename F>
void ForEachPart(const Grid& grid, int first, int last, F&& f) {
  std::int64_t part[kMaxRank] = {};
  while (true) {
    f(static_cast<const std::int64_t*>(part));
    int d = last - 1;
    for (; d >= first; --d) {
      if (++part[d] < grid.parts[d]) break;
      part[d] = 0;
    }
    if (d < first) return;
  }
}

// Calls f(part indices) for every part on `tile`.
template <typename F>
void ForEachPartOn(const Grid& grid, unsigned tile, F&& f) {
  if (tile >= grid.num_tiles) return;
  const int rank = static_cast<int>(grid.parts.size());
  int order[kMaxRank], moving = 0, still = 0, still_dims[kMaxRank];
  std::int64_t part[kMaxRank] = {};
  for (int d = 0; d < rank; ++d) {
    if (grid.parts[d] == 1) continue;
    if (grid.tile_stride[d] != 0) {
      order[moving++] = d;
    } else {
      still_dims[still++] = d;
    }
  }
  std::sort(order, order + moving, [&](int a, int b) { return grid.tile_stride[a] > grid.tile_stride[b]; });
  // Mixed-radix tile numbers can be decoded greedily if each stride exceeds the sum that the smaller ones
  // reach.
  std::int64_t reach = 0;
  bool nested = true;
  for (int i = moving - 1; i >= 0; --i) {
    const std::int64_t stride = grid.tile_stride[order[i]];
    nested = nested && stride > reach;
    reach += (grid.parts[order[i]] - 1) * stride;
  }
  const auto over_still = [&] {
    while (true) {
      f(static_cast<const std::int64_t*>(part));
      int i = still - 1;
      for (; i >= 0; --i) {
        if (++part[still_dims[i]] < grid.parts[still_dims[i]]) break;
        part[still_dims[i]] = 0;
      }
      if (i < 0) return;
    }
  };
  const std::int64_t tiles = grid.num_tiles;
  if (nested) {
    std::int64_t start = (static_cast<std::int64_t>(tile) - grid.first_tile % tiles + tiles) % tiles;
    for (; start <= reach; start += tiles) {
      std::int64_t rest = start;
      bool found = true;
      for (int i = 0; i < moving && found; ++i) {
        const int d = order[i];
        part[d] = std::min(rest / grid.tile_stride[d], grid.parts[d] - 1);
        rest -= part[d] * grid.tile_stride[d];
      }
      if (rest != 0) found = false;
      if (found) over_still();
    }
    return;
  }
  for (int d = 0; d < rank; ++d) part[d] = 0;
  while (true) {
    std::int64_t sum = grid.first_tile;
    for (int d = 0; d < rank; ++d) sum += part[d] * grid.tile_stride[d];
    if (static_cast<unsigned>(((sum % tiles) + tiles) % tiles) == tile) {
      f(static_cast<const std::int64_t*>(part));
    }
    int d = rank - 1;
    for (; d >= 0; --d) {
      if (++part[d] < grid.parts[d]) break;
      part[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace ipu_model::internal

#endif  // IPU_MODEL_CORE_MAPPING_STRIDED_SET_H_
