// A minimal C++ test framework: TEST registers a test, CHECK* record failures. The main function of a test
// program is main.cc, unless it has one of its own.
#ifndef IPU_MODEL_TESTING_CHECK_H_
#define IPU_MODEL_TESTING_CHECK_H_

#include <cmath>
#include <cstdlib>
#include <exception>
#include <functional>
#include <sstream>
#include <string>

namespace jax_ipu::testing {

// Registers a test of a test program; of any program, if its name is empty.
struct Registrar {
  Registrar(const char* program, const char* name, std::function<void()> body);
};
void Fail(const char* file, int line, const std::string& what);
int Failures();
// Whether this process runs the tests of a program: those of one file are loaded together.
bool IsRun(const std::string& program);
// Runs the tests of a program and prints what passed; returns the exit code, which is 1 without any test.
int RunTests(const std::string& program = "");

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

}  // namespace jax_ipu::testing

// The test program of a source, where one file has several (jax_ipu_test in cmake/settings.cmake).
#ifndef IPU_CHECK_PROGRAM
#define IPU_CHECK_PROGRAM ""
#endif

#define TEST(name)                                                                             \
  static void name();                                                                          \
  static const ::jax_ipu::testing::Registrar registrar_##name(IPU_CHECK_PROGRAM, #name, name); \
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
