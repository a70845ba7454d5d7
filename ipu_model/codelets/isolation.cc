#include "codelets/isolation.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>

#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

// What the helper tells; the bytes of the results are behind it.
struct Told {
  volatile std::size_t number;  // of the call that has begun
  volatile bool complete;       // what follows is there
  bool failed;
  char reason[2048];
};

constexpr std::size_t kResults = (sizeof(Told) + 63) / 64 * 64;

class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes) : bytes_(bytes) {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<unsigned char*>(memory);
  }
  ~SharedMemory() { munmap(data_, bytes_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  unsigned char* data() const { return data_; }

 private:
  unsigned char* data_ = nullptr;
  std::size_t bytes_;
};

constexpr int kCalledExit = 97;

// In the helper. Nothing of the process that it is a copy of may run at its end.
[[noreturn]] void Help(std::size_t n, const std::function<std::string(std::size_t)>& run,
                       const std::vector<IsolatedMemory>& results, unsigned char* shared) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::atexit([] { _exit(kCalledExit); });
  auto* const told = reinterpret_cast<Told*>(shared);
  std::string reason;
  for (std::size_t i = 0; i < n && reason.empty(); ++i) {
    told->number = i;
    reason = run(i);
  }
  told->failed = !reason.empty();
  std::strncpy(told->reason, reason.c_str(), sizeof(told->reason) - 1);
  unsigned char* at = shared + kResults;
  for (const IsolatedMemory& result : results) {
    if (result.bytes > 0) std::memcpy(at, result.data, result.bytes);
    at += result.bytes;
  }
  told->complete = true;
  _exit(0);
}

}  // namespace

bool CodeletsAreIsolated() {
  const char* const text = std::getenv("JAX_IPU_CODELETS");
  if (text == nullptr || *text == '\0') return false;
  if (std::strcmp(text, "isolated") == 0) return true;
  throw poplar::invalid_option(std::string("the environment variable JAX_IPU_CODELETS cannot be '") + text +
                               "': isolated, or nothing");
}

std::string RunIsolated(std::size_t n, const std::function<std::string(std::size_t)>& run,
                        const std::vector<IsolatedMemory>& results, std::size_t* failed) {
  std::size_t bytes = kResults;
  for (const IsolatedMemory& result : results) bytes += result.bytes;
  const SharedMemory shared(bytes);
  const auto* const told = reinterpret_cast<const Told*>(shared.data());
  const pid_t helper = fork();
  if (helper < 0) throw std::system_error(errno, std::generic_category(), "JAX_IPU_CODELETS=isolated: fork");
  if (helper == 0) Help(n, run, results, shared.data());
  int status = 0;
  while (waitpid(helper, &status, 0) < 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
  }
  const std::size_t number = told->number;
  *failed = std::min(number, n - 1);  // the helper could write anything
  if (!told->complete) {
    if (WIFSIGNALED(status)) return std::string("it ended its process: ") + strsignal(WTERMSIG(status));
    return "it called exit()";
  }
  if (told->failed) return told->reason;
  const unsigned char* at = shared.data() + kResults;
  for (const IsolatedMemory& result : results) {
    if (result.bytes > 0) std::memcpy(result.data, at, result.bytes);
    at += result.bytes;
  }
  return "";
}

}  // namespace ipu_model
