// Convolution in StableHLO's general form. Source: the StableHLO specification, convolution. All functions
// throw poplar::poplar_error when operands and parameters do not fit, poplar::invalid_option for other
// options.
#ifndef HLO_CONVOLUTION_HPP
#define HLO_CONVOLUTION_HPP

#include <cstdint>
#include <memory>
#include <vector>

#include "hlo/ConvolutionGeometry.hpp"
#include "poplar/Graph.hpp"
#include "poplar/OptionFlags.hpp"

namespace hlo {

// stablehlo.convolution on operands viewed as lhs [N, C, *spatial] and rhs [O, C / feature groups, *spatial].
// `geometry` holds everything except the high padding, which may be negative like the low padding.
struct ConvolutionParameters {
  ConvolutionGeometry geometry;
  std::vector<std::int64_t> paddingHigh;
  poplar::Type outputType;
};

// Keeps the splits of convolutions, so that equal ones are planned once: a convolution and its operands, and
// equal layers. Copies share their contents. Not thread safe.
class ConvolutionPlans {
 public:
  ConvolutionPlans();
  std::size_t size() const;

  struct Splits;  // operations/convolution/convolution.cc
  Splits& splits() const { return *splits_; }

 private:
  std::shared_ptr<Splits> splits_;
};

// The shape [N / batch groups, O, *spatial] of the result. Throws poplar_error when the operands do not fit.
std::vector<std::size_t> convolutionOutputShape(const std::vector<std::size_t>& lhs,
                                                const std::vector<std::size_t>& rhs,
                                                const ConvolutionParameters& params);

// Result [N / batch groups, O, *spatial]; `outputLayout` lists its dimensions from major to minor in memory.
// Option availableMemoryProportion (default 0.6): the share of a tile's memory for one tile's operands.
// `outputMappingLike`, if valid, has the result's shape; the result then has its memory order and its tile
// mapping (a weight's gradient stays where the weight lives).
poplar::Tensor convolution(poplar::Graph& graph, const poplar::Tensor& lhs, const poplar::Tensor& rhs,
                           const ConvolutionParameters& params, const std::vector<std::int64_t>& outputLayout,
                           poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                           const poplar::OptionFlags& options = {},
                           const poplar::Tensor& outputMappingLike = {}, ConvolutionPlans* plans = nullptr);

// A new variable for the lhs or the rhs, with dimensions `layout` from major to minor in memory, mapped as
// the convolution reads it. Returned in the shape that convolution() takes.
poplar::Tensor createConvolutionInput(
    poplar::Graph& graph, const poplar::Type& type, const std::vector<std::size_t>& lhs,
    const std::vector<std::size_t>& rhs, const ConvolutionParameters& params,
    const std::vector<std::int64_t>& layout, const poplar::DebugContext& debugContext = {},
    const poplar::OptionFlags& options = {}, ConvolutionPlans* plans = nullptr);
poplar::Tensor createConvolutionWeights(
    poplar::Graph& graph, const poplar::Type& type, const std::vector<std::size_t>& lhs,
    const std::vector<std::size_t>& rhs, const ConvolutionParameters& params,
    const std::vector<std::int64_t>& layout, const poplar::DebugContext& debugContext = {},
    const poplar::OptionFlags& options = {}, ConvolutionPlans* plans = nullptr);

}  // namespace hlo

#endif  // HLO_CONVOLUTION_HPP
