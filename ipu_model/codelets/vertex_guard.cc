#include "codelets/vertex_guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>

namespace ipu_model {
namespace {

constexpr int kFatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr std::size_t kStackBytes = 64 * 1024;  // of the handlers, because a vertex may use up its own stack

struct Handlers {
  struct sigaction before[sizeof(kFatal) / sizeof(kFatal[0])];
  int tick = 0;  // the signal of the timers
};
Handlers& Installed() {
  static Handlers handlers;
  return handlers;
}

// What the handlers see of their thread.
struct ThreadState {
  sigjmp_buf leave;
  volatile sig_atomic_t inside = 0;
  volatile std::uint64_t started = 0;  // vertices that this thread has begun
  std::uint64_t seen = 0;              // `started` at the last tick
  void* volatile fault = nullptr;      // the address of the last fatal signal
};
thread_local ThreadState state;
// Null on threads that never ran a vertex. Reading it allocates nothing, which a handler must not do.
__attribute__((tls_model("initial-exec"))) thread_local ThreadState* current = nullptr;
thread_local double limit = 10;  // seconds; of engines without an option

constexpr int kTimeLimit = 1000;  // the other reasons are numbers of signals

void OnTick(int) {
  ThreadState* const own = current;
  if (own == nullptr || own->inside == 0) return;
  if (own->seen == own->started) siglongjmp(own->leave, kTimeLimit);
  own->seen = own->started;
}

void OnFatal(int signal, siginfo_t* info, void* context) {
  if (current != nullptr && current->inside != 0) {
    current->fault = info->si_addr;
    siglongjmp(current->leave, signal);
  }
  // Not a vertex: whatever was there before handles it.
  std::size_t i = 0;
  while (kFatal[i] != signal) ++i;
  const struct sigaction& before = Installed().before[i];
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
    ::signal(signal, SIG_DFL);  // the instruction runs again, or abort() raises it again
  } else {
    before.sa_handler(signal);
  }
}

void InstallHandlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    Handlers& handlers = Installed();
    for (int candidate = SIGRTMIN + 3; candidate <= SIGRTMAX && handlers.tick == 0; ++candidate) {
      struct sigaction now;
      sigaction(candidate, nullptr, &now);
      if ((now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL) handlers.tick = candidate;
    }
    struct sigaction tick = {};
    tick.sa_handler = OnTick;
    tick.sa_flags = SA_RESTART | SA_ONSTACK | SA_NODEFER;
    if (handlers.tick != 0) sigaction(handlers.tick, &tick, nullptr);
    struct sigaction fatal = {};
    fatal.sa_sigaction = OnFatal;
    fatal.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (std::size_t i = 0; i < sizeof(kFatal) / sizeof(kFatal[0]); ++i)
      sigaction(kFatal[i], &fatal, &handlers.before[i]);
  });
}

// The timer and the handlers' stack of one thread, until it ends.
class ThreadGuard {
 public:
  ThreadGuard() {
    InstallHandlers();
    // Of threads that leave signals to others: a blocked signal of a fault ends the process, that of the
    // timer waits.
    sigset_t own_signals;
    sigemptyset(&own_signals);
    for (const int signal : kFatal) sigaddset(&own_signals, signal);
    if (Installed().tick != 0) sigaddset(&own_signals, Installed().tick);
    pthread_sigmask(SIG_UNBLOCK, &own_signals, nullptr);
    stack_t now;
    if (sigaltstack(nullptr, &now) == 0 && (now.ss_flags & SS_DISABLE) != 0) {
      memory_ = std::make_unique<unsigned char[]>(kStackBytes);
      stack_t own = {};
      own.ss_sp = memory_.get();
      own.ss_size = kStackBytes;
      sigaltstack(&own, nullptr);
    }
  }
  ~ThreadGuard() {
    if (has_timer_) timer_delete(timer_);
    if (memory_ == nullptr) return;
    stack_t none = {};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }
  ThreadGuard(const ThreadGuard&) = delete;
  ThreadGuard& operator=(const ThreadGuard&) = delete;

  // The timer counts the processor time of this thread, so it rests while the thread waits.
  void SetLimit(double seconds) {
    if (const pid_t process = getpid(); process != process_) {  // a fork has no timers
      has_timer_ = false;
      seconds_ = 0;
      process_ = process;
    }
    if (seconds == seconds_ || Installed().tick == 0) return;
    if (!has_timer_) {
      sigevent event = {};
      event.sigev_notify = SIGEV_THREAD_ID;
      event.sigev_signo = Installed().tick;
      event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
      if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) != 0) return;
      has_timer_ = true;
    }
    itimerspec period = {};
    period.it_interval.tv_sec = static_cast<time_t>(std::floor(seconds));
    period.it_interval.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
    if (period.it_interval.tv_sec == 0 && period.it_interval.tv_nsec < 1000000)
      period.it_interval.tv_nsec = 1000000;
    period.it_value = period.it_interval;
    timer_settime(timer_, 0, &period, nullptr);
    seconds_ = seconds;
  }

 private:
  std::unique_ptr<unsigned char[]> memory_;
  timer_t timer_ = {};
  bool has_timer_ = false;
  pid_t process_ = getpid();
  double seconds_ = 0;
};

std::string Reason(int why, double seconds) {
  char text[120];
  switch (why) {
    case kTimeLimit:
      std::snprintf(text, sizeof(text),
                    "it took more than %g s of processor time (engine option vertexTimeLimit)", seconds);
      return text;
    case SIGFPE:
      return "it divided an integer by zero";
    case SIGILL:
      return "it ran an invalid instruction";
    case SIGABRT:
      return "it called abort(), or an exception left a function that is noexcept";
    default:
      return "it accessed memory that it does not have, or used up its stack";
  }
}

}  // namespace

VertexTimeLimit::VertexTimeLimit(double seconds) : before_(limit) { limit = seconds; }
VertexTimeLimit::~VertexTimeLimit() { limit = before_; }
double VertexTimeLimit::Current() { return limit; }

std::string RunGuarded(const GuardedVertex* vertices, std::size_t begin, std::size_t end, double seconds,
                       std::size_t* failed, const void** fault) {
  thread_local ThreadGuard guard;
  current = &state;
  guard.SetLimit(seconds);
  volatile std::size_t i = begin;
  std::string what;
  if (const int why = sigsetjmp(state.leave, 0); why != 0) {
    state.inside = 0;
    *failed = i;
    if (fault != nullptr && (why == SIGSEGV || why == SIGBUS)) *fault = state.fault;
    return Reason(why, seconds);
  }
  try {
    for (; i < end; i = i + 1) {
      state.started = state.started + 1;
      state.inside = 1;
      vertices[i].compute(vertices[i].vertex);
      state.inside = 0;
    }
    return what;
  } catch (const std::exception& error) {
    what = std::string("it threw an exception: ") + error.what();
  } catch (...) {
    what = "it threw an exception";
  }
  state.inside = 0;
  *failed = i;
  return what;
}

}  // namespace ipu_model
