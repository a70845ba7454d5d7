#include "parts.h"

#include <algorithm>
#include <numeric>
#include <sstream>

namespace hlo {
namespace {

using poplar::Graph;
using poplar::Interval;
using poplar::Tensor;

// The elements of a tensor in the order of memory.
std::vector<std::size_t> sortedElements(const Graph& graph, const Tensor& tensor) {
  const std::vector<Interval> all = {Interval(0, tensor.numElements())};
  std::vector<std::size_t> elements;
  for (const std::vector<Interval>& region : graph.getSortedContiguousRegions(tensor, all)) {
    for (const Interval& interval : region) {
      for (std::size_t i = interval.begin(); i < interval.end(); ++i) elements.push_back(i);
    }
  }
  return elements;
}

// The first element and its neighbours: one along each dimension of more than one element, in the order of
// `dimensions`. Their addresses show the strides.
Tensor corner(const Tensor& tensor, std::vector<unsigned>* dimensions) {
  std::vector<std::size_t> at(tensor.rank(), 0);
  std::vector<Tensor> elements = {tensor.index(at).reshape({1})};
  for (unsigned d = 0; d < tensor.rank(); ++d) {
    if (tensor.dim(d) == 1) continue;
    at[d] = 1;
    elements.push_back(tensor.index(at).reshape({1}));
    dimensions->push_back(d);
    at[d] = 0;
  }
  return concat(elements);
}

// The dimensions from the one with the largest step in memory to the one with the smallest; those of extent 1
// come last. `reversed`: those whose step is negative.
std::vector<unsigned> memoryOrder(const Graph& graph, Tensor tensor, std::vector<bool>* reversed) {
  std::vector<unsigned> dimensions;
  reversed->assign(tensor.rank(), false);
  std::vector<std::size_t> sorted = sortedElements(graph, corner(tensor, &dimensions));
  for (const std::size_t element : sorted) {
    if (element == 0) break;
    const unsigned d = dimensions[element - 1];
    (*reversed)[d] = true;
    tensor = tensor.reverse(d);
  }
  std::vector<unsigned> order;
  dimensions.clear();
  sorted = sortedElements(graph, corner(tensor, &dimensions));
  for (std::size_t i = sorted.size(); i-- > 1;) order.push_back(dimensions[sorted[i] - 1]);
  for (unsigned d = 0; d < tensor.rank(); ++d)
    if (tensor.dim(d) == 1) order.push_back(d);
  return order;
}

struct Box {
  std::vector<std::size_t> begin, end;
};

// Cuts the elements [begin, end) of a row-major shape into boxes. `inner`: elements of one step of each
// dimension.
class Boxes {
 public:
  explicit Boxes(const std::vector<std::size_t>& shape) : shape_(shape), inner_(shape.size(), 1) {
    for (std::size_t d = shape.size(); d-- > 1;) inner_[d - 1] = inner_[d] * shape[d];
  }
  void add(const Interval& interval) {
    current_ = {std::vector<std::size_t>(shape_.size()), std::vector<std::size_t>(shape_.size())};
    cut(0, interval.begin(), interval.end());
  }
  // Joins boxes that differ in one dimension only, where one begins at the end of the other.
  std::vector<Box> joined() {
    for (std::size_t d = shape_.size(); d-- > 0;) {
      std::sort(boxes_.begin(), boxes_.end(), [d](const Box& a, const Box& b) {
        for (std::size_t k = 0; k < a.begin.size(); ++k) {
          if (k == d) continue;
          if (a.begin[k] != b.begin[k]) return a.begin[k] < b.begin[k];
          if (a.end[k] != b.end[k]) return a.end[k] < b.end[k];
        }
        return a.begin[d] < b.begin[d];
      });
      std::vector<Box> result;
      for (Box& box : boxes_) {
        if (!result.empty() && follows(result.back(), box, d)) {
          result.back().end[d] = box.end[d];
        } else {
          result.push_back(std::move(box));
        }
      }
      boxes_ = std::move(result);
    }
    return std::move(boxes_);
  }

 private:
  void cut(std::size_t d, std::size_t begin, std::size_t end) {
    if (d == shape_.size()) {
      boxes_.push_back(current_);
      return;
    }
    const std::size_t inner = inner_[d], first = begin / inner, last = (end - 1) / inner;
    const std::size_t fullFirst = (begin + inner - 1) / inner, fullEnd = end / inner;
    const auto partial = [&](std::size_t i) {
      current_.begin[d] = i;
      current_.end[d] = i + 1;
      cut(d + 1, std::max(begin, i * inner) - i * inner, std::min(end, (i + 1) * inner) - i * inner);
    };
    if (fullFirst >= fullEnd) {
      for (std::size_t i = first; i <= last; ++i) partial(i);
      return;
    }
    for (std::size_t i = first; i < fullFirst; ++i) partial(i);
    current_.begin[d] = fullFirst;
    current_.end[d] = fullEnd;
    for (std::size_t k = d + 1; k < shape_.size(); ++k) {
      current_.begin[k] = 0;
      current_.end[k] = shape_[k];
    }
    boxes_.push_back(current_);
    for (std::size_t i = fullEnd; i <= last; ++i) partial(i);
  }
  static bool follows(const Box& a, const Box& b, std::size_t d) {
    for (std::size_t k = 0; k < a.begin.size(); ++k) {
      if (k == d ? a.end[k] != b.begin[k] : a.begin[k] != b.begin[k] || a.end[k] != b.end[k]) return false;
    }
    return true;
  }

  std::vector<std::size_t> shape_, inner_;
  Box current_;
  std::vector<Box> boxes_;
};

}  // namespace

std::size_t Part::elements() const {
  std::size_t n = 1;
  for (std::size_t d = 0; d < begin.size(); ++d) n *= end[d] - begin[d];
  return n;
}

Tensor Part::of(const Tensor& tensor) const {
  return begin.empty() ? tensor.flatten() : tensor.slice(begin, end).flatten();
}

std::vector<unsigned> memoryOrder(const Graph& graph, const Tensor& tensor) {
  std::vector<bool> reversed;
  return memoryOrder(graph, tensor, &reversed);
}

std::vector<Part> partsOf(const Graph& graph, const Tensor& tensor) {
  std::vector<bool> reversed;
  const std::vector<unsigned> order = memoryOrder(graph, tensor, &reversed);
  Tensor ordered = tensor;
  for (unsigned d = 0; d < tensor.rank(); ++d)
    if (reversed[d]) ordered = ordered.reverse(d);
  if (!order.empty()) ordered = ordered.dimShuffle(order);
  const Graph::TileToTensorMapping mapping = graph.getTileMapping(ordered);
  std::vector<Part> parts;
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    Boxes boxes(ordered.shape());
    for (const Interval& interval : mapping[tile]) boxes.add(interval);
    for (const Box& box : boxes.joined()) {
      Part part{tile, std::vector<std::size_t>(order.size()), std::vector<std::size_t>(order.size())};
      for (std::size_t k = 0; k < order.size(); ++k) {
        const std::size_t extent = tensor.dim(order[k]);
        part.begin[order[k]] = reversed[order[k]] ? extent - box.end[k] : box.begin[k];
        part.end[order[k]] = reversed[order[k]] ? extent - box.begin[k] : box.end[k];
      }
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

poplar::VertexRef addVertex(Graph& graph, const poplar::ComputeSet& computeSet,
                            const std::string& vertexClass, const Part& part, std::size_t cycles) {
  const poplar::VertexRef vertex = graph.addVertex(computeSet, vertexClass);
  graph.setTileMapping(vertex, part.tile);
  graph.setPerfEstimate(vertex, cycles);
  return vertex;
}

void addCodelets(Graph& graph, const std::string& vertexClass, const std::string& source) {
  if (graph.hasCodelet(vertexClass)) return;
  std::stringstream text(source);
  graph.addCodelets(text);
}

}  // namespace hlo
