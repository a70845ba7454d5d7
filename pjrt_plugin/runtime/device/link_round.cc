#include "runtime/device/link_round.h"

#include <cstring>

namespace jax_ipu {
namespace {

// No collective has it.
constexpr std::uint32_t kChannel = 0xffff'ffffu;

}  // namespace

bool LinkRound::AgreeOn(unsigned replica, std::uint64_t proposal) {
  bool all = proposal != 0;
  try {
    group_.Gather(kChannel, replica, &proposal, sizeof(proposal),
                  [&](const std::vector<const void*>& others) {
                    for (const void* other : others)
                      all = all && std::memcmp(other, &proposal, sizeof(proposal)) == 0;
                  });
  } catch (const ipu_model::ReplicaMissing&) {
    return false;  // a replica failed before; those that communicate with it fail when they wait for it
  }
  return all;
}

LinkedProgram LinkRound::Link(const Linker& linker, const std::vector<LinkPart>& parts) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (error_) throw Error(*error_);
  if (!linked_) {
    try {
      linked_ = linker(parts);
    } catch (const Error& error) {
      error_ = error;
      throw;
    }
  }
  return *linked_;
}

}  // namespace jax_ipu
