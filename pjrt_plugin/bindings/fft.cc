// Python: discrete Fourier transforms.
//
//   fft(graph, operand, type, lengths, seq, name="", flops=-1) -> Tensor    type "FFT", "IFFT", "RFFT" or
//   "IRFFT"
#include "hlo/Fft.hpp"

#include <stdexcept>

#include "bindings/bindings.h"

namespace jax_ipu::bindings {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;
using Sizes = std::vector<std::size_t>;

Tensor Fft(Graph& graph, const Tensor& operand, const std::string& type, const Sizes& lengths,
           Sequence& sequence, const std::string& name, double flops) {
  const std::map<std::string, hlo::FftType> types = {{"FFT", hlo::FftType::kFft},
                                                     {"IFFT", hlo::FftType::kIfft},
                                                     {"RFFT", hlo::FftType::kRfft},
                                                     {"IRFFT", hlo::FftType::kIrfft}};
  const auto found = types.find(type);
  if (found == types.end()) throw std::invalid_argument("unknown fft type '" + type + "'");
  return hlo::fft(graph, operand, found->second, lengths, sequence, name, flops);
}

}  // namespace

void BindFft(nb::module_& module) {
  module.def("fft", Fft, nb::arg("graph"), nb::arg("operand"), nb::arg("type"), nb::arg("lengths"),
             nb::arg("seq"), nb::arg("name") = "", nb::arg("flops") = -1.0);
}

}  // namespace jax_ipu::bindings
