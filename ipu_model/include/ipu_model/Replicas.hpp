// The targets of replicated graphs: Poplar's Graph is made with the target of all replicas, and has that of
// one.
#ifndef IPU_MODEL_REPLICAS_HPP
#define IPU_MODEL_REPLICAS_HPP

#include "poplar/Target.hpp"

namespace ipu_model {

// The target of a graph with so many replicas, each of which has the target `replica`. Throws
// poplar::poplar_error if there is no system with so many IPUs.
poplar::Target TargetOfReplicas(const poplar::Target& replica, unsigned replicas);

// The target of each of the replicas that divide a target. Throws poplar::poplar_error if they cannot.
poplar::Target TargetOfReplica(const poplar::Target& target, unsigned replicas);

}  // namespace ipu_model

#endif  // IPU_MODEL_REPLICAS_HPP
