#include "pjrt_plugin/ipu_model/kernels/bound_kernel.h"

#include <cstring>

namespace ipu_model {
namespace {

constexpr std::size_t kAlignment = 64;

// Of n bytes; those of one number need no call to the library.
void Move(const MicroArguments& m) {
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
  AddStep(function, result, operands.begin(), static_cast<int>(operands.size()), n, immediate, 0);
}

void CallList::AddStep(MicroFunction function, const Place& result, const Place* operands, int num_operands,
                       std::int64_t n, std::uint32_t immediate, unsigned scalar) {
  calls_.push_back({function, {nullptr, {}, n, immediate, scalar}});
  Refer(-1, result);
  for (int k = 0; k < num_operands; ++k) Refer(k, operands[k]);
}

void CallList::AddMove(const Place& to, const Place& from, std::int64_t bytes) {
  Add(Move, to, {from}, bytes);
}

void CallList::Refer(int operand, const Place& place) {
  const auto call = static_cast<std::uint32_t>(calls_.size() - 1);
  if (place.base != Place::Base::kFixed) {
    references_.push_back({call, operand, place});
  } else if (operand >= 0) {
    calls_[call].arguments.operand[operand] = place.fixed;
  }
}

void CallList::Point(const HostTensor* in, const HostTensor* out, unsigned char* scratch) {
  for (const Reference& r : references_) {
    unsigned char* base = scratch;
    if (r.place.base == Place::Base::kInput) base = in[r.place.tensor].as<unsigned char>();
    if (r.place.base == Place::Base::kOutput) base = out[r.place.tensor].as<unsigned char>();
    MicroArguments& arguments = calls_[r.call].arguments;
    if (r.operand < 0) {
      arguments.result = base + r.place.offset;
    } else {
      arguments.operand[r.operand] = base + r.place.offset;
    }
  }
}

}  // namespace ipu_model
