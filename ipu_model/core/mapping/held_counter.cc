#include "core/mapping/held_counter.h"

#include <algorithm>
#include <tuple>

#include "kernels/host/integer_division.h"

namespace ipu_model {

using namespace internal;
namespace {

// So many parts of groups are remembered at least.
constexpr std::size_t kMostFound = 1 << 16;
// With more parts on a tile, those that hold nothing of a region are left out.
constexpr std::int64_t kFewParts = 4;

// Regions of which so many make the view overlap, as columns of a matrix do: its intervals are listed once.
constexpr std::int64_t kFewRegions = 16;

// The number of index tuples of nested digits with base + sum < high.
std::int64_t CountBelow(const Digit* digits, int n, std::int64_t base, std::int64_t high) {
  std::int64_t count = 0, rest = high - base;
  for (int d = 0; d < n; ++d) {
    const std::int64_t extent = digits[d].extent, step = digits[d].step;
    std::int64_t index = -1;
    if (rest > 0) index = step == 1 ? rest - 1 : (rest - 1) / step;
    if (index < 0 || index >= extent) {  // none or all of the tuples that are left
      if (index >= extent) ++count;
      for (; d < n; ++d) count *= digits[d].extent;
      return count;
    }
    count = count * extent + index;
    rest -= index * step;
  }
  return rest > 0 ? count + 1 : count;
}

}  // namespace

HeldCounter::HeldCounter(const Mapping& mapping, const View& view) : mapping_(mapping), view_(view) {
  const Grid* grid = mapping.grid();
  StridedSet set;
  Aligned aligned;
  if (grid == nullptr || !Canonicalise(view, nullptr, &set)) return;
  Align(*grid, set, &aligned);
  aligned_ = true;
  first_dim_.assign(aligned.first_dim, aligned.first_dim + aligned.rank + 1);
  first_digit_.assign(aligned.first_digit, aligned.first_digit + aligned.rank + 1);
  coordinate_.assign(aligned.coordinate, aligned.coordinate + aligned.rank);
  for (int i = 0; i < aligned.first_digit[aligned.rank]; ++i) {
    const StridedSet::Dim& dim = set.dims[aligned.digits[i].source];
    dims_.push_back({dim.view_dim, aligned.digits[i].step, dim.reversed});
  }
  for (std::size_t d = 0; d < grid->shape.size(); ++d) {
    grains_.push_back(CeilDivide(grid->shape[d], grid->grain[d]));
    first_begin_.push_back(begins_.size());
    AppendBegins(*grid, d, &begins_);
  }
  for (std::size_t k = 0; k < coordinate_.size(); ++k) {
    const auto parts = grid->parts.begin();
    whole_.push_back(
        std::all_of(parts + first_dim_[k], parts + first_dim_[k + 1], [](std::int64_t n) { return n == 1; }));
    bool nested = true;
    std::int64_t reach = 0;
    for (int i = first_digit_[k + 1] - 1; i >= first_digit_[k]; --i) {
      const Digit& digit = aligned.digits[i];
      nested = nested && digit.step > reach;
      reach += (digit.extent - 1) * digit.step;
    }
    nested_.push_back(nested);
  }
  row_major_tiles_ = true;
  num_parts_ = 1;
  for (std::size_t d = grid->parts.size(); d-- > 0;) {
    if (grid->parts[d] == 1) continue;
    divided_.push_back(d);
    row_major_tiles_ = row_major_tiles_ && grid->tile_stride[d] == num_parts_;
    num_parts_ *= grid->parts[d];
  }
}

// As Grid::PartOf, with fewer divisions.
std::int64_t HeldCounter::PartOf(std::size_t dim, std::int64_t index) const {
  const Grid& grid = *mapping_.grid();
  const std::int64_t parts = grid.parts[dim], grain = grid.grain[dim];
  if (parts == 1) return 0;
  return (((grain == 1 ? index : index / grain) + 1) * parts - 1) / grains_[dim];
}

std::int64_t HeldCounter::Distinct(const Box& region) const {
  std::int64_t n = 1;
  for (std::size_t d = 0; d < view_.shape.size(); ++d) {
    const std::int64_t extent = region.end[d] - region.begin[d];
    if (extent <= 0) return 0;
    if (view_.strides[d] != 0) n *= extent;
  }
  return n;
}

void HeldCounter::Locate(std::size_t k, const Box& region, Coordinates* out) const {
  const int first = first_digit_[k];
  out->num_digits = first_digit_[k + 1] - first;
  out->base = coordinate_[k];
  for (int i = 0; i < out->num_digits; ++i) {
    const Dim& dim = dims_[static_cast<std::size_t>(first + i)];
    const auto d = static_cast<std::size_t>(dim.view_dim);
    out->base += (dim.reversed ? view_.shape[d] - region.end[d] : region.begin[d]) * dim.step;
    out->digits[i] = {region.end[d] - region.begin[d], dim.step, 0};
  }
}

std::int64_t HeldCounter::Within(std::size_t k, const Coordinates& region, std::int64_t low,
                                 std::int64_t high) const {
  const std::int64_t base = region.base;
  const int n = region.num_digits;
  if (n == 0) return low <= base && base < high ? 1 : 0;
  if (n == 1 && region.digits[0].step == 1) {
    return std::max<std::int64_t>(0, std::min(high, base + region.digits[0].extent) - std::max(low, base));
  }
  if (!nested_[k]) return CountWithin(region.digits, n, base, low, high);
  return CountBelow(region.digits, n, base, high) - CountBelow(region.digits, n, base, low);
}

std::int64_t HeldCounter::HeldInGroup(std::size_t k, const std::int64_t* part,
                                      const Coordinates& region) const {
  if (first_dim_[k + 1] == first_dim_[k] + 1) {
    const auto dim = static_cast<std::size_t>(first_dim_[k]);
    return Within(k, region, BeginOf(dim, part[dim]), BeginOf(dim, part[dim] + 1));
  }
  std::int64_t begin[kMaxRank], end[kMaxRank], sum = 0;
  for (int d = first_dim_[k]; d < first_dim_[k + 1]; ++d) {
    begin[d] = BeginOf(static_cast<std::size_t>(d), part[d]);
    end[d] = BeginOf(static_cast<std::size_t>(d), part[d] + 1);
  }
  ForEachIntervalOfBox(mapping_.grid()->shape, first_dim_[k], first_dim_[k + 1], begin, end,
                       [&](std::int64_t low, std::int64_t high) { sum += Within(k, region, low, high); });
  return sum;
}

std::int64_t HeldCounter::AllInGroup(std::size_t k, const Box& region) const {
  std::int64_t elements = 1;
  for (int i = first_digit_[k]; i < first_digit_[k + 1]; ++i) {
    const auto d = static_cast<std::size_t>(dims_[static_cast<std::size_t>(i)].view_dim);
    elements *= region.end[d] - region.begin[d];
  }
  return elements;
}

std::int64_t HeldCounter::HeldInPart(const std::int64_t* part, const Box& region) const {
  std::int64_t held = 1;
  Coordinates located;
  for (std::size_t k = 0; k < coordinate_.size() && held > 0; ++k) {
    if (whole_[k]) {
      held *= AllInGroup(k, region);
    } else {
      Locate(k, region, &located);
      held *= HeldInGroup(k, part, located);
    }
  }
  return held;
}

// The parts are in [begin, end) of the first dimension of the group.
void HeldCounter::Find(std::size_t k, const Coordinates& region, std::int64_t begin, std::int64_t end) {
  const Grid& grid = *mapping_.grid();
  const int first_dim = first_dim_[k], last_dim = first_dim_[k + 1];
  std::int64_t part[kMaxRank] = {};
  part[first_dim] = begin;
  for (int d = last_dim; d >= first_dim;) {
    const std::int64_t elements = HeldInGroup(k, part, region);
    if (elements > 0) {
      std::int64_t tiles = 0;
      for (int i = first_dim; i < last_dim; ++i) tiles += part[i] * grid.tile_stride[i];
      found_.push_back({tiles, elements});
    }
    for (d = last_dim - 1; d >= first_dim; --d) {
      if (++part[d] < (d == first_dim ? end : grid.parts[d])) break;
      part[d] = 0;
    }
  }
}

void HeldCounter::AppendFound(std::size_t k, const Coordinates& region, std::int64_t begin,
                              std::int64_t end) {
  range_.assign({static_cast<std::int64_t>(k), region.base});
  for (int i = 0; i < region.num_digits; ++i) range_.push_back(region.digits[i].extent);
  std::uint64_t hash = 0;
  for (const std::int64_t n : range_) {
    hash = (hash ^ static_cast<std::uint64_t>(n)) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  if (found_.size() > kMostFound) {
    found_.clear();
    found_of_hash_.clear();
  }
  Found& found = found_of_hash_[hash];
  if (found.range != range_) {
    found.range = range_;
    found.begin = found_.size();
    Find(k, region, begin, end);
    found.end = found_.size();
  }
  held_.insert(held_.end(), found_.begin() + static_cast<std::ptrdiff_t>(found.begin),
               found_.begin() + static_cast<std::ptrdiff_t>(found.end));
}

void HeldCounter::List(std::int64_t begin, std::int64_t end) {
  if (listed_begin_ <= begin && end <= listed_end_) return;
  StridedSet all;
  if (Canonicalise(view_, nullptr, &all) && (end - begin) * kFewRegions >= all.Span()) {
    begin = std::min(begin, all.base);
    end = std::max(end, all.base + all.Span() + 1);
  }
  listed_.clear();
  mapping_.Intervals(begin, end, &listed_);
  listed_begin_ = begin;
  listed_end_ = end;
}

void HeldCounter::Holders(const Box& region, std::vector<std::pair<unsigned, std::int64_t>>* out) {
  if (Distinct(region) == 0) return;
  if (!aligned_) return HoldersOfIntervals(region, out);
  const std::size_t groups = coordinate_.size();
  // The parts of each group that hold something: group k's are held_[first[k]] to held_[first[k + 1]].
  std::size_t first[kMaxRank + 1] = {};
  held_.clear();
  for (std::size_t k = 0; k < groups; ++k) {
    if (whole_[k]) {
      held_.push_back({0, AllInGroup(k, region)});
    } else {
      AppendHeld(k, region);
    }
    first[k + 1] = held_.size();
  }
  MultiplyOut(first, out);
}

void HeldCounter::HoldersOfIntervals(const Box& region, std::vector<std::pair<unsigned, std::int64_t>>* out) {
  StridedSet set;
  Canonicalise(view_, &region, &set);
  const std::int64_t begin = set.base, end = set.base + set.Span() + 1;
  List(begin, end);
  const auto first = FirstEndingAfter(listed_.cbegin(), listed_.cend(), begin);
  const auto last = std::partition_point(
      first, listed_.cend(), [end](const MappedInterval& interval) { return interval.begin < end; });
  // A region of a few rows may lie across many intervals of other tiles.
  const auto add_row = [&](std::int64_t row, std::int64_t row_end) {
    for (auto interval = FirstEndingAfter(first, last, row); interval != last && interval->begin < row_end;
         ++interval) {
      out->emplace_back(interval->tile, std::min(interval->end, row_end) - std::max(interval->begin, row));
    }
  };
  if (ForEachIntervalOfSet(set, (last - first) / 4, add_row)) return;
  Digit digits[kMaxRank];
  for (int d = 0; d < set.rank; ++d) digits[d] = {set.dims[d].extent, set.dims[d].stride, d};
  for (auto interval = first; interval != last; ++interval) {
    const std::int64_t held = CountWithin(digits, set.rank, set.base, interval->begin, interval->end);
    if (held > 0) out->emplace_back(interval->tile, held);
  }
}

void HeldCounter::AppendHeld(std::size_t k, const Box& region) {
  const Grid& grid = *mapping_.grid();
  const int first_dim = first_dim_[k], last_dim = first_dim_[k + 1];
  Coordinates located;
  Locate(k, region, &located);
  const std::int64_t low = located.base;
  std::int64_t span = 0, inner = 1;
  for (int i = 0; i < located.num_digits; ++i)
    span += (located.digits[i].extent - 1) * located.digits[i].step;
  for (int d = first_dim + 1; d < last_dim; ++d) inner *= grid.shape[d];
  const auto outer = static_cast<std::size_t>(first_dim);
  const std::int64_t begin = PartOf(outer, inner == 1 ? low : low / inner);
  const std::int64_t end = PartOf(outer, inner == 1 ? low + span : (low + span) / inner) + 1;
  const std::int64_t stride = grid.tile_stride[outer];
  if (last_dim == first_dim + 1 &&
      (located.num_digits == 0 || (located.num_digits == 1 && located.digits[0].step == 1))) {
    // The elements are a range of the dimension.
    std::int64_t from = low;
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t next = std::min(BeginOf(outer, p + 1), low + span + 1);
      if (next > from) held_.push_back({p * stride, next - from});
      from = std::max(from, next);
    }
  } else if (last_dim == first_dim + 1 && nested_[k]) {
    std::int64_t below = 0;
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t next = CountBelow(located.digits, located.num_digits, low, BeginOf(outer, p + 1));
      if (next > below) held_.push_back({p * stride, next - below});
      below = next;
    }
  } else {
    AppendFound(k, located, begin, end);
  }
}

void HeldCounter::MultiplyOut(const std::size_t* first,
                              std::vector<std::pair<unsigned, std::int64_t>>* out) const {
  const Grid& grid = *mapping_.grid();
  const std::size_t groups = coordinate_.size();
  // What the groups with one part contribute is common to all; the others are multiplied out.
  std::size_t several[kMaxRank], num_several = 0, product = 1;
  std::int64_t tiles = grid.first_tile, elements = 1;
  for (std::size_t k = 0; k < groups; ++k) {
    const std::size_t parts = first[k + 1] - first[k];
    product *= parts;
    if (parts == 1) {
      tiles += held_[first[k]].tiles;
      elements *= held_[first[k]].elements;
    } else {
      several[num_several++] = k;
    }
  }
  const std::int64_t num_tiles = grid.num_tiles;
  const std::size_t before = out->size();
  out->resize(before + product);
  std::pair<unsigned, std::int64_t>* next = out->data() + before;
  const auto multiply = [&](const auto& self, std::size_t i, std::int64_t t, std::int64_t n) -> void {
    if (i == num_several) {
      *next++ = {static_cast<unsigned>(t < num_tiles ? t : t % num_tiles), n};
      return;
    }
    const HeldPart* const end = held_.data() + first[several[i] + 1];
    for (const HeldPart* part = held_.data() + first[several[i]]; part != end; ++part) {
      if (i + 1 < num_several) {
        self(self, i + 1, t + part->tiles, n * part->elements);
        continue;
      }
      const std::int64_t tile = t + part->tiles;
      *next++ = {static_cast<unsigned>(tile < num_tiles ? tile : tile % num_tiles), n * part->elements};
    }
  };
  multiply(multiply, 0, tiles, elements);
}

const std::int64_t* HeldCounter::PartOfNumber(std::int64_t number) {
  const Shape& parts = mapping_.grid()->parts;
  if (number == last_number_ + 1) {
    for (const std::size_t d : divided_) {
      if (++last_part_[d] < parts[d]) break;
      last_part_[d] = 0;
    }
  } else if (number != last_number_) {
    std::int64_t rest = number;
    for (const std::size_t d : divided_) {
      last_part_[d] = rest % parts[d];
      rest /= parts[d];
    }
  }
  last_number_ = number;
  return last_part_;
}

// The parts are numbered along the dimension that is divided last, so those of a region are a range.
std::pair<std::int64_t, std::int64_t> HeldCounter::Numbers(const Box& region) const {
  const std::size_t outer = divided_.back();
  const auto k = static_cast<std::size_t>(
      std::upper_bound(first_dim_.begin(), first_dim_.end(), static_cast<int>(outer)) - first_dim_.begin() -
      1);
  if (first_dim_[k] != static_cast<int>(outer)) return {0, num_parts_};
  const Grid& grid = *mapping_.grid();
  Coordinates located;
  Locate(k, region, &located);
  std::int64_t span = 0, inner = 1;
  for (int i = 0; i < located.num_digits; ++i)
    span += (located.digits[i].extent - 1) * located.digits[i].step;
  for (int d = first_dim_[k] + 1; d < first_dim_[k + 1]; ++d)
    inner *= grid.shape[static_cast<std::size_t>(d)];
  const std::int64_t stride = num_parts_ / grid.parts[outer];
  return {PartOf(outer, located.base / inner) * stride,
          (PartOf(outer, (located.base + span) / inner) + 1) * stride};
}

std::int64_t HeldCounter::Held(unsigned tile, const Box& region) {
  const std::int64_t distinct = Distinct(region);
  if (distinct == 0) return 0;
  if (!aligned_) {
    // Held counts every repetition of a broadcast element.
    return mapping_.Held(tile, view_, region) / (region.num_elements() / distinct);
  }
  const Grid& grid = *mapping_.grid();
  if (tile >= grid.num_tiles) return 0;
  std::int64_t held = 0;
  if (!row_major_tiles_) {
    ForEachPartOn(grid, tile, [&](const std::int64_t* part) { held += HeldInPart(part, region); });
    return held;
  }
  const std::int64_t tiles = grid.num_tiles;
  std::int64_t number = static_cast<std::int64_t>(tile) - grid.first_tile % tiles;
  if (number < 0) number += tiles;
  std::int64_t first = 0, last = num_parts_;
  if (num_parts_ > kFewParts * tiles) std::tie(first, last) = Numbers(region);
  if (number < first) number += CeilDivide(first - number, tiles) * tiles;
  for (; number < last; number += tiles) held += HeldInPart(PartOfNumber(number), region);
  return held;
}

}  // namespace ipu_model
