// How many replicas run a graph.
#ifndef POPLAR_REPLICATION_FACTOR_HPP
#define POPLAR_REPLICATION_FACTOR_HPP

namespace poplar {

struct replication_factor {
  explicit constexpr replication_factor(unsigned n) : value(n) {}
  unsigned value;
};

}  // namespace poplar

#endif  // POPLAR_REPLICATION_FACTOR_HPP
