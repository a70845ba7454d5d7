// Sources of codelets, and how the host's compiler makes shared objects of them, in the cache.
#ifndef IPU_MODEL_CODELETS_CODELET_COMPILATION_H_
#define IPU_MODEL_CODELETS_CODELET_COMPILATION_H_

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ipu_model {

// One file of codelets with all that it includes, except headers of the system and of Poplar. Enough to
// compile it on another machine.
struct CodeletSource {
  std::string name;                // for messages
  std::vector<std::string> flags;  // of the compiler; folders are absolute
  // Absolute path and text; the first is the file itself.
  std::vector<std::pair<std::string, std::string>> files;
};

// Reads a file and what it includes. Throws poplar::poplar_error if it cannot be read,
// poplar::graph_program_compilation_error if it includes what there is not.
CodeletSource ReadCodeletFile(const std::string& path, const std::string& flags);
CodeletSource ReadCodeletText(const std::string& text, const std::string& flags);

// All that determines the compiled code, except the compiler.
std::string KeyOf(const CodeletSource& source);

// The shared object for the source, compiled if the cache has none. `key`: that of the source. Throws
// poplar::graph_program_compilation_error with the compiler's message, poplar::link_error with the linker's.
std::filesystem::path ObjectOf(const CodeletSource& source, const std::string& key);

// A line for each class of the object in `folder`, which is empty if its loops are not understood
// (WriteLoops). Compiles the source to assembly unless the cache has them. Throws poplar::poplar_error if
// that fails.
std::string LoopsOf(const CodeletSource& source, const std::filesystem::path& folder);

}  // namespace ipu_model

#endif  // IPU_MODEL_CODELETS_CODELET_COMPILATION_H_
