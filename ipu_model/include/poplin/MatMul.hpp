// Matrix multiplication. Names and signatures as in Graphcore's documentation.
#ifndef POPLIN_MATMUL_HPP
#define POPLIN_MATMUL_HPP

#include <cstddef>
#include <memory>
#include <vector>

#include "poplar/DebugContext.hpp"
#include "poplar/Graph.hpp"
#include "poplar/OptionFlags.hpp"
#include "poplar/Program.hpp"
#include "poplar/Tensor.hpp"

namespace poplin {

namespace matmul {

// Keeps plans by shapes, types, options and the operands' tile mappings, so that equal products are planned
// once.
// Copies share their contents. Not thread safe.
class PlanningCache {
 public:
  PlanningCache();
  std::size_t size() const;

  struct Plans;  // operations/product/poplin_matmul.cc
  Plans& plans() const { return *plans_; }

 private:
  std::shared_ptr<Plans> plans_;
};

}  // namespace matmul

// Options, all optional; another name or value throws poplar::invalid_option:
//
//   availableMemoryProportion   the share of tile memory for temporaries, in (0, 1]; default 0.6
//   partialsType                type of partial sums of half products, "half" or "float"; default "float"
//   use128BitConvUnitLoad       whether weights are loaded 128 bits at a time; default "false"
//   enableMultiStageReduce      whether partial sums may be added in two stages; default "true"
//   fullyConnectedPass          "NONE" (default), "INFERENCE_FWD", "TRAINING_FWD", "TRAINING_BWD" or
//                               "TRAINING_WU"; TRAINING_FWD plans the three products of a training step
//                               together
//   enableFastReduce, remapOutputTensor, inputRHSIsPreArranged
//                               accepted: they choose between codelets or copies that the model does not
//                               distinguish
//
// Operands are those of the grouped form below with one group; all functions throw the same exceptions.

// [m, k] x [k, n] -> [m, n]. A vector is not a matrix: reshape it first.
poplar::Tensor matMul(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,
                      poplar::program::Sequence& prog, const poplar::Type& outputType,
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {},
                      matmul::PlanningCache* cache = nullptr);
// The result has the type of A.
poplar::Tensor matMul(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,
                      poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                      const poplar::OptionFlags& options = {}, matmul::PlanningCache* cache = nullptr);
// Writes the result to C; the plan follows C's tile mapping.
void matMulWithOutput(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,
                      poplar::Tensor& C, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {},
                      matmul::PlanningCache* cache = nullptr);

// [g, m, k] x [g, k, n] -> [g, m, n]. Operands may have any strides and different types; floats are summed in
// f32 (f64, c64 or c128 if an operand has it), integers wrap, "pred" is or-and. Throws poplar::poplar_error
// that names the shapes or types when they do not fit.
poplar::Tensor matMulGrouped(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,
                             poplar::program::Sequence& prog, const poplar::Type& outputType,
                             const poplar::DebugContext& debugContext = {},
                             const poplar::OptionFlags& options = {}, matmul::PlanningCache* cache = nullptr);
void matMulGroupedWithOutput(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,
                             poplar::Tensor& C, poplar::program::Sequence& prog,
                             const poplar::DebugContext& debugContext = {},
                             const poplar::OptionFlags& options = {}, matmul::PlanningCache* cache = nullptr);

// New operands, mapped to tiles as the plan for these shapes reads them.
poplar::Tensor createMatMulInputLHS(poplar::Graph& graph, const poplar::Type& inputType,
                                    const poplar::Type& outputType, const std::vector<std::size_t>& aShape,
                                    const std::vector<std::size_t>& bShape,
                                    const poplar::DebugContext& debugContext = {},
                                    const poplar::OptionFlags& options = {},
                                    matmul::PlanningCache* cache = nullptr);
poplar::Tensor createMatMulInputRHS(poplar::Graph& graph, const poplar::Type& inputType,
                                    const poplar::Type& outputType, const std::vector<std::size_t>& aShape,
                                    const std::vector<std::size_t>& bShape,
                                    const poplar::DebugContext& debugContext = {},
                                    const poplar::OptionFlags& options = {},
                                    matmul::PlanningCache* cache = nullptr);
poplar::Tensor createMatMulGroupedInputLHS(poplar::Graph& graph, const poplar::Type& inputType,
                                           const poplar::Type& outputType,
                                           const std::vector<std::size_t>& aShape,
                                           const std::vector<std::size_t>& bShape,
                                           const poplar::DebugContext& debugContext = {},
                                           const poplar::OptionFlags& options = {},
                                           matmul::PlanningCache* cache = nullptr);
poplar::Tensor createMatMulGroupedInputRHS(poplar::Graph& graph, const poplar::Type& inputType,
                                           const poplar::Type& outputType,
                                           const std::vector<std::size_t>& aShape,
                                           const std::vector<std::size_t>& bShape,
                                           const poplar::DebugContext& debugContext = {},
                                           const poplar::OptionFlags& options = {},
                                           matmul::PlanningCache* cache = nullptr);

// [g, m, n] -> [g, n, m], a view.
poplar::Tensor transposeGroupedMatrix(const poplar::Tensor& A);

}  // namespace poplin

#endif  // POPLIN_MATMUL_HPP
