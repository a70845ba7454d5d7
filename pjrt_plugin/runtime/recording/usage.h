// What a process does with its IPUs, in a small file that `jax-ipu monitor` reads while the process runs.
// jax_ipu/command_line/usage.py reads the same layout.
#ifndef JAX_IPU_RUNTIME_RECORDING_USAGE_H_
#define JAX_IPU_RUNTIME_RECORDING_USAGE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/executable/executable.h"

namespace jax_ipu {

// Counting is one addition to memory that is mapped from a file, or not: it costs the same either way.
using UsageCounter = std::atomic<std::uint64_t>;
static_assert(UsageCounter::is_always_lock_free && sizeof(UsageCounter) == 8);

inline void Add(UsageCounter& counter, std::uint64_t amount) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

// One IPU. The counters are those of `Counters` (runtime/executable/executable.h).
struct DeviceUsage {
  UsageCounter h2d_bytes{0}, d2h_bytes{0}, engine_loads{0}, runs{0}, cycles{0}, link_bytes{0};
  UsageCounter bytes_in_use{0}, peak_bytes_in_use{0};
  std::uint64_t memory_bytes = 0;  // SRAM of all tiles
  double clock_hz = 0;
  std::int32_t device_id = 0;
  std::uint32_t num_tiles = 0;
  std::array<char, 16> version{};
  // The name of the loaded program: UTF-8, cut where it is too long. Odd: it is being written.
  UsageCounter name_changes{0};
  std::array<UsageCounter, 12> name{};

  // Called by one thread at a time.
  void SetProgram(std::string_view program);
};
static_assert(sizeof(DeviceUsage) == 208);

// The start of a file; the devices follow. Fields that are no counters never change once `magic` is written.
struct ProcessUsage {
  static constexpr std::uint64_t kMagic = 0x3145474153555049;  // "IPUSAGE1"
  UsageCounter magic{0};
  std::uint32_t header_bytes = sizeof(ProcessUsage), device_bytes = sizeof(DeviceUsage);
  std::uint32_t num_devices = 0, synthetic_data = 0;
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;    // of the process, since the machine started: tells reused pids apart
  std::uint64_t pid_namespace = 0;  // in which `pid` has its meaning
  UsageCounter compilations{0}, compile_nanoseconds{0}, compiling{0};
  UsageCounter programs{0};  // that are ready to run now
};
static_assert(sizeof(ProcessUsage) == 80);

// The usage of one client. Thread safe.
class Usage {
 public:
  // In a file in the folder that `config` names, by default in UsageFolder(); where there can be none, or
  // monitoring is off, in memory that nobody else sees.
  static std::shared_ptr<Usage> Create(const DeviceConfig& config);
  ~Usage();
  Usage(const Usage&) = delete;
  Usage& operator=(const Usage&) = delete;

  ProcessUsage& process() { return *process_; }
  // The device at this place in the list of the configuration. Keeps the usage of the client alive.
  static std::shared_ptr<DeviceUsage> Device(const std::shared_ptr<Usage>& usage, std::size_t place);
  const std::string& path() const { return path_; }  // empty: there is no file

 private:
  Usage() = default;
  // Returns null where the file cannot be made.
  void* MapFile(const std::string& folder, std::size_t bytes, bool stays);

  std::string path_;
  bool stays_ = false;  // when the client and the process end
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  ProcessUsage* process_ = nullptr;
  DeviceUsage* devices_ = nullptr;
};

// $XDG_RUNTIME_DIR/jax_ipu, /dev/shm/jax_ipu-<user id> or /tmp/jax_ipu-<user id>, the first that this user
// alone can write to; made if it does not exist. Empty if there is none.
std::string UsageFolder();

// Counts one compilation, also if it fails.
class CountedCompilation {
 public:
  explicit CountedCompilation(ProcessUsage& usage);
  ~CountedCompilation();
  CountedCompilation(const CountedCompilation&) = delete;
  CountedCompilation& operator=(const CountedCompilation&) = delete;
  std::uint64_t nanoseconds() const;  // so far

 private:
  ProcessUsage& usage_;
  const std::uint64_t begin_;
};

// Counts a program that is ready to run, as long as this exists.
class CountedProgram {
 public:
  explicit CountedProgram(std::shared_ptr<Usage> usage) : usage_(std::move(usage)) {
    Add(usage_->process().programs, 1);
  }
  ~CountedProgram() { usage_->process().programs.fetch_sub(1, std::memory_order_relaxed); }
  CountedProgram(const CountedProgram&) = delete;
  CountedProgram& operator=(const CountedProgram&) = delete;

 private:
  const std::shared_ptr<Usage> usage_;
};

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_RECORDING_USAGE_H_
