// Where the text goes that codelets print.
#ifndef IPU_MODEL_CODELETS_CODELET_OUTPUT_H_
#define IPU_MODEL_CODELETS_CODELET_OUTPUT_H_

#include <cstddef>
#include <ostream>

namespace ipu_model {

// Called by the codelets that run on this thread.
void PrintFromCodelet(const char* text, std::size_t bytes);

// Sets the stream of the codelets that this thread runs, for its lifetime; null is the process's stdout.
class CodeletOutput {
 public:
  explicit CodeletOutput(std::ostream* stream);
  ~CodeletOutput();
  CodeletOutput(const CodeletOutput&) = delete;
  CodeletOutput& operator=(const CodeletOutput&) = delete;
  static std::ostream* Current();

 private:
  std::ostream* const before_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CODELETS_CODELET_OUTPUT_H_
