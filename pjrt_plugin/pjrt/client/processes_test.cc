// MeetProcesses with a key-value store in memory, and the client that it makes.
#include "pjrt/client/processes.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"
#include "pjrt/abi/named_values.h"
#include "pjrt/client/client.h"
#include "pjrt/executables/loaded_executable.h"
#include "runtime/process/registry.h"
#include "testing/fake_program.h"

namespace jax_ipu::pjrt {
namespace {

const std::string kTarget = "ipu2:1472";

class KeyValues {
 public:
  // The arguments of a client of this process; `options` stay with the caller.
  PJRT_Client_Create_Args Arguments(const NamedValues& options) {
    PJRT_Client_Create_Args args = {};
    args.struct_size = PjrtStructSize<PJRT_Client_Create_Args>::full;
    args.create_options = options.data();
    args.num_options = options.size();
    args.kv_get_callback = Get;
    args.kv_put_callback = Put;
    args.kv_get_user_arg = args.kv_put_user_arg = this;
    return args;
  }

 private:
  static PJRT_Error* Fail(PJRT_CallbackError* make, Code code, const std::string& message) {
    return (*make)(static_cast<PJRT_Error_Code>(code), message.data(), message.size());
  }
  static PJRT_Error* Get(PJRT_KeyValueGetCallback_Args* args) {
    auto& self = *static_cast<KeyValues*>(args->user_arg);
    const std::string key(args->key, args->key_size);
    std::unique_lock<std::mutex> lock(self.mutex_);
    const bool there = self.changed_.wait_for(lock, std::chrono::milliseconds(args->timeout_in_ms),
                                              [&] { return self.values_.count(key) > 0; });
    if (!there) return Fail(args->callback_error, Code::kDeadlineExceeded, "no " + key);
    const std::string& value = self.values_[key];
    static thread_local std::vector<char> memory;
    memory.assign(value.begin(), value.end());
    args->value = memory.data();
    args->value_size = memory.size();
    args->value_deleter_callback = [](char*) { memory.clear(); };
    return nullptr;
  }
  static PJRT_Error* Put(PJRT_KeyValuePutCallback_Args* args) {
    auto& self = *static_cast<KeyValues*>(args->user_arg);
    const std::lock_guard<std::mutex> lock(self.mutex_);
    const std::string key(args->key, args->key_size), value(args->value, args->value_size);
    if (!self.values_.emplace(key, value).second)
      return Fail(args->callback_error, Code::kAlreadyExists, key + " exists");
    self.changed_.notify_all();
    return nullptr;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

struct Options {
  explicit Options(std::int64_t own, std::int64_t count, const std::string& missing = "") {
    values.Add("node_id", own);
    values.Add("num_nodes", count);
    values.Add("process_timeout", std::int64_t{1});
    values.Add("missing_process_transport", missing);
  }
  NamedValues values;
};

DeviceConfig ConfigOf(std::vector<int> device_ids) {
  DeviceConfig config;
  config.device_ids = std::move(device_ids);
  return config;
}

// What the two processes learn of each other; each runs on a thread of its own.
std::vector<Processes> MeetBoth(KeyValues& store, const std::string& missing_in_second = "") {
  const Options options[] = {Options(0, 2), Options(1, 2, missing_in_second)};
  std::vector<Processes> found(2);
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < 2; ++p) {
    threads.emplace_back([&, p] {
      // A configuration numbers the devices of one process only.
      const DeviceConfig config = ConfigOf(p == 0 ? std::vector<int>{0, 7} : std::vector<int>{0, 1, 2});
      found[p] = MeetProcesses(store.Arguments(options[p].values), config, kTarget);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return found;
}

std::string ErrorOf(const PJRT_Client_Create_Args& args, const std::string& target) {
  try {
    MeetProcesses(args, ConfigOf({0}), target);
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code)) + " " + error.what();
  }
  return "";
}
bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(DevicesAreNumberedOverAllProcesses) {
  KeyValues store;
  const std::vector<Processes> found = MeetBoth(store);
  for (int p = 0; p < 2; ++p) {
    const Processes& known = found[static_cast<std::size_t>(p)];
    CHECK_EQ(known.own, p);
    CHECK_EQ(known.all.size(), std::size_t{2});
    CHECK(known.all[0].device_ids == (std::vector<int>{0, 1}));
    CHECK(known.all[1].device_ids == (std::vector<int>{2, 3, 4}));
  }
}

TEST(OneProcessKeepsItsNumbers) {
  PJRT_Client_Create_Args args = {};  // without jax.distributed the callbacks are not valid
  const Processes alone = MeetProcesses(args, ConfigOf({3, 5}), kTarget);
  CHECK(alone.own == 0 && alone.all.size() == 1 && alone.all[0].device_ids == (std::vector<int>{3, 5}));
}

TEST(AClientThatIsCreatedAgain) {
  KeyValues store;
  MeetBoth(store);
  CHECK_EQ(MeetBoth(store)[1].all.size(), std::size_t{2});
}

TEST(ProcessesThatDoNotFit) {
  KeyValues store;
  const Options first(0, 2), second(1, 2), other(2, 2);
  CHECK(
      Has(ErrorOf(store.Arguments(first.values), kTarget), "4 Process 1 of jax.distributed has not created"));
  const std::string different = ErrorOf(store.Arguments(second.values), "ipu1:1216");
  CHECK(Has(different, "3 Process 0 of jax.distributed has IPUs ipu2:1472, process 1 has ipu1:1216"));
  CHECK(Has(ErrorOf(store.Arguments(other.values), kTarget), "node_id 2 is not one of the 2 processes"));
}

// The client of the second process.
std::shared_ptr<ClientState> MakeClient(const std::string& missing_in_second = "") {
  SetEngineFactory(testing::CreateFakeEngine);
  KeyValues store;
  return std::make_shared<ClientState>(ConfigOf({0, 1, 2}), MeetBoth(store, missing_in_second)[1]);
}

TEST(ClientKnowsAllDevicesAndRunsOnItsOwn) {
  const std::shared_ptr<ClientState> client = MakeClient();
  CHECK_EQ(client->device_pointers.size(), std::size_t{5});
  CHECK_EQ(client->addressable_devices.size(), std::size_t{3});
  const PJRT_DeviceDescription& last = *client->device_pointers[4]->description;
  CHECK(last.id == 4 && last.process == 1 && last.local_hardware_id == 2);
  CHECK(CheckAddressable(client->FindDevice(2)) == client->addressable_devices[0]);
  CHECK_THROWS(Error, CheckAddressable(client->FindDevice(1)));
  CHECK(client->DefaultDevices(3) == client->addressable_devices);
  CHECK(client->DefaultDevices(4) == client->device_pointers);

  const auto four = testing::CompileFake("partitions 4\nin f32 2\nout f32 2 inc 0\n", kTarget);
  const PJRT_LoadedExecutable loaded(*client, four, "");
  CHECK_EQ(loaded.instances.size(), std::size_t{2});  // devices 2 and 3 of 0 to 3
  CHECK(loaded.device_pointers == (std::vector<PJRT_Device*>{client->FindDevice(2), client->FindDevice(3)}));
  CHECK_EQ(loaded.instances[1].program->replica(), 3u);
}

TEST(CollectivesNeedTheTransportEverywhere) {
  const std::shared_ptr<ClientState> client = MakeClient("pip install it");
  const auto local = testing::CompileFake("partitions 2\nin f32 2\nout f32 2 allreduce 0\n", kTarget);
  CHECK(PJRT_LoadedExecutable(*client, local, "").remote == nullptr);
  const auto sum = testing::CompileFake("partitions 4\nin f32 2\nout f32 2 allreduce 0\n", kTarget);
  std::string message;
  try {
    const PJRT_LoadedExecutable loaded(*client, sum, "");
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(Has(message, "process 1 has no transport for that: pip install it"));
}

}  // namespace
}  // namespace jax_ipu::pjrt
