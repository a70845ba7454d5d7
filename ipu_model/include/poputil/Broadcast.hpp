// Broadcasts by NumPy's rules: shapes are aligned at their last dimensions, dimensions of 1 are repeated.
// Source: PopLibs, include/poputil/Broadcast.hpp. All of them throw poplar_error where shapes do not match.
#ifndef POPUTIL_BROADCAST_HPP
#define POPUTIL_BROADCAST_HPP

#include <cstddef>
#include <vector>

#include "poplar/Tensor.hpp"

namespace poputil {

// Leading dimensions of 1, so that both have the same rank.
void expandToMatchRanks(poplar::Tensor& a, poplar::Tensor& b);

// Views with the shape, or with the common shape of all.
void broadcastToMatch(poplar::Tensor& a, const std::vector<std::size_t>& shape);
void broadcastToMatch(poplar::Tensor& a, poplar::Tensor& b);
void broadcastToMatch(poplar::Tensor& a, poplar::Tensor& b, poplar::Tensor& c);

bool canBroadcastToMatch(const poplar::Tensor& a, const poplar::Tensor& b);

}  // namespace poputil

#endif  // POPUTIL_BROADCAST_HPP
