// Runs code of users in a process of its own.
#ifndef IPU_MODEL_CODELETS_ISOLATION_H_
#define IPU_MODEL_CODELETS_ISOLATION_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace ipu_model {

// Whether the environment variable JAX_IPU_CODELETS is "isolated". Throws poplar::invalid_option if it has
// another value than that or "", the default.
bool CodeletsAreIsolated();

// Memory that the code may change: only its bytes come back from the helper.
struct IsolatedMemory {
  unsigned char* data;
  std::size_t bytes;
};

// Calls run(i), which returns "" or why it failed, for i in [0, n) in a helper process: a copy of this one,
// so that whatever else the code changes or damages is gone with it. If a call fails or ends the helper, sets
// *failed to its number and returns why; `results` are then as before. Otherwise returns "".
std::string RunIsolated(std::size_t n, const std::function<std::string(std::size_t)>& run,
                        const std::vector<IsolatedMemory>& results, std::size_t* failed);

}  // namespace ipu_model

#endif  // IPU_MODEL_CODELETS_ISOLATION_H_
