// Compiled and loaded codelets: the vertex classes of a source.
#ifndef IPU_MODEL_CODELETS_CODELET_LIBRARY_H_
#define IPU_MODEL_CODELETS_CODELET_LIBRARY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "codelets/codelet_compilation.h"
#include "codelets/compiled_loops.h"
#include "ipu_model/CodeletTable.hpp"

namespace ipu_model {

// Lives until the process ends: its code is never unloaded.
class CodeletLibrary {
 public:
  // Compiles the source, or takes the result from the process or from the cache: the folder
  // $IPU_MODEL_CODELET_CACHE, or ipu_model/codelets in the user's cache folder. Throws
  // poplar::graph_program_compilation_error with the compiler's message, which names the user's files and
  // lines.
  static std::shared_ptr<const CodeletLibrary> Compile(const CodeletSource& source);

  // The libraries of a file with several sources, which `parse` reads from its contents. A file that the
  // process has compiled, and that has not changed, is not read again. Throws poplar::poplar_error if it
  // cannot be read, and what `parse` and Compile throw.
  static std::vector<std::shared_ptr<const CodeletLibrary>> CompileFile(
      const std::string& path, const std::function<std::vector<CodeletSource>(const std::string&)>& parse);

  // The library of a source that this process has compiled; null for another.
  static std::shared_ptr<const CodeletLibrary> FindCompiled(const CodeletSource& source);

  const CodeletSource& source() const { return source_; }
  // A hash of the source, the same on all machines.
  const std::string& hash() const { return hash_; }
  const std::vector<const codelet::Class*>& classes() const { return classes_; }
  // `name` in any spelling. Returns null for a class that the library does not have.
  const codelet::Class* Find(const std::string& name) const;
  // The loops of the compute function of one of the classes; null if they are not understood. The first call
  // compiles the source once more, to assembly, unless the cache has the loops.
  const CompiledLoops* Loops(const codelet::Class& type) const;
  // Bytes of the compiled compute function: an estimate of the code of the codelet on the device.
  std::uint64_t CodeBytes(const codelet::Class& type) const;

 private:
  CodeletLibrary() = default;

  CodeletSource source_;
  std::string hash_;
  std::vector<const codelet::Class*> classes_;
  std::map<std::string, const codelet::Class*> by_name_;
  std::string folder_;  // in the cache
  mutable std::once_flag loops_counted_;
  mutable std::map<const codelet::Class*, CompiledLoops> loops_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CODELETS_CODELET_LIBRARY_H_
