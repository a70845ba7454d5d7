// The field numbers of xla/pjrt/proto/compile_options.proto.
#include "pjrt/executables/compile_options.h"

#include <algorithm>
#include <cstddef>

#include "pjrt/abi/proto_message.h"
#include "runtime/executable/executable_checks.h"

namespace jax_ipu::pjrt {
namespace {

// CompileOptionsProto
constexpr std::uint64_t kExecutableBuildOptions = 3;
// ExecutableBuildOptionsProto
constexpr std::uint64_t kDeviceOrdinal = 1, kNumReplicas = 4, kNumPartitions = 5, kDeviceAssignment = 9;
// DeviceAssignmentProto: one ComputationDevice for each partition, with the ids of its replicas.
constexpr std::uint64_t kReplicaCount = 1, kComputationCount = 2, kComputationDevices = 3,
                        kReplicaDeviceIds = 1;

constexpr const char* kWhat = "compile options are not a serialised xla.CompileOptionsProto";

constexpr unsigned kVarint = 0, kBytes = 2;  // of what is written here

class Message : public ProtoMessage {
 public:
  explicit Message(std::string_view data) : ProtoMessage(data, kWhat) {}
};

std::vector<int> ParseReplicaIds(std::string_view data) {
  std::vector<int> ids;
  for (Message message(data); message.Next();) {
    if (message.field() != kReplicaDeviceIds) continue;
    if (message.bytes().empty()) {
      ids.push_back(message.integer());
    } else {  // packed
      for (Message packed(message.bytes()); !packed.empty();)
        ids.push_back(static_cast<int>(packed.TakeVarint()));
    }
  }
  return ids;
}

std::vector<std::vector<int>> ParseDeviceAssignment(std::string_view data) {
  std::vector<std::vector<int>> by_replica;
  std::size_t partition = 0;
  for (Message message(data); message.Next();) {
    if (message.field() != kComputationDevices) continue;
    const std::vector<int> ids = ParseReplicaIds(message.bytes());
    by_replica.resize(std::max(by_replica.size(), ids.size()));
    for (std::size_t replica = 0; replica < ids.size(); ++replica) {
      by_replica[replica].resize(partition, -1);
      by_replica[replica].push_back(ids[replica]);
    }
    ++partition;
  }
  return by_replica;
}

void ParseBuildOptions(std::string_view data, CompileOptions& options) {
  for (Message message(data); message.Next();) {
    switch (message.field()) {
      case kDeviceOrdinal:
        options.device_ordinal = message.integer();
        break;
      case kNumReplicas:
        options.num_replicas = message.integer();
        break;
      case kNumPartitions:
        options.num_partitions = message.integer();
        break;
      case kDeviceAssignment:
        options.device_assignment = ParseDeviceAssignment(message.bytes());
        break;
      default:
        break;
    }
  }
}

void AppendVarint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>((value & 0x7f) | 0x80));
  out.push_back(static_cast<char>(value));
}
void AppendInteger(std::string& out, std::uint64_t field, std::uint64_t value) {
  AppendVarint(out, field << 3 | kVarint);
  AppendVarint(out, value);
}
void AppendBytes(std::string& out, std::uint64_t field, const std::string& bytes) {
  AppendVarint(out, field << 3 | kBytes);
  AppendVarint(out, bytes.size());
  out += bytes;
}

}  // namespace

CompileOptions ParseCompileOptions(std::string_view serialized) {
  CompileOptions options;
  for (Message message(serialized); message.Next();) {
    if (message.field() == kExecutableBuildOptions) ParseBuildOptions(message.bytes(), options);
  }
  // Absent fields are zero on the wire.
  if (options.num_replicas == 0) options.num_replicas = 1;
  if (options.num_partitions == 0) options.num_partitions = 1;
  if (options.num_replicas < 0 || options.num_partitions < 0 || options.num_replicas > kMaxReplicas ||
      options.num_partitions > kMaxReplicas || options.num_replicas * options.num_partitions > kMaxReplicas) {
    throw Error(Code::kInvalidArgument, "The compile options ask for " +
                                            std::to_string(options.num_replicas) + " replicas of " +
                                            std::to_string(options.num_partitions) +
                                            " partitions. Both must be positive, and their product at most " +
                                            std::to_string(kMaxReplicas));
  }
  return options;
}

std::string SerializeDeviceAssignment(const std::vector<std::vector<int>>& devices) {
  const std::size_t partitions = devices.empty() ? 0 : devices[0].size();
  std::string out;
  AppendInteger(out, kReplicaCount, devices.size());
  AppendInteger(out, kComputationCount, partitions);
  for (std::size_t partition = 0; partition < partitions; ++partition) {
    std::string packed, computation;
    for (const std::vector<int>& replica : devices) {
      AppendVarint(packed, static_cast<std::uint64_t>(replica[partition]));
    }
    AppendBytes(computation, kReplicaDeviceIds, packed);
    AppendBytes(out, kComputationDevices, computation);
  }
  return out;
}

}  // namespace jax_ipu::pjrt
