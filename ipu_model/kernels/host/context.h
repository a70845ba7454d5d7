// What a kernel may use while it runs: the process's one thread pool and scratch memory that is reused.
#ifndef IPU_MODEL_KERNELS_HOST_CONTEXT_H_
#define IPU_MODEL_KERNELS_HOST_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/host/work_shares.h"

namespace ipu_model {

// A pointer to a callable, without allocation.
class TaskRef {
 public:
  template <typename F>
  TaskRef(F& f) : object_(&f), call_([](void* o, int worker) { (*static_cast<F*>(o))(worker); }) {}
  void operator()(int worker) const { call_(object_, worker); }

 private:
  void* object_;
  void (*call_)(void*, int);
};

// One pool per process, sized to the machine. Workers spin about 65 us after a job, then sleep on a futex.
class ThreadPool {
 public:
  static ThreadPool& Global();
  virtual ~ThreadPool() = default;
  // Workers including the caller.
  virtual int size() const = 0;
  // Calls task(worker) once for each worker in [0, workers), worker 0 on the caller; returns when all are
  // done. workers <= size(). When the pool is busy with another caller's job, runs all of them on the caller.
  virtual void Run(int workers, TaskRef task) = 0;
};

// For kernels that run inside a job: theirs run on the caller.
class CallerPool : public ThreadPool {
 public:
  int size() const override;
  void Run(int workers, TaskRef task) override;
};

// Pieces of a job for each worker: enough to even out what holds one of them up.
constexpr std::int64_t kPiecesPerWorker = 8;

// Splits [0, n) over workers in pieces that are multiples of `grain`; f(begin, end), at most
// `pieces_per_worker` times for each worker there is: 1 where every call costs as much as a whole job.
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

// Bump allocator: grows to the largest use once, then never allocates again. One per engine; not thread safe
// (allocate on the caller, then share the pointers with the workers).
class Scratch {
 public:
  // 64-byte aligned, uninitialised, valid until Reset.
  void* Allocate(std::size_t bytes);
  template <typename T>
  T* Allocate(std::size_t n) {
    return static_cast<T*>(Allocate(n * sizeof(T)));
  }
  void Reset();

  // Where the allocator stands. Rewind gives back what was allocated since, for kernels that call others in a
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

// Sets flush-to-zero and denormals-are-zero for its lifetime, as XLA:CPU runs.
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
