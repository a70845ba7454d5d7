// StableHLO fft, which PopLibs has no function for. Source: the StableHLO specification, fft.
#ifndef HLO_FFT_HPP
#define HLO_FFT_HPP

#include <cstddef>
#include <cstdint>
#include <vector>

#include "poplar/Graph.hpp"

namespace hlo {

// Written to executables: append only.
enum class FftType : std::uint8_t { kFft = 0, kIfft, kRfft, kIrfft, kCount };

// Transforms the last lengths.size() dimensions. fft and ifft: c64 or c128 of sizes `lengths`; rfft: f32 or
// f64 of sizes `lengths`, and the result's last size is lengths.back() / 2 + 1; irfft is the inverse of rfft.
// Inverses are scaled by 1 / product of lengths. `flops` are counted for it; if negative, as XLA does. Throws
// poplar::poplar_error when shapes or types do not fit.
poplar::Tensor fft(poplar::Graph& graph, const poplar::Tensor& operand, FftType type,
                   const std::vector<std::size_t>& lengths, poplar::program::Sequence& prog,
                   const poplar::DebugContext& debugContext = {}, double flops = -1);

}  // namespace hlo

#endif  // HLO_FFT_HPP
