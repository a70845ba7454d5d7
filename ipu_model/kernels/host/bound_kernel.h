// Kernels bound to fixed shapes and strides, with all choices made in advance. In a loop over small tensors,
// the choices would take longer than the computation.
#ifndef IPU_MODEL_KERNELS_HOST_BOUND_KERNEL_H_
#define IPU_MODEL_KERNELS_HOST_BOUND_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/elementwise/program/micro_op.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// A kernel that runs on the calling thread. Binding functions return null for tensors so large that the
// choices cost little. Tensors may have no data when a kernel is bound; Point sets their addresses.
class BoundKernel {
 public:
  virtual ~BoundKernel() = default;
  // Size of the 64-byte aligned scratch memory that Run uses. Kernels that run one after another may share
  // it.
  virtual std::size_t scratch_bytes() const = 0;
  // Sets the addresses of the tensors and of the scratch memory for the following runs.
  virtual void Point(const HostTensor* in, const HostTensor* out, unsigned char* scratch) = 0;
  virtual void Run() const = 0;
};

// A sequence of calls of block functions.
class CallList : public BoundKernel {
 public:
  // A byte offset from the start of a tensor or of the scratch memory, or a fixed address.
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
  // Stores a constant that lives as long as the list.
  template <typename T>
  Place Keep(T value) {
    auto kept = std::make_shared<const T>(std::move(value));
    kept_.push_back(kept);
    return Fixed(kept.get());
  }

  void Add(MicroFunction function, const Place& result, std::initializer_list<Place> operands, std::int64_t n,
           std::uint32_t immediate = 0);
  // Adds a call with the operands and attributes of a step of a scalar program.
  void AddStep(MicroFunction function, const Place& result, const Place* operands, int num_operands,
               std::int64_t n, std::uint32_t immediate, unsigned scalar, const MicroKind& kind);
  // Adds a call whose result is a table that the list owns: `first` entries for the function's use, then the
  // addresses of `pointers`. For lists that are not repeated.
  void AddTable(MicroFunction function, const Place& operand, const Place& memory,
                std::vector<Place> pointers, std::size_t first, std::int64_t n);
  // Adds a move of `bytes` from one place to another. The move does nothing if both have the same address.
  void AddMove(const Place& to, const Place& from, std::int64_t bytes);
  // Repeats the calls for every index of a box of extents `counts`, the last dimension fastest. `in[i][d]`
  // and `out[i][d]` are the byte strides of tensor i along dimension d. Must be called after all calls are
  // added.
  void Repeat(std::vector<std::int64_t> counts, const std::vector<std::vector<std::ptrdiff_t>>& in,
              const std::vector<std::vector<std::ptrdiff_t>>& out);
  std::size_t size() const { return calls_.size(); }

  struct Call {
    MicroFunction function;
    MicroArguments arguments;  // with the addresses of the last Point
  };
  // What a call computes, and where.
  struct Description {
    MicroKind kind;
    int num_operands = 0;
    Place result, operand[4];
  };
  // The calls in order, and what each of them is. The addresses of `calls` stay the same after binding.
  const std::vector<Call>& calls() const { return calls_; }
  const std::vector<Description>& descriptions() const { return descriptions_; }
  bool repeated() const { return !counts_.empty(); }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  void Point(const HostTensor* in, const HostTensor* out, unsigned char* scratch) override;
  void Run() const override {
    if (!counts_.empty()) return RunRepeated();
    for (const Call& call : calls_) call.function(call.arguments);
  }

 private:
  // Byte increments of the addresses of a call's result and operands.
  struct Advance {
    std::ptrdiff_t result, operand[4];
  };
  void RunRepeated() const;
  static void Move(Call* call, const Advance& advance);

  struct Table {
    std::vector<Place> pointers;
    std::size_t first = 0;
    std::unique_ptr<const void*[]> entries;
  };

  std::vector<Call> calls_;
  std::vector<Description> descriptions_;  // by call
  std::vector<Table> tables_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::size_t scratch_bytes_ = 0;
  // For repeated calls: the extents of the box, and the increments of every call when the index of a
  // dimension goes up by one and the inner indices return to zero.
  std::vector<std::int64_t> counts_;
  std::vector<std::vector<Advance>> advances_;
  // Scratch memory of the calls with their moving addresses, followed by the indices.
  std::size_t moving_offset_ = 0;
  unsigned char* moving_ = nullptr;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_HOST_BOUND_KERNEL_H_
