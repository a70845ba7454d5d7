// Host memory of arrays: blocks that are written once and then shared, and the pool that reuses them.
#ifndef JAX_IPU_RUNTIME_MEMORY_HOST_MEMORY_H_
#define JAX_IPU_RUNTIME_MEMORY_HOST_MEMORY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace jax_ipu {

// Keeps freed memory for the next allocation of about the same size: fresh pages cost ten times what a kernel
// that fills them costs. Thread safe.
class HostPool : public std::enable_shared_from_this<HostPool> {
 public:
  // At most `limit_bytes` are kept unused.
  explicit HostPool(std::size_t limit_bytes = std::size_t{1} << 30) : limit_bytes_(limit_bytes) {}
  ~HostPool();
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  // 64-byte aligned and uninitialised. Throws Error(kResourceExhausted).
  void* Allocate(std::size_t bytes);
  void Free(void* memory, std::size_t bytes);
  std::size_t unused_bytes() const;

 private:
  // Four classes for each doubling, so at most a quarter of a block is wasted.
  static constexpr int kClasses = 4 * 48;
  static int ClassOf(std::size_t bytes);
  static std::size_t SizeOfClass(int index);

  mutable std::mutex mutex_;
  std::array<std::vector<void*>, kClasses> unused_;
  std::size_t unused_bytes_ = 0;
  const std::size_t limit_bytes_;
};

// The bytes of one array. Written by one producer before it is shared, never afterwards, so any number of
// arrays may share it.
class HostBlock {
 public:
  static std::shared_ptr<HostBlock> Allocate(const std::shared_ptr<HostPool>& pool, std::size_t bytes);
  // Zeros that nobody writes to. They take physical memory only where they are read, if they are many.
  static std::shared_ptr<HostBlock> Zeros(std::size_t bytes);
  // Wraps memory of another owner, who may change it as soon as the buffer that was made of it is gone. So
  // what may use the memory for longer calls Own() first. `release` is called when the memory is no longer
  // needed.
  static std::shared_ptr<HostBlock> Borrow(const void* data, std::size_t bytes,
                                           std::function<void()> release);

  // `memory` gives back what does not come from the pool.
  HostBlock(std::shared_ptr<HostPool> pool, void* data, std::size_t bytes, std::shared_ptr<void> memory,
            bool borrowed);
  ~HostBlock();
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;

  // Another address after Own().
  void* data() const { return data_.load(std::memory_order_acquire); }
  std::size_t bytes() const { return bytes_; }

  // Copies borrowed memory to memory of `pool`, so that nobody else can change it. Thread safe.
  void Own(const std::shared_ptr<HostPool>& pool);
  // While the caller keeps the result, what data() returns stays readable, whoever calls Own(). Null if the
  // block owns its memory.
  std::shared_ptr<void> Hold() const;

 private:
  std::atomic<bool> borrowed_;
  std::atomic<void*> data_;
  const std::size_t bytes_;
  mutable std::mutex mutex_;
  std::shared_ptr<HostPool> pool_;  // under the mutex while the memory is borrowed, like memory_
  std::shared_ptr<void> memory_;
};

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_MEMORY_HOST_MEMORY_H_
