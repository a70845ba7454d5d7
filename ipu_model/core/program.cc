// poplar::program::*: creates program nodes and checks their operands.
#include "poplar/Program.hpp"

#include <algorithm>
#include <utility>

#include "core/copy.h"
#include "core/graph_impl.h"
#include "core/program_node.h"
#include "ipu_model/Model.hpp"
#include "ipu_model/Profile.hpp"
#include "poplar/exceptions.hpp"

namespace ipu_model {

namespace {

std::uint32_t& CurrentOrigin() {
  static thread_local std::uint32_t origin = 0;
  return origin;
}

}  // namespace

void SetOrigin(std::uint32_t origin) { CurrentOrigin() = origin; }

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

void CheckStream(const Tensor& tensor, const DataStream& stream, bool host_to_device) {
  CheckValid(tensor, "Copy");
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

Sequence::Sequence(const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kSequence, debugContext)) {}

Sequence::Sequence(const std::vector<Program>& programs, const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kSequence, debugContext)) {
  for (const Program& p : programs) add(p);
}

void Sequence::add(const Program& program) {
  const std::shared_ptr<ProgramNode>& node = program.node();
  if (node->operation != nullptr && node->operation->scope.empty()) node->operation->scope = node_->scope;
  node_->children.push_back(node);
}

Copy::Copy(const Tensor& src, const Tensor& dst, bool /*dontOutline*/, const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kOperation, debugContext)) {
  CheckValid(src, "Copy");
  CheckWriteable(dst, "Copy");
  if (src.numElements() != dst.numElements() || src.elementType() != dst.elementType()) {
    throw control_program_error("Copy: " + Describe(src) +
                                " does not match the number or type of elements of " + Describe(dst));
  }
  if (src.graph() != dst.graph()) throw control_program_error("Copy: the tensors are of different graphs");
  node_->operation = ipu_model::MakeCopy(src, dst);
  node_->operation->name = node_->name;
}

Copy::Copy(const DataStream& stream, const Tensor& dst, bool /*optimiseMemory*/,
           const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kStreamIn, debugContext)) {
  CheckStream(dst, stream, true);
  CheckWriteable(dst, "Copy");
  node_->stream = stream.index();
  node_->tensor = dst.pieces();
}

Copy::Copy(const Tensor& src, const DataStream& stream, bool /*optimiseMemory*/,
           const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kStreamOut, debugContext)) {
  CheckStream(src, stream, false);
  node_->stream = stream.index();
  node_->tensor = src.pieces();
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

Call::Call(const Function& function, const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kCall, debugContext)) {
  node_->function = function.id();
}

Call::Call(const HostFunction& function, const std::vector<Tensor>& inputs,
           const std::vector<Tensor>& outputs, const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kSequence, debugContext)) {
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

PrintTensor::PrintTensor(const std::string& title, const Tensor& tensor, const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kPrint, debugContext)) {
  CheckValid(tensor, "PrintTensor");
  node_->text = title;
  node_->tensor = tensor.pieces();
  node_->shape.assign(tensor.shape().begin(), tensor.shape().end());
}

AbortOnCondition::AbortOnCondition(const Tensor& predicate, const DebugContext& debugContext)
    : AbortOnCondition(predicate, debugContext.getPathName(), debugContext) {}

AbortOnCondition::AbortOnCondition(const Tensor& predicate, const std::string& message,
                                   const DebugContext& debugContext)
    : Program(NewNode(ProgramKind::kAbort, debugContext)) {
  CheckScalar(predicate, "AbortOnCondition");
  node_->tensor = predicate.pieces();
  node_->text = message;
}

}  // namespace poplar::program
