// The properties of a compiled program that operations may use when they plan their vertices.
#ifndef IPU_MODEL_ENGINE_PROGRAM_PLAN_CONTEXT_H_
#define IPU_MODEL_ENGINE_PROGRAM_PLAN_CONTEXT_H_

#include "core/mapping/strides.h"
#include "engine/program/compiled_program.h"

namespace ipu_model {

class PlanContext : public DeviceContext {
 public:
  explicit PlanContext(const CompiledProgram& program) : program_(program), variables_(&program.variables) {}
  const TargetModel& target() const override { return program_.target.model(); }
  unsigned num_tiles() const override { return program_.target.getNumTiles() - program_.io_tiles; }
  unsigned all_tiles() const override { return program_.target.getNumTiles(); }
  const Mapping& mapping(VariableId variable) const override { return variables_->at(variable).mapping; }

  // The program's variables and others behind them.
  void SetVariables(const std::vector<Variable>& variables) { variables_ = &variables; }
  const std::vector<Variable>& variables() const { return *variables_; }

 private:
  const CompiledProgram& program_;
  const std::vector<Variable>* variables_;
};

// Returns the tensor that a vertex operand refers to: a view of a variable, or all of a temporary.
inline View ViewOf(const Operation& operation, const TilePlan& plan, OperandRef ref) {
  switch (ref.kind) {
    case OperandRef::Kind::kInput:
      return operation.inputs.at(ref.index);
    case OperandRef::Kind::kOutput:
      return operation.outputs.at(ref.index);
    case OperandRef::Kind::kTemporary:
      break;
  }
  const Temporary& temporary = plan.temporaries.at(ref.index);
  View view;
  view.type = temporary.type;
  view.shape = temporary.placement.shape;
  view.strides = RowMajorStrides(view.shape);
  return view;
}

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_PROGRAM_PLAN_CONTEXT_H_
