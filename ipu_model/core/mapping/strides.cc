// Arithmetic on shapes and strides that views and copies share.
#include "core/mapping/strides.h"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace ipu_model {

Shape RowMajorStrides(const Shape& shape) {
  Shape strides(shape.size());
  std::int64_t n = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = n;
    n *= std::max<std::int64_t>(shape[d], 1);
  }
  return strides;
}

std::string ShapeString(const Shape& shape) {
  std::string s = "{";
  for (std::size_t d = 0; d < shape.size(); ++d) s += (d ? "," : "") + std::to_string(shape[d]);
  return s + "}";
}

View Coalesced(const View& view) {
  View out = view;
  out.shape.clear();
  out.strides.clear();
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] == 1) continue;
    if (!out.shape.empty() && out.strides.back() == view.strides[d] * view.shape[d]) {
      out.shape.back() *= view.shape[d];
      out.strides.back() = view.strides[d];
    } else {
      out.shape.push_back(view.shape[d]);
      out.strides.push_back(view.strides[d]);
    }
  }
  if (view.num_elements() == 0) {
    out.shape = {0};
    out.strides = {1};
  } else if (out.shape.empty()) {
    out.shape = {1};
    out.strides = {1};
  }
  return out;
}

bool ReshapeView(const View& view, const Shape& shape, View* out) {
  View result = view;
  result.shape = shape;
  if (NumElements(shape) != view.num_elements()) return false;
  if (view.num_elements() == 0) {
    result.strides.assign(shape.size(), 0);
    *out = std::move(result);
    return true;
  }
  result.strides.assign(shape.size(), 1);
  // Every merged dimension of the source has one stride, so new dimensions must divide it evenly.
  const View merged = Coalesced(view);
  std::size_t source = merged.shape.size();
  std::int64_t left = 1, stride = 1;  // remaining extent of the source dimension, from its innermost element
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    if (left == 1) {
      --source;
      left = merged.shape[source];
      stride = merged.strides[source];
    }
    if (left % shape[d] != 0) return false;
    result.strides[d] = stride;
    left /= shape[d];
    stride *= shape[d];
  }
  *out = std::move(result);
  return true;
}

bool IsRowMajorContiguous(const View& view) {
  const View merged = Coalesced(view);
  return merged.shape.size() == 1 && (merged.strides[0] == 1 || merged.shape[0] <= 1);
}

bool IsWholeVariable(const View& view, std::int64_t variable_elements) {
  return view.offset == 0 && view.num_elements() == variable_elements && IsRowMajorContiguous(view);
}

void ElementRange(const View& view, std::int64_t* min, std::int64_t* max) {
  *min = *max = view.offset;
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    const std::int64_t span = (view.shape[d] - 1) * view.strides[d];
    (span < 0 ? *min : *max) += span;
  }
}

namespace {

// Sufficient, not necessary: each stride steps over all elements of the inner dimensions.
bool IsNested(const View& view) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, extent
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] > 1) dims.emplace_back(std::abs(view.strides[d]), view.shape[d]);
  }
  std::sort(dims.begin(), dims.end());
  std::int64_t reach = 0;
  for (const auto& [stride, extent] : dims) {
    if (stride <= reach) return false;
    reach += stride * (extent - 1);
  }
  return true;
}

template <typename F>
void ForEachElement(const View& view, F&& f) {
  if (view.num_elements() == 0) return;
  Shape index(view.shape.size(), 0);
  std::int64_t element = view.offset;
  while (true) {
    f(element);
    std::size_t d = view.shape.size();
    while (d-- > 0) {
      element += view.strides[d];
      if (++index[d] < view.shape[d]) break;
      element -= view.strides[d] * view.shape[d];
      index[d] = 0;
    }
    if (d == static_cast<std::size_t>(-1)) return;
  }
}

// The elements of a view as rows of one that follows another in memory, in any order.
struct MemoryRows {
  std::int64_t first, length = 1, count = 1;
  std::vector<std::pair<std::int64_t, std::int64_t>> outer;  // stride, extent

  explicit MemoryRows(const View& view) : first(view.offset) {
    for (std::size_t d = 0; d < view.shape.size(); ++d) {
      if (view.shape[d] == 1) continue;
      if (view.strides[d] < 0) first += (view.shape[d] - 1) * view.strides[d];
      outer.emplace_back(std::abs(view.strides[d]), view.shape[d]);
      count *= view.shape[d];
    }
    std::sort(outer.begin(), outer.end());
    std::size_t inner = 0;
    while (inner < outer.size() && outer[inner].first == length) length *= outer[inner++].second;
    outer.erase(outer.begin(), outer.begin() + static_cast<std::ptrdiff_t>(inner));
    count /= length;
  }

  void AppendTo(std::vector<std::pair<std::int64_t, std::int64_t>>* rows) const {
    std::vector<std::int64_t> index(outer.size(), 0);
    std::int64_t begin = first;
    for (std::int64_t row = 0; row < count; ++row) {
      rows->emplace_back(begin, begin + length);
      for (std::size_t d = 0; d < outer.size(); ++d) {
        begin += outer[d].first;
        if (++index[d] < outer[d].second) break;
        begin -= outer[d].first * outer[d].second;
        index[d] = 0;
      }
    }
  }
};

// Whether views of one variable, whose elements are in [min, max], have no element twice.
bool AreDisjointIn(const std::vector<const View*>& views, std::int64_t min, std::int64_t max) {
  std::vector<MemoryRows> all;
  std::int64_t count = 0;
  for (const View* v : views) {
    all.emplace_back(*v);
    count += all.back().count;
  }
  constexpr std::int64_t kSorted =
      16;  // about how much longer it takes to sort a row than to mark an element
  if (count < (max - min) / kSorted) {
    std::vector<std::pair<std::int64_t, std::int64_t>> rows;
    rows.reserve(static_cast<std::size_t>(count));
    for (const MemoryRows& r : all) r.AppendTo(&rows);
    std::sort(rows.begin(), rows.end());
    return std::adjacent_find(rows.begin(), rows.end(),
                              [](const auto& a, const auto& b) { return a.second > b.first; }) == rows.end();
  }
  std::vector<bool> seen(static_cast<std::size_t>(max - min + 1));
  bool repeated = false;
  for (const View* v : views) {
    ForEachElement(*v, [&](std::int64_t element) {
      auto bit = seen[static_cast<std::size_t>(element - min)];
      if (bit) repeated = true;
      bit = true;
    });
    if (repeated) return false;
  }
  return true;
}

}  // namespace

bool AreDisjoint(const std::vector<View>& views) {
  struct Range {
    VariableId variable;
    std::int64_t min, max;
    const View* view;
  };
  std::vector<Range> ranges;
  for (const View& v : views) {
    if (v.num_elements() == 0) continue;
    Range r{v.variable, 0, 0, &v};
    ElementRange(v, &r.min, &r.max);
    if (v.num_elements() > r.max - r.min + 1) return false;
    ranges.push_back(r);
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return a.variable != b.variable ? a.variable < b.variable : a.min < b.min;
  });
  // Clusters of overlapping ranges are compared row by row or element by element, unless the strides settle
  // the question.
  for (std::size_t i = 0; i < ranges.size();) {
    std::vector<const View*> cluster;
    std::size_t j = i;
    std::int64_t max = ranges[i].max;
    for (; j < ranges.size() && ranges[j].variable == ranges[i].variable && ranges[j].min <= max; ++j) {
      max = std::max(max, ranges[j].max);
      cluster.push_back(ranges[j].view);
    }
    if ((cluster.size() > 1 || !IsNested(*ranges[i].view)) && !AreDisjointIn(cluster, ranges[i].min, max))
      return false;
    i = j;
  }
  return true;
}

std::vector<Box> BoxesOfInterval(const Shape& shape, std::int64_t begin, std::int64_t end) {
  std::vector<Box> boxes;
  const std::size_t rank = shape.size();
  const Shape strides = RowMajorStrides(shape);
  while (begin < end) {
    // Find the outermost dimension d of which a row of strides[d] elements begins here and fits.
    std::size_t d = 0;
    while (d < rank && (begin % strides[d] != 0 || begin + strides[d] > end)) ++d;
    Box box{Shape(rank), Shape(rank)};
    std::int64_t rest = begin;
    for (std::size_t k = 0; k < rank; ++k) {
      box.begin[k] = rest / strides[k];
      rest %= strides[k];
      box.end[k] = k <= d ? box.begin[k] + 1 : shape[k];
    }
    std::int64_t rows = 1;
    if (d < rank) {
      rows = std::min((end - begin) / strides[d], shape[d] - box.begin[d]);
      box.end[d] = box.begin[d] + rows;
    }
    begin += d < rank ? rows * strides[d] : 1;
    boxes.push_back(std::move(box));
  }
  return boxes;
}

}  // namespace ipu_model
