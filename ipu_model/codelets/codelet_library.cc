#include "codelets/codelet_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>

#include <exception>
#include <filesystem>
#include <sstream>

#include "codelets/cache_folder.h"
#include "codelets/class_names.h"
#include "codelets/codelet_output.h"
#include "ipu_model/Log.hpp"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

namespace fs = std::filesystem;
using poplar::graph_program_compilation_error;
using poplar::poplar_error;

// A file with several sources as it was when the process compiled it.
struct LoadedFile {
  std::uint64_t device, inode;
  std::int64_t size, seconds, nanoseconds;  // and time of the last change
  std::vector<std::shared_ptr<const CodeletLibrary>> libraries;

  bool IsOf(const struct stat& status) const {
    return device == status.st_dev && inode == status.st_ino && size == status.st_size &&
           seconds == status.st_mtim.tv_sec && nanoseconds == status.st_mtim.tv_nsec;
  }
};

// What the process has compiled and loaded.
struct Loaded {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const CodeletLibrary>> libraries;  // by key
  std::map<std::string, LoadedFile> files;                                 // by path

  static Loaded& Global() {
    static Loaded loaded;
    return loaded;
  }
};

}  // namespace

std::shared_ptr<const CodeletLibrary> CodeletLibrary::FindCompiled(const CodeletSource& source) {
  Loaded& loaded = Loaded::Global();
  const std::string key = KeyOf(source);
  const std::lock_guard<std::mutex> lock(loaded.mutex);
  const auto found = loaded.libraries.find(key);
  return found == loaded.libraries.end() ? nullptr : found->second;
}

std::shared_ptr<const CodeletLibrary> CodeletLibrary::Compile(const CodeletSource& source) {
  if (source.files.empty()) throw poplar_error("addCodelets: there is no source");
  Loaded& loaded = Loaded::Global();
  const std::string key = KeyOf(source);
  const std::lock_guard<std::mutex> lock(loaded.mutex);
  if (const auto found = loaded.libraries.find(key); found != loaded.libraries.end()) return found->second;
  const fs::path object = ObjectOf(source, key);
  void* const handle = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* const problem = handle == nullptr ? dlerror() : "";
  const auto* const table =
      handle == nullptr ? nullptr : static_cast<const codelet::Table*>(dlsym(handle, codelet::kTableSymbol));
  if (table == nullptr || table->version != codelet::kTableVersion) {
    throw graph_program_compilation_error("addCodelets: the compiled codelets of '" + source.name +
                                          "' cannot be loaded: " + (problem != nullptr ? problem : ""));
  }
  *table->print = &PrintFromCodelet;
  std::shared_ptr<CodeletLibrary> library(new CodeletLibrary);
  library->source_ = source;
  library->hash_ = HashOf(key);
  library->folder_ = object.parent_path().string();
  for (std::uint64_t i = 0; i < table->num_classes; ++i) {
    library->classes_.push_back(&table->classes[i]);
    library->by_name_.emplace(table->classes[i].name, &table->classes[i]);
  }
  loaded.libraries.emplace(key, library);
  return library;
}

std::vector<std::shared_ptr<const CodeletLibrary>> CodeletLibrary::CompileFile(
    const std::string& path, const std::function<std::vector<CodeletSource>(const std::string&)>& parse) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) throw poplar_error("addCodelets: cannot read '" + path + "'");
  Loaded& loaded = Loaded::Global();
  {
    const std::lock_guard<std::mutex> lock(loaded.mutex);
    if (const auto known = loaded.files.find(path); known != loaded.files.end() && known->second.IsOf(status))
      return known->second.libraries;
  }
  LoadedFile file = {status.st_dev,         status.st_ino,          status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec, {}};
  for (const CodeletSource& source : parse(ReadText(path))) file.libraries.push_back(Compile(source));
  const std::lock_guard<std::mutex> lock(loaded.mutex);
  return (loaded.files[path] = std::move(file)).libraries;
}

const codelet::Class* CodeletLibrary::Find(const std::string& name) const {
  const auto found = by_name_.find(CanonicalName(name));
  return found == by_name_.end() ? nullptr : found->second;
}

const CompiledLoops* CodeletLibrary::Loops(const codelet::Class& type) const {
  std::call_once(loops_counted_, [this] {
    std::string text;
    try {
      text = LoopsOf(source_, folder_);
    } catch (const std::exception& error) {
      // Nothing is stored, so that the next process tries again.
      Log(LogModule::kEngine, LogLevel::kWarn,
          std::string("cycles of '") + source_.name + "' are default estimates: " + error.what());
    }
    std::istringstream lines(text);
    for (const codelet::Class* c : classes_) {
      std::string line;
      std::getline(lines, line);
      CompiledLoops loops;
      if (ReadLoops(line, &loops)) loops_.emplace(c, std::move(loops));
    }
  });
  const auto found = loops_.find(&type);
  return found == loops_.end() ? nullptr : &found->second;
}

std::uint64_t CodeletLibrary::CodeBytes(const codelet::Class& type) const {
  Dl_info info;
  void* symbol = nullptr;
  if (dladdr1(reinterpret_cast<void*>(type.compute), &info, &symbol, RTLD_DL_SYMENT) == 0 ||
      symbol == nullptr)
    return 0;
  return static_cast<const ElfW(Sym)*>(symbol)->st_size;
}

}  // namespace ipu_model
