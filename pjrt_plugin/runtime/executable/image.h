// What an engine runs: the programs of one executable, or of several that are linked, so that they share the
// variables in which arguments stay between runs.
#ifndef JAX_IPU_RUNTIME_EXECUTABLE_IMAGE_H_
#define JAX_IPU_RUNTIME_EXECUTABLE_IMAGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/executable/executable.h"

namespace jax_ipu {

// The memory of an argument that stays in SRAM between runs. Programs are indices into the engine's list.
struct ImageVariable {
  std::uint64_t bytes = 0;
  std::string stream;  // that `write_program` reads; `read_program` writes `stream` + ".out"
  int write_program = -1;
  int read_program = -1;  // -1: every program only reads the variable, so the host has its value
  int swap_with = -1, swap_program = -1;  // as those of InputSpec, with a variable in place of the input
  std::string title, title_of_result;     // for traces: what people call the streams

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("bytes", self.bytes);
    visit("stream", self.stream);
    visit("write_program", self.write_program);
    visit("read_program", self.read_program);
    visit("swap_with", self.swap_with);
    visit("swap_program", self.swap_program);
    visit("title", self.title);
    visit("title_of_result", self.title_of_result);
  }
};

// One executable of the image.
struct ImageEntry {
  std::string prefix;  // of the names of its streams
  int main_program = 0;
  std::vector<int> variables;  // of each input; -1: it is streamed, or not used

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor& visit) {
    visit("prefix", self.prefix);
    visit("main_program", self.main_program);
    visit("variables", self.variables);
  }
};

struct Image {
  std::vector<ImageVariable> variables;
  std::vector<ImageEntry> entries;
};

// The image of an executable by itself.
Image ImageOf(const Executable& executable);

// What an executable was compiled from, so that it can be compiled again together with others.
struct ProgramSource {
  std::string program, format, options, target;
};

struct LinkPart {
  std::shared_ptr<const ProgramSource> source;
  // By input: a number, which inputs of all parts have in common that share a variable; -1: a variable of its
  // own.
  std::vector<int> variables;
};
struct LinkedProgram {
  // Its Poplar program has the programs of all parts; it has no inputs and outputs of its own.
  std::shared_ptr<const Executable> executable;
  Image image;  // an entry for each part
};
// Compiles the parts as one program. Called without the GIL, on any thread; throws Error: kResourceExhausted
// where they do not fit together.
using Linker = std::function<LinkedProgram(const std::vector<LinkPart>&)>;

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_EXECUTABLE_IMAGE_H_
