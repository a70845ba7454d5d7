// Ctrl-C: how the runtime learns of signals that an interpreter handles, and which runs they end.
#ifndef JAX_IPU_RUNTIME_DEVICE_INTERRUPT_H_
#define JAX_IPU_RUNTIME_DEVICE_INTERRUPT_H_

#include <functional>

namespace jax_ipu {

// Set by the owner of the interpreter: runs the signal handlers that are pending on the calling thread, and
// returns whether one of them raised an exception; the interpreter raises it again once the plugin has
// returned. Called without the interpreter's lock.
void SetInterruptCheck(std::function<bool()> check);
// False in a process without an interpreter, and on threads that handle no signals.
bool IsInterrupted();

// Cancels the runs that the calling thread has queued on any device of the process. Runs of other threads go
// on.
void CancelRuns();

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_DEVICE_INTERRUPT_H_
