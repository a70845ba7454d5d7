#include "core/mapping/tiling.h"

#include <algorithm>
#include <utility>

#include "core/mapping/strides.h"

namespace ipu_model {

namespace {

// The dimensions of the space and of the shape with equal numbers of elements.
struct Match {
  std::size_t from, from_end, to, to_end;
};

std::vector<Match> MatchGroups(const Shape& space, const Shape& shape) {
  std::vector<Match> matches;
  std::size_t i = 0, j = 0;
  while (i < space.size() || j < shape.size()) {
    Match m{i, i, j, j};
    std::int64_t n = 1, k = 1;
    if (i < space.size()) n = space[i++];
    if (j < shape.size()) k = shape[j++];
    while (n != k) {
      if (n < k) {
        n *= space.at(i++);
      } else {
        k *= shape.at(j++);
      }
    }
    m.from_end = i;
    m.to_end = j;
    matches.push_back(m);
  }
  return matches;
}

// Appends how many elements are inside each boundary between the dimensions [first, last).
void AppendCuts(const Shape& shape, std::size_t first, std::size_t last, Shape* cuts) {
  std::int64_t n = 1;
  for (std::size_t d = last; d-- > first;) {
    n *= shape[d];
    if (n > 1) cuts->push_back(n);
  }
}

// Where both shapes have boundaries, from the inside; empty if one of them does not divide the next.
Shape CommonCuts(const Match& m, const Shape& space, const Shape& shape) {
  Shape cuts;
  AppendCuts(space, m.from, m.from_end, &cuts);
  AppendCuts(shape, m.to, m.to_end, &cuts);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    if (cuts[i] % cuts[i - 1] != 0) return {};
  }
  return cuts;
}

bool HaveCommonCuts(const Match& m, const Shape& space, const Shape& shape) {
  if (m.from_end - m.from <= 1 || m.to_end - m.to <= 1) return true;
  return !CommonCuts(m, space, shape).empty();
}

void RemoveDim(std::size_t d, Shape* shape) { shape->erase(shape->begin() + static_cast<std::ptrdiff_t>(d)); }

// Merges dimensions d and d + 1 if every block stays a strided box.
bool MergeDims(std::size_t d, Tiling* tiling) {
  const Blocks& blocks = tiling->blocks;
  const std::int64_t inner = tiling->space[d + 1];
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const ConstBlock b = blocks[i];
    if (b.extent(d) == 1) continue;
    if (b.extent(d + 1) != inner || (inner > 1 && b.stride(d) != b.stride(d + 1) * inner)) return false;
  }
  Blocks merged(blocks.rank() - 1);
  merged.Reserve(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const ConstBlock b = blocks[i];
    const Block m = merged.Append(b.variable(), b.offset());
    for (std::size_t k = 0; k < merged.rank(); ++k) {
      const std::size_t from = k > d ? k + 1 : k;
      m.begin(k) = b.begin(from);
      m.extent(k) = b.extent(from);
      m.stride(k) = b.stride(from);
    }
    m.begin(d) = b.begin(d) * inner + b.begin(d + 1);
    m.extent(d) = b.extent(d) * b.extent(d + 1);
    m.stride(d) = inner == 1 ? b.stride(d) : b.stride(d + 1);
  }
  tiling->space[d] *= inner;
  RemoveDim(d + 1, &tiling->space);
  tiling->blocks = std::move(merged);
  return true;
}

// Inserts a dimension of one element.
void InsertDim(std::size_t d, Tiling* tiling) {
  Blocks wider(tiling->space.size() + 1);
  wider.Reserve(tiling->blocks.size());
  const Blocks& blocks = tiling->blocks;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const ConstBlock b = blocks[i];
    const Block w = wider.Append(b.variable(), b.offset());
    for (std::size_t k = 0; k < wider.rank(); ++k) {
      const std::size_t from = k > d ? k - 1 : k;
      w.begin(k) = k == d ? 0 : b.begin(from);
      w.extent(k) = k == d ? 1 : b.extent(from);
      w.stride(k) = k == d ? 1 : b.stride(from);
    }
  }
  tiling->space.insert(tiling->space.begin() + static_cast<std::ptrdiff_t>(d), 1);
  tiling->blocks = std::move(wider);
}

// Merges dimensions [first, last) as far as possible. Returns how many are left.
std::size_t MergeRange(std::size_t first, std::size_t last, Tiling* tiling) {
  for (std::size_t d = last; d-- > first + 1;) {
    if (MergeDims(d - 1, tiling)) --last;
  }
  return last - first;
}

// Splits dimensions of the space: factors[d] are the extents that become of dimension d.
class Splitter {
 public:
  Splitter(const Tiling& from, std::vector<Shape> factors) : from_(from), factors_(std::move(factors)) {
    for (const Shape& f : factors_) to_.space.insert(to_.space.end(), f.begin(), f.end());
    to_.blocks = Blocks(to_.space.size());
    to_.blocks.Reserve(from_.blocks.size());
  }

  bool Run(bool exactly_as_many, Tiling* result) {
    for (std::size_t i = 0; i < from_.blocks.size(); ++i) {
      if (SplitToOne(from_.blocks[i])) continue;
      if (exactly_as_many) return false;
      SplitToSeveral(from_.blocks[i]);
    }
    *result = std::move(to_);
    return true;
  }

 private:
  bool SplitToOne(const ConstBlock& b) {
    const Block made = to_.blocks.Append(b.variable(), b.offset());
    std::size_t next = 0;
    for (std::size_t d = 0; d < factors_.size(); next += factors_[d++].size()) {
      const Shape& f = factors_[d];
      if (f.size() == 1) {
        made.begin(next) = b.begin(d);
        made.extent(next) = b.extent(d);
        made.stride(next) = b.stride(d);
        continue;
      }
      // Digits of the first and the last element: they may differ in one place, inside of which all is whole.
      std::int64_t low = b.begin(d), high = b.end(d) - 1, stride = b.stride(d);
      bool whole = true;  // of the digits so far
      bool differ = false;
      for (std::size_t k = f.size(); k-- > 0;) {
        const std::int64_t from = low % f[k], to = high % f[k];
        const bool more = low / f[k] != high / f[k];  // an outer digit differs
        if (more && (from != 0 || to != f[k] - 1)) whole = false;
        if (!whole) break;
        differ = differ || more;
        made.begin(next + k) = from;
        made.extent(next + k) = to - from + 1;
        made.stride(next + k) = stride;
        stride *= f[k];
        low /= f[k];
        high /= f[k];
      }
      if (!whole) {
        to_.blocks.RemoveLast();
        return false;
      }
    }
    return true;
  }

  void SplitToSeveral(const ConstBlock& b) {
    std::vector<std::vector<Box>> boxes;
    for (std::size_t d = 0; d < factors_.size(); ++d) {
      boxes.push_back(BoxesOfInterval(factors_[d], b.begin(d), b.end(d)));
    }
    std::vector<std::size_t> choice(factors_.size(), 0);
    while (true) {
      const Block made = to_.blocks.Append(b.variable(), b.offset());
      std::size_t next = 0;
      for (std::size_t d = 0; d < factors_.size(); ++d) {
        const Box& box = boxes[d][choice[d]];
        const Shape inside = RowMajorStrides(factors_[d]);
        std::int64_t first = 0;
        for (std::size_t k = 0; k < inside.size(); ++k, ++next) {
          first += box.begin[k] * inside[k];
          made.begin(next) = box.begin[k];
          made.extent(next) = box.end[k] - box.begin[k];
          made.stride(next) = b.stride(d) * inside[k];
        }
        made.offset() += (first - b.begin(d)) * b.stride(d);
      }
      std::size_t d = factors_.size();
      while (d-- > 0) {
        if (++choice[d] < boxes[d].size()) break;
        choice[d] = 0;
      }
      if (d == static_cast<std::size_t>(-1)) return;
    }
  }

  const Tiling& from_;
  const std::vector<Shape> factors_;
  Tiling to_;
};

// Appends the part of a block in `box`, which is over the dimensions [first, last), as rows of one dimension
// in their place, which begins at element `begin` of their row-major order.
void AppendRows(const ConstBlock& block, const Shape& space, std::size_t first, std::size_t last,
                const Box& box, std::int64_t begin, Blocks* out) {
  const std::size_t rank = last - first;
  std::vector<std::int64_t> numbers(4 * rank);
  std::int64_t* const low = numbers.data();
  std::int64_t *const count = low + rank, *const index = count + rank, *const weight = index + rank;
  std::int64_t offset = block.offset(), product = 1;
  for (std::size_t k = rank; k-- > 0;) {
    const std::size_t d = first + k;
    low[k] = std::max(box.begin[k], block.begin(d));
    count[k] = std::min(box.end[k], block.end(d)) - low[k];
    if (count[k] <= 0) return;
    offset += (low[k] - block.begin(d)) * block.stride(d);
    weight[k] = product;
    product *= space[d];
  }
  // The innermost dimensions that one step goes through.
  std::size_t inner = rank;
  std::int64_t length = 1, step = 1, place = -begin;
  bool whole = true;
  for (; inner > 0; --inner) {
    const std::size_t k = inner - 1;
    const std::int64_t stride = block.stride(first + k);
    if (count[k] > 1) {
      if (!whole || (length > 1 && stride != step * length)) break;
      if (length == 1) step = stride;
      length *= count[k];
    }
    whole = whole && count[k] == space[first + k];
  }
  for (std::size_t k = 0; k < rank; ++k) place += low[k] * weight[k];
  while (true) {
    const Block made = out->Append(block.variable(), offset);
    for (std::size_t d = 0; d < out->rank(); ++d) {
      const std::size_t from = d > first ? d + rank - 1 : d;
      made.begin(d) = d == first ? place : block.begin(from);
      made.extent(d) = d == first ? length : block.extent(from);
      made.stride(d) = d == first ? step : block.stride(from);
    }
    out->JoinLast(first);
    std::size_t k = inner;
    while (k-- > 0) {
      offset += block.stride(first + k);
      place += weight[k];
      if (++index[k] < count[k]) break;
      offset -= count[k] * block.stride(first + k);
      place -= count[k] * weight[k];
      index[k] = 0;
    }
    if (k == static_cast<std::size_t>(-1)) return;
  }
}

}  // namespace

bool GroupsOf(const Shape& shape, const Shape& space, std::vector<std::size_t>* first) {
  first->clear();
  std::size_t next = 0;
  for (const std::int64_t extent : shape) {
    first->push_back(next);
    std::int64_t n = 1;
    while (n < extent && next < space.size()) n *= space[next++];
    if (n != extent) return false;
    if (extent == 1 && next < space.size() && space[next] == 1) ++next;
  }
  while (next < space.size() && space[next] == 1) ++next;
  first->push_back(next);
  return next == space.size();
}

bool ChangeOnes(const Shape& shape, Tiling* tiling) {
  const Shape& space = tiling->space;
  constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<std::size_t> source;  // by dimension of the shape
  source.reserve(shape.size());
  std::size_t next = 0;
  for (const std::int64_t extent : shape) {
    source.push_back(kNone);
    if (extent == 1) continue;
    while (next < space.size() && space[next] == 1) ++next;
    if (next == space.size() || space[next] != extent) return false;
    source.back() = next++;
  }
  while (next < space.size() && space[next] == 1) ++next;
  if (next < space.size()) return false;
  Blocks changed(shape.size());
  const Blocks& blocks = tiling->blocks;
  changed.Reserve(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const ConstBlock b = blocks[i];
    const Block c = changed.Append(b.variable(), b.offset());
    for (std::size_t d = 0; d < source.size(); ++d) {
      const std::size_t from = source[d];
      c.begin(d) = from == kNone ? 0 : b.begin(from);
      c.extent(d) = from == kNone ? 1 : b.extent(from);
      c.stride(d) = from == kNone ? 1 : b.stride(from);
    }
  }
  tiling->space = shape;
  tiling->blocks = std::move(changed);
  return true;
}

bool Refine(const Shape& shape, bool exactly_as_many, Tiling* tiling) {
  std::vector<Match> matches = MatchGroups(tiling->space, shape);
  for (std::size_t i = matches.size(); i-- > 0;) {
    Match& m = matches[i];
    if (HaveCommonCuts(m, tiling->space, shape)) continue;
    m.from_end = m.from + MergeRange(m.from, m.from_end, tiling);
    if (HaveCommonCuts(m, tiling->space, shape)) continue;
    if (exactly_as_many) return false;
    Collapse(m.from, m.from_end, tiling);
  }
  matches = MatchGroups(tiling->space, shape);
  std::vector<Shape> factors;
  bool same = true;
  for (const Match& m : matches) {
    const Shape cuts = CommonCuts(m, tiling->space, shape);
    std::int64_t inside = 1;
    std::vector<Shape> of_group;
    auto cut = cuts.begin();
    for (std::size_t d = m.from_end; d-- > m.from;) {
      Shape f;
      const std::int64_t end = inside * tiling->space[d];
      while (inside < end) {
        f.insert(f.begin(), *cut / inside);
        inside = *cut++;
      }
      same = same && f.size() == 1;
      of_group.push_back(std::move(f));
    }
    factors.insert(factors.end(), of_group.rbegin(), of_group.rend());
  }
  return same || Splitter(*tiling, std::move(factors)).Run(exactly_as_many, tiling);
}

void MergeGroups(const Shape& shape, Tiling* tiling) {
  if (tiling->space == shape) return;
  std::vector<std::size_t> first;
  GroupsOf(shape, tiling->space, &first);
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (first[d + 1] == first[d]) {
      InsertDim(first[d], tiling);
    } else if (first[d + 1] > first[d] + 1) {
      MergeRange(first[d], first[d + 1], tiling);
    }
  }
}

void SelectInGroup(std::size_t first, std::size_t last, std::int64_t begin, std::int64_t end,
                   Tiling* tiling) {
  const Shape group(tiling->space.begin() + static_cast<std::ptrdiff_t>(first),
                    tiling->space.begin() + static_cast<std::ptrdiff_t>(last));
  const std::vector<Box> boxes = BoxesOfInterval(group, begin, end);
  if (boxes.size() == 1) {
    tiling->blocks = tiling->blocks.Clipped(first, boxes[0]);
    for (std::size_t k = 0; k < group.size(); ++k)
      tiling->space[first + k] = boxes[0].end[k] - boxes[0].begin[k];
    return;
  }
  Blocks rows(tiling->blocks.rank() - group.size() + 1);
  for (const Box& box : boxes) {
    for (std::size_t i = 0; i < tiling->blocks.size(); ++i) {
      AppendRows(std::as_const(tiling->blocks)[i], tiling->space, first, last, box, begin, &rows);
    }
  }
  tiling->blocks = std::move(rows);
  tiling->space[first] = end - begin;
  tiling->space.erase(tiling->space.begin() + static_cast<std::ptrdiff_t>(first + 1),
                      tiling->space.begin() + static_cast<std::ptrdiff_t>(last));
}

void Collapse(std::size_t first, std::size_t last, Tiling* tiling) {
  const std::size_t rank = MergeRange(first, last, tiling);
  if (rank <= 1) return;
  Blocks rows(tiling->blocks.rank() - rank + 1);
  Box box{Shape(rank, 0), Shape(rank)};
  std::int64_t elements = 1;
  for (std::size_t k = 0; k < rank; ++k) elements *= box.end[k] = tiling->space[first + k];
  for (std::size_t i = 0; i < tiling->blocks.size(); ++i) {
    AppendRows(std::as_const(tiling->blocks)[i], tiling->space, first, first + rank, box, 0, &rows);
  }
  tiling->blocks = std::move(rows);
  tiling->space[first] = elements;
  tiling->space.erase(tiling->space.begin() + static_cast<std::ptrdiff_t>(first + 1),
                      tiling->space.begin() + static_cast<std::ptrdiff_t>(first + rank));
}

void CollapseGroups(const Shape& shape, Tiling* tiling) {
  if (tiling->space == shape) return;
  std::vector<std::size_t> first;
  GroupsOf(shape, tiling->space, &first);
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (first[d + 1] == first[d]) {
      InsertDim(first[d], tiling);
    } else {
      Collapse(first[d], first[d + 1], tiling);
    }
  }
}

void Unify(Tiling* a, Tiling* b) {
  if (a->space == b->space) return;
  Refine(b->space, false, a);
  Refine(a->space, false, b);
}

namespace {

// Boundaries that the groups of one dimension have in any part, without the largest, which each part has;
// from the inside, and empty if they do not divide each other and `elements` of each part.
Shape SharedCuts(const std::vector<Tiling>& parts, const std::vector<Shape>& shapes, std::size_t dim) {
  Shape cuts;
  std::vector<std::size_t> first;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    GroupsOf(shapes[p], parts[p].space, &first);
    if (first[dim + 1] > first[dim] + 1) AppendCuts(parts[p].space, first[dim] + 1, first[dim + 1], &cuts);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    if (cuts[i] % cuts[i - 1] != 0) return {};
  }
  for (const Shape& shape : shapes) {
    if (!cuts.empty() && shape[dim] % cuts.back() != 0) return {};
  }
  return cuts;
}

}  // namespace

Tiling Concatenate(const std::vector<const Tiling*>& parts, const std::vector<Shape>& shapes,
                   std::size_t dim) {
  bool plain = true;
  for (std::size_t p = 0; p < parts.size() && plain; ++p) plain = parts[p]->space == shapes[p];
  std::size_t at = dim;  // the dimension of the space that grows
  std::vector<const Tiling*> alike = parts;
  std::vector<Tiling> changed;
  if (!plain) {
    for (const Tiling* part : parts) changed.push_back(*part);
    for (std::size_t p = 0; p < parts.size(); ++p) Refine(shapes[p], false, &changed[p]);
    std::vector<Shape> cuts;
    for (std::size_t d = 0; d < shapes[0].size(); ++d) cuts.push_back(SharedCuts(changed, shapes, d));
    for (std::size_t d = 0; d < dim; ++d) at += cuts[d].size();
    for (std::size_t p = 0; p < parts.size(); ++p) {
      Shape wanted;
      for (std::size_t d = 0; d < cuts.size(); ++d) {
        std::int64_t elements = shapes[p][d];
        for (std::size_t c = cuts[d].size(); c-- > 0;) {
          wanted.push_back(elements / cuts[d][c]);
          elements = cuts[d][c];
        }
        wanted.push_back(elements);
      }
      Refine(wanted, false, &changed[p]);
      CollapseGroups(wanted, &changed[p]);
      alike[p] = &changed[p];
    }
  }
  Tiling result{alike[0]->space, Blocks(alike[0]->space.size())};
  result.space[at] = 0;
  std::size_t size = 0;
  for (const Tiling* part : alike) size += part->blocks.size();
  result.blocks.Reserve(size);
  for (const Tiling* part : alike) {
    for (std::size_t i = 0; i < part->blocks.size(); ++i) {
      result.blocks.Append(part->blocks[i]).begin(at) += result.space[at];
      result.blocks.JoinLast(at);
    }
    result.space[at] += part->space[at];
  }
  return result;
}

}  // namespace ipu_model
