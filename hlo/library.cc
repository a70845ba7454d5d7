#include "hlo/Library.hpp"

#include "dynamic_update.h"
#include "fill_iota.h"
#include "linear_algebra.h"
#include "map.h"

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
