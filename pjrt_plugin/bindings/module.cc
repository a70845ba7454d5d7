// The Python extension module jax_ipu._ipu. The same library is the PJRT plugin (pjrt/api.cc exports
// GetPjrtApi).
#include <exception>
#include <stdexcept>

#include "bindings/bindings.h"
#include "runtime/executable.h"

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

}  // namespace
}  // namespace jax_ipu::bindings

NB_MODULE(_ipu, module) {
  // The compiler callback is released by nobody: PJRT may call it until the process ends.
  nanobind::set_leak_warnings(false);
  jax_ipu::bindings::BindError(module);
  jax_ipu::bindings::BindGraph(module);
  jax_ipu::bindings::BindCompile(module);
  jax_ipu::bindings::BindHostCallbacks(module);
  jax_ipu::bindings::BindFfiHandlers(module);
  jax_ipu::bindings::BindProcessExchange(module);
  jax_ipu::bindings::BindElementwise(module);
  jax_ipu::bindings::BindReduce(module);
  jax_ipu::bindings::BindWindow(module);
  jax_ipu::bindings::BindProduct(module);
  jax_ipu::bindings::BindConvolution(module);
  jax_ipu::bindings::BindIndex(module);
  jax_ipu::bindings::BindSort(module);
  jax_ipu::bindings::BindFft(module);
  jax_ipu::bindings::BindLinearAlgebra(module);
  jax_ipu::bindings::BindRandom(module);
  jax_ipu::bindings::BindCollectives(module);
}
