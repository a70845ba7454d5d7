// The files that jax-ipu monitor reads: what they hold, who can write them, and when they go.
#include "runtime/recording/usage.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "check.h"
#include "runtime/process/fork.h"

namespace jax_ipu {
namespace {

namespace fs = std::filesystem;

// A folder of its own as XDG_RUNTIME_DIR.
class RuntimeFolder {
 public:
  RuntimeFolder() {
    char name[] = "/tmp/usage_test_XXXXXX";
    path_ = mkdtemp(name);
    setenv("XDG_RUNTIME_DIR", path_.c_str(), 1);
  }
  ~RuntimeFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

DeviceConfig Config() {
  DeviceConfig config;
  config.version = "bow";
  config.num_tiles = 4;
  config.device_ids = {3, 5};
  return config;
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

template <typename T>
T At(const std::string& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

std::string NameOf(const DeviceUsage& device) {
  std::string text;
  for (const UsageCounter& word : device.name) {
    const std::uint64_t value = word.load();
    text.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return text.substr(0, text.find('\0'));
}

TEST(OthersSeeTheCounters) {
  const RuntimeFolder folder;
  const std::shared_ptr<Usage> usage = Usage::Create(Config());
  CHECK_EQ(fs::path(usage->path()).parent_path().string(), folder.path() + "/jax_ipu");
  struct stat info{};
  CHECK_EQ(stat(usage->path().c_str(), &info), 0);
  CHECK_EQ(info.st_mode & 0777u, 0600u);

  const std::shared_ptr<DeviceUsage> second = Usage::Device(usage, 1);
  Add(second->runs, 7);
  second->SetProgram("jit_step");
  Add(usage->process().programs, 2);
  const std::string bytes = Contents(usage->path());
  CHECK_EQ(bytes.size(), sizeof(ProcessUsage) + 2 * sizeof(DeviceUsage));
  CHECK_EQ(bytes.substr(0, 8), "IPUSAGE1");
  CHECK_EQ(At<std::uint32_t>(bytes, 16), 2u);  // devices
  CHECK_EQ(At<std::int64_t>(bytes, 24), getpid());
  CHECK_EQ(At<std::uint64_t>(bytes, 72), 2u);  // programs
  const std::size_t start = sizeof(ProcessUsage) + sizeof(DeviceUsage);
  CHECK_EQ(At<std::uint64_t>(bytes, start + 24), 7u);                 // runs
  CHECK_EQ(At<std::uint64_t>(bytes, start + 64), 4u * 624u * 1024u);  // memory
  CHECK_EQ(At<std::int32_t>(bytes, start + 80), 5);                   // device
  CHECK_EQ(std::string(bytes.c_str() + start + 88), "bow");           // chip
  CHECK_EQ(std::string(bytes.c_str() + start + 112), "jit_step");
}

TEST(FilesGoWithTheirClientUnlessAFolderIsGiven) {
  const RuntimeFolder folder;
  std::shared_ptr<Usage> usage = Usage::Create(Config());
  std::string path = usage->path();
  const std::shared_ptr<DeviceUsage> device = Usage::Device(usage, 0);
  usage.reset();
  CHECK(fs::exists(path));  // a device is in use
  Add(device->runs, 1);

  DeviceConfig config = Config();
  config.usage_folder = folder.path();
  usage = Usage::Create(config);
  path = usage->path();
  Add(usage->process().compilations, 9);
  usage.reset();
  CHECK_EQ(fs::path(path).parent_path().string(), folder.path());
  CHECK_EQ(At<std::uint64_t>(Contents(path), 48), 9u);
}

TEST(WithoutAFileTheCountersCount) {
  const RuntimeFolder folder;
  DeviceConfig config = Config();
  config.monitored = false;
  std::shared_ptr<Usage> usage = Usage::Create(config);
  CHECK_EQ(usage->path(), "");
  Add(Usage::Device(usage, 0)->runs, 1);
  CHECK_EQ(Usage::Device(usage, 0)->runs.load(), 1u);
  config.monitored = true;
  config.usage_folder = folder.path() + "/none";
  usage = Usage::Create(config);
  CHECK_EQ(usage->path(), "");
  Add(usage->process().programs, 1);
  CHECK(fs::is_empty(folder.path()));
}

TEST(AFolderThatOthersCanWriteToIsNotUsed) {
  const RuntimeFolder folder;
  const std::string jax_ipu = folder.path() + "/jax_ipu";
  CHECK_EQ(mkdir(jax_ipu.c_str(), 0700), 0);
  CHECK_EQ(UsageFolder(), jax_ipu);
  CHECK_EQ(chmod(jax_ipu.c_str(), 0777), 0);
  CHECK(UsageFolder() != jax_ipu);
  CHECK_EQ(rmdir(jax_ipu.c_str()), 0);
  CHECK_EQ(symlink("/tmp", jax_ipu.c_str()), 0);
  CHECK(UsageFolder() != jax_ipu);
}

TEST(NamesThatAreTooLongEndWithAWholeCharacter) {
  DeviceUsage device;
  device.SetProgram(std::string(94, 'a') + "\xc3\xa4" + "b");
  CHECK_EQ(NameOf(device), std::string(94, 'a'));
  device.SetProgram("short");
  CHECK_EQ(NameOf(device), "short");
  CHECK_EQ(device.name_changes.load(), 4u);
}

TEST(NamesAreReadWhileTheyChange) {
  DeviceUsage device;
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; i < 20000; ++i)
      device.SetProgram(std::string(static_cast<std::size_t>(i % 90), i % 2 ? 'a' : 'b'));
    done = true;
  });
  int mixed = 0;
  while (!done) {
    const std::uint64_t before = device.name_changes.load(std::memory_order_acquire);
    const std::string name = NameOf(device);
    const bool changed = before % 2 == 1 || device.name_changes.load() != before;
    mixed += !changed && name.find('a') != std::string::npos && name.find('b') != std::string::npos;
  }
  writer.join();
  CHECK_EQ(mixed, 0);
}

// Compilations are counted on several threads.
TEST(CompilationsAreCounted) {
  DeviceConfig config = Config();
  config.monitored = false;
  const std::shared_ptr<Usage> usage = Usage::Create(config);
  std::thread other([&] { const CountedCompilation counted(usage->process()); });
  {
    const CountedCompilation counted(usage->process());
    CHECK(usage->process().compiling.load() >= 1u);
    const CountedProgram program(usage);
    CHECK_EQ(usage->process().programs.load(), 1u);
  }
  other.join();
  CHECK_EQ(usage->process().programs.load(), 0u);
  CHECK_EQ(usage->process().compiling.load(), 0u);
  CHECK_EQ(usage->process().compilations.load(), 2u);
  CHECK(usage->process().compile_nanoseconds.load() > 0u);
}

// The last test: from then on this process counts as one that forks.
TEST(TheFileIsTheParents) {
  const RuntimeFolder folder;
  MarkForksFromNow();
  std::shared_ptr<Usage> usage = Usage::Create(Config());
  const std::string path = usage->path();
  std::fflush(stdout);  // or the child would print it again
  const pid_t child = fork();
  if (child == 0) {
    usage.reset();
    std::exit(0);  // runs the functions of atexit
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK_EQ(status, 0);
  CHECK(fs::exists(path));
  usage.reset();
  CHECK(!fs::exists(path));
}

}  // namespace
}  // namespace jax_ipu
