// Caches of compiled codelets for tests.
#ifndef IPU_MODEL_TESTING_CODELET_CACHE_H_
#define IPU_MODEL_TESTING_CODELET_CACHE_H_

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "check.h"

namespace ipu_model::toy {

// A cache of the test program's own, which is empty before and removed after.
class CodeletCache {
 public:
  explicit CodeletCache(const char* program = IPU_CHECK_PROGRAM) {
    if (!jax_ipu::testing::IsRun(program)) return;
    std::string name = (std::filesystem::temp_directory_path() / "codelets_test.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
    setenv("IPU_MODEL_CODELET_CACHE", path_.c_str(), 1);
  }
  ~CodeletCache() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  CodeletCache(const CodeletCache&) = delete;
  CodeletCache& operator=(const CodeletCache&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// For tests that do not test the cache: the folder IPU_MODEL_TEST_CODELETS, where that is set, so that a
// build with sanitizers need not compile the codelets again; else a cache of the test's own.
class SharedCodeletCache {
 public:
  explicit SharedCodeletCache(const char* program = IPU_CHECK_PROGRAM) {
    if (!jax_ipu::testing::IsRun(program)) return;
    const char* shared = std::getenv("IPU_MODEL_TEST_CODELETS");
    if (shared == nullptr || *shared == 0) {
      own_.emplace(program);
    } else {
      setenv("IPU_MODEL_CODELET_CACHE", shared, 1);
    }
  }

 private:
  std::optional<CodeletCache> own_;
};

}  // namespace ipu_model::toy

#endif  // IPU_MODEL_TESTING_CODELET_CACHE_H_
