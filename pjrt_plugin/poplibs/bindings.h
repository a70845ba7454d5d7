// What the files of the module _poplibs share.
#ifndef JAX_IPU_POPLIBS_BINDINGS_H_
#define JAX_IPU_POPLIBS_BINDINGS_H_

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplin/Convolution.hpp>
#include <poplin/MatMul.hpp>
#include <string>
#include <tuple>
#include <vector>

namespace jax_ipu::poplibs {

namespace nb = nanobind;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;
using Shape = std::vector<std::size_t>;
using Options = std::map<std::string, std::string>;

// Keeps plans, so that equal products and convolutions are planned once.
struct PlanningCache {
  poplin::matmul::PlanningCache products;
  poplin::PlanningCache convolutions;
  // What product.cc found out about forward products: by their types, shapes and options.
  std::map<std::tuple<std::string, std::string, Shape, Shape, Options>, bool> reads_too_early;
};

// Throws Lacks for a type that PopLibs' vertices have not.
poplar::Type TypeNamed(const std::string& name);
poplar::OptionFlags FlagsOf(const Options& options);

// Dimensions of an operand that its indices have, too: (of the operand, of the indices).
using Batching = std::vector<std::pair<unsigned, unsigned>>;

// The components of the indices of a gather or scatter, each without the dimension of the components or with
// 1 there: those that it has, then one for each batching dimension, which is constant.
std::vector<Tensor> ComponentsOf(Graph& graph, const Tensor& indices, std::size_t index_vector_dim,
                                 std::size_t count, const Batching& batching, const std::string& name);

void BindConvolution(nb::module_& module);
void BindIndex(nb::module_& module);
void BindLinearAlgebra(nb::module_& module);
void BindPooling(nb::module_& module);
void BindProduct(nb::module_& module);
void BindReduction(nb::module_& module);
void BindScatter(nb::module_& module);
void BindTopK(nb::module_& module);

}  // namespace jax_ipu::poplibs

#endif  // JAX_IPU_POPLIBS_BINDINGS_H_
