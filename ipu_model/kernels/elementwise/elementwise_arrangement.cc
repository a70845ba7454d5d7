#include "kernels/elementwise/elementwise_arrangement.h"

#include <unistd.h>

#include <algorithm>

#include "kernels/host/isa.h"

namespace ipu_model {
namespace {

// Temporaries take at most half of the first-level cache; the other half is for the operands.
std::int64_t TemporaryBytes() {
  static const std::int64_t bytes =
      std::clamp<std::int64_t>(sysconf(_SC_LEVEL1_DCACHE_SIZE), 32 << 10, 64 << 10) / 2;
  return bytes;
}
constexpr std::int64_t kSmallestBlock = 512,
                       kLargestBlock = 2048;  // of 32 bits
// In shorter rows, a call for each row costs more than to fill the block with the row's value.
constexpr std::int64_t kShortestCall = 64;

MicroFunction LoadFunction(DType type) { return JAX_IPU_FOR_ISA(FindLoad(type)); }
MicroFunction StoreFunction(DType type) { return JAX_IPU_FOR_ISA(FindStore(type)); }

// The lowest byte of a tensor, and the byte after its highest one.
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
bool MayOverlap(const HostTensor& a, const HostTensor& b) {
  if (a.data == nullptr || b.data == nullptr) return true;
  const Extent x = ExtentOf(a), y = ExtentOf(b);
  return x.begin < y.end && y.begin < x.end;
}

}  // namespace

Arrangement Arrange(const MicroProgram& p, const HostTensor* in, const HostTensor* out,
                    std::int64_t short_row, Scratch& scratch) {
  const std::size_t num_inputs = p.inputs.size(), num_outputs = p.outputs.size();
  const std::size_t num_registers = p.registers.size(), num_steps = p.steps.size();
  const std::int64_t elements = out[0].num_elements();
  Arrangement b;
  b.program = &p;
  const auto** tensors = scratch.Allocate<const HostTensor*>(num_inputs + num_outputs);
  for (std::size_t i = 0; i < num_inputs; ++i) tensors[i] = &in[i];
  for (std::size_t o = 0; o < num_outputs; ++o) tensors[num_inputs + o] = &out[o];
  b.walks = scratch.Allocate<Walk>(num_inputs + num_outputs);
  std::size_t register_size = 1;
  for (const RegisterType type : p.registers) register_size = std::max(register_size, SizeOf(type));
  const auto slot_estimate = static_cast<std::int64_t>(register_size) * std::max(1, p.num_slots);
  // The narrower the elements, the more of them are a block: a block has about as many bytes, and its calls
  // cost no larger part of the time.
  const std::int64_t largest = kLargestBlock * 4 / std::min<std::int64_t>(4, register_size);
  std::int64_t block =
      std::clamp(TemporaryBytes() / slot_estimate, kSmallestBlock, largest) & ~std::int64_t{63};
  block = std::min(block, (elements + 63) & ~std::int64_t{63});
  b.order = MakeBlockOrder(tensors, static_cast<int>(num_inputs + num_outputs), static_cast<int>(num_inputs),
                           std::max<std::int64_t>(block, 256), short_row, b.walks);
  const std::int64_t block_elements = b.order.block_elements();
  b.slot_bytes = (block_elements * static_cast<std::int64_t>(register_size) + 63) & ~std::int64_t{63};

  b.inputs = scratch.Allocate<Arrangement::Input>(num_inputs);
  b.outputs = scratch.Allocate<Arrangement::Output>(num_outputs);
  b.scalar = scratch.Allocate<bool>(num_registers);
  b.direct_output = scratch.Allocate<int>(num_registers);
  b.scalar_of = scratch.Allocate<unsigned>(num_steps);
  b.per_row = nullptr;
  b.num_slots = p.num_slots;
  b.nanoseconds = p.nanoseconds;
  const std::size_t first_result = num_registers - num_steps;
  for (std::size_t r = 0; r < num_registers; ++r) {
    b.scalar[r] = r < first_result;
    b.direct_output[r] = -1;
  }
  for (std::size_t i = 0; i < num_inputs; ++i) {
    Arrangement::Input& input = b.inputs[i];
    input.form = FormOf(b.order, b.walks[i]);
    input.load = LoadFunction(p.inputs[i]);
    b.scalar[i] = input.form == BlockForm::kScalar;
    const bool in_place =
        input.load == nullptr && (input.form == BlockForm::kContiguous || input.form == BlockForm::kScalar);
    input.slot = p.last_use[i] < 0 ? -1 : in_place ? -1 : b.num_slots++;
    if (p.last_use[i] < 0) input.load = nullptr;
    b.nanoseconds += input.form == BlockForm::kStrided ? 0.5 : 0.05;
  }
  for (std::size_t s = 0; s < num_steps; ++s) {
    const MicroStep& step = p.steps[s];
    unsigned bits = 0;
    for (int k = 0; k < step.num_operands; ++k) bits |= (b.scalar[step.operand[k]] ? 1u : 0u) << k;
    b.scalar[step.result] = bits == (1u << step.num_operands) - 1;
    b.scalar_of[s] = bits;
  }
  for (std::size_t o = 0; o < num_outputs; ++o) {
    Arrangement::Output& output = b.outputs[o];
    const std::uint16_t reg = p.outputs[o];
    output.form = FormOf(b.order, b.walks[num_inputs + o]);
    output.store = StoreFunction(p.output_types[o]);
    output.direct = reg >= first_result && output.store == nullptr && output.form == BlockForm::kContiguous &&
                    (!b.scalar[reg] || elements == 1) && b.direct_output[reg] < 0;
    if (output.direct) b.direct_output[reg] = static_cast<int>(o);
    b.nanoseconds += output.form == BlockForm::kStrided ? 0.5 : 0.05;
    // Copy an input first if it is read after the memory that it shares with this output was written.
    const int written = output.direct ? static_cast<int>(reg - first_result) : static_cast<int>(num_steps);
    for (std::size_t i = 0; i < num_inputs; ++i) {
      Arrangement::Input& input = b.inputs[i];
      if (input.slot >= 0 || p.last_use[i] < written || (p.last_use[i] == written && output.direct)) continue;
      if (reg != i && MayOverlap(in[i], out[o])) input.slot = b.num_slots++;
    }
  }
  return b;
}

void HoldOneValuePerRow(Arrangement* arrangement, Scratch& scratch) {
  Arrangement& b = *arrangement;
  const MicroProgram& p = *b.program;
  if (b.order.kind != BlockOrder::Kind::kShortRows || b.order.row_length < kShortestCall) return;
  bool* per_row = scratch.Allocate<bool>(p.registers.size());
  std::fill_n(per_row, p.registers.size(), false);
  bool any = false;
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    const bool same = b.inputs[i].form == BlockForm::kStrided && b.walks[i].strides[b.order.rank - 1] == 0;
    per_row[i] = same && b.inputs[i].slot >= 0;
    any = any || per_row[i];
  }
  for (const MicroStep& step : p.steps) {
    bool full = false, rows = false;
    for (int k = 0; k < step.num_operands; ++k) {
      rows = rows || per_row[step.operand[k]];
      full = full || (!per_row[step.operand[k]] && !b.scalar[step.operand[k]]);
    }
    per_row[step.result] = rows && !full;
  }
  for (const std::uint16_t output : p.outputs) any = any && !per_row[output];
  if (any) b.per_row = per_row;
}

}  // namespace ipu_model
