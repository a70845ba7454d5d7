// For tests: a pool whose workers run one after the other on the caller, the last one first.
#ifndef IPU_MODEL_TESTING_BACKWARD_POOL_H_
#define IPU_MODEL_TESTING_BACKWARD_POOL_H_

#include "kernels/host/context.h"

namespace ipu_model {

class BackwardPool : public ThreadPool {
 public:
  explicit BackwardPool(int size) : size_(size) {}
  int size() const override { return size_; }
  void Run(int workers, TaskRef task) override {
    for (int w = workers; w-- > 0;) task(w);
  }

 private:
  int size_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_TESTING_BACKWARD_POOL_H_
