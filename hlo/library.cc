#include "hlo/Library.hpp"

#include "collectives/collectives.h"
#include "elementwise/fill_iota.h"
#include "elementwise/map.h"
#include "fft/fft.h"
#include "index/dynamic_update.h"
#include "index/gather.h"
#include "index/long_slice.h"
#include "index/scatter.h"
#include "linear_algebra/cholesky_columns.h"
#include "linear_algebra/implicit_qr.h"
#include "linear_algebra/linear_algebra.h"
#include "linear_algebra/lu_panel.h"
#include "linear_algebra/reflectors.h"
#include "linear_algebra/schur.h"
#include "linear_algebra/two_sided.h"
#include "random/random.h"
#include "reduce/reduce.h"
#include "sort/sort.h"
#include "window/window.h"

namespace hlo {
namespace {

class Library : public Expansions {
 public:
  void fill(poplar::Graph& graph, const poplar::Tensor& tensor, const std::string& bytes,
            poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const override {
    expandFill(graph, tensor, bytes, prog, debugContext);
  }
  void iota(poplar::Graph& graph, const poplar::Tensor& tensor, std::size_t dimension,
            poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const override {
    expandIota(graph, tensor, dimension, prog, debugContext);
  }
  void map(poplar::Graph& graph, const Expression& expression, const std::vector<poplar::Tensor>& inputs,
           const std::vector<poplar::Tensor>& outputs, const std::vector<int>& inPlace,
           poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const override {
    expandMap(graph, expression, inputs, outputs, inPlace, prog, debugContext);
  }
  void triangularSolve(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& b,
                       const poplar::Tensor& out, bool inPlace, const TriangularOptions& options,
                       const Grid& grid, poplar::program::Sequence& prog,
                       const poplar::DebugContext& debugContext) const override {
    expandTriangularSolve(graph, a, b, out, inPlace, options, grid, prog, debugContext);
  }
  void cholesky(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& out, bool lower,
                const Grid& grid, poplar::program::Sequence& prog,
                const poplar::DebugContext& debugContext) const override {
    expandCholesky(graph, a, out, lower, grid, prog, debugContext);
  }
  void luPanel(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& factors,
               const poplar::Tensor& pivots, const poplar::Tensor& order, const Plan& plan,
               poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const override {
    expandLuPanel(graph, a, factors, pivots, order, plan, prog, debugContext);
  }
  void qrPanel(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& packed,
               const poplar::Tensor& taus, const Plan& plan, poplar::program::Sequence& prog,
               const poplar::DebugContext& debugContext) const override {
    expandQrPanel(graph, a, packed, taus, plan, prog, debugContext);
  }
  void twoSided(poplar::Graph& graph, TwoSidedForm form, const poplar::Tensor& a,
                const std::vector<poplar::Tensor>& out, const Plan& plan, poplar::program::Sequence& prog,
                const poplar::DebugContext& debugContext) const override {
    expandTwoSided(graph, form, a, out, plan, prog, debugContext);
  }
  void applyReflectors(poplar::Graph& graph, const poplar::Tensor& packed, const poplar::Tensor& taus,
                       const poplar::Tensor& x, unsigned below, const poplar::Tensor& out, const Plan& plan,
                       poplar::program::Sequence& prog,
                       const poplar::DebugContext& debugContext) const override {
    expandApplyReflectors(graph, packed, taus, x, below, out, plan, prog, debugContext);
  }
  void implicitQr(poplar::Graph& graph, bool bidiagonal, const std::vector<poplar::Tensor>& inputs,
                  const std::vector<poplar::Tensor>& outputs, const Plan& plan,
                  poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const override {
    expandImplicitQr(graph, bidiagonal, inputs, outputs, plan, prog, debugContext);
  }

  void choleskyColumns(poplar::Graph& graph, const poplar::Tensor& a, const poplar::Tensor& out, bool lower,
                       const Plan& plan, poplar::program::Sequence& prog,
                       const poplar::DebugContext& debugContext) const override {
    expandCholeskyColumns(graph, a, out, lower, plan, prog, debugContext);
  }
  void schur(poplar::Graph& graph, bool balanced, const poplar::Tensor& a,
             const std::vector<poplar::Tensor>& out, const Plan& plan, poplar::program::Sequence& prog,
             const poplar::DebugContext& debugContext) const override {
    expandSchur(graph, balanced, a, out, plan, prog, debugContext);
  }

  void dynamicSlice(poplar::Graph& graph, const poplar::Tensor& operand,
                    const std::vector<poplar::Tensor>& starts, const poplar::Tensor& out,
                    const GatherPlan& plan, poplar::program::Sequence& prog,
                    const poplar::DebugContext& debugContext) const override {
    expandDynamicSlice(graph, operand, starts, out, plan, prog, debugContext);
  }
  void longSlice(poplar::Graph& graph, const poplar::Tensor& operand,
                 const std::vector<poplar::Tensor>& starts, const poplar::Tensor& out,
                 const LongSlicePlan& plan, poplar::program::Sequence& prog,
                 const poplar::DebugContext& debugContext) const override {
    expandLongSlice(graph, operand, starts, out, plan, prog, debugContext);
  }
  void longUpdate(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& update,
                  const std::vector<poplar::Tensor>& starts, const poplar::Tensor& out, bool inPlace,
                  const LongSlicePlan& plan, poplar::program::Sequence& prog,
                  const poplar::DebugContext& debugContext) const override {
    expandLongUpdate(graph, operand, update, starts, out, inPlace, plan, prog, debugContext);
  }
  void gather(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& indices,
              const WindowDims& dims, const std::vector<std::size_t>& sliceSizes, const poplar::Tensor& out,
              const GatherPlan& plan, poplar::program::Sequence& prog,
              const poplar::DebugContext& debugContext) const override {
    expandGather(graph, operand, indices, dims, sliceSizes, out, plan, prog, debugContext);
  }
  void scatter(poplar::Graph& graph, const std::vector<poplar::Tensor>& operands,
               const poplar::Tensor& indices, const std::vector<poplar::Tensor>& updates,
               const WindowDims& dims, const Expression& update, const std::vector<poplar::Tensor>& out,
               bool inPlace, const ScatterPlan& plan, poplar::program::Sequence& prog,
               const poplar::DebugContext& debugContext) const override {
    expandScatter(graph, operands, indices, updates, dims, update, out, inPlace, plan, prog, debugContext);
  }
  void reduce(poplar::Graph& graph, const std::vector<poplar::Tensor>& values,
              const std::vector<poplar::Tensor>& inits, const std::vector<std::size_t>& dims,
              const Expression& body, const std::vector<poplar::Tensor>& out, const Plan& plan,
              poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const override {
    expandReduce(graph, values, inits, dims, body, out, plan, prog, debugContext);
  }
  void reduceWindow(poplar::Graph& graph, const std::vector<poplar::Tensor>& values,
                    const std::vector<poplar::Tensor>& inits, const WindowGeometry& geometry,
                    const Running& running, const Expression& combiner,
                    const std::vector<poplar::Tensor>& out, const Plan& plan, poplar::program::Sequence& prog,
                    const poplar::DebugContext& debugContext) const override {
    expandReduceWindow(graph, values, inits, geometry, running, combiner, out, plan, prog, debugContext);
  }
  void selectAndScatter(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& source,
                        const poplar::Tensor& init, const WindowGeometry& geometry, const Expression& select,
                        const Expression& scatter, const poplar::Tensor& out, const Plan& plan,
                        poplar::program::Sequence& prog,
                        const poplar::DebugContext& debugContext) const override {
    expandSelectAndScatter(graph, operand, source, init, geometry, select, scatter, out, plan, prog,
                           debugContext);
  }
  void sort(poplar::Graph& graph, const std::vector<poplar::Tensor>& operands, std::size_t dimension,
            const Expression& comparator, const std::vector<poplar::Tensor>& out, const Plan& plan,
            poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const override {
    expandSort(graph, operands, dimension, comparator, out, plan, prog, debugContext);
  }
  void topK(poplar::Graph& graph, const poplar::Tensor& operand, bool largest, const poplar::Tensor& values,
            const poplar::Tensor& indices, const Plan& plan, poplar::program::Sequence& prog,
            const poplar::DebugContext& debugContext) const override {
    expandTopK(graph, operand, largest, values, indices, plan, prog, debugContext);
  }
  void fft(poplar::Graph& graph, const poplar::Tensor& operand, FftType type,
           const std::vector<std::size_t>& lengths, const poplar::Tensor& out, const Plan& plan,
           poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) const override {
    expandFft(graph, operand, type, lengths, out, plan, prog, debugContext);
  }
  void rngBitGenerator(poplar::Graph& graph, RandomAlgorithm algorithm, const poplar::Tensor& state,
                       const poplar::Tensor& newState, const poplar::Tensor& bits, const Plan& plan,
                       poplar::program::Sequence& prog,
                       const poplar::DebugContext& debugContext) const override {
    expandRngBitGenerator(graph, algorithm, state, newState, bits, plan, prog, debugContext);
  }
  void threefry2x32(poplar::Graph& graph, const std::vector<poplar::Tensor>& inputs,
                    const std::array<CounterWord, 2>& counter, const std::vector<poplar::Tensor>& outputs,
                    const Plan& plan, poplar::program::Sequence& prog,
                    const poplar::DebugContext& debugContext) const override {
    expandThreefry(graph, inputs, counter, outputs, plan, prog, debugContext);
  }
  void collective(poplar::Graph& graph, const Collective& collective, const poplar::Tensor& pieces,
                  const poplar::Tensor& out, poplar::program::Sequence& prog,
                  const poplar::DebugContext& debugContext) const override {
    expandCollective(graph, collective, pieces, out, prog, debugContext);
  }
  void dynamicUpdateSlice(poplar::Graph& graph, const poplar::Tensor& operand, const poplar::Tensor& update,
                          const std::vector<poplar::Tensor>& starts, const poplar::Tensor& out, bool inPlace,
                          poplar::program::Sequence& prog,
                          const poplar::DebugContext& debugContext) const override {
    expandDynamicUpdate(graph, operand, update, starts, out, inPlace, prog, debugContext);
  }
};

}  // namespace

const Expansions& library() {
  static const Library all;
  return all;
}

}  // namespace hlo
