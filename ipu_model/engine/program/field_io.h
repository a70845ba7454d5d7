// Writes and reads structs that have a function Fields, such as Report.
#ifndef IPU_MODEL_ENGINE_PROGRAM_FIELD_IO_H_
#define IPU_MODEL_ENGINE_PROGRAM_FIELD_IO_H_

#include <string>
#include <type_traits>
#include <vector>

#include "core/operation/serialise.h"

namespace ipu_model {

struct FieldWriter {
  Writer& writer;
  template <typename T>
  void operator()(const char*, const T& value) {
    Put(value);
  }
  template <typename T>
  void Integers(const char*, const T& value) {
    Put(value);
  }
  template <typename T>
  void Put(const T& value) {
    if constexpr (std::is_class_v<T> && !std::is_same_v<T, std::string>) {
      T::Fields(value, *this);
    } else {
      writer.Write(value);
    }
  }
  template <typename T>
  void Put(const std::vector<T>& values) {
    writer.Write(values.size());
    for (const T& value : values) Put(value);
  }
};

struct FieldReader {
  Reader& reader;
  template <typename T>
  void operator()(const char*, T& value) {
    Get(value);
  }
  template <typename T>
  void Integers(const char*, T& value) {
    Get(value);
  }
  template <typename T>
  void Get(T& value) {
    if constexpr (std::is_class_v<T> && !std::is_same_v<T, std::string>) {
      T::Fields(value, *this);
    } else {
      value = reader.Read<T>();
    }
  }
  template <typename T>
  void Get(std::vector<T>& values) {
    for (std::size_t n = reader.ReadLength(); n > 0; --n) Get(values.emplace_back());
  }
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_PROGRAM_FIELD_IO_H_
