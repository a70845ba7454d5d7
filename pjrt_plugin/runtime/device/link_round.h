// How the replicas of one launch decide whether their program shares an engine with others.
#ifndef JAX_IPU_RUNTIME_DEVICE_LINK_ROUND_H_
#define JAX_IPU_RUNTIME_DEVICE_LINK_ROUND_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "ipu_model/Model.hpp"
#include "runtime/executable/image.h"

namespace jax_ipu {

// Replicas that communicate need one image: its collectives are others than those of the program by itself.
// So all of them change to a linked program in the same launch, or none. Thread safe.
class LinkRound {
 public:
  explicit LinkRound(ipu_model::ReplicaGroup& group) : group_(group) {}

  // Each replica calls it once. Returns whether all propose the same; 0 proposes to stay as they are.
  bool AgreeOn(unsigned replica, std::uint64_t proposal);
  // Compiles the parts, which are the same for all replicas, at the first call; the others get the same
  // program, or the same error.
  LinkedProgram Link(const Linker& linker, const std::vector<LinkPart>& parts);

 private:
  ipu_model::ReplicaGroup& group_;
  std::mutex mutex_;
  std::optional<LinkedProgram> linked_;
  std::optional<Error> error_;
};

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_DEVICE_LINK_ROUND_H_
