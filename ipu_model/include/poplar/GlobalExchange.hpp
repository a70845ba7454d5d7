// Limits of the transfers between IPUs, as data.
#ifndef POPLAR_GLOBALEXCHANGE_HPP
#define POPLAR_GLOBALEXCHANGE_HPP

#include <utility>
#include <vector>

namespace poplar {

// The data that one IPU sends to another.
struct GlobalExchangeFlow {
  GlobalExchangeFlow(unsigned from, unsigned to) : src(from), dst(to) {}
  unsigned src, dst;
};

// Flows that share a link of so many bits per second.
struct GlobalExchangeConstraint {
  GlobalExchangeConstraint(double bitsPerSecond, std::vector<GlobalExchangeFlow> f)
      : bandwidth(bitsPerSecond), flows(std::move(f)) {}
  double bandwidth;
  std::vector<GlobalExchangeFlow> flows;
};

}  // namespace poplar

#endif  // POPLAR_GLOBALEXCHANGE_HPP
