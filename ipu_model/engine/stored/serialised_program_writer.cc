// Writes the serialised form of a compiled program.
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/graph/codelet_file.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "engine/program/field_io.h"
#include "engine/report/device_report.h"
#include "engine/stored/serialised_program.h"
#include "ipu_model/Stored.hpp"

namespace ipu_model {

namespace {

using NodeNumbers = std::unordered_map<const ProgramNode*, std::uint32_t>;

void WriteNode(Writer* writer, const ProgramNode& node, const NodeNumbers& numbers) {
  writer->Write(node.kind);
  writer->Write(node.name);
  std::vector<std::uint32_t> children;
  for (const auto& child : node.children) children.push_back(numbers.at(child.get()));
  writer->Write(children);
  if (node.kind == ProgramKind::kOperation) {
    const Operation& operation = *node.operation;
    writer->Write(operation.kind());
    writer->Write(operation.name);
    writer->Write(operation.scope);
    writer->Write(operation.inputs);
    writer->Write(operation.outputs);
    operation.Write(*writer);
  }
  writer->Write(node.tensor);
  writer->Write(node.shape);
  writer->Write(node.stream);
  writer->Write(node.function);
  writer->Write(static_cast<std::int64_t>(node.count));
  writer->Write(node.cases);
  writer->Write(node.text);
  if (node.kind != ProgramKind::kPrint) return;
  const poplar::PrintTensorFmt& format = node.format;
  for (const unsigned number : {format.summariseThreshold, format.edgeItems, format.maxLineWidth,
                                format.digits, static_cast<unsigned>(format.floatFormat)})
    writer->Write(static_cast<std::uint32_t>(number));
  writer->Write(std::string{format.separator, format.openBracket, format.closeBracket});
}

// Large pieces of what a writer writes. The writer notes only where they belong, and PutInto copies each
// once, into a string that has its final size from the start.
class RawBytes {
 public:
  // As Writer::WriteBytes.
  void Add(Writer* writer, const void* data, std::size_t size) {
    writer->Write(size);
    pieces_.push_back({writer->data().size(), {static_cast<const char*>(data), size}});
    total_ += size;
  }

  std::string PutInto(const std::string& written) const {
    std::string all;
    all.reserve(written.size() + total_);
    std::size_t begin = 0;
    for (const Piece& piece : pieces_) {
      all.append(written, begin, piece.position - begin).append(piece.bytes);
      begin = piece.position;
    }
    all.append(written, begin, std::string::npos);
    return all;
  }

 private:
  struct Piece {
    std::size_t position;
    std::string_view bytes;
  };
  std::vector<Piece> pieces_;
  std::size_t total_ = 0;
};

}  // namespace

std::string SerialiseBody(const CompiledProgram& program) {
  Writer body;
  RawBytes constants;
  body.Write(program.target.getTargetArchString());
  body.Write(program.target.getTilesPerIPU());
  FieldWriter{body}.Put(ChangesOf(program.target.model()));
  body.Write(program.io_tiles);
  body.Write(program.replication_factor);
  body.Write(program.variables.size());
  for (const Variable& v : program.variables) {
    body.Write(v.type);
    body.Write(v.shape);
    body.Write(v.name);
    body.Write(v.mapping, v.num_elements);
    body.Write(v.constant != nullptr);
    if (v.constant != nullptr) constants.Add(&body, v.constant->data(), v.constant->size());
    body.Write(v.is_replica_index);
  }
  body.Write(program.streams.size());
  for (const Stream& s : program.streams) {
    body.Write(s.name);
    body.Write(s.type);
    body.Write(s.num_elements);
    body.Write(s.host_to_device);
    body.Write(s.remote);
    body.Write(s.broadcast);
  }
  body.Write(program.remote_buffers.size());
  for (const RemoteBuffer& b : program.remote_buffers) {
    body.Write(b.name);
    body.Write(b.type);
    body.Write(b.num_elements);
    body.Write(b.rows);
  }
  body.Write(program.host_functions.size());
  for (const HostFunction& f : program.host_functions) {
    body.Write(f.name);
    body.Write(f.inputs);
    body.Write(f.outputs);
    body.Write(static_cast<std::int64_t>(f.remote_buffer));
  }
  body.Write(program.codelets.size());
  for (const auto& library : program.codelets) WriteSource(&body, library->source());
  std::vector<std::shared_ptr<const ProgramNode>> roots = program.programs;
  roots.insert(roots.end(), program.functions.begin(), program.functions.end());
  const std::vector<const ProgramNode*> nodes = NodesOf(roots);
  NodeNumbers numbers;
  body.Write(nodes.size());
  for (const ProgramNode* node : nodes) {
    WriteNode(&body, *node, numbers);
    numbers.emplace(node, static_cast<std::uint32_t>(numbers.size()));
  }
  for (const auto* list : {&program.programs, &program.functions}) {
    std::vector<std::uint32_t> indices;
    for (const auto& root : *list) indices.push_back(numbers.at(root.get()));
    body.Write(indices);
  }
  body.Write(program.host_handles.size());
  for (const HostHandle& handle : program.host_handles) {
    body.Write(handle.name);
    body.Write(handle.write);
    body.Write(handle.stream);
    body.Write(handle.program);
    body.Write(handle.initial);
  }
  WriteReport(body, program.report);
  body.Write(program.host_nanoseconds);
  body.Write(program.further_mains.size());
  for (const FurtherMain& main : program.further_mains) {
    body.Write(main.program);
    WriteReport(body, main.report);
    body.Write(main.host_nanoseconds);
  }
  return constants.PutInto(body.data());
}

}  // namespace ipu_model
