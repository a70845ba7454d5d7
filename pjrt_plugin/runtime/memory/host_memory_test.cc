// The pool reuses memory within its limit; blocks return or release theirs.
#include "runtime/memory/host_memory.h"

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"

namespace jax_ipu {
namespace {

TEST(MemoryIsAlignedForAnySize) {
  HostPool pool;
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 80, 81, 127, 128, 129, 1000, 4096, 5000000, 33554433}) {
    void* memory = pool.Allocate(bytes);
    CHECK_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0u);
    if (bytes > 0) {
      static_cast<char*>(memory)[0] = 1;
      static_cast<char*>(memory)[bytes - 1] = 1;
    }
    pool.Free(memory, bytes);
  }
}

TEST(FreedMemoryIsReused) {
  HostPool pool;
  void* first = pool.Allocate(100000);
  pool.Free(first, 100000);
  CHECK(pool.unused_bytes() >= 100000);
  void* second = pool.Allocate(99999);
  CHECK_EQ(first, second);
  CHECK_EQ(pool.unused_bytes(), 0u);
  pool.Free(second, 99999);
}

TEST(NoMoreThanTheLimitIsKept) {
  HostPool pool(1000);
  void* large = pool.Allocate(2000);
  void* small = pool.Allocate(500);
  pool.Free(large, 2000);
  CHECK_EQ(pool.unused_bytes(), 0u);
  pool.Free(small, 500);
  CHECK(pool.unused_bytes() >= 500);
}

TEST(BlocksGiveTheirMemoryBack) {
  auto pool = std::make_shared<HostPool>();
  std::shared_ptr<HostBlock> block = HostBlock::Allocate(pool, 4096);
  const std::shared_ptr<HostBlock> other = block;
  block.reset();
  CHECK_EQ(pool->unused_bytes(), 0u);
}

TEST(BorrowedMemoryIsReleasedOnceByTheLastOwner) {
  const int data = 3;
  int released = 0;
  std::shared_ptr<HostBlock> block = HostBlock::Borrow(&data, sizeof(data), [&released] { ++released; });
  std::shared_ptr<HostBlock> other = block;
  block.reset();
  CHECK_EQ(released, 0);
  CHECK_EQ(*static_cast<const int*>(other->data()), 3);
  other.reset();
  CHECK_EQ(released, 1);
}

TEST(OwnedMemoryDoesNotFollowItsFormerOwner) {
  auto pool = std::make_shared<HostPool>();
  int data = 3, released = 0;
  const std::shared_ptr<HostBlock> block =
      HostBlock::Borrow(&data, sizeof(data), [&released] { ++released; });
  std::shared_ptr<void> held = block->Hold();
  const void* before = block->data();
  block->Own(pool);
  CHECK_EQ(released, 0);  // somebody still reads it
  CHECK_EQ(before, static_cast<const void*>(&data));
  data = 4;
  CHECK_EQ(*static_cast<const int*>(block->data()), 3);
  held.reset();
  CHECK_EQ(released, 1);
  const void* own = block->data();
  block->Own(pool);
  CHECK_EQ(own, static_cast<const void*>(block->data()));
  CHECK(block->Hold() == nullptr);
  CHECK(HostBlock::Allocate(pool, 8)->Hold() == nullptr);
}

TEST(BlocksAreOwnedWhileOthersReadThem) {
  auto pool = std::make_shared<HostPool>();
  for (int round = 0; round < 50; ++round) {
    auto data = std::make_unique<std::vector<int>>(1000, round);
    const std::shared_ptr<HostBlock> block = HostBlock::Borrow(data->data(), 4000, [&data] { data.reset(); });
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&block, &pool, t, round] {
        if (t == 0) block->Own(pool);
        const std::shared_ptr<void> held = block->Hold();
        CHECK_EQ(static_cast<const int*>(block->data())[999], round);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(PoolIsThreadSafe) {
  HostPool pool(1 << 16);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 500; ++i) {
        const auto bytes = static_cast<std::size_t>((i * 37 + t * 1001) % 9000 + 1);
        auto* memory = static_cast<char*>(pool.Allocate(bytes));
        memory[0] = memory[bytes - 1] = static_cast<char>(t);
        pool.Free(memory, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(pool.unused_bytes() <= 1 << 16);
}

}  // namespace
}  // namespace jax_ipu
