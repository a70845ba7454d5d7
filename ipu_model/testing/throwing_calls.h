// Tables of wrong calls of the API and the exceptions that they throw.
#ifndef IPU_MODEL_TESTING_THROWING_CALLS_H_
#define IPU_MODEL_TESTING_THROWING_CALLS_H_

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "check.h"
#include "poplar/exceptions.hpp"

namespace ipu_model::toy {

struct WrongCall {
  const char* expected;  // the class, by name
  const char* text;      // of the call, for messages
  int line;
  std::function<void()> call;
};

// WRONG(type_error, x.reinterpret(HALF))
#define WRONG(type, ...)                                        \
  ::ipu_model::toy::WrongCall {                                 \
    #type, #__VA_ARGS__, __LINE__, [&] { (void)(__VA_ARGS__); } \
  }

// Each call throws exactly its class, with a message.
inline void CheckWrong(const char* file, const std::vector<WrongCall>& calls) {
  for (const WrongCall& wrong : calls) {
    std::string thrown = "nothing";
    try {
      wrong.call();
    } catch (const poplar::poplar_error& error) {
      thrown = *error.what() == '\0' ? error.type + " without a message" : error.type;
    } catch (const std::exception& error) {
      thrown = std::string("no poplar_error but: ") + error.what();
    }
    if (thrown == wrong.expected) continue;
    jax_ipu::testing::Fail(
        file, wrong.line,
        std::string(wrong.text) + ": expected " + wrong.expected + ", thrown was " + thrown);
  }
}

}  // namespace ipu_model::toy

#endif  // IPU_MODEL_TESTING_THROWING_CALLS_H_
