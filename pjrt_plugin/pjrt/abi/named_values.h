// A list of PJRT_NamedValue with the strings it points to.
#ifndef JAX_IPU_PJRT_ABI_NAMED_VALUES_H_
#define JAX_IPU_PJRT_ABI_NAMED_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "pjrt/abi/c_api.h"

namespace jax_ipu::pjrt {

class NamedValues {
 public:
  NamedValues() = default;
  NamedValues(const NamedValues&) = delete;  // the values point into this object
  NamedValues& operator=(const NamedValues&) = delete;

  void Add(const std::string& name, const std::string& value);
  void Add(const std::string& name, std::int64_t value);
  void Add(const std::string& name, std::vector<std::int64_t> value);
  void Add(const std::string& name, float value);
  void Add(const std::string& name, bool value);

  const PJRT_NamedValue* data() const { return values_.data(); }
  std::size_t size() const { return values_.size(); }

 private:
  PJRT_NamedValue& Append(const std::string& name, PJRT_NamedValue_Type type, std::size_t size);

  std::vector<PJRT_NamedValue> values_;
  std::deque<std::string> strings_;  // elements do not move
  std::deque<std::vector<std::int64_t>> lists_;
};

// The option of that name in a list that a caller passed, or the default. Throws Error when it has another
// type.
std::string StringOption(const PJRT_NamedValue* options, std::size_t size, const std::string& name,
                         const std::string& otherwise);
std::int64_t IntegerOption(const PJRT_NamedValue* options, std::size_t size, const std::string& name,
                           std::int64_t otherwise);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_ABI_NAMED_VALUES_H_
