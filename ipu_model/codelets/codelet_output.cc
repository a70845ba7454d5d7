#include "codelets/codelet_output.h"

#include <cstdio>
#include <mutex>

namespace ipu_model {
namespace {

thread_local std::ostream* current = nullptr;

}  // namespace

void PrintFromCodelet(const char* text, std::size_t bytes) {
  if (current == nullptr) {
    std::fwrite(text, 1, bytes, stdout);
    return;
  }
  static std::mutex mutex;  // vertices of several threads have one stream
  const std::lock_guard<std::mutex> lock(mutex);
  current->write(text, static_cast<std::streamsize>(bytes));
}

CodeletOutput::CodeletOutput(std::ostream* stream) : before_(current) { current = stream; }
CodeletOutput::~CodeletOutput() { current = before_; }
std::ostream* CodeletOutput::Current() { return current; }

}  // namespace ipu_model
