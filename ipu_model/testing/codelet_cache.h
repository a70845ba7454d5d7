// For tests of codelets: a cache of their own, which is empty before and removed after.
#ifndef IPU_MODEL_TESTING_CODELET_CACHE_H_
#define IPU_MODEL_TESTING_CODELET_CACHE_H_

#include <cstdlib>
#include <filesystem>
#include <string>

namespace ipu_model::toy {

class CodeletCache {
 public:
  CodeletCache() {
    std::string name = (std::filesystem::temp_directory_path() / "codelets_test.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
    setenv("IPU_MODEL_CODELET_CACHE", path_.c_str(), 1);
  }
  ~CodeletCache() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  CodeletCache(const CodeletCache&) = delete;
  CodeletCache& operator=(const CodeletCache&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace ipu_model::toy

#endif  // IPU_MODEL_TESTING_CODELET_CACHE_H_
