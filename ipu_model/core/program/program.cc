// poplar::program::*: creates program nodes and checks their operands.
#include "poplar/Program.hpp"

#include <algorithm>
#include <utility>

#include "core/graph/graph_impl.h"
#include "core/program/copy.h"
#include "core/program/program_node.h"
#include "ipu_model/Model.hpp"
#include "ipu_model/Profile.hpp"
#include "poplar/exceptions.hpp"

namespace ipu_model {

namespace {

thread_local std::uint32_t current_origin = 0;

// Operations of sequences that a library made, which have no scope, get that of the sequence that takes them.
void InheritScope(const ProgramNode& node, const std::string& scope) {
  if (node.operation != nullptr && node.operation->scope.empty()) node.operation->scope = scope;
  if (node.kind != ProgramKind::kSequence) return;
  for (const auto& child : node.children) InheritScope(*child, scope);
}

}  // namespace

void SetOrigin(std::uint32_t origin) { current_origin = origin; }

std::uint32_t CurrentOrigin() { return current_origin; }

void AddOperation(poplar::program::Sequence& prog, std::unique_ptr<Operation> operation) {
  auto node = std::make_shared<ProgramNode>();
  node->kind = ProgramKind::kOperation;
  node->name = operation->name;
  node->origin = CurrentOrigin();
  operation->scope = prog.node()->scope;
  node->operation = std::move(operation);
  prog.node()->children.push_back(std::move(node));
}

void SetNameScope(poplar::program::Sequence& sequence, const std::string& scope) {
  sequence.node()->scope = scope;
}

}  // namespace ipu_model

namespace poplar::program {

using ipu_model::ProgramKind;
using ipu_model::ProgramNode;

namespace {

std::shared_ptr<ProgramNode> NewNode(ProgramKind kind, const DebugContext& debug_context) {
  auto node = std::make_shared<ProgramNode>();
  node->kind = kind;
  node->name = debug_context.getPathName();
  node->origin = ipu_model::CurrentOrigin();
  return node;
}

std::string Describe(const Tensor& tensor) {
  return tensor.elementType().toString() + tensor.shapeToString();
}

void CheckValid(const Tensor& tensor, const char* what) {
  if (!tensor.valid()) {
    throw control_program_error(std::string(what) + ": the tensor is empty (default-constructed)");
  }
  if (tensor.graph() == nullptr) {
    throw control_program_error(std::string(what) + ": the graph of the tensor is gone");
  }
}

void CheckWriteable(const Tensor& tensor, const char* what) {
  CheckValid(tensor, what);
  if (tensor.containsConstant()) {
    throw control_program_error(std::string(what) + ": the destination " + Describe(tensor) +
                                " is a constant");
  }
  if (tensor.containsAliases()) {
    throw control_program_error(std::string(what) + ": the destination " + Describe(tensor) +
                                " has elements that are the same memory (broadcast)");
  }
}

void CheckScalar(const Tensor& tensor, const char* what) {
  CheckValid(tensor, what);
  const ipu_model::DType type = tensor.elementType().id();
  if (tensor.numElements() != 1 || !(type == ipu_model::DType::kPred || ipu_model::IsInteger(type))) {
    throw control_program_error(std::string(what) + " needs one bool or integer element, not " +
                                Describe(tensor));
  }
}

// A stream or remote buffer, and the tensor that is copied from or to it.
template <typename T>
void CheckGraphOf(const T& made, const Tensor& tensor, const std::string& what) {
  if (made.graphNumber() == 0) throw control_program_error(what + " is empty (default-constructed)");
  if (made.graphNumber() != tensor.graphNumber())
    throw control_program_error(what + " is of another graph than the tensor " + Describe(tensor));
}

void CheckStream(const Tensor& tensor, const DataStream& stream, bool host_to_device) {
  CheckValid(tensor, "Copy");
  CheckGraphOf(stream, tensor, "Copy: the stream '" + stream.handle() + "'");
  if (stream.hostToDevice() != host_to_device) {
    throw control_program_error("Copy: the stream '" + stream.handle() +
                                "' has the wrong direction for this copy");
  }
  if (stream.elementType() != tensor.elementType() || stream.numElements() != tensor.numElements()) {
    throw control_program_error("Copy: the stream '" + stream.handle() + "' of " +
                                std::to_string(stream.numElements()) + " " + stream.elementType().toString() +
                                " does not match the number or type of elements of the tensor " +
                                Describe(tensor));
  }
}

}  // namespace

Program::Program() : node_(std::make_shared<ProgramNode>()) {}

bool Program::isEmpty() const {
  return node_->kind == ProgramKind::kSequence &&
         std::all_of(node_->children.begin(), node_->children.end(), [](const auto& child) {
           return child->kind == ProgramKind::kSequence && child->children.empty();
         });
}

Sequence::Sequence(const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kSequence, debugContext)) {}

Sequence::Sequence(const std::vector<Program>& programs, const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kSequence, debugContext)) {
  for (const Program& p : programs) add(p);
}

void Sequence::add(const Program& program) {
  if (!node_->scope.empty()) ipu_model::InheritScope(*program.node(), node_->scope);
  node_->children.push_back(program.node());
}

void Sequence::add_front(const Program& program) {
  add(program);
  std::rotate(node_->children.begin(), node_->children.end() - 1, node_->children.end());
}

Block::Block(const Program& program, const DebugContext& debugContext) : Sequence(debugContext) {
  node_->block = true;
  add(program);
}

Sync::Sync(SyncType type, const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kSync, debugContext)) {
  node_->count = type == SyncType::INTERNAL ? 0 : 1;
}

AssumeEqualAcrossReplicas::AssumeEqualAcrossReplicas(const Tensor& tensor, const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kSequence, debugContext)) {
  CheckValid(tensor, "AssumeEqualAcrossReplicas");
}

namespace {

// Whether a copy between the tensors, which fit, is one between their metadata as well. Throws where the
// elements would have other values than those of `src`.
bool CopiesMetadata(const Tensor& src, const Tensor& dst) {
  if (!src.hasMetadata() || !dst.hasMetadata()) return false;
  const Tensor from = src.getMetadata(), to = dst.getMetadata();
  if (from.flatten() == to.flatten()) return false;
  if (!to.containsConstant()) return true;
  unsigned char given = 0, kept = 0;
  if (from.getConstantValue(&given) && to.getConstantValue(&kept) && given == kept) return false;
  throw control_program_error("Copy: the metadata of " + Describe(dst) + " is a constant, and that of " +
                              Describe(src) + " is another; make the former a variable");
}

}  // namespace

Copy::Copy(const Tensor& src, const Tensor& dst, bool /*dontOutline*/, const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kOperation, debugContext)) {
  CheckValid(src, "Copy");
  CheckWriteable(dst, "Copy");
  if (src.numElements() != dst.numElements() || src.elementType() != dst.elementType()) {
    throw control_program_error("Copy: " + Describe(src) +
                                " does not match the number or type of elements of " + Describe(dst));
  }
  if (src.graph() != dst.graph()) throw control_program_error("Copy: the tensors are of different graphs");
  if (CopiesMetadata(src, dst)) {
    const Copy metadata(src.getMetadata(), dst.getMetadata(), false, {debugContext, "metadata"});
    const Copy elements(src.reinterpret(UNSIGNED_CHAR), dst.reinterpret(UNSIGNED_CHAR), false, debugContext);
    setNode(NewNode(ProgramKind::kSequence, debugContext));
    node_->children = {metadata.node(), elements.node()};
    return;
  }
  node_->operation = ipu_model::MakeCopy(src, dst);
  node_->operation->name = node_->name;
}

Copy::Copy(const DataStream& stream, const Tensor& dst, bool /*optimiseMemory*/,
           const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kStreamIn, debugContext)) {
  CheckStream(dst, stream, true);
  CheckWriteable(dst, "Copy");
  node_->stream = stream.index();
  node_->graph = stream.graphNumber();
  node_->tensor = dst.pieces();
}

Copy::Copy(const Tensor& src, const DataStream& stream, bool /*optimiseMemory*/,
           const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kStreamOut, debugContext)) {
  CheckStream(src, stream, false);
  node_->stream = stream.index();
  node_->graph = stream.graphNumber();
  node_->tensor = src.pieces();
}

namespace {

// The transfers of a copy between `tensor` and rows of a remote buffer, around the call of the host function
// that moves the rows.
std::vector<std::shared_ptr<ProgramNode>> RemoteCopy(const RemoteBuffer& buffer, const Tensor& tensor,
                                                     const Tensor& offset, bool read,
                                                     const DebugContext& debug_context) {
  CheckValid(tensor, "Copy");
  if (read) CheckWriteable(tensor, "Copy");
  const std::string name = "Copy: the remote buffer '" + buffer.handle() + "'";
  CheckGraphOf(buffer, tensor, name);
  std::size_t rows = 1;
  if (offset.valid()) {
    CheckGraphOf(buffer, offset, name);
    rows = offset.numElements();
    if (offset.elementType() != UNSIGNED_INT && offset.elementType() != INT) {
      throw control_program_error("Copy: the offset into a remote buffer is UNSIGNED_INT or INT, not " +
                                  Describe(offset));
    }
  }
  if (tensor.elementType() != buffer.elementType() || tensor.numElements() != rows * buffer.numElements()) {
    throw control_program_error(
        "Copy: " + std::to_string(rows) + " rows of the remote buffer '" + buffer.handle() + "' of " +
        std::to_string(buffer.numElements()) + " " + buffer.elementType().toString() +
        " do not match the number or type of elements of the tensor " + Describe(tensor));
  }
  // The function is part of the graph, as its streams are.
  auto* const graph = static_cast<ipu_model::GraphImpl*>(const_cast<void*>(tensor.graph()));
  ipu_model::HostFunction function;
  function.name =
      buffer.handle() + (read ? ".read" : ".write") + std::to_string(graph->host_functions.size());
  function.remote_buffer = static_cast<int>(buffer.index());
  const auto stream = [&](const char* what, const Tensor& of, bool host_to_device) {
    graph->streams.push_back({function.name + what, of.elementType().id(),
                              static_cast<std::int64_t>(of.numElements()), host_to_device, true});
    const auto index = static_cast<std::uint32_t>(graph->streams.size() - 1);
    (host_to_device ? function.outputs : function.inputs).push_back(index);
    auto node = NewNode(host_to_device ? ProgramKind::kStreamIn : ProgramKind::kStreamOut, debug_context);
    node->stream = index;
    node->graph = graph->number();
    node->tensor = of.pieces();
    return node;
  };
  std::vector<std::shared_ptr<ProgramNode>> nodes;
  if (offset.valid()) nodes.push_back(stream(".offset", offset, false));
  const auto call = NewNode(ProgramKind::kHostCall, debug_context);
  call->function = static_cast<std::uint32_t>(graph->host_functions.size());
  call->graph = graph->number();
  if (read) {
    nodes.push_back(call);
    nodes.push_back(stream(".data", tensor, true));
  } else {
    nodes.push_back(stream(".data", tensor, false));
    nodes.push_back(call);
  }
  graph->host_functions.push_back(std::move(function));
  return nodes;
}

}  // namespace

Copy::Copy(const RemoteBuffer& buffer, const Tensor& dst, const DebugContext& debugContext)
    : Copy(buffer, dst, Tensor(), debugContext) {}

Copy::Copy(const RemoteBuffer& buffer, const Tensor& dst, const Tensor& offset,
           const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kSequence, debugContext)) {
  node_->children = RemoteCopy(buffer, dst, offset, true, debugContext);
}

Copy::Copy(const Tensor& src, const RemoteBuffer& buffer, const DebugContext& debugContext)
    : Copy(src, buffer, Tensor(), debugContext) {}

Copy::Copy(const Tensor& src, const RemoteBuffer& buffer, const Tensor& offset,
           const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kSequence, debugContext)) {
  node_->children = RemoteCopy(buffer, src, offset, false, debugContext);
}

Repeat::Repeat(unsigned count, const Program& body, const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kRepeat, debugContext)) {
  node_->count = count;
  node_->children = {body.node()};
}

RepeatWhileTrue::RepeatWhileTrue(const Program& cond, const Tensor& predicate, const Program& body,
                                 const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kRepeatWhileTrue, debugContext)) {
  CheckScalar(predicate, "RepeatWhileTrue");
  node_->tensor = predicate.pieces();
  node_->children = {cond.node(), body.node()};
}

RepeatWhileFalse::RepeatWhileFalse(const Program& cond, const Tensor& predicate, const Program& body,
                                   const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kRepeatWhileFalse, debugContext)) {
  CheckScalar(predicate, "RepeatWhileFalse");
  node_->tensor = predicate.pieces();
  node_->children = {cond.node(), body.node()};
}

If::If(const Tensor& predicate, const Program& trueBody, const Program& falseBody,
       const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kIf, debugContext)) {
  CheckScalar(predicate, "If");
  node_->tensor = predicate.pieces();
  node_->children = {trueBody.node(), falseBody.node()};
}

Switch::Switch(const Tensor& control, const std::vector<std::pair<std::int32_t, Program>>& cases,
               const Program& defaultCase, const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kSwitch, debugContext)) {
  CheckScalar(control, "Switch");
  node_->tensor = control.pieces();
  for (const auto& [value, program] : cases) {
    if (std::find(node_->cases.begin(), node_->cases.end(), value) != node_->cases.end()) {
      throw control_program_error("Switch: there are two cases " + std::to_string(value));
    }
    node_->cases.push_back(value);
    node_->children.push_back(program.node());
  }
  node_->children.push_back(defaultCase.node());
}

Switch Switch::switchWithBoundsChecking(const Tensor& control, const Cases& cases,
                                        const DebugContext& debugContext) {
  const std::string& name = debugContext.getPathName();
  return Switch(control, cases,
                Abort("Switch" + (name.empty() ? "" : " '" + name + "'") + ": there is no case for the value",
                      debugContext),
                debugContext);
}

Switch& Switch::add(std::int32_t value, const Program& body) {
  if (std::find(node_->cases.begin(), node_->cases.end(), value) != node_->cases.end())
    throw control_program_error("Switch: there are two cases " + std::to_string(value));
  node_->cases.push_back(value);
  node_->children.insert(node_->children.end() - 1, body.node());
  return *this;
}

Call::Call(const Function& function, const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kCall, debugContext)) {
  if (function.graphNumber() == 0)
    throw control_program_error("Call: the function is empty (default-constructed)");
  node_->function = function.id();
  node_->graph = function.graphNumber();
}

Call::Call(const HostFunction& function, const std::vector<Tensor>& inputs,
           const std::vector<Tensor>& outputs, const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kSequence, debugContext)) {
  if (function.graphNumber() == 0)
    throw control_program_error("Call: the host function is empty (default-constructed)");
  if (inputs.size() != function.inputs().size() || outputs.size() != function.outputs().size()) {
    throw control_program_error("Call: a host function of " + std::to_string(function.inputs().size()) +
                                " inputs and " + std::to_string(function.outputs().size()) +
                                " outputs is given " + std::to_string(inputs.size()) + " and " +
                                std::to_string(outputs.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    node_->children.push_back(Copy(inputs[i], function.inputs()[i], false, debugContext).node());
  }
  const auto call = NewNode(ProgramKind::kHostCall, debugContext);
  call->function = function.index();
  call->graph = function.graphNumber();
  node_->children.push_back(call);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    node_->children.push_back(Copy(function.outputs()[i], outputs[i], false, debugContext).node());
  }
}

WriteUndef::WriteUndef(const Tensor& tensor, const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kWriteUndef, debugContext)) {
  CheckWriteable(tensor, "WriteUndef");
  node_->tensor = tensor.pieces();
}

PrintTensor::PrintTensor(const Tensor& tensor, const DebugContext& debugContext)
    : PrintTensor(debugContext.getPathName().empty() ? "tensor" : debugContext.getPathName(), tensor,
                  debugContext) {}

PrintTensor::PrintTensor(const Tensor& tensor, const PrintTensorFmt& format, const DebugContext& debugContext)
    : PrintTensor(tensor, debugContext) {
  node_->format = format;
}

PrintTensor::PrintTensor(const std::string& title, const Tensor& tensor, const PrintTensorFmt& format,
                         const DebugContext& debugContext)
    : PrintTensor(title, tensor, debugContext) {
  node_->format = format;
}

PrintTensor::PrintTensor(const std::string& title, const Tensor& tensor, const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kPrint, debugContext)) {
  CheckValid(tensor, "PrintTensor");
  node_->text = title;
  node_->tensor = tensor.pieces();
  node_->shape.assign(tensor.shape().begin(), tensor.shape().end());
}

namespace {
std::string AbortMessage(const DebugContext& debug_context) {
  const std::string& name = debug_context.getPathName();
  return "the program aborted" + (name.empty() ? "" : ": " + name);
}
}  // namespace

Abort::Abort(const DebugContext& debugContext) : Abort(AbortMessage(debugContext), debugContext) {}

Abort::Abort(const std::string& message, const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kAbort, debugContext)) {
  node_->text = message;
}

ErrorProgram::ErrorProgram(const std::string& message, const Tensor& debugTensor,
                           const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kSequence, debugContext)) {
  node_->children = {PrintTensor(message, debugTensor, debugContext).node(),
                     Abort(message, debugContext).node()};
}

AbortOnCondition::AbortOnCondition(const Tensor& predicate, const DebugContext& debugContext)
    : AbortOnCondition(predicate, AbortMessage(debugContext), debugContext) {}

AbortOnCondition::AbortOnCondition(const Tensor& predicate, const std::string& message,
                                   const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kAbort, debugContext)) {
  CheckScalar(predicate, "AbortOnCondition");
  node_->tensor = predicate.pieces();
  node_->text = message;
}

}  // namespace poplar::program
