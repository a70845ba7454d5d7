// The block interpreter: runs each operation of the expression over a block of 1,000 to 2,000 elements before
// the next operation, so that intermediate results never leave the first-level cache. Sections, which
// have machine code (block_code.h), go over the block as one.
#include "kernels/elementwise/elementwise.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/copy/line_copy.h"
#include "kernels/elementwise/block_code.h"
#include "kernels/elementwise/block_order.h"
#include "kernels/elementwise/elementwise_arrangement.h"
#include "kernels/elementwise/program/micro_program.h"

namespace ipu_model {
namespace {

void FillBlock(void* block, const void* value, std::size_t size, std::int64_t n) {
  auto* to = static_cast<unsigned char*>(block);
  for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + static_cast<std::size_t>(i) * size, value, size);
}

// Outputs that alternate in memory, element by element.
struct WovenOutputs {
  std::int64_t lines = 0;  // 0: there are none
  std::size_t output[LineCopies::kMostWoven] = {};
};

// Below this length of a row, its address takes longer than what the vectors save.
constexpr std::int64_t kShortestWoven = 16;

WovenOutputs FindWoven(const Arrangement& a) {
  WovenOutputs woven;
  const MicroProgram& p = *a.program;
  const Walk* const walks = a.walks + p.inputs.size();
  const int inner = a.order.rank - 1;
  const auto plain = [&](std::size_t o) {
    return !a.outputs[o].direct && a.outputs[o].store == nullptr && !a.scalar[p.outputs[o]] &&
           (a.per_row == nullptr || !a.per_row[p.outputs[o]]);
  };
  if (a.order.row_length < kShortestWoven) return woven;
  for (std::size_t first = 0; first < p.outputs.size() && woven.lines == 0; ++first) {
    const Walk& walk = walks[first];
    const std::int64_t lines = walk.strides[inner] / walk.size;
    if (lines < 2 || lines > LineCopies::kMostWoven || !plain(first)) continue;
    std::int64_t found = 0;
    for (std::int64_t l = 0; l < lines && found == l; ++l) {
      for (std::size_t o = 0; o < p.outputs.size() && found == l; ++o) {
        const bool next = walks[o].base == walk.base + l * walk.size && walks[o].size == walk.size &&
                          std::equal(walk.strides, walk.strides + a.order.rank, walks[o].strides);
        if (next && plain(o)) woven.output[found++] = o;
      }
    }
    if (found == lines) woven.lines = lines;
  }
  return woven;
}

// An arrangement and the workers' memory. Each worker has cache lines of its own, because it writes the
// register pointers of every block there.
struct Bound {
  Arrangement arrangement;
  WovenOutputs woven;
  const BlockCode* code;  // null without code
  std::int64_t raw_offset, spilled_offset, pointers_offset, worker_bytes;
  unsigned char* memory;  // worker_bytes for each worker
};

class Worker {
 public:
  Worker(const Bound& bound, int worker)
      : b_(bound.arrangement),
        woven_(bound.woven),
        p_(*bound.arrangement.program),
        slots_(bound.memory + worker * bound.worker_bytes),
        raw_(slots_ + bound.raw_offset),
        spilled_(slots_ + bound.spilled_offset),
        pointer_(reinterpret_cast<const void**>(slots_ + bound.pointers_offset)),
        code_(bound.code),
        num_inputs_(p_.inputs.size()) {
    for (std::size_t c = 0; c < p_.constants.size(); ++c) pointer_[num_inputs_ + c] = p_.constants[c].data();
  }

  void Run(std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const Block block = b_.order.At(index);
      if (block.count() > 0) RunBlock(block, index == begin);
    }
  }

 private:
  unsigned char* Slot(int slot) const { return slots_ + slot * b_.slot_bytes; }
  // Returns the address of a block of a tensor whose block is contiguous or a scalar.
  unsigned char* Address(const Walk& walk, const Block& block) const {
    return RowAddress(b_.order, walk, block.row) + block.begin * walk.strides[b_.order.rank - 1];
  }

  void RunBlock(const Block& block, bool first_block) {
    const std::int64_t count = block.count();
    for (std::size_t i = 0; i < num_inputs_; ++i) Load(i, block, first_block);
    const std::size_t num_steps = p_.steps.size();
    for (std::size_t s = 0; s < num_steps; ++s) {
      if (code_ != nullptr && code_->section_at[s] != nullptr) {
        RunCode(*code_->section_at[s], block);
        s = code_->section_at[s]->end - 1;
        continue;
      }
      const MicroStep& step = p_.steps[s];
      void* result = ResultOf(step.result, block);
      const bool scalar = b_.scalar[step.result];
      MicroArguments m;
      m.result = result;
      for (int k = 0; k < step.num_operands; ++k) m.operand[k] = pointer_[step.operand[k]];
      m.n = scalar ? 1 : IsPerRow(step.result) ? block.rows : count;
      m.immediate = step.immediate;
      m.scalar = scalar ? 0 : b_.scalar_of[s];
      // If a scalar operand's last use is here, the result may overwrite its element.
      alignas(16) unsigned char saved[16];
      for (int k = 0; m.scalar >> k != 0; ++k) {
        if ((m.scalar >> k & 1) == 0 || m.operand[k] != result) continue;
        std::memcpy(saved, result, SizeOf(p_.registers[step.operand[k]]));
        m.operand[k] = saved;
      }
      if (!IsPerRow(step.result) && ReadsPerRow(step)) {
        RunRows(step, block, m);
      } else {
        step.function(m);
      }
      pointer_[step.result] = result;
    }
    if (woven_.lines > 0) StoreWoven(block);
    for (std::size_t o = 0; o < p_.outputs.size(); ++o)
      if (!b_.outputs[o].direct && !IsWoven(o)) Store(o, block);
  }

  bool IsWoven(std::size_t output) const {
    return std::find(woven_.output, woven_.output + woven_.lines, output) != woven_.output + woven_.lines;
  }
  void StoreWoven(const Block& block) const {
    const Walk& walk = b_.walks[num_inputs_ + woven_.output[0]];
    const auto copy = FindLineCopies(static_cast<std::size_t>(walk.size)).joined;
    const void* lines[LineCopies::kMostWoven];
    for (std::int64_t l = 0; l < woven_.lines; ++l) lines[l] = pointer_[p_.outputs[woven_.output[l]]];
    for (std::int64_t r = 0; r < block.rows; ++r) {
      const Block row{block.row + r, block.begin, 1, block.length};
      copy(lines, woven_.lines, Address(walk, row), block.length);
      for (std::int64_t l = 0; l < woven_.lines; ++l)
        lines[l] = static_cast<const unsigned char*>(lines[l]) + block.length * walk.size;
    }
  }

  // Where a step writes its result.
  unsigned char* ResultOf(std::uint16_t reg, const Block& block) const {
    const int direct = b_.direct_output[reg];
    return direct < 0 ? Slot(p_.slot[reg])
                      : Address(b_.walks[num_inputs_ + static_cast<std::size_t>(direct)], block);
  }

  void RunCode(const CodeSection& section, const Block& block) {
    const void** pointers = pointer_ + p_.registers.size();
    const void** entry = pointers + CodeSection::kOwnPointers;
    bool rows = false;
    for (const std::uint16_t reg : section.operands) {
      *entry++ = pointer_[reg];
      rows = rows || IsPerRow(reg);
    }
    for (const std::uint16_t reg : section.results) *entry++ = pointer_[reg] = ResultOf(reg, block);
    if (!rows) return section.Call(pointers, spilled_, block.count());
    for (std::int64_t r = 0; r < block.rows; ++r) {
      section.Call(pointers, spilled_, block.length);
      entry = pointers + CodeSection::kOwnPointers;
      const auto advance = [&](std::uint16_t reg, std::int64_t elements) {
        const auto bytes = static_cast<std::int64_t>(SizeOf(p_.registers[reg])) * elements;
        *entry = static_cast<const unsigned char*>(*entry) + bytes;
        ++entry;
      };
      for (const std::uint16_t reg : section.operands)
        advance(reg, IsPerRow(reg) ? 1 : b_.scalar[reg] ? 0 : block.length);
      for (const std::uint16_t reg : section.results) advance(reg, block.length);
    }
  }

  bool IsPerRow(std::uint16_t reg) const { return b_.per_row != nullptr && b_.per_row[reg]; }
  bool ReadsPerRow(const MicroStep& step) const {
    bool reads = false;
    for (int k = 0; k < step.num_operands; ++k) reads = reads || IsPerRow(step.operand[k]);
    return reads;
  }

  // Runs a step row by row: what is held per row is a scalar for its row.
  void RunRows(const MicroStep& step, const Block& block, MicroArguments m) {
    std::size_t stride[4] = {};
    for (int k = 0; k < step.num_operands; ++k) {
      const std::size_t size = SizeOf(p_.registers[step.operand[k]]);
      if (!IsPerRow(step.operand[k])) {
        if ((m.scalar >> k & 1) == 0) stride[k] = static_cast<std::size_t>(block.length) * size;
        continue;
      }
      stride[k] = size;
      m.scalar |= 1u << k;
      if (m.operand[k] != m.result) continue;
      // The first row of the result would overwrite the values of the next rows.
      std::memcpy(raw_, m.operand[k], static_cast<std::size_t>(block.rows) * size);
      m.operand[k] = raw_;
    }
    const std::size_t result_stride =
        static_cast<std::size_t>(block.length) * SizeOf(p_.registers[step.result]);
    m.n = block.length;
    for (std::int64_t r = 0; r < block.rows; ++r) {
      step.function(m);
      for (int k = 0; k < step.num_operands; ++k)
        m.operand[k] = static_cast<const unsigned char*>(m.operand[k]) + stride[k];
      m.result = static_cast<unsigned char*>(m.result) + result_stride;
    }
  }

  void Load(std::size_t i, const Block& block, bool first_block) {
    if (IsPerRow(static_cast<std::uint16_t>(i))) return LoadPerRow(i, block);
    const Arrangement::Input& input = b_.inputs[i];
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
        GatherBlock(b_.order, walk, block, slot);
      }
      return;
    }
    if (!in_place) {
      GatherBlock(b_.order, walk, block, raw_);
      memory = raw_;
    }
    const MicroArguments m{slot, {memory}, n, 0, 0};
    input.load(m);
  }

  void LoadPerRow(std::size_t i, const Block& block) {
    const Arrangement::Input& input = b_.inputs[i];
    unsigned char* slot = Slot(input.slot);
    pointer_[i] = slot;
    const Block column{block.row, 0, block.rows, 1};
    GatherBlock(b_.order, b_.walks[i], column, input.load == nullptr ? slot : raw_);
    if (input.load != nullptr) input.load({slot, {raw_}, block.rows, 0, 0});
  }

  void Store(std::size_t o, const Block& block) {
    const std::int64_t count = block.count();
    const Arrangement::Output& output = b_.outputs[o];
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
      ScatterBlock(b_.order, walk, block, value);
    }
  }

  const Arrangement& b_;
  const WovenOutputs& woven_;
  const MicroProgram& p_;
  unsigned char *slots_, *raw_, *spilled_;
  const void** pointer_;  // of the registers, then what code gets
  const BlockCode* code_;
  std::size_t num_inputs_;
};

}  // namespace

ElementwiseKernel::ElementwiseKernel(const Expression& expression)
    : program_(std::make_shared<const MicroProgram>(Lower(expression))),
      code_(std::make_shared<BlockCodeCache>()) {}

void ElementwiseKernel::Run(HostContext& context, const std::vector<HostTensor>& in,
                            const std::vector<HostTensor>& out) const {
  assert(in.size() == program_->inputs.size() && out.size() == program_->outputs.size());
  Run(context, in.data(), out.data());
}

void ElementwiseKernel::Run(HostContext& context, const HostTensor* in, const HostTensor* out) const {
  const MicroProgram& p = *program_;
  if (p.outputs.empty()) return;
  const std::int64_t elements = out[0].num_elements();
  if (elements == 0) return;

  Scratch& scratch = context.scratch;
  const Scratch::Mark mark = scratch.Save();
  Bound bound;
  bound.arrangement = Arrange(p, in, out, kShortRows, scratch);
  HoldOneValuePerRow(&bound.arrangement, scratch);
  bound.woven = FindWoven(bound.arrangement);
  const Arrangement& a = bound.arrangement;
  const std::shared_ptr<const BlockCode> code = code_->Find(a, elements);
  bound.code = code.get();
  const std::int64_t blocks = a.order.num_blocks();
  ThreadPool& pool = context.pool;
  int workers = 1;
  if (static_cast<double>(elements) * a.nanoseconds > kNanosecondsForThreads)
    workers = static_cast<int>(std::min<std::int64_t>(blocks, pool.size()));
  bound.raw_offset = a.num_slots * a.slot_bytes;
  bound.spilled_offset = (bound.raw_offset + a.order.block_elements() * 16 + 127) & ~std::int64_t{63};
  const std::size_t spilled_bytes = code == nullptr ? 0 : code->spilled_bytes;
  bound.pointers_offset =
      (bound.spilled_offset + static_cast<std::int64_t>(spilled_bytes) + 63) & ~std::int64_t{63};
  const std::size_t pointers = p.registers.size() + (code == nullptr ? 0 : code->most_pointers);
  const auto pointer_bytes = static_cast<std::int64_t>(pointers * sizeof(const void*));
  bound.worker_bytes = (bound.pointers_offset + pointer_bytes + 63) & ~std::int64_t{63};
  bound.memory = scratch.Allocate<unsigned char>(static_cast<std::size_t>(bound.worker_bytes * workers));
  if (workers == 1) {
    Worker(bound, 0).Run(0, blocks);
  } else {
    const std::int64_t pieces = std::min(blocks, workers * kPiecesPerWorker);
    WorkShares shares(pieces, workers);
    auto task = [&](int w) {
      Worker worker(bound, w);
      for (std::int64_t p = shares.Next(w); p != WorkShares::kNone; p = shares.Next(w))
        worker.Run(blocks * p / pieces, blocks * (p + 1) / pieces);
    };
    pool.Run(workers, TaskRef(task));
  }
  scratch.Rewind(mark);
}

}  // namespace ipu_model
