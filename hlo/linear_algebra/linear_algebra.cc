#include "linear_algebra/linear_algebra.h"

#include <functional>
#include <utility>

#include "codelets.h"
#include "grid.h"
#include "hlo/Cost.hpp"
#include "storage.h"

namespace hlo {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;
using poplar::program::Sequence;

// What all steps of one function share.
class Steps {
 public:
  Steps(Graph& graph, DType type, const Grid& grid, const char* function, Sequence& prog,
        const poplar::DebugContext& debugContext)
      : graph_(graph), type_(type), grid_(grid), prog_(prog), debugContext_(debugContext) {
    stored_ = singleAs(type, function);
    addCodelets(graph, vertexClass("CopyMatrix"), kLinearAlgebraCodelets);
    blocks_ = blocksOf(grid, graph.getTarget().getNumTiles());
  }

  Tensor stored(const Tensor& tensor) const { return tensor.reinterpret(stored_); }
  Tensor newVariable(const char* name) { return variableOn(graph_, grid_, stored_, {debugContext_, name}); }
  const std::vector<Block>& blocks() const { return blocks_; }
  const Grid& grid() const { return grid_; }
  std::size_t rows() const { return grid_.shape.size() - 2; }
  std::size_t columns() const { return grid_.shape.size() - 1; }
  std::size_t row(const Block& block) const { return block.index[rows()]; }
  std::size_t column(const Block& block) const { return block.index[columns()]; }

  // A superstep: between begin and end, a vertex for each call of add.
  void begin(const char* name) { computeSet_ = graph_.addComputeSet({debugContext_, name}); }
  VertexRef add(const char* name, const Block& block, std::uint64_t cycles) {
    return addVertex(graph_, computeSet_, vertexClass(name), block.part, cycles);
  }
  const poplar::Target& target() const { return graph_.getTarget(); }
  DType type() const { return type_; }
  void end() { prog_.add(poplar::program::Execute(computeSet_, debugContext_)); }

  void connect(const VertexRef& vertex, const char* field, const Tensor& tensor, const Part& part) {
    graph_.connect(vertex[field], part.of(tensor));
  }
  template <typename T>
  void set(const VertexRef& vertex, const char* field, T value) {
    graph_.setInitialValue(vertex[field], value);
  }
  void setShape(const VertexRef& vertex, const Part& part) {
    set(vertex, "rows", part.end[rows()] - part.begin[rows()]);
    set(vertex, "columns", part.end[columns()] - part.begin[columns()]);
  }

  // The part of the matrices of `part` with rows [r0, r1) and columns [c0, c1).
  Part region(Part part, std::size_t r0, std::size_t r1, std::size_t c0, std::size_t c1) const {
    part.begin[rows()] = r0;
    part.end[rows()] = r1;
    part.begin[columns()] = c0;
    part.end[columns()] = c1;
    return part;
  }
  Part mirrored(Part part) const {
    std::swap(part.begin[rows()], part.begin[columns()]);
    std::swap(part.end[rows()], part.end[columns()]);
    return part;
  }

  // The fields of a system for the right-hand sides in `part`.
  void setSystem(const VertexRef& vertex, const TriangularOptions& options, const Part& part) {
    const std::size_t r = part.end[rows()] - part.begin[rows()],
                      c = part.end[columns()] - part.begin[columns()];
    // X op(a) = b is op(a)^T X^T = b^T: the matrix is transposed once for the side and once for op.
    const bool transposed = options.left_side == (options.transpose != Transpose::kNone);
    set(vertex, "equations", options.left_side ? r : c);
    set(vertex, "rightSides", options.left_side ? c : r);
    set(vertex, "left", options.left_side);
    set(vertex, "transposed", transposed);
    set(vertex, "isConjugate", options.transpose == Transpose::kAdjoint);
    set(vertex, "backward", options.lower == transposed);
    set(vertex, "unitDiagonal", options.unit_diagonal);
  }

 private:
  std::string vertexClass(const char* name) const {
    return std::string("hlo::") + name + "<" + cppName(stored_) + ">";
  }

  Graph& graph_;
  DType type_;
  const Grid& grid_;
  Sequence& prog_;
  const poplar::DebugContext& debugContext_;
  poplar::Type stored_;
  std::vector<Block> blocks_;
  poplar::ComputeSet computeSet_;
};

void copyBlocks(Steps* steps, const char* name, const Tensor& from, const Tensor& to) {
  steps->begin(name);
  for (const Block& block : steps->blocks()) {
    const VertexRef vertex = steps->add(
        "CopyMatrix", block, copyMatrixCycles(steps->target(), steps->type(), block.part.elements()));
    steps->connect(vertex, "from", from, block.part);
    steps->connect(vertex, "to", to, block.part);
    steps->setShape(vertex, block.part);
  }
  steps->end();
}

}  // namespace

void expandTriangularSolve(Graph& graph, const Tensor& a, const Tensor& b, const Tensor& out, bool inPlace,
                           const TriangularOptions& options, const Grid& grid, Sequence& prog,
                           const poplar::DebugContext& debugContext) {
  Steps steps(graph, DTypeOf(a.elementType()), grid, "triangular_solve", prog, debugContext);
  const Tensor matrix = steps.stored(a), right = steps.stored(b), result = steps.stored(out);
  const bool left = options.left_side, transposed = options.transpose != Transpose::kNone,
             forward = left == (options.lower != transposed);
  const std::size_t dimension = left ? steps.rows() : steps.columns(), count = grid.parts[dimension],
                    m = grid.shape[dimension];
  if (count == 1) {
    const std::size_t sides = left ? steps.columns() : steps.rows();
    steps.begin("solve");
    for (const Block& block : steps.blocks()) {
      const VertexRef vertex =
          steps.add(inPlace ? "TriangularSolveInPlace" : "TriangularSolve", block,
                    triangularSolveCycles(steps.target(), steps.type(), block.part.elements(), m, forward,
                                          block.part.end[sides] - block.part.begin[sides], left));
      steps.connect(vertex, "a", matrix, steps.region(block.part, 0, m, 0, m));
      if (!inPlace) steps.connect(vertex, "b", right, block.part);
      steps.connect(vertex, "x", result, block.part);
      steps.setSystem(vertex, options, block.part);
    }
    steps.end();
    return;
  }

  // Solves with a block on the diagonal, then subtracts its part from the remaining blocks.
  const Tensor work = steps.newVariable("work");
  copyBlocks(&steps, "load", right, work);
  for (std::size_t step = 0; step < count; ++step) {
    const std::size_t k = forward ? step : count - 1 - step;
    const std::size_t k0 = beginOf(grid, dimension, k), k1 = beginOf(grid, dimension, k + 1);
    steps.begin("solve");
    for (const Block& block : steps.blocks()) {
      if (block.index[dimension] != k) continue;
      const std::size_t elements = block.part.elements();
      const VertexRef vertex = steps.add("TriangularSolveInPlace", block,
                                         triangularSolveCycles(steps.target(), steps.type(), elements,
                                                               k1 - k0, forward, elements / (k1 - k0), left));
      steps.connect(vertex, "a", matrix, steps.region(block.part, k0, k1, k0, k1));
      steps.connect(vertex, "x", work, block.part);
      steps.setSystem(vertex, options, block.part);
    }
    steps.end();
    if (step + 1 == count) break;
    steps.begin("update");
    for (const Block& block : steps.blocks()) {
      const std::size_t own = block.index[dimension];
      if (forward ? own <= k : own >= k) continue;
      const std::size_t j0 = block.part.begin[dimension], j1 = block.part.end[dimension];
      const VertexRef vertex =
          steps.add("SubtractProduct", block,
                    subtractProductCycles(steps.target(), steps.type(), block.part.elements(), k1 - k0));
      // op(a) at (own block, k) for the left side, (k, own block) for the right side; transposed in memory if
      // op transposes.
      const Part factor = left != transposed ? steps.region(block.part, j0, j1, k0, k1)
                                             : steps.region(block.part, k0, k1, j0, j1);
      const Part solved = withBlock(grid, block.part, dimension, k);
      const bool conjugate = options.transpose == Transpose::kAdjoint;
      steps.connect(vertex, "c", work, block.part);
      steps.connect(vertex, left ? "p" : "q", matrix, factor);
      steps.connect(vertex, left ? "q" : "p", work, solved);
      steps.setShape(vertex, block.part);
      steps.set(vertex, "inner", k1 - k0);
      steps.set(vertex, "pTransposed", left && transposed);
      steps.set(vertex, "pConjugate", left && conjugate);
      steps.set(vertex, "qTransposed", !left && transposed);
      steps.set(vertex, "qConjugate", !left && conjugate);
    }
    steps.end();
  }
  copyBlocks(&steps, "store", work, result);
}

void expandCholesky(Graph& graph, const Tensor& a, const Tensor& out, bool lower, const Grid& grid,
                    Sequence& prog, const poplar::DebugContext& debugContext) {
  Steps steps(graph, DTypeOf(a.elementType()), grid, "cholesky", prog, debugContext);
  const Tensor matrix = steps.stored(a), result = steps.stored(out);
  const std::size_t n = grid.shape.back(), count = grid.parts.back();
  if (count == 1) {
    steps.begin("factor");
    for (const Block& block : steps.blocks()) {
      const VertexRef vertex = steps.add(
          "Cholesky", block, choleskyCycles(steps.target(), steps.type(), block.part.elements(), n));
      steps.connect(vertex, "in", matrix, block.part);
      steps.connect(vertex, "out", result, block.part);
      steps.set(vertex, "size", n);
      steps.set(vertex, "lower", lower);
    }
    steps.end();
    return;
  }

  // The lower triangle of a, or the adjoint of its upper one, is factorised in blocks.
  const std::size_t width = grid.grain.back();
  const Tensor work = steps.newVariable("work");
  const auto own = [&](const Part& part) { return lower ? part : steps.mirrored(part); };
  steps.begin("load");
  for (const Block& block : steps.blocks()) {
    if (steps.row(block) < steps.column(block)) continue;
    const VertexRef vertex =
        steps.add("CopyMatrix", block, copyMatrixCycles(steps.target(), steps.type(), block.part.elements()));
    steps.connect(vertex, "from", matrix, own(block.part));
    steps.connect(vertex, "to", work, block.part);
    steps.setShape(vertex, block.part);
    steps.set(vertex, "adjoint", !lower);
  }
  steps.end();
  TriangularOptions adjoint;  // b l^-H
  adjoint.left_side = false;
  adjoint.transpose = Transpose::kAdjoint;
  for (std::size_t k = 0; k < count; ++k) {
    steps.begin("factor");
    for (const Block& block : steps.blocks()) {
      if (steps.row(block) != k || steps.column(block) != k) continue;
      const std::size_t size = block.part.end[steps.rows()] - block.part.begin[steps.rows()];
      const VertexRef vertex = steps.add(
          "CholeskyFactor", block, choleskyCycles(steps.target(), steps.type(), block.part.elements(), size));
      steps.connect(vertex, "a", work, block.part);
      steps.set(vertex, "size", size);
    }
    steps.end();
    if (k + 1 == count) break;
    steps.begin("solve");
    for (const Block& block : steps.blocks()) {
      if (steps.row(block) <= k || steps.column(block) != k) continue;
      const VertexRef vertex =
          steps.add("TriangularSolveInPlace", block,
                    triangularSolveCycles(steps.target(), steps.type(), block.part.elements(), width,
                                          /*lower=*/true, block.part.elements() / width, /*left=*/false));
      steps.connect(vertex, "a", work, withBlock(grid, block.part, steps.rows(), k));
      steps.connect(vertex, "x", work, block.part);
      steps.setSystem(vertex, adjoint, block.part);
    }
    steps.end();
    steps.begin("update");
    for (const Block& block : steps.blocks()) {
      if (steps.column(block) <= k || steps.row(block) < steps.column(block)) continue;
      const VertexRef vertex =
          steps.add("SubtractProduct", block,
                    subtractProductCycles(steps.target(), steps.type(), block.part.elements(), width));
      const Part rows = withBlock(grid, block.part, steps.columns(), k);
      steps.connect(vertex, "c", work, block.part);
      steps.connect(vertex, "p", work, rows);
      steps.connect(vertex, "q", work, withBlock(grid, rows, steps.rows(), steps.column(block)));
      steps.setShape(vertex, block.part);
      steps.set(vertex, "inner", rows.end[steps.columns()] - rows.begin[steps.columns()]);
      steps.set(vertex, "qTransposed", true);
      steps.set(vertex, "qConjugate", true);
    }
    steps.end();
  }
  steps.begin("store");
  for (const Block& block : steps.blocks()) {
    const bool kept = steps.row(block) >= steps.column(block);
    const VertexRef vertex =
        steps.add(kept ? "CholeskyStore" : "CholeskyZero", block,
                  choleskyStoreCycles(steps.target(), steps.type(), block.part.elements(), kept));
    const Part to = own(block.part);
    steps.connect(vertex, "last", work, steps.region(block.part, n - 1, n, n - 1, n));
    steps.connect(vertex, "out", result, to);
    if (!kept) continue;
    steps.connect(vertex, "factor", work, block.part);
    steps.setShape(vertex, to);
    steps.set(vertex, "lower", lower);
    steps.set(vertex, "firstRow", to.begin[steps.rows()]);
    steps.set(vertex, "firstColumn", to.begin[steps.columns()]);
  }
  steps.end();
}

}  // namespace hlo
