// What every binding file of the module jax_ipu._ipu shares: type casters and the Bind functions that
// module.cc calls. Bound classes: Target, Graph, Tensor, DataStream, Function, Sequence, Expression
// (graph.cc), CompiledGraph, Executable, Counters (compile.cc), and the exception Error (module.cc).
#ifndef JAX_IPU_BINDINGS_BINDINGS_H_
#define JAX_IPU_BINDINGS_BINDINGS_H_

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/elementwise/expression.h"
#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"
#include "poplar/Tensor.hpp"

namespace jax_ipu::bindings {

namespace nb = nanobind;

// Tensors, dtypes, shapes and options cross the boundary as: poplar::Tensor (bound), std::string ("f32", see
// ipu_model::NameOf), std::vector<std::size_t> or ipu_model::Shape, std::map<std::string, std::string>.
// Throws std::invalid_argument (ValueError in Python) for an unknown name.
poplar::Type TypeNamed(const std::string& name);

// Then threads must not ask for the GIL any more.
bool InterpreterIsEnding();

void BindGraph(nb::module_& module);
void BindExpression(nb::module_& module);
void BindCompile(nb::module_& module);
void BindHostCallbacks(nb::module_& module);
void BindFfiHandlers(nb::module_& module);
void BindProcessExchange(nb::module_& module);
void BindElementwise(nb::module_& module);
void BindMatMul(nb::module_& module);
void BindConvolution(nb::module_& module);
void BindData(nb::module_& module);
void BindCollectives(nb::module_& module);

}  // namespace jax_ipu::bindings

#endif  // JAX_IPU_BINDINGS_BINDINGS_H_
