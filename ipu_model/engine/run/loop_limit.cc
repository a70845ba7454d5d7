#include "engine/run/loop_limit.h"

#include <time.h>

#include <cstdio>
#include <string>

#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

// How often in the time of the limit the loops are looked at.
constexpr double kLooks = 8;

double ProcessorSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

void LoopLimit::Start() {
  if (seconds_ <= 0) return;
  seen_.assign(loops_.size(), {});
  next_look_ = {};
}

void LoopLimit::Look() {
  const double now = ProcessorSeconds();
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    Seen& seen = seen_[i];
    const std::uint64_t entries = *cycles_->entries(i), trips = *cycles_->trips(i);
    if (entries != seen.entries) {
      seen = {entries, trips, now};
    } else if (trips != seen.trips) {
      seen.trips = trips;
      if (now - seen.since <= seconds_) continue;
      const ProgramNode& loop = *loops_[i];
      char limit[32];
      std::snprintf(limit, sizeof(limit), "%g", seconds_);
      throw poplar::runtime_error(
          std::string(loop.kind == ProgramKind::kRepeatWhileTrue ? "RepeatWhileTrue" : "RepeatWhileFalse") +
          (loop.name.empty() ? "" : " '" + loop.name + "'") + " was ended after " + std::to_string(trips) +
          " trips: it took more than " + limit + " s of processor time (engine option vertexTimeLimit)");
    }
  }
  next_look_ =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                             std::chrono::duration<double>(seconds_ / kLooks));
}

}  // namespace ipu_model
