// The host's end of a stream that a callback serves, instead of memory.
#ifndef IPU_MODEL_ENGINE_STREAM_PORT_H_
#define IPU_MODEL_ENGINE_STREAM_PORT_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "ipu_model/Model.hpp"
#include "poplar/StreamCallback.hpp"

namespace ipu_model {

class StreamPort {
 public:
  // `bytes`: of one transfer. `prefetch`: whether a transfer may take its data ahead of time.
  StreamPort(std::shared_ptr<poplar::StreamCallback> callback, std::size_t bytes, bool prefetch)
      : callback_(std::move(callback)), memory_(bytes > 0 ? bytes : 1), prefetch_(prefetch) {}
  StreamPort(const StreamPort&) = delete;
  StreamPort& operator=(const StreamPort&) = delete;
  ~StreamPort() {
    if (ready_) callback_->prefetchInvalidate();
  }

  unsigned char* memory() { return memory_.data(); }
  // Before the device reads the memory.
  void Fill() {
    const KeepDenormals keep;  // the callback is not part of the device
    if (!ready_) callback_->fetch(memory_.data());
    ready_ = false;
  }
  // After that.
  void Consumed() {
    const KeepDenormals keep;
    callback_->complete();
    ready_ = prefetch_ && callback_->prefetch(memory_.data()) == poplar::StreamCallback::Result::Success;
  }
  // After the device has written the memory.
  void Deliver() {
    const KeepDenormals keep;
    callback_->fetch(memory_.data());
    callback_->complete();
  }

 private:
  const std::shared_ptr<poplar::StreamCallback> callback_;  // several replicas may have one
  std::vector<unsigned char> memory_;
  const bool prefetch_;
  bool ready_ = false;  // the memory has prefetched data
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_STREAM_PORT_H_
