// Python: compile_graph, Executable, the device configuration and counters, and the compiler callback that
// PJRT calls in processes that have an interpreter.
#include <nanobind/stl/optional.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/bindings.h"
#include "bindings/executable_handle.h"
#include "bindings/fields.h"
#include "bindings/integers.h"
#include "ipu_model/Log.hpp"
#include "ipu_model/Model.hpp"
#include "ipu_model/Profile.hpp"
#include "ipu_model/Stored.hpp"
#include "poplar/Engine.hpp"
#include "poplar/exceptions.hpp"
#include "runtime/device/device_engine.h"
#include "runtime/device/run_once.h"
#include "runtime/executable/executable.h"
#include "runtime/executable/image.h"
#include "runtime/process/registry.h"

namespace jax_ipu::bindings {
namespace {

struct CompiledGraph {
  poplar::Executable executable;

  CostReport Cost() const {
    const ipu_model::Report& report = ipu_model::ReportOf(executable);
    CostReport cost;
    cost.flops = report.flops;
    cost.cycles = report.cycles.total();
    cost.compute_cycles = report.cycles.compute;
    cost.exchange_cycles = report.cycles.exchange;
    cost.sync_cycles = report.cycles.sync;
    cost.exchange_bytes = report.exchange_bytes;
    cost.link_bytes = report.link_bytes;
    cost.clock_hz = report.clock_hz;
    cost.host_nanoseconds = ipu_model::HostNanoseconds(executable);
    return cost;
  }

  MemoryReport Memory() const {
    const ipu_model::Report& report = ipu_model::ReportOf(executable);
    MemoryReport memory;
    memory.total_bytes = report.total_bytes;
    memory.max_tile_bytes = report.max_tile_bytes;
    memory.limit_tile_bytes = report.limit_tile_bytes;
    memory.max_tile = report.max_tile;
    memory.num_tiles = report.num_tiles;
    memory.temp_bytes = report.temporary_bytes;
    memory.code_bytes = report.code_bytes;
    memory.constant_bytes = report.constant_bytes;
    memory.exchange_buffer_bytes = report.exchange_buffer_bytes;
    memory.vertex_bytes = report.vertex_bytes;
    return memory;
  }
};

// _ipu.OutOfMemory(message) with the attributes `report` and `profile`, a function.
[[noreturn]] void RaiseOutOfMemory(const ipu_model::OutOfMemory& error) {
  const nb::object type = nb::module_::import_("jax_ipu._ipu").attr("OutOfMemory");
  nb::object exception = type(nb::str(error.what()));
  exception.attr("code") = static_cast<int>(Code::kResourceExhausted);
  exception.attr("report") = nb::cast(error.report);
  exception.attr("profile") = nb::cpp_function([error] { return ipu_model::ProfileOf(error); });
  PyErr_SetObject(type.ptr(), exception.ptr());
  throw nb::python_error();
}

// The deadline of the Python thread that is in the `with` block.
struct DeadlineBlock {
  explicit DeadlineBlock(double s) : seconds(s) {}
  double seconds;
  std::optional<ipu_model::Deadline> deadline;
};

CompiledGraph CompileGraph(const poplar::Graph& graph,
                           const std::vector<poplar::program::Sequence>& sequences, const std::string& name,
                           ipu_model::TilePlanCache* plans, const nb::object& poll,
                           const std::vector<unsigned>& further_mains) {
  const std::vector<poplar::program::Program> programs(sequences.begin(), sequences.end());
  ipu_model::TilePlanCache own;
  if (plans == nullptr) plans = &own;
  plans->poll = [&poll](std::size_t done, std::size_t total) {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();  // Ctrl-C
    if (!poll.is_none()) poll(done, total);
  };
  try {
    return {ipu_model::CompileGraph(graph, programs, name, plans, further_mains)};
  } catch (const ipu_model::OutOfMemory& error) {
    RaiseOutOfMemory(error);
  }
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

// Memory of the caller as a memoryview, which cannot be read once this is gone.
struct BorrowedBytes {
  explicit BorrowedBytes(std::string_view bytes)
      : view(nb::steal(PyMemoryView_FromMemory(const_cast<char*>(bytes.data()),
                                               static_cast<Py_ssize_t>(bytes.size()), PyBUF_READ))) {
    if (!view.is_valid()) throw nb::python_error();
  }
  BorrowedBytes(const BorrowedBytes&) = delete;
  BorrowedBytes& operator=(const BorrowedBytes&) = delete;
  ~BorrowedBytes() {
    const nb::error_scope pending;
    if (PyObject* done = PyObject_CallMethod(view.ptr(), "release", nullptr)) {
      Py_DECREF(done);
    } else {
      PyErr_Clear();  // an array of its elements is alive, in a frame of an error
    }
  }
  nb::object view;
};

// Calls `f`, which calls the compiler, with the GIL held.
template <typename F>
auto InPython(F&& f) {
  if (!Py_IsInitialized())
    throw Error(
        Code::kFailedPrecondition,
        "the jax_ipu compiler is written in Python, but this process runs no Python interpreter; load a "
        "program that was compiled before");
  const RunningCompilation running;
  nb::gil_scoped_acquire gil;
  // jaxlib's threads flush denormals to zero; constants of the program must not depend on the thread.
  const ipu_model::KeepDenormals keep;
  try {
    return f();
  } catch (nb::python_error& error) {
    // Ctrl-C must end the caller, not become an error that the caller may handle: set the interrupt again, so
    // that the interpreter raises it.
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
    throw Error(Code::kInternal, "the compiler did not return what it compiled");
  }
}

// Calls the Python function that `find_function` returns. Returns the plain data of its result.
template <typename FindFunction>
std::shared_ptr<const Executable> CallPython(const CompileRequest& request, FindFunction find_function) {
  return InPython([&] {
    const BorrowedBytes program(request.program);
    const nb::object result =
        find_function()(program.view, request.format,
                        nb::bytes(request.options.data(), request.options.size()), request.target);
    return nb::cast<const ExecutableHandle&>(result).executable;
  });
}

// What the Python class LinkedProgram holds.
struct LinkedHandle {
  LinkedProgram linked;
};

// Never released, as the compiler: see SetCompiler.
void SetLinker(const nb::callable& function) {
  PyObject* const linker = function.ptr();
  Py_INCREF(linker);
  Registry::Get().SetLinker([linker](const std::vector<LinkPart>& parts) {
    return InPython([&] {
      nb::list list;
      for (const LinkPart& part : parts) {
        const ProgramSource& source = *part.source;
        list.append(nb::make_tuple(nb::bytes(source.program.data(), source.program.size()), source.format,
                                   nb::bytes(source.options.data(), source.options.size()),
                                   nb::tuple(nb::cast(part.variables))));
      }
      const nb::object result = nb::borrow(linker)(list, parts.at(0).source->target);
      return nb::cast<const LinkedHandle&>(result).linked;
    });
  });
}

LinkedHandle AsLinkedProgram(const CompiledGraph& graph, const std::string& name, const std::string& target,
                             const std::vector<ImageVariable>& variables,
                             const std::vector<ImageEntry>& entries) {
  auto executable = std::make_shared<Executable>();
  executable->name = name;
  executable->target = target;
  executable->poplar_executable = ipu_model::SerialiseContent(graph.executable);
  executable->memory = graph.Memory();
  executable->is_linked = true;
  return {{std::move(executable), {variables, entries}}};
}

// The compiler when set_compiler was not called, that is, for a client other than JAX.
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

void BindReport(nb::module_& module) {
  using namespace ipu_model;
  BindFields<Cycles>(module, "Cycles", "Cycles of one execution.").def_prop_ro("total", &Cycles::total);
  BindFields<OperationCost>(module, "OperationCost",
                            "One operation, all its executions in a call of the main program together. "
                            "`tiles` is the number of tiles that compute.")
      .def_prop_ro(
          "cycles", [](const OperationCost& self) { return self.cycles.total(); },
          "Compute, exchange and sync.")
      .def_prop_ro(
          "operation", [](const OperationCost& self) { return self.name.substr(0, self.name.find(' ')); },
          "Its name in the compiler, for example 'dot_general'; 'map' is a fused elementwise expression.")
      .def_prop_ro(
          "source_line",
          [](const OperationCost& self) {
            const std::size_t space = self.name.find(' ');
            return space == std::string::npos ? std::string() : self.name.substr(space + 1);
          },
          "\"model.py:12 (loss)\", or \"\" when the program carries no location.");
  BindFields<LoopCost>(module, "LoopCost",
                       "A loop whose trip count is known at run time only; it counts as one trip.");
  BindFields<TileUse>(module, "TileUse", "How many bytes a tile holds at its fullest moment.");
  BindFields<TensorUse>(module, "TensorUse",
                        "A tensor on the fullest tile; `lasting`: it keeps its contents between runs.");
  BindFields<TilePeak>(module, "TilePeak", "Bytes of the contents of one tile at its fullest moment.");
  BindFields<Report>(module, "DeviceReport",
                     "Cycles of the main program, bytes on the tiles over all programs.");
}

void SetDeviceConfig(const std::string& version, unsigned num_tiles, const std::vector<int>& device_ids,
                     const std::string& execution, bool use_model, bool monitored,
                     const std::string& usage_folder, bool synthetic_data, bool link,
                     const std::string& trace_planes) {
  DeviceConfig config;
  config.version = version;
  config.num_tiles = num_tiles;
  config.device_ids = device_ids;
  config.execution = execution;
  config.use_model = use_model;
  config.monitored = monitored;
  config.usage_folder = usage_folder;
  config.synthetic_data = synthetic_data;
  config.link = link;
  config.trace_planes = trace_planes;
  Registry::Get().SetDeviceConfig(config);
}

void LimitHost(const std::string& max_isa, int threads, bool machine_code) {
  if (ipu_model::LimitHostKernels(max_isa != "avx2", threads, machine_code)) return;
  throw std::runtime_error(
      "jax_ipu.config.max_isa, host_threads and machine_code were set after kernels of the IPU model had "
      "run. "
      "Set them before the first use of JAX, or set the environment variables JAX_IPU_MAX_ISA, "
      "JAX_IPU_HOST_THREADS and JAX_IPU_MACHINE_CODE.");
}

nb::dict HostKernels() {
  nb::dict chosen;
  const ipu_model::HostKernels kernels = ipu_model::KernelsOfHost();
  chosen["isa"] = kernels.instruction_set;
  chosen["threads"] = kernels.threads;
  return chosen;
}

void BindCompiledGraph(nb::module_& module) {
  BindFields<ImageVariable>(module, "ImageVariable",
                            "The memory of an argument that stays in SRAM between runs of linked programs.");
  BindFields<ImageEntry>(module, "ImageEntry", "One of several linked programs.");
  nb::class_<LinkedHandle>(module, "LinkedProgram", "Several programs with one engine.");
  nb::class_<CompiledGraph>(module, "CompiledGraph")
      .def(
          "as_executable",
          [](const CompiledGraph& self, const nb::kwargs& fields) {
            return MakeExecutable(fields, ipu_model::SerialiseContent(self.executable));
          },
          nb::sig("def as_executable(self, **fields: object) -> Executable"),
          "The Executable with this program and `fields`, without a copy of it in between.")
      .def("as_linked_program", &AsLinkedProgram, nb::arg("name"), nb::arg("target"), nb::arg("variables"),
           nb::arg("entries"), "The programs of the graph, for the runtime: see jax_ipu/compiler/linking.py.")
      .def("cost", &CompiledGraph::Cost)
      .def("memory", &CompiledGraph::Memory)
      .def(
          "communicates",
          [](const CompiledGraph& self, unsigned program) {
            const auto interface = ipu_model::InterfaceOf(self.executable);
            return interface && interface->programs.at(program).communicates;
          },
          nb::arg("program"), "Whether the replicas communicate in this program.")
      .def(
          "report", [](const CompiledGraph& self) { return ipu_model::ReportOf(self.executable); },
          "What the IPU model knows of the program; its fields are explained in ipu_model/Model.hpp.")
      .def(
          "profile", [](const CompiledGraph& self) { return ipu_model::ProfileOf(self.executable); },
          "The same in detail; its fields are explained in ipu_model/Profile.hpp.");
}

void BindPlanning(nb::module_& module) {
  nb::class_<ipu_model::TilePlanCache>(
      module, "TilePlanCache",
      "Plans of operations, shared by programs for one target that are compiled one after the other.")
      .def(nb::init<bool>(), nb::arg("detailed") = false)
      .def_rw("limits_buffers", &ipu_model::TilePlanCache::limits_buffers,
              "Whether an operation whose buffers do not fit is planned again with smaller ones.")
      .def("__len__", [](const ipu_model::TilePlanCache& self) { return self.size(); });
  nb::class_<DeadlineBlock>(module, "Deadline",
                            "In its `with` block, what this thread plans raises OutOfTime after `seconds`, "
                            "also within one operation.")
      .def(nb::init<double>(), nb::arg("seconds"))
      .def("__enter__", [](DeadlineBlock& self) { self.deadline.emplace(self.seconds); })
      .def(
          "__exit__", [](DeadlineBlock& self, const nb::args&) { self.deadline.reset(); },
          nb::sig("def __exit__(self, *error: object) -> None"));
  module.def("check_deadline", &ipu_model::CheckDeadline,
             "Raises OutOfTime where a Deadline of this thread is over.");
  module.def(
      "compile_graph", &CompileGraph, nb::arg("graph"), nb::arg("programs"), nb::arg("name"),
      nb::arg("plans").none() = nb::none(), nb::arg("poll").none() = nb::none(),
      nb::arg("further_mains") = std::vector<unsigned>(),
      nb::sig("def compile_graph(graph: Graph, programs: collections.abc.Sequence[Sequence], name: str, "
              "plans: TilePlanCache | None = None, poll: collections.abc.Callable[[int, int], None] | None "
              "= None, further_mains: collections.abc.Sequence[int] = ()) -> CompiledGraph"),
      "`poll` is called between operations, with how many are planned and how many there are. Raises "
      "OutOfMemory, OutOfTime, and KeyboardInterrupt for Ctrl-C while operations are planned.");
}

// What runs programs, and what the runtime asks Python for.
void BindRuns(nb::module_& module) {
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
  module.def("set_linker", &SetLinker, nb::arg("linker"),
             nb::sig("def set_linker(linker: collections.abc.Callable[[list[tuple[bytes, str, bytes, "
                     "tuple[int, ...]]], str], LinkedProgram]) -> None"),
             "Sets the function that compiles programs which take each other's arrays as one.");
  module.def("set_compiler", &SetCompiler, nb::arg("compiler"),
             nb::sig("def set_compiler(compiler: collections.abc.Callable[[memoryview, str, bytes, str], "
                     "Executable]) "
                     "-> None"));
  module.def("set_device_config", &SetDeviceConfig, nb::arg("version") = "ipu2", nb::arg("num_tiles") = 0,
             nb::arg("device_ids") = std::vector<int>{0}, nb::arg("execution") = "fast",
             nb::arg("use_model") = true, nb::arg("monitored") = true, nb::arg("usage_folder") = "",
             nb::arg("synthetic_data") = false, nb::arg("link") = true, nb::arg("trace_planes") = "custom");
}

// What holds for the process.
void BindHost(nb::module_& module) {
  module.def(
      "log_stage",
      [](const std::string& message) {
        ipu_model::Log(ipu_model::LogModule::kGraph, ipu_model::LogLevel::kDebug, message);
      },
      nb::arg("message"), "Writes a line at level DEBUG of POPLAR_LOG_LEVEL.");
  module.def("limit_host", &LimitHost, nb::arg("max_isa"), nb::arg("threads"), nb::arg("machine_code"));
  module.def(
      "set_stochastic_rounding", &ipu_model::SetStochasticRounding, nb::arg("enabled"), nb::arg("seed"),
      "Whether f16 results of the process are rounded stochastically, and the seed of the generators.");
  module.def("host_kernels", &HostKernels, nb::sig("def host_kernels() -> dict[str, typing.Any]"));
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

}  // namespace

void BindCompile(nb::module_& module) {
  // From now on this process compiles in its own interpreter, not in a compile server.
  Registry::Get().SetCompiler(ImportAndCompile);
  BindReport(module);
  BindIntegers(module);
  BindProfile(module);
  BindCompiledGraph(module);
  BindPlanning(module);
  BindRuns(module);
  BindHost(module);
}

}  // namespace jax_ipu::bindings
