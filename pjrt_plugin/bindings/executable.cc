// Python: Executable, with the structs that describe its arguments, results, calls and costs.
#include "runtime/executable/executable.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/executable_handle.h"
#include "bindings/fields.h"
#include "runtime/executable/executable_checks.h"

namespace jax_ipu::bindings {

ExecutableHandle MakeExecutable(const nb::kwargs& fields, std::string poplar_executable) {
  auto executable = std::make_shared<Executable>(FromKeywords<Executable>(fields));
  if (!poplar_executable.empty()) executable->poplar_executable = std::move(poplar_executable);
  const std::string problem = FindProblem(*executable);
  if (!problem.empty()) {
    throw Error(Code::kInvalidArgument,
                "The executable '" + executable->name + "' cannot be made: " + problem);
  }
  return {std::move(executable)};
}

namespace {

// (element type, shape) of every argument or result.
template <typename Specs>
nb::list Types(const Specs& specs) {
  nb::list types;
  for (const auto& spec : specs) {
    const std::vector<std::int64_t> shape = FromMemory(spec.tensor.shape, spec.major_to_minor);
    types.append(nb::make_tuple(NameOf(spec.tensor.type), nb::tuple(nb::cast(shape))));
  }
  return types;
}

template <typename Specs>
nb::list Shardings(const Specs& specs) {
  nb::list shardings;
  for (const auto& spec : specs) shardings.append(PythonBytes::Get(spec.sharding));
  return shardings;
}

}  // namespace

void BindExecutable(nb::module_& module) {
  BindFields<InputSpec>(module, "InputSpec",
                        "How one argument reaches the program. `dtype` and `shape` are those of memory.");
  BindFields<OutputSpec>(module, "OutputSpec", "How one result leaves the program.");
  BindFields<HostCallbackSpec>(module, "HostCallbackSpec",
                               "A function of the process that compiled the program, which calls it.");
  BindFields<FfiAttribute>(module, "FfiAttribute", "An attribute of a foreign function's call.");
  BindFields<FfiBuffer>(module, "FfiBuffer", "An operand or a result of a foreign function's call.");
  BindFields<FfiCallSpec>(module, "FfiCallSpec", "One place that calls a foreign function.");
  BindFields<CostReport>(module, "CostReport",
                         "Of one call of the main program: bytes, cycles of the device, and estimates.");
  BindFields<MemoryReport>(module, "MemoryReport",
                           "Bytes on the tiles. `max_tile` is the fullest tile; `*_bytes` are of all tiles.");
  nb::class_<ExecutableHandle> bound(module, "Executable",
                                     "A compiled program as plain data. Every field is a keyword argument; "
                                     "Error(INVALID_ARGUMENT) where they do not fit together.");
  bound.def(
      "__init__",
      [](ExecutableHandle* self, const nb::kwargs& fields) {
        new (self) ExecutableHandle(MakeExecutable(fields));
      },
      nb::sig(InitSignature<Executable>()));
  const Executable defaults;
  ForEachField(defaults, [&](const char* field, const auto&, auto python) {
    bound.def_prop_ro(
        field, [field](const ExecutableHandle& self) { return GetField(*self.executable, field); },
        nb::sig(GetSignature<decltype(python)>(field)));
  });
  bound.def_prop_ro("cycles", [](const ExecutableHandle& self) { return self.executable->cost.cycles; })
      .def_prop_ro("fullest_tile_bytes",
                   [](const ExecutableHandle& self) { return self.executable->memory.max_tile_bytes; })
      .def_prop_ro(
          "input_types", [](const ExecutableHandle& self) { return Types(self.executable->inputs); },
          "Element type and shape of every argument.",
          nb::sig("def input_types(self) -> list[tuple[str, tuple[int, ...]]]"))
      .def_prop_ro(
          "output_types", [](const ExecutableHandle& self) { return Types(self.executable->outputs); },
          "Element type and shape of every result.",
          nb::sig("def output_types(self) -> list[tuple[str, tuple[int, ...]]]"))
      .def_prop_ro(
          "input_shardings", [](const ExecutableHandle& self) { return Shardings(self.executable->inputs); },
          "The serialised xla.OpSharding of every argument; empty where there is none.",
          nb::sig("def input_shardings(self) -> list[bytes]"))
      .def_prop_ro(
          "output_shardings",
          [](const ExecutableHandle& self) { return Shardings(self.executable->outputs); },
          "The serialised xla.OpSharding of every result; empty where there is none.",
          nb::sig("def output_shardings(self) -> list[bytes]"))
      .def("serialize",
           [](const ExecutableHandle& self) {
             const std::string data = self.executable->Serialize();
             return nb::bytes(data.data(), data.size());
           })
      .def_static(
          "deserialize",
          [](const nb::bytes& data) {
            return ExecutableHandle{
                std::make_shared<const Executable>(Executable::Deserialize({data.c_str(), data.size()}))};
          },
          nb::arg("data"));
}

}  // namespace jax_ipu::bindings
