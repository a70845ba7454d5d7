// What every binding file of the module jax_ipu._ipu shares: type casters and the Bind functions that
// module.cc calls. Bound classes: Target, Graph, Tensor, DataStream, Function, Sequence, Expression
// (graph.cc, elementwise.cc), CompiledGraph, Executable, Counters (compile.cc), and the exception Error
// (module.cc).
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

#include "hlo/Expression.hpp"
#include "poplar/Graph.hpp"
#include "poplar/OptionFlags.hpp"
#include "poplar/Program.hpp"
#include "poplar/Tensor.hpp"

namespace jax_ipu::bindings {

namespace nb = nanobind;

// Tensors, dtypes, shapes and options cross the boundary as: poplar::Tensor (bound), std::string ("f32", see
// ipu_model::NameOf), std::vector<std::size_t> or std::vector<std::int64_t>, std::map<std::string,
// std::string>. Throws std::invalid_argument (ValueError in Python) for an unknown name.
poplar::Type TypeNamed(const std::string& name);

// Whether the interpreter is shutting down: threads must then not acquire the GIL.
bool InterpreterIsEnding();

using Options = std::map<std::string, std::string>;
poplar::OptionFlags FlagsOf(const Options& options);
// Throws std::invalid_argument unless `count` equals `dims`.
void CheckCount(std::size_t count, std::size_t dims, const char* what);

void BindGraph(nb::module_& module);
void BindExecutable(nb::module_& module);
void BindCompile(nb::module_& module);
void BindProfile(nb::module_& module);
void BindHostCallbacks(nb::module_& module);
void BindFfiHandlers(nb::module_& module);
void BindProcess(nb::module_& module);
void BindProcessTransport(nb::module_& module);
void BindTrace(nb::module_& module);
// The families of operations, each in the file of its name.
void BindElementwise(nb::module_& module);
void BindReduce(nb::module_& module);
void BindWindow(nb::module_& module);
void BindProduct(nb::module_& module);
void BindConvolution(nb::module_& module);
void BindIndex(nb::module_& module);
void BindSort(nb::module_& module);
void BindVertices(nb::module_& module);
void BindFft(nb::module_& module);
void BindLinearAlgebra(nb::module_& module);
void BindRandom(nb::module_& module);
void BindCollectives(nb::module_& module);

}  // namespace jax_ipu::bindings

#endif  // JAX_IPU_BINDINGS_BINDINGS_H_
