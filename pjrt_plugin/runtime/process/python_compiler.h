// The compiler for processes that do not run it themselves: the Python package's, in a compile server.
#ifndef JAX_IPU_RUNTIME_PROCESS_PYTHON_COMPILER_H_
#define JAX_IPU_RUNTIME_PROCESS_PYTHON_COMPILER_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/executable/executable.h"

namespace jax_ipu {

// The path by which the library that this code is in was loaded.
const std::string& LibraryPath();

// A Compiler. It starts the server of the package whose folder holds this library, or the target of the
// symbolic link by which the library was loaded.
std::shared_ptr<const Executable> CompileOnServer(const CompileRequest& request);

// Returns the first interpreter found for a library of this path:
//  - the one that the environment variable JAX_IPU_PYTHON names;
//  - that of the environment in which the library is installed; for
//    <prefix>/lib/python3.11/site-packages/jax_ipu/x.so it is <prefix>/bin/python3.11, else python3.11
//    in PATH;
//  - python3 in PATH.
// Throws Error(kFailedPrecondition) when there is none.
std::string FindPython(const std::string& library);

// The command line of the compile server for a library of this path.
std::vector<std::string> CompileServerCommand(std::string library);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_PROCESS_PYTHON_COMPILER_H_
