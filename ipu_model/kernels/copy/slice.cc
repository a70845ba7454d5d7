#include "kernels/copy/slice.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/copy/bound_copy.h"
#include "kernels/copy/strided_copy.h"
#include "kernels/host/bound_slice.h"

namespace ipu_model {
namespace {

// Copies operand 0 to the result. Operand 1 holds the bytes to add to the source address (kFrom) or to the
// destination address (kTo), operand 3 is the BoundCopy.
enum class Shift : std::uint8_t { kFrom, kTo };
template <Shift kShift>
void CallShifted(const MicroArguments& m) {
  const auto& bound = *static_cast<const BoundCopy*>(m.operand[3]);
  const char* src = static_cast<const char*>(m.operand[0]);
  char* dst = static_cast<char*>(m.result);
  const std::int64_t offset = *static_cast<const std::int64_t*>(m.operand[1]);
  if constexpr (kShift == Shift::kFrom) {
    src += offset;
  } else {
    dst += offset;
  }
  bound.copy(bound, src, dst);
}

SlicedBytes BytesOf(const HostTensor& t) {
  const auto size = static_cast<std::ptrdiff_t>(SizeOf(t.type));
  SlicedBytes range{0, size};
  for (int d = 0; d < t.rank; ++d) {
    const std::ptrdiff_t reach = (t.shape[d] - 1) * t.strides[d] * size;
    range.begin += std::min<std::ptrdiff_t>(reach, 0);
    range.bytes += std::abs(reach);
  }
  return range;
}

// Adds the copy of a slice of `whole` that starts `offset` bytes after its first element, or to it.
template <Shift kShift>
void AddShiftedCopy(CallList* list, const CallList::Place& to, const CallList::Place& from,
                    const CallList::Place& offset, const HostTensor& whole, const BoundCopy& bound,
                    std::int64_t size) {
  const CopyLoop& loop = bound.loop;
  MicroKind kind;
  if (IsContiguous(loop, size)) {
    kind.code = kShift == Shift::kFrom ? MicroKind::kMoveFrom : MicroKind::kMoveTo;
  }
  const CallList::Place operands[] = {from, offset, list->Keep(BytesOf(whole)), list->Keep(bound)};
  list->AddStep(CallShifted<kShift>, to, operands, 4, loop.total * size, 0, 0, kind);
}

void StartCall(const MicroArguments& m) {
  const auto& start = *static_cast<const SliceStart*>(m.operand[1]);
  auto* offset = static_cast<std::int64_t*>(m.result);
  const std::int64_t index = std::clamp<std::int64_t>(ReadIndex(start.type, m.operand[0]), 0, start.limit);
  *offset = index * start.bytes + (start.more ? *offset : 0);
}

// Returns the place that holds the byte offset of a window of `window`'s shape in `whole`. `first` is the
// input that holds the first start.
CallList::Place AddStarts(CallList* list, const HostTensor& whole, const HostTensor& window,
                          const HostTensor* starts, std::size_t first) {
  const CallList::Place offset = list->NewScratch(sizeof(std::int64_t));
  bool more = false;
  for (int d = 0; d < whole.rank; ++d) {
    const std::int64_t limit = whole.shape[d] - window.shape[d];
    if (limit == 0 && (more || d + 1 < whole.rank)) continue;
    const std::int64_t bytes = whole.strides[d] * static_cast<std::int64_t>(SizeOf(whole.type));
    MicroKind kind;
    kind.code = MicroKind::kSliceStart;
    const CallList::Place operands[] = {CallList::Input(first + static_cast<std::size_t>(d)),
                                        list->Keep(SliceStart{starts[d].type, more, limit, bytes})};
    list->AddStep(StartCall, offset, operands, 2, 1, 0, 0, kind);
    more = true;
  }
  return offset;
}

void ClampedStarts(const HostTensor& operand, const HostTensor* starts, const std::int64_t* sizes,
                   std::int64_t* out) {
  for (int d = 0; d < operand.rank; ++d) {
    const std::int64_t start = ReadIndex(starts[d].type, starts[d].data);
    out[d] = std::clamp<std::int64_t>(start, 0, operand.shape[d] - sizes[d]);
  }
}

}  // namespace

std::int64_t ReadIndex(DType type, const void* data) {
  switch (type) {
    case DType::kS2:
    case DType::kS4:
    case DType::kS8:
      return *static_cast<const std::int8_t*>(data);
    case DType::kS16:
      return *static_cast<const std::int16_t*>(data);
    case DType::kS32:
      return *static_cast<const std::int32_t*>(data);
    case DType::kS64:
      return *static_cast<const std::int64_t*>(data);
    case DType::kPred:
    case DType::kU2:
    case DType::kU4:
    case DType::kU8:
      return *static_cast<const std::uint8_t*>(data);
    case DType::kU16:
      return *static_cast<const std::uint16_t*>(data);
    case DType::kU32:
      return *static_cast<const std::uint32_t*>(data);
    case DType::kU64: {
      const std::uint64_t value = *static_cast<const std::uint64_t*>(data);
      constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
      return static_cast<std::int64_t>(std::min(value, kMax));
    }
    default:
      throw std::invalid_argument(std::string("an index cannot have type ") + NameOf(type));
  }
}

void DynamicSlice(HostContext& context, const HostTensor& operand, const HostTensor* starts,
                  const HostTensor& out) {
  std::int64_t begin[kMaxRank];
  ClampedStarts(operand, starts, out.shape, begin);
  CopyTensor(context, SubTensor(operand, begin, out.shape), out);
}

void DynamicUpdateSlice(HostContext& context, const HostTensor& operand, const HostTensor& update,
                        const HostTensor* starts, const HostTensor& out) {
  std::int64_t begin[kMaxRank];
  ClampedStarts(operand, starts, update.shape, begin);
  CopyTensor(context, operand, out);
  CopyTensor(context, update, SubTensor(out, begin, update.shape));
}

std::unique_ptr<BoundKernel> BindDynamicSlice(const HostTensor* in, const HostTensor& out) {
  if (in[0].rank == 0 || !IsSmall(out)) return nullptr;
  auto list = std::make_unique<CallList>();
  const CallList::Place offset = AddStarts(list.get(), in[0], out, in + 1, 1);
  AddShiftedCopy<Shift::kFrom>(list.get(), CallList::Output(0), CallList::Input(0), offset, in[0],
                               BindCopy(out.shape, in[0], out), static_cast<std::int64_t>(SizeOf(out.type)));
  return list;
}

std::unique_ptr<BoundKernel> BindDynamicUpdateSlice(const HostTensor* in, const HostTensor& out,
                                                    bool in_place) {
  const HostTensor &operand = in[0], &update = in[1];
  if (out.rank == 0 || !IsSmall(update)) return nullptr;
  auto list = std::make_unique<CallList>();
  if (!in_place && !AddCopy(list.get(), operand, CallList::Input(0), out, CallList::Output(0)))
    return nullptr;
  const CallList::Place offset = AddStarts(list.get(), out, update, in + 2, 2);
  AddShiftedCopy<Shift::kTo>(list.get(), CallList::Output(0), CallList::Input(1), offset, out,
                             BindCopy(update.shape, update, out),
                             static_cast<std::int64_t>(SizeOf(out.type)));
  return list;
}

}  // namespace ipu_model
