// Python: Target, Graph, Tensor, DataStream, Function and Sequence, the part of Poplar that the compiler
// uses.
#include <algorithm>
#include <stdexcept>
#include <unordered_map>

#include "bindings/bindings.h"
#include "hlo/CycleStamp.hpp"
#include "ipu_model/Blocks.hpp"
#include "ipu_model/Chips.hpp"
#include "ipu_model/FirstTile.hpp"
#include "ipu_model/IoTiles.hpp"
#include "ipu_model/Model.hpp"
#include "ipu_model/Replicas.hpp"
#include "ipu_model/Stacks.hpp"
#include "poplar/Target.hpp"
#include "poputil/TileMapping.hpp"

namespace jax_ipu::bindings {

namespace program = poplar::program;
using poplar::Graph;
using poplar::Tensor;
using program::Sequence;
using Shape = std::vector<std::size_t>;

poplar::Type TypeNamed(const std::string& name) {
  static const std::unordered_map<std::string, ipu_model::DType> table = [] {
    std::unordered_map<std::string, ipu_model::DType> types;
    for (int i = 0; i < static_cast<int>(ipu_model::DType::kCount); ++i)
      types.emplace(ipu_model::NameOf(static_cast<ipu_model::DType>(i)), static_cast<ipu_model::DType>(i));
    return types;
  }();
  const auto found = table.find(name);
  if (found == table.end()) throw std::invalid_argument("unknown element type '" + name + "'");
  return ipu_model::TypeOf(found->second);
}

poplar::OptionFlags FlagsOf(const Options& options) {
  poplar::OptionFlags flags;
  for (const auto& [name, value] : options) flags.set(name, value);
  return flags;
}

void CheckCount(std::size_t count, std::size_t dims, const char* what) {
  if (count != dims) {
    throw std::invalid_argument(std::string(what) + " has " + std::to_string(count) + " entries for " +
                                std::to_string(dims) + " dimensions");
  }
}

namespace {

// A view of Python's memory, while this lives.
struct Buffer {
  explicit Buffer(const nb::handle& object) {
    if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { PyBuffer_Release(&view); }
  Py_buffer view{};
};

Tensor AddConstant(Graph& graph, const std::string& dtype, const Shape& shape, const nb::object& data,
                   const std::string& name) {
  const poplar::Type type = TypeNamed(dtype);
  std::size_t bytes = ipu_model::SizeOf(ipu_model::DTypeOf(type));
  for (std::size_t d : shape) bytes *= d;
  const Buffer buffer(data);
  const auto size = static_cast<std::size_t>(buffer.view.len);
  if (bytes != size)
    throw std::invalid_argument("constant '" + name + "' needs " + std::to_string(bytes) + " bytes, got " +
                                std::to_string(size));
  return graph.addConstant(type, shape, static_cast<const void*>(buffer.view.buf), name);
}

std::vector<std::vector<std::pair<std::size_t, std::size_t>>> GetTileMapping(Graph& graph,
                                                                             const Tensor& tensor) {
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> result;
  for (const auto& intervals : graph.getTileMapping(tensor, false)) {
    auto& tile = result.emplace_back();
    for (const poplar::Interval& interval : intervals) tile.emplace_back(interval.begin(), interval.end());
  }
  return result;
}

std::vector<std::size_t> ElementsOnTiles(Graph& graph, const Tensor& tensor) {
  std::vector<std::size_t> result;
  for (const auto& intervals : graph.getTileMapping(tensor, false)) {
    std::size_t& count = result.emplace_back(0);
    for (const poplar::Interval& interval : intervals) count += interval.size();
  }
  return result;
}

void BindTarget(nb::module_& module) {
  using poplar::Target;
  nb::class_<Target>(module, "Target")
      .def(
          "__init__",
          [](Target* self, const std::string& version, unsigned num_tiles) {
            new (self) Target(num_tiles == 0 ? Target::createIPUTarget(1, version)
                                             : Target::createIPUTarget(1, num_tiles, version));
          },
          nb::arg("version"), nb::arg("num_tiles") = 0)
      .def_prop_ro("num_tiles", &Target::getNumTiles)
      .def_prop_ro("bytes_per_tile", &Target::getBytesPerTile)
      .def_prop_ro("num_worker_contexts", &Target::getNumWorkerContexts)
      .def_prop_ro("tile_clock_frequency", &Target::getTileClockFrequency)
      .def_prop_ro("local_copy_call_cycles", &ipu_model::LocalCopyCallCycles)
      .def_prop_ro("code_bytes_per_tile", &ipu_model::CodeBytesPerTile,
                   "Of each tile's memory, the bytes that instructions can be in.")
      .def_prop_ro("exchange_bytes_per_cycle", &Target::getExchangeBytesPerCycle, "Of one tile.")
      .def_prop_ro("peak_flops", &ipu_model::PeakFlops, "Per second, of the matrix units with f16 operands.")
      .def_prop_ro("host_link_bytes_per_second", &ipu_model::HostLinkBytesPerSecond, "In one direction.")
      .def_prop_ro("ipu_link_bytes_per_second", &ipu_model::IpuLinkBytesPerSecond,
                   "To each neighbour in the ring of IPUs, in one direction.")
      .def(
          "streaming_memory_bytes", &ipu_model::StreamingMemoryBytes, nb::arg("ipus"),
          "Of each of so many IPUs, which share that of a machine; 0 where there is none, or its size is not "
          "known.")
      .def_prop_ro("cycles_between_stamps", &hlo::cyclesBetweenStamps, "Of two cycle stamps in a row.")
      .def("host_link_cycles", &ipu_model::HostLinkCycles, nb::arg("transfers"), nb::arg("bytes"),
           "Cycles of copies between host and IPU, in one direction, of so many bytes together.")
      .def_prop_ro("version", [](const Target& target) { return std::string(target.getTargetArchString()); });
  module.def("chip_names", &ipu_model::ChipNames, "The architectures of `Target`, the oldest first.");
  module.def("most_tiles", &ipu_model::MostTiles, "The most tiles that one of them has.");
}

void BindTensor(nb::module_& module) {
  nb::class_<Tensor>(module, "Tensor")
      .def_prop_ro(
          "shape", [](const Tensor& t) { return nb::tuple(nb::cast(t.shape())); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "dtype",
          [](const Tensor& t) { return std::string(ipu_model::NameOf(ipu_model::DTypeOf(t.elementType()))); })
      .def_prop_ro("num_elements", &Tensor::numElements)
      .def_prop_ro("is_strided", &ipu_model::IsStrided)
      .def_prop_ro("is_row_major", &ipu_model::IsRowMajor)
      .def(
          "is_same_view", [](const Tensor& t, const Tensor& other) { return t == other; }, nb::arg("other"))
      .def(
          "slice",
          [](const Tensor& t, const Shape& begins, const Shape& ends) { return t.slice(begins, ends); },
          nb::arg("begins"), nb::arg("ends"))
      .def("sub_sample", &Tensor::subSample, nb::arg("stride"), nb::arg("dim"))
      .def("reverse", &Tensor::reverse, nb::arg("dim"))
      .def("reshape", &Tensor::reshape, nb::arg("shape"))
      .def("dim_shuffle", &Tensor::dimShuffle, nb::arg("permutation"))
      .def("broadcast", &Tensor::broadcast, nb::arg("n"), nb::arg("dim"))
      .def("expand", &Tensor::expand, nb::arg("dims"))
      .def(
          "reinterpret",
          [](const Tensor& t, const std::string& dtype) { return t.reinterpret(TypeNamed(dtype)); },
          nb::arg("dtype"));
  module.def(
      "concat", [](const std::vector<Tensor>& tensors, unsigned dim) { return poplar::concat(tensors, dim); },
      nb::arg("tensors"), nb::arg("dim"));
}

void BindSequence(nb::module_& module) {
  nb::class_<Sequence>(module, "Sequence")
      .def(
          "__init__", [](Sequence* self, const std::string& name) { new (self) Sequence(name); },
          nb::arg("name") = "")
      .def(
          "add", [](Sequence& self, const Sequence& other) { self.add(other); }, nb::arg("sequence"))
      .def("set_name_scope", &ipu_model::SetNameScope, nb::arg("scope"))
      .def(
          "copy",
          [](Sequence& self, const Tensor& src, const Tensor& dst, const std::string& name) {
            // Nothing to copy where a loop updated its carried value in place: both have the same elements.
            if (src != dst) self.add(program::Copy(src, dst, false, name));
          },
          nb::arg("src"), nb::arg("dst"), nb::arg("name"))
      .def(
          "stream_in",
          [](Sequence& self, const poplar::DataStream& stream, const Tensor& dst, const std::string& name) {
            self.add(program::Copy(stream, dst, false, name));
          },
          nb::arg("stream"), nb::arg("dst"), nb::arg("name"))
      .def(
          "stream_out",
          [](Sequence& self, const Tensor& src, const poplar::DataStream& stream, const std::string& name) {
            self.add(program::Copy(src, stream, false, name));
          },
          nb::arg("src"), nb::arg("stream"), nb::arg("name"))
      .def(
          "remote_read",
          [](Sequence& self, const poplar::RemoteBuffer& buffer, const Tensor& dst, const Tensor& rows,
             const std::string& name) { self.add(program::Copy(buffer, dst, rows, name)); },
          nb::arg("buffer"), nb::arg("dst"), nb::arg("rows"), nb::arg("name"))
      .def(
          "remote_write",
          [](Sequence& self, const Tensor& src, const poplar::RemoteBuffer& buffer, const Tensor& rows,
             const std::string& name) { self.add(program::Copy(src, buffer, rows, name)); },
          nb::arg("src"), nb::arg("buffer"), nb::arg("rows"), nb::arg("name"))
      .def(
          "repeat",
          [](Sequence& self, unsigned count, const Sequence& body) {
            self.add(program::Repeat(count, body));
          },
          nb::arg("count"), nb::arg("body"))
      .def(
          "repeat_while_true",
          [](Sequence& self, const Sequence& cond, const Tensor& predicate, const Sequence& body) {
            self.add(program::RepeatWhileTrue(cond, predicate, body));
          },
          nb::arg("cond"), nb::arg("predicate"), nb::arg("body"))
      .def(
          "branch",
          [](Sequence& self, const Tensor& predicate, const Sequence& on_true, const Sequence& on_false) {
            self.add(program::If(predicate, on_true, on_false));
          },
          nb::arg("predicate"), nb::arg("true_sequence"), nb::arg("false_sequence"))
      .def(
          "switch",
          [](Sequence& self, const Tensor& control,
             const std::vector<std::pair<std::int32_t, Sequence>>& cases, const Sequence& default_case) {
            std::vector<std::pair<std::int32_t, program::Program>> programs(cases.begin(), cases.end());
            self.add(program::Switch(control, programs, default_case));
          },
          nb::arg("control"), nb::arg("cases"), nb::arg("default_case"))
      .def(
          "call", [](Sequence& self, const poplar::Function& function) { self.add(program::Call(function)); },
          nb::arg("function"))
      .def(
          "call_host",
          [](Sequence& self, const poplar::HostFunction& function, const std::vector<Tensor>& inputs,
             const std::vector<Tensor>& outputs,
             const std::string& name) { self.add(program::Call(function, inputs, outputs, name)); },
          nb::arg("function"), nb::arg("inputs"), nb::arg("outputs"), nb::arg("name"))
      .def(
          "write_undef", [](Sequence& self, const Tensor& t) { self.add(program::WriteUndef(t)); },
          nb::arg("tensor"))
      .def(
          "print_tensor",
          [](Sequence& self, const std::string& title, const Tensor& t) {
            self.add(program::PrintTensor(title, t));
          },
          nb::arg("title"), nb::arg("tensor"));
}

// A clone has the memory order of a strided view, and is row-major for any other tensor: operations take
// strided views only.
poplar::TensorCloneMethod MethodFor(const Tensor& tensor) {
  return ipu_model::IsStrided(tensor) ? poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES
                                      : poplar::TensorCloneMethod::CREATE_NEW_ORDER;
}

}  // namespace

void BindGraph(nb::module_& module) {
  BindTarget(module);
  BindTensor(module);
  nb::class_<poplar::DataStream>(module, "DataStream").def_prop_ro("handle", [](const poplar::DataStream& s) {
    return s.handle();
  });
  nb::class_<poplar::RemoteBuffer>(module, "RemoteBuffer");
  nb::class_<poplar::Function>(module, "Function");
  nb::class_<poplar::HostFunction>(module, "HostFunction");
  BindSequence(module);
  nb::class_<Graph>(module, "Graph")
      .def(
          "__init__",
          [](Graph* self, const poplar::Target& target, unsigned replicas, unsigned io_tiles) {
            new (self)
                Graph(ipu_model::GraphWithIoTiles(ipu_model::TargetOfReplicas(target, std::max(replicas, 1u)),
                                                  poplar::replication_factor(replicas), io_tiles));
          },
          nb::arg("target"), nb::arg("replication_factor") = 1, nb::arg("io_tiles") = 0)
      .def_prop_ro("replication_factor", &Graph::getReplicationFactor)
      .def(
          "add_replication_index_constant",
          [](Graph& graph, const std::string& name) { return graph.addReplicationIndexConstant(name); },
          nb::arg("name"))
      .def(
          "add_variable",
          [](Graph& graph, const std::string& dtype, const Shape& shape, const std::string& name) {
            return graph.addVariable(TypeNamed(dtype), shape, name);
          },
          nb::arg("dtype"), nb::arg("shape"), nb::arg("name"))
      .def("add_constant", &AddConstant, nb::arg("dtype"), nb::arg("shape"), nb::arg("data"), nb::arg("name"),
           nb::sig("def add_constant(self, dtype: str, shape: collections.abc.Sequence[int], "
                   "data: bytes | memoryview, name: str) -> Tensor"))
      .def(
          "clone",
          [](Graph& graph, const Tensor& tensor, const std::string& name) {
            return graph.clone(tensor, name, MethodFor(tensor));
          },
          nb::arg("tensor"), nb::arg("name"))
      .def(
          "clone_as",
          [](Graph& graph, const std::string& dtype, const Tensor& tensor, const std::string& name,
             bool new_order) {
            const auto method = new_order ? poplar::TensorCloneMethod::CREATE_NEW_ORDER : MethodFor(tensor);
            return graph.clone(TypeNamed(dtype), tensor, name, method);
          },
          nb::arg("dtype"), nb::arg("tensor"), nb::arg("name"), nb::arg("new_order") = false)
      .def(
          "set_tile_mapping",
          [](Graph& graph, const Tensor& tensor, unsigned tile) { graph.setTileMapping(tensor, tile); },
          nb::arg("tensor"), nb::arg("tile"))
      .def("get_tile_mapping", &GetTileMapping, nb::arg("tensor"))
      .def("elements_on_tiles", &ElementsOnTiles, nb::arg("tensor"))
      .def(
          "map_linearly",
          [](Graph& graph, const Tensor& tensor, unsigned first_tile) {
            poputil::mapTensorLinearlyWithOffset(graph, tensor, first_tile);
          },
          nb::arg("tensor"), nb::arg("first_tile") = 0)
      .def("start_at", &ipu_model::StartLinearMappingsAt, nb::arg("tile"),
           "From now on, mappings that operations choose start at this tile.")
      .def("map_in_blocks", &ipu_model::MapInBlocks, nb::arg("tensor"), nb::arg("parts"),
           "Cuts each dimension into so many parts, and puts one block on each tile.")
      .def("stack_like", &ipu_model::StackLike, nb::arg("item"), nb::arg("count"), nb::arg("name"),
           "A new variable of so many items, each mapped like this one.")
      .def("map_to_io_tiles", &ipu_model::MapToIoTiles, nb::arg("tensor"), nb::arg("io_tiles"))
      .def(
          "add_host_to_device_fifo",
          [](Graph& graph, const std::string& name, const std::string& dtype, std::size_t n) {
            return graph.addHostToDeviceFIFO(name, TypeNamed(dtype), n);
          },
          nb::arg("name"), nb::arg("dtype"), nb::arg("num_elements"))
      .def(
          "add_device_to_host_fifo",
          [](Graph& graph, const std::string& name, const std::string& dtype, std::size_t n) {
            return graph.addDeviceToHostFIFO(name, TypeNamed(dtype), n);
          },
          nb::arg("name"), nb::arg("dtype"), nb::arg("num_elements"))
      .def(
          "add_remote_buffer",
          [](Graph& graph, const std::string& name, const std::string& dtype, std::size_t n,
             std::size_t rows) { return graph.addRemoteBuffer(name, TypeNamed(dtype), n, rows); },
          nb::arg("name"), nb::arg("dtype"), nb::arg("num_elements"), nb::arg("rows"))
      .def(
          "add_host_function",
          [](Graph& graph, const std::string& name,
             const std::vector<std::pair<std::string, std::size_t>>& inputs,
             const std::vector<std::pair<std::string, std::size_t>>& outputs) {
            const auto arguments = [](const std::vector<std::pair<std::string, std::size_t>>& named) {
              std::vector<Graph::HostFunctionArgument> typed;
              for (const auto& [dtype, n] : named) typed.emplace_back(TypeNamed(dtype), n);
              return typed;
            };
            return graph.addHostFunction(name, arguments(inputs), arguments(outputs));
          },
          nb::arg("name"), nb::arg("inputs"), nb::arg("outputs"))
      .def(
          "add_function", [](Graph& graph, const Sequence& body) { return graph.addFunction(body); },
          nb::arg("sequence"));
}

}  // namespace jax_ipu::bindings
