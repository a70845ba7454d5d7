// A minimal C++ test framework: TEST registers a test, CHECK* record failures, RunTests runs all tests and
// returns the exit code.
#ifndef IPU_MODEL_TESTING_CHECK_H_
#define IPU_MODEL_TESTING_CHECK_H_

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace jax_ipu::testing {

struct State {
  std::vector<std::pair<std::string, std::function<void()>>> tests;
  int failures = 0;
};
inline State& GetState() {
  static State state;
  return state;
}
struct Registrar {
  Registrar(const char* name, std::function<void()> body) {
    GetState().tests.emplace_back(name, std::move(body));
  }
};
inline void Fail(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  ++GetState().failures;
}
template <typename A, typename B>
std::string Describe(const char* a, const char* b, const A& x, const B& y) {
  std::ostringstream out;
  out << a << " vs " << b << ": " << x << " vs " << y;
  return out.str();
}
inline bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
// The message of the Error that f throws, or "" where it throws none.
template <typename Error = std::exception, typename F>
std::string MessageOf(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
// Whether also what takes long is tested, as .ci/nightly does, which sets the variable.
inline bool Everything() { return std::getenv("IPU_MODEL_TEST_EVERYTHING") != nullptr; }
inline int RunTests() {
  int failed = 0;
  for (auto& [name, body] : GetState().tests) {
    const int before = GetState().failures;
    try {
      body();
    } catch (const std::exception& e) {
      Fail(name.c_str(), 0, std::string("uncaught exception: ") + e.what());
    }
    const bool ok = GetState().failures == before;
    failed += ok ? 0 : 1;
    std::printf("%s %s\n", ok ? "ok    " : "FAILED", name.c_str());
  }
  std::printf("%zu passed, %d failed\n", GetState().tests.size() - static_cast<std::size_t>(failed), failed);
  return failed == 0 && !GetState().tests.empty() ? 0 : 1;
}

}  // namespace jax_ipu::testing

#define TEST(name)                                                          \
  static void name();                                                       \
  static const ::jax_ipu::testing::Registrar registrar_##name(#name, name); \
  static void name()
#define CHECK(cond)                                                                    \
  do {                                                                                 \
    if (!(cond)) ::jax_ipu::testing::Fail(__FILE__, __LINE__, "CHECK failed: " #cond); \
  } while (false)
#define CHECK_EQ(a, b)                                                                            \
  do {                                                                                            \
    const auto& x_ = (a);                                                                         \
    const auto& y_ = (b);                                                                         \
    if (!(x_ == y_))                                                                              \
      ::jax_ipu::testing::Fail(__FILE__, __LINE__, ::jax_ipu::testing::Describe(#a, #b, x_, y_)); \
  } while (false)
#define CHECK_NEAR(a, b, tolerance)                                                               \
  do {                                                                                            \
    const double x_ = (a), y_ = (b);                                                              \
    if (!(std::abs(x_ - y_) <= (tolerance)))                                                      \
      ::jax_ipu::testing::Fail(__FILE__, __LINE__, ::jax_ipu::testing::Describe(#a, #b, x_, y_)); \
  } while (false)
#define CHECK_THROWS(type, expression)                                                               \
  do {                                                                                               \
    bool thrown_ = false;                                                                            \
    try {                                                                                            \
      (void)(expression);                                                                            \
    } catch (const type&) {                                                                          \
      thrown_ = true;                                                                                \
    }                                                                                                \
    if (!thrown_) ::jax_ipu::testing::Fail(__FILE__, __LINE__, #expression " did not throw " #type); \
  } while (false)

#endif  // IPU_MODEL_TESTING_CHECK_H_
