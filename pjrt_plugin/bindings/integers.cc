#include "bindings/integers.h"

#include <utility>

namespace jax_ipu::bindings {

void BindIntegers(nb::module_& module) {
  const auto tuple = [](const Integers& self) {
    nb::list list;
    for (const std::int64_t value : self.values) list.append(value);
    return nb::tuple(list);
  };
  nb::class_<Integers>(module, "Integers", "A sequence of integers of 64 bits, to copy or to write as JSON.")
      .def(
          "__init__",
          [](Integers* self, std::vector<std::int64_t> values) { new (self) Integers{std::move(values)}; },
          nb::arg("values"))
      .def("__len__", [](const Integers& self) { return self.values.size(); })
      .def(
          "__iter__", [tuple](const Integers& self) { return nb::iter(tuple(self)); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[int]"))
      .def(
          "__eq__",
          [](const Integers& self, const nb::object& other) {
            Integers* that = nullptr;
            return nb::try_cast(other, that) && self.values == that->values;
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__repr__",
           [tuple](const Integers& self) {
             return "Integers(" + nb::cast<std::string>(nb::repr(tuple(self))) + ")";
           })
      .attr("__hash__") = nb::none();
}

}  // namespace jax_ipu::bindings
