// libFuzzer target: mutates the content of a serialised executable; the checksum is always made to fit.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/run_executable.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  jax_ipu::fuzz::RunContent(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
