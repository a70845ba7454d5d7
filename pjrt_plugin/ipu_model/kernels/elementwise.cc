// The block interpreter: every operation of the expression runs over a block of 1,000 to 2,000 elements
// before the next one does, so that intermediate results never leave the first-level cache.
#include "pjrt_plugin/ipu_model/kernels/elementwise.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "pjrt_plugin/ipu_model/kernels/block_layout.h"
#include "pjrt_plugin/ipu_model/kernels/isa.h"
#include "pjrt_plugin/ipu_model/kernels/micro_program.h"

namespace ipu_model {
namespace {

// Temporaries should leave half of a 48 KiB first-level cache to the operands that stream through it.
constexpr std::int64_t kTemporaryBytes = 24 << 10;
constexpr std::int64_t kSmallestBlock = 512, kLargestBlock = 2048;
// Work on one core below which a second one does not pay, with workers that are spinning.
constexpr double kNanosecondsForThreads = 6000;

MicroFunction LoadFunction(DType type) { return HasAvx512() ? avx512::FindLoad(type) : avx2::FindLoad(type); }
MicroFunction StoreFunction(DType type) {
  return HasAvx512() ? avx512::FindStore(type) : avx2::FindStore(type);
}

// Lowest and one past the highest byte of a tensor.
struct Extent {
  const unsigned char *begin, *end;
};
Extent ExtentOf(const HostTensor& t) {
  const auto size = static_cast<std::int64_t>(SizeOf(t.type));
  const auto* low = static_cast<const unsigned char*>(t.data);
  const unsigned char* high = low + size;
  for (int d = 0; d < t.rank; ++d) {
    const std::int64_t reach = (t.shape[d] - 1) * t.strides[d] * size;
    (reach < 0 ? low : high) += reach;
  }
  return {low, high};
}
bool Overlap(const HostTensor& a, const HostTensor& b) {
  const Extent x = ExtentOf(a), y = ExtentOf(b);
  return x.begin < y.end && y.begin < x.end;
}

struct Input {
  BlockForm form;
  MicroFunction load;  // null when the register has the bytes of memory
  int slot;            // -1: read in place
};
struct Output {
  BlockForm form;
  MicroFunction store;
  bool direct;  // the step that computes it writes to memory
};

void FillBlock(void* block, const void* value, std::size_t size, std::int64_t n) {
  auto* to = static_cast<unsigned char*>(block);
  for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + static_cast<std::size_t>(i) * size, value, size);
}

// Everything about one Run that does not depend on the block.
struct Bound {
  const MicroProgram* program;
  BlockLayout layout;
  Walk* walks;  // inputs, then outputs
  Input* inputs;
  Output* outputs;
  bool* scalar;         // per register: one value for the whole block
  int* direct_output;   // per register: the output that it is written to, or -1
  unsigned* scalar_of;  // per step: bits of its scalar operands
  std::int64_t slot_bytes, raw_offset, worker_bytes;
  unsigned char* memory;  // worker_bytes for each worker
  const void** pointers;  // per worker and register
};

class Worker {
 public:
  Worker(const Bound& bound, int worker)
      : b_(bound),
        p_(*bound.program),
        slots_(bound.memory + worker * bound.worker_bytes),
        raw_(slots_ + bound.raw_offset),
        pointer_(bound.pointers + static_cast<std::size_t>(worker) * bound.program->registers.size()),
        num_inputs_(bound.program->inputs.size()) {
    for (std::size_t c = 0; c < p_.constants.size(); ++c) pointer_[num_inputs_ + c] = p_.constants[c].data();
  }

  void Run(std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const Block block = b_.layout.At(index);
      if (block.count() > 0) RunBlock(block, index == begin);
    }
  }

 private:
  unsigned char* Slot(int slot) const { return slots_ + slot * b_.slot_bytes; }
  // Of a tensor whose block is contiguous or a scalar.
  unsigned char* Address(const Walk& walk, const Block& block) const {
    return RowAddress(b_.layout, walk, block.row) + block.begin * walk.strides[b_.layout.rank - 1];
  }

  void RunBlock(const Block& block, bool first_block) {
    const std::int64_t count = block.count();
    for (std::size_t i = 0; i < num_inputs_; ++i) Load(i, block, first_block);
    const std::size_t num_steps = p_.steps.size();
    for (std::size_t s = 0; s < num_steps; ++s) {
      const MicroStep& step = p_.steps[s];
      const int direct = b_.direct_output[step.result];
      void* result = direct >= 0 ? Address(b_.walks[num_inputs_ + static_cast<std::size_t>(direct)], block)
                                 : Slot(p_.slot[step.result]);
      const bool scalar = b_.scalar[step.result];
      MicroArguments m;
      m.result = result;
      for (int k = 0; k < step.num_operands; ++k) m.operand[k] = pointer_[step.operand[k]];
      m.n = scalar ? 1 : count;
      m.immediate = step.immediate;
      m.scalar = scalar ? 0 : b_.scalar_of[s];
      // A scalar that dies here may lie where the result's first element goes.
      alignas(16) unsigned char saved[16];
      for (int k = 0; m.scalar >> k != 0; ++k) {
        if ((m.scalar >> k & 1) == 0 || m.operand[k] != result) continue;
        std::memcpy(saved, result, SizeOf(p_.registers[step.operand[k]]));
        m.operand[k] = saved;
      }
      step.function(m);
      pointer_[step.result] = result;
    }
    for (std::size_t o = 0; o < p_.outputs.size(); ++o)
      if (!b_.outputs[o].direct) Store(o, block);
  }

  void Load(std::size_t i, const Block& block, bool first_block) {
    const Input& input = b_.inputs[i];
    const Walk& walk = b_.walks[i];
    if (input.slot < 0) {
      pointer_[i] = Address(walk, block);
      return;
    }
    unsigned char* slot = Slot(input.slot);
    pointer_[i] = slot;
    if (input.form == BlockForm::kPeriodic && !first_block) return;
    const bool in_place = input.form == BlockForm::kContiguous || input.form == BlockForm::kScalar;
    const std::int64_t n = input.form == BlockForm::kScalar ? 1 : block.count();
    const void* memory = in_place ? Address(walk, block) : nullptr;
    if (input.load == nullptr) {
      if (in_place) {
        std::memcpy(slot, memory, static_cast<std::size_t>(n * walk.size));
      } else {
        GatherBlock(b_.layout, walk, block, slot);
      }
      return;
    }
    if (!in_place) {
      GatherBlock(b_.layout, walk, block, raw_);
      memory = raw_;
    }
    const MicroArguments m{slot, {memory}, n, 0, 0};
    input.load(m);
  }

  void Store(std::size_t o, const Block& block) {
    const std::int64_t count = block.count();
    const Output& output = b_.outputs[o];
    const Walk& walk = b_.walks[num_inputs_ + o];
    const std::uint16_t reg = p_.outputs[o];
    const void* value = pointer_[reg];
    unsigned char* memory = output.form == BlockForm::kContiguous ? Address(walk, block) : nullptr;
    const std::int64_t n = b_.scalar[reg] ? 1 : count;
    if (output.store != nullptr) {
      unsigned char* encoded = memory != nullptr && n == count ? memory : raw_;
      const MicroArguments m{encoded, {value}, n, 0, 0};
      output.store(m);
      if (encoded == memory) return;
      value = encoded;
    }
    const auto size = static_cast<std::size_t>(walk.size);
    if (n != count) {
      unsigned char element[16];
      std::memcpy(element, value, size);
      unsigned char* filled = memory != nullptr ? memory : raw_;
      FillBlock(filled, element, size, count);
      if (filled == memory) return;
      value = filled;
    }
    if (memory != nullptr) {
      if (memory != value) std::memcpy(memory, value, static_cast<std::size_t>(count) * size);
    } else {
      ScatterBlock(b_.layout, walk, block, value);
    }
  }

  const Bound& b_;
  const MicroProgram& p_;
  unsigned char *slots_, *raw_;
  const void** pointer_;
  std::size_t num_inputs_;
};

}  // namespace

ElementwiseKernel::ElementwiseKernel(const Expression& expression)
    : program_(std::make_shared<const MicroProgram>(Lower(expression))) {}

void ElementwiseKernel::Run(HostContext& context, const std::vector<HostTensor>& in,
                            const std::vector<HostTensor>& out) const {
  assert(in.size() == program_->inputs.size() && out.size() == program_->outputs.size());
  Run(context, in.data(), out.data());
}

void ElementwiseKernel::Run(HostContext& context, const HostTensor* in, const HostTensor* out) const {
  const MicroProgram& p = *program_;
  const std::size_t num_inputs = p.inputs.size(), num_outputs = p.outputs.size();
  const std::size_t num_registers = p.registers.size(), num_steps = p.steps.size();
  if (num_outputs == 0) return;
  const std::int64_t elements = out[0].num_elements();
  if (elements == 0) return;

  Scratch& scratch = context.scratch;
  const Scratch::Mark mark = scratch.Save();
  Bound b;
  b.program = &p;
  const auto** tensors = scratch.Allocate<const HostTensor*>(num_inputs + num_outputs);
  for (std::size_t i = 0; i < num_inputs; ++i) tensors[i] = &in[i];
  for (std::size_t o = 0; o < num_outputs; ++o) tensors[num_inputs + o] = &out[o];
  b.walks = scratch.Allocate<Walk>(num_inputs + num_outputs);
  std::size_t register_size = 1;
  for (const RegisterType type : p.registers) register_size = std::max(register_size, SizeOf(type));
  const auto slot_estimate = static_cast<std::int64_t>(register_size) * std::max(1, p.num_slots);
  std::int64_t block =
      std::clamp(kTemporaryBytes / slot_estimate, kSmallestBlock, kLargestBlock) & ~std::int64_t{63};
  block = std::min(block, (elements + 63) & ~std::int64_t{63});
  b.layout = MakeBlockLayout(tensors, static_cast<int>(num_inputs + num_outputs),
                             static_cast<int>(num_inputs), std::max<std::int64_t>(block, 256), b.walks);
  const std::int64_t block_elements = b.layout.block_elements();
  b.slot_bytes = (block_elements * static_cast<std::int64_t>(register_size) + 63) & ~std::int64_t{63};

  b.inputs = scratch.Allocate<Input>(num_inputs);
  b.outputs = scratch.Allocate<Output>(num_outputs);
  b.scalar = scratch.Allocate<bool>(num_registers);
  b.direct_output = scratch.Allocate<int>(num_registers);
  b.scalar_of = scratch.Allocate<unsigned>(num_steps);
  int num_slots = p.num_slots;
  double nanoseconds = p.nanoseconds;
  const std::size_t first_result = num_registers - num_steps;
  for (std::size_t r = 0; r < num_registers; ++r) {
    b.scalar[r] = r < first_result;
    b.direct_output[r] = -1;
  }
  for (std::size_t i = 0; i < num_inputs; ++i) {
    Input& input = b.inputs[i];
    input.form = FormOf(b.layout, b.walks[i]);
    input.load = LoadFunction(p.inputs[i]);
    b.scalar[i] = input.form == BlockForm::kScalar;
    const bool in_place =
        input.load == nullptr && (input.form == BlockForm::kContiguous || input.form == BlockForm::kScalar);
    input.slot = p.last_use[i] < 0 ? -1 : in_place ? -1 : num_slots++;
    if (p.last_use[i] < 0) input.load = nullptr;
    nanoseconds += input.form == BlockForm::kStrided ? 0.5 : 0.05;
  }
  for (std::size_t s = 0; s < num_steps; ++s) {
    const MicroStep& step = p.steps[s];
    unsigned bits = 0;
    for (int k = 0; k < step.num_operands; ++k) bits |= (b.scalar[step.operand[k]] ? 1u : 0u) << k;
    b.scalar[step.result] = bits == (1u << step.num_operands) - 1;
    b.scalar_of[s] = bits;
  }
  for (std::size_t o = 0; o < num_outputs; ++o) {
    Output& output = b.outputs[o];
    const std::uint16_t reg = p.outputs[o];
    output.form = FormOf(b.layout, b.walks[num_inputs + o]);
    output.store = StoreFunction(p.output_types[o]);
    output.direct = reg >= first_result && output.store == nullptr && output.form == BlockForm::kContiguous &&
                    (!b.scalar[reg] || elements == 1) && b.direct_output[reg] < 0;
    if (output.direct) b.direct_output[reg] = static_cast<int>(o);
    nanoseconds += output.form == BlockForm::kStrided ? 0.5 : 0.05;
    // An input that is read after the memory it shares with this output was written has to be copied first.
    const int written = output.direct ? static_cast<int>(reg - first_result) : static_cast<int>(num_steps);
    for (std::size_t i = 0; i < num_inputs; ++i) {
      Input& input = b.inputs[i];
      if (input.slot >= 0 || p.last_use[i] < written || (p.last_use[i] == written && output.direct)) continue;
      if (reg != i && Overlap(in[i], out[o])) input.slot = num_slots++;
    }
  }

  const std::int64_t blocks = b.layout.num_blocks();
  ThreadPool& pool = context.pool;
  int workers = 1;
  if (static_cast<double>(elements) * nanoseconds > kNanosecondsForThreads)
    workers = static_cast<int>(std::min<std::int64_t>(blocks, pool.size()));
  b.raw_offset = num_slots * b.slot_bytes;
  b.worker_bytes = (b.raw_offset + block_elements * 16 + 127) & ~std::int64_t{63};
  b.memory = scratch.Allocate<unsigned char>(static_cast<std::size_t>(b.worker_bytes * workers));
  b.pointers = scratch.Allocate<const void*>(num_registers * static_cast<std::size_t>(workers));
  if (workers == 1) {
    Worker(b, 0).Run(0, blocks);
  } else {
    auto task = [&](int w) { Worker(b, w).Run(blocks * w / workers, blocks * (w + 1) / workers); };
    pool.Run(workers, TaskRef(task));
  }
  scratch.Rewind(mark);
}

}  // namespace ipu_model
