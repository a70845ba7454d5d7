// The resources of a running kernel: the process's one thread pool, and reusable scratch memory.
#ifndef IPU_MODEL_KERNELS_HOST_CONTEXT_H_
#define IPU_MODEL_KERNELS_HOST_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/host/work_shares.h"

namespace ipu_model {

// A non-owning reference to a callable; never allocates.
class TaskRef {
 public:
  template <typename F>
  TaskRef(F& f) : object_(&f), call_([](void* o, int worker) { (*static_cast<F*>(o))(worker); }) {}
  void operator()(int worker) const { call_(object_, worker); }

 private:
  void* object_;
  void (*call_)(void*, int);
};

// The process's thread pool, sized to the machine. Workers spin for about 65 us after a job, then sleep on a
// futex.
class ThreadPool {
 public:
  static ThreadPool& Global();
  virtual ~ThreadPool() = default;
  // Number of workers, including the caller.
  virtual int size() const = 0;
  // Calls task(worker) once for each worker in [0, workers), worker 0 on the caller; returns when all calls
  // are done. workers <= size(). While the pool runs another caller's job, all calls run on the caller.
  virtual void Run(int workers, TaskRef task) = 0;
};

// A pool of one worker for kernels that run inside a job: everything runs on the caller.
class CallerPool : public ThreadPool {
 public:
  int size() const override;
  void Run(int workers, TaskRef task) override;
};

// Pieces of a job per worker: enough to balance the load when one worker is delayed.
constexpr std::int64_t kPiecesPerWorker = 8;

// Splits [0, n) among the workers in pieces that are multiples of `grain`, and calls f(begin, end) for each
// piece. There are at most `pieces_per_worker` pieces per worker; use 1 if each call has a high fixed cost.
template <typename F>
void ParallelFor(ThreadPool& pool, std::int64_t n, std::int64_t grain, F&& f,
                 std::int64_t pieces_per_worker = kPiecesPerWorker) {
  const std::int64_t grains = (n + grain - 1) / grain;
  const int workers = static_cast<int>(grains < pool.size() ? grains : pool.size());
  if (workers <= 1) {
    if (n > 0) f(std::int64_t{0}, n);
    return;
  }
  const std::int64_t most = workers * pieces_per_worker, pieces = grains < most ? grains : most;
  WorkShares shares(pieces, workers);
  auto task = [&](int w) {
    for (std::int64_t p = shares.Next(w); p != WorkShares::kNone; p = shares.Next(w)) {
      const std::int64_t end = grains * (p + 1) / pieces * grain;
      f(grains * p / pieces * grain, end < n ? end : n);
    }
  };
  pool.Run(workers, TaskRef(task));
}

// A bump allocator that grows to the largest use and then never allocates again. One per engine. Not thread
// safe: allocate on the caller, then share the pointers with the workers.
class Scratch {
 public:
  // Returns 64-byte aligned, uninitialised memory that is valid until Reset.
  void* Allocate(std::size_t bytes);
  template <typename T>
  T* Allocate(std::size_t n) {
    return static_cast<T*>(Allocate(n * sizeof(T)));
  }
  void Reset();

  // A position of the allocator. Rewind frees what was allocated since, for kernels that call others in a
  // loop.
  struct Mark {
    std::size_t blocks, used, total;
  };
  Mark Save() const { return {blocks_.size(), used_, total_}; }
  void Rewind(const Mark& mark) {
    used_ = blocks_.size() == mark.blocks ? mark.used : 0;
    total_ = mark.total;
  }

 private:
  std::vector<std::unique_ptr<unsigned char[]>> blocks_;
  std::size_t capacity_ = 0, used_ = 0, total_ = 0, peak_ = 0;
};

struct HostContext {
  ThreadPool& pool;
  Scratch& scratch;
};

// Sets flush-to-zero and denormals-are-zero for its lifetime, as XLA:CPU does.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned saved_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_HOST_CONTEXT_H_
