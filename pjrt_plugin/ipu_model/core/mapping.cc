#include "pjrt_plugin/ipu_model/core/mapping.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "pjrt_plugin/ipu_model/kernels/host_tensor.h"

namespace ipu_model {
namespace {

std::int64_t CeilDivide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Floor division for a possibly negative numerator.
std::int64_t FloorDivide(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// The elements of a region of a view as base + sum(i_d * stride_d) with positive strides, largest first.
// Extents of 1 and broadcast dimensions are left out; the latter count in `repeats`.
struct StridedSet {
  struct Dim {
    std::int64_t extent, stride;
    int view_dim;
    bool reversed;
    int partition_dim;
  };
  int rank = 0;
  // Splitting over a partition's dimensions can add as many dimensions as that has.
  Dim dims[2 * kMaxRank];
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

// False when the region is empty.
bool Canonicalise(const View& view, const Box* region, StridedSet* set) {
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
    set->dims[set->rank++] = {extent, stride, static_cast<int>(d), reversed, -1};
  }
  set->Sort();
  return true;
}

// One digit of a nested strided sum, in the coordinate of the partition dimension it belongs to.
struct Digit {
  std::int64_t extent, step;
  int source;  // index into StridedSet::dims
};

// How many index tuples of digits[d...] give low <= base + sum < high.
std::int64_t CountWithin(const Digit* digits, int n, std::int64_t base, std::int64_t low, std::int64_t high) {
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

// Ranges of each digit; a box in the digits' index space.
struct DigitBox {
  std::int64_t begin[2 * kMaxRank], end[2 * kMaxRank];
};

// Boxes of index tuples that together are exactly those CountWithin counts.
void BoxesWithin(const Digit* digits, int n, int depth, std::int64_t base, std::int64_t low,
                 std::int64_t high, DigitBox* current, std::vector<DigitBox>* out) {
  std::int64_t span = 0;
  for (int d = depth; d < n; ++d) span += (digits[d].extent - 1) * digits[d].step;
  if (base >= high || base + span < low) return;
  const auto fill_inner = [&](int from) {
    for (int d = from; d < n; ++d) {
      current->begin[d] = 0;
      current->end[d] = digits[d].extent;
    }
  };
  if (base >= low && base + span < high) {
    fill_inner(depth);
    out->push_back(*current);
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
      current->begin[depth] = i;
      current->end[depth] = i + 1;
      BoxesWithin(digits, n, depth + 1, base + i * step, low, high, current, out);
    }
  };
  if (full_first > full_last) {
    partial(first, last);
    return;
  }
  partial(first, full_first - 1);
  current->begin[depth] = full_first;
  current->end[depth] = full_last + 1;
  fill_inner(depth + 1);
  out->push_back(*current);
  partial(full_last + 1, last);
}

// A strided set seen in the coordinates of a partition's shape.
struct Aligned {
  int rank = 0;
  std::int64_t coordinate[kMaxRank];  // of the base element
  Digit digits[2 * kMaxRank];         // grouped by partition dimension
  int first_digit[kMaxRank + 1];
};

// Assigns every dimension of the set to the one dimension of the partition that it moves along. False when
// the set crosses partition dimensions in a way that is no product. With `split`, dimensions of the set that
// run over several whole partition dimensions are split (their identity in the view is lost).
bool Align(const Partition& partition, bool split, StridedSet* set, Aligned* out) {
  const int rank = static_cast<int>(partition.shape.size());
  std::int64_t stride[kMaxRank];
  std::int64_t s = 1, rest = set->base;
  for (int k = rank - 1; k >= 0; --k) {
    stride[k] = s;
    s *= partition.shape[k];
  }
  out->rank = rank;
  for (int k = 0; k < rank; ++k) {
    out->coordinate[k] = rest / stride[k];
    rest %= stride[k];
  }
  for (int d = 0; d < set->rank; ++d) {
    StridedSet::Dim& dim = set->dims[d];
    int k = rank - 1;
    while (k >= 0 && !(partition.shape[k] > 1 && dim.stride < stride[k] * partition.shape[k])) --k;
    if (k < 0 || dim.stride % stride[k] != 0) return false;
    const std::int64_t step = dim.stride / stride[k], length = partition.shape[k];
    if (out->coordinate[k] + (dim.extent - 1) * step >= length) {
      const std::int64_t period = length / step;
      if (!split || length % step != 0 || out->coordinate[k] >= step || dim.extent % period != 0 ||
          set->rank == 2 * kMaxRank) {
        return false;
      }
      set->dims[set->rank++] = {dim.extent / period, stride[k] * length, dim.view_dim, dim.reversed, -1};
      set->dims[d].extent = period;
    }
    set->dims[d].partition_dim = k;
  }
  int n = 0;
  for (int k = 0; k < rank; ++k) {
    out->first_digit[k] = n;
    std::int64_t reach = out->coordinate[k];
    for (int d = 0; d < set->rank; ++d) {
      const StridedSet::Dim& dim = set->dims[d];
      if (dim.partition_dim != k) continue;
      out->digits[n++] = {dim.extent, dim.stride / stride[k], d};
      reach += (dim.extent - 1) * (dim.stride / stride[k]);
    }
    if (reach >= partition.shape[k]) return false;
    std::sort(out->digits + out->first_digit[k], out->digits + n,
              [](const Digit& a, const Digit& b) { return a.step > b.step; });
  }
  out->first_digit[rank] = n;
  return true;
}

// Calls f(part indices) for every part on `tile`.
template <typename F>
void ForEachPartOn(const Partition& partition, unsigned tile, F&& f) {
  if (tile >= partition.num_tiles) return;
  const int rank = static_cast<int>(partition.parts.size());
  int order[kMaxRank], moving = 0, still = 0, still_dims[kMaxRank];
  std::int64_t part[kMaxRank] = {};
  for (int d = 0; d < rank; ++d) {
    if (partition.parts[d] == 1) continue;
    if (partition.tile_stride[d] != 0) {
      order[moving++] = d;
    } else {
      still_dims[still++] = d;
    }
  }
  std::sort(order, order + moving,
            [&](int a, int b) { return partition.tile_stride[a] > partition.tile_stride[b]; });
  // Mixed-radix tile numbers decode greedily when each stride exceeds everything the smaller ones reach.
  std::int64_t reach = 0;
  bool nested = true;
  for (int i = moving - 1; i >= 0; --i) {
    const std::int64_t stride = partition.tile_stride[order[i]];
    nested = nested && stride > reach;
    reach += (partition.parts[order[i]] - 1) * stride;
  }
  const auto over_still = [&] {
    while (true) {
      f(static_cast<const std::int64_t*>(part));
      int i = still - 1;
      for (; i >= 0; --i) {
        if (++part[still_dims[i]] < partition.parts[still_dims[i]]) break;
        part[still_dims[i]] = 0;
      }
      if (i < 0) return;
    }
  };
  const std::int64_t tiles = partition.num_tiles;
  if (nested) {
    std::int64_t start = (static_cast<std::int64_t>(tile) - partition.first_tile % tiles + tiles) % tiles;
    for (; start <= reach; start += tiles) {
      std::int64_t rest = start;
      bool found = true;
      for (int i = 0; i < moving && found; ++i) {
        const int d = order[i];
        part[d] = std::min(rest / partition.tile_stride[d], partition.parts[d] - 1);
        rest -= part[d] * partition.tile_stride[d];
      }
      if (rest != 0) found = false;
      if (found) over_still();
    }
    return;
  }
  for (int d = 0; d < rank; ++d) part[d] = 0;
  while (true) {
    std::int64_t sum = partition.first_tile;
    for (int d = 0; d < rank; ++d) sum += part[d] * partition.tile_stride[d];
    if (static_cast<unsigned>(((sum % tiles) + tiles) % tiles) == tile) {
      f(static_cast<const std::int64_t*>(part));
    }
    int d = rank - 1;
    for (; d >= 0; --d) {
      if (++part[d] < partition.parts[d]) break;
      part[d] = 0;
    }
    if (d < 0) return;
  }
}

// Calls f(begin, end) for the contiguous element runs of one part, in order.
template <typename F>
void ForEachRunOfPart(const Partition& partition, const std::int64_t* part, F&& f) {
  const int rank = static_cast<int>(partition.shape.size());
  std::int64_t begin[kMaxRank], end[kMaxRank], index[kMaxRank];
  for (int d = 0; d < rank; ++d) {
    begin[d] = index[d] = partition.Begin(d, part[d]);
    end[d] = partition.Begin(d, part[d] + 1);
    if (begin[d] >= end[d]) return;
  }
  int inner = rank;  // dimensions from here on are whole
  std::int64_t unit = 1;
  while (inner > 0 && begin[inner - 1] == 0 && end[inner - 1] == partition.shape[inner - 1]) {
    unit *= partition.shape[--inner];
  }
  if (inner == 0) {
    f(std::int64_t{0}, unit);
    return;
  }
  const int split = inner - 1;
  while (true) {
    std::int64_t row = 0;
    for (int d = 0; d < split; ++d) row = row * partition.shape[d] + index[d];
    row *= partition.shape[split];
    f((row + begin[split]) * unit, (row + end[split]) * unit);
    int d = split - 1;
    for (; d >= 0; --d) {
      if (++index[d] < end[d]) break;
      index[d] = begin[d];
    }
    if (d < 0) return;
  }
}

unsigned TileOfPart(const Partition& partition, const std::int64_t* part) {
  std::int64_t sum = partition.first_tile;
  for (std::size_t d = 0; d < partition.parts.size(); ++d) sum += part[d] * partition.tile_stride[d];
  const std::int64_t tiles = partition.num_tiles;
  return static_cast<unsigned>(((sum % tiles) + tiles) % tiles);
}

// Calls f(part indices) for every part in row-major order.
template <typename F>
void ForEachPart(const Partition& partition, F&& f) {
  const int rank = static_cast<int>(partition.parts.size());
  std::int64_t part[kMaxRank] = {};
  while (true) {
    f(static_cast<const std::int64_t*>(part));
    int d = rank - 1;
    for (; d >= 0; --d) {
      if (++part[d] < partition.parts[d]) break;
      part[d] = 0;
    }
    if (d < 0) return;
  }
}

// A view box from ranges of the set's dimensions; dimensions that the set left out are whole.
Box BoxOfView(const View& view, const StridedSet& set, const std::int64_t* begin, const std::int64_t* end) {
  Box box = Box::Whole(view.shape);
  for (int d = 0; d < set.rank; ++d) {
    const StridedSet::Dim& dim = set.dims[d];
    box.begin[dim.view_dim] = dim.reversed ? dim.extent - end[d] : begin[d];
    box.end[dim.view_dim] = dim.reversed ? dim.extent - begin[d] : end[d];
  }
  return box;
}

void DigitsOfSet(const StridedSet& set, Digit* digits) {
  for (int d = 0; d < set.rank; ++d) digits[d] = {set.dims[d].extent, set.dims[d].stride, d};
}

}  // namespace

std::int64_t Partition::Begin(int dim, std::int64_t part) const {
  const std::int64_t grains = CeilDivide(shape[dim], grain[dim]);
  return std::min(shape[dim], part * grains / parts[dim] * grain[dim]);
}

std::int64_t Partition::PartOf(int dim, std::int64_t index) const {
  const std::int64_t grains = CeilDivide(shape[dim], grain[dim]);
  return ((index / grain[dim] + 1) * parts[dim] - 1) / grains;
}

std::int64_t Partition::LargestPart(int dim) const {
  const std::int64_t grains = CeilDivide(shape[dim], grain[dim]), rest = grains % parts[dim];
  const std::int64_t last = shape[dim] - Begin(dim, parts[dim] - 1);
  if (parts[dim] == 1) return last;
  // The last part always has the larger number of grains, but its last grain may be short.
  const std::int64_t others = rest == 1 ? grains / parts[dim] : CeilDivide(grains, parts[dim]);
  return std::max(last, others * grain[dim]);
}

std::vector<Vertex> Partition::Vertices() const {
  std::vector<Vertex> vertices;
  vertices.reserve(static_cast<std::size_t>(num_parts()));
  const int rank = static_cast<int>(shape.size());
  ForEachPart(*this, [&](const std::int64_t* part) {
    Vertex vertex{TileOfPart(*this, part), {Shape(shape.size()), Shape(shape.size())}};
    for (int d = 0; d < rank; ++d) {
      vertex.box.begin[d] = Begin(d, part[d]);
      vertex.box.end[d] = Begin(d, part[d] + 1);
      if (vertex.box.begin[d] >= vertex.box.end[d]) return;
    }
    vertices.push_back(std::move(vertex));
  });
  return vertices;
}

Partition Partition::Linear(std::int64_t elements, std::int64_t min_per_tile, std::int64_t grain,
                            unsigned num_tiles, unsigned first_tile) {
  grain = std::max<std::int64_t>(1, grain);
  const std::int64_t tiles = std::max(1u, num_tiles), grains = CeilDivide(elements, grain);
  const std::int64_t min_grains = std::max<std::int64_t>(1, CeilDivide(min_per_tile, grain));
  const std::int64_t per_tile =
      std::max({std::int64_t{1}, CeilDivide(grains, tiles),
                CeilDivide(grains, std::max<std::int64_t>(1, grains / min_grains))});
  const std::int64_t used = std::max<std::int64_t>(1, CeilDivide(grains, per_tile));
  return {{elements}, {used}, {grain}, {1}, first_tile, static_cast<unsigned>(tiles)};
}

Partition Partition::Grid(Shape shape, Shape parts, unsigned num_tiles, unsigned first_tile) {
  const std::size_t rank = shape.size();
  if (parts.size() != rank) throw std::invalid_argument("a grid needs as many part counts as dimensions");
  Shape tile_stride(rank);
  std::int64_t stride = 1;
  for (std::size_t d = rank; d-- > 0;) {
    tile_stride[d] = stride;
    stride *= parts[d];
  }
  return {std::move(shape),       std::move(parts), Shape(rank, 1),
          std::move(tile_stride), first_tile,       std::max(1u, num_tiles)};
}

Mapping::Mapping(Partition partition) : partition_(std::move(partition)), has_partition_(true) {
  const std::size_t rank = partition_.shape.size();
  bool good = partition_.parts.size() == rank && partition_.grain.size() == rank &&
              partition_.tile_stride.size() == rank && partition_.num_tiles > 0 && rank <= kMaxRank;
  for (std::size_t d = 0; good && d < rank; ++d) {
    good = partition_.shape[d] >= 0 && partition_.parts[d] >= 1 && partition_.grain[d] >= 1 &&
           partition_.tile_stride[d] >= 0;
  }
  if (!good) {
    throw std::invalid_argument(
        "a partition needs equal ranks, at least one part, grain and tile, and no negative tile stride");
  }
}

Mapping::Mapping(std::vector<Run> runs) {
  for (const Run& run : runs) {
    if (run.begin >= run.end) continue;
    if (!runs_.empty() && run.begin < runs_.back().end) {
      throw std::invalid_argument("element " + std::to_string(run.begin) + " is mapped to tile " +
                                  std::to_string(runs_.back().tile) + " and to tile " +
                                  std::to_string(run.tile));
    }
    if (!runs_.empty() && runs_.back().end == run.begin && runs_.back().tile == run.tile) {
      runs_.back().end = run.end;
    } else {
      runs_.push_back(run);
    }
  }
}

bool Mapping::empty() const { return !has_partition_ && runs_.empty(); }

bool Mapping::Complete(std::int64_t num_elements) const {
  if (has_partition_) return NumElements(partition_.shape) == num_elements;
  std::int64_t next = 0;
  for (const Run& run : runs_) {
    if (run.begin != next) return false;
    next = run.end;
  }
  return next == num_elements;
}

const Partition* Mapping::partition() const { return has_partition_ ? &partition_ : nullptr; }

unsigned Mapping::TileOf(std::int64_t element) const {
  if (has_partition_) {
    std::int64_t part[kMaxRank], rest = element;
    if (element < 0 || element >= NumElements(partition_.shape)) {
      throw std::out_of_range("element " + std::to_string(element) + " is outside the mapped variable");
    }
    for (int d = static_cast<int>(partition_.shape.size()) - 1; d >= 0; --d) {
      part[d] = partition_.PartOf(d, rest % partition_.shape[d]);
      rest /= partition_.shape[d];
    }
    return TileOfPart(partition_, part);
  }
  auto after = std::upper_bound(runs_.begin(), runs_.end(), element,
                                [](std::int64_t e, const Run& run) { return e < run.begin; });
  if (after == runs_.begin() || element >= (after - 1)->end) {
    throw std::out_of_range("element " + std::to_string(element) + " is mapped to no tile");
  }
  return (after - 1)->tile;
}

void Mapping::Runs(std::int64_t begin, std::int64_t end, std::vector<Run>* out) const {
  const auto add = [&](std::int64_t b, std::int64_t e, unsigned tile) {
    b = std::max(b, begin);
    e = std::min(e, end);
    if (b >= e) return;
    if (!out->empty() && out->back().end == b && out->back().tile == tile) {
      out->back().end = e;
    } else {
      out->push_back({b, e, tile});
    }
  };
  if (!has_partition_) {
    auto run = std::upper_bound(runs_.begin(), runs_.end(), begin,
                                [](std::int64_t e, const Run& r) { return e < r.end; });
    for (; run != runs_.end() && run->begin < end; ++run) add(run->begin, run->end, run->tile);
    return;
  }
  const int rank = static_cast<int>(partition_.shape.size());
  end = std::min(end, NumElements(partition_.shape));
  if (begin >= end) return;
  int split = rank - 1;  // the innermost divided dimension
  std::int64_t unit = 1;
  while (split >= 0 && partition_.parts[split] == 1) unit *= partition_.shape[split--];
  std::int64_t part[kMaxRank] = {};
  if (split < 0) {
    add(begin, end, TileOfPart(partition_, part));
    return;
  }
  const std::int64_t row_elements = partition_.shape[split] * unit;
  for (std::int64_t row = begin / row_elements; row * row_elements < end; ++row) {
    std::int64_t rest = row;
    for (int d = split - 1; d >= 0; --d) {
      part[d] = partition_.PartOf(d, rest % partition_.shape[d]);
      rest /= partition_.shape[d];
    }
    const std::int64_t from = std::max<std::int64_t>(0, begin - row * row_elements) / unit;
    for (std::int64_t p = partition_.PartOf(split, from); p < partition_.parts[split]; ++p) {
      const std::int64_t b = row * row_elements + partition_.Begin(split, p) * unit;
      if (b >= end) break;
      part[split] = p;
      add(b, row * row_elements + partition_.Begin(split, p + 1) * unit, TileOfPart(partition_, part));
    }
  }
}

std::vector<std::int64_t> Mapping::ElementsPerTile(std::int64_t num_elements, unsigned num_tiles) const {
  std::vector<std::int64_t> elements(num_tiles, 0);
  if (!has_partition_) {
    for (const Run& run : runs_) {
      if (run.tile < num_tiles) elements[run.tile] += std::min(run.end, num_elements) - run.begin;
    }
    return elements;
  }
  const int rank = static_cast<int>(partition_.shape.size());
  ForEachPart(partition_, [&](const std::int64_t* part) {
    std::int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= partition_.Begin(d, part[d] + 1) - partition_.Begin(d, part[d]);
    const unsigned tile = TileOfPart(partition_, part);
    if (tile < num_tiles) elements[tile] += n;
  });
  return elements;
}

std::int64_t Mapping::Held(unsigned tile, const View& view, const Box& region) const {
  StridedSet set;
  if (!Canonicalise(view, &region, &set)) return 0;
  std::int64_t held = 0;
  if (has_partition_) {
    StridedSet split = set;
    Aligned aligned;
    if (Align(partition_, /*split=*/true, &split, &aligned)) {
      ForEachPartOn(partition_, tile, [&](const std::int64_t* part) {
        std::int64_t n = 1;
        for (int k = 0; k < aligned.rank && n > 0; ++k) {
          n *= CountWithin(aligned.digits + aligned.first_digit[k],
                           aligned.first_digit[k + 1] - aligned.first_digit[k], aligned.coordinate[k],
                           partition_.Begin(k, part[k]), partition_.Begin(k, part[k] + 1));
        }
        held += n;
      });
      return held * set.repeats;
    }
  }
  Digit digits[2 * kMaxRank];
  DigitsOfSet(set, digits);
  const std::int64_t low = set.base, high = set.base + set.Span() + 1;
  const auto count_run = [&](std::int64_t begin, std::int64_t end) {
    if (begin < high && end > low) held += CountWithin(digits, set.rank, set.base, begin, end);
  };
  if (has_partition_) {
    ForEachPartOn(partition_, tile,
                  [&](const std::int64_t* part) { ForEachRunOfPart(partition_, part, count_run); });
  } else {
    auto run = std::upper_bound(runs_.begin(), runs_.end(), low,
                                [](std::int64_t e, const Run& r) { return e < r.end; });
    for (; run != runs_.end() && run->begin < high; ++run) {
      if (run->tile == tile) count_run(run->begin, run->end);
    }
  }
  return held * set.repeats;
}

std::vector<Vertex> Mapping::VerticesOver(const View& view, unsigned num_tiles) const {
  std::vector<Vertex> vertices;
  StridedSet set;
  if (!Canonicalise(view, nullptr, &set)) return vertices;
  const auto check_tile = [&](unsigned tile) {
    if (tile >= num_tiles) {
      throw std::out_of_range("a tensor is mapped to tile " + std::to_string(tile) + " of a target with " +
                              std::to_string(num_tiles) + " tiles");
    }
  };
  Aligned aligned;
  if (has_partition_ && Align(partition_, /*split=*/false, &set, &aligned)) {
    // Boxes per partition dimension and part, then their products.
    std::vector<std::vector<std::vector<DigitBox>>> boxes(static_cast<std::size_t>(aligned.rank));
    for (int k = 0; k < aligned.rank; ++k) {
      const int n = aligned.first_digit[k + 1] - aligned.first_digit[k];
      boxes[k].resize(static_cast<std::size_t>(partition_.parts[k]));
      for (std::int64_t p = 0; p < partition_.parts[k]; ++p) {
        DigitBox current;
        BoxesWithin(aligned.digits + aligned.first_digit[k], n, 0, aligned.coordinate[k],
                    partition_.Begin(k, p), partition_.Begin(k, p + 1), &current, &boxes[k][p]);
      }
    }
    std::int64_t begin[2 * kMaxRank], end[2 * kMaxRank];
    ForEachPart(partition_, [&](const std::int64_t* part) {
      std::size_t choice[kMaxRank] = {};
      for (int k = 0; k < aligned.rank; ++k) {
        if (boxes[k][part[k]].empty()) return;
      }
      const unsigned tile = TileOfPart(partition_, part);
      check_tile(tile);
      while (true) {
        for (int k = 0; k < aligned.rank; ++k) {
          const DigitBox& box = boxes[k][part[k]][choice[k]];
          for (int i = aligned.first_digit[k]; i < aligned.first_digit[k + 1]; ++i) {
            begin[aligned.digits[i].source] = box.begin[i - aligned.first_digit[k]];
            end[aligned.digits[i].source] = box.end[i - aligned.first_digit[k]];
          }
        }
        vertices.push_back({tile, BoxOfView(view, set, begin, end)});
        int k = aligned.rank - 1;
        for (; k >= 0; --k) {
          if (++choice[k] < boxes[k][part[k]].size()) break;
          choice[k] = 0;
        }
        if (k < 0) return;
      }
    });
    return vertices;
  }
  Digit digits[2 * kMaxRank];
  DigitsOfSet(set, digits);
  std::vector<DigitBox> boxes;
  ForEachRun(set.base, set.base + set.Span() + 1, [&](std::int64_t begin, std::int64_t end, unsigned tile) {
    boxes.clear();
    DigitBox current;
    BoxesWithin(digits, set.rank, 0, set.base, begin, end, &current, &boxes);
    if (!boxes.empty()) check_tile(tile);
    for (const DigitBox& box : boxes) {
      vertices.push_back({tile, BoxOfView(view, set, box.begin, box.end)});
    }
  });
  return vertices;
}

bool Mapping::operator==(const Mapping& other) const {
  const auto same_runs = [](const std::vector<Run>& a, const std::vector<Run>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Run& x, const Run& y) {
      return x.begin == y.begin && x.end == y.end && x.tile == y.tile;
    });
  };
  if (has_partition_ && other.has_partition_) {
    const Partition &a = partition_, &b = other.partition_;
    if (a.shape == b.shape && a.parts == b.parts && a.grain == b.grain && a.tile_stride == b.tile_stride &&
        a.first_tile == b.first_tile && a.num_tiles == b.num_tiles) {
      return true;
    }
    if (NumElements(a.shape) != NumElements(b.shape)) return false;
  }
  // Different descriptions can still mean the same placement.
  const auto expand = [](const Mapping& m) {
    std::vector<Run> runs = m.runs_;
    if (m.has_partition_) m.Runs(0, NumElements(m.partition_.shape), &runs);
    return runs;
  };
  return same_runs(expand(*this), expand(other));
}

}  // namespace ipu_model
