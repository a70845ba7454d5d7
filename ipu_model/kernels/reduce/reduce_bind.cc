// Binds reductions of few elements as a list of calls, in the order in which ReduceKernel::Run combines.
#include "kernels/copy/strided_copy.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/reduce/reduce.h"
#include "kernels/reduce/reduce_pack.h"
#include "kernels/reduce/reduce_plan.h"
#include "kernels/reduce/reduce_space.h"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

constexpr std::int64_t kMostElements = 1 << 15, kMostCalls = 64, kMostColumns = 32;

// Adds one call for all rows.
void AddShortRows(const ReducePlan& plan, const ReduceFunctions& functions, const CallList::Place& total,
                  CallList* list) {
  list->Add(functions.short_rows_call, total, {CallList::Input(0), list->Keep(plan.kept.stride[0][0])},
            plan.kept.count, static_cast<std::uint32_t>(plan.length));
}

// Adds calls that write results at `total`. Returns false if there would be many calls, or if values are not
// consecutive.
bool AddRows(const ReducePlan& plan, const ReduceFunctions& functions, std::int64_t size,
             const CallList::Place& total, CallList* list) {
  const int inner = plan.reduced.rank - 1;
  if (plan.units != 1 || plan.items > kMostCalls || (inner >= 0 && plan.reduced.stride[0][inner] != 1))
    return false;
  for (std::int64_t item = 0; item < plan.items; ++item) {
    CallList::Place result = total;
    result.offset += item * size;
    list->Add(functions.row_call, result, {CallList::Input(0, plan.kept.Offset(0, item) * size)},
              plan.length);
  }
  return true;
}

bool AddLanes(const ReducePlan& plan, const ReduceFunctions& functions, std::int64_t size,
              const CallList::Place& total, CallList* list) {
  // The lanes must be the innermost results, so that they are written in place.
  if (plan.chunks != 1 || plan.items * plan.units > kMostCalls || plan.lane != plan.kept.rank - 1 ||
      plan.kept.stride[0][plan.lane] != 1)
    return false;
  const bool in_one = plan.reduced.rank == 1 && plan.units > 1;
  const CallList::Place stride = in_one ? list->Keep(plan.reduced.stride[0][0]) : CallList::Place{};
  for (std::int64_t item = 0; item < plan.items; ++item) {
    CallList::Place result = total;
    result.offset += item * plan.lanes * size;
    if (in_one) {
      const std::int64_t offset = plan.kept.Offset(0, item * plan.lanes);
      list->AddMove(result, CallList::Input(0, offset * size), plan.lanes * size);
      list->Add(functions.columns_call, result,
                {CallList::Input(0, (offset + plan.reduced.stride[0][0]) * size), stride}, plan.lanes,
                static_cast<std::uint32_t>(plan.units - 1));
      continue;
    }
    for (std::int64_t unit = 0; unit < plan.units; ++unit) {
      const std::int64_t offset = plan.kept.Offset(0, item * plan.lanes) + plan.reduced.Offset(0, unit);
      const CallList::Place values = CallList::Input(0, offset * size);
      if (unit == 0) {
        list->AddMove(result, values, plan.lanes * size);
      } else {
        list->Add(functions.lanes_call, result, {values}, plan.lanes, 1);
      }
    }
  }
  return true;
}

// Adds calls that combine the results element by element of what is reduced, in the order of the lanes.
bool AddColumns(const ReducePlan& plan, const ReduceFunctions& functions, DType type,
                const CallList::Place& total, CallList* list) {
  if (plan.reduced.count > kMostColumns) return false;
  const auto size = static_cast<std::int64_t>(SizeOf(type));
  HostTensor column, dense;
  column.type = dense.type = type;
  column.rank = dense.rank = plan.kept.rank;
  for (int d = 0; d < plan.kept.rank; ++d) {
    column.shape[d] = dense.shape[d] = plan.kept.extent[d];
    column.strides[d] = plan.kept.stride[0][d];
  }
  SetDenseStrides(&dense);
  const CallList::Place copy = list->NewScratch(static_cast<std::size_t>(plan.kept.count * size));
  for (std::int64_t unit = 0; unit < plan.reduced.count; ++unit) {
    CallList::Place values = CallList::Input(0, plan.reduced.Offset(0, unit) * size);
    if (unit == 0) {
      if (!AddCopy(list, column, values, dense, total)) return false;
      continue;
    }
    if (!IsDense(column)) {
      if (!AddCopy(list, column, values, dense, copy)) return false;
      values = copy;
    }
    list->Add(functions.lanes_call, total, {values}, plan.kept.count, 1);
  }
  return true;
}

}  // namespace

std::unique_ptr<BoundKernel> ReduceKernel::Bind(const HostTensor* in, std::uint32_t dimensions,
                                                const HostTensor* out) const {
  for (std::size_t i = 0; i < types_.size(); ++i) {
    const bool as_stored =
        HeldType(i) == types_[i] && BitWidth(types_[i]) >= 8 && LoadFunction(types_[i]) == nullptr;
    if (!as_stored || out[i].type != types_[i]) return nullptr;
  }
  if (kind_ == Kind::kSingle) return BindSingle(in, dimensions, out[0]);
  return kind_ == Kind::kArgument ? BindArgument(in, dimensions, out) : nullptr;
}

std::unique_ptr<BoundKernel> ReduceKernel::BindArgument(const HostTensor* in, std::uint32_t dimensions,
                                                        const HostTensor* out) const {
  HostTensor values[2] = {in[0], in[1]};
  const std::int64_t elements = values[0].num_elements();
  if (elements == 0 || elements > kMostElements || RepeatedResults(in, 2, dimensions, values) != 0)
    return nullptr;
  const ReduceSpace kept(values, 2, ~dimensions & ((1u << values[0].rank) - 1), false);
  const ReduceSpace reduced(values, 2, dimensions, false);
  const std::int64_t results = kept.count;
  auto list = std::make_unique<CallList>();
  // Best values and indices, in their order; those of rows before the init values are among them.
  CallList::Place total[2], row[2];
  std::int64_t size[2];
  HostTensor dense[2];
  for (std::size_t i = 0; i < 2; ++i) {
    size[i] = static_cast<std::int64_t>(SizeOf(types_[i]));
    const auto bytes = static_cast<std::size_t>(results * size[i]);
    total[i] = IsDense(out[i]) ? CallList::Output(i) : list->NewScratch(bytes);
    row[i] = list->NewScratch(bytes);
    dense[i] = out[i];
    dense[i].data = nullptr;
    SetDenseStrides(&dense[i]);
    const HostTensor init = BroadcastScalar(in[2 + i], out[i]);
    if (!AddCopy(list.get(), init, CallList::Input(2 + i), dense[i], total[i])) return nullptr;
  }
  const auto at = [&](std::size_t i, std::int64_t result, std::int64_t index) {
    return CallList::Input(i, (kept.Offset(i, result) + reduced.Offset(i, index)) * size[i]);
  };
  const auto moved = [](CallList::Place place, std::int64_t bytes) {
    place.offset += bytes;
    return place;
  };
  if (kept.rank <= 1 && reduced.count <= kMostColumns && reduced.count <= results) {
    const ArgumentStrides along{kept.rank == 0 ? 0 : kept.stride[0][0],
                                kept.rank == 0 ? 0 : kept.stride[1][0]};
    if (along.values == 1 && along.indices == 0 && reduced.rank == 1 && argument_.columns_call != nullptr) {
      const CallList::Place strides = list->Keep(ArgumentStrides{reduced.stride[0][0], reduced.stride[1][0]});
      list->Add(argument_.columns_call, total[0], {at(0, 0, 0), at(1, 0, 0), total[1], strides}, results,
                static_cast<std::uint32_t>(reduced.count));
    } else {
      const CallList::Place strides = list->Keep(along);
      for (std::int64_t i = 0; i < reduced.count; ++i)
        list->Add(argument_.lanes_call, total[0], {at(0, 0, i), at(1, 0, i), total[1], strides}, results);
    }
  } else if (reduced.rank == 1 && reduced.stride[0][0] == 1 && results <= kMostCalls) {
    const CallList::Place strides = list->Keep(ArgumentStrides{1, reduced.stride[1][0]});
    for (std::int64_t r = 0; r < results; ++r) {
      list->Add(argument_.row_call, moved(row[0], r * size[0]),
                {at(0, r, 0), at(1, r, 0), moved(row[1], r * size[1]), strides}, reduced.count);
    }
    const CallList::Place side_by_side = list->Keep(ArgumentStrides{1, 1});
    list->Add(argument_.lanes_call, total[0], {row[0], row[1], total[1], side_by_side}, results);
  } else {
    return nullptr;
  }
  for (std::size_t i = 0; i < 2; ++i) {
    if (!IsDense(out[i]) && !AddCopy(list.get(), dense[i], total[i], out[i], CallList::Output(i)))
      return nullptr;
  }
  return list;
}

std::unique_ptr<BoundKernel> ReduceKernel::BindSingle(const HostTensor* in, std::uint32_t dimensions,
                                                      const HostTensor& out) const {
  HostTensor values = in[0];
  const std::uint32_t repeated = RepeatedResults(in, 1, dimensions, &values);
  const std::int64_t elements = values.num_elements();
  if (elements == 0 || elements > kMostElements) return nullptr;
  // Where the order does not matter, rows are not folded as Run does.
  const bool rounds = IsFloat(types_[0]) && (op_ == ReduceOp::kAdd || op_ == ReduceOp::kMultiply);
  const ReducePlan plan = MakeReducePlan(&values, 1, dimensions, rounds);
  const std::int64_t results = plan.kept.count;
  const auto size = static_cast<std::int64_t>(SizeOf(types_[0]));
  auto list = std::make_unique<CallList>();
  const bool in_place = repeated == 0 && IsDense(out);
  const CallList::Place total =
      in_place ? CallList::Output(0) : list->NewScratch(static_cast<std::size_t>(results * size));
  if (plan.folded || plan.segments != 1) return nullptr;
  // Columns are combined in the order of Run for lanes, but not for rows: there it must not matter.
  const bool columns = !plan.rows || !rounds;
  if (plan.short_rows(SizeOf(types_[0]))) {
    AddShortRows(plan, single_, total, list.get());
  } else if (!(plan.rows ? AddRows : AddLanes)(plan, single_, size, total, list.get()) &&
             !(columns && AddColumns(plan, single_, types_[0], total, list.get()))) {
    return nullptr;
  }
  list->Add(single_.lanes_call, total, {CallList::Input(1)}, results, 0);
  if (in_place) return list;
  HostTensor dense = out;
  dense.data = nullptr;
  std::int64_t stride = 1;
  for (int d = dense.rank - 1; d >= 0; --d) {
    const bool is_repeated = (repeated >> d & 1) != 0;
    dense.strides[d] = is_repeated ? 0 : stride;
    stride *= is_repeated ? 1 : dense.shape[d];
  }
  if (!AddCopy(list.get(), dense, total, out, CallList::Output(0))) return nullptr;
  return list;
}

}  // namespace ipu_model
