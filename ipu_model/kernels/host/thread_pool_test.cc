// Tests of the thread pool, scratch memory and denormal control.
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "check.h"
#include "kernels/host/context.h"

namespace ipu_model {
namespace {

TEST(EveryWorkerRunsOnce) {
  ThreadPool& pool = ThreadPool::Global();
  CHECK(pool.size() >= 1);
  for (int repeat = 0; repeat < 20000; ++repeat) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(pool.size()));
    auto task = [&](int worker) { ++calls[static_cast<std::size_t>(worker)]; };
    pool.Run(pool.size(), task);
    for (auto& c : calls) CHECK_EQ(c.load(), 1);
  }
}

TEST(RunsAfterSleeping) {
  ThreadPool& pool = ThreadPool::Global();
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(repeat % 6));
    std::atomic<int> calls{0};
    auto task = [&](int) { ++calls; };
    pool.Run(pool.size(), task);
    CHECK_EQ(calls.load(), pool.size());
  }
}

TEST(JobsAreDoneOnceWhileWorkersFallAsleep) {
  // The pauses are close to the spin time, so the caller finishes its own part before the workers are awake.
  ThreadPool& pool = ThreadPool::Global();
  std::vector<std::atomic<int>> calls(static_cast<std::size_t>(pool.size()));
  auto task = [&](int worker) { ++calls[static_cast<std::size_t>(worker)]; };
  for (int repeat = 0; repeat < 5000; ++repeat) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(40 + repeat % 50);
    while (std::chrono::steady_clock::now() < end) {
    }
    pool.Run(pool.size(), task);
    for (auto& c : calls) CHECK_EQ(c.load(), repeat + 1);
  }
}

// Restricts the calling thread to one CPU.
void BindTo(std::size_t cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  CHECK_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
}

// Runs f on the first worker. The caller waits in its own part, so that it cannot take the worker's part
// back.
template <typename F>
void RunOnWorker(ThreadPool& pool, F f) {
  std::atomic<bool> begun{false};
  auto task = [&](int worker) {
    if (worker == 1) {
      f();
      begun = true;
    }
    while (!begun) sched_yield();
  };
  pool.Run(2, task);
}

TEST(WorkersLeaveTheCpuThatTheCallerMovesTo) {
  // A worker queued on the caller's CPU would start milliseconds later, when the caller's time slice ends.
  ThreadPool& pool = ThreadPool::Global();
  cpu_set_t allowed;
  CHECK_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  std::vector<std::size_t> cpus;
  for (std::size_t c = 0; c < CPU_SETSIZE && cpus.size() < 2; ++c)
    if (CPU_ISSET(c, &allowed)) cpus.push_back(c);
  if (pool.size() < 2 || cpus.size() < 2) return;
  constexpr int kRepeats = 40;
  int elsewhere = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    // The worker waits on a CPU that it cannot leave by itself, and the caller moves there.
    const std::size_t cpu = cpus[static_cast<std::size_t>(repeat % 2)];
    RunOnWorker(pool, [&] { BindTo(cpu); });
    BindTo(cpu);
    RunOnWorker(pool, [&] { elsewhere += sched_getcpu() != static_cast<int>(cpu) ? 1 : 0; });
  }
  // Not each time: the pool cannot know where a worker is that has not run since its last job.
  CHECK(elsewhere > kRepeats / 2);
  auto restore = [&] { CHECK_EQ(sched_setaffinity(0, sizeof(allowed), &allowed), 0); };
  RunOnWorker(pool, restore);
  restore();
}

TEST(NestedAndConcurrentJobsFinish) {
  ThreadPool& pool = ThreadPool::Global();
  std::atomic<std::int64_t> sum{0};
  auto caller = [&] {
    for (int repeat = 0; repeat < 500; ++repeat) {
      auto outer = [&](int) {
        auto inner = [&](int w) { sum += w + 1; };
        pool.Run(pool.size(), inner);
      };
      pool.Run(pool.size(), outer);
    }
  };
  std::thread other(caller);
  caller();
  other.join();
  const std::int64_t n = pool.size();
  CHECK_EQ(sum.load(), 2 * 500 * n * (n * (n + 1) / 2));
}

TEST(ParallelForCoversTheRangeOnce) {
  for (std::int64_t n : {0, 1, 7, 64, 1000, 4097}) {
    for (std::int64_t grain : {1, 16, 1024}) {
      std::vector<std::atomic<int>> hits(static_cast<std::size_t>(n));
      ParallelFor(ThreadPool::Global(), n, grain, [&](std::int64_t b, std::int64_t e) {
        CHECK(b % grain == 0);
        for (std::int64_t i = b; i < e; ++i) ++hits[static_cast<std::size_t>(i)];
      });
      for (auto& h : hits) CHECK_EQ(h.load(), 1);
    }
  }
}

TEST(WorkersFlushDenormals) {
  std::atomic<int> flushed{0};
  const FlushDenormals flush;
  auto task = [&](int) {
    volatile float tiny = 1e-38f, half = 0.5f;
    flushed += tiny * half == 0.0f ? 1 : 0;
  };
  ThreadPool::Global().Run(ThreadPool::Global().size(), task);
  CHECK_EQ(flushed.load(), ThreadPool::Global().size());
}

TEST(FlushDenormalsRestores) {
  volatile float tiny = 1e-38f, half = 0.5f;
  {
    const FlushDenormals flush;
    CHECK(tiny * half == 0.0f);
  }
  CHECK(tiny * half != 0.0f);
}

TEST(ScratchIsAlignedDistinctAndReused) {
  Scratch scratch;
  std::vector<unsigned char*> first;
  for (int pass = 0; pass < 3; ++pass) {
    std::vector<unsigned char*> blocks;
    for (std::size_t bytes : {1u, 100u, 70000u, 0u, 300000u}) {
      auto* p = static_cast<unsigned char*>(scratch.Allocate(bytes));
      CHECK_EQ(reinterpret_cast<std::uintptr_t>(p) % 64, 0u);
      for (std::size_t i = 0; i < bytes; ++i) p[i] = static_cast<unsigned char>(blocks.size() + 1);
      blocks.push_back(p);
    }
    CHECK_EQ(static_cast<int>(blocks[0][0]), 1);
    CHECK_EQ(static_cast<int>(blocks[2][69999]), 3);
    if (pass == 1) first = blocks;
    if (pass == 2) CHECK(first == blocks);
    scratch.Reset();
  }
}

}  // namespace
}  // namespace ipu_model
