// Python: recordings of what the devices do.
#include "runtime/recording/trace.h"

#include <memory>
#include <string>

#include "bindings/bindings.h"
#include "profiling/chrome_trace.h"
#include "profiling/trace_planes.h"
#include "profiling/xspace.h"

namespace jax_ipu::bindings {
namespace {

template <typename Serialize>
nb::bytes Bytes(Serialize&& serialize) {
  std::string data;
  {
    const nb::gil_scoped_release release;
    data = serialize();
  }
  return nb::bytes(data.data(), data.size());
}

}  // namespace

void BindTrace(nb::module_& module) {
  nb::class_<Trace>(module, "Trace", "Records what the devices of this process do, until `stop`.")
      .def(nb::init<>())
      .def("stop", &Trace::Stop, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "chrome_trace",
          [](const Trace& self) { return Bytes([&] { return SerializeChromeTrace(MakePlanes(self, {})); }); },
          "Chrome's trace events as JSON. Call `stop` before.")
      .def(
          "xspace",
          [](const Trace& self, bool as_tpu) {
            PlaneOptions options;
            options.as_tpu = as_tpu;
            return Bytes([&] { return SerializeXSpace(MakePlanes(self, options), self.begin_ns()); });
          },
          nb::arg("as_tpu") = false, "A serialised tensorflow.profiler.XSpace. Call `stop` before.");
}

}  // namespace jax_ipu::bindings
