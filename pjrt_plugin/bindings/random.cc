// Python: random bits.
//
//   rng_bit_generator(graph, algorithm, state, dtype, shape, seq, name="") -> (new_state, bits)
//     algorithm "THREE_FRY", "PHILOX" or "DEFAULT" (Philox, as XLA:CPU); state 1-D, 16 bytes (24: Philox
//     only)
#include "hlo/Random.hpp"

#include <stdexcept>

#include "bindings/bindings.h"

namespace jax_ipu::bindings {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;
using Sizes = std::vector<std::size_t>;

std::pair<Tensor, Tensor> RngBitGenerator(Graph& graph, const std::string& algorithm, const Tensor& state,
                                          const std::string& dtype, const Sizes& shape, Sequence& sequence,
                                          const std::string& name) {
  using hlo::RandomAlgorithm;
  if (algorithm != "THREE_FRY" && algorithm != "PHILOX" && algorithm != "DEFAULT") {
    throw std::invalid_argument("unknown random algorithm '" + algorithm + "'");
  }
  return hlo::rngBitGenerator(
      graph, algorithm == "THREE_FRY" ? RandomAlgorithm::kThreeFry : RandomAlgorithm::kPhilox, state,
      TypeNamed(dtype), shape, sequence, name);
}

}  // namespace

void BindRandom(nb::module_& module) {
  module.def("rng_bit_generator", RngBitGenerator, nb::arg("graph"), nb::arg("algorithm"), nb::arg("state"),
             nb::arg("dtype"), nb::arg("shape"), nb::arg("seq"), nb::arg("name") = "");
}

}  // namespace jax_ipu::bindings
