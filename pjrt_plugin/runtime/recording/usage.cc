#include "runtime/recording/usage.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <new>
#include <set>
#include <sstream>
#include <vector>

#include "poplar/Target.hpp"
#include "runtime/process/fork.h"

namespace jax_ipu {
namespace {

// More are not published: a process with so many is a test of the configuration.
constexpr std::size_t kMostDevices = 4096;

// In clock ticks since the machine started; 0 where it is not known.
std::uint64_t StartTicks() {
  std::ifstream file("/proc/self/stat");
  const std::string stat(std::istreambuf_iterator<char>(file), {});
  // Fields are counted after the name, which is in parentheses and may hold anything: it is field 2, the
  // start field 22.
  const std::size_t end = stat.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream fields(stat.substr(end + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return fields ? std::strtoull(field.c_str(), nullptr, 10) : 0;
}

std::uint64_t PidNamespace() {
  struct stat info{};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

std::uint64_t Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// Empty: it is not this user's alone, or cannot be made.
std::string OwnFolder(const std::string& path) {
  mkdir(path.c_str(), 0700);
  struct stat info{};
  const bool own = lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
                   (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  return own ? path : "";
}

// The files that the end of this process removes. Clients may live until then, or longer.
class FilesToRemove {
 public:
  static FilesToRemove& Get() {
    static FilesToRemove& files = *std::make_unique<FilesToRemove>().release();
    return files;
  }
  void Add(const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    paths_.emplace(getpid(), path);
    if (!registered_) registered_ = std::atexit([] { Get().RemoveAll(); }) == 0;
  }
  void Remove(const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (paths_.erase({getpid(), path}) > 0) unlink(path.c_str());
  }

 private:
  void RemoveAll() {
    // The files are the parent's in a forked child, whose copy of the lock another thread may hold for ever.
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock) return;
    for (const auto& [pid, path] : paths_) {
      if (pid == getpid()) unlink(path.c_str());
    }
    paths_.clear();
  }
  std::mutex mutex_;
  std::set<std::pair<pid_t, std::string>> paths_;
  bool registered_ = false;
};

}  // namespace

void DeviceUsage::SetProgram(std::string_view program) {
  std::array<char, sizeof(name)> text{};
  std::size_t size = std::min(program.size(), text.size() - 1);
  // Not in the middle of a character.
  while (size > 0 && size < program.size() && (program[size] & 0xc0) == 0x80) --size;
  std::copy_n(program.begin(), size, text.begin());
  const std::uint64_t changes = name_changes.load(std::memory_order_relaxed);
  name_changes.store(changes + 1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < name.size(); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, &text[8 * i], 8);
    name[i].store(word, std::memory_order_release);
  }
  name_changes.store(changes + 2, std::memory_order_release);
}

std::string UsageFolder() {
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime == '/') {
    if (std::string folder = OwnFolder(std::string(runtime) + "/jax_ipu"); !folder.empty()) return folder;
  }
  // Memory first: the counters of a file on a disk would wait for its journal now and then.
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    std::string own = OwnFolder(std::string(folder) + "/jax_ipu-" + std::to_string(geteuid()));
    if (!own.empty()) return own;
  }
  return "";
}

void* Usage::MapFile(const std::string& folder, std::size_t bytes, bool stays) {
  static std::atomic<unsigned> next{0};
  if (folder.empty()) return nullptr;
  const std::string path = folder + "/" + std::to_string(getpid()) + "-" + std::to_string(StartTicks()) +
                           "-" + std::to_string(next.fetch_add(1)) + ".usage";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return nullptr;
  path_ = path;
  stays_ = stays;
  if (!stays) FilesToRemove::Get().Add(path);
  // Reserved now: writing to a hole of a full disk would end the process.
  void* memory = MAP_FAILED;
  if (posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  if (memory != MAP_FAILED) return memory;
  unlink(path.c_str());
  path_.clear();
  return nullptr;
}

std::shared_ptr<Usage> Usage::Create(const DeviceConfig& config) {
  const std::size_t devices = config.device_ids.size();
  auto usage = std::shared_ptr<Usage>(new Usage());  // NOLINT: the constructor is private
  usage->bytes_ = sizeof(ProcessUsage) + devices * sizeof(DeviceUsage);
  if (config.monitored && devices <= kMostDevices) {
    const bool stays = !config.usage_folder.empty();
    usage->memory_ = usage->MapFile(stays ? config.usage_folder : UsageFolder(), usage->bytes_, stays);
  }
  if (usage->memory_ == nullptr) {
    void* memory = mmap(nullptr, usage->bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw Error(Code::kResourceExhausted, "Out of host memory for the IPUs' counters");
    usage->memory_ = memory;
  }
  auto* bytes = static_cast<unsigned char*>(usage->memory_);
  usage->process_ = new (bytes) ProcessUsage();
  const poplar::Target target = poplar::Target::createIPUTarget(1, config.version);
  for (std::size_t i = 0; i < devices; ++i) {
    auto* device = new (bytes + sizeof(ProcessUsage) + i * sizeof(DeviceUsage)) DeviceUsage();
    if (i == 0) usage->devices_ = device;
    device->device_id = config.device_ids[i];
    device->num_tiles = config.num_tiles == 0 ? target.getNumTiles() : config.num_tiles;
    device->memory_bytes = device->num_tiles * static_cast<std::uint64_t>(target.getBytesPerTile());
    device->clock_hz = target.getTileClockFrequency();
    std::copy_n(config.version.begin(), std::min(config.version.size(), device->version.size() - 1),
                device->version.begin());
  }
  ProcessUsage& process = *usage->process_;
  process.num_devices = static_cast<std::uint32_t>(devices);
  process.synthetic_data = config.synthetic_data ? 1 : 0;
  process.pid = getpid();
  process.start_ticks = StartTicks();
  process.pid_namespace = PidNamespace();
  process.magic.store(ProcessUsage::kMagic, std::memory_order_release);
  return usage;
}

Usage::~Usage() {
  if (!path_.empty() && !stays_ && !IsForkedChild()) FilesToRemove::Get().Remove(path_);
  munmap(memory_, bytes_);
}

std::shared_ptr<DeviceUsage> Usage::Device(const std::shared_ptr<Usage>& usage, std::size_t place) {
  return {usage, usage->devices_ + place};
}

CountedCompilation::CountedCompilation(ProcessUsage& usage) : usage_(usage), begin_(Now()) {
  Add(usage_.compiling, 1);
}

CountedCompilation::~CountedCompilation() {
  Add(usage_.compilations, 1);
  Add(usage_.compile_nanoseconds, nanoseconds());
  usage_.compiling.fetch_sub(1, std::memory_order_relaxed);
}

std::uint64_t CountedCompilation::nanoseconds() const { return Now() - begin_; }

}  // namespace jax_ipu
