// Programs that set how the device treats floating-point numbers. Source: Graphcore's Poplar and PopLibs API
// reference, poplar/CSRFunctions.hpp.
#ifndef POPLAR_CSRFUNCTIONS_HPP
#define POPLAR_CSRFUNCTIONS_HPP

#include "poplar/DebugContext.hpp"
#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"
#include "poplar/Tensor.hpp"

namespace poplar {

// Exceptions for invalid operations, divisions by zero and overflow; stochastic rounding; NaN instead of the
// largest half on overflow.
struct FloatingPointBehaviour {
  FloatingPointBehaviour() = default;
  FloatingPointBehaviour(bool i, bool d, bool o, bool e, bool n)
      : inv(i), div0(d), oflo(o), esr(e), nanoo(n) {}
  FloatingPointBehaviour operator!() const { return {!inv, !div0, !oflo, !esr, !nanoo}; }
  bool inv = true, div0 = true, oflo = true, esr = true, nanoo = true;
};

// From here on in the program. The model computes as with no exceptions and with rounding to nearest: values
// that would stop the chip become infinite or NaN, a half that overflows is infinite whatever `nanoo` is, and
// stochastic rounding changes nothing. A warning on stderr says so for a behaviour that asks for more.
void setFloatingPointBehaviour(Graph& graph, program::Sequence& prog, const FloatingPointBehaviour& behaviour,
                               const DebugContext& debugContext = {});
// As it was when getAndModifyFloatingPointBehaviour returned the tensor.
void setFloatingPointBehaviour(Graph& graph, program::Sequence& prog, const Tensor& behaviour,
                               const DebugContext& debugContext = {});
// Clears the behaviours of `clear`, sets those of `set`, and returns the behaviour before: a word for each
// tile. A program begins with none.
Tensor getAndModifyFloatingPointBehaviour(Graph& graph, program::Sequence& prog,
                                          const FloatingPointBehaviour& clear,
                                          const FloatingPointBehaviour& set,
                                          const DebugContext& debugContext = {});
void setStochasticRounding(Graph& graph, program::Sequence& prog, bool enable,
                           const DebugContext& debugContext = {});

}  // namespace poplar

#endif  // POPLAR_CSRFUNCTIONS_HPP
