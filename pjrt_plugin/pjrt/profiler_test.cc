// The profiler extension as XLA calls it: without struct sizes, and with a buffer that the plugin owns.
#include "pjrt/profiler.h"

#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "runtime/recording/trace.h"

using namespace jax_ipu;

namespace {

const PLUGIN_Profiler_Api& Api() {
  const PJRT_Extension_Base* extension = GetPjrtApi()->extension_start;
  while (extension != nullptr && extension->type != PJRT_Extension_Type_Profiler) extension = extension->next;
  CHECK(extension != nullptr);
  const auto& profiler = *reinterpret_cast<const PJRT_Profiler_Extension*>(extension);
  CHECK_EQ(profiler.base.struct_size, 40u);
  CHECK_EQ(profiler.profiler_api->struct_size, 80u);
  return *profiler.profiler_api;
}

// The message of an error, which is freed; empty for null.
std::string MessageOf(PLUGIN_Profiler_Error* error) {
  if (error == nullptr) return "";
  PLUGIN_Profiler_Error_GetCode_Args code = {~std::size_t{0}, nullptr, error, 0};
  CHECK(Api().error_get_code(&code) == nullptr);
  PLUGIN_Profiler_Error_Message_Args message = {~std::size_t{0}, nullptr, error, nullptr, 0};
  Api().error_message(&message);
  const std::string text =
      std::to_string(code.code) + ": " + std::string(message.message, message.message_size);
  PLUGIN_Profiler_Error_Destroy_Args destroy = {~std::size_t{0}, nullptr, error};
  Api().error_destroy(&destroy);
  return text;
}

class Profiler {
 public:
  explicit Profiler(const std::string& options) {
    PLUGIN_Profiler_Create_Args args = {~std::size_t{0}, options.data(), options.size(), nullptr};
    CHECK_EQ(MessageOf(Api().create(&args)), "");
    profiler_ = args.profiler;
  }
  ~Profiler() {
    PLUGIN_Profiler_Destroy_Args args = {~std::size_t{0}, profiler_};
    CHECK_EQ(MessageOf(Api().destroy(&args)), "");
  }
  std::string Start() const {
    PLUGIN_Profiler_Start_Args args = {~std::size_t{0}, profiler_};
    return MessageOf(Api().start(&args));
  }
  std::string Stop() const {
    PLUGIN_Profiler_Stop_Args args = {~std::size_t{0}, profiler_};
    return MessageOf(Api().stop(&args));
  }
  std::string Collect() const {
    PLUGIN_Profiler_CollectData_Args args = {~std::size_t{0}, profiler_, nullptr, 0};
    CHECK_EQ(MessageOf(Api().collect_data(&args)), "");
    std::string data(reinterpret_cast<const char*>(args.buffer), args.buffer_size_in_bytes);
    // The documented way: again, with a buffer of that size.
    std::vector<std::uint8_t> buffer(data.size() + 1, 0xee);
    args.buffer = buffer.data();
    args.buffer_size_in_bytes = 0;
    CHECK_EQ(MessageOf(Api().collect_data(&args)), "");
    CHECK_EQ(args.buffer_size_in_bytes, data.size());
    CHECK_EQ(std::string(buffer.begin(), buffer.end() - 1), data);
    CHECK_EQ(static_cast<int>(buffer.back()), 0xee);
    return data;
  }

 private:
  PLUGIN_Profiler* profiler_ = nullptr;
};

void AddWork() {
  auto work = std::make_shared<TracedWork>();
  work->version = "bow";
  work->begin_ns = work->end_ns = Trace::Now();
  work->transfers = {{TracedTransfer::Kind::kFromHost, "in0", 64, 0}};
  Trace::Add(work);
}

// tensorflow.ProfileOptions: the level of the device's tracer, and
// advanced_configuration["ipu_trace_planes"].
const std::string kLevelOfOne = "\x18\x01";
std::string Planes(const std::string& name) {
  const std::string key = "ipu_trace_planes",
                    value = "\x0a" + std::string(1, static_cast<char>(name.size())) + name;
  const std::string entry =
      "\x0a\x10" + key + "\x12" + std::string(1, static_cast<char>(value.size())) + value;
  return kLevelOfOne + "\x62" + std::string(1, static_cast<char>(entry.size())) + entry;
}

}  // namespace

TEST(RecordsFromStartToStop) {
  const Profiler profiler(kLevelOfOne);
  CHECK_EQ(profiler.Collect(), "");
  CHECK_EQ(profiler.Stop(), "");
  for (int i = 0; i < 2; ++i) {
    AddWork();
    CHECK(!Trace::IsActive());
    CHECK_EQ(profiler.Start(), "");
    CHECK(Trace::IsActive());
    AddWork();
    CHECK_EQ(profiler.Stop(), "");
    CHECK(!Trace::IsActive());
    const std::string data = profiler.Collect();
    CHECK(data.find("/device:CUSTOM:IPU:0") != std::string::npos);
    CHECK(data.find("from host: in0") != std::string::npos);
  }
}

TEST(DestroyEndsARecording) {
  {
    const Profiler profiler("");
    CHECK_EQ(profiler.Start(), "");
  }
  CHECK(!Trace::IsActive());
}

TEST(Options) {
  const Profiler tpu(Planes("tpu"));
  CHECK_EQ(tpu.Start(), "");
  AddWork();
  CHECK(tpu.Collect().find("/device:TPU:0") != std::string::npos);  // also without Stop
  const Profiler none("\x10\x02");                                  // no level: 0
  CHECK_EQ(none.Start(), "");
  CHECK(!Trace::IsActive());
  CHECK_EQ(none.Collect(), "");
}

TEST(OptionsThatAreNotValidAreAnErrorOfStart) {
  const Profiler other(Planes("gpu"));
  CHECK_EQ(other.Start(),
           "3: The option ipu_trace_planes='gpu' of the profiler is not valid. Give one of custom, tpu.");
  CHECK_EQ(other.Stop(), "");
  CHECK_EQ(other.Collect(), "");
  const Profiler damaged("\x62\x7f");
  CHECK_EQ(damaged.Start(), "3: The options of the profiler are not a serialised tensorflow.ProfileOptions");
}
