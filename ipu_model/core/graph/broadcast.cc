#include "poputil/Broadcast.hpp"

#include <algorithm>
#include <string>

#include "poplar/exceptions.hpp"

namespace poputil {
namespace {

using Shape = std::vector<std::size_t>;

std::string TextOf(const Shape& shape) {
  std::string text;
  for (const std::size_t n : shape) text += (text.empty() ? "" : ",") + std::to_string(n);
  return "{" + text + "}";
}

// The shape with leading dimensions of 1.
Shape Ranked(const Shape& shape, std::size_t rank) {
  Shape ranked(rank - std::min(rank, shape.size()), 1);
  ranked.insert(ranked.end(), shape.begin(), shape.end());
  return ranked;
}

// Returns whether there is a common shape.
bool Common(const Shape& a, const Shape& b, Shape* common) {
  const std::size_t rank = std::max(a.size(), b.size());
  const Shape x = Ranked(a, rank), y = Ranked(b, rank);
  common->clear();
  for (std::size_t d = 0; d < rank; ++d) {
    if (x[d] != y[d] && x[d] != 1 && y[d] != 1) return false;
    common->push_back(x[d] == 1 ? y[d] : x[d]);
  }
  return true;
}

Shape CommonOf(const Shape& a, const Shape& b) {
  Shape common;
  if (!Common(a, b, &common)) {
    throw poplar::poplar_error("broadcastToMatch: the shapes " + TextOf(a) + " and " + TextOf(b) +
                               " have a dimension with two sizes, of which neither is 1");
  }
  return common;
}

}  // namespace

void expandToMatchRanks(poplar::Tensor& a, poplar::Tensor& b) {
  const std::size_t rank = std::max(a.rank(), b.rank());
  a = a.reshape(Ranked(a.shape(), rank));
  b = b.reshape(Ranked(b.shape(), rank));
}

void broadcastToMatch(poplar::Tensor& a, const std::vector<std::size_t>& shape) {
  if (CommonOf(a.shape(), shape) != shape) {
    throw poplar::poplar_error("broadcastToMatch: the shape " + TextOf(a.shape()) + " is larger than " +
                               TextOf(shape));
  }
  a = a.reshape(Ranked(a.shape(), shape.size()));
  for (unsigned d = 0; d < shape.size(); ++d)
    if (a.dim(d) != shape[d]) a = a.broadcast(static_cast<unsigned>(shape[d]), d);
}

void broadcastToMatch(poplar::Tensor& a, poplar::Tensor& b) {
  const Shape shape = CommonOf(a.shape(), b.shape());
  broadcastToMatch(a, shape);
  broadcastToMatch(b, shape);
}

void broadcastToMatch(poplar::Tensor& a, poplar::Tensor& b, poplar::Tensor& c) {
  const Shape shape = CommonOf(CommonOf(a.shape(), b.shape()), c.shape());
  broadcastToMatch(a, shape);
  broadcastToMatch(b, shape);
  broadcastToMatch(c, shape);
}

bool canBroadcastToMatch(const poplar::Tensor& a, const poplar::Tensor& b) {
  Shape common;
  return Common(a.shape(), b.shape(), &common);
}

}  // namespace poputil
