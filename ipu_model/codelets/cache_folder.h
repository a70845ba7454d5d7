// Files of the compilation of codelets: text files, temporary folders, and the folder of the cache.
#ifndef IPU_MODEL_CODELETS_CACHE_FOLDER_H_
#define IPU_MODEL_CODELETS_CACHE_FOLDER_H_

#include <filesystem>
#include <string>

namespace ipu_model {

// A hash of 128 bits as digits, the same on all machines.
std::string HashOf(const std::string& text);

// Both throw poplar::poplar_error with the name of the file. WriteText makes folders that are missing.
std::string ReadText(const std::filesystem::path& path);
void WriteText(const std::filesystem::path& path, const std::string& text);

// A folder that is removed when the object goes.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& prefix);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The folder of the cache: $IPU_MODEL_CODELET_CACHE, or ipu_model/codelets in the user's cache folder. Its
// files are loaded as code, so nobody else may write there: otherwise throws poplar::poplar_error.
std::filesystem::path CacheFolder();

}  // namespace ipu_model

#endif  // IPU_MODEL_CODELETS_CACHE_FOLDER_H_
