// Python: random bits.
//
//   rng_bit_generator(graph, algorithm, state, dtype, shape, seq, name="") -> (new_state, bits)
//     algorithm "THREE_FRY", "PHILOX" or "DEFAULT" (Philox, as XLA:CPU); state 1-D, 16 bytes (24: Philox
//     only)
//   threefry2x32(graph, key, starts, strides, counters, outs, seq, name="")
//     JAX's threefry2x32. key: two tensors; starts, strides: of both words of the counter; counters: for each
//     word the tensor that is added to it, or None; outs: one result (exclusive or of the words; 64 bits: the
//     first word above the second) or two (the words)
#include "hlo/Random.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>

#include <array>
#include <optional>
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

void Threefry2x32(Graph& graph, const std::array<Tensor, 2>& key, const std::array<std::uint32_t, 2>& starts,
                  const std::array<std::vector<std::uint32_t>, 2>& strides,
                  const std::array<std::optional<Tensor>, 2>& counters, const std::vector<Tensor>& outs,
                  Sequence& sequence, const std::string& name) {
  std::array<hlo::CounterWord, 2> words;
  std::vector<Tensor> tensors;
  for (std::size_t w = 0; w < 2; ++w) {
    words[w] = {counters[w].has_value(), starts[w], strides[w]};
    if (counters[w]) tensors.push_back(*counters[w]);
  }
  hlo::threefry2x32(graph, key, words, tensors, outs, sequence, name);
}

}  // namespace

void BindRandom(nb::module_& module) {
  module.def("rng_bit_generator", RngBitGenerator, nb::arg("graph"), nb::arg("algorithm"), nb::arg("state"),
             nb::arg("dtype"), nb::arg("shape"), nb::arg("seq"), nb::arg("name") = "");
  module.def("threefry2x32", Threefry2x32, nb::arg("graph"), nb::arg("key"), nb::arg("starts"),
             nb::arg("strides"), nb::arg("counters"), nb::arg("outs"), nb::arg("seq"), nb::arg("name") = "");
}

}  // namespace jax_ipu::bindings
