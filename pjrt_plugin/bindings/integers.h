// Python: many integers as one object. A tuple of them takes a hundred times as long to make.
#ifndef JAX_IPU_BINDINGS_INTEGERS_H_
#define JAX_IPU_BINDINGS_INTEGERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/bindings.h"

namespace jax_ipu::bindings {

struct Integers {
  std::vector<std::int64_t> values;
};

void BindIntegers(nb::module_& module);

// The Python form of fields that their struct names with visit.Integers; see bindings/fields.h.
template <typename T>
struct PythonIntegers;
template <>
struct PythonIntegers<std::vector<std::int64_t>> {
  static std::string Type() { return "Integers"; }
  static std::string Default(const std::vector<std::int64_t>&) { return "..."; }
  static nb::object Get(const std::vector<std::int64_t>& values) { return nb::cast(Integers{values}); }
  static void Set(const nb::handle& from, std::vector<std::int64_t>& values) {
    values = nb::cast<const Integers&>(from).values;
  }
};
template <>
struct PythonIntegers<std::vector<std::vector<std::int64_t>>> {
  using Row = PythonIntegers<std::vector<std::int64_t>>;
  static std::string Type() { return "collections.abc.Sequence[Integers]"; }
  static std::string Default(const std::vector<std::vector<std::int64_t>>&) { return "()"; }
  static nb::object Get(const std::vector<std::vector<std::int64_t>>& rows) {
    nb::list list;
    for (const auto& row : rows) list.append(Row::Get(row));
    return nb::tuple(list);
  }
  static void Set(const nb::handle& from, std::vector<std::vector<std::int64_t>>& rows) {
    rows.clear();
    for (const nb::handle row : from) Row::Set(row, rows.emplace_back());
  }
};

}  // namespace jax_ipu::bindings

#endif  // JAX_IPU_BINDINGS_INTEGERS_H_
