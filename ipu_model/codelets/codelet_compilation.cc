#include "codelets/codelet_compilation.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <system_error>

#include "codelets/cache_folder.h"
#include "codelets/class_names.h"
#include "codelets/compiled_loops.h"
#include "codelets/embedded_headers.h"
#include "codelets/host_compiler.h"
#include "ipu_model/CodeletTable.hpp"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

namespace fs = std::filesystem;
using poplar::graph_program_compilation_error;
using poplar::link_error;
using poplar::poplar_error;

// Vertices compute as plain C++ says: no fused multiply-add that the source does not have.
const char* const kFlags[] = {
    "-std=c++17",      "-march=x86-64-v3",      "-ffp-contract=off",   "-fPIC",
    "-Wno-attributes", "-Wno-invalid-offsetof", "-fvisibility=hidden", "-fno-strict-aliasing",
    "-D__POPC__"};

// Flags of what runs: a vertex that follows a constant null pointer is ended, and not compiled to nothing.
const char* const kRunFlags[] = {"-O2", "-fno-delete-null-pointer-checks"};

// Flags for the assembly whose instructions are counted: they keep loops as they are written, one element a
// trip, and compute half in instructions of its own, as the IPU does.
const char* const kLoopFlags[] = {"-O2",
                                  "-mavx512fp16",
                                  "-fstrict-aliasing",
                                  "-fno-tree-vectorize",
                                  "-fno-tree-slp-vectorize",
                                  "-fno-unroll-loops",
                                  "-fno-jump-tables",
                                  "-fno-optimize-sibling-calls",
                                  "-fno-math-errno",
                                  "-fno-asynchronous-unwind-tables",
                                  "-fcf-protection=none"};
// No loop becomes a call of memcpy, no function an alias or a part of another. clang has other names.
const char* const kLoopFlagsOfGcc[] = {"-fno-tree-loop-distribute-patterns", "-fno-ipa-icf",
                                       "-fno-reorder-blocks-and-partition"};
const char* const kLoopFlagsOfClang[] = {"-fno-builtin-memcpy", "-fno-builtin-memmove",
                                         "-fno-builtin-memset"};
// In place of the C library's header: an assertion that fails is an exception, so that it ends the vertex
// with an error of the engine and not the process. As in C, each inclusion defines the macro again.
constexpr char kAssertHeader[] = R"header(#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#ifndef IPU_MODEL_ASSERT
#define IPU_MODEL_ASSERT
namespace ipu_model {
namespace codelet {
[[noreturn]] __attribute__((cold)) void AssertionFailed(const char* condition, const char* file, unsigned line);
}
}
#endif
#define assert(condition) \
  (static_cast<bool>(condition) ? (void)0 : ::ipu_model::codelet::AssertionFailed(#condition, __FILE__, __LINE__))
#endif
#ifndef static_assert
#define static_assert static_assert
#endif
)header";

// Raise the number when CompiledLoops, or what is counted, changes.
constexpr char kLoopsFile[] = "loops2";

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

bool IsFolderFlag(const std::string& flag, std::size_t* length) {
  for (const char* name : {"-I", "-iquote"}) {
    *length = std::char_traits<char>::length(name);
    if (flag.compare(0, *length, name) == 0) return true;
  }
  return false;
}

// Splits at spaces, joins "-I folder", and makes folders absolute.
std::vector<std::string> SplitFlags(const std::string& flags) {
  std::istringstream words(flags);
  std::vector<std::string> result;
  for (std::string word; words >> word;) {
    std::size_t length = 0;
    if (IsFolderFlag(word, &length)) {
      std::string folder = word.substr(length);
      if (folder.empty()) words >> folder;
      word = word.substr(0, length) + fs::absolute(folder).lexically_normal().string();
    }
    result.push_back(word);
  }
  return result;
}

void WriteHeaders(const fs::path& folder) {
  for (std::size_t i = 0; i < kNumEmbeddedHeaders; ++i)
    WriteText(folder / kEmbeddedHeaders[i].path, kEmbeddedHeaders[i].text);
  WriteText(folder / "assert.h", kAssertHeader);
}

std::vector<std::string> Command(const HostCompiler& compiler, const fs::path& headers) {
  std::vector<std::string> command = {compiler.command};
  for (const char* flag : kFlags) command.emplace_back(flag);
  command.insert(command.end(), {"-isystem", headers.string()});
  return command;
}

ProcessResult RunTool(const std::vector<std::string>& command) {
  try {
    return RunProcess(command);
  } catch (const std::system_error& error) {
    throw graph_program_compilation_error(std::string("addCodelets: ") + error.what() +
                                          "; the model needs it to compile codelets (package binutils)");
  }
}

// The files in a rule of make, "object: file file \".
std::vector<std::string> FilesOfRule(const std::string& rule) {
  std::vector<std::string> files;
  std::string name;
  bool target = true;
  for (std::size_t i = 0; i < rule.size(); ++i) {
    const char c = rule[i];
    if (target) {
      target = c != ':';
    } else if (c == '\\' && i + 1 < rule.size() && rule[i + 1] != '\n') {
      name += rule[++i];
    } else if (c == '$' && i + 1 < rule.size() && rule[i + 1] == '$') {
      name += rule[++i];
    } else if (c == ' ' || c == '\n' || c == '\\') {
      if (!name.empty()) files.push_back(std::move(name));
      name.clear();
    } else {
      name += c;
    }
  }
  if (!name.empty()) files.push_back(name);
  return files;
}

// Whether a text certainly includes none but the headers of the system and of Poplar, as far as no flag and
// no variable of the environment names other folders: each line that could be a directive has a relative name
// in angle brackets.
bool IncludesOnlySystem(const std::string& text) {
  static const std::regex plain(R"re(\s*#\s*include\s*<[A-Za-z_][\w./+-]*>\s*)re");
  std::istringstream lines(text);
  for (std::string line, next; std::getline(lines, line);) {
    // A line goes on in the next one, even where spaces follow the backslash.
    for (std::size_t last; (last = line.find_last_not_of(" \t\r\f\v")) != line.npos && line[last] == '\\' &&
                           std::getline(lines, next);)
      line = line.substr(0, last) + next;
    const bool may_include = line.find("include") != line.npos || line.find("import") != line.npos;
    if (may_include && !std::regex_match(line, plain)) return false;
  }
  return true;
}

// The user's files that `main` includes, by the compiler's own search.
void AddIncluded(const fs::path& main, CodeletSource* source) {
  const TemporaryFolder folder(CacheFolder() / "scan");
  WriteHeaders(folder.path() / "include");
  std::vector<std::string> command = Command(FindHostCompiler(), folder.path() / "include");
  command.insert(command.end(), source->flags.begin(), source->flags.end());
  command.insert(command.end(), {"-MM", "-MF", (folder.path() / "rule").string(), main.string()});
  const ProcessResult result = RunTool(command);
  if (result.status != 0) {
    throw graph_program_compilation_error("addCodelets: '" + source->name + "' does not compile:\n" +
                                          result.output);
  }
  std::vector<std::string> files = FilesOfRule(ReadText(folder.path() / "rule"));
  for (std::size_t i = 1; i < files.size(); ++i) {
    const fs::path file = fs::absolute(files[i]).lexically_normal();
    source->files.emplace_back(file.string(), ReadText(file));
  }
}

std::string KeyOfMachine(const HostCompiler& compiler, const std::string& key) {
  std::string all = key + "\n" + compiler.command + "\n" + compiler.version;
  for (const char* flag : kFlags) all += std::string(" ") + flag;
  for (const char* flag : kRunFlags) all += std::string(" ") + flag;
  for (const char* flag : kLoopFlags) all += std::string(" ") + flag;
  for (std::size_t i = 0; i < kNumEmbeddedHeaders; ++i) all += kEmbeddedHeaders[i].text;
  return all + kAssertHeader;
}

// The file that the library is compiled from: the user's file, then the table of its classes.
std::string TableSource(const std::string& main, const std::vector<ClassNames>& classes) {
  std::string text = "#include " + Quoted(main) +
                     "\n#include <ipu_model/CodeletFields.hpp>\n"
                     "namespace ipu_model_table {\nusing namespace ipu_model::codelet;\n";
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const std::string n = std::to_string(i);
    text += "using Class" + n + " = ::" + classes[i].cpp_name + ";\nconstexpr Field fields" + n + "[] = {\n";
    for (const std::string& field : classes[i].fields) {
      text += "FieldOf<decltype(Class" + n + "::" + field + ")>(" + Quoted(field) +
              ", __builtin_offsetof(Class" + n + ", " + field + ")),\n";
    }
    text += "{}};\nextern \"C\" __attribute__((visibility(\"default\"))) void ipu_model_compute" + n +
            "(void* vertex) { Compute<Class" + n + ">(vertex); }\n";
  }
  text += "const Class classes[] = {\n";
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const std::string type = "Class" + std::to_string(i);
    text += "{" + Quoted(classes[i].name) + ", KindOf<" + type + ">(), sizeof(" + type + "), alignof(" +
            type + "), fields" + std::to_string(i) + ", " + std::to_string(classes[i].fields.size()) + ", " +
            // A constructor that is declared only is usual: the device never calls it.
            (classes[i].has_constructor ? "nullptr" : "ConstructorOf<" + type + ">()") +
            ", &ipu_model_compute" + std::to_string(i) + "},\n";
  }
  text += "{}};\n}\nextern \"C\" __attribute__((visibility(\"default\"))) const ipu_model::codelet::Table " +
          std::string(codelet::kTableSymbol) + " = {ipu_model::codelet::kTableVersion, " +
          std::to_string(classes.size()) + ", ipu_model_table::classes, &ipu_model::codelet::printer};\n";
  return text;
}

// Without the attributes that name the tile's supervisor or its workers, which no compiler for the host
// knows.
std::string WithoutTargets(const std::string& text) {
  static const std::regex target(R"re(\btarget\s*\(\s*"(supervisor|worker)"\s*\))re");
  return std::regex_replace(text, target, "");
}

// Places source and headers in the folder. Returns the command that compiles them, and the path of the file
// of codelets.
std::vector<std::string> PlaceSource(const HostCompiler& compiler, const CodeletSource& source,
                                     const fs::path& folder, std::string* main) {
  const fs::path headers = folder / "include", root = folder / "source";
  WriteHeaders(headers);
  const auto place = [&root](const std::string& path) { return root / fs::path(path).relative_path(); };
  for (std::size_t i = 0; i < source.files.size(); ++i) {
    // Messages name the user's file.
    const std::string shown = i == 0 ? source.name : source.files[i].first;
    WriteText(place(source.files[i].first),
              "#line 1 " + Quoted(shown) + "\n" + WithoutTargets(source.files[i].second));
  }
  *main = place(source.files.at(0).first).string();
  std::vector<std::string> command = Command(compiler, headers);
  for (const std::string& flag : source.flags) {
    std::size_t length = 0;
    command.push_back(flag);
    if (IsFolderFlag(flag, &length))
      command.push_back(flag.substr(0, length) + place(flag.substr(length)).string());
  }
  return command;
}

// How Clang's vector types are declared. g++ ignores the attribute: a vector would be one number.
constexpr char kVectorTypes[] = "ext_vector_type";

// The compiler that the source needs: clang++ if it has Clang's vector types, else the usual one.
const HostCompiler& CompilerOf(const CodeletSource& source) {
  const HostCompiler& usual = FindHostCompiler();
  const auto with = std::find_if(source.files.begin(), source.files.end(), [](const auto& file) {
    return file.second.find(kVectorTypes) != std::string::npos;
  });
  if (with == source.files.end() || usual.is_clang()) return usual;
  // Only what is left after preprocessing counts.
  const TemporaryFolder work(CacheFolder() / "vectors");
  std::string main;
  std::vector<std::string> command = PlaceSource(usual, source, work.path(), &main);
  const fs::path output = work.path() / "preprocessed";
  command.insert(command.end(), {"-E", main, "-o", output.string()});
  if (RunTool(command).status != 0 || ReadText(output).find(kVectorTypes) == std::string::npos) return usual;
  const HostCompiler* const clang = FindClang();
  if (clang != nullptr && clang->is_clang()) return *clang;
  throw graph_program_compilation_error(
      "addCodelets: '" + source.name + "' has vector types of Clang (" + kVectorTypes + ", in '" +
      (with == source.files.begin() ? source.name : with->first) + "'), which need clang++: " +
      (clang == nullptr ? "there is none" : "IPU_MODEL_CXX is " + clang->command) +
      ". Install clang++, or set IPU_MODEL_CXX to one");
}

void CompileInto(const HostCompiler& compiler, const CodeletSource& source, const fs::path& folder) {
  std::string main;
  std::vector<std::string> command = PlaceSource(compiler, source, folder, &main);
  std::vector<std::string> probe = command;
  const std::string object = (folder / "probe.o").string();
  probe.insert(probe.end(), {"-O0", "-g", "-fno-eliminate-unused-debug-types", "-c", main, "-o", object});
  ProcessResult result = RunTool(probe);
  if (result.status != 0) {
    throw graph_program_compilation_error("addCodelets: '" + source.name + "' does not compile:\n" +
                                          result.output);
  }
  const ProcessResult names = RunTool({"readelf", "--debug-dump=info", "-W", object});
  if (names.status != 0) {
    throw graph_program_compilation_error("addCodelets: readelf cannot read the debug information of '" +
                                          source.name + "':\n" + names.output);
  }
  const std::vector<ClassNames> classes = VertexClassesIn(names.output);
  WriteText(folder / "table.cc", TableSource(main, classes));
  std::string cpp_names;
  for (const ClassNames& c : classes) cpp_names += c.cpp_name + "\n";
  WriteText(folder / "classes", cpp_names);
  command.insert(command.begin() + 1, std::begin(kRunFlags), std::end(kRunFlags));
  if (std::any_of(classes.begin(), classes.end(), [](const ClassNames& c) { return c.has_private_fields; }))
    command.emplace_back("-fno-access-control");
  command.insert(command.end(), {"-shared", "-Wl,-z,defs", "-Wl,--wrap=printf,--wrap=puts,--wrap=putchar",
                                 (folder / "table.cc").string(), "-o", (folder / "codelets.so").string()});
  result = RunTool(command);
  if (result.status != 0) {
    const std::string message =
        "addCodelets: the vertices of '" + source.name + "' cannot be compiled or linked:\n" + result.output;
    for (const char* const undefined : {"undefined reference", "undefined symbol"}) {
      if (result.output.find(undefined) != std::string::npos) throw link_error(message, result.output);
    }
    throw graph_program_compilation_error(message);
  }
  std::error_code ignored;
  for (const char* name : {"include", "source", "probe.o", "table.cc"})
    fs::remove_all(folder / name, ignored);
}

// The file whose assembly has a function for each class of the file `classes`, in its order.
std::string LoopSource(const std::string& main, const std::string& classes) {
  std::string text = "#include " + Quoted(main) +
                     "\n#include <type_traits>\ntemplate <typename V>\n__attribute__((always_inline)) inline "
                     "void IpuModelCompute(V& vertex, unsigned worker) {\n  if constexpr "
                     "(std::is_base_of_v<::poplar::MultiVertex, V>) (void)vertex.compute(worker);\n  else "
                     "(void)vertex.compute();\n}\n";
  std::istringstream lines(classes);
  std::size_t n = 0;
  for (std::string name; std::getline(lines, name); ++n) {
    text += "extern \"C\" void ipu_model_loops" + std::to_string(n) +
            "(void* vertex, unsigned worker) { IpuModelCompute(*static_cast<::" + name +
            "*>(vertex), worker); }\n";
  }
  return text;
}

// A line for each class, which is empty if its loops are not understood. Throws poplar_error if the source
// does not compile to assembly.
std::string CountLoops(const CodeletSource& source, const fs::path& folder) {
  const TemporaryFolder work(folder / "loops");
  std::string main;
  const HostCompiler& compiler = CompilerOf(source);
  std::vector<std::string> command = PlaceSource(compiler, source, work.path(), &main);
  const std::string classes = ReadText(folder / "classes"), output = (work.path() / "loops.s").string(),
                    file = (work.path() / "loops.cc").string();
  WriteText(file, LoopSource(main, classes));
  command.insert(command.end(), std::begin(kLoopFlags), std::end(kLoopFlags));
  if (compiler.is_clang()) {
    command.insert(command.end(), std::begin(kLoopFlagsOfClang), std::end(kLoopFlagsOfClang));
  } else {
    command.insert(command.end(), std::begin(kLoopFlagsOfGcc), std::end(kLoopFlagsOfGcc));
  }
  command.insert(command.end(), {"-S", file, "-o", output});
  const ProcessResult result = RunTool(command);
  if (result.status != 0) {
    throw poplar_error("addCodelets: '" + source.name + "' does not compile to assembly:\n" + result.output);
  }
  const std::map<std::string, CompiledLoops> loops = LoopsIn(ReadText(output), "ipu_model_loops");
  std::string text;
  const std::ptrdiff_t num_classes = std::count(classes.begin(), classes.end(), '\n');
  for (std::ptrdiff_t i = 0; i < num_classes; ++i) {
    const auto found = loops.find("ipu_model_loops" + std::to_string(i));
    text += (found == loops.end() ? "" : WriteLoops(found->second)) + "\n";
  }
  return text;
}

}  // namespace

CodeletSource ReadCodeletFile(const std::string& path, const std::string& flags) {
  CodeletSource source;
  source.name = path;
  source.flags = SplitFlags(flags);
  const fs::path main = fs::absolute(path).lexically_normal();
  std::error_code error;
  if (!fs::is_regular_file(main, error)) {
    throw poplar_error("addCodelets: there is no file '" + path + "' (looked for " + main.string() + ")");
  }
  source.files.emplace_back(main.string(), ReadText(main));
  AddIncluded(main, &source);
  return source;
}

CodeletSource ReadCodeletText(const std::string& text, const std::string& flags) {
  CodeletSource source;
  source.name = "codelets";
  source.flags = SplitFlags(flags);
  // Without a process of the compiler, which takes longer than to find a small codelet in the cache.
  const char* const folders = std::getenv("CPATH");
  if (source.flags.empty() && folders == nullptr && IncludesOnlySystem(text)) {
    source.files.emplace_back("/codelets.cpp", text);
    return source;
  }
  const TemporaryFolder folder(CacheFolder() / "text");
  const fs::path main = folder.path() / "codelets.cpp";
  WriteText(main, "#line 1 \"codelets\"\n" + text);
  // A fixed place, so that equal text is equal source. What it includes is searched from where the process
  // is.
  source.files.emplace_back("/codelets.cpp", text);
  source.flags.push_back("-iquote" + fs::current_path().string());
  AddIncluded(main, &source);
  if (source.files.size() == 1) source.flags.pop_back();
  return source;
}

std::string KeyOf(const CodeletSource& source) {
  std::string key = "codelets " + std::to_string(codelet::kTableVersion);
  const auto add = [&key](const std::string& text) {
    key += "\n" + std::to_string(text.size()) + ":" + text;
  };
  add(source.name);
  for (const std::string& flag : source.flags) add(flag);
  for (const auto& [path, text] : source.files) {
    add(path);
    add(text);
  }
  return key;
}

fs::path ObjectOf(const CodeletSource& source, const std::string& key) {
  const HostCompiler& compiler = CompilerOf(source);
  const std::string all = KeyOfMachine(compiler, key);
  const fs::path folder = CacheFolder() / HashOf(all), object = folder / "codelets.so";
  const auto cached = [&] {
    std::error_code error;
    // The whole key is compared: equal hashes prove nothing.
    return fs::exists(object, error) && fs::exists(folder / "key", error) && ReadText(folder / "key") == all;
  };
  if (cached()) return object;
  const TemporaryFolder work(folder);
  CompileInto(compiler, source, work.path());
  WriteText(work.path() / "key", all);
  std::error_code error;
  fs::rename(work.path(), folder, error);
  if (error && !cached()) {
    // The entry in the way is damaged, or of another source with the same hash.
    fs::remove_all(folder, error);
    fs::rename(work.path(), folder, error);
    if (error) throw poplar_error("addCodelets: the cache '" + folder.string() + "' cannot be written");
  }
  return object;
}

std::string LoopsOf(const CodeletSource& source, const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / kLoopsFile, error)) return ReadText(folder / kLoopsFile);
  std::string text = CountLoops(source, folder);
  // Other processes see all of the file or nothing.
  const TemporaryFolder work(folder / "written");
  WriteText(work.path() / kLoopsFile, text);
  fs::rename(work.path() / kLoopsFile, folder / kLoopsFile, error);
  return text;
}

}  // namespace ipu_model
