#include "pjrt/profiler.h"

#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "pjrt/abi/entry.h"
#include "pjrt/abi/proto_message.h"
#include "profiling/trace_planes.h"
#include "profiling/xspace.h"
#include "runtime/process/registry.h"
#include "runtime/recording/trace.h"

struct PLUGIN_Profiler_Error {
  int code;
  std::string message;
};

struct PLUGIN_Profiler {
  jax_ipu::PlaneOptions options;
  bool traces_devices = true;
  std::string problem;  // of the options; XLA ends the process if `create` fails, so `start` says it
  std::unique_ptr<jax_ipu::Trace> trace;  // from the last start
  std::string data;
};

namespace jax_ipu::pjrt {
namespace {

// tensorflow.ProfileOptions (tsl/profiler/protobuf/profiler_options.proto)
constexpr std::uint64_t kDeviceTracerLevel = 3, kAdvancedConfiguration = 12;
// An entry of its map from names to values, and a string as a value.
constexpr std::uint64_t kKey = 1, kValue = 2, kString = 1;

constexpr const char* kWhat = "options of the profiler are not a serialised tensorflow.ProfileOptions";
constexpr std::string_view kPlanesOption = "ipu_trace_planes";

bool IsTpu(const std::string& name) {
  if (name == "tpu" || name == "custom") return name == "tpu";
  throw Error(Code::kInvalidArgument, "The option ipu_trace_planes='" + name +
                                          "' of the profiler is not valid. Give one of custom, tpu.");
}

std::string StringOf(std::string_view value) {
  std::string text;
  for (ProtoMessage message(value, kWhat); message.Next();) {
    if (message.field() == kString) text = message.bytes();
  }
  return text;
}

void ReadOptions(std::string_view serialised, PLUGIN_Profiler* profiler) {
  profiler->options.as_tpu = Registry::Get().GetDeviceConfig().trace_planes == "tpu";
  // A level of 0 is not written.
  profiler->traces_devices = serialised.empty();
  for (ProtoMessage message(serialised, kWhat); message.Next();) {
    if (message.field() == kDeviceTracerLevel) profiler->traces_devices = message.integer() > 0;
    if (message.field() != kAdvancedConfiguration) continue;
    std::string_view key, value;
    for (ProtoMessage entry(message.bytes(), kWhat); entry.Next();) {
      if (entry.field() == kKey) key = entry.bytes();
      if (entry.field() == kValue) value = entry.bytes();
    }
    if (key == kPlanesOption) profiler->options.as_tpu = IsTpu(StringOf(value));
  }
}

void Create(PLUGIN_Profiler_Create_Args& args) {
  auto profiler = std::make_unique<PLUGIN_Profiler>();
  try {
    ReadOptions({args.options, args.options == nullptr ? 0 : args.options_size}, profiler.get());
  } catch (const Error& error) {
    profiler->problem = error.what();
  }
  args.profiler = Release(std::move(profiler));
}

void DestroyProfiler(PLUGIN_Profiler_Destroy_Args& args) { Destroy(args.profiler); }

void Start(PLUGIN_Profiler_Start_Args& args) {
  RefuseInForkedChild();
  if (!args.profiler->problem.empty()) throw Error(Code::kInvalidArgument, args.profiler->problem);
  args.profiler->data.clear();
  args.profiler->trace = args.profiler->traces_devices ? std::make_unique<Trace>() : nullptr;
}

void Stop(PLUGIN_Profiler_Stop_Args& args) {
  if (args.profiler->trace) args.profiler->trace->Stop();
}

// A caller without a buffer is given one, which is valid until the next start: XLA reads it, other callers
// give a buffer of that size afterwards.
void CollectData(PLUGIN_Profiler_CollectData_Args& args) {
  PLUGIN_Profiler& profiler = *args.profiler;
  if (profiler.trace && profiler.data.empty()) {
    profiler.trace->Stop();
    profiler.data =
        SerializeXSpace(MakePlanes(*profiler.trace, profiler.options), profiler.trace->begin_ns());
  }
  if (args.buffer != nullptr) {
    std::memcpy(args.buffer, profiler.data.data(), profiler.data.size());
  } else {
    args.buffer = reinterpret_cast<std::uint8_t*>(profiler.data.data());
  }
  args.buffer_size_in_bytes = profiler.data.size();
}

PLUGIN_Profiler_Error* NewError(Code code, const std::string& message) {
  return Release(
      std::make_unique<PLUGIN_Profiler_Error>(PLUGIN_Profiler_Error{static_cast<int>(code), message}));
}

template <typename Args, void (*function)(Args&)>
PLUGIN_Profiler_Error* ProfilerEntry(Args* args) noexcept {
  try {
    function(*args);
    return nullptr;
  } catch (const Error& error) {
    return NewError(error.code, error.what());
  } catch (const std::bad_alloc&) {
    return NewError(Code::kResourceExhausted, "Out of host memory in the profiler of the IPU plugin");
  } catch (const std::exception& error) {
    return NewError(Code::kInternal, std::string("The profiler of the IPU plugin: ") + error.what());
  }
}

void ProfilerErrorDestroy(PLUGIN_Profiler_Error_Destroy_Args* args) { Destroy(args->error); }
void ProfilerErrorMessage(PLUGIN_Profiler_Error_Message_Args* args) {
  args->message = args->error->message.data();
  args->message_size = args->error->message.size();
}
PLUGIN_Profiler_Error* ProfilerErrorGetCode(PLUGIN_Profiler_Error_GetCode_Args* args) {
  args->code = args->error->code;
  return nullptr;
}

}  // namespace

PJRT_Extension_Base* ProfilerExtension(PJRT_Extension_Base* next) {
  static PLUGIN_Profiler_Api api = {
      sizeof(PLUGIN_Profiler_Api),
      nullptr,
      &ProfilerErrorDestroy,
      &ProfilerErrorMessage,
      &ProfilerErrorGetCode,
      &ProfilerEntry<PLUGIN_Profiler_Create_Args, &Create>,
      &ProfilerEntry<PLUGIN_Profiler_Destroy_Args, &DestroyProfiler>,
      &ProfilerEntry<PLUGIN_Profiler_Start_Args, &Start>,
      &ProfilerEntry<PLUGIN_Profiler_Stop_Args, &Stop>,
      &ProfilerEntry<PLUGIN_Profiler_CollectData_Args, &CollectData>,
  };
  static PJRT_Profiler_Extension extension = {
      {PjrtStructSize<PJRT_Profiler_Extension>::full, static_cast<int>(PJRT_Extension_Type_Profiler), next},
      &api,
      0,
  };
  return &extension.base;
}

}  // namespace jax_ipu::pjrt
