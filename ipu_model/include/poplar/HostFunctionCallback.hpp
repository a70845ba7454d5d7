// What the host does when a program calls a function of the host. Source: its uses in Graphcore's PopART.
#ifndef POPLAR_HOSTFUNCTIONCALLBACK_HPP
#define POPLAR_HOSTFUNCTIONCALLBACK_HPP

#include <memory>
#include <type_traits>
#include <utility>

#include "poplar/ArrayRef.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

// Called on the thread that runs the program, with dense row-major operands that are valid during the call.
class HostCallback {
 public:
  virtual ~HostCallback() = default;
  virtual void operator()(ArrayRef<const void*> inputs, ArrayRef<void*> outputs) = 0;
};

// A HostCallback as a function, for Engine::connectHostFunction; its copies share it.
class HostCallbackHandle {
 public:
  template <typename Callback, std::enable_if_t<std::is_base_of_v<HostCallback, Callback>, int> = 0>
  HostCallbackHandle(std::unique_ptr<Callback> callback) : callback_(std::move(callback)) {
    if (callback_ == nullptr) throw stream_connection_error("HostCallbackHandle: the callback is null");
  }
  void operator()(ArrayRef<const void*> inputs, ArrayRef<void*> outputs) const {
    (*callback_)(inputs, outputs);
  }

 private:
  std::shared_ptr<HostCallback> callback_;
};

}  // namespace poplar

#endif  // POPLAR_HOSTFUNCTIONCALLBACK_HPP
