// The compiler of processes that do not run it themselves: the package's, in a compile server.
#ifndef JAX_IPU_RUNTIME_PYTHON_COMPILER_H_
#define JAX_IPU_RUNTIME_PYTHON_COMPILER_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/executable.h"

namespace jax_ipu {

// The path by which the library that this code is in was loaded.
const std::string& LibraryPath();

// A Compiler. Its server is that of the package in whose folder this library, or what it is a symbolic link
// to, lies.
std::shared_ptr<const Executable> CompileOnServer(const CompileRequest& request);

// The interpreter for a library of this path. Throws Error(kFailedPrecondition) when there is none. It is
//  - what the environment variable JAX_IPU_PYTHON names;
//  - that of the environment in which the library is installed: for
//  <prefix>/lib/python3.11/site-packages/jax_ipu/x.so
//    it is <prefix>/bin/python3.11, or else python3.11 in PATH;
//  - python3 in PATH.
std::string FindPython(const std::string& library);

// The command line of the compile server for a library of this path.
std::vector<std::string> CompileServerCommand(std::string library);

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_PYTHON_COMPILER_H_
