#include "runtime/executable/image.h"

#include "runtime/executable/stream_titles.h"

namespace jax_ipu {

Image ImageOf(const Executable& executable) {
  Image image;
  ImageEntry entry;
  entry.main_program = executable.main_program;
  for (std::size_t i = 0; i < executable.inputs.size(); ++i) {
    const InputSpec& input = executable.inputs[i];
    entry.variables.push_back(-1);
    if (input.write_program < 0) continue;
    entry.variables.back() = static_cast<int>(image.variables.size());
    ImageVariable variable;
    variable.bytes = input.tensor.bytes();
    variable.stream = "state" + std::to_string(i);
    variable.write_program = input.write_program;
    variable.read_program = input.read_program;
    variable.swap_program = input.swap_program;
    variable.title = TitleOfStream(executable, variable.stream);
    variable.title_of_result = TitleOfStream(executable, variable.stream + ".out");
    image.variables.push_back(std::move(variable));
  }
  for (std::size_t i = 0; i < executable.inputs.size(); ++i) {
    const int first = executable.inputs[i].swap_with, variable = entry.variables[i];
    if (first >= 0 && variable >= 0)
      image.variables[static_cast<std::size_t>(variable)].swap_with =
          entry.variables[static_cast<std::size_t>(first)];
  }
  image.entries.push_back(std::move(entry));
  return image;
}

}  // namespace jax_ipu
