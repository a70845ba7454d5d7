// Reports are mostly lists of integers, which json.dumps writes one string at a time.
#include "bindings/json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/integers.h"

namespace jax_ipu::bindings {
namespace {

// Writes what json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False) does.
class JsonWriter {
 public:
  void Write(PyObject* value) {
    if (PyLong_CheckExact(value)) return Integer(value);
    if (PyUnicode_Check(value)) return String(value);
    if (PyList_Check(value) || PyTuple_Check(value)) return List(value);
    if (PyDict_Check(value)) return Dict(value);
    if (value == Py_None) return Raw("null");
    if (PyBool_Check(value)) return Raw(value == Py_True ? "true" : "false");
    if (PyFloat_Check(value)) return Real(PyFloat_AS_DOUBLE(value));
    Integers* integers = nullptr;
    if (nb::try_cast(nb::handle(value), integers)) return Row(*integers);
    throw nb::type_error(
        "JSON has dictionaries with strings as keys, lists, strings, numbers, booleans and None");
  }
  std::string Take() && { return std::move(out_); }

 private:
  void Raw(std::string_view text) { out_ += text; }

  void Number(std::int64_t value) {
    char text[24];
    out_.append(text, std::to_chars(text, text + sizeof(text), value).ptr);
  }

  void Integer(PyObject* value) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0) return Number(number);
    Raw(nb::cast<std::string>(nb::repr(nb::handle(value))));
  }

  void Row(const Integers& row) {
    out_ += '[';
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      if (i > 0) out_ += ',';
      Number(row.values[i]);
    }
    out_ += ']';
  }

  void Real(double value) {
    if (!std::isfinite(value)) throw std::invalid_argument("JSON has no infinite numbers and no NaN");
    char* const text = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, nullptr);
    if (text == nullptr) throw nb::python_error();
    out_ += text;
    PyMem_Free(text);
  }

  void String(PyObject* value) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(value, &size);
    if (text == nullptr) throw nb::python_error();
    out_ += '"';
    Py_ssize_t written = 0;  // what needs no escape is copied at once
    for (Py_ssize_t i = 0; i < size; ++i) {
      const auto c = static_cast<unsigned char>(text[i]);
      if (c >= 0x20 && c != '"' && c != '\\') continue;
      out_.append(text + written, text + i);
      written = i + 1;
      Escape(c);
    }
    out_.append(text + written, text + size);
    out_ += '"';
  }

  void Escape(unsigned char c) {
    constexpr std::string_view kSpecial = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
    const std::size_t i = kSpecial.find(static_cast<char>(c));
    if (i != std::string_view::npos) {
      out_ += '\\';
      out_ += kLetters[i];
      return;
    }
    std::array<char, 8> code;
    std::snprintf(code.data(), code.size(), "\\u%04x", unsigned{c});
    out_ += code.data();
  }

  void List(PyObject* value) {
    const Nesting nesting;
    out_ += '[';
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      if (i > 0) out_ += ',';
      Write(PySequence_Fast_GET_ITEM(value, i));
    }
    out_ += ']';
  }

  void Dict(PyObject* value) {
    const Nesting nesting;
    out_ += '{';
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    for (bool is_first = true; PyDict_Next(value, &position, &key, &item) != 0; is_first = false) {
      if (!PyUnicode_Check(key)) throw nb::type_error("the keys of a JSON object are strings");
      if (!is_first) out_ += ',';
      String(key);
      out_ += ':';
      Write(item);
    }
    out_ += '}';
  }

  // A RecursionError instead of an exhausted stack.
  struct Nesting {
    Nesting() {
      if (Py_EnterRecursiveCall(" while writing JSON") != 0) throw nb::python_error();
    }
    ~Nesting() { Py_LeaveRecursiveCall(); }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
  };

  std::string out_;
};

}  // namespace

void BindJson(nb::module_& module) {
  module.def(
      "json_text",
      [](const nb::object& value) {
        JsonWriter writer;
        writer.Write(value.ptr());
        const std::string text = std::move(writer).Take();
        return nb::bytes(text.data(), text.size());
      },
      nb::arg("value"),
      "JSON of dictionaries with strings as keys, lists, Integers, strings, integers, finite floats, "
      "booleans "
      "and None, as UTF-8 without spaces. Raises TypeError or ValueError for others.");
}

}  // namespace jax_ipu::bindings
