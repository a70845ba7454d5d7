#include "profiling/trace_planes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "ipu_model/Log.hpp"
#include "profiling/plane_builder.h"

namespace jax_ipu {
namespace {

// The works of each device in their order, of which those of one launch that communicate are simultaneous.
class Schedule {
 public:
  Schedule(const Trace& trace, const PlaneOptions& options)
      : begin_ns_(trace.begin_ns()), options_(options), steps_left_(options.most_steps) {
    for (const std::shared_ptr<const TracedWork>& work : trace.works()) {
      const auto entry = devices_.find(work->device_id);
      Device& device =
          entry != devices_.end()
              ? entry->second
              : devices_.emplace(work->device_id, Device{PlaneBuilder(*work, options_), {}}).first->second;
      device.open.push_back(work.get());
      works_.push_back(work);
      ++members_[work->run_id];
      if (work->executable) numbers_[work->run_id] = 0;
    }
    std::int64_t number = 0;
    for (auto& [run, its_number] : numbers_) its_number = ++number;
    // Works of one device are added in the order in which they ended; copies between IPUs may overtake.
    for (auto& [id, device] : devices_) {
      std::stable_sort(device.open.begin(), device.open.end(),
                       [](const TracedWork* a, const TracedWork* b) { return a->begin_ns < b->begin_ns; });
    }
  }

  std::vector<TracePlane> Run() && {
    while (AddNext()) {
    }
    std::vector<TracePlane> planes;
    for (auto& [id, device] : devices_) planes.push_back(std::move(device.plane).Take());
    return planes;
  }

 private:
  struct Device {
    PlaneBuilder plane;
    std::deque<const TracedWork*> open;
  };

  // Adds the earliest work whose partners, too, are the next of their devices; returns false at the end.
  bool AddNext() {
    Device *first = nullptr, *ready = nullptr;
    for (auto& [id, device] : devices_) {
      if (device.open.empty()) continue;
      if (first == nullptr || device.open.front()->begin_ns < first->open.front()->begin_ns) first = &device;
      if (!IsReady(*device.open.front())) continue;
      if (ready == nullptr || device.open.front()->begin_ns < ready->open.front()->begin_ns) ready = &device;
    }
    if (first == nullptr) return false;
    // A launch of which the trace has only a part may have another order on each device.
    const TracedWork& next = *(ready != nullptr ? ready : first)->open.front();
    std::vector<Device*> devices;
    for (auto& [id, device] : devices_) {
      if (!device.open.empty() && IsPartner(next, *device.open.front())) devices.push_back(&device);
    }
    std::uint64_t begin = 0;
    for (const Device* device : devices) {
      const auto since = static_cast<std::uint64_t>(device->open.front()->begin_ns - begin_ns_);
      begin = std::max({begin, device->plane.free_at(), since * 1000});
    }
    for (Device* device : devices) {
      const TracedWork& work = *device->open.front();
      device->plane.Add(work, work.executable ? numbers_.at(work.run_id) : 0, begin, &steps_left_);
      device->open.pop_front();
    }
    return true;
  }

  static bool IsPartner(const TracedWork& a, const TracedWork& b) {
    return &a == &b || (a.meets_others && a.run_id == b.run_id);
  }
  bool IsReady(const TracedWork& work) const {
    if (!work.meets_others) return true;
    std::size_t next = 0;
    for (const auto& [id, device] : devices_) {
      next += !device.open.empty() && IsPartner(work, *device.open.front()) ? 1 : 0;
    }
    return next == members_.at(work.run_id);
  }

  const std::int64_t begin_ns_;
  const PlaneOptions options_;
  std::uint64_t steps_left_;
  std::vector<std::shared_ptr<const TracedWork>> works_;
  std::map<int, Device> devices_;
  std::map<std::uint64_t, std::size_t> members_;   // works with this run_id
  std::map<std::uint64_t, std::int64_t> numbers_;  // of runs, from 1 on, by run_id
};

}  // namespace

std::vector<TracePlane> MakePlanes(const Trace& trace, const PlaneOptions& options) {
  std::vector<TracePlane> planes = Schedule(trace, options).Run();
  if (const std::uint64_t dropped = trace.num_dropped(); dropped > 0) {
    const TraceStats lost = {{"dropped_runs", dropped}};
    for (TracePlane& plane : planes) plane.stats.insert(plane.stats.end(), lost.begin(), lost.end());
  }
  for (const std::string& warning : WarningsOf(planes))
    ipu_model::Log(ipu_model::LogModule::kEngine, ipu_model::LogLevel::kWarn, warning);
  return planes;
}

std::vector<std::string> WarningsOf(const std::vector<TracePlane>& planes) {
  constexpr std::array<std::pair<std::string_view, const char*>, 3> messages = {
      {{"runs_without_operations", " runs are single events, without their operations"},
       {"runs_with_folded_loops", " runs have loops folded that are shown step by step elsewhere"},
       {"dropped_runs", " runs are missing"}}};
  std::vector<std::string> warnings;
  for (const TracePlane& plane : planes) {
    for (const TraceStat& stat : plane.stats) {
      for (const auto& [name, message] : messages) {
        if (name != stat.name) continue;
        warnings.push_back(plane.name + ": " + std::to_string(std::get<std::uint64_t>(stat.value)) + message +
                           ", because the trace is full. Trace fewer calls of the program");
      }
    }
  }
  return warnings;
}

}  // namespace jax_ipu
