// The host's end of a stream that a callback serves, instead of memory.
#ifndef IPU_MODEL_ENGINE_RUN_STREAM_PORT_H_
#define IPU_MODEL_ENGINE_RUN_STREAM_PORT_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ipu_model/Model.hpp"
#include "poplar/StreamCallback.hpp"

namespace ipu_model {

// The callback of a stream that is one for all replicas: the first that comes to a transfer calls it.
class BroadcastSource {
 public:
  BroadcastSource(std::shared_ptr<poplar::StreamCallback> callback, std::size_t bytes, std::size_t replicas)
      : callback_(std::move(callback)), bytes_(bytes), next_(replicas, 0) {}
  void Take(std::size_t replica, unsigned char* to) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (next_[replica] == first_ + transfers_.size()) {
      const KeepDenormals keep;  // the callback is not part of the device
      transfers_.emplace_back(bytes_ > 0 ? bytes_ : 1);
      callback_->fetch(transfers_.back().data());
      callback_->complete();
    }
    std::memcpy(to, transfers_[next_[replica]++ - first_].data(), bytes_);
    while (!transfers_.empty() && *std::min_element(next_.begin(), next_.end()) > first_) {
      transfers_.pop_front();
      ++first_;
    }
  }

 private:
  std::mutex mutex_;
  const std::shared_ptr<poplar::StreamCallback> callback_;
  const std::size_t bytes_;
  std::vector<std::size_t> next_;                     // by replica: its next transfer
  std::size_t first_ = 0;                             // the number of the first that is kept
  std::deque<std::vector<unsigned char>> transfers_;  // that not all replicas have taken
};

class StreamPort {
 public:
  // `bytes`: of one transfer. `prefetch`: whether a transfer may take its data ahead of time.
  StreamPort(std::shared_ptr<poplar::StreamCallback> callback, std::size_t bytes, bool prefetch)
      : callback_(std::move(callback)), memory_(bytes > 0 ? bytes : 1), prefetch_(prefetch) {}
  StreamPort(std::shared_ptr<BroadcastSource> source, std::size_t replica, std::size_t bytes)
      : source_(std::move(source)), replica_(replica), memory_(bytes > 0 ? bytes : 1), prefetch_(false) {}
  StreamPort(const StreamPort&) = delete;
  StreamPort& operator=(const StreamPort&) = delete;
  ~StreamPort() {
    if (ready_) callback_->prefetchInvalidate();
  }

  unsigned char* memory() { return memory_.data(); }
  // Before the device reads the memory.
  void Fill() {
    if (source_ != nullptr) return source_->Take(replica_, memory_.data());
    const KeepDenormals keep;  // the callback is not part of the device
    if (!ready_) callback_->fetch(memory_.data());
    ready_ = false;
  }
  // After that.
  void Consumed() {
    if (source_ != nullptr) return;
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
  const std::shared_ptr<BroadcastSource> source_;           // in place of a callback
  const std::size_t replica_ = 0;
  std::vector<unsigned char> memory_;
  const bool prefetch_;
  bool ready_ = false;  // the memory has prefetched data
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_RUN_STREAM_PORT_H_
