// The functions of hlo/ as programs of vertices, for a device that has no kernel for them. The library hlo,
// beside the model, implements them with codelets in C++ and nothing but the public API; on the model a host
// kernel stands in for them unless an engine is asked to run them (RunExpansions).
#ifndef HLO_EXPANSION_HPP
#define HLO_EXPANSION_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "hlo/Expression.hpp"
#include "hlo/Fft.hpp"
#include "hlo/Plan.hpp"
#include "hlo/RandomAlgorithm.hpp"
#include "hlo/TriangularOptions.hpp"
#include "hlo/TwoSidedForm.hpp"
#include "hlo/WindowDims.hpp"
#include "hlo/WindowGeometry.hpp"
#include "poplar/Graph.hpp"

namespace poplar {
class Engine;
}

namespace hlo {

// Blocks of a tensor: dimension d has ceil(shape[d] / grain[d]) grains, and block p of its parts[d] begins at
// grain p * grains / parts[d]. Blocks are on the tiles 0, 1, ... in row-major order, again and again.
struct Grid {
  std::vector<std::size_t> shape, parts, grain;
};

// A dimension of an operand of which each tile has a part; part p begins at begins[p].
struct GatherSplit {
  unsigned dimension;
  std::vector<std::size_t> begins;
};
// A table that passes by the indices in rounds (ipu_model/operations/index/gather_rounds.h). Part p of its
// rows begins at rowBegins[p], and the last ends at its end. In each trip every part sends 2^blockShift rows.
// 2^groupShift parts are a group; share j of the vertices looks in groups j, j + shares, ..., `steps` of them
// in each trip, and its blocks are numbered as they come, `buckets` of all trips. An entry has the place of
// an index in its low `placeBits`.
struct GatherRounds {
  std::vector<std::size_t> rowBegins;
  unsigned blockShift = 0, groupShift = 0, placeBits = 0, shares = 1, steps = 1, buckets = 1;
  std::int64_t wrap = 0;  // of a negative index
  unsigned limit = 0;     // the largest row
  bool drops = false;     // whether indices outside are left out, not clamped
};
// Vertices look up windows; their boxes have the operand's dimensions, then the batch dimensions. If
// dimensions are split, the results are partial, with leading dimensions for the parts, and other vertices
// pick from them.
struct GatherPlan {
  Plan plan;
  std::vector<GatherSplit> splits;
  std::optional<GatherRounds> rounds;
};

// A digit of the start of a long slice, in units of `weight`. The weight of the digit before is `above`.
struct SliceDigit {
  std::size_t dimension, weight, above;
};
// Each superstep shifts by one digit, or a part of the elements by it. Vertices read what their elements come
// from for each value of the digit, and have boxes of the results.
struct LongSlicePlan {
  Plan plan;
  std::vector<SliceDigit> digits;  // by superstep
};

// A scatter's plan. `rounds`: blocks of sums pass by the updates
// (ipu_model/operations/index/scatter_rounds.h); indices outside are dropped.
struct ScatterPlan {
  Plan plan;
  std::optional<GatherRounds> rounds;
};

// The dimension along which windows are running results, from one end of the operand on; -1 for none.
// `rounds`: whether each step of narrow floats is rounded.
struct Running {
  int dimension;
  bool backwards, rounds;
};

// Which pieces move between the replicas of groups of equal size; replicas in no group get zeros.
struct Collective {
  enum class Pattern {
    kGather,    // one piece in; piece p of the result is that of member p
    kExchange,  // as many pieces as members; piece p of the result is the one that member p has for this
                // member
    kPermute    // one piece in, one out: that of replica sources[r], zeros if that is negative or missing
  } pattern;
  std::vector<std::vector<unsigned>> groups;
  std::vector<int> sources;  // by replica, of kPermute
};

// Each function adds to `prog` what the function of the same name in hlo/ means. The tensors that it writes
// exist. Throws NotExpanded, with the name of the type, for types that have no expansion.
class Expansions {
 public:
  virtual ~Expansions() = default;

  virtual void fill(poplar::Graph& graph, const poplar::Tensor& tensor, const std::string& bytes,
                    poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const = 0;
  virtual void iota(poplar::Graph& graph, const poplar::Tensor& tensor, std::size_t dimension,
                    poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const = 0;
  // An input of one element is used for all elements of the outputs. `inPlace`, for each output: the input
  // that is the same tensor, or -1. No two inputs are the same tensor.
  virtual void map(poplar::Graph& graph, const Expression& expression,
                   const std::vector<poplar::Tensor>& inputs, const std::vector<poplar::Tensor>& outputs,
                   const std::vector<int>& inPlace, poplar::program::Sequence& prog,
                   const poplar::DebugContext& debugContext) const = 0;

  // `out` may be exactly b, which `inPlace` says. `grid`: the blocks of b, each for one vertex. If it cuts
  // the equations, the system is solved block by block.
  virtual void triangularSolve(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& b,
                               const poplar::Tensor& out, bool inPlace, const TriangularOptions& options,
                               const Grid& grid, poplar::program::Sequence& prog,
                               const poplar::DebugContext& debugContext) const = 0;
  // poplin::cholesky. `grid`: the blocks of a, each for one vertex. If it cuts the matrices, the
  // factorisation goes block by block.
  virtual void cholesky(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& out, bool lower,
                        const Grid& grid, poplar::program::Sequence& prog,
                        const poplar::DebugContext& debugContext) const = 0;

  // A temporary has the offer of each block of rows for the pivot: the size of the entry, the number of the
  // row, and the row. The first superstep loads `a`, each of the next eliminates one column and makes the
  // offers for the following one, and the last one writes `order`.
  virtual void luPanel(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& factors,
                       const poplar::Tensor& pivots, const poplar::Tensor& order, const Plan& plan,
                       poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const = 0;
  // Vertices have blocks of columns. They read a, or they apply the reflection whose column and tau they
  // read; those that write a tau also compute it.
  virtual void qrPanel(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& packed,
                       const poplar::Tensor& taus, const Plan& plan, poplar::program::Sequence& prog,
                       const poplar::DebugContext& debugContext) const = 0;
  // `a` is transposed, and out are packed and rowReflectors transposed, and taus. Vertices have blocks of
  // columns; a temporary has an element for each row, and one for each column.
  virtual void twoSided(poplar::Graph& graph, TwoSidedForm form, const poplar::Tensor& a,
                        const std::vector<poplar::Tensor>& out, const Plan& plan,
                        poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const = 0;
  virtual void applyReflectors(poplar::Graph& graph, const poplar::Tensor& packed, const poplar::Tensor& taus,
                               const poplar::Tensor& x, unsigned below, const poplar::Tensor& out,
                               const Plan& plan, poplar::program::Sequence& prog,
                               const poplar::DebugContext& debugContext) const = 0;
  // tridiagonalQr or bidiagonalQr: inputs d, e and matrices, outputs values and matrices. A group of vertices
  // for each output.
  virtual void implicitQr(poplar::Graph& graph, bool bidiagonal, const std::vector<poplar::Tensor>& inputs,
                          const std::vector<poplar::Tensor>& outputs, const Plan& plan,
                          poplar::program::Sequence& prog,
                          const poplar::DebugContext& debugContext) const = 0;

  // Rows of the lower triangle, or of the adjoint of the upper one, are in the temporary. Vertices of a
  // column have the rows from its pivot on, and the columns up to it.
  virtual void choleskyColumns(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& out,
                               bool lower, const Plan& plan, poplar::program::Sequence& prog,
                               const poplar::DebugContext& debugContext) const = 0;

  // `out` are T and, if there are two, Z. Vertices have whole matrices.
  virtual void schur(poplar::Graph& graph, bool balanced, const poplar::Tensor& a,
                     const std::vector<poplar::Tensor>& out, const Plan& plan,
                     poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const = 0;

  // `starts`: one integer for each dimension, of one type.
  virtual void dynamicSlice(poplar::Graph& graph, const poplar::Tensor& operand,
                            const std::vector<poplar::Tensor>& starts, const poplar::Tensor& out,
                            const GatherPlan& plan, poplar::program::Sequence& prog,
                            const poplar::DebugContext& debugContext) const = 0;
  virtual void longSlice(poplar::Graph& graph, const poplar::Tensor& operand,
                         const std::vector<poplar::Tensor>& starts, const poplar::Tensor& out,
                         const LongSlicePlan& plan, poplar::program::Sequence& prog,
                         const poplar::DebugContext& debugContext) const = 0;
  // `out` is exactly the operand if `inPlace`.
  virtual void longUpdate(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& update,
                          const std::vector<poplar::Tensor>& starts, const poplar::Tensor& out, bool inPlace,
                          const LongSlicePlan& plan, poplar::program::Sequence& prog,
                          const poplar::DebugContext& debugContext) const = 0;
  virtual void gather(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& indices,
                      const WindowDims& dims, const std::vector<std::size_t>& sliceSizes,
                      const poplar::Tensor& out, const GatherPlan& plan, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext) const = 0;
  // `out` are exactly the operands if `inPlace`. Vertices have boxes of the operands, or, where a temporary
  // has partial sums, of that.
  virtual void scatter(poplar::Graph& graph, const std::vector<poplar::Tensor>& operands,
                       const poplar::Tensor& indices, const std::vector<poplar::Tensor>& updates,
                       const WindowDims& dims, const Expression& update,
                       const std::vector<poplar::Tensor>& out, bool inPlace, const ScatterPlan& plan,
                       poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const = 0;

  // Temporaries have partial results: the parts of the reduced dimensions, then the other dimensions.
  virtual void reduce(poplar::Graph& graph, const std::vector<poplar::Tensor>& values,
                      const std::vector<poplar::Tensor>& inits, const std::vector<std::size_t>& dims,
                      const Expression& body, const std::vector<poplar::Tensor>& out, const Plan& plan,
                      poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const = 0;

  // Vertices have boxes of the results.
  virtual void reduceWindow(poplar::Graph& graph, const std::vector<poplar::Tensor>& values,
                            const std::vector<poplar::Tensor>& inits, const WindowGeometry& geometry,
                            const Running& running, const Expression& combiner,
                            const std::vector<poplar::Tensor>& out, const Plan& plan,
                            poplar::program::Sequence& prog,
                            const poplar::DebugContext& debugContext) const = 0;
  virtual void selectAndScatter(poplar::Graph& graph, const poplar::Tensor& operand,
                                const poplar::Tensor& source, const poplar::Tensor& init,
                                const WindowGeometry& geometry, const Expression& select,
                                const Expression& scatter, const poplar::Tensor& out, const Plan& plan,
                                poplar::program::Sequence& prog,
                                const poplar::DebugContext& debugContext) const = 0;

  // Temporaries have the operands in sorted chunks, then the positions of their elements before the sort
  // (u32), unless elements that compare as equal are alike. Vertices then merge the chunk that they write
  // with the other that they read. `out` may have one tensor more (s32), for the positions; each may have the
  // first elements of the rows only.
  virtual void sort(poplar::Graph& graph, const std::vector<poplar::Tensor>& operands, std::size_t dimension,
                    const Expression& comparator, const std::vector<poplar::Tensor>& out, const Plan& plan,
                    poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const = 0;
  // Temporaries have the candidates of the parts of a row and their positions, [..., part, k].
  virtual void topK(poplar::Graph& graph, const poplar::Tensor& operand, bool largest,
                    const poplar::Tensor& values, const poplar::Tensor& indices, const Plan& plan,
                    poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const = 0;

  // A superstep for each dimension. Vertices transform lines; some write the numbers that they work on to a
  // temporary [part, worker, number].
  virtual void fft(poplar::Graph& graph, const poplar::Tensor& operand, FftType type,
                   const std::vector<std::size_t>& lengths, const poplar::Tensor& out, const Plan& plan,
                   poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const = 0;

  // Vertices have boxes of the bits, or write the new state.
  virtual void rngBitGenerator(poplar::Graph& graph, RandomAlgorithm algorithm, const poplar::Tensor& state,
                               const poplar::Tensor& newState, const poplar::Tensor& bits, const Plan& plan,
                               poplar::program::Sequence& prog,
                               const poplar::DebugContext& debugContext) const = 0;
  // `inputs`: both words of the key, then the tensors of the counter's words.
  virtual void threefry2x32(poplar::Graph& graph, const std::vector<poplar::Tensor>& inputs,
                            const std::array<CounterWord, 2>& counter,
                            const std::vector<poplar::Tensor>& outputs, const Plan& plan,
                            poplar::program::Sequence& prog,
                            const poplar::DebugContext& debugContext) const = 0;

  // Moves pieces, the elements of the first dimension, between replicas: copies between replicas
  // (CrossReplicaCopy), and vertices that put the pieces into order.
  virtual void collective(poplar::Graph& graph, const Collective& collective, const poplar::Tensor& pieces,
                          const poplar::Tensor& out, poplar::program::Sequence& prog,
                          const poplar::DebugContext& debugContext) const = 0;

  // `out` is exactly the operand if `inPlace`. `starts`: one integer for each dimension, of one type. No
  // other tensor shares elements with `out`.
  virtual void dynamicUpdateSlice(poplar::Graph& graph, const poplar::Tensor& operand,
                                  const poplar::Tensor& update, const std::vector<poplar::Tensor>& starts,
                                  const poplar::Tensor& out, bool inPlace, poplar::program::Sequence& prog,
                                  const poplar::DebugContext& debugContext) const = 0;
};

struct NotExpanded : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace hlo

namespace ipu_model {

// From now on `engine`, which must be one of execution = tile, runs the expansion of every operation that has
// one; other operations run as before. `library` must outlive the engine. Throws poplar::poplar_error for
// another engine. Runs throw hlo::NotExpanded for a type without expansion.
void RunExpansions(poplar::Engine& engine, const hlo::Expansions& library);

// The kinds of the operations, such as "popops::map", that `engine` has run as expansions, and of those that
// have none; each sorted and without repetition.
struct ExpandedKinds {
  std::vector<std::string> expanded, others;
};
ExpandedKinds KindsRunBy(const poplar::Engine& engine);

}  // namespace ipu_model

#endif  // HLO_EXPANSION_HPP
