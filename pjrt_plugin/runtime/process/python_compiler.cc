#include "runtime/process/python_compiler.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include "runtime/process/compile_server.h"

namespace jax_ipu {
namespace {

namespace fs = std::filesystem;

constexpr char kVariable[] = "JAX_IPU_PYTHON";
constexpr char kAdvice[] =
    "The IPU compiler runs in Python: set JAX_IPU_PYTHON to the interpreter of the environment in which "
    "jax_ipu is "
    "installed (there, `python -c \"import sys; print(sys.executable)\"` prints it), or load a serialised "
    "executable, "
    "which needs no compiler.";

bool IsProgram(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

// Empty: there is none.
std::string InPath(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty() && IsProgram(fs::path(folder) / name)) return fs::path(folder) / name;
  }
  return "";
}

std::string FindLibrary() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&FindLibrary), &info) == 0 || info.dli_fname == nullptr) return "";
  std::error_code error;
  const fs::path path = fs::absolute(info.dli_fname, error);
  return error ? info.dli_fname : path.string();
}

// Read when the library is loaded: the path may be relative to a working directory that changes later.
const std::string& library_path = LibraryPath();

// Empty: there is none.
std::string ScriptBeside(const std::string& library) {
  const fs::path script = fs::path(library).parent_path() / "compile_server.py";
  std::error_code error;
  return fs::exists(script, error) ? script.string() : "";
}

}  // namespace

const std::string& LibraryPath() {
  static const std::string& path = *std::make_unique<std::string>(FindLibrary()).release();
  return path;
}

std::string FindPython(const std::string& library) {
  const char* chosen = std::getenv(kVariable);
  if (chosen != nullptr && *chosen != '\0') {
    const std::string name = chosen;
    const std::string path = name.find('/') == std::string::npos ? InPath(name) : name;
    if (IsProgram(path)) return path;
    throw Error(Code::kFailedPrecondition,
                std::string(kVariable) + "='" + name + "' is not a program. " + kAdvice);
  }
  const fs::path environment = fs::path(library).parent_path().parent_path().parent_path();
  std::vector<std::string> names = {"python3"};
  if (const std::string name = environment.filename(); name.rfind("python3.", 0) == 0) {
    const fs::path path = environment.parent_path().parent_path() / "bin" / name;
    if (IsProgram(path)) return path;
    names.insert(names.begin(), name);
  }
  for (const std::string& name : names) {
    if (const std::string path = InPath(name); !path.empty()) return path;
  }
  throw Error(Code::kFailedPrecondition, std::string("There is no python3 in PATH. ") + kAdvice);
}

std::vector<std::string> CompileServerCommand(std::string library) {
  std::string script = ScriptBeside(library);
  if (script.empty()) {
    std::error_code error;
    if (const fs::path original = fs::canonical(library, error); !error) library = original;
    script = ScriptBeside(library);
  }
  // -P: nothing is imported from the working directory.
  std::vector<std::string> command = {FindPython(library), "-P"};
  if (script.empty()) {
    command.insert(command.end(), {"-m", "jax_ipu.compile_server"});
  } else {
    // Use the package that this library belongs to, even if the interpreter would find another one.
    command.push_back(script);
  }
  command.insert(command.end(), {std::to_string(CompileServer::kSocket), std::to_string(getpid())});
  return command;
}

std::shared_ptr<const Executable> CompileOnServer(const CompileRequest& request) {
  // Never destroyed: threads may compile while the process ends, which ends the server.
  static CompileServer& server =
      *std::make_unique<CompileServer>([] { return CompileServerCommand(library_path); }, kAdvice).release();
  return std::make_shared<const Executable>(Executable::Deserialize(server.Compile(request)));
}

}  // namespace jax_ipu
