// Runs code of users so that it cannot end the process: a time limit, and errors in place of fatal signals.
#ifndef IPU_MODEL_CODELETS_VERTEX_GUARD_H_
#define IPU_MODEL_CODELETS_VERTEX_GUARD_H_

#include <cstddef>
#include <string>

namespace ipu_model {

// Calls compute(vertices[i]) for i in [begin, end) on this thread. If one of them throws, aborts, divides by
// zero, accesses memory that it does not have, or takes more than `seconds` of processor time (at most twice
// that), sets *failed to its number and returns what happened; later vertices do not run. Otherwise returns
// "". A vertex that is ended early does not run the destructors of what it has on its stack.
using VertexFunction = void (*)(void* vertex);
struct GuardedVertex {
  VertexFunction compute;
  void* vertex;
};
// `fault`, if it is not null, is set to the address that it must not access, if that is why.
std::string RunGuarded(const GuardedVertex* vertices, std::size_t begin, std::size_t end, double seconds,
                       std::size_t* failed, const void** fault = nullptr);

// Sets the limit of the runs that this thread starts, for its lifetime.
class VertexTimeLimit {
 public:
  explicit VertexTimeLimit(double seconds);
  ~VertexTimeLimit();
  VertexTimeLimit(const VertexTimeLimit&) = delete;
  VertexTimeLimit& operator=(const VertexTimeLimit&) = delete;
  static double Current();

 private:
  double before_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CODELETS_VERTEX_GUARD_H_
