#include "codelets/host_compiler.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>

#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

// The environment with messages in English: they are read, and shown as they are.
std::vector<std::string> Environment() {
  std::vector<std::string> variables = {"LC_ALL=C"};
  for (char** v = environ; *v != nullptr; ++v) {
    if (std::strncmp(*v, "LC_ALL=", 7) != 0 && std::strncmp(*v, "LANGUAGE=", 9) != 0)
      variables.emplace_back(*v);
  }
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>* strings) {
  std::vector<char*> pointers;
  for (std::string& s : *strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

ProcessResult RunProcess(const std::vector<std::string>& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  std::vector<std::string> words = command, variables = Environment();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, words[0].c_str(), &actions, nullptr, Pointers(&words).data(),
                                 Pointers(&variables).data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    throw std::system_error(error, std::generic_category(), words[0]);
  }
  ProcessResult result;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = read(ends[0], buffer, sizeof(buffer));
    if (n > 0) result.output.append(buffer, static_cast<std::size_t>(n));
    if (n == 0 || (n < 0 && errno != EINTR)) break;
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

namespace {

std::string Chosen() {
  const char* const chosen = std::getenv("IPU_MODEL_CXX");
  return chosen != nullptr ? chosen : "";
}

// Whether a compiler of this name runs.
bool Ask(const std::string& name, HostCompiler* found) {
  try {
    const ProcessResult version = RunProcess({name, "--version"});
    const ProcessResult machine = RunProcess({name, "-dumpmachine"});
    if (version.status != 0 || machine.status != 0) return false;
    *found = {name, version.output.substr(0, version.output.find('\n')) + " " + machine.output};
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

}  // namespace

const HostCompiler& FindHostCompiler() {
  static std::mutex mutex;
  static HostCompiler found;
  const std::lock_guard<std::mutex> lock(mutex);
  const std::string own = Chosen();
  // A choice replaces what was found before it was made.
  if (!found.command.empty() && (own.empty() || own == found.command)) return found;
  std::vector<std::string> names = {"c++", "g++", "clang++"};
  if (!own.empty()) names = {own};
  std::string tried;
  for (const std::string& name : names) {
    tried += (tried.empty() ? "" : ", ") + name;
    if (Ask(name, &found)) return found;
  }
  throw poplar::graph_program_compilation_error(
      "addCodelets: the model compiles codelets with the host's C++ compiler, and found none (tried: " +
      tried + "). Install g++ 12 or later, or set IPU_MODEL_CXX to a compiler");
}

const HostCompiler* FindClang() {
  const HostCompiler& usual = FindHostCompiler();
  if (!Chosen().empty() || usual.is_clang()) return &usual;
  static std::mutex mutex;
  static HostCompiler found;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!found.command.empty() || Ask("clang++", &found)) return &found;
  // Distributions have packages of one version, whose names end with it.
  for (int version = 21; version >= 14; --version) {
    if (Ask("clang++-" + std::to_string(version), &found)) return &found;
  }
  return nullptr;
}

}  // namespace ipu_model
