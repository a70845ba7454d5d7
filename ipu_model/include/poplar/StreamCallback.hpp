// What the host does when a program transfers a stream. Source: Graphcore's Poplar and PopLibs API reference,
// class poplar::StreamCallback.
#ifndef POPLAR_STREAMCALLBACK_HPP
#define POPLAR_STREAMCALLBACK_HPP

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace poplar {

// Called on the thread that runs the program. `p` is memory for one transfer.
class StreamCallback {
 public:
  enum class Result { Success, NotAvailable };

  virtual ~StreamCallback() = default;
  // Fills the memory with the data of a later transfer, if it is there already. Success: the next transfer
  // takes it without a fetch. Only called for streams to the device, and where the engine's options allow it.
  virtual Result prefetch(void* p) = 0;
  // Fills the memory, or takes what the device has written to it.
  virtual void fetch(void* p) = 0;
  // The transfer is over.
  virtual void complete() = 0;
  // Data that a prefetch has delivered will not be used: another callback replaces this one.
  virtual void prefetchInvalidate() {}
};

// A callback that never prefetches.
class LegacyStreamCallback : public StreamCallback {
 public:
  Result prefetch(void*) override { return Result::NotAvailable; }
  void complete() override {}
};

// A StreamCallback, or a function that does what its fetch does.
class StreamCallbackHandle {
 public:
  template <typename Callback, std::enable_if_t<std::is_base_of_v<StreamCallback, Callback>, int> = 0>
  StreamCallbackHandle(std::unique_ptr<Callback> callback) : callback_(std::move(callback)) {}
  template <typename F, std::enable_if_t<std::is_invocable_v<F&, void*>, int> = 0>
  StreamCallbackHandle(F&& function)
      : callback_(Made(std::function<void(void*)>(std::forward<F>(function)))) {}

  // Internals of the model, not part of Poplar.
  std::unique_ptr<StreamCallback> take() { return std::move(callback_); }

 private:
  class Function : public LegacyStreamCallback {
   public:
    explicit Function(std::function<void(void*)> function) : function_(std::move(function)) {}
    void fetch(void* p) override { function_(p); }

   private:
    std::function<void(void*)> function_;
  };

  // Of an empty function: none, which Engine::connectStreamToCallback refuses.
  static std::unique_ptr<StreamCallback> Made(std::function<void(void*)> function) {
    return function == nullptr ? nullptr : std::make_unique<Function>(std::move(function));
  }

  std::unique_ptr<StreamCallback> callback_;
};

}  // namespace poplar

#endif  // POPLAR_STREAMCALLBACK_HPP
