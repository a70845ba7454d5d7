#include <string>

#include "check.h"

// A file that several test programs are linked into has a name for each of them.
int main(int, char** argv) {
  const std::string path = argv[0];
  return jax_ipu::testing::RunTests(path.substr(path.rfind('/') + 1));
}
