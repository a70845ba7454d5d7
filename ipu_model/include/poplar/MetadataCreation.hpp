// Tensors of one QUARTER_METADATA, on tile 0. Source: the uses in PopLibs.
#ifndef POPLAR_METADATACREATION_HPP
#define POPLAR_METADATACREATION_HPP

#include "poplar/DebugContext.hpp"
#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"
#include "poplar/Quarter.hpp"
#include "poplar/Tensor.hpp"

namespace poplar {

Tensor createConstantMetadataTensor(Graph& graph, QuarterMetadata::Format format, int scale,
                                    const DebugContext& debugContext = {});
// A variable with this initial value.
Tensor createVariableMetadataTensor(Graph& graph, QuarterMetadata::Format format, int scale,
                                    const DebugContext& debugContext = {});
// A variable that `prog` gives the scale that it finds in `scale`, one SIGNED_CHAR in [-32, 31].
Tensor createVariableMetadataTensor(Graph& graph, QuarterMetadata::Format format, const Tensor& scale,
                                    program::Sequence& prog, const DebugContext& debugContext = {});

}  // namespace poplar

#endif  // POPLAR_METADATACREATION_HPP
