// HostPool and HostBlock.
#include "runtime/memory/host_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/executable/executable.h"
#include "runtime/process/fork.h"

namespace jax_ipu {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

void* AllocateFresh(std::size_t bytes) {
  const bool huge = bytes >= 2 * kHugePage;
  const std::size_t alignment = huge ? kHugePage : kAlignment;
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) {
    throw Error(Code::kResourceExhausted,
                "Out of host memory: cannot allocate " + std::to_string(bytes) +
                    " bytes for an array. Delete arrays that are no longer needed.");
  }
  if (huge) madvise(memory, bytes, MADV_HUGEPAGE);  // advice: failure changes speed only
  return memory;
}

}  // namespace

int HostPool::ClassOf(std::size_t bytes) {
  if (bytes > SizeOfClass(kClasses - 1)) return kClasses;
  int doubling = 6;  // the smallest class holds 64 bytes
  while ((std::size_t{1} << (doubling + 1)) < bytes) ++doubling;
  const std::size_t base = std::size_t{1} << doubling;
  if (bytes <= base) return (doubling - 6) * 4;
  const std::size_t quarter = base / 4;
  return (doubling - 6) * 4 + static_cast<int>((bytes - base + quarter - 1) / quarter);
}

std::size_t HostPool::SizeOfClass(int index) {
  const std::size_t base = std::size_t{64} << (index / 4);
  return base + base / 4 * static_cast<std::size_t>(index % 4);
}

HostPool::~HostPool() {
  for (std::vector<void*>& list : unused_) {
    for (void* memory : list) std::free(memory);
  }
}

void* HostPool::Allocate(std::size_t bytes) {
  const int index = ClassOf(bytes);
  if (index >= kClasses) return AllocateFresh(bytes);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<void*>& list = unused_[static_cast<std::size_t>(index)];
    if (!list.empty()) {
      void* memory = list.back();
      list.pop_back();
      unused_bytes_ -= SizeOfClass(index);
      return memory;
    }
  }
  return AllocateFresh(SizeOfClass(index));
}

void HostPool::Free(void* memory, std::size_t bytes) {
  const int index = ClassOf(bytes);
  if (index < kClasses) {
    const std::size_t size = SizeOfClass(index);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (unused_bytes_ + size <= limit_bytes_) {
      unused_[static_cast<std::size_t>(index)].push_back(memory);
      unused_bytes_ += size;
      return;
    }
  }
  std::free(memory);
}

std::size_t HostPool::unused_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return unused_bytes_;
}

HostBlock::HostBlock(std::shared_ptr<HostPool> pool, void* data, std::size_t bytes,
                     std::shared_ptr<void> memory, bool borrowed)
    : borrowed_(borrowed), data_(data), bytes_(bytes), pool_(std::move(pool)), memory_(std::move(memory)) {}

HostBlock::~HostBlock() {
  if (IsForkedChild()) return;  // another thread may have held the pool's lock at the fork
  if (pool_) pool_->Free(data(), bytes_);
}

void HostBlock::Own(const std::shared_ptr<HostPool>& pool) {
  if (!borrowed_.load(std::memory_order_acquire)) return;
  std::shared_ptr<void> lent;  // given back without the lock, because that calls the owner
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!borrowed_.load(std::memory_order_relaxed)) return;
  void* own = pool->Allocate(bytes_);
  std::memcpy(own, data(), bytes_);
  pool_ = pool;
  data_.store(own, std::memory_order_release);
  lent.swap(memory_);
  borrowed_.store(false, std::memory_order_release);
}

std::shared_ptr<void> HostBlock::Hold() const {
  if (!borrowed_.load(std::memory_order_acquire)) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  return memory_;
}

std::shared_ptr<HostBlock> HostBlock::Allocate(const std::shared_ptr<HostPool>& pool, std::size_t bytes) {
  return std::make_shared<HostBlock>(pool, pool->Allocate(bytes), bytes, nullptr, /*borrowed=*/false);
}

std::shared_ptr<HostBlock> HostBlock::Zeros(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  void* memory = std::calloc(bytes + kAlignment, 1);
  if (memory == nullptr) {
    throw Error(Code::kResourceExhausted, "Out of host memory for " + std::to_string(bytes) + " bytes");
  }
  void* data = memory;
  std::size_t space = bytes + kAlignment;
  std::align(kAlignment, bytes, data, space);
  return std::make_shared<HostBlock>(nullptr, data, bytes, std::shared_ptr<void>(memory, std::free),
                                     /*borrowed=*/false);
}

std::shared_ptr<HostBlock> HostBlock::Borrow(const void* data, std::size_t bytes,
                                             std::function<void()> release) {
  const auto give_back = [release = std::move(release)](void*) {
    if (release && !IsForkedChild()) release();
  };
  void* memory = const_cast<void*>(data);
  return std::make_shared<HostBlock>(nullptr, memory, bytes, std::shared_ptr<void>(memory, give_back),
                                     /*borrowed=*/true);
}

}  // namespace jax_ipu
