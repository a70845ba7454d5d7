// Python: the transport that carries tensors between processes.
#include "runtime/process/process_transport.h"

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "runtime/executable/executable.h"
#include "runtime/process/registry.h"

namespace jax_ipu::bindings {
namespace {

// Calls a Python function on a thread of a device, which holds the GIL for the call only.
template <typename MakeArgument>
void CallTransport(PyObject* function, MakeArgument make_argument) {
  if (InterpreterIsEnding()) {
    throw Error(Code::kCancelled,
                "A program communicates with another process, but the interpreter is ending");
  }
  const nb::gil_scoped_acquire gil;
  try {
    nb::borrow(function)(make_argument());
  } catch (const nb::python_error& error) {
    const nb::handle value = error.value();
    if (nb::hasattr(value, "code") && nb::isinstance<nb::int_>(value.attr("code")))
      throw Error(static_cast<Code>(nb::cast<int>(value.attr("code"))),
                  nb::cast<std::string>(nb::str(value)));
    throw Error(Code::kInternal, std::string("The transport between processes failed: ") + error.what());
  }
}

// (process, send tag, address and bytes to send, receive tag, address and bytes to fill) of each message.
nb::list MessageList(const std::vector<ProcessMessage>& messages) {
  nb::list list;
  for (const ProcessMessage& message : messages) {
    list.append(nb::make_tuple(
        message.process, message.send_tag, reinterpret_cast<std::uintptr_t>(message.out), message.out_bytes,
        message.receive_tag, reinterpret_cast<std::uintptr_t>(message.in), message.in_bytes));
  }
  return list;
}

void Set(const nb::callable& carry, const nb::callable& fail) {
  // Never released: devices may use the functions until the process ends, which is after the interpreter.
  PyObject* const carry_function = carry.ptr();
  PyObject* const fail_function = fail.ptr();
  Py_INCREF(carry_function);
  Py_INCREF(fail_function);
  SetProcessTransport({[carry_function](const std::vector<ProcessMessage>& messages) {
                         CallTransport(carry_function, [&] { return MessageList(messages); });
                       },
                       [fail_function](const std::string& reason) {
                         if (InterpreterIsEnding()) return;
                         CallTransport(fail_function, [&] { return nb::str(reason.c_str()); });
                       }});
}

}  // namespace

void BindProcessTransport(nb::module_& module) {
  module.def(
      "set_process_transport", &Set, nb::arg("carry"), nb::arg("fail"),
      nb::sig("def set_process_transport(carry: collections.abc.Callable[[list[tuple[int, int, int, int, "
              "int, int, int]]], None], fail: collections.abc.Callable[[str], None]) -> None"),
      "Sets what moves data between processes. `carry` gets (process, send tag, address and bytes "
      "to send, receive tag, address and bytes to fill) of each message, and `fail` a reason.");
}

}  // namespace jax_ipu::bindings
