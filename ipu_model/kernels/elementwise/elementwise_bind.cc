// Binds scalar programs to tensors of one block, or of rows of one block each, as a list of calls.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/copy/permuted_copy.h"
#include "kernels/elementwise/block_code.h"
#include "kernels/elementwise/call_compiler.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/elementwise_arrangement.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/host/isa.h"

namespace ipu_model {
namespace {

using Place = CallList::Place;

constexpr std::size_t kLargestElement = 16;
// Limits the memory of the bound calls; in longer programs, the choices take a small part of the time.
constexpr std::size_t kMostSteps = 256;
// The limit for rows is lower than for blocks arranged at run time, because bound calls cost little per row.
constexpr std::int64_t kShortBoundRows = 32;
// Several workers pay later if they first have to fill blocks with the scalars of short rows.
constexpr double kNanosecondsForFilledBlocks = 32000;
// Up to so many elements of this size are moved one by one.
constexpr std::int64_t kMostMoved = 8, kMovedSize = 4;

// A block that is not dense in memory.
struct StridedBlock {
  BlockOrder order;
  Walk walk;
  Block block;
  PermutedCopy permuted;  // instead of the walk, if it has steps

  Walk At(const void* memory) const {
    Walk moved = walk;
    moved.base = static_cast<unsigned char*>(const_cast<void*>(memory));
    return moved;
  }
};
void Permute(const PermutedCopy& permuted, const MicroArguments& m) {
  JAX_IPU_FOR_ISA(RunPermutedCopy)(permuted, m.operand[0], m.result);
}
void Gather(const MicroArguments& m) {
  const auto& strided = *static_cast<const StridedBlock*>(m.operand[1]);
  if (!strided.permuted.steps.empty()) return Permute(strided.permuted, m);
  GatherBlock(strided.order, strided.At(m.operand[0]), strided.block, m.result);
}
void Scatter(const MicroArguments& m) {
  const auto& strided = *static_cast<const StridedBlock*>(m.operand[1]);
  if (!strided.permuted.steps.empty()) return Permute(strided.permuted, m);
  ScatterBlock(strided.order, strided.At(m.result), strided.block, m.operand[0]);
}
// Writes n copies of an element of `immediate` bytes.
void Fill(const MicroArguments& m) {
  unsigned char element[kLargestElement];
  std::memcpy(element, m.operand[0], m.immediate);
  auto* to = static_cast<unsigned char*>(m.result);
  for (std::int64_t i = 0; i < m.n; ++i)
    std::memcpy(to + static_cast<std::size_t>(i) * m.immediate, element, m.immediate);
}

constexpr std::size_t kMostSpilledBytes = 4096;
constexpr double kNanosecondsOfCall = 5;

// A section, and what keeps it alive.
struct KeptSection {
  std::shared_ptr<const BlockCode> code;
  const CodeSection* section;
};
void CallCode(const MicroArguments& m) {
  static_cast<const KeptSection*>(m.operand[0])
      ->section->Call(static_cast<const void**>(m.result),
                      static_cast<unsigned char*>(const_cast<void*>(m.operand[1])), m.n);
}

bool HasScalarsOfShortRows(const Arrangement& a) {
  bool scalars = false;
  for (std::size_t i = 0; i < a.program->inputs.size(); ++i) {
    const std::int64_t* const strides = a.walks[i].strides;
    scalars = scalars || (a.inputs[i].form == BlockForm::kScalar &&
                          std::any_of(strides, strides + a.order.rank, [](auto s) { return s != 0; }));
  }
  return scalars && a.order.row_length < kShortRows;
}

class Binder {
 public:
  // `code`: null for calls of block functions only.
  Binder(const std::shared_ptr<const MicroProgram>& program, const Arrangement& arrangement,
         std::shared_ptr<const BlockCode> code, const HostTensor* in, const HostTensor* out)
      : a_(arrangement),
        p_(*arrangement.program),
        code_(std::move(code)),
        in_(in),
        out_(out),
        block_(arrangement.order.At(0)),
        list_(std::make_unique<CallList>()),
        place_(p_.registers.size()) {
    list_->Keep(program);  // keeps the constants alive
    const auto bytes = static_cast<std::size_t>(a_.slot_bytes);
    for (int slot = 0; slot < a_.num_slots; ++slot) slots_.push_back(list_->NewScratch(bytes));
    raw_ = list_->NewScratch(static_cast<std::size_t>(a_.order.block_elements()) * kLargestElement);
    for (Place& saved : saved_) saved = list_->NewScratch(kLargestElement);
  }

  std::unique_ptr<CallList> Run() {
    for (std::size_t i = 0; i < p_.inputs.size(); ++i) Load(i);
    for (std::size_t c = 0; c < p_.constants.size(); ++c)
      place_[p_.inputs.size() + c] = CallList::Fixed(p_.constants[c].data());
    for (std::size_t s = 0; s < p_.steps.size(); ++s) {
      if (code_ == nullptr || code_->section_at[s] == nullptr) {
        Step(s);
      } else {
        Code(*code_->section_at[s]);
        s = code_->section_at[s]->end - 1;
      }
    }
    for (std::size_t o = 0; o < p_.outputs.size(); ++o)
      if (!a_.outputs[o].direct) Store(o);
    if (a_.order.num_blocks() > 1) RepeatForRows();
    return std::move(list_);
  }

 private:
  void RepeatForRows() {
    const int outer = a_.order.rank - 1;
    std::vector<std::vector<std::ptrdiff_t>> steps;
    for (std::size_t t = 0; t < p_.inputs.size() + p_.outputs.size(); ++t)
      steps.emplace_back(a_.walks[t].strides, a_.walks[t].strides + outer);
    const auto first_output = steps.begin() + static_cast<std::ptrdiff_t>(p_.inputs.size());
    list_->Repeat({a_.order.extents, a_.order.extents + outer}, {steps.begin(), first_output},
                  {first_output, steps.end()});
  }

  // The walk of the first block, which is all elements or one row of them.
  Place Strided(const Walk& walk, bool gather) {
    const BlockOrder& order = a_.order;
    const int first = order.num_blocks() > 1 ? order.rank - 1 : 0, rank = order.rank - first;
    std::int64_t dense[kMaxRank];
    SetDenseStrides(rank, order.extents + first, dense, walk.size);
    const std::int64_t* const strides = walk.strides + first;
    auto plan = PlanPermutedCopy(rank, order.extents + first, gather ? strides : dense,
                                 gather ? dense : strides, static_cast<std::size_t>(walk.size));
    return list_->Keep(StridedBlock{order, walk, block_, plan ? *std::move(plan) : PermutedCopy{}});
  }

  // Whether a block that is not dense has so few elements that moves of each, which loops keep in registers,
  // take less time than a call.
  bool IsMovedByElements(const Walk& walk) const {
    return a_.order.num_blocks() == 1 && walk.size == kMovedSize && block_.count() <= kMostMoved;
  }
  void MoveElements(const Walk& walk, const Place& memory, const Place& dense, bool gather) {
    std::vector<std::ptrdiff_t> offsets = {0};
    for (int d = 0; d < a_.order.rank; ++d) {
      std::vector<std::ptrdiff_t> more;
      for (const std::ptrdiff_t offset : offsets) {
        for (std::int64_t i = 0; i < a_.order.extents[d]; ++i) more.push_back(offset + i * walk.strides[d]);
      }
      offsets = std::move(more);
    }
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      Place outside = memory, inside = dense;
      outside.offset += offsets[i];
      inside.offset += static_cast<std::ptrdiff_t>(i) * kMovedSize;
      gather ? list_->AddMove(inside, outside, kMovedSize) : list_->AddMove(outside, inside, kMovedSize);
    }
  }

  void Load(std::size_t i) {
    const Arrangement::Input& input = a_.inputs[i];
    const Walk& walk = a_.walks[i];
    place_[i] = CallList::Input(i);
    if (input.slot < 0) return;
    const Place slot = slots_[static_cast<std::size_t>(input.slot)];
    const bool dense = input.form == BlockForm::kContiguous || input.form == BlockForm::kScalar;
    const std::int64_t n = input.form == BlockForm::kScalar ? 1 : block_.count();
    if (!dense) {
      const Place to = input.load == nullptr ? slot : raw_;
      if (IsMovedByElements(walk)) {
        MoveElements(walk, place_[i], to, /*gather=*/true);
      } else {
        list_->Add(Gather, to, {place_[i], Strided(walk, true)}, n);
      }
      place_[i] = to;
    } else if (input.load == nullptr) {
      list_->AddMove(slot, place_[i], n * walk.size);
    }
    if (input.load != nullptr) list_->Add(input.load, slot, {place_[i]}, n);
    place_[i] = slot;
  }

  // Whether two places may have the same address. The tensors need not have their memory yet.
  bool MayBeSame(const Place& a, const Place& b) const {
    if (a == b) return true;
    if (a.base != Place::Base::kInput || b.base != Place::Base::kOutput) return false;
    const void *input = in_[a.tensor].data, *output = out_[b.tensor].data;
    return input == nullptr || output == nullptr || input == output;
  }

  Place ResultOf(std::uint16_t reg) const {
    const int direct = a_.direct_output[reg];
    return direct >= 0 ? CallList::Output(static_cast<std::size_t>(direct)) : slots_[p_.slot[reg]];
  }

  void Code(const CodeSection& section) {
    if (spilled_.base == Place::Base::kFixed) spilled_ = list_->NewScratch(kMostSpilledBytes);
    std::vector<Place> pointers;
    for (const std::uint16_t reg : section.operands) pointers.push_back(place_[reg]);
    for (const std::uint16_t reg : section.results) pointers.push_back(place_[reg] = ResultOf(reg));
    list_->AddTable(CallCode, list_->Keep(KeptSection{code_, &section}), spilled_, std::move(pointers),
                    CodeSection::kOwnPointers, block_.count());
  }

  void Step(std::size_t s) {
    const MicroStep& step = p_.steps[s];
    const Place result = ResultOf(step.result);
    const bool scalar = a_.scalar[step.result];
    const unsigned scalars = scalar ? 0 : a_.scalar_of[s];
    Place operands[4];
    for (int k = 0; k < step.num_operands; ++k) {
      operands[k] = place_[step.operand[k]];
      // If a scalar operand's last use is here, the result may overwrite its element.
      if ((scalars >> k & 1) == 0 || !MayBeSame(operands[k], result)) continue;
      list_->AddMove(saved_[k], operands[k],
                     static_cast<std::int64_t>(SizeOf(p_.registers[step.operand[k]])));
      operands[k] = saved_[k];
    }
    list_->AddStep(step.function, result, operands, step.num_operands, scalar ? 1 : block_.count(),
                   step.immediate, scalars, step.kind);
    place_[step.result] = result;
  }

  void Store(std::size_t o) {
    const Arrangement::Output& output = a_.outputs[o];
    const Walk& walk = a_.walks[p_.inputs.size() + o];
    const std::uint16_t reg = p_.outputs[o];
    const bool dense = output.form == BlockForm::kContiguous;
    const std::int64_t count = block_.count(), n = a_.scalar[reg] ? 1 : count;
    const Place memory = CallList::Output(o);
    Place value = place_[reg];
    if (output.store != nullptr) {
      const Place encoded = dense && n == count ? memory : raw_;
      list_->Add(output.store, encoded, {value}, n);
      if (encoded == memory) return;
      value = encoded;
    }
    if (n != count) {
      const Place filled = dense ? memory : raw_;
      list_->Add(Fill, filled, {value}, count, static_cast<std::uint32_t>(walk.size));
      if (filled == memory) return;
      value = filled;
    }
    if (dense) {
      list_->AddMove(memory, value, count * walk.size);
    } else if (IsMovedByElements(walk)) {
      MoveElements(walk, memory, value, /*gather=*/false);
    } else {
      list_->Add(Scatter, memory, {value, Strided(walk, false)}, count);
    }
  }

  const Arrangement& a_;
  const MicroProgram& p_;
  std::shared_ptr<const BlockCode> code_;
  const HostTensor *in_, *out_;
  Block block_;
  std::unique_ptr<CallList> list_;
  std::vector<Place> place_, slots_;  // by register
  Place raw_, saved_[4], spilled_;
};

// A program on blocks that are too long for the code of loops. Its steps get code once they have run often.
class BoundProgram : public BoundKernel {
 public:
  BoundProgram(std::shared_ptr<const MicroProgram> program, std::shared_ptr<BlockCodeCache> cache,
               std::unique_ptr<CallList> calls, double nanoseconds, const HostTensor* in,
               const HostTensor* out)
      : program_(std::move(program)),
        cache_(std::move(cache)),
        calls_(std::move(calls)),
        runs_(static_cast<std::int64_t>(kNanosecondsForCode / nanoseconds)),
        in_(in, in + program_->inputs.size()),
        out_(out, out + program_->outputs.size()),
        scratch_bytes_(calls_->scratch_bytes() + kMostSpilledBytes) {}

  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  void Point(const HostTensor* in, const HostTensor* out, unsigned char* scratch) override {
    pointed_in_.assign(in, in + in_.size());
    pointed_out_.assign(out, out + out_.size());
    scratch_ = scratch;
    calls_->Point(in, out, scratch);
    if (coded_ != nullptr) coded_->Point(in, out, scratch);
  }
  void Run() const override {
    if (runs_ > 0 && --runs_ == 0) MakeCode();
    (coded_ != nullptr && code_->IsAllowed() ? coded_ : calls_)->Run();
  }

 private:
  void MakeCode() const {
    Scratch scratch;
    const Arrangement arrangement = Arrange(*program_, in_.data(), out_.data(), kShortBoundRows, scratch);
    auto code = cache_->Make(arrangement);
    if (code == nullptr) return;
    auto coded = Binder(program_, arrangement, code, in_.data(), out_.data()).Run();
    if (coded->scratch_bytes() > scratch_bytes_) return;
    code_ = std::move(code);
    coded_ = std::move(coded);
    coded_->Point(pointed_in_.data(), pointed_out_.data(), scratch_);
  }

  std::shared_ptr<const MicroProgram> program_;
  std::shared_ptr<BlockCodeCache> cache_;
  std::unique_ptr<CallList> calls_;
  mutable std::unique_ptr<CallList> coded_;  // null until there is code
  mutable std::shared_ptr<const BlockCode> code_;
  mutable std::int64_t runs_;         // that are left until there is code
  std::vector<HostTensor> in_, out_;  // as when they were bound
  std::vector<HostTensor> pointed_in_, pointed_out_;
  std::size_t scratch_bytes_;
  unsigned char* scratch_ = nullptr;
};

}  // namespace

std::unique_ptr<BoundKernel> ElementwiseKernel::Bind(const HostTensor* in, const HostTensor* out) const {
  const MicroProgram& p = *program_;
  if (p.outputs.empty() || p.steps.size() > kMostSteps || out[0].num_elements() == 0) return nullptr;
  Scratch scratch;
  const Arrangement arrangement = Arrange(p, in, out, kShortBoundRows, scratch);
  const BlockOrder& order = arrangement.order;
  const double most =
      HasScalarsOfShortRows(arrangement) ? kNanosecondsForFilledBlocks : kNanosecondsForThreads;
  const bool rows = order.kind == BlockOrder::Kind::kRows && order.pieces == 1 &&
                    static_cast<double>(out[0].num_elements()) * arrangement.nanoseconds <= most;
  if (order.num_blocks() != 1 && !rows) return nullptr;
  auto calls = Binder(program_, arrangement, nullptr, in, out).Run();
  const std::int64_t elements = order.At(0).count();
  if (order.num_blocks() != 1 || elements <= CallCompiler::kMostElements || p.steps.size() < 2) return calls;
  const double nanoseconds = static_cast<double>(elements) * arrangement.nanoseconds +
                             static_cast<double>(p.steps.size()) * kNanosecondsOfCall;
  return std::make_unique<BoundProgram>(program_, code_, std::move(calls), nanoseconds, in, out);
}

}  // namespace ipu_model
