// Python: what holds for the whole process, such as signals (Ctrl-C) and forks.
#include "bindings/bindings.h"
#include "ipu_model/Model.hpp"
#include "runtime/device/interrupt.h"
#include "runtime/executable/executable_versions.h"
#include "runtime/process/fork.h"

namespace jax_ipu::bindings {
namespace {

// Raises the exception of a signal handler again, in the interpreter's own loop.
int RaiseAgain(void* exception) {
  PyObject* value = static_cast<PyObject*>(exception);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value)), value);
  Py_DECREF(value);
  return -1;
}

// Called without the GIL, on any thread; only Python's main thread has signals to handle.
bool HasInterrupt(unsigned long main_thread) {
  if (PyThread_get_thread_ident() != main_thread || InterpreterIsEnding()) return false;
  const nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return false;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  Py_AddPendingCall(&RaiseAgain, value);
  return true;
}

}  // namespace

void BindProcess(nb::module_& module) {
  const auto main_thread =
      nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  SetInterruptCheck([main_thread] { return HasInterrupt(main_thread); });
  module.def("cancel_runs", &CancelRuns, nb::call_guard<nb::gil_scoped_release>());
  module.def("is_forked_child", &IsForkedChild);
  module.def("refuse_in_forked_child", &RefuseInForkedChild);
  module.def("hide_executable_versions", &HideExecutableVersions);
  module.def("compile_codelets", &ipu_model::CompileCodelets, nb::arg("paths"), nb::arg("flags"),
             nb::arg("output"), nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace jax_ipu::bindings
