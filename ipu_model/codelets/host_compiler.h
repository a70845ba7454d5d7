// The host's C++ compiler and binutils, as processes.
#ifndef IPU_MODEL_CODELETS_HOST_COMPILER_H_
#define IPU_MODEL_CODELETS_HOST_COMPILER_H_

#include <string>
#include <vector>

namespace ipu_model {

struct ProcessResult {
  int status = 0;      // exit code; 128 + signal if a signal ended the process
  std::string output;  // of both streams
};

// Runs a program, which is searched in PATH, without a shell. Throws std::system_error if it cannot start.
ProcessResult RunProcess(const std::vector<std::string>& command);

struct HostCompiler {
  std::string command;
  std::string version;  // the version and machine that it prints
  bool is_clang() const { return version.find("clang") != std::string::npos; }
};

// The first that runs: the environment variable IPU_MODEL_CXX, c++, g++, clang++. Throws
// poplar::graph_program_compilation_error if there is none.
const HostCompiler& FindHostCompiler();
// The first of clang++, clang++-21 and so on that runs, or what IPU_MODEL_CXX names, whatever that is. Null
// if there is none.
const HostCompiler* FindClang();

}  // namespace ipu_model

#endif  // IPU_MODEL_CODELETS_HOST_COMPILER_H_
