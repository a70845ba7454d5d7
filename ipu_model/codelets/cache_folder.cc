#include "codelets/cache_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>

#include "poplar/exceptions.hpp"

namespace ipu_model {

namespace fs = std::filesystem;
using poplar::poplar_error;

std::string HashOf(const std::string& text) {
  std::string digits;
  for (std::uint64_t seed : {0xcbf29ce484222325u, 0x9e3779b97f4a7c15u}) {
    std::uint64_t hash = seed;
    for (const char c : text) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
      hash ^= hash >> 31;
    }
    for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[(hash >> shift) & 15];
  }
  return digits;
}

std::string ReadText(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw poplar_error("addCodelets: the file '" + path.string() + "' cannot be read");
  return text.str();
}

void WriteText(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw poplar_error("addCodelets: the file '" + path.string() + "' cannot be written");
}

TemporaryFolder::TemporaryFolder(const fs::path& prefix) {
  std::string name = prefix.string() + ".XXXXXX";
  if (mkdtemp(name.data()) == nullptr)
    throw poplar_error("addCodelets: no folder can be made beside '" + prefix.string() + "'");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path CacheFolder() {
  fs::path folder;
  if (const char* own = std::getenv("IPU_MODEL_CODELET_CACHE"); own != nullptr && *own != 0) {
    folder = own;
  } else if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != 0) {
    folder = fs::path(cache) / "ipu_model" / "codelets";
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home != 0) {
    folder = fs::path(home) / ".cache" / "ipu_model" / "codelets";
  }
  std::error_code error;
  if (!folder.empty()) {
    const bool is_new = fs::create_directories(folder, error);
    if (!error && is_new) fs::permissions(folder, fs::perms::owner_all, error);
  }
  if (folder.empty() || error || access(folder.c_str(), W_OK) != 0) {
    // No home that can be written: a folder of this process.
    static const TemporaryFolder own(fs::temp_directory_path() / "ipu_model_codelets");
    return own.path();
  }
  struct stat status;
  if (stat(folder.c_str(), &status) != 0 || status.st_uid != geteuid() || (status.st_mode & 022) != 0) {
    throw poplar_error("addCodelets: the cache of compiled codelets '" + folder.string() +
                       "' must belong to this user and be writable by nobody else; remove it, or choose "
                       "another folder with IPU_MODEL_CODELET_CACHE");
  }
  return folder;
}

}  // namespace ipu_model
