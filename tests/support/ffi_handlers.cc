// Foreign functions for test_features_ffi.py, which compiles them with the headers of jaxlib.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using F32 = ffi::Buffer<ffi::F32>;

// Returns the elements, of any type, in reverse order.
static ffi::Error ReverseImpl(ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) {
  const std::size_t width = ffi::ByteWidth(x.element_type()), count = x.element_count();
  if (x.element_type() != y->element_type()) return ffi::Error::InvalidArgument("types differ");
  const char* from = static_cast<const char*>(x.untyped_data());
  char* to = static_cast<char*>(y->untyped_data());
  for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * width, from + (count - 1 - i) * width, width);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Reverse, ReverseImpl,
                              ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

enum class Sign : std::int32_t { kPlus = 1, kMinus = -1 };
XLA_FFI_REGISTER_ENUM_ATTR_DECODING(Sign);
struct Pair {
  double a;
  std::int64_t b;
};
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(Pair, ffi::StructMember<double>("a"),
                                      ffi::StructMember<std::int64_t>("b"));

// sign * (scale * x + sum of the offsets + pair.a + pair.b); doubled if the text is "twice" and the flag is
// set.
static ffi::Error AttributesImpl(F32 x, ffi::Result<F32> y, float scale,
                                 ffi::Span<const std::int64_t> offsets, std::string_view text, bool flag,
                                 Pair pair, Sign sign) {
  double offset = pair.a + static_cast<double>(pair.b);
  for (const std::int64_t o : offsets) offset += static_cast<double>(o);
  const double factor = static_cast<double>(sign) * (flag && text == "twice" ? 2 : 1);
  for (std::size_t i = 0; i < x.element_count(); ++i) {
    y->typed_data()[i] = static_cast<float>(factor * (scale * x.typed_data()[i] + offset));
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Attributes, AttributesImpl,
                              ffi::Ffi::Bind()
                                  .Arg<F32>()
                                  .Ret<F32>()
                                  .Attr<float>("scale")
                                  .Attr<ffi::Span<const std::int64_t>>("offsets")
                                  .Attr<std::string_view>("text")
                                  .Attr<bool>("flag")
                                  .Attr<Pair>("pair")
                                  .Attr<Sign>("sign"));

// Prefix sums over the last dimension in memory, and the sum of all elements; independent of the shape.
static ffi::Error RowSumsImpl(F32 x, ffi::Result<F32> rows) {
  const auto dims = x.dimensions();
  const std::size_t n = static_cast<std::size_t>(dims.back()), m = n == 0 ? 0 : x.element_count() / n;
  for (std::size_t i = 0; i < m; ++i) {
    float sum = 0;
    for (std::size_t j = 0; j < n; ++j) sum += x.typed_data()[i * n + j];
    rows->typed_data()[i] = sum;
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(RowSums, RowSumsImpl, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());

// Adds one in place to an aliased operand.
static ffi::Error IncrementImpl(F32 x, ffi::Result<F32> y) {
  if (x.untyped_data() != y->untyped_data()) return ffi::Error::Internal("not in place");
  for (std::size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] += 1;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Increment, IncrementImpl, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());

static std::int32_t calls = 0;
extern "C" std::int32_t NumCalls() { return calls; }
static ffi::Error NoteImpl(F32 x) {
  calls += static_cast<std::int32_t>(x.typed_data()[0]);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Note, NoteImpl, ffi::Ffi::Bind().Arg<F32>());

static ffi::Error FailImpl(F32 x, ffi::Result<F32>, std::int32_t code) {
  if (code == 100) throw std::runtime_error("thrown by the handler");
  return ffi::Error(static_cast<ffi::ErrorCode>(code), "refused " + std::to_string(x.typed_data()[0]));
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Fail, FailImpl,
                              ffi::Ffi::Bind().Arg<F32>().Ret<F32>().Attr<std::int32_t>("code"));

// Completes on another thread.
static ffi::Future LaterImpl(F32 x, ffi::Result<F32> y, bool fail) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([x, y, fail, promise = std::move(promise)]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (std::size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = 2 * x.typed_data()[i];
    fail ? promise.SetError(ffi::Error::Internal("failed later")) : promise.SetAvailable();
  }).detach();
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Later, LaterImpl, ffi::Ffi::Bind().Arg<F32>().Ret<F32>().Attr<bool>("fail"));

// A counter that belongs to the call site in the program.
static std::int32_t alive = 0;
extern "C" std::int32_t NumStates() { return alive; }
struct Counter {
  static ffi::TypeId id;
  explicit Counter(std::int32_t start) : value(start) { ++alive; }
  ~Counter() { --alive; }
  std::int32_t value;
};
ffi::TypeId Counter::id = {};
static XLA_FFI_TypeInfo counter_info = {XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr,
                                        [](void* object) { delete static_cast<Counter*>(object); }};
extern "C" void* CounterId() { return &Counter::id; }
extern "C" void* CounterInfo() { return &counter_info; }

static ffi::ErrorOr<std::unique_ptr<Counter>> CounterNewImpl(std::int32_t start) {
  if (start < 0) return ffi::Unexpected(ffi::Error::InvalidArgument("a negative start"));
  return std::make_unique<Counter>(start);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(CounterNew, CounterNewImpl,
                              ffi::Ffi::BindInstantiate().Attr<std::int32_t>("start"));
static ffi::Error CountImpl(Counter* counter, F32 x, ffi::Result<F32> y, std::int32_t) {
  y->typed_data()[0] = x.typed_data()[0] + static_cast<float>(counter->value++);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    Count, CountImpl,
    ffi::Ffi::Bind().Ctx<ffi::State<Counter>>().Arg<F32>().Ret<F32>().Attr<std::int32_t>("start"));

// Uses what the context of a run offers: y = [device, run, sum of x, computed by tasks of the thread pool].
static ffi::Error ContextImpl(std::int32_t device, ffi::RunId run, ffi::ScratchAllocator scratch,
                              ffi::ThreadPool pool, F32 x, ffi::Result<F32> y) {
  float* const copy = static_cast<float*>(scratch.Allocate(x.size_bytes(), 64).value_or(nullptr));
  if (copy == nullptr || reinterpret_cast<std::uintptr_t>(copy) % 64 != 0)
    return ffi::Error::Internal("scratch");
  float sum = 0;
  for (std::size_t i = 0; i < x.element_count(); ++i) {
    pool.Schedule([&, i] {
      copy[i] = x.typed_data()[i];
      sum += copy[i];
    });
  }
  if (pool.num_threads() != 1) return ffi::Error::Internal("tasks may still run");
  y->typed_data()[0] = static_cast<float>(device);
  y->typed_data()[1] = static_cast<float>(run.run_id);
  y->typed_data()[2] = sum;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(ContextOf, ContextImpl,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .Ctx<ffi::RunId>()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<F32>()
                                  .Ret<F32>());

// Reports an interface version that does not match.
extern "C" XLA_FFI_Error* Old(XLA_FFI_CallFrame* frame) {
  auto* extension = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start);
  if (extension != nullptr) extension->metadata->api_version = {sizeof(XLA_FFI_Api_Version), nullptr, 0, 1};
  return nullptr;
}
