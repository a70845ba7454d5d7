// Binds reductions of few elements as a list of calls, in the order in which ReduceKernel::Run combines.
#include "kernels/copy/slice.h"
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
  for (std::int64_t item = 0; item < plan.items; ++item) {
    CallList::Place result = total;
    result.offset += item * plan.lanes * size;
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
                                                const HostTensor& out) const {
  HostTensor values = in[0];
  const std::uint32_t repeated = RepeatedResults(in, 1, dimensions, &values);
  const std::int64_t elements = values.num_elements();
  if (kind_ != Kind::kSingle || elements == 0 || elements > kMostElements) return nullptr;
  const bool as_stored =
      HeldType(0) == types_[0] && BitWidth(types_[0]) >= 8 && LoadFunction(types_[0]) == nullptr;
  if (!as_stored) return nullptr;
  const ReducePlan plan = MakeReducePlan(&values, 1, dimensions, true);
  const std::int64_t results = plan.kept.count;
  const auto size = static_cast<std::int64_t>(SizeOf(types_[0]));
  auto list = std::make_unique<CallList>();
  const bool in_place = repeated == 0 && IsDense(out);
  const CallList::Place total =
      in_place ? CallList::Output(0) : list->NewScratch(static_cast<std::size_t>(results * size));
  if (plan.folded || plan.segments != 1) return nullptr;
  // Columns are combined in the order of Run for lanes, but not for rows: there it must not matter.
  const bool rounds = IsFloat(types_[0]) && (op_ == ReduceOp::kAdd || op_ == ReduceOp::kMultiply);
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
