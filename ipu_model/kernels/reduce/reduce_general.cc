// Reductions with any body, on the block interpreter, and the proof that a body is argmax or argmin.
#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/copy/strided_copy.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/reduce/reduce.h"
#include "kernels/reduce/reduce_space.h"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

// From this many results on, one pass over all results per reduced element is efficient.
constexpr std::int64_t kManyResults = 256, kFewElements = 8;

// Returns a view with only the dimensions of `t` whose bit in `mask` equals `value`.
HostTensor Dimensions(const HostTensor& t, std::uint32_t mask, bool value) {
  HostTensor result = t;
  result.rank = 0;
  for (int d = 0; d < t.rank; ++d) {
    if (((mask >> d & 1) != 0) != value) continue;
    result.shape[result.rank] = t.shape[d];
    result.strides[result.rank++] = t.strides[d];
  }
  return result;
}

void* Advance(const HostTensor& t, std::int64_t elements) {
  return static_cast<unsigned char*>(t.data) + elements * static_cast<std::int64_t>(SizeOf(t.type));
}

// Returns the offset of element `index`, in row-major order, of a tensor.
std::int64_t OffsetOf(const HostTensor& t, std::int64_t index) {
  std::int64_t offset = 0;
  for (int d = t.rank - 1; d >= 0; --d) {
    offset += index % t.shape[d] * t.strides[d];
    index /= t.shape[d];
  }
  return offset;
}

}  // namespace

void ReduceKernel::RunGeneral(HostContext& context, const HostTensor* values, const HostTensor* inits,
                              std::uint32_t dimensions, const HostTensor* out) const {
  const std::size_t n = types_.size();
  const std::int64_t results = out[0].num_elements(), count = values[0].num_elements() / results;
  auto* operands = context.scratch.Allocate<HostTensor>(2 * n);
  auto* totals = context.scratch.Allocate<HostTensor>(n);
  if (results >= kManyResults || count <= kFewElements) {
    // Accumulate whole slices, one reduced index after another.
    auto* slices = context.scratch.Allocate<HostTensor>(2 * n);
    for (std::size_t i = 0; i < n; ++i) {
      totals[i] =
          DenseLike(out[i], context.scratch.Allocate(static_cast<std::size_t>(results) * SizeOf(types_[i])));
      totals[i].type = types_[i];
      slices[i] = Dimensions(values[i], dimensions, false);
      slices[n + i] = Dimensions(values[i], dimensions, true);
      operands[i] = totals[i];
      operands[n + i] = slices[i];
      CopyTensor(context, slices[i], totals[i]);
    }
    for (std::int64_t r = 1; r < count; ++r) {
      for (std::size_t i = 0; i < n; ++i)
        operands[n + i].data = Advance(slices[i], OffsetOf(slices[n + i], r));
      combine_.Run(context, operands, totals);
    }
  } else {
    // Combine neighbours, which halves the number of values per pass and keeps their order.
    auto* to = context.scratch.Allocate<HostTensor>(n);
    auto* from = context.scratch.Allocate<HostTensor>(n);
    for (std::size_t i = 0; i < n; ++i) {
      const HostTensor kept = Dimensions(values[i], dimensions, false),
                       reduced = Dimensions(values[i], dimensions, true);
      HostTensor ordered = kept;
      for (int d = 0; d < reduced.rank; ++d) {
        ordered.shape[ordered.rank] = reduced.shape[d];
        ordered.strides[ordered.rank++] = reduced.strides[d];
      }
      const auto bytes = static_cast<std::size_t>(results * count) * SizeOf(types_[i]);
      CopyTensor(context, ordered, DenseLike(ordered, from[i].data = context.scratch.Allocate(bytes)));
      from[i].type = to[i].type = types_[i];
      from[i].rank = to[i].rank = 2;
      from[i].shape[0] = to[i].shape[0] = results;
      from[i].strides[0] = to[i].strides[0] = count;
      from[i].strides[1] = to[i].strides[1] = 1;
      to[i].data = context.scratch.Allocate(bytes);
    }
    for (std::int64_t left = count; left > 1; left = (left + 1) / 2) {
      const std::int64_t pairs = left / 2;
      for (std::size_t i = 0; i < n; ++i) {
        to[i].shape[1] = pairs;
        for (int side = 0; side < 2; ++side) {
          HostTensor& operand = operands[static_cast<std::size_t>(side) * n + i];
          operand = from[i];
          operand.data = Advance(from[i], side);
          operand.shape[1] = pairs;
          operand.strides[1] = 2;
        }
      }
      combine_.Run(context, operands, to);
      for (std::size_t i = 0; i < n; ++i) {
        if (left % 2 != 0) {
          HostTensor last = from[i], place = to[i];
          last.shape[1] = place.shape[1] = 1;
          last.data = Advance(from[i], left - 1);
          place.data = Advance(to[i], pairs);
          CopyTensor(context, last, place);
        }
        std::swap(from[i], to[i]);
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      totals[i] = DenseLike(out[i], from[i].data);
      totals[i].type = types_[i];
      for (int d = 0; d < totals[i].rank; ++d) totals[i].strides[d] *= count;
    }
  }
  if (inits == nullptr) {
    for (std::size_t i = 0; i < n; ++i) CopyTensor(context, totals[i], out[i]);
    return;
  }
  for (std::size_t i = 0; i < n; ++i) {
    operands[i] = BroadcastScalar(inits[i], out[i]);
    operands[n + i] = totals[i];
  }
  combine_.Run(context, operands, out);
}

// The result of a body made only of comparisons and selections depends only on how its values and its indices
// compare. Running it on every combination of less, equal, greater and NaN is therefore a proof, whatever its
// exact form.
bool ReduceKernel::IsArgument(const Expression& combiner, bool largest) const {
  if (types_.size() != 2 || !combiner.constants.empty()) return false;
  const DType type = types_[0], index_type = types_[1];
  const bool wide_float =
      type == DType::kF16 || type == DType::kBF16 || type == DType::kF32 || type == DType::kF64;
  const bool wide_integer = IsInteger(type) && BitWidth(type) >= 8;
  if ((!wide_float && !wide_integer) || (index_type != DType::kS32 && index_type != DType::kS64))
    return false;
  for (const Instruction& i : combiner.code) {
    const bool logical = i.operand_type == DType::kPred && (i.op == ScalarOp::kAnd || i.op == ScalarOp::kOr ||
                                                            i.op == ScalarOp::kXor || i.op == ScalarOp::kNot);
    const bool compares = i.op >= ScalarOp::kEq && i.op <= ScalarOp::kGe;
    if (!logical && !compares && i.op != ScalarOp::kSelect) return false;
  }
  constexpr int kMost = 18;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kPairs[6][2] = {{1, 2}, {1, 1}, {2, 1}, {kNan, 1}, {1, kNan}, {kNan, kNan}};
  const int cases = wide_float ? kMost : 9;
  float value[2][kMost], index[2][kMost], got[2][kMost];
  for (int c = 0; c < cases; ++c) {
    for (int side = 0; side < 2; ++side) {
      value[side][c] = kPairs[c / 3][side];
      index[side][c] = kPairs[c % 3][side];
    }
  }
  Scratch scratch;
  HostContext context{ThreadPool::Global(), scratch};
  alignas(16) unsigned char typed[6][kMost * 8];
  const auto tensor = [cases](void* data, DType t) { return DenseVector(t, cases, data); };
  const auto convert = [&](void* from, DType from_type, void* to, DType to_type) {
    const HostTensor in = tensor(from, from_type), out = tensor(to, to_type);
    ElementwiseKernel(Conversion(from_type, to_type)).Run(context, &in, &out);
  };
  for (int side = 0; side < 2; ++side) {
    convert(value[side], DType::kF32, typed[2 * side], type);
    convert(index[side], DType::kF32, typed[2 * side + 1], index_type);
  }
  const HostTensor in[4] = {tensor(typed[0], type), tensor(typed[1], index_type), tensor(typed[2], type),
                            tensor(typed[3], index_type)};
  const HostTensor out[2] = {tensor(typed[4], type), tensor(typed[5], index_type)};
  combine_.Run(context, in, out);
  convert(typed[4], type, got[0], DType::kF32);
  convert(typed[5], index_type, got[1], DType::kF32);
  for (int c = 0; c < cases; ++c) {
    const float x = value[0][c], y = value[1][c], xi = index[0][c], yi = index[1][c];
    const bool keep = (largest ? x > y : x < y) || x != x;
    const bool keep_index = keep || (x == y && xi < yi);
    const float expected = keep ? x : y;
    if (got[0][c] != expected && !(got[0][c] != got[0][c] && expected != expected)) return false;
    if (got[1][c] != (keep_index ? xi : yi)) return false;
  }
  return true;
}

}  // namespace ipu_model
