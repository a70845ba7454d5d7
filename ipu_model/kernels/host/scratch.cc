// Scratch memory of kernels. After the first pass over a program, it is one block that is reused.
#include <algorithm>

#include "kernels/host/context.h"

namespace ipu_model {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kSmallestBlock = std::size_t{64} << 10;

std::size_t RoundUp(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

unsigned char* Align(unsigned char* p) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  return p + (RoundUp(address) - address);
}

// make_unique would set the memory to zero.
std::unique_ptr<unsigned char[]> NewBlock(std::size_t capacity) {
  return std::unique_ptr<unsigned char[]>(new unsigned char[capacity + kAlignment]);
}

}  // namespace

// used_ and capacity_ belong to the last block. total_ is the sum of all live requests, peak_ its maximum
// since the last Reset.
void* Scratch::Allocate(std::size_t bytes) {
  bytes = RoundUp(std::max<std::size_t>(bytes, 1));
  if (blocks_.empty() || used_ + bytes > capacity_) {
    // Doubles the capacity, so that a loop that rewinds soon fits into one block.
    capacity_ = std::max({bytes, 2 * capacity_, kSmallestBlock});
    blocks_.push_back(NewBlock(capacity_));
    used_ = 0;
  }
  void* result = Align(blocks_.back().get()) + used_;
  used_ += bytes;
  total_ += bytes;
  peak_ = std::max(peak_, total_);
  return result;
}

void Scratch::Reset() {
  if (blocks_.size() > 1) {
    capacity_ = std::max(peak_, kSmallestBlock);
    blocks_.clear();
    blocks_.push_back(NewBlock(capacity_));
  }
  used_ = total_ = peak_ = 0;
}

}  // namespace ipu_model
