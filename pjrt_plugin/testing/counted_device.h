// A device for tests, with counted bytes, on programs of testing/fake_program.h.
#ifndef JAX_IPU_TESTING_COUNTED_DEVICE_H_
#define JAX_IPU_TESTING_COUNTED_DEVICE_H_

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/device_runtime.h"
#include "runtime/memory/link_copy.h"
#include "testing/fake_program.h"

namespace jax_ipu::testing {

constexpr const char* kTarget = "ipu2:1472";
// Long enough to be queued instead of run inline.
inline const std::string kQueued = "cost 1e9\n";

inline std::shared_ptr<LoadedProgram> Compile(const std::string& text) {
  return std::make_shared<LoadedProgram>(testing::CompileFake(text, kTarget));
}

class Device {
 public:
  explicit Device(bool is_only_device = true)
      : pool_(std::make_shared<HostPool>()),
        runtime_(std::make_shared<DeviceRuntime>(DeviceConfig(), testing::CreateFakeEngine, pool_, 0,
                                                 is_only_device)) {}

  std::shared_ptr<Array> Put(std::vector<float> values) {
    auto spec = std::make_shared<TensorSpec>();
    spec->shape = {static_cast<std::int64_t>(values.size())};
    std::shared_ptr<HostBlock> block = HostBlock::Allocate(pool_, spec->bytes());
    if (!values.empty()) std::memcpy(block->data(), values.data(), spec->bytes());
    return std::make_shared<Array>(spec, block, nullptr);
  }
  // Donates what the program says is donated, as PJRT does.
  ArrayList Run(const std::shared_ptr<LoadedProgram>& program, ArrayList arrays) {
    return Execute(program, std::move(arrays)).outputs;
  }
  DeviceRuntime::Results Execute(const std::shared_ptr<LoadedProgram>& program, ArrayList arrays) {
    std::vector<Argument> arguments;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      arguments.push_back({std::move(arrays[i]), program->executable()->inputs[i].donated});
    }
    return runtime_->Execute(program, std::move(arguments));
  }
  std::vector<float> Get(const std::shared_ptr<Array>& array) {
    const CompletionPtr ready = runtime_->FetchToHost(array);
    if (const Error* error = Wait(ready)) throw Error(*error);
    std::vector<float> values(array->spec().bytes() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), array->host()->data(), array->spec().bytes());
    return values;
  }
  // Counters since the last call: "h2d_bytes d2h_bytes loads runs".
  std::string Moved() {
    const Counters now = runtime_->counters();
    const std::string text = std::to_string(now.h2d_bytes - last_.h2d_bytes) + " " +
                             std::to_string(now.d2h_bytes - last_.d2h_bytes) + " " +
                             std::to_string(now.engine_loads - last_.engine_loads) + " " +
                             std::to_string(now.runs - last_.runs);
    last_ = now;
    return text;
  }
  // Bytes received over the links, and cycles, since the last call.
  std::pair<std::uint64_t, std::uint64_t> MovedOverLinks() {
    const Counters now = runtime_->counters();
    const Counters last = std::exchange(last_links_, now);
    return {now.link_bytes - last.link_bytes, now.cycles - last.cycles};
  }
  DeviceRuntime& runtime() { return *runtime_; }
  // As one of two IPUs.
  LinkEnd Place(unsigned place) const { return {runtime_, place}; }

 private:
  const std::shared_ptr<HostPool> pool_;
  const std::shared_ptr<DeviceRuntime> runtime_;
  Counters last_links_;
  Counters last_;
};

using Values = std::vector<float>;
inline bool Equal(const Values& a, const Values& b) { return a == b; }

// state 4 floats, value 4 floats -> state + value, value + 1
constexpr const char* kStep = "in f32 4 alias=0\nin f32 4\nout f32 4 add 0 1\nout f32 4 inc 1\n";
constexpr const char* kOther = "in f32 2\nout f32 2 inc 0\n";

}  // namespace jax_ipu::testing

#endif  // JAX_IPU_TESTING_COUNTED_DEVICE_H_
