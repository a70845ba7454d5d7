// Python: compile_graph, Executable, the device configuration and counters, and the compiler callback that
// PJRT calls in processes that have an interpreter.
#include <nanobind/stl/optional.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "bindings/bindings.h"
#include "ipu_model/Model.hpp"
#include "poplar/Engine.hpp"
#include "poplar/exceptions.hpp"
#include "runtime/executable.h"
#include "runtime/program.h"
#include "runtime/registry.h"
#include "runtime/run_once.h"

namespace jax_ipu::bindings {
namespace {

// What Python holds. The data inside outlives the Python object when PJRT keeps it.
struct ExecutableHandle {
  std::shared_ptr<const Executable> executable;
};

std::vector<nb::dict> Tensors(const std::vector<ipu_model::TensorUse>& tensors) {
  std::vector<nb::dict> rows;
  for (const ipu_model::TensorUse& tensor : tensors) {
    nb::dict row;
    row["name"] = tensor.name;
    row["dtype"] = tensor.type;
    row["shape"] = tensor.shape;
    row["bytes"] = tensor.bytes;
    row["bytes_on_tile"] = tensor.bytes_on_tile;
    row["role"] = tensor.role;
    row["lasting"] = tensor.lasting;
    rows.push_back(std::move(row));
  }
  return rows;
}

struct CompiledGraph {
  poplar::Executable executable;

  nb::bytes Serialize() const {
    std::ostringstream out;
    executable.serialize(out);
    const std::string data = out.str();
    return nb::bytes(data.data(), data.size());
  }

  nb::dict Cost() const {
    const ipu_model::Report& report = ipu_model::ReportOf(executable);
    nb::dict cost;
    cost["flops"] = report.flops;
    cost["cycles"] = report.cycles.total();
    cost["compute_cycles"] = report.cycles.compute;
    cost["exchange_cycles"] = report.cycles.exchange;
    cost["sync_cycles"] = report.cycles.sync;
    cost["exchange_bytes"] = report.exchange_bytes;
    cost["link_bytes"] = report.link_bytes;
    cost["clock_hz"] = report.clock_hz;
    cost["host_nanoseconds"] = ipu_model::HostNanoseconds(executable);
    return cost;
  }

  nb::dict Memory() const {
    const ipu_model::Report& report = ipu_model::ReportOf(executable);
    nb::dict memory;
    memory["total_bytes"] = report.total_bytes;
    memory["max_tile_bytes"] = report.max_tile_bytes;
    memory["limit_tile_bytes"] = report.limit_tile_bytes;
    memory["max_tile"] = report.max_tile;
    memory["num_tiles"] = report.num_tiles;
    memory["temp_bytes"] = report.temporary_bytes;
    memory["code_bytes"] = report.code_bytes;
    memory["constant_bytes"] = report.constant_bytes;
    memory["exchange_buffer_bytes"] = report.exchange_buffer_bytes;
    memory["vertex_bytes"] = report.vertex_bytes;
    return memory;
  }

  std::vector<nb::dict> Operations() const {
    std::vector<nb::dict> rows;
    for (const ipu_model::OperationCost& operation : ipu_model::ReportOf(executable).operations) {
      nb::dict row;
      row["kind"] = operation.kind;
      row["name"] = operation.name;
      row["executions"] = operation.executions;
      row["compute_cycles"] = operation.cycles.compute;
      row["exchange_cycles"] = operation.cycles.exchange;
      row["sync_cycles"] = operation.cycles.sync;
      row["exchange_bytes"] = operation.exchange_bytes;
      row["flops"] = operation.flops;
      row["tiles"] = operation.tiles;
      rows.push_back(std::move(row));
    }
    return rows;
  }

  std::vector<nb::dict> Loops() const {
    std::vector<nb::dict> rows;
    for (const ipu_model::LoopCost& loop : ipu_model::ReportOf(executable).loops) {
      nb::dict row;
      row["name"] = loop.name;
      row["condition_cycles"] = loop.condition.total();
      row["body_cycles"] = loop.body.total();
      rows.push_back(std::move(row));
    }
    return rows;
  }

  std::vector<nb::dict> LargestTensors() const {
    return Tensors(ipu_model::ReportOf(executable).largest_tensors);
  }
};

// _ipu.OutOfMemory(message) with the report as attributes.
[[noreturn]] void RaiseOutOfMemory(const ipu_model::OutOfMemory& error) {
  const ipu_model::Report& report = error.report;
  const ipu_model::TilePeak& peak = report.peak;
  const nb::object type = nb::module_::import_("jax_ipu._ipu").attr("OutOfMemory");
  nb::object exception = type(nb::str(error.what()));
  exception.attr("code") = static_cast<int>(Code::kResourceExhausted);
  nb::dict tile;
  tile["variables"] = peak.variables;
  tile["temporaries"] = peak.temporaries;
  tile["exchange_buffers"] = peak.exchange_buffers;
  tile["constants"] = peak.constants;
  tile["vertex_state"] = peak.vertex_state;
  tile["code"] = peak.code;
  exception.attr("tile") = tile;
  exception.attr("variables_only") = peak.variables_only;
  exception.attr("peak_variable_bytes") = report.peak_variable_bytes;
  exception.attr("tensors") = Tensors(peak.tensors);
  PyErr_SetObject(type.ptr(), exception.ptr());
  throw nb::python_error();
}

CompiledGraph CompileGraph(const poplar::Graph& graph,
                           const std::vector<poplar::program::Sequence>& sequences, const std::string& name,
                           ipu_model::PlanCache* plans, const nb::object& poll) {
  const std::vector<poplar::program::Program> programs(sequences.begin(), sequences.end());
  ipu_model::PlanCache own;
  if (plans == nullptr) plans = &own;
  plans->poll = [&poll](std::size_t done, std::size_t total) {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();  // Ctrl-C
    if (!poll.is_none()) poll(done, total);
  };
  try {
    return {ipu_model::CompileGraph(graph, programs, name, plans)};
  } catch (const ipu_model::OutOfMemory& error) {
    RaiseOutOfMemory(error);
  }
}

template <typename T>
void Read(const nb::dict& fields, const char* name, T* value) {
  if (fields.contains(name)) *value = nb::cast<T>(fields[name]);
}

// Bytes of a serialised message.
void Read(const nb::dict& fields, const char* name, std::string* value) {
  if (!fields.contains(name)) return;
  const nb::bytes bytes = nb::cast<nb::bytes>(fields[name]);
  value->assign(bytes.c_str(), bytes.size());
}

TensorSpec ReadTensor(const nb::dict& fields) {
  return {TypeNamed(nb::cast<std::string>(fields["dtype"])).id(),
          nb::cast<std::vector<std::int64_t>>(fields["shape"])};
}

InputSpec ReadInput(const nb::dict& fields) {
  InputSpec input;
  input.tensor = ReadTensor(fields);
  Read(fields, "major_to_minor", &input.major_to_minor);
  Read(fields, "donated", &input.donated);
  Read(fields, "aliased_output", &input.aliased_output);
  Read(fields, "unchanged", &input.unchanged);
  Read(fields, "used", &input.used);
  Read(fields, "write_program", &input.write_program);
  Read(fields, "read_program", &input.read_program);
  Read(fields, "exchange_with", &input.exchange_with);
  Read(fields, "exchange_program", &input.exchange_program);
  Read(fields, "sharding", &input.sharding);
  return input;
}

OutputSpec ReadOutput(const nb::dict& fields) {
  OutputSpec output;
  output.tensor = ReadTensor(fields);
  Read(fields, "major_to_minor", &output.major_to_minor);
  Read(fields, "aliased_input", &output.aliased_input);
  Read(fields, "forwarded_input", &output.forwarded_input);
  Read(fields, "in_host_memory", &output.in_host_memory);
  Read(fields, "sharding", &output.sharding);
  return output;
}

CostReport ReadCost(const nb::dict& fields) {
  CostReport cost;
  Read(fields, "flops", &cost.flops);
  Read(fields, "bytes_accessed", &cost.bytes_accessed);
  Read(fields, "transcendentals", &cost.transcendentals);
  Read(fields, "cycles", &cost.cycles);
  Read(fields, "compute_cycles", &cost.compute_cycles);
  Read(fields, "exchange_cycles", &cost.exchange_cycles);
  Read(fields, "sync_cycles", &cost.sync_cycles);
  Read(fields, "exchange_bytes", &cost.exchange_bytes);
  Read(fields, "link_bytes", &cost.link_bytes);
  Read(fields, "clock_hz", &cost.clock_hz);
  Read(fields, "host_nanoseconds", &cost.host_nanoseconds);
  return cost;
}

MemoryReport ReadMemory(const nb::dict& fields) {
  MemoryReport memory;
  Read(fields, "total_bytes", &memory.total_bytes);
  Read(fields, "max_tile_bytes", &memory.max_tile_bytes);
  Read(fields, "limit_tile_bytes", &memory.limit_tile_bytes);
  Read(fields, "max_tile", &memory.max_tile);
  Read(fields, "num_tiles", &memory.num_tiles);
  Read(fields, "argument_bytes", &memory.argument_bytes);
  Read(fields, "output_bytes", &memory.output_bytes);
  Read(fields, "alias_bytes", &memory.alias_bytes);
  Read(fields, "temp_bytes", &memory.temp_bytes);
  Read(fields, "code_bytes", &memory.code_bytes);
  Read(fields, "constant_bytes", &memory.constant_bytes);
  Read(fields, "exchange_buffer_bytes", &memory.exchange_buffer_bytes);
  Read(fields, "vertex_bytes", &memory.vertex_bytes);
  Read(fields, "host_argument_bytes", &memory.host_argument_bytes);
  Read(fields, "host_output_bytes", &memory.host_output_bytes);
  return memory;
}

FfiAttribute ReadAttribute(const nb::dict& fields) {
  FfiAttribute attribute;
  attribute.name = nb::cast<std::string>(fields["name"]);
  const std::string kind = nb::cast<std::string>(fields["kind"]);
  attribute.kind = kind == "scalar"   ? FfiAttribute::Kind::kScalar
                   : kind == "array"  ? FfiAttribute::Kind::kArray
                   : kind == "string" ? FfiAttribute::Kind::kString
                                      : FfiAttribute::Kind::kDictionary;
  if (fields.contains("dtype")) attribute.type = TypeNamed(nb::cast<std::string>(fields["dtype"])).id();
  Read(fields, "data", &attribute.data);
  if (fields.contains("members")) {
    for (const nb::handle member : fields["members"])
      attribute.members.push_back(ReadAttribute(nb::cast<nb::dict>(member)));
  }
  return attribute;
}

std::vector<FfiBuffer> ReadBuffers(const nb::handle& list) {
  std::vector<FfiBuffer> buffers;
  for (const nb::handle item : list) {
    const nb::dict fields = nb::cast<nb::dict>(item);
    buffers.push_back({ReadTensor(fields), nb::cast<bool>(fields["is_token"])});
  }
  return buffers;
}

FfiCallSpec ReadFfiCall(const nb::dict& fields) {
  return {nb::cast<std::string>(fields["target"]),
          nb::cast<std::string>(fields["location"]),
          ReadBuffers(fields["operands"]),
          ReadBuffers(fields["results"]),
          nb::cast<std::vector<int>>(fields["aliased_operands"]),
          ReadAttribute(nb::cast<nb::dict>(fields["attributes"]))};
}

ExecutableHandle MakeExecutable(const std::string& name, const std::string& fingerprint,
                                const std::string& target, const std::vector<nb::dict>& inputs,
                                const std::vector<nb::dict>& outputs, const nb::bytes& poplar_executable,
                                int main_program, const nb::bytes& mlir, const nb::dict& cost,
                                const nb::dict& memory, const std::vector<nb::dict>& host_callbacks,
                                const std::vector<nb::dict>& ffi_calls, int num_replicas,
                                int num_partitions) {
  auto executable = std::make_shared<Executable>();
  executable->name = name;
  executable->fingerprint = fingerprint;
  executable->target = target;
  for (const nb::dict& input : inputs) executable->inputs.push_back(ReadInput(input));
  for (const nb::dict& output : outputs) executable->outputs.push_back(ReadOutput(output));
  executable->poplar_executable.assign(poplar_executable.c_str(), poplar_executable.size());
  executable->main_program = main_program;
  executable->mlir.assign(mlir.c_str(), mlir.size());
  executable->cost = ReadCost(cost);
  executable->memory = ReadMemory(memory);
  for (const nb::dict& callback : host_callbacks) {
    executable->host_callbacks.push_back({nb::cast<std::uint64_t>(callback["id"]),
                                          nb::cast<std::vector<std::uint64_t>>(callback["input_bytes"]),
                                          nb::cast<std::vector<std::uint64_t>>(callback["output_bytes"])});
  }
  for (const nb::dict& call : ffi_calls) executable->ffi_calls.push_back(ReadFfiCall(call));
  executable->num_replicas = num_replicas;
  executable->num_partitions = num_partitions;
  return {std::move(executable)};
}

// (element type, shape) of every argument or result.
template <typename Specs>
nb::list Types(const Specs& specs) {
  nb::list types;
  for (const auto& spec : specs) {
    const std::vector<std::int64_t> shape = FromMemory(spec.tensor.shape, spec.major_to_minor);
    types.append(nb::make_tuple(NameOf(spec.tensor.type), nb::tuple(nb::cast(shape))));
  }
  return types;
}

// The serialised xla.OpSharding of every argument or result; empty where there is none.
template <typename Specs>
nb::list Shardings(const Specs& specs) {
  nb::list shardings;
  for (const auto& spec : specs) shardings.append(nb::bytes(spec.sharding.data(), spec.sharding.size()));
  return shardings;
}

// Compilations on threads of jaxlib outlive a caller that is interrupted, but must not outlive the
// interpreter.
struct RunningCompilations {
  std::mutex mutex;
  std::condition_variable changed;
  int count = 0;

  static RunningCompilations& Instance() {
    static RunningCompilations instance;
    return instance;
  }
  void Add(int difference) {
    const std::lock_guard<std::mutex> lock(mutex);
    count += difference;
    changed.notify_all();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return count == 0; });
  }
};

struct RunningCompilation {
  RunningCompilation() { RunningCompilations::Instance().Add(1); }
  ~RunningCompilation() { RunningCompilations::Instance().Add(-1); }
};

// Calls `function`, found while the GIL is held, and takes the plain data out of its result.
template <typename FindFunction>
std::shared_ptr<const Executable> CallPython(const CompileRequest& request, FindFunction find_function) {
  if (!Py_IsInitialized())
    throw Error(
        Code::kFailedPrecondition,
        "the jax_ipu compiler is written in Python, but this process runs no Python interpreter; load a "
        "program that was compiled before");
  const RunningCompilation running;
  nb::gil_scoped_acquire gil;
  // Threads of jaxlib flush them, and constants of the program must not depend on the thread.
  const ipu_model::KeepDenormals keep;
  try {
    const nb::object result =
        find_function()(nb::bytes(request.program.data(), request.program.size()), request.format,
                        nb::bytes(request.options.data(), request.options.size()), request.target);
    return nb::cast<const ExecutableHandle&>(result).executable;
  } catch (nb::python_error& error) {
    // Ctrl-C must end the caller, not become an error that it may handle: it is given again to Python's own
    // code.
    if (error.matches(PyExc_KeyboardInterrupt)) {
      PyErr_SetInterrupt();
      throw Error(Code::kCancelled, "the compilation was interrupted");
    }
    const nb::handle value = error.value();
    if (nb::hasattr(value, "code") && nb::isinstance<nb::int_>(value.attr("code")))
      throw Error(static_cast<Code>(nb::cast<int>(value.attr("code"))),
                  nb::cast<std::string>(nb::str(value)));
    throw Error(Code::kInternal, std::string("the compiler failed: ") + error.what());
  } catch (const nb::cast_error&) {
    throw Error(Code::kInternal, "the compiler did not return a jax_ipu._ipu.Executable");
  }
}

// The compiler when nobody called set_compiler: a client other than JAX compiles.
std::shared_ptr<const Executable> ImportAndCompile(const CompileRequest& request) {
  return CallPython(request, [] { return nb::module_::import_("jax_ipu.compiler").attr("compile"); });
}

void SetCompiler(const nb::callable& function) {
  // Never released: PJRT may destroy the registry's copy after the interpreter is gone (a reference that dies
  // then would need the GIL and abort the process).
  PyObject* const compiler = function.ptr();
  Py_INCREF(compiler);
  Registry::Get().SetCompiler([compiler](const CompileRequest& request) {
    return CallPython(request, [compiler] { return nb::borrow(compiler); });
  });
}

std::vector<std::vector<nb::bytes>> RunReplicas(const ExecutableHandle& handle,
                                                const std::vector<std::vector<nb::bytes>>& arguments,
                                                const std::string& execution) {
  std::vector<std::vector<std::string>> data;
  for (const std::vector<nb::bytes>& of_replica : arguments) {
    data.emplace_back();
    for (const nb::bytes& argument : of_replica) data.back().emplace_back(argument.c_str(), argument.size());
  }
  DeviceConfig config;
  const std::string& target = handle.executable->target;
  config.version = target.substr(0, target.find(':'));
  config.num_tiles = static_cast<unsigned>(std::stoul(target.substr(target.find(':') + 1)));
  config.execution = execution;
  std::vector<std::vector<std::string>> results;
  {
    nb::gil_scoped_release release;
    if (data.size() == 1) {
      results = {RunOnce(*handle.executable, std::move(data[0]), config)};
    } else {
      results = RunReplicasOnce(*handle.executable, std::move(data), config);
    }
  }
  std::vector<std::vector<nb::bytes>> bytes;
  for (const std::vector<std::string>& of_replica : results) {
    bytes.emplace_back();
    for (const std::string& result : of_replica) bytes.back().emplace_back(result.data(), result.size());
  }
  return bytes;
}

std::vector<nb::bytes> Run(const ExecutableHandle& handle, const std::vector<nb::bytes>& arguments,
                           const std::string& execution) {
  return RunReplicas(handle, {arguments}, execution)[0];
}

void SetDeviceConfig(const std::string& version, unsigned num_tiles, const std::vector<int>& device_ids,
                     const std::string& execution, bool use_model) {
  DeviceConfig config;
  config.version = version;
  config.num_tiles = num_tiles;
  config.device_ids = device_ids;
  config.execution = execution;
  config.use_model = use_model;
  Registry::Get().SetDeviceConfig(config);
}

void LimitHost(const std::string& max_isa, int threads) {
  if (ipu_model::LimitHostKernels(max_isa != "avx2", threads)) return;
  throw std::runtime_error(
      "jax_ipu.config.max_isa and host_threads were set after kernels of the IPU model had run. Set them "
      "before the first use of JAX, or set the environment variables JAX_IPU_MAX_ISA and "
      "JAX_IPU_HOST_THREADS.");
}

nb::dict HostKernels() {
  nb::dict chosen;
  const ipu_model::HostKernels kernels = ipu_model::KernelsOfHost();
  chosen["isa"] = kernels.instruction_set;
  chosen["threads"] = kernels.threads;
  return chosen;
}

}  // namespace

void BindCompile(nb::module_& module) {
  // From now on this process compiles itself.
  Registry::Get().SetCompiler(ImportAndCompile);
  nb::class_<CompiledGraph>(module, "CompiledGraph")
      .def("serialize", &CompiledGraph::Serialize)
      .def("cost", &CompiledGraph::Cost)
      .def("memory", &CompiledGraph::Memory)
      .def("operations", &CompiledGraph::Operations)
      .def("loops", &CompiledGraph::Loops)
      .def("largest_tensors", &CompiledGraph::LargestTensors);
  nb::class_<ipu_model::PlanCache>(module, "PlanCache")
      .def(nb::init<>())
      .def("__len__", [](const ipu_model::PlanCache& self) { return self.size(); });
  module.def("compile_graph", &CompileGraph, nb::arg("graph"), nb::arg("programs"), nb::arg("name"),
             nb::arg("plans").none() = nb::none(), nb::arg("poll").none() = nb::none());
  nb::class_<ExecutableHandle>(module, "Executable")
      .def(
          "__init__",
          [](ExecutableHandle* self, const std::string& name, const std::string& fingerprint,
             const std::string& target, const std::vector<nb::dict>& inputs,
             const std::vector<nb::dict>& outputs, const nb::bytes& poplar_executable, int main_program,
             const nb::bytes& mlir, const nb::dict& cost, const nb::dict& memory,
             const std::vector<nb::dict>& host_callbacks, const std::vector<nb::dict>& ffi_calls,
             int num_replicas, int num_partitions) {
            new (self) ExecutableHandle(
                MakeExecutable(name, fingerprint, target, inputs, outputs, poplar_executable, main_program,
                               mlir, cost, memory, host_callbacks, ffi_calls, num_replicas, num_partitions));
          },
          nb::arg("name"), nb::arg("fingerprint"), nb::arg("target"), nb::arg("inputs"), nb::arg("outputs"),
          nb::arg("poplar_executable"), nb::arg("main_program"), nb::arg("mlir"), nb::arg("cost"),
          nb::arg("memory"), nb::arg("host_callbacks") = std::vector<nb::dict>{},
          nb::arg("ffi_calls") = std::vector<nb::dict>{}, nb::arg("num_replicas") = 1,
          nb::arg("num_partitions") = 1)
      .def_prop_ro("name", [](const ExecutableHandle& self) { return self.executable->name; })
      .def_prop_ro("fingerprint", [](const ExecutableHandle& self) { return self.executable->fingerprint; })
      .def_prop_ro("mlir",
                   [](const ExecutableHandle& self) {
                     const std::string& mlir = self.executable->mlir;
                     return nb::bytes(mlir.data(), mlir.size());
                   })
      .def_prop_ro("cycles", [](const ExecutableHandle& self) { return self.executable->cost.cycles; })
      .def_prop_ro("fullest_tile_bytes",
                   [](const ExecutableHandle& self) { return self.executable->memory.max_tile_bytes; })
      .def_prop_ro("target", [](const ExecutableHandle& self) { return self.executable->target; })
      .def_prop_ro("input_types", [](const ExecutableHandle& self) { return Types(self.executable->inputs); })
      .def_prop_ro("output_types",
                   [](const ExecutableHandle& self) { return Types(self.executable->outputs); })
      .def_prop_ro("input_shardings",
                   [](const ExecutableHandle& self) { return Shardings(self.executable->inputs); })
      .def_prop_ro("output_shardings",
                   [](const ExecutableHandle& self) { return Shardings(self.executable->outputs); })
      .def_prop_ro("num_replicas", [](const ExecutableHandle& self) { return self.executable->num_replicas; })
      .def_prop_ro("num_partitions",
                   [](const ExecutableHandle& self) { return self.executable->num_partitions; })
      .def("serialize",
           [](const ExecutableHandle& self) {
             const std::string data = self.executable->Serialize();
             return nb::bytes(data.data(), data.size());
           })
      .def_static("deserialize", [](const nb::bytes& data) {
        return ExecutableHandle{
            std::make_shared<const Executable>(Executable::Deserialize({data.c_str(), data.size()}))};
      });
  nb::class_<Counters>(module, "Counters")
      .def_ro("h2d_bytes", &Counters::h2d_bytes)
      .def_ro("d2h_bytes", &Counters::d2h_bytes)
      .def_ro("engine_loads", &Counters::engine_loads)
      .def_ro("runs", &Counters::runs)
      .def_ro("cycles", &Counters::cycles)
      .def_ro("link_bytes", &Counters::link_bytes);
  module.def("run", &Run, nb::arg("executable"), nb::arg("arguments"), nb::arg("execution") = "fast");
  module.def("run_replicas", &RunReplicas, nb::arg("executable"), nb::arg("arguments"),
             nb::arg("execution") = "fast");
  module.def("set_compiler", &SetCompiler, nb::arg("compiler"));
  module.def("set_device_config", &SetDeviceConfig, nb::arg("version") = "ipu2", nb::arg("num_tiles") = 0,
             nb::arg("device_ids") = std::vector<int>{0}, nb::arg("execution") = "fast",
             nb::arg("use_model") = true);
  module.def("limit_host", &LimitHost, nb::arg("max_isa"), nb::arg("threads"));
  module.def("host_kernels", &HostKernels);
  module.def("guard_reads", &GuardReads, nb::arg("guarded"));
  module.def("guard_reads_of_thread", &GuardReadsOfThread, nb::arg("guarded").none());
  module.def(
      "finish_work",
      [] {
        RunningCompilations::Instance().Wait();
        FinishWork();
      },
      nb::call_guard<nb::gil_scoped_release>());
  module.def("prepare_exit", &PrepareExit, nb::call_guard<nb::gil_scoped_release>());
  module.def("read_counters", &ReadCounters, nb::arg("device_id"), nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace jax_ipu::bindings
