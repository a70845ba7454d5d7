#include "kernels/host/bound_kernel.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace ipu_model {
namespace {

constexpr std::size_t kAlignment = 64;

// Copies n bytes. Sizes of one number avoid the call of the C library.
void CopyBytes(const MicroArguments& m) {
  if (m.result == m.operand[0]) return;
  switch (m.n) {
    case 1:
      std::memcpy(m.result, m.operand[0], 1);
      return;
    case 4:
      std::memcpy(m.result, m.operand[0], 4);
      return;
    case 8:
      std::memcpy(m.result, m.operand[0], 8);
      return;
    default:
      std::memcpy(m.result, m.operand[0], static_cast<std::size_t>(m.n));
  }
}

}  // namespace

CallList::Place CallList::NewScratch(std::size_t bytes) {
  const Place place{Place::Base::kScratch, 0, static_cast<std::ptrdiff_t>(scratch_bytes_), nullptr};
  scratch_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return place;
}

void CallList::Add(MicroFunction function, const Place& result, std::initializer_list<Place> operands,
                   std::int64_t n, std::uint32_t immediate) {
  AddStep(function, result, operands.begin(), static_cast<int>(operands.size()), n, immediate, 0, {});
}

void CallList::AddStep(MicroFunction function, const Place& result, const Place* operands, int num_operands,
                       std::int64_t n, std::uint32_t immediate, unsigned scalar, const MicroKind& kind) {
  calls_.push_back({function, {nullptr, {}, n, immediate, scalar}});
  Description description{kind, num_operands, result, {}};
  for (int k = 0; k < num_operands; ++k) {
    description.operand[k] = operands[k];
    if (operands[k].base == Place::Base::kFixed) calls_.back().arguments.operand[k] = operands[k].fixed;
  }
  descriptions_.push_back(description);
}

void CallList::AddTable(MicroFunction function, const Place& operand, const Place& memory,
                        std::vector<Place> pointers, std::size_t first, std::int64_t n) {
  Table table;
  table.entries = std::make_unique<const void*[]>(first + pointers.size());
  table.pointers = std::move(pointers);
  table.first = first;
  Add(function, Fixed(table.entries.get()), {operand, memory}, n);
  calls_.back().arguments.result = table.entries.get();
  tables_.push_back(std::move(table));
}

void CallList::AddMove(const Place& to, const Place& from, std::int64_t bytes) {
  MicroKind move;
  move.code = MicroKind::kMove;
  AddStep(CopyBytes, to, &from, 1, bytes, 0, 0, move);
}

void CallList::Repeat(std::vector<std::int64_t> counts, const std::vector<std::vector<std::ptrdiff_t>>& in,
                      const std::vector<std::vector<std::ptrdiff_t>>& out) {
  counts_ = std::move(counts);
  advances_.assign(counts_.size(), std::vector<Advance>(calls_.size(), Advance{}));
  const auto set = [&](std::size_t call, const Place& place, std::ptrdiff_t* (*field)(Advance&, int), int k) {
    if (place.base == Place::Base::kScratch || place.base == Place::Base::kFixed) return;
    const std::vector<std::ptrdiff_t>& steps = (place.base == Place::Base::kInput ? in : out)[place.tensor];
    std::ptrdiff_t back = 0;
    for (std::size_t d = counts_.size(); d-- > 0;) {
      *field(advances_[d][call], k) = steps[d] - back;
      // Undo the innermost dimension's moves: it has moved `counts` times, the others one time less.
      back += steps[d] * (d + 1 == counts_.size() ? counts_[d] : counts_[d] - 1);
    }
  };
  for (std::size_t c = 0; c < calls_.size(); ++c) {
    const Description& d = descriptions_[c];
    set(c, d.result, [](Advance& a, int) { return &a.result; }, 0);
    for (int k = 0; k < d.num_operands; ++k)
      set(c, d.operand[k], [](Advance& a, int operand) { return &a.operand[operand]; }, k);
  }
  const Place moving = NewScratch(calls_.size() * sizeof(Call) + counts_.size() * sizeof(std::int64_t));
  moving_offset_ = static_cast<std::size_t>(moving.offset);
}

inline void CallList::Move(Call* call, const Advance& advance) {
  MicroArguments& m = call->arguments;
  m.result = static_cast<unsigned char*>(m.result) + advance.result;
  for (int k = 0; k < 4; ++k)
    m.operand[k] = static_cast<const unsigned char*>(m.operand[k]) + advance.operand[k];
}

void CallList::RunRepeated() const {
  const std::size_t num_calls = calls_.size(), inner = counts_.size() - 1;
  auto* const calls = reinterpret_cast<Call*>(moving_);
  auto* const index = reinterpret_cast<std::int64_t*>(moving_ + num_calls * sizeof(Call));
  std::uninitialized_copy(calls_.begin(), calls_.end(), calls);
  std::uninitialized_fill_n(index, counts_.size(), 0);
  const Advance* const step = advances_[inner].data();
  for (;;) {
    for (std::int64_t i = 0; i < counts_[inner]; ++i) {
      for (std::size_t c = 0; c < num_calls; ++c) {
        calls[c].function(calls[c].arguments);
        Move(&calls[c], step[c]);
      }
    }
    std::size_t d = inner;
    while (d > 0 && ++index[d - 1] == counts_[d - 1]) index[--d] = 0;
    if (d == 0) return;
    for (std::size_t c = 0; c < num_calls; ++c) Move(&calls[c], advances_[d - 1][c]);
  }
}

void CallList::Point(const HostTensor* in, const HostTensor* out, unsigned char* scratch) {
  moving_ = scratch + moving_offset_;
  const auto address = [&](const Place& place) {
    unsigned char* base = scratch;
    if (place.base == Place::Base::kInput) base = in[place.tensor].as<unsigned char>();
    if (place.base == Place::Base::kOutput) base = out[place.tensor].as<unsigned char>();
    return base + place.offset;
  };
  for (std::size_t c = 0; c < calls_.size(); ++c) {
    const Description& d = descriptions_[c];
    MicroArguments& arguments = calls_[c].arguments;
    if (d.result.base != Place::Base::kFixed) arguments.result = address(d.result);
    for (int k = 0; k < d.num_operands; ++k)
      if (d.operand[k].base != Place::Base::kFixed) arguments.operand[k] = address(d.operand[k]);
  }
  for (const Table& table : tables_)
    for (std::size_t i = 0; i < table.pointers.size(); ++i)
      table.entries[table.first + i] = address(table.pointers[i]);
}

}  // namespace ipu_model
