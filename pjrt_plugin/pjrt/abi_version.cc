#include "pjrt/abi_version.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "pjrt/abi/entry.h"
#include "pjrt/abi/serialized_bytes.h"
#include "pjrt/client/client.h"
#include "pjrt/client/topology.h"
#include "pjrt/executables/executable_description.h"
#include "runtime/executable/executable_versions.h"

// The version is the target that a program is compiled for, "<version>:<tiles>": any package version runs it,
// and loading checks the format of the bytes.
struct PJRT_RuntimeAbiVersion {
  std::string target;
};
struct PJRT_ExecutableAbiVersion {
  std::string target;
};

namespace jax_ipu::pjrt {
namespace {

// A number of this plugin's own: "ipu" in ASCII.
constexpr std::uint64_t kPlatformId = 0x697075;
// xla.PjRtRuntimeAbiVersionProto and xla.PjRtExecutableAbiVersionProto: {uint64 platform = 1; bytes version =
// 2;}.
constexpr char kPlatformTag = 1 << 3, kVersionTag = 2 << 3 | 2;

std::string Varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}

std::string Proto(const std::string& target) {
  return kPlatformTag + Varint(kPlatformId) + kVersionTag + Varint(target.size()) + target;
}

// Accepts what Proto writes.
std::string TargetFrom(const char* data, std::size_t size) {
  const std::string_view bytes(data, size);
  const std::string head = Proto("");
  const std::string_view tags = std::string_view(head).substr(0, head.size() - 1);
  const std::size_t text = tags.size() + 1;
  if (size < text || bytes.substr(0, tags.size()) != tags ||
      Proto(std::string(bytes.substr(text))) != bytes) {
    throw Error(Code::kInvalidArgument, "These bytes are not a serialised ABI version of the platform ipu");
  }
  return std::string(bytes.substr(text));
}

void Compare(const std::string& runtime, const std::string& other, const char* what) {
  if (runtime == other) return;
  throw Error(Code::kFailedPrecondition, std::string(what) + " is for target " + other + ", these IPUs are " +
                                             runtime + ". Compile the program again");
}

void OfClient(PJRT_Client_RuntimeAbiVersion_Args& args) {
  args.abi_version = Release(std::make_unique<PJRT_RuntimeAbiVersion>(
      PJRT_RuntimeAbiVersion{TargetOf(args.client->state->topology.config)}));
}
void OfExecutable(PJRT_Executable_GetAbiVersion_Args& args) {
  if (AreExecutableVersionsHidden()) {
    throw Error(Code::kUnimplemented, "Executables have no ABI version in a process with JAX");
  }
  args.abi_version = Release(std::make_unique<PJRT_ExecutableAbiVersion>(
      PJRT_ExecutableAbiVersion{args.executable->executable->target}));
}
void FitsRuntime(PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime_Args& args) {
  Compare(args.abi_version->target, args.other_abi_version->target, "The other runtime");
}
void FitsExecutable(PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args& args) {
  Compare(args.abi_version->target, args.executable_abi_version->target, "The executable");
}

// The entry for both kinds of version, of runtimes and of executables.
template <typename Args>
void VersionDestroy(Args& args) {
  Destroy(args.abi_version);
}
template <typename Args>
void VersionToProto(Args& args) {
  SerializedBytes bytes(Proto(args.abi_version->target));
  bytes.Give(args.serialized_proto, args.serialized_proto_size, args.serialized_proto_holder,
             args.serialized_proto_deleter);
}
template <typename Args>
void VersionFromProto(Args& args) {
  using Version = std::remove_pointer_t<decltype(args.abi_version)>;
  args.abi_version = Release(
      std::make_unique<Version>(Version{TargetFrom(args.serialized_proto, args.serialized_proto_size)}));
}
template <typename Args>
void VersionPlatform(Args& args) {
  args.platform_id = kPlatformId;
}

template <typename Args, void (*function)(Args&)>
constexpr PjrtEntry kEntry = &Entry<Args, function>;

}  // namespace

PJRT_Extension_Base* AbiVersionExtension(PJRT_Extension_Base* next) {
  static PJRT_AbiVersion_Extension extension = {
      {PjrtStructSize<PJRT_AbiVersion_Extension>::full, PJRT_Extension_Type_AbiVersion, next},
      kEntry<PJRT_Client_RuntimeAbiVersion_Args, &OfClient>,
      kEntry<PJRT_Executable_GetAbiVersion_Args, &OfExecutable>,
      kEntry<PJRT_RuntimeAbiVersion_Destroy_Args, &VersionDestroy>,
      kEntry<PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime_Args, &FitsRuntime>,
      kEntry<PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args, &FitsExecutable>,
      kEntry<PJRT_RuntimeAbiVersion_ToProto_Args, &VersionToProto>,
      kEntry<PJRT_RuntimeAbiVersion_PlatformId_Args, &VersionPlatform>,
      kEntry<PJRT_ExecutableAbiVersion_Destroy_Args, &VersionDestroy>,
      kEntry<PJRT_ExecutableAbiVersion_ToProto_Args, &VersionToProto>,
      kEntry<PJRT_ExecutableAbiVersion_PlatformId_Args, &VersionPlatform>,
      kEntry<PJRT_RuntimeAbiVersion_FromProto_Args, &VersionFromProto>,
      kEntry<PJRT_ExecutableAbiVersion_FromProto_Args, &VersionFromProto>,
  };
  return &extension.base;
}

}  // namespace jax_ipu::pjrt
