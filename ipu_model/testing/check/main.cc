#include <cerrno>

#include "check.h"

// A file that several test programs are linked into has a name for each of them.
int main() { return jax_ipu::testing::RunTests(program_invocation_short_name); }
