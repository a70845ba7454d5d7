// Python: matrix products.
#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/bindings.h"
#include "bindings/planning_cache.h"
#include "ipu_model/Model.hpp"
#include "poplin/MatMul.hpp"

namespace jax_ipu::bindings {
namespace {

using TensorShape = std::vector<std::size_t>;

poplar::Tensor MatMulGrouped(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& b,
                             const std::string& out_dtype, poplar::program::Sequence& sequence,
                             const std::string& name, const Options& options,
                             const std::optional<poplar::Tensor>& output_mapping_like, PlanningCache* plans) {
  const poplar::Type type = TypeNamed(out_dtype);
  poplin::matmul::PlanningCache* cache = plans == nullptr ? nullptr : &plans->products;
  if (!output_mapping_like)
    return poplin::matMulGrouped(graph, a, b, sequence, type, name, FlagsOf(options), cache);
  poplar::Tensor out = ipu_model::NewTensorMappedLike(graph, type, *output_mapping_like, name);
  poplin::matMulGroupedWithOutput(graph, a, b, out, sequence, name, FlagsOf(options), cache);
  return out;
}

}  // namespace

void BindProduct(nb::module_& module) {
  nb::class_<PlanningCache>(module, "PlanningCache",
                            "Keeps plans of products and convolutions, so that equal ones are planned once.")
      .def(nb::init<>());
  module.def(
      "mat_mul_grouped", MatMulGrouped, nb::arg("graph"), nb::arg("a"), nb::arg("b"), nb::arg("out_dtype"),
      nb::arg("seq"), nb::arg("name") = "", nb::arg("options") = Options{},
      nb::arg("output_mapping_like") = nb::none(), nb::arg("plans") = nb::none(),
      "a [g, m, k] x b [g, k, n] -> [g, m, n]. The result lies on the tiles of output_mapping_like [g, m, n] "
      "(and in its memory order) where that is given.");
  module.def(
      "create_mat_mul_grouped_input_lhs",
      [](poplar::Graph& graph, const std::string& in_dtype, const std::string& out_dtype,
         const TensorShape& a_shape, const TensorShape& b_shape, const std::string& name,
         const Options& options, PlanningCache* plans) {
        return poplin::createMatMulGroupedInputLHS(graph, TypeNamed(in_dtype), TypeNamed(out_dtype), a_shape,
                                                   b_shape, name, FlagsOf(options),
                                                   plans == nullptr ? nullptr : &plans->products);
      },
      nb::arg("graph"), nb::arg("in_dtype"), nb::arg("out_dtype"), nb::arg("a_shape"), nb::arg("b_shape"),
      nb::arg("name") = "", nb::arg("options") = Options{}, nb::arg("plans") = nb::none(),
      "A new variable of a_shape [g, m, k], mapped as mat_mul_grouped of these shapes reads it.");
  module.def(
      "create_mat_mul_grouped_input_rhs",
      [](poplar::Graph& graph, const std::string& in_dtype, const std::string& out_dtype,
         const TensorShape& a_shape, const TensorShape& b_shape, const std::string& name,
         const Options& options, PlanningCache* plans) {
        return poplin::createMatMulGroupedInputRHS(graph, TypeNamed(in_dtype), TypeNamed(out_dtype), a_shape,
                                                   b_shape, name, FlagsOf(options),
                                                   plans == nullptr ? nullptr : &plans->products);
      },
      nb::arg("graph"), nb::arg("in_dtype"), nb::arg("out_dtype"), nb::arg("a_shape"), nb::arg("b_shape"),
      nb::arg("name") = "", nb::arg("options") = Options{}, nb::arg("plans") = nb::none(),
      "A new variable of b_shape [g, k, n], mapped as mat_mul_grouped of these shapes reads it.");
}

}  // namespace jax_ipu::bindings
