#include "runtime/recording/trace.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

namespace jax_ipu {
namespace {

constexpr std::size_t kMostWorks = std::size_t{1} << 20;

struct ActiveTraces {
  std::mutex mutex;
  std::vector<Trace*> traces;

  // Never destroyed: threads of devices may outlive static objects.
  static ActiveTraces& Get() {
    static auto& all = *std::make_unique<ActiveTraces>().release();
    return all;
  }
};

}  // namespace

std::atomic<int> Trace::num_active_{0};

Trace::Trace() : begin_ns_(Now()) {
  ActiveTraces& all = ActiveTraces::Get();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.traces.push_back(this);
  num_active_.fetch_add(1, std::memory_order_relaxed);
}

void Trace::Stop() {
  ActiveTraces& all = ActiveTraces::Get();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (std::exchange(stopped_, true)) return;
  num_active_.fetch_sub(1, std::memory_order_relaxed);
  all.traces.erase(std::find(all.traces.begin(), all.traces.end(), this));
}

std::vector<std::shared_ptr<const TracedWork>> Trace::works() const {
  const std::lock_guard<std::mutex> lock(ActiveTraces::Get().mutex);
  return works_;
}

std::uint64_t Trace::num_dropped() const {
  const std::lock_guard<std::mutex> lock(ActiveTraces::Get().mutex);
  return num_dropped_;
}

std::int64_t Trace::Now() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(system_clock::now().time_since_epoch()).count();
}

std::uint64_t Trace::NextRunId() {
  static std::atomic<std::uint64_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed) + 1;
}

void Trace::Add(std::shared_ptr<const TracedWork> work) {
  ActiveTraces& all = ActiveTraces::Get();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (Trace* const trace : all.traces) {
    if (work->begin_ns < trace->begin_ns_) continue;
    if (trace->works_.size() < kMostWorks) {
      trace->works_.push_back(work);
    } else {
      ++trace->num_dropped_;
    }
  }
}

}  // namespace jax_ipu
