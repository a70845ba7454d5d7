// Serialised form of an Executable: a header, then the fields in the order of Fields.
#include "runtime/executable/executable.h"

#include <cstring>
#include <type_traits>

#include "ipu_model/Stored.hpp"
#include "runtime/executable/executable_checks.h"

namespace jax_ipu {
namespace {

constexpr std::string_view kMagic = "JAXIPUEX";

[[noreturn]] void Refuse(const std::string& reason) {
  throw Error(Code::kInvalidArgument, "Cannot load serialised IPU executable: " + reason +
                                          ". Compile the program again (or clear the compilation cache).");
}

class Writer {
 public:
  template <typename T>
  void operator()(const char*, const T& value) {
    Put(value);
  }
  void Bytes(const char*, const std::string& value) { Put(value); }
  std::string Take() { return std::move(bytes_); }

 private:
  template <typename T>
  void Put(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    } else {
      T::Fields(value, *this);
    }
  }
  void Put(const std::string& value) {
    Put(std::uint64_t{value.size()});
    bytes_.append(value);
  }
  template <typename T>
  void Put(const std::vector<T>& values) {
    Put(std::uint64_t{values.size()});
    for (const T& value : values) Put(value);
  }
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  void operator()(const char* name, T& value) {
    field_ = name;
    Get(value);
  }
  void Bytes(const char* name, std::string& value) { (*this)(name, value); }
  bool AtEnd() const { return bytes_.empty(); }

 private:
  // Limit on the nesting of attributes: reading and destroying them is recursive.
  static constexpr int kMaxDepth = 100;

  template <typename T>
  void Get(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      std::uint8_t byte = 0;
      Get(byte);
      if (byte > 1) Fail("is neither true nor false");
      value = byte != 0;
    } else if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number = 0;
      Get(number);
      if (number >= static_cast<std::underlying_type_t<T>>(T::kCount)) Fail("has an unknown value");
      value = static_cast<T>(number);
    } else if constexpr (std::is_arithmetic_v<T>) {
      std::memcpy(&value, Take(sizeof(T)).data(), sizeof(T));
    } else {
      if (++depth_ > kMaxDepth) Fail("is nested too deeply");
      T::Fields(value, *this);
      --depth_;
    }
  }
  // A length is never larger than the data that follows it, so damage cannot ask for much memory.
  std::size_t GetSize() {
    std::uint64_t n = 0;
    Get(n);
    if (n > bytes_.size()) Fail("is longer than the data that follows it");
    return static_cast<std::size_t>(n);
  }
  void Get(std::string& value) { value = Take(GetSize()); }
  template <typename T>
  void Get(std::vector<T>& values) {
    const std::size_t n = GetSize();
    values.clear();
    for (std::size_t i = 0; i < n; ++i) Get(values.emplace_back());
  }
  std::string_view Take(std::size_t n) {
    if (n > bytes_.size()) Fail("is not complete");
    const std::string_view taken = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return taken;
  }
  [[noreturn]] void Fail(const std::string& what) const { Refuse("the field '" + field_ + "' " + what); }

  std::string_view bytes_;
  std::string field_;
  int depth_ = 0;
};

}  // namespace

std::string Executable::Serialize(const std::vector<int>& placed) const {
  Writer writer;
  Fields(*this, writer);
  writer("devices", placed);
  return ipu_model::Seal(kMagic, writer.Take());
}

Executable Executable::Deserialize(std::string_view bytes) {
  std::string_view content;
  try {
    content = ipu_model::Unseal(kMagic, bytes);
  } catch (const std::runtime_error& error) {
    Refuse(error.what());
  }
  Executable executable;
  Reader reader(content);
  Fields(executable, reader);
  reader("devices", executable.devices);
  if (!reader.AtEnd()) Refuse("it has unread content");
  const std::string problem = FindProblem(executable);
  if (!problem.empty()) Refuse(problem);
  return executable;
}

}  // namespace jax_ipu
