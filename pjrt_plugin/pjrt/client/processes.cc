// MeetProcesses: one record of each process in the key-value store of jax.distributed.
#include "pjrt/client/processes.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <sstream>

#include "pjrt/abi/entry.h"
#include "pjrt/abi/error.h"
#include "pjrt/abi/named_values.h"

namespace jax_ipu::pjrt {
namespace {

constexpr std::int64_t kDefaultTimeoutSeconds = 600;
// Device numbers are parts of message tags (runtime/process/process_transport.cc).
constexpr std::size_t kMaxDevices = 4096;

class KeyValueStore {
 public:
  explicit KeyValueStore(const PJRT_Client_Create_Args& args) : args_(args) {}

  void Put(const std::string& key, const std::string& value) const {
    PJRT_KeyValuePutCallback_Args put = {};
    put.struct_size = PjrtStructSize<PJRT_KeyValuePutCallback_Args>::full;
    put.key = key.data();
    put.key_size = key.size();
    put.value = value.data();
    put.value_size = value.size();
    PJRT_CallbackError make_error = NewError;
    put.callback_error = &make_error;
    put.user_arg = args_.kv_put_user_arg;
    Check(args_.kv_put_callback(&put));
  }

  // Waits until there is a value.
  std::string Get(const std::string& key, std::chrono::milliseconds timeout) const {
    PJRT_KeyValueGetCallback_Args get = {};
    get.struct_size = PjrtStructSize<PJRT_KeyValueGetCallback_Args>::full;
    get.key = key.data();
    get.key_size = key.size();
    get.timeout_in_ms = static_cast<int>(timeout.count());
    PJRT_CallbackError make_error = NewError;
    get.callback_error = &make_error;
    get.user_arg = args_.kv_get_user_arg;
    Check(args_.kv_get_callback(&get));
    const std::string value(get.value, get.value_size);
    get.value_deleter_callback(get.value);
    return value;
  }

 private:
  static PJRT_Error* NewError(PJRT_Error_Code code, const char* message, std::size_t size) {
    return MakeError(Error(static_cast<Code>(code), std::string(message, size)));
  }
  static void Check(PJRT_Error* raw) {
    if (raw == nullptr) return;
    const Error error(raw->code, raw->message);
    DestroyError(raw);
    throw error;
  }

  const PJRT_Client_Create_Args& args_;
};

// A record is "jax_ipu processes 1", then one line each for the target, the number of devices, and what is
// missing for the transport.
constexpr const char* kRecordHeader = "jax_ipu processes 1";

struct Record {
  std::string target, missing_transport;
  std::size_t devices = 0;

  std::string Text() const {
    return std::string(kRecordHeader) + "\n" + target + "\n" + std::to_string(devices) + "\n" +
           missing_transport + "\n";
  }
  static Record Parse(const std::string& text, int process) {
    std::istringstream in(text);
    Record record;
    std::string header, devices;
    std::getline(in, header);
    std::getline(in, record.target);
    std::getline(in, devices);
    std::getline(in, record.missing_transport);
    std::istringstream number(devices);
    if (header != kRecordHeader || !(number >> record.devices) || record.devices > kMaxDevices) {
      throw Error(Code::kFailedPrecondition, "Process " + std::to_string(process) +
                                                 " of jax.distributed uses another version of jax_ipu");
    }
    return record;
  }
};

std::string Key(int process) { return "jax_ipu/processes/" + std::to_string(process); }

void Publish(const KeyValueStore& store, int own, const Record& record) {
  try {
    store.Put(Key(own), record.Text());
  } catch (const Error& error) {
    // A client that is created again finds its own record.
    if (error.code != Code::kAlreadyExists || store.Get(Key(own), std::chrono::seconds(1)) != record.Text())
      throw;
  }
}

Record WaitFor(const KeyValueStore& store, int process, std::chrono::seconds timeout) {
  try {
    return Record::Parse(store.Get(Key(process), timeout), process);
  } catch (const Error& error) {
    if (error.code != Code::kDeadlineExceeded) throw;
    throw Error(
        Code::kDeadlineExceeded,
        "Process " + std::to_string(process) + " of jax.distributed has not created its IPUs within " +
            std::to_string(timeout.count()) +
            " s. Every process must use the platform (jax.devices('ipu')); JAX_IPU_PROCESS_TIMEOUT sets "
            "how many seconds the others wait");
  }
}

}  // namespace

Processes MeetProcesses(const PJRT_Client_Create_Args& args, const DeviceConfig& config,
                        const std::string& target) {
  const auto option = [&](const char* name, std::int64_t otherwise) {
    return IntegerOption(args.create_options, args.num_options, name, otherwise);
  };
  Processes processes;
  const std::int64_t count = option("num_nodes", 1), own = option("node_id", 0);
  if (count <= 1) {
    processes.all[0].device_ids = config.device_ids;
    return processes;
  }
  if (own < 0 || own >= count || count > std::numeric_limits<int>::max()) {
    throw Error(Code::kInvalidArgument, "node_id " + std::to_string(own) + " is not one of the " +
                                            std::to_string(count) + " processes");
  }
  processes.own = static_cast<int>(own);
  processes.all.resize(static_cast<std::size_t>(count));
  const std::chrono::seconds timeout(
      std::clamp<std::int64_t>(option("process_timeout", kDefaultTimeoutSeconds), 1, 1'000'000));

  const KeyValueStore store(args);
  const std::string missing =
      StringOption(args.create_options, args.num_options, "missing_process_transport", "");
  Publish(store, processes.own, {target, missing, config.device_ids.size()});
  int next_id = 0;
  for (int p = 0; p < static_cast<int>(count); ++p) {
    const Record record = WaitFor(store, p, timeout);
    if (record.target != target) {
      throw Error(Code::kInvalidArgument, "Process " + std::to_string(p) + " of jax.distributed has IPUs " +
                                              record.target + ", process " + std::to_string(own) + " has " +
                                              target +
                                              ". Give all processes the same JAX_IPU_MODEL_VERSION and "
                                              "JAX_IPU_MODEL_NUM_TILES");
    }
    Process& process = processes.all[static_cast<std::size_t>(p)];
    process.missing_transport = record.missing_transport;
    for (std::size_t d = 0; d < record.devices; ++d) process.device_ids.push_back(next_id++);
  }
  return processes;
}

}  // namespace jax_ipu::pjrt
