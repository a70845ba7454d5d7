// Python: HostCallback, a function that programs may call back.
#include "runtime/host_calls/host_callbacks.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "runtime/executable/executable.h"

namespace jax_ipu::bindings {

bool InterpreterIsEnding() {
#if PY_VERSION_HEX >= 0x030D0000
  return !Py_IsInitialized() || Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

namespace {

nb::object ViewOf(void* data, std::size_t bytes, int access) {
  static char nothing = 0;
  char* memory = bytes == 0 ? &nothing : static_cast<char*>(data);
  return nb::steal(PyMemoryView_FromMemory(memory, static_cast<Py_ssize_t>(bytes), access));
}

// As the end of a traceback. The frames that Python has here are those of this package, around the user's
// call.
std::string Described(const nb::python_error& error) {
  return std::string(nb::str(nb::handle(error.type()).attr("__name__")).c_str()) + ": " +
         nb::str(error.value()).c_str();
}

// Called on a thread of the device, without the GIL.
void CallFunction(PyObject* function, const std::vector<HostCallbacks::Input>& inputs,
                  const std::vector<HostCallbacks::Output>& outputs) {
  if (InterpreterIsEnding()) {
    throw Error(Code::kCancelled, "A program calls back a Python function, but the interpreter is ending");
  }
  const nb::gil_scoped_acquire gil;
  try {
    nb::list in, out;
    for (const HostCallbacks::Input& input : inputs) {
      in.append(ViewOf(const_cast<void*>(input.data), input.bytes, PyBUF_READ));
    }
    for (const HostCallbacks::Output& output : outputs) {
      out.append(ViewOf(output.data, output.bytes, PyBUF_WRITE));
    }
    nb::borrow(function)(in, out);
  } catch (const nb::python_error& error) {
    throw Error(Code::kInternal, "A host callback raised an exception: " + Described(error));
  }
}

// Owns the function's registration, not the function: programs may call it after this object is gone.
class HostCallback {
 public:
  explicit HostCallback(const nb::callable& function) {
    DropUnused();
    Py_INCREF(function.ptr());
    const std::shared_ptr<PyObject> owner(function.ptr(), [](PyObject* object) { Py_DECREF(object); });
    id_ = HostCallbacks::Get().Add(
        [owner](const auto& inputs, const auto& outputs) { CallFunction(owner.get(), inputs, outputs); });
  }
  ~HostCallback() {
    HostCallbacks::Get().Release(id_);
    DropUnused();
  }
  HostCallback(const HostCallback&) = delete;
  HostCallback& operator=(const HostCallback&) = delete;
  std::uint64_t id() const { return id_; }

 private:
  // Called with the GIL held: destroying a Python function needs it.
  static void DropUnused() { HostCallbacks::Get().TakeUnused(); }
  std::uint64_t id_ = 0;
};

void WaitWithoutGil(const std::function<void()>& wait) {
  if (InterpreterIsEnding() || !PyGILState_Check()) return wait();
  const nb::gil_scoped_release release;
  wait();
}

}  // namespace

void BindHostCallbacks(nb::module_& module) {
  HostCallbacks::Get().SetWaiter(WaitWithoutGil);
  nb::class_<HostCallback>(
      module, "HostCallback",
      "Registers a function of this process, which gets the bytes of operands and of results to fill.")
      .def(nb::init<const nb::callable&>(), nb::arg("function"),
           nb::sig(
               "def __init__(self, function: collections.abc.Callable[[collections.abc.Sequence[memoryview], "
               "collections.abc.Sequence[memoryview]], None]) -> None"))
      .def_prop_ro("id", &HostCallback::id)
      .def(
          "__reduce__",
          [](const HostCallback&) {
            throw nb::type_error(
                "a program with callbacks (jax.pure_callback, io_callback, jax.debug) cannot be stored: it "
                "calls functions of this process");
          },
          nb::sig("def __reduce__(self) -> typing.NoReturn"));
}

}  // namespace jax_ipu::bindings
