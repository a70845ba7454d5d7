#include "runtime/executable/stream_titles.h"

#include <charconv>
#include <cstddef>
#include <vector>

namespace jax_ipu {
namespace {

// The number of a stream "<prefix><number><suffix>"; `none` for another.
std::size_t NumberIn(std::string_view stream, std::string_view prefix, std::string_view suffix,
                     std::size_t none) {
  if (stream.size() <= prefix.size() + suffix.size() || stream.substr(0, prefix.size()) != prefix ||
      stream.substr(stream.size() - suffix.size()) != suffix)
    return none;
  const char *const begin = stream.data() + prefix.size(), *const end =
                                                               stream.data() + stream.size() - suffix.size();
  std::size_t number = 0;
  const auto [stop, error] = std::from_chars(begin, end, number);
  return error == std::errc() && stop == end ? number : none;
}

template <typename Spec>
const std::string* NameAt(const std::vector<Spec>& specs, std::size_t i) {
  return i < specs.size() && !specs[i].name.empty() ? &specs[i].name : nullptr;
}

const std::string* NameOf(const Executable& executable, std::string_view stream) {
  const std::vector<InputSpec>& inputs = executable.inputs;
  const std::size_t none = std::string_view::npos;
  if (const std::size_t i = NumberIn(stream, "state", ".out", none); i < inputs.size())
    return NameAt(executable.outputs, static_cast<std::size_t>(inputs[i].aliased_output));
  for (const std::string_view prefix : {"in", "state"})
    if (const std::string* name = NameAt(inputs, NumberIn(stream, prefix, "", none))) return name;
  return NameAt(executable.outputs, NumberIn(stream, "out", "", none));
}

}  // namespace

std::string TitleOfStream(const Executable& executable, std::string_view stream) {
  const std::string* const name = NameOf(executable, stream);
  return name != nullptr ? *name : std::string(stream);
}

}  // namespace jax_ipu
