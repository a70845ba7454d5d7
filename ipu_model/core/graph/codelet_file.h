// Files of codelets that popc makes: .gp. They hold the source of codelets with all that it includes and the
// flags of the compiler, which suffices to compile it on any machine; never machine code.
#ifndef IPU_MODEL_CORE_GRAPH_CODELET_FILE_H_
#define IPU_MODEL_CORE_GRAPH_CODELET_FILE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codelets/codelet_library.h"

namespace ipu_model {

class Reader;  // core/operation/serialise.h
class Writer;
void WriteSource(Writer* writer, const CodeletSource& source);
CodeletSource ReadSource(Reader* reader);

std::string WriteCodeletFile(const std::vector<CodeletSource>& sources);
// Throws std::runtime_error with the reason for data that WriteCodeletFile has not made.
std::vector<CodeletSource> ParseCodeletFile(std::string_view data);

// The compiled codelets of a file. A file that this process has loaded is read again only if it has changed.
// Throws poplar::poplar_error for a file that popc of this release has not made.
std::vector<std::shared_ptr<const CodeletLibrary>> LoadCodeletFile(const std::string& path);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_GRAPH_CODELET_FILE_H_
