// The Python extension module jax_ipu._ipu: bindings of what libpjrt_ipu.so, the PJRT plugin, exports.
#include <dlfcn.h>

#include <exception>
#include <stdexcept>
#include <string>

#include "bindings/bindings.h"
#include "bindings/json.h"
#include "ipu_model/Model.hpp"
#include "runtime/executable/executable.h"
#include "runtime/process/processor.h"
#include "runtime/process/python_compiler.h"

namespace jax_ipu::bindings {

namespace {

// _ipu.Error(message) with attribute `code`, the PJRT status.
void RaiseError(PyObject* type, const Error& error) {
  nb::object exception = nb::borrow(type)(nb::str(error.what()));
  exception.attr("code") = static_cast<int>(error.code);
  PyErr_SetObject(type, exception.ptr());
}

void BindError(nb::module_& module) {
  PyObject* type = PyErr_NewExceptionWithDoc(
      "jax_ipu._ipu.Error", "An error with the PJRT status code `code`.", PyExc_RuntimeError, nullptr);
  module.attr("Error") = nb::steal(type);
  PyObject* out_of_memory = PyErr_NewExceptionWithDoc(
      "jax_ipu._ipu.OutOfMemory", "A program that is too large for the tiles.", type, nullptr);
  module.attr("OutOfMemory") = nb::steal(out_of_memory);
  PyObject* out_of_time = PyErr_NewExceptionWithDoc(
      "jax_ipu._ipu.OutOfTime", "Planning took longer than a Deadline allows.", type, nullptr);
  module.attr("OutOfTime") = nb::steal(out_of_time);
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void* payload) {
        try {
          std::rethrow_exception(pointer);
        } catch (const ipu_model::OutOfTime& error) {
          RaiseError(static_cast<PyObject*>(payload), Error(Code::kDeadlineExceeded, error.what()));
        }
      },
      out_of_time);
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void* payload) {
        try {
          std::rethrow_exception(pointer);
        } catch (const Error& error) {
          RaiseError(static_cast<PyObject*>(payload), error);
        }
      },
      type);
}

// The Poplar SDK defines the same symbols: its libraries take precedence if they were loaded globally.
void CheckLibrary() {
  using Concat = poplar::Tensor (*)(const poplar::Tensor&, const poplar::Tensor&, unsigned);
  Dl_info poplar{}, own{};
  dladdr(reinterpret_cast<const void*>(static_cast<Concat>(&poplar::concat)), &poplar);
  dladdr(reinterpret_cast<const void*>(&LibraryPath), &own);
  if (poplar.dli_fbase == own.dli_fbase) return;
  throw nb::import_error(("jax_ipu cannot be used together with " + std::string(poplar.dli_fname) +
                          ", which was loaded with RTLD_GLOBAL and defines Poplar's functions for the whole "
                          "process. Load it without RTLD_GLOBAL.")
                             .c_str());
}

}  // namespace
}  // namespace jax_ipu::bindings

NB_MODULE(_ipu, module) {
  if (const std::string missing = jax_ipu::MissingInstructions(); !missing.empty()) {
    throw nanobind::import_error(missing.c_str());
  }
  // The compiler callback is never released: PJRT may call it until the process ends.
  nanobind::set_leak_warnings(false);
  jax_ipu::bindings::CheckLibrary();
  module.def("library_path", &jax_ipu::LibraryPath);
  jax_ipu::bindings::BindError(module);
  jax_ipu::bindings::BindGraph(module);
  jax_ipu::bindings::BindExecutable(module);
  jax_ipu::bindings::BindCompile(module);
  jax_ipu::bindings::BindHostCallbacks(module);
  jax_ipu::bindings::BindFfiHandlers(module);
  jax_ipu::bindings::BindProcess(module);
  jax_ipu::bindings::BindProcessTransport(module);
  jax_ipu::bindings::BindTrace(module);
  jax_ipu::bindings::BindJson(module);
  jax_ipu::bindings::BindElementwise(module);
  jax_ipu::bindings::BindReduce(module);
  jax_ipu::bindings::BindWindow(module);
  jax_ipu::bindings::BindProduct(module);
  jax_ipu::bindings::BindConvolution(module);
  jax_ipu::bindings::BindIndex(module);
  jax_ipu::bindings::BindSort(module);
  jax_ipu::bindings::BindVertices(module);
  jax_ipu::bindings::BindFft(module);
  jax_ipu::bindings::BindLinearAlgebra(module);
  jax_ipu::bindings::BindRandom(module);
  jax_ipu::bindings::BindCollectives(module);
}
