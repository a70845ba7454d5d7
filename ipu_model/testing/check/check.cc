#include "check.h"

#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

namespace jax_ipu::testing {
namespace {

struct Test {
  std::string program, name;
  std::function<void()> body;
};

// Tests register themselves before main begins, in any order of files.
struct State {
  std::vector<Test> tests;
  int failures = 0;
};
State& GetState() {
  static State state;
  return state;
}

}  // namespace

Registrar::Registrar(const char* program, const char* name, std::function<void()> body) {
  GetState().tests.push_back({program, name, std::move(body)});
}

void Fail(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  ++GetState().failures;
}

int Failures() { return GetState().failures; }

bool IsRun(const std::string& program) { return program.empty() || program == program_invocation_short_name; }

int RunTests(const std::string& program) {
  State& state = GetState();
  int passed = 0, failed = 0;
  for (auto& test : state.tests) {
    if (!program.empty() && !test.program.empty() && test.program != program) continue;
    const int before = state.failures;
    try {
      test.body();
    } catch (const std::exception& e) {
      Fail(test.name.c_str(), 0, std::string("uncaught exception: ") + e.what());
    }
    const bool ok = state.failures == before;
    ++(ok ? passed : failed);
    std::printf("%s %s\n", ok ? "ok    " : "FAILED", test.name.c_str());
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace jax_ipu::testing
