#include "runtime/process/fork.h"

#include <pthread.h>

#include <atomic>

#include "runtime/executable/executable.h"

namespace jax_ipu {
namespace {

std::atomic<bool> is_forked_child{false};

}  // namespace

void MarkForksFromNow() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { is_forked_child.store(true, std::memory_order_relaxed); });
}

bool IsForkedChild() { return is_forked_child.load(std::memory_order_relaxed); }

void RefuseInForkedChild() {
  if (!IsForkedChild()) return;
  throw Error(
      Code::kFailedPrecondition,
      "This process was forked from one that already used the IPU, and a fork has none of the threads that "
      "run the device. Start worker processes with the start method 'spawn' or 'forkserver', e.g. "
      "multiprocessing.get_context('spawn') or DataLoader(..., multiprocessing_context='spawn'), or use the "
      "IPU in the parent process only");
}

}  // namespace jax_ipu
