// Programs as stored data, and their interface: streams, variables, host functions.
#include "ipu_model/Stored.hpp"

#include <set>

#include "core/operation/replica_operation.h"
#include "core/operation/serialise.h"
#include "engine/program/compiled_program.h"
#include "engine/stored/serialised_program.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

// The streams and variables that the nodes of one program use, with the functions that it calls.
class Uses {
 public:
  Uses(const CompiledProgram& program, const std::set<std::uint32_t>& own_streams,
       const std::shared_ptr<const ProgramNode>& root)
      : own_streams_(own_streams) {
    std::vector<std::shared_ptr<const ProgramNode>> open = {root};
    std::set<std::uint32_t> functions;
    while (!open.empty()) {
      const std::vector<const ProgramNode*> nodes = NodesOf({open.back()});
      open.pop_back();
      for (const ProgramNode* node : nodes) {
        Add(*node);
        if (node->kind == ProgramKind::kCall && functions.insert(node->function).second) {
          open.push_back(program.functions[node->function]);
        }
      }
    }
  }
  ProgramInterface::Program Take() const {
    return {{streams_.begin(), streams_.end()}, {variables_.begin(), variables_.end()}, communicates_};
  }

 private:
  void Add(const ProgramNode& node) {
    AddViews(node.tensor);
    if (node.kind == ProgramKind::kStreamIn || node.kind == ProgramKind::kStreamOut) {
      if (own_streams_.count(node.stream) == 0) streams_.insert(node.stream);
    }
    if (node.operation == nullptr) return;
    communicates_ |= dynamic_cast<const ReplicaOperation*>(node.operation.get()) != nullptr;
    AddViews(node.operation->inputs);
    AddViews(node.operation->outputs);
  }
  void AddViews(const std::vector<View>& views) {
    for (const View& view : views) variables_.insert(view.variable);
  }

  const std::set<std::uint32_t>& own_streams_;  // of host functions: the engine connects them
  std::set<std::uint32_t> streams_, variables_;
  bool communicates_ = false;
};

std::uint64_t BytesOf(const Stream& stream) {
  return static_cast<std::uint64_t>(stream.num_elements) * SizeOf(stream.type);
}

}  // namespace

std::string SerialiseContent(const poplar::Executable& executable) {
  return SerialiseBody(*executable.program());
}

poplar::Executable DeserialiseContent(std::string_view content, bool compile_codelets) {
  try {
    return poplar::Executable(DeserialiseBody(content, compile_codelets));
  } catch (const SerialiseError& error) {
    throw poplar::poplar_error(error.what());
  }
}

std::optional<ProgramInterface> InterfaceOf(const poplar::Executable& executable) {
  const CompiledProgram& program = *executable.program();
  ProgramInterface interface;
  interface.architecture = program.target.getTargetArchString();
  interface.num_tiles = program.target.getNumTiles();
  interface.replication_factor = program.replication_factor;
  for (const Stream& s : program.streams) {
    interface.streams.push_back(
        {s.name, NameOf(s.type), static_cast<std::uint64_t>(s.num_elements), BytesOf(s), s.host_to_device});
  }
  for (const RemoteBuffer& b : program.remote_buffers) {
    const auto elements = static_cast<std::uint64_t>(b.num_elements) * static_cast<std::uint64_t>(b.rows);
    interface.remote_buffers.push_back({b.name, NameOf(b.type), elements * SizeOf(b.type)});
  }
  std::set<std::uint32_t> own_streams;
  for (const HostFunction& f : program.host_functions) {
    own_streams.insert(f.inputs.begin(), f.inputs.end());
    own_streams.insert(f.outputs.begin(), f.outputs.end());
    if (f.remote_buffer >= 0) {
      auto& buffer = interface.remote_buffers[static_cast<std::size_t>(f.remote_buffer)];
      (f.outputs.empty() ? buffer.is_written : buffer.is_read) = true;
      continue;
    }
    ProgramInterface::HostFunction function{f.name, {}, {}};
    for (const std::uint32_t s : f.inputs) function.input_bytes.push_back(BytesOf(program.streams[s]));
    for (const std::uint32_t s : f.outputs) function.output_bytes.push_back(BytesOf(program.streams[s]));
    interface.host_functions.push_back(std::move(function));
  }
  for (const auto& root : program.programs) {
    interface.programs.push_back(Uses(program, own_streams, root).Take());
  }
  return interface;
}

}  // namespace ipu_model
