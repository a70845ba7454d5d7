// poplar::program::dumpProgram, and what poplar::Graph writes for readers: graphs of operations and of
// vertices.
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "core/graph/compute_set.h"
#include "core/graph/graph_impl.h"
#include "core/json.h"
#include "core/program/execute.h"
#include "core/program/program_node.h"
#include "poplar/Program.hpp"

namespace poplar::program {
namespace {

using ipu_model::ProgramKind;
using ipu_model::ProgramNode;

const char* NameOf(const ProgramNode& node) {
  switch (node.kind) {
    case ProgramKind::kSequence:
      return "Sequence";
    case ProgramKind::kOperation:
      return node.operation->kind() == "poplar::copy" ? "Copy" : "Execute";
    case ProgramKind::kStreamIn:
    case ProgramKind::kStreamOut:
      return "StreamCopy";
    case ProgramKind::kRepeat:
      return "Repeat";
    case ProgramKind::kRepeatWhileTrue:
      return "RepeatWhileTrue";
    case ProgramKind::kRepeatWhileFalse:
      return "RepeatWhileFalse";
    case ProgramKind::kIf:
      return "If";
    case ProgramKind::kSwitch:
      return "Switch";
    case ProgramKind::kCall:
      return "Call";
    case ProgramKind::kWriteUndef:
      return "WriteUndef";
    case ProgramKind::kPrint:
      return "PrintTensor";
    case ProgramKind::kAbort:
      return "Abort";
    case ProgramKind::kHostCall:
      return "HostCall";
    case ProgramKind::kSync:
      return "Sync";
    case ProgramKind::kCount:
      break;
  }
  return "";
}

void Dump(const ProgramNode& node, const std::string& indent, std::ostream& out) {
  out << indent << "{\"type\":" << ipu_model::QuotedJson(NameOf(node))
      << ",\"name\":" << ipu_model::QuotedJson(node.name);
  if (node.kind == ProgramKind::kRepeat) out << ",\"count\":" << node.count;
  if (node.kind == ProgramKind::kCall) out << ",\"function\":" << node.function;
  if (!node.children.empty()) {
    out << ",\"children\":[";
    const char* separator = "\n";
    for (const auto& child : node.children) {
      out << separator;
      Dump(*child, indent + "  ", out);
      separator = ",\n";
    }
    out << "]";
  }
  out << "}";
}

}  // namespace

void dumpProgram(const Graph& /*graph*/, const Program& program, std::ostream& out) {
  Dump(*program.node(), "", out);
  out << "\n";
}

}  // namespace poplar::program

namespace poplar {
namespace {

// Writes the operations below a node, each with the variables that it reads and writes.
void WriteOperations(const ipu_model::GraphImpl& graph, const ipu_model::ProgramNode& node, unsigned* count,
                     std::set<ipu_model::VariableId>* shown, std::ostream& out) {
  if (node.operation != nullptr) {
    const std::string number = "op" + std::to_string((*count)++);
    const std::string name = node.name.empty() ? node.operation->name : node.name;
    out << "  " << number << " [shape=box,label=" << ipu_model::QuotedJson(name) << "];\n";
    const auto variable = [&](const ipu_model::View& view) {
      const std::string shown_as = "v" + std::to_string(view.variable);
      if (shown->insert(view.variable).second) {
        out << "  " << shown_as << " [label=" << ipu_model::QuotedJson(graph.variables.at(view.variable).name)
            << "];\n";
      }
      return shown_as;
    };
    for (const auto& view : node.operation->inputs)
      out << "  " << variable(view) << " -> " << number << ";\n";
    for (const auto& view : node.operation->outputs)
      out << "  " << number << " -> " << variable(view) << ";\n";
  }
  for (const auto& child : node.children) WriteOperations(graph, *child, count, shown, out);
}

}  // namespace

void Graph::outputComputeGraph(std::ostream& out, const std::vector<program::Program>& programs) const {
  unsigned count = 0;
  std::set<ipu_model::VariableId> shown;
  out << "digraph compute_graph {\n";
  for (const program::Program& program : programs)
    WriteOperations(*impl_, *program.node(), &count, &shown, out);
  out << "}\n";
}

namespace {

// The vertices of a compute set, each with the variables that its fields are connected to.
void WriteVertices(const ipu_model::GraphImpl& graph, const ipu_model::ComputeSetData& set,
                   std::set<unsigned>* shown, std::ostream& out) {
  for (std::size_t v = 0; v < set.vertices.size(); ++v) {
    const ipu_model::VertexState& vertex = set.vertices[v];
    const std::string number = "cs" + std::to_string(set.id) + "_" + std::to_string(v);
    std::string label = std::string(vertex.type->name) + " of " + set.name;
    if (vertex.tile) label += ", tile " + std::to_string(*vertex.tile);
    out << "  " << number << " [shape=box,label=" << ipu_model::QuotedJson(label) << "];\n";
    for (std::size_t f = 0; f < vertex.fields.size(); ++f) {
      const ipu_model::codelet::Field& field = vertex.type->fields[f];
      std::set<unsigned> variables;
      for (const Tensor& edge : vertex.fields[f].edges) {
        if (!edge.valid()) continue;
        for (const VariableInterval& region : edge.getVarRegions()) variables.insert(region.var.id());
      }
      for (const unsigned id : variables) {
        const std::string variable = "v" + std::to_string(id), name = ipu_model::QuotedJson(field.name);
        if (shown->insert(id).second)
          out << "  " << variable << " [label=" << ipu_model::QuotedJson(graph.variables.at(id).name)
              << "];\n";
        if (field.direction != ipu_model::codelet::kWrite)
          out << "  " << variable << " -> " << number << " [label=" << name << "];\n";
        if (field.direction != ipu_model::codelet::kRead)
          out << "  " << number << " -> " << variable << " [label=" << name << "];\n";
      }
    }
  }
}

void WriteComputeSets(const ipu_model::GraphImpl& graph, const ipu_model::ProgramNode& node,
                      std::set<const ipu_model::ComputeSetData*>* written, std::set<unsigned>* shown,
                      std::ostream& out) {
  if (const auto* execute = dynamic_cast<const ipu_model::Execute*>(node.operation.get())) {
    if (execute->set() != nullptr && written->insert(execute->set()).second)
      WriteVertices(graph, *execute->set(), shown, out);
  }
  for (const auto& child : node.children) WriteComputeSets(graph, *child, written, shown, out);
}

}  // namespace

void Graph::outputVertexGraph(std::ostream& out, const std::vector<program::Program>& programs) const {
  std::set<const ipu_model::ComputeSetData*> written;
  std::set<unsigned> shown;
  out << "digraph vertex_graph {\n";
  for (const program::Program& program : programs)
    WriteComputeSets(*impl_, *program.node(), &written, &shown, out);
  out << "}\n";
}

}  // namespace poplar
