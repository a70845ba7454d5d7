// Programs that set how the device treats floating-point numbers. Source: Graphcore's Poplar and PopLibs API
// reference, poplar/CSRFunctions.hpp.
#ifndef POPLAR_CSRFUNCTIONS_HPP
#define POPLAR_CSRFUNCTIONS_HPP

#include "poplar/DebugContext.hpp"
#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"
#include "poplar/exceptions.hpp"

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

// The model has no floating-point exceptions and rounds to nearest, so it can only do without both. Throws
// poplar_error for a behaviour with exceptions or with stochastic rounding.
inline void setFloatingPointBehaviour(Graph& /*graph*/, program::Sequence& /*prog*/,
                                      const FloatingPointBehaviour& behaviour,
                                      const DebugContext& debugContext = {}) {
  if (behaviour.inv || behaviour.div0 || behaviour.oflo || behaviour.esr) {
    throw poplar_error("setFloatingPointBehaviour '" + debugContext.getPathName() +
                       "': the model has neither floating-point exceptions nor stochastic rounding");
  }
}
// Clears the behaviours of `clear`, sets those of `set`, and returns the behaviour before. On the model a
// half that overflows is infinite, whatever `nanoo` is. Throws as setFloatingPointBehaviour does.
inline FloatingPointBehaviour getAndModifyFloatingPointBehaviour(Graph& graph, program::Sequence& prog,
                                                                 const FloatingPointBehaviour& /*clear*/,
                                                                 const FloatingPointBehaviour& set,
                                                                 const DebugContext& debugContext = {}) {
  setFloatingPointBehaviour(graph, prog, set, debugContext);
  return {false, false, false, false, false};
}
inline void setStochasticRounding(Graph& /*graph*/, program::Sequence& /*prog*/, bool enable,
                                  const DebugContext& debugContext = {}) {
  if (enable) {
    throw poplar_error("setStochasticRounding '" + debugContext.getPathName() +
                       "': the model always rounds to nearest");
  }
}

}  // namespace poplar

#endif  // POPLAR_CSRFUNCTIONS_HPP
