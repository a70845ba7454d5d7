// Tensors of QUARTER_METADATA.
#include "poplar/MetadataCreation.hpp"
#include "poplar/exceptions.hpp"
#include "popops/ElementWise.hpp"

namespace poplar {

Tensor createConstantMetadataTensor(Graph& graph, QuarterMetadata::Format format, int scale,
                                    const DebugContext& debugContext) {
  const Tensor metadata =
      graph.addConstant(QUARTER_METADATA, {1}, QuarterMetadata(format, scale).getBinary(), debugContext);
  graph.setTileMapping(metadata, 0);
  return metadata;
}

Tensor createVariableMetadataTensor(Graph& graph, QuarterMetadata::Format format, int scale,
                                    const DebugContext& debugContext) {
  const Tensor metadata = graph.addVariable(QUARTER_METADATA, {1}, debugContext);
  graph.setTileMapping(metadata, 0);
  graph.setInitialValue(metadata, QuarterMetadata(format, scale).getBinary());
  return metadata;
}

Tensor createVariableMetadataTensor(Graph& graph, QuarterMetadata::Format format, const Tensor& scale,
                                    program::Sequence& prog, const DebugContext& debugContext) {
  if (scale.numElements() != 1 || scale.elementType() != SIGNED_CHAR) {
    throw poplar_error("createVariableMetadataTensor: the scale is one signed char, not " +
                       scale.elementType().toString() + scale.shapeToString());
  }
  const Tensor metadata = graph.addVariable(QUARTER_METADATA, {1}, debugContext);
  graph.setTileMapping(metadata, 0);
  // The byte is that of QuarterMetadata::getBinary.
  namespace pe = popops::expr;
  const unsigned char scale_bits = 0x3f;
  const unsigned char format_bit = QuarterMetadata(format, 0).getBinary();
  const auto bits = pe::BitwiseOr(pe::BitwiseAnd(pe::_1, pe::Const(scale_bits)), pe::Const(format_bit));
  popops::mapWithOutput(graph, bits, {scale.flatten().reinterpret(UNSIGNED_CHAR)},
                        metadata.reinterpret(UNSIGNED_CHAR), prog, {debugContext, "metadata"});
  return metadata;
}

}  // namespace poplar
