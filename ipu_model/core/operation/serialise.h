// Binary serialisation. Reading checks every bound: truncated or damaged data throws SerialiseError. It never
// crashes, and never allocates much more memory than the length of the data.
#ifndef IPU_MODEL_CORE_OPERATION_SERIALISE_H_
#define IPU_MODEL_CORE_OPERATION_SERIALISE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/mapping/box.h"
#include "core/mapping/mapping.h"
#include "kernels/elementwise/program/expression.h"

namespace ipu_model {

class SerialiseError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Little-endian; integers are zigzag varints.
class Writer {
 public:
  // Writes any integer, bool or enum.
  template <typename T, std::enable_if_t<std::is_integral_v<T> || std::is_enum_v<T>, int> = 0>
  void Write(T value) {
    WriteInteger(static_cast<std::int64_t>(value));
  }
  void Write(double value);
  void Write(float value);
  void Write(std::string_view value);
  void Write(const std::string& value) { Write(std::string_view(value)); }
  void Write(const char* value) { Write(std::string_view(value)); }
  void Write(const Box& value);
  void Write(const View& value);
  void Write(const Grid& value);
  void Write(const MappedInterval& value);
  void Write(const Mapping& value, std::int64_t num_elements);
  void Write(const Expression& value);
  void Write(const Instruction& value);
  void Write(const ScalarConstant& value);
  // Writes the length, then the elements; also for Shape.
  template <typename T>
  void Write(const std::vector<T>& values) {
    WriteInteger(static_cast<std::int64_t>(values.size()));
    for (const auto& v : values) Write(static_cast<const T&>(v));
  }
  // Writes the length, then the raw bytes.
  void WriteBytes(const void* data, std::size_t size);

  const std::string& data() const { return data_; }
  std::string Take() { return std::move(data_); }

 private:
  void WriteInteger(std::int64_t value);
  std::string data_;
};

// Reads what Writer wrote, in the same order: `auto n = reader.Read<int>();`.
class Reader {
 public:
  explicit Reader(std::string_view data) : data_(data) {}

  // Checks integers against the range of T, and bool and enums (through kCount) against their values.
  template <typename T>
  T Read() {
    if constexpr (std::is_same_v<T, bool>) {
      return ReadInteger(0, 1) != 0;
    } else if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(ReadInteger(0, static_cast<std::int64_t>(T::kCount) - 1));
    } else if constexpr (std::is_integral_v<T>) {
      if constexpr (sizeof(T) == 8) {
        return static_cast<T>(
            ReadInteger(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
      } else {
        return static_cast<T>(ReadInteger(std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
      }
    } else {
      T value;
      ReadInto(&value);
      return value;
    }
  }
  std::int64_t ReadInteger(std::int64_t min, std::int64_t max);
  // Reads the number of elements that follow; never more than the remaining bytes.
  std::size_t ReadLength();
  Mapping ReadMapping(std::int64_t num_elements);
  std::string_view ReadBytes();

  std::size_t remaining() const { return data_.size() - position_; }
  [[noreturn]] void Fail(const std::string& reason) const;  // throws SerialiseError

 private:
  template <typename T>
  void ReadInto(std::vector<T>* out) {
    const std::size_t n = ReadLength();
    for (std::size_t i = 0; i < n; ++i) out->push_back(Read<T>());
  }
  void ReadInto(double* out);
  void ReadInto(float* out);
  void ReadInto(std::string* out);
  void ReadInto(Box* out);
  void ReadInto(View* out);
  void ReadInto(Grid* out);
  void ReadInto(MappedInterval* out);
  void ReadInto(Expression* out);
  void ReadInto(Instruction* out);
  void ReadInto(ScalarConstant* out);
  const unsigned char* Bytes(std::size_t size);

  std::string_view data_;
  std::size_t position_ = 0;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_OPERATION_SERIALISE_H_
