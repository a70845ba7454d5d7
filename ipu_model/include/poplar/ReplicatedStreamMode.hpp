// What the replicas of a graph read from one stream. Source: Graphcore's Poplar and PopLibs API reference.
#ifndef POPLAR_REPLICATEDSTREAMMODE_HPP
#define POPLAR_REPLICATEDSTREAMMODE_HPP

namespace poplar {

enum class ReplicatedStreamMode {
  REPLICATE,  // each replica has a stream of its own
  BROADCAST   // there is one: each of its transfers goes to all replicas
};

}  // namespace poplar

#endif  // POPLAR_REPLICATEDSTREAMMODE_HPP
