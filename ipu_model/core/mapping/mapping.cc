#include "core/mapping/mapping.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/deadline.h"
#include "core/mapping/strided_set.h"

namespace ipu_model {

using namespace internal;

namespace {

// The end of the gap behind the last mapped element.
constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

// Returns a box of the view from ranges of the set's dimensions. Dimensions that the set leaves out are
// whole.
Box BoxOfView(const View& view, const StridedSet& set, const std::int64_t* begin, const std::int64_t* end) {
  Box box = Box::Whole(view.shape);
  for (int d = 0; d < set.rank; ++d) {
    const StridedSet::Dim& dim = set.dims[d];
    box.begin[dim.view_dim] = dim.reversed ? dim.extent - end[d] : begin[d];
    box.end[dim.view_dim] = dim.reversed ? dim.extent - begin[d] : end[d];
  }
  return box;
}

// Joins boxes on one tile that differ in one dimension only, where one begins at the end of the other, from
// the innermost dimension of the set to the outermost. So a grid that is given as intervals has the boxes of
// a grid.
void JoinBoxes(const StridedSet& set, std::vector<Vertex>* vertices) {
  for (int i = set.rank; i-- > 0;) {
    const auto d = static_cast<std::size_t>(set.dims[i].view_dim);
    // Whether `a` comes before `b` where only the other dimensions count: 0 for neither.
    const auto compare = [d](const Vertex& a, const Vertex& b) {
      if (a.tile != b.tile) return a.tile < b.tile ? -1 : 1;
      for (std::size_t k = 0; k < a.box.begin.size(); ++k) {
        if (k == d) continue;
        if (a.box.begin[k] != b.box.begin[k]) return a.box.begin[k] < b.box.begin[k] ? -1 : 1;
        if (a.box.end[k] != b.box.end[k]) return a.box.end[k] < b.box.end[k] ? -1 : 1;
      }
      return 0;
    };
    const auto before = [&](const Vertex& a, const Vertex& b) {
      const int order = compare(a, b);
      return order != 0 ? order < 0 : a.box.begin[d] < b.box.begin[d];
    };
    const auto join_neighbours = [&] {
      std::size_t kept = 0;
      for (std::size_t v = 1; v < vertices->size(); ++v) {
        Vertex &last = (*vertices)[kept], &next = (*vertices)[v];
        if (compare(last, next) == 0 && last.box.end[d] == next.box.begin[d]) {
          last.box.end[d] = next.box.end[d];
        } else if (++kept != v) {
          (*vertices)[kept] = std::move(next);
        }
      }
      if (!vertices->empty()) vertices->resize(kept + 1);
    };
    // Most boxes of an interval follow each other: few are left to sort.
    join_neighbours();
    if (std::is_sorted(vertices->begin(), vertices->end(), before)) continue;
    std::sort(vertices->begin(), vertices->end(), before);
    join_neighbours();
  }
}

void DigitsOfSet(const StridedSet& set, Digit* digits) {
  for (int d = 0; d < set.rank; ++d) digits[d] = {set.dims[d].extent, set.dims[d].stride, d};
}

}  // namespace

Mapping::Mapping(Grid grid) : grid_(std::move(grid)), has_grid_(true) {
  const std::size_t rank = grid_.shape.size();
  bool good = grid_.parts.size() == rank && grid_.grain.size() == rank && grid_.tile_stride.size() == rank &&
              grid_.num_tiles > 0 && rank <= kMaxRank;
  for (std::size_t d = 0; good && d < rank; ++d) {
    good = grid_.shape[d] >= 0 && grid_.parts[d] >= 1 && grid_.grain[d] >= 1 && grid_.tile_stride[d] >= 0;
  }
  if (!good) {
    throw std::invalid_argument(
        "a grid needs equal ranks, at least one part, grain and tile, and no negative tile stride");
  }
}

Mapping::Mapping(std::vector<MappedInterval> intervals) {
  for (const MappedInterval& interval : intervals) {
    if (interval.begin >= interval.end) continue;
    if (!intervals_.empty() && interval.begin < intervals_.back().end) {
      throw std::invalid_argument("element " + std::to_string(interval.begin) + " is mapped to tile " +
                                  std::to_string(intervals_.back().tile) + " and to tile " +
                                  std::to_string(interval.tile));
    }
    if (!intervals_.empty() && intervals_.back().end == interval.begin &&
        intervals_.back().tile == interval.tile) {
      intervals_.back().end = interval.end;
    } else {
      intervals_.push_back(interval);
    }
  }
}

namespace {

// Replaces the parts of `mapping` that `intervals`, which are sorted, cover.
void Overwrite(std::vector<MappedInterval>* mapping, const std::vector<MappedInterval>& intervals) {
  std::vector<MappedInterval> kept;
  std::size_t next = 0;
  for (MappedInterval r : *mapping) {
    while (next < intervals.size() && intervals[next].end <= r.begin) ++next;
    for (std::size_t k = next; k < intervals.size() && intervals[k].begin < r.end && r.begin < r.end; ++k) {
      if (intervals[k].begin > r.begin) kept.push_back({r.begin, intervals[k].begin, r.tile});
      r.begin = std::max(r.begin, intervals[k].end);
    }
    if (r.begin < r.end) kept.push_back(r);
  }
  kept.insert(kept.end(), intervals.begin(), intervals.end());
  std::sort(kept.begin(), kept.end(),
            [](const MappedInterval& a, const MappedInterval& b) { return a.begin < b.begin; });
  *mapping = std::move(kept);
}

bool Overlap(const std::vector<MappedInterval>& sorted) {
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].begin < sorted[i - 1].end) return true;
  }
  return false;
}

}  // namespace

void Mapping::Overwrite(std::vector<MappedInterval> intervals, std::int64_t num_elements) {
  if (has_grid_) {
    std::vector<MappedInterval> own;
    Intervals(0, num_elements, &own);
    *this = Mapping(std::move(own));
  }
  std::stable_sort(intervals.begin(), intervals.end(),
                   [](const MappedInterval& a, const MappedInterval& b) { return a.begin < b.begin; });
  added_.push_back(added_intervals_.size());
  std::int64_t end = 0;
  for (MappedInterval interval : intervals) {
    interval.begin = std::max(interval.begin, end);
    if (interval.begin >= interval.end) continue;
    end = interval.end;
    added_intervals_.push_back(interval);
  }
}

void Mapping::Settle() const {
  if (added_.empty()) return;
  // Usually nothing is mapped twice: then one sort is enough, however many calls there were.
  std::vector<MappedInterval> all = intervals_;
  all.insert(all.end(), added_intervals_.begin(), added_intervals_.end());
  std::sort(all.begin(), all.end(),
            [](const MappedInterval& a, const MappedInterval& b) { return a.begin < b.begin; });
  if (Overlap(all)) {
    all = intervals_;
    for (std::size_t i = 0; i < added_.size(); ++i) {
      const std::size_t end = i + 1 < added_.size() ? added_[i + 1] : added_intervals_.size();
      ipu_model::Overwrite(&all, {added_intervals_.begin() + static_cast<std::ptrdiff_t>(added_[i]),
                                  added_intervals_.begin() + static_cast<std::ptrdiff_t>(end)});
    }
  }
  added_.clear();
  added_intervals_.clear();
  intervals_ = Mapping(std::move(all)).intervals_;
}

bool Mapping::empty() const { return !has_grid_ && intervals_.empty() && added_.empty(); }

bool Mapping::Complete(std::int64_t num_elements) const {
  if (has_grid_) return NumElements(grid_.shape) == num_elements;
  std::int64_t next = 0;
  for (const MappedInterval& interval : intervals()) {
    if (interval.begin != next) return false;
    next = interval.end;
  }
  return next == num_elements;
}

const Grid* Mapping::grid() const { return has_grid_ ? &grid_ : nullptr; }

MappedInterval Mapping::IntervalAt(std::int64_t element) const {
  if (!has_grid_) {
    const std::vector<MappedInterval>& all = intervals();
    const auto after = std::upper_bound(all.begin(), all.end(), element,
                                        [](std::int64_t e, const MappedInterval& r) { return e < r.begin; });
    const std::int64_t before = after == all.begin() ? 0 : (after - 1)->end;
    if (element < before) return *(after - 1);
    return {before, after == all.end() ? kEndless : after->begin, kNoTile};
  }
  const std::int64_t elements = NumElements(grid_.shape);
  if (element < 0 || element >= elements) return {elements, kEndless, kNoTile};
  MappedInterval result{0, 0, 0};
  std::int64_t part[kMaxRank] = {}, rest = element, unit = 1;
  bool found = false;  // whether the innermost divided dimension was passed
  for (int d = static_cast<int>(grid_.shape.size()) - 1; d >= 0; --d) {
    const std::int64_t index = rest % grid_.shape[d];
    rest /= grid_.shape[d];
    part[d] = grid_.PartOf(d, index);
    if (found) continue;
    found = grid_.parts[d] > 1;
    // The part of this dimension, from the first element that has the indices of the outer dimensions.
    const std::int64_t first = element - element % (unit * grid_.shape[d]);
    result.begin = first + grid_.Begin(d, part[d]) * unit;
    result.end = first + grid_.Begin(d, part[d] + 1) * unit;
    unit *= grid_.shape[d];
  }
  if (grid_.shape.empty()) result.end = 1;
  result.tile = grid_.TileOf(part);
  return result;
}

unsigned Mapping::TileOf(std::int64_t element) const {
  const MappedInterval found = IntervalAt(element);
  if (found.tile == kNoTile) {
    throw std::out_of_range("element " + std::to_string(element) + " is mapped to no tile");
  }
  return found.tile;
}

void Mapping::Intervals(std::int64_t begin, std::int64_t end, std::vector<MappedInterval>* out) const {
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
  if (!has_grid_) {
    const std::vector<MappedInterval>& all = intervals();
    auto interval = std::upper_bound(all.begin(), all.end(), begin,
                                     [](std::int64_t e, const MappedInterval& r) { return e < r.end; });
    for (; interval != all.end() && interval->begin < end; ++interval)
      add(interval->begin, interval->end, interval->tile);
    return;
  }
  const int rank = static_cast<int>(grid_.shape.size());
  end = std::min(end, NumElements(grid_.shape));
  if (begin >= end) return;
  int split = rank - 1;  // the innermost divided dimension
  std::int64_t unit = 1;
  while (split >= 0 && grid_.parts[split] == 1) unit *= grid_.shape[split--];
  std::int64_t part[kMaxRank] = {};
  if (split < 0) {
    add(begin, end, grid_.TileOf(part));
    return;
  }
  const std::int64_t row_elements = grid_.shape[split] * unit;
  for (std::int64_t row = begin / row_elements; row * row_elements < end; ++row) {
    std::int64_t rest = row;
    for (int d = split - 1; d >= 0; --d) {
      part[d] = grid_.PartOf(d, rest % grid_.shape[d]);
      rest /= grid_.shape[d];
    }
    const std::int64_t from = std::max<std::int64_t>(0, begin - row * row_elements) / unit;
    for (std::int64_t p = grid_.PartOf(split, from); p < grid_.parts[split]; ++p) {
      const std::int64_t b = row * row_elements + grid_.Begin(split, p) * unit;
      if (b >= end) break;
      part[split] = p;
      add(b, row * row_elements + grid_.Begin(split, p + 1) * unit, grid_.TileOf(part));
    }
  }
}

std::vector<std::int64_t> Mapping::ElementsPerTile(std::int64_t num_elements, unsigned num_tiles) const {
  std::vector<std::int64_t> elements(num_tiles, 0);
  if (!has_grid_) {
    for (const MappedInterval& interval : intervals()) {
      if (interval.tile < num_tiles)
        elements[interval.tile] += std::min(interval.end, num_elements) - interval.begin;
    }
    return elements;
  }
  const int rank = static_cast<int>(grid_.shape.size());
  std::vector<std::int64_t> begins;
  std::size_t first[kMaxRank];
  for (int d = 0; d < rank; ++d) {
    first[d] = begins.size();
    AppendBegins(grid_, static_cast<std::size_t>(d), &begins);
  }
  ForEachPart(grid_, 0, rank, [&](const std::int64_t* part) {
    std::int64_t n = 1;
    for (int d = 0; d < rank; ++d) {
      const std::size_t p = first[d] + static_cast<std::size_t>(part[d]);
      n *= begins[p + 1] - begins[p];
    }
    const unsigned tile = grid_.TileOf(part);
    if (tile < num_tiles) elements[tile] += n;
  });
  return elements;
}

std::int64_t Mapping::Held(unsigned tile, const View& view, const Box& region) const {
  StridedSet set;
  if (!Canonicalise(view, &region, &set)) return 0;
  std::int64_t held = 0;
  if (has_grid_) {
    Aligned aligned;
    Align(grid_, set, &aligned);
    ForEachPartOn(grid_, tile, [&](const std::int64_t* part) {
      std::int64_t n = 1;
      for (int k = 0; k < aligned.rank && n > 0; ++k) {
        const Digit* digits = aligned.digits + aligned.first_digit[k];
        const int count = aligned.first_digit[k + 1] - aligned.first_digit[k];
        std::int64_t within = 0;
        ForEachIntervalOfPart(grid_, aligned.first_dim[k], aligned.first_dim[k + 1], part,
                              [&](std::int64_t begin, std::int64_t end) {
                                within += CountWithin(digits, count, aligned.coordinate[k], begin, end);
                              });
        n *= within;
      }
      held += n;
    });
    return held * set.repeats;
  }
  const std::int64_t low = set.base, high = set.base + set.Span() + 1;
  const std::vector<MappedInterval>& all = intervals();
  const auto begin = FirstEndingAfter(all.begin(), all.end(), low);
  const auto end = std::lower_bound(begin, all.end(), high,
                                    [](const MappedInterval& r, std::int64_t e) { return r.begin < e; });
  // A region of a few rows may lie across many intervals of other tiles.
  const auto count_row = [&](std::int64_t from, std::int64_t to) {
    for (auto interval = FirstEndingAfter(begin, end, from); interval != end && interval->begin < to;
         ++interval) {
      if (interval->tile == tile) held += std::min(interval->end, to) - std::max(interval->begin, from);
    }
  };
  if (ForEachIntervalOfSet(set, (end - begin) / 4, count_row)) return held * set.repeats;
  Digit digits[kMaxRank];
  DigitsOfSet(set, digits);
  for (auto interval = begin; interval != end; ++interval) {
    if (interval->tile == tile)
      held += CountWithin(digits, set.rank, set.base, interval->begin, interval->end);
  }
  return held * set.repeats;
}

std::vector<Vertex> Mapping::VerticesOver(const View& view, unsigned num_tiles) const {
  CheckDeadline();
  std::vector<Vertex> vertices;
  StridedSet set;
  if (!Canonicalise(view, nullptr, &set)) return vertices;
  const auto check_tile = [&](unsigned tile) {
    if (tile >= num_tiles) {
      throw std::out_of_range("a tensor is mapped to tile " + std::to_string(tile) + " of a target with " +
                              std::to_string(num_tiles) + " tiles");
    }
  };
  if (has_grid_) {
    Aligned aligned;
    Align(grid_, set, &aligned);
    // Boxes per group of grid dimensions and part; their products are the vertices. A group along which
    // the view does not move has one empty box in the part that contains the view.
    struct PartBoxes {
      std::vector<std::int64_t> values;
      std::vector<std::size_t> first;  // by part: index of its first box
    };
    std::int64_t current[2 * kMaxRank];
    std::vector<PartBoxes> boxes(static_cast<std::size_t>(aligned.rank));
    for (int k = 0; k < aligned.rank; ++k) {
      const int n = aligned.first_digit[k + 1] - aligned.first_digit[k];
      std::size_t count = 0;
      boxes[k].first.push_back(0);
      const int first = aligned.first_dim[k], last = aligned.first_dim[k + 1];
      ForEachPart(grid_, first, last, [&](const std::int64_t* part) {
        ForEachIntervalOfPart(grid_, first, last, part, [&](std::int64_t low, std::int64_t high) {
          if (n == 0) {
            count += low <= aligned.coordinate[k] && aligned.coordinate[k] < high ? 1 : 0;
          } else {
            BoxesWithin(aligned.digits + aligned.first_digit[k], n, 0, aligned.coordinate[k], low, high,
                        current, &boxes[k].values);
            count = boxes[k].values.size() / (2 * static_cast<std::size_t>(n));
          }
        });
        boxes[k].first.push_back(count);
      });
    }
    std::int64_t begin[kMaxRank], end[kMaxRank];
    std::size_t total = 1;
    for (const PartBoxes& k : boxes) total *= k.first.back();
    vertices.reserve(total);
    ForEachPart(grid_, 0, static_cast<int>(grid_.parts.size()), [&](const std::int64_t* part) {
      std::size_t choice[kMaxRank], from[kMaxRank], to[kMaxRank];
      for (int k = 0; k < aligned.rank; ++k) {
        std::int64_t number = 0;
        for (int d = aligned.first_dim[k]; d < aligned.first_dim[k + 1]; ++d) {
          number = number * grid_.parts[d] + part[d];
        }
        choice[k] = from[k] = boxes[k].first[number];
        to[k] = boxes[k].first[number + 1];
        if (from[k] == to[k]) return;
      }
      const unsigned tile = grid_.TileOf(part);
      check_tile(tile);
      while (true) {
        for (int k = 0; k < aligned.rank; ++k) {
          const int n = aligned.first_digit[k + 1] - aligned.first_digit[k];
          const std::int64_t* box = boxes[k].values.data() + choice[k] * 2 * static_cast<std::size_t>(n);
          for (int i = 0; i < n; ++i) {
            const int source = aligned.digits[aligned.first_digit[k] + i].source;
            begin[source] = box[i];
            end[source] = box[n + i];
          }
        }
        vertices.push_back({tile, BoxOfView(view, set, begin, end)});
        int k = aligned.rank - 1;
        for (; k >= 0; --k) {
          if (++choice[k] < to[k]) break;
          choice[k] = from[k];
        }
        if (k < 0) return;
      }
    });
    return vertices;
  }
  Digit digits[kMaxRank];
  DigitsOfSet(set, digits);
  std::vector<std::int64_t> boxes;
  const auto n = static_cast<std::size_t>(set.rank);
  ForEachInterval(
      set.base, set.base + set.Span() + 1, [&](std::int64_t begin, std::int64_t end, unsigned tile) {
        if (n == 0) {
          check_tile(tile);
          vertices.push_back({tile, Box::Whole(view.shape)});
          return;
        }
        boxes.clear();
        std::int64_t current[2 * kMaxRank];
        BoxesWithin(digits, set.rank, 0, set.base, begin, end, current, &boxes);
        if (!boxes.empty()) check_tile(tile);
        for (std::size_t b = 0; b < boxes.size(); b += 2 * n) {
          vertices.push_back({tile, BoxOfView(view, set, boxes.data() + b, boxes.data() + b + n)});
        }
      });
  JoinBoxes(set, &vertices);
  return vertices;
}

bool Mapping::operator==(const Mapping& other) const {
  const auto same_intervals = [](const std::vector<MappedInterval>& a, const std::vector<MappedInterval>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const MappedInterval& x, const MappedInterval& y) {
                        return x.begin == y.begin && x.end == y.end && x.tile == y.tile;
                      });
  };
  if (has_grid_ && other.has_grid_) {
    if (grid_ == other.grid_) return true;
    if (NumElements(grid_.shape) != NumElements(other.grid_.shape)) return false;
  }
  // Different descriptions can mean the same placement.
  const auto expand = [](const Mapping& m) {
    std::vector<MappedInterval> intervals = m.intervals();
    if (m.has_grid_) m.Intervals(0, NumElements(m.grid_.shape), &intervals);
    return intervals;
  };
  return same_intervals(expand(*this), expand(other));
}

}  // namespace ipu_model
