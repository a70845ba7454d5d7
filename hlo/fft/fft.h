// Fourier transforms as vertices.
#ifndef HLO_FFT_FFT_H_
#define HLO_FFT_FFT_H_

#include <vector>

#include "hlo/Fft.hpp"
#include "hlo/Plan.hpp"
#include "poplar/Graph.hpp"

namespace hlo {

// As Expansions::fft.
void expandFft(poplar::Graph& graph, const poplar::Tensor& operand, FftType type,
               const std::vector<std::size_t>& lengths, const poplar::Tensor& out, const Plan& plan,
               poplar::program::Sequence& prog, const poplar::DebugContext& debugContext);

}  // namespace hlo

#endif  // HLO_FFT_FFT_H_
