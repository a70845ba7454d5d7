// Children of fork: they have the memory of the parent but none of its threads, so they cannot use its IPUs.
#ifndef JAX_IPU_RUNTIME_PROCESS_FORK_H_
#define JAX_IPU_RUNTIME_PROCESS_FORK_H_

namespace jax_ipu {

// From now on, children that this process forks cannot use the IPU. Called when a client is created.
void MarkForksFromNow();

// Whether this process is a fork of one that had created a client.
bool IsForkedChild();

// Throws Error(kFailedPrecondition), which says what to do instead, in a forked child.
void RefuseInForkedChild();

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_PROCESS_FORK_H_
