// Kernels for tensors of fixed shapes and strides, with all choices made: in a loop over small tensors,
// choosing takes longer than computing.
#ifndef IPU_MODEL_KERNELS_HOST_BOUND_KERNEL_H_
#define IPU_MODEL_KERNELS_HOST_BOUND_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/elementwise/micro_op.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Runs on the calling thread. Binding functions return null for what is large enough to choose each time.
// They may be given tensors without data: those are pointed to some memory later.
class BoundKernel {
 public:
  virtual ~BoundKernel() = default;
  // 64-byte aligned memory that Run uses; kernels that run one after the other may share it.
  virtual std::size_t scratch_bytes() const = 0;
  // Where the tensors are from now on, and the scratch memory.
  virtual void Point(const HostTensor* in, const HostTensor* out, unsigned char* scratch) = 0;
  virtual void Run() const = 0;
};

// Calls of block functions, one after the other.
class CallList : public BoundKernel {
 public:
  // Bytes after the begin of a tensor or of the scratch memory, or a fixed address.
  struct Place {
    enum class Base : std::uint8_t { kFixed, kInput, kOutput, kScratch } base = Base::kFixed;
    unsigned tensor = 0;
    std::ptrdiff_t offset = 0;
    const void* fixed = nullptr;

    bool operator==(const Place& other) const {
      return base == other.base && tensor == other.tensor && offset == other.offset && fixed == other.fixed;
    }
  };
  static Place Input(std::size_t i, std::ptrdiff_t offset = 0) {
    return {Place::Base::kInput, static_cast<unsigned>(i), offset, nullptr};
  }
  static Place Output(std::size_t i, std::ptrdiff_t offset = 0) {
    return {Place::Base::kOutput, static_cast<unsigned>(i), offset, nullptr};
  }
  static Place Fixed(const void* address) { return {Place::Base::kFixed, 0, 0, address}; }
  Place NewScratch(std::size_t bytes);
  // A constant that lives as long as the list.
  template <typename T>
  Place Keep(T value) {
    auto kept = std::make_shared<const T>(std::move(value));
    kept_.push_back(kept);
    return Fixed(kept.get());
  }

  void Add(MicroFunction function, const Place& result, std::initializer_list<Place> operands, std::int64_t n,
           std::uint32_t immediate = 0);
  // With the operands and attributes that a step of a scalar program has.
  void AddStep(MicroFunction function, const Place& result, const Place* operands, int num_operands,
               std::int64_t n, std::uint32_t immediate, unsigned scalar);
  // `bytes` from one place to another; nothing when they turn out to be the same.
  void AddMove(const Place& to, const Place& from, std::int64_t bytes);
  // The calls are made over and over, with tensors that move on: for every index of a box, the last dimension
  // fastest. `in[i][d]` and `out[i][d]` are the bytes from one index of dimension d to the next. Last, after
  // the calls were added.
  void Repeat(std::vector<std::int64_t> counts, const std::vector<std::vector<std::ptrdiff_t>>& in,
              const std::vector<std::vector<std::ptrdiff_t>>& out);
  std::size_t size() const { return calls_.size(); }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  void Point(const HostTensor* in, const HostTensor* out, unsigned char* scratch) override;
  void Run() const override {
    if (!counts_.empty()) return RunRepeated();
    for (const Call& call : calls_) call.function(call.arguments);
  }

 private:
  struct Call {
    MicroFunction function;
    MicroArguments arguments;
  };
  struct Reference {
    std::uint32_t call;
    std::int32_t operand;  // -1: the result
    Place place;
  };
  // Bytes by which the result and the operands of a call move.
  struct Advance {
    std::ptrdiff_t result, operand[4];
  };
  void Refer(int operand, const Place& place);
  void RunRepeated() const;
  static void Move(Call* call, const Advance& advance);

  std::vector<Call> calls_;
  std::vector<Reference> references_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::size_t scratch_bytes_ = 0;
  // Of repeated calls: by dimension, from the last index of the dimensions after it to their first one.
  std::vector<std::int64_t> counts_;
  std::vector<std::vector<Advance>> advances_;
  std::size_t moving_offset_ = 0;  // scratch memory for the calls while they move, then their indices
  unsigned char* moving_ = nullptr;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_HOST_BOUND_KERNEL_H_
