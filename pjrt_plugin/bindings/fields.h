// Python classes for the plain structs of the runtime, made from their Fields functions: keyword arguments,
// attributes, comparison, repr, and the signatures from which the type stub is generated.
#ifndef JAX_IPU_BINDINGS_FIELDS_H_
#define JAX_IPU_BINDINGS_FIELDS_H_

#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/integers.h"
#include "ipu_model/Model.hpp"
#include "runtime/executable/executable.h"

namespace jax_ipu::bindings {

// The Python form of a field of type T: its type in signatures, and its conversions. Structs have their own
// classes.
template <typename T, typename = void>
struct PythonField {
  static std::string Type() { return nb::cast<std::string>(nb::type<T>().attr("__name__")); }
  static std::string Default(const T&) { return "..."; }
  static nb::object Get(const T& value) { return nb::cast(value, nb::rv_policy::copy); }
  static void Set(const nb::handle& from, T& value) { value = nb::cast<const T&>(from); }
};
template <typename T>
struct PythonField<T, std::enable_if_t<std::is_arithmetic_v<T>>> {
  static std::string Type() {
    return std::is_same_v<T, bool> ? "bool" : std::is_integral_v<T> ? "int" : "float";
  }
  static std::string Default(const T& value) { return nb::cast<std::string>(nb::repr(nb::cast(value))); }
  static nb::object Get(const T& value) { return nb::cast(value); }
  static void Set(const nb::handle& from, T& value) { value = nb::cast<T>(from); }
};
template <>
struct PythonField<std::string> {
  static std::string Type() { return "str"; }
  static std::string Default(const std::string&) { return "''"; }
  static nb::object Get(const std::string& value) { return nb::cast(value); }
  static void Set(const nb::handle& from, std::string& value) { value = nb::cast<std::string>(from); }
};
template <>
struct PythonField<DType> {
  static std::string Type() { return "str"; }
  static std::string Default(const DType& value) { return std::string("'") + NameOf(value) + "'"; }
  static nb::object Get(const DType& value) { return nb::str(NameOf(value)); }
  static void Set(const nb::handle& from, DType& value) {
    value = ipu_model::DTypeOf(TypeNamed(nb::cast<std::string>(from)));
  }
};
template <>
struct PythonField<FfiAttribute::Kind> {
  using Kind = FfiAttribute::Kind;
  static constexpr const char* kNames[] = {"scalar", "array", "string", "dictionary"};
  static std::string Type() { return "str"; }
  static std::string Default(const Kind&) { return "'dictionary'"; }
  static nb::object Get(const Kind& value) { return nb::str(kNames[static_cast<std::size_t>(value)]); }
  static void Set(const nb::handle& from, Kind& value) {
    const auto name = nb::cast<std::string>(from);
    for (std::size_t i = 0; i < static_cast<std::size_t>(Kind::kCount); ++i) {
      if (name != kNames[i]) continue;
      value = static_cast<Kind>(i);
      return;
    }
    throw std::invalid_argument("unknown kind of attribute '" + name + "'");
  }
};
template <typename T>
struct PythonField<std::vector<T>> {
  static std::string Type() { return "collections.abc.Sequence[" + PythonField<T>::Type() + "]"; }
  static std::string Default(const std::vector<T>&) { return "()"; }
  static nb::object Get(const std::vector<T>& values) {
    nb::list list;
    for (const T& value : values) list.append(PythonField<T>::Get(value));
    return nb::tuple(list);
  }
  static void Set(const nb::handle& from, std::vector<T>& values) {
    values.clear();
    for (const nb::handle item : from) PythonField<T>::Set(item, values.emplace_back());
  }
};
struct PythonBytes {
  static std::string Type() { return "bytes"; }
  static std::string Default(const std::string&) { return "b''"; }
  static nb::object Get(const std::string& value) { return nb::bytes(value.data(), value.size()); }
  static void Set(const nb::handle& from, std::string& value) {
    const auto bytes = nb::cast<nb::bytes>(from);
    value.assign(bytes.c_str(), bytes.size());
  }
};

template <typename F>
struct FieldVisitor {
  F& visit;
  template <typename T>
  void operator()(const char* name, T& value) {
    visit(name, value, PythonField<std::remove_const_t<T>>());
  }
  template <typename T>
  void Bytes(const char* name, T& value) {
    visit(name, value, PythonBytes());
  }
  template <typename T>
  void Integers(const char* name, T& value) {
    visit(name, value, PythonIntegers<std::remove_const_t<T>>());
  }
};
// Calls `visit(name, field, PythonField, PythonBytes or PythonIntegers)` for every field.
template <typename Struct, typename F>
void ForEachField(Struct& self, F&& visit) {
  FieldVisitor<std::remove_reference_t<F>> visitor{visit};
  std::remove_const_t<Struct>::Fields(self, visitor);
}

template <typename Struct>
nb::object GetField(const Struct& self, const std::string& wanted) {
  nb::object result;
  ForEachField(self, [&](const char* name, const auto& value, auto python) {
    if (wanted == name) result = decltype(python)::Get(value);
  });
  return result;
}

template <typename Struct>
void SetField(Struct& self, const std::string& wanted, const nb::handle& from) {
  bool found = false;
  ForEachField(self, [&](const char* name, auto& value, auto python) {
    if (wanted != name) return;
    found = true;
    try {
      decltype(python)::Set(from, value);
    } catch (const std::bad_cast&) {
      throw nb::type_error(("the field '" + wanted + "' takes " + decltype(python)::Type()).c_str());
    }
  });
  if (!found) throw nb::type_error(("there is no field '" + wanted + "'").c_str());
}

template <typename Struct>
Struct FromKeywords(const nb::kwargs& keywords) {
  Struct self;
  for (const auto& [name, value] : keywords) SetField(self, nb::cast<std::string>(name), value);
  return self;
}

// Text that lives as long as the process: nanobind keeps pointers to signatures.
inline const char* Lasting(std::string text) {
  static std::deque<std::string>& texts = *std::make_unique<std::deque<std::string>>().release();
  return texts.emplace_back(std::move(text)).c_str();
}

// "def __init__(self, *, dtype: str = 'f32', ...) -> None"
template <typename Struct>
const char* InitSignature() {
  std::string arguments;
  const Struct defaults;
  ForEachField(defaults, [&](const char* name, const auto& value, auto python) {
    arguments += std::string(", ") + name + ": " + python.Type() + " = " + python.Default(value);
  });
  return Lasting("def __init__(self, *" + arguments + ") -> None");
}
template <typename Python>
const char* GetSignature(const char* name) {
  std::string type = Python::Type();
  // Reading the attribute returns a tuple.
  const std::string sequence = "collections.abc.Sequence[";
  if (type.compare(0, sequence.size(), sequence) == 0)
    type = "tuple[" + type.substr(sequence.size(), type.size() - sequence.size() - 1) + ", ...]";
  return Lasting(std::string("def ") + name + "(self) -> " + type);
}

template <typename Struct>
nb::class_<Struct> BindFields(nb::module_& module, const char* name, const char* documentation) {
  nb::class_<Struct> bound(module, name, documentation);
  bound.def(
      "__init__",
      [](Struct* self, const nb::kwargs& keywords) { new (self) Struct(FromKeywords<Struct>(keywords)); },
      nb::sig(InitSignature<Struct>()));
  const Struct defaults;
  ForEachField(defaults, [&](const char* field, const auto&, auto python) {
    const char* type = Lasting(python.Type());
    bound.def_prop_rw(
        field, [field](const Struct& self) { return GetField(self, field); },
        [field](Struct& self, const nb::object& value) { SetField(self, field, value); },
        nb::for_getter(nb::sig(GetSignature<decltype(python)>(field))),
        nb::for_setter(
            nb::sig(Lasting(std::string("def ") + field + "(self, value: " + type + ", /) -> None"))));
  });
  bound.def(
      "__eq__",
      [](const Struct& self, const nb::object& other) {
        Struct* that = nullptr;
        if (!nb::try_cast(other, that)) return false;
        bool equal = true;
        ForEachField(self, [&](const char* field, const auto& value, auto python) {
          equal = equal && decltype(python)::Get(value).equal(GetField(*that, field));
        });
        return equal;
      },
      nb::sig("def __eq__(self, other: object, /) -> bool"));
  bound.attr("__hash__") = nb::none();
  bound.def("__repr__", [name](const Struct& self) {
    std::string text;
    ForEachField(self, [&](const char* field, const auto& value, auto python) {
      text += (text.empty() ? "" : ", ") + std::string(field) + "=" +
              nb::cast<std::string>(nb::repr(decltype(python)::Get(value)));
    });
    return std::string(name) + "(" + text + ")";
  });
  return bound;
}

}  // namespace jax_ipu::bindings

#endif  // JAX_IPU_BINDINGS_FIELDS_H_
