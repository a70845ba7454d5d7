// NamedValues and options.
#include "pjrt/abi/named_values.h"

#include <string_view>
#include <utility>

#include "runtime/executable/executable.h"

namespace jax_ipu::pjrt {
namespace {

const PJRT_NamedValue* Find(const PJRT_NamedValue* options, std::size_t size, const std::string& name,
                            PJRT_NamedValue_Type type) {
  for (std::size_t i = 0; i < size; ++i) {
    if (std::string_view(options[i].name, options[i].name_size) != name) continue;
    if (options[i].type != type) {
      throw Error(Code::kInvalidArgument, "IPU client option '" + name + "' must be " +
                                              (type == PJRT_NamedValue_kString ? "a string" : "an integer"));
    }
    return &options[i];
  }
  return nullptr;
}

}  // namespace

PJRT_NamedValue& NamedValues::Append(const std::string& name, PJRT_NamedValue_Type type, std::size_t size) {
  strings_.push_back(name);
  PJRT_NamedValue value = {};
  value.struct_size = PjrtStructSize<PJRT_NamedValue>::full;
  value.name = strings_.back().data();
  value.name_size = strings_.back().size();
  value.type = type;
  value.value_size = size;
  values_.push_back(value);
  return values_.back();
}

void NamedValues::Add(const std::string& name, const std::string& value) {
  PJRT_NamedValue& added = Append(name, PJRT_NamedValue_kString, value.size());
  strings_.push_back(value);
  added.string_value = strings_.back().data();
}
void NamedValues::Add(const std::string& name, std::int64_t value) {
  Append(name, PJRT_NamedValue_kInt64, 1).int64_value = value;
}
void NamedValues::Add(const std::string& name, std::vector<std::int64_t> value) {
  lists_.push_back(std::move(value));
  Append(name, PJRT_NamedValue_kInt64List, lists_.back().size()).int64_array_value = lists_.back().data();
}
void NamedValues::Add(const std::string& name, float value) {
  Append(name, PJRT_NamedValue_kFloat, 1).float_value = value;
}
void NamedValues::Add(const std::string& name, bool value) {
  Append(name, PJRT_NamedValue_kBool, 1).bool_value = value;
}

std::string StringOption(const PJRT_NamedValue* options, std::size_t size, const std::string& name,
                         const std::string& otherwise) {
  const PJRT_NamedValue* option = Find(options, size, name, PJRT_NamedValue_kString);
  return option == nullptr ? otherwise : std::string(option->string_value, option->value_size);
}

std::int64_t IntegerOption(const PJRT_NamedValue* options, std::size_t size, const std::string& name,
                           std::int64_t otherwise) {
  const PJRT_NamedValue* option = Find(options, size, name, PJRT_NamedValue_kInt64);
  return option == nullptr ? otherwise : option->int64_value;
}

}  // namespace jax_ipu::pjrt
