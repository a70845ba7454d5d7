#include "core/graph/codelet_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "core/operation/serialise.h"
#include "ipu_model/Model.hpp"
#include "ipu_model/Stored.hpp"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

constexpr std::string_view kMagic = "IPUCODEL";

}  // namespace

void WriteSource(Writer* writer, const CodeletSource& source) {
  writer->Write(source.name);
  writer->Write(source.flags);
  writer->Write(source.files.size());
  for (const auto& [path, text] : source.files) {
    writer->Write(path);
    writer->Write(text);
  }
}

CodeletSource ReadSource(Reader* reader) {
  CodeletSource source;
  source.name = reader->Read<std::string>();
  source.flags = reader->Read<std::vector<std::string>>();
  for (std::size_t f = reader->ReadLength(); f > 0; --f) {
    auto path = reader->Read<std::string>();
    source.files.emplace_back(std::move(path), reader->Read<std::string>());
  }
  return source;
}

std::string WriteCodeletFile(const std::vector<CodeletSource>& sources) {
  Writer writer;
  writer.Write(sources.size());
  for (const CodeletSource& source : sources) WriteSource(&writer, source);
  return Seal(kMagic, writer.data());
}

std::vector<CodeletSource> ParseCodeletFile(std::string_view data) {
  Reader reader(Unseal(kMagic, data));
  std::vector<CodeletSource> sources;
  for (std::size_t n = reader.ReadLength(); n > 0; --n) sources.push_back(ReadSource(&reader));
  return sources;
}

std::vector<std::shared_ptr<const CodeletLibrary>> LoadCodeletFile(const std::string& path) {
  return CodeletLibrary::CompileFile(path, [&path](const std::string& data) {
    try {
      return ParseCodeletFile(data);
    } catch (const std::runtime_error& error) {
      throw poplar::poplar_error(
          "addCodelets: '" + path + "' is not a file of this release's popc: " + error.what() +
          ". The model compiles the C++ source of codelets: give that file, or make this "
          "one with `jax-ipu popc`");
    }
  });
}

std::vector<std::string> CompileCodelets(const std::vector<std::string>& paths, const std::string& flags,
                                         const std::string& output) {
  std::vector<CodeletSource> sources;
  std::vector<std::string> classes;
  for (const std::string& path : paths) {
    sources.push_back(ReadCodeletFile(path, flags));
    for (const codelet::Class* type : CodeletLibrary::Compile(sources.back())->classes())
      classes.emplace_back(type->name);
  }
  const std::string data = WriteCodeletFile(sources);
  std::ofstream out(output, std::ios::binary);
  out.write(data.data(), static_cast<std::streamsize>(data.size()));
  out.close();
  if (!out) throw poplar::poplar_error("cannot write '" + output + "': " + std::strerror(errno));
  return classes;
}

}  // namespace ipu_model
