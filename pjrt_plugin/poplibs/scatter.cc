// Python: updates of slices at positions that are known at run time only, by popops' multiple updates.
//
//   scatter(graph, operand, indices, updates, window_dims, inserted, index_map, index_vector_dim, wraps,
//   operation, seq, name)
//     as in StableHLO; writes into the operand. Windows have one element along the dimensions of `index_map`
//     batching: pairs of a dimension of the operand and one of the indices
//     wraps: what is added to a negative index of each component; 0: nothing
//     operation: "", the last update of an element replaces it, "add", "multiply", "maximum" or "minimum"
#include <algorithm>
#include <limits>
#include <map>
#include <popops/DynamicSlice.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Expr.hpp>

#include "poplibs/bindings.h"
#include "poplibs/total_order.h"

namespace jax_ipu::poplibs {
namespace {

namespace pe = popops::expr;
using popops::SlicePlan;

std::size_t Product(const Shape& sizes) {
  std::size_t product = 1;
  for (const std::size_t n : sizes) product *= n;
  return product;
}

// The rows that the components of the indices name, [updates], in a table with these sizes. What is outside
// of a dimension becomes the number of rows, which popops leaves out.
Tensor RowsOf(Graph& graph, const std::vector<Tensor>& components, const std::vector<std::int64_t>& wraps,
              const Shape& sizes, Sequence& sequence, const std::string& name) {
  const bool is_signed = components.at(0).elementType() == poplar::INT;
  const auto number = [is_signed](std::size_t n) -> pe::Any {
    if (is_signed) return pe::Const(static_cast<int>(n));
    return pe::Const(static_cast<unsigned>(n));
  };
  pe::Any row = number(0), inside = pe::Const(true);
  for (std::size_t c = 0; c < components.size(); ++c) {
    pe::Any position = pe::PlaceHolder(static_cast<unsigned>(c + 1));
    if (is_signed && c < wraps.size() && wraps[c] != 0)
      position = pe::Select(pe::Add(position, pe::Const(static_cast<int>(wraps[c]))), position,
                            pe::Lt(position, pe::Const(0)));
    pe::Any within = pe::Lt(position, number(sizes[c]));
    if (is_signed) within = pe::And(within, pe::Gte(position, pe::Const(0)));
    row = c == 0 ? position : pe::Add(pe::Mul(row, number(sizes[c])), position);
    inside = c == 0 ? within : pe::And(inside, within);
  }
  const pe::Any rows = pe::Select(row, number(Product(sizes)), inside);
  const Tensor made = popops::map(graph, rows, components, sequence, name);
  return is_signed ? made.reinterpret(poplar::UNSIGNED_INT) : made;
}

// Integers are planned as floats of their size: PopLibs' planner, which models a cast to partial sums, ends
// the process for them.
SlicePlan PlanOf(Graph& graph, const Tensor& base, std::size_t updates, const std::string& operation) {
  const bool is_whole = base.elementType() == poplar::INT || base.elementType() == poplar::UNSIGNED_INT;
  const poplar::Type type = is_whole ? poplar::FLOAT : base.elementType();
  const poplar::OptionFlags options = {
      {"usedForSlice", "false"}, {"usedForUpdate", "true"}, {"operationForUpdate", operation}};
  return popops::embedding::plan(graph, type, base.dim(0), base.dim(1), {updates}, options);
}

Tensor Not(Graph& graph, const Tensor& t, Sequence& sequence, const std::string& name) {
  return popops::map(graph, pe::BitwiseNot(pe::_1), {t}, sequence, name);
}

// As integers, in which popops' maximum is StableHLO's; turned around for a minimum. popops' of floats loses
// NaN.
Tensor KeysOf(Graph& graph, const Tensor& t, bool largest, Sequence& sequence, const std::string& name) {
  const bool is_float = t.elementType() == poplar::FLOAT || t.elementType() == poplar::HALF;
  const int nan = largest ? std::numeric_limits<int>::max() : std::numeric_limits<int>::min();
  const Tensor keys = is_float ? InTotalOrder(graph, t, nan, sequence, name) : t;
  return largest ? keys : Not(graph, keys, sequence, name);
}

Tensor FromKeys(Graph& graph, Tensor keys, bool largest, const poplar::Type& type, Sequence& sequence,
                const std::string& name) {
  if (!largest) keys = Not(graph, keys, sequence, name);
  return type == keys.elementType() ? keys : FromTotalOrder(graph, keys, type, sequence, name);
}

// Updates rows [updates, 1, row] of a base [rows, row].
void Update(Graph& graph, const Tensor& base, const Tensor& updates, const Tensor& rows,
            const std::string& operation, Sequence& sequence, const std::string& name) {
  const Shape dims = {0}, sizes = {1};
  const std::size_t count = rows.dim(0);
  if (operation.empty()) {
    const SlicePlan plan = PlanOf(graph, base, count, "none");
    popops::multiUpdate(graph, base, updates, rows, dims, sizes, sequence, plan, {}, name);
  } else if (operation == "add") {
    const SlicePlan plan = PlanOf(graph, base, count, "add");
    const Tensor one = graph.addConstant(base.elementType(), {}, 1, name + "/one");
    graph.setTileMapping(one, 0);
    popops::multiUpdateAdd(graph, base, updates, rows, one, dims, sizes, sequence, plan, {}, name);
  } else if (operation == "multiply") {
    const SlicePlan plan = PlanOf(graph, base, count, "mul");
    popops::multiUpdateMul(graph, base, updates, rows, dims, sizes, sequence, plan, {}, name);
  } else {
    const bool largest = operation == "maximum";
    const Tensor keys = KeysOf(graph, base, largest, sequence, name);
    const Tensor given = KeysOf(graph, updates, largest, sequence, name);
    const SlicePlan plan = PlanOf(graph, keys, count, "max");
    popops::multiUpdateMax(graph, keys, given, rows, dims, sizes, sequence, plan, {}, name);
    sequence.add(poplar::program::Copy(FromKeys(graph, keys, largest, base.elementType(), sequence, name),
                                       base, false, name));
  }
}

void Scatter(Graph& graph, const Tensor& operand, const Tensor& indices, const Tensor& updates,
             const std::vector<unsigned>& window_dims, const Shape& inserted, const Batching& batching,
             std::vector<unsigned> index_map, std::size_t index_vector_dim,
             const std::vector<std::int64_t>& wraps, const std::string& operation, Sequence& sequence,
             const std::string& name) {
  const auto has = [](const auto& list, std::size_t d) {
    return std::find(list.begin(), list.end(), d) != list.end();
  };
  std::vector<Tensor> components =
      ComponentsOf(graph, indices, index_vector_dim, index_map.size(), batching, name);
  for (Tensor& component : components) component = component.flatten();
  for (const auto& [dim, of_indices] : batching) index_map.push_back(dim);

  // Of the operand: the dimensions of the positions in front, then those of a window.
  Tensor base = operand;
  std::vector<unsigned> order = index_map;
  Shape sizes;
  for (const unsigned d : index_map) sizes.push_back(operand.dim(d));
  const auto is_batching = [&](unsigned d) {
    return std::any_of(batching.begin(), batching.end(), [d](const auto& pair) { return pair.first == d; });
  };
  std::size_t window = 0;
  for (unsigned d = 0; d < operand.rank(); ++d) {
    const bool one = has(inserted, d) || is_batching(d);
    const std::size_t size = one ? 1 : updates.dim(window_dims.at(window++));
    if (has(index_map, d)) continue;
    base = base.slice(0, size, d);
    order.push_back(d);
  }
  base = base.dimShuffle(order);
  const std::size_t rows = Product(sizes), row = base.numElements() / rows;

  std::vector<unsigned> front;
  for (unsigned d = 0; d < updates.rank(); ++d) {
    if (!has(window_dims, d)) front.push_back(d);
  }
  front.insert(front.end(), window_dims.begin(), window_dims.end());
  const std::size_t count = updates.numElements() / row;

  const Tensor at = RowsOf(graph, components, wraps, sizes, sequence, name);
  Update(graph, base.reshape({rows, row}), updates.dimShuffle(front).reshape({count, 1, row}),
         at.reshape({count, 1}), operation, sequence, name);
}

}  // namespace

void BindScatter(nb::module_& module) { module.def("scatter", &Scatter); }

}  // namespace jax_ipu::poplibs
