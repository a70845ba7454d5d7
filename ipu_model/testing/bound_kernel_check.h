// For tests: checks that a bound kernel leaves the same bytes in memory as the unbound kernel,
// as calls and as machine code.
#ifndef IPU_MODEL_TESTING_BOUND_KERNEL_CHECK_H_
#define IPU_MODEL_TESTING_BOUND_KERNEL_CHECK_H_

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "check.h"
#include "kernels/elementwise/call_compiler.h"
#include "kernels/host/bound_kernel.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"
#include "kernels/host/machine_code.h"

namespace ipu_model {

// All bytes from a tensor's first to its last element.
class TensorBytes {
 public:
  explicit TensorBytes(const HostTensor& t) : begin_(t.as<unsigned char>()) {
    std::ptrdiff_t bytes = t.num_elements() > 0 ? static_cast<std::ptrdiff_t>(SizeOf(t.type)) : 0;
    for (int d = 0; d < t.rank && bytes > 0; ++d) {
      const std::int64_t reach = (t.shape[d] - 1) * t.strides[d] * static_cast<std::int64_t>(SizeOf(t.type));
      begin_ += reach < 0 ? reach : 0;
      bytes += reach < 0 ? -reach : reach;
    }
    held_.assign(begin_, begin_ + bytes);
  }
  bool Same() const { return held_.empty() || std::memcmp(begin_, held_.data(), held_.size()) == 0; }
  void Restore() const {
    if (!held_.empty()) std::memcpy(begin_, held_.data(), held_.size());
  }

 private:
  unsigned char* begin_;
  std::vector<unsigned char> held_;
};

// Runs a list of calls as machine code.
inline void RunCompiled(CallList& list, const std::vector<HostTensor>& in, const std::vector<HostTensor>& out,
                        unsigned char* scratch) {
  list.Point(in.data(), out.data(), scratch);
  std::vector<unsigned char*> bases = {nullptr, scratch};
  std::vector<CodeAddress> addresses[2];
  const std::vector<HostTensor>* const tensors[] = {&in, &out};
  for (int side = 0; side < 2; ++side) {
    for (const HostTensor& t : *tensors[side]) {
      addresses[side].push_back({static_cast<int>(bases.size()), 0});
      bases.push_back(t.as<unsigned char>());
    }
  }
  Assembler code;
  CallCompiler compiler(&code);
  compiler.Begin();
  compiler.Add(list, addresses[0], addresses[1]);
  compiler.End();
  const MachineCode machine_code(code.Finish());
  CHECK(machine_code.entry() != nullptr);
  reinterpret_cast<void (*)(unsigned char**)>(const_cast<void*>(machine_code.entry()))(bases.data());
}

// Calls run(), and leaves its results in memory. bind(in, out) returns a bound kernel or null; it is called
// for the tensors with and without their data. Returns the number of bound kernels.
template <typename RunFunction, typename BindFunction>
int CheckBound(const std::vector<HostTensor>& in, const std::vector<HostTensor>& out, RunFunction&& run,
               BindFunction&& bind) {
  std::vector<HostTensor> unknown[2] = {in, out};
  for (std::vector<HostTensor>& tensors : unknown)
    for (HostTensor& t : tensors) t.data = nullptr;
  std::unique_ptr<BoundKernel> kernels[] = {bind(in, out), bind(unknown[0], unknown[1])};
  std::vector<TensorBytes> before, after;
  for (const std::vector<HostTensor>* tensors : {&in, &out})
    for (const HostTensor& t : *tensors) before.emplace_back(t);
  run();
  for (const HostTensor& t : out) after.emplace_back(t);
  int bound = 0;
  for (const auto& kernel : kernels) {
    if (kernel == nullptr) continue;
    ++bound;
    for (const TensorBytes& bytes : before) bytes.Restore();
    Scratch scratch;
    kernel->Point(in.data(), out.data(), scratch.Allocate<unsigned char>(kernel->scratch_bytes()));
    kernel->Run();
    for (const TensorBytes& bytes : after) CHECK(bytes.Same());
    auto* list = dynamic_cast<CallList*>(kernel.get());
    if (list == nullptr || list->repeated()) continue;
    for (const TensorBytes& bytes : before) bytes.Restore();
    RunCompiled(*list, in, out, scratch.Allocate<unsigned char>(kernel->scratch_bytes()));
    for (const TensorBytes& bytes : after) CHECK(bytes.Same());
  }
  return bound;
}

}  // namespace ipu_model

#endif  // IPU_MODEL_TESTING_BOUND_KERNEL_CHECK_H_
