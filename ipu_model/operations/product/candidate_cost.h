// What one product costs with a plan that the planner of matrix products considers.
#ifndef IPU_MODEL_OPERATIONS_PRODUCT_CANDIDATE_COST_H_
#define IPU_MODEL_OPERATIONS_PRODUCT_CANDIDATE_COST_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/host/integer_division.h"
#include "operations/product/matmul_plan.h"
#include "operations/product/product_cost.h"

namespace ipu_model {

// How the four dimensions are cut and placed.
struct ProductCandidate {
  std::array<std::int64_t, 4> parts, stride;
  std::int64_t first_tile = 0;
  bool rows_in_units = true;  // PopLibs: swapOperands
};

// The costs of candidates for the products of one problem, which must outlive it.
class CandidateCost {
 public:
  CandidateCost(const TargetModel& target, unsigned num_tiles, const MatMulProblem& problem,
                DType partial_type);

  static constexpr double kNotInOrder = -1;
  struct Operand {
    double bytes;  // of one tile's block
    double held;   // fraction, or kNotInOrder
    bool shared;
    bool InOrder() const { return held != kNotInOrder; }
    double Received() const { return bytes * (1 - std::max(0.0, held)); }
    // The most that a step may receive: what the tile holds may belong to other steps (PopLibs counts all).
    double InStep() const { return held >= 1 ? 0 : bytes; }
  };

  // The destination of a result that is not computed in place.
  struct Destination {
    std::int64_t elements = 0;  // on one tile; 0 if it is computed in place
  };

  // The cost of one product: `out` rows and columns, summed over `depth`, with the candidate's parts.
  struct Product {
    double cycles, temporary_bytes;
    double received;  // bytes on one tile
    MatMulDim output_dim = kColumnDim;
    std::int64_t output_steps = 1, depth_steps = 1, stage_sums = 1;
    bool keeps_operand = false;
  };
  // `give_up`: from so many cycles on, a product that needs too much memory is not cut into steps.
  Product Cost(const ProductCandidate& c, MatMulDim row, MatMulDim column, MatMulDim depth, const Operand& a,
               const Operand& b, const Destination& destination, double give_up) const;

  // Returns the fraction of its block of an operand [row, column] that a tile holds before the exchange, or
  // kNotInOrder if the operand's mapping is not the candidate's.
  double Held(const ProductCandidate& c, const OperandMapping& mapping, bool follows_plan, MatMulDim row,
              MatMulDim column, MatMulDim other) const;
  // Cycles of one superstep of products.
  double StepCycles(DType operand, ProductBlock block, bool rows_in_units) const;
  // Cycles of one superstep that adds `terms` partial sums of `elements` elements on a tile.
  double SumStageCycles(std::int64_t terms, std::int64_t elements) const;

  std::int64_t Block(const ProductCandidate& c, MatMulDim d) const {
    return CeilDivide(extents_[d], c.parts[d]);
  }
  // Whether neighbours that share a bus have the parts of a dimension, and so use the same block.
  static bool Shares(const ProductCandidate& c, MatMulDim d, unsigned tiles_per_bus) {
    return c.stride[d] == 1 && c.parts[d] % tiles_per_bus == 0;
  }

  const std::array<std::int64_t, 4>& extents() const { return extents_; }
  // Of a tile's memory, for temporaries.
  double limit() const { return limit_; }

 private:
  // What CutIntoSteps needs to know of a product: the cycles of moving the result and of adding its partial
  // sums, in the stages of the product and in one.
  struct Uncut {
    const Operand &a, &b;
    double moved, sums, one_stage;
  };

  struct Steps {
    std::int64_t outputs, depth;
    bool keeps_operand;
  };

  // Whether the tiles that use a block of an operand [row, column] can each hold a part of it; see
  // RhsGrid.
  bool CanShare(const ProductCandidate& c, MatMulDim row, MatMulDim column, MatMulDim other) const;
  // Cuts a product that needs too much memory into steps over the outputs in the AMP and over the depth, as
  // PopLibs does: those that take the fewest cycles within the limit, or the least memory if none is.
  void CutIntoSteps(const ProductCandidate& c, const ProductBlock& block, std::int64_t parts,
                    const Uncut& uncut, Product* product) const;
  // The product `one` in steps. A step over the outputs receives the other operand anew, unless it is kept; a
  // step over the depth adds to partial sums that stay live.
  Product InSteps(const ProductCandidate& c, const ProductBlock& block, std::int64_t parts,
                  const Uncut& uncut, const Product& one, const Steps& steps) const;
  // The most elements of a block of sums [row, column] on one of `cuts` tiles, which share it in whole rows
  // or columns; see ShareBlocks. `factorise`: a dimension may be split into two.
  std::int64_t LargestShare(const ProductCandidate& c, MatMulDim row, MatMulDim column, bool factorise,
                            std::int64_t elements, std::int64_t cuts) const;
  // Cycles to exchange and add partial sums, in one or two stages.
  double SumCost(const ProductCandidate& c, MatMulDim row, MatMulDim column, const ProductBlock& block,
                 std::int64_t partials, bool two_stages, std::int64_t* stage_sums) const;
  double PartialBytes(const ProductBlock& block) const;
  double OperandBytes() const;

  const TargetModel& target_;
  const MatMulProblem& p_;
  std::array<std::int64_t, 4> extents_;
  DType partial_type_;
  double limit_;
  bool operands_fit_;  // if false, no number of steps helps
};

}  // namespace ipu_model

#endif  // IPU_MODEL_OPERATIONS_PRODUCT_CANDIDATE_COST_H_
