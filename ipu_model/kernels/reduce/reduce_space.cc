#include "kernels/reduce/reduce_space.h"

#include <algorithm>
#include <cstdlib>

namespace ipu_model {

ReduceSpace::ReduceSpace(const HostTensor* tensors, int num_tensors, std::uint32_t mask, bool by_stride) {
  int order[kMaxRank];
  int used = 0;
  const HostTensor& leader = tensors[0];
  for (int d = 0; d < leader.rank; ++d) {
    if ((mask >> d & 1) == 0 || leader.shape[d] == 1) continue;
    int at = used++;
    const auto magnitude = [&](int dim) { return std::abs(leader.strides[dim]); };
    for (; by_stride && at > 0 && magnitude(order[at - 1]) < magnitude(d); --at) order[at] = order[at - 1];
    order[at] = d;
  }
  for (int k = 0; k < used; ++k) {
    const int d = order[k];
    count *= leader.shape[d];
    bool merge = rank > 0;
    for (int t = 0; merge && t < num_tensors; ++t)
      merge = stride[t][rank - 1] == tensors[t].strides[d] * leader.shape[d];
    if (!merge) ++rank;
    extent[rank - 1] = merge ? extent[rank - 1] * leader.shape[d] : leader.shape[d];
    for (int t = 0; t < num_tensors; ++t) stride[t][rank - 1] = tensors[t].strides[d];
  }
}

HostTensor BroadcastScalar(const HostTensor& value, const HostTensor& like) {
  HostTensor t = like;
  t.data = value.data;
  t.type = value.type;
  for (int d = 0; d < t.rank; ++d) t.strides[d] = 0;
  return t;
}

Expression Conversion(DType from, DType to) {
  Expression e;
  e.inputs = {from};
  if (from != to) {
    Instruction convert;
    convert.op = ScalarOp::kConvert;
    convert.operand_type = from;
    convert.result_type = to;
    e.code = {convert};
  }
  e.outputs = {static_cast<std::uint16_t>(e.code.size())};
  return e;
}

std::uint32_t RepeatedResults(const HostTensor* values, int count, std::uint32_t dimensions,
                              HostTensor* single) {
  std::uint32_t repeated = 0;
  std::copy(values, values + count, single);
  for (int d = 0, result = 0; d < values[0].rank; ++d) {
    if ((dimensions >> d & 1) != 0) continue;
    const bool is_repeated =
        values[0].shape[d] > 1 &&
        std::all_of(values, values + count, [d](const HostTensor& t) { return t.strides[d] == 0; });
    for (int i = 0; i < count && is_repeated; ++i) single[i].shape[d] = 1;
    repeated |= (is_repeated ? 1u : 0u) << result++;
  }
  return repeated;
}

}  // namespace ipu_model
