// popops::map as an operation: one scalar program over tensors of one shape.
#include "hlo/Elementwise.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/graph/expandable.h"
#include "core/graph/graph_impl.h"
#include "core/operation/operand_check.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "core/vertices/limits_buffers.h"
#include "hlo/ScalarOps.hpp"
#include "kernels/elementwise/elementwise.h"
#include "kernels/host/integer_division.h"
#include "operations/arithmetic.h"
#include "operations/data_views.h"
#include "operations/elementwise/elementwise_cost.h"
#include "operations/elementwise/elementwise_output.h"
#include "operations/elementwise/elementwise_steps.h"
#include "operations/readers.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {

Expression SelectOutputs(const Expression& expression, const std::vector<unsigned>& outputs,
                         std::vector<unsigned>* used_inputs) {
  const std::size_t num_inputs = expression.inputs.size(), num_constants = expression.constants.size();
  const std::size_t first_result = num_inputs + num_constants;
  std::vector<bool> used(first_result + expression.code.size(), false);
  for (const unsigned o : outputs) used[expression.outputs[o]] = true;
  for (std::size_t i = expression.code.size(); i-- > 0;) {
    if (!used[first_result + i]) continue;
    const Instruction& instruction = expression.code[i];
    for (std::size_t k = 0; k < OperandsOf(instruction.op); ++k) used[instruction.operand[k]] = true;
  }
  Expression result;
  std::vector<std::uint16_t> number(used.size(), 0);
  std::uint16_t next = 0;
  for (std::size_t r = 0; r < used.size(); ++r) {
    if (!used[r]) continue;
    number[r] = next++;
    if (r < num_inputs) {
      used_inputs->push_back(static_cast<unsigned>(r));
      result.inputs.push_back(expression.inputs[r]);
    } else if (r < first_result) {
      result.constants.push_back(expression.constants[r - num_inputs]);
    } else {
      Instruction instruction = expression.code[r - first_result];
      for (std::uint16_t& operand : instruction.operand) operand = number[operand];
      result.code.push_back(instruction);
    }
  }
  for (const unsigned o : outputs) result.outputs.push_back(number[expression.outputs[o]]);
  return result;
}

namespace {

// Makes one input of inputs that are the same elements: a vertex loads them once.
void MergeEqualInputs(Expression* expression, std::vector<View>* inputs) {
  const std::size_t count = inputs->size();
  std::vector<std::size_t> number;  // by input
  std::vector<View> kept;
  std::vector<DType> types;
  for (std::size_t i = 0; i < count; ++i) {
    const auto same = std::find_if(kept.begin(), kept.end(),
                                   [&](const View& view) { return SameView(view, (*inputs)[i]); });
    number.push_back(static_cast<std::size_t>(same - kept.begin()));
    if (same != kept.end()) continue;
    kept.push_back((*inputs)[i]);
    types.push_back(expression->inputs[i]);
  }
  if (kept.size() == count) return;
  const auto renumber = [&](std::uint16_t& reg) {
    reg = static_cast<std::uint16_t>(reg < count ? number[reg] : reg - count + kept.size());
  };
  for (Instruction& instruction : expression->code) {
    for (std::uint16_t& operand : instruction.operand) renumber(operand);
  }
  for (std::uint16_t& output : expression->outputs) renumber(output);
  expression->inputs = std::move(types);
  *inputs = std::move(kept);
}

class MapOperation : public Operation, public LimitsBuffers, public Expandable {
 public:
  explicit MapOperation(Expression expression, std::int64_t buffer_limit = 0)
      : expression_(std::move(expression)), kernel_(expression_) {
    limit_ = buffer_limit;
  }

  std::string_view kind() const override { return "popops::map"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    if (!HasOperands(*this, expression_.inputs.size(), expression_.outputs.size()) || outputs.empty())
      return false;
    bool fits = SameShapes(outputs, 0, outputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      fits = fits && inputs[i].shape == outputs[0].shape && inputs[i].type == expression_.inputs[i];
    }
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      fits = fits && outputs[o].type == expression_.TypeOf(expression_.outputs[o]);
    }
    return fits;
  }
  void Write(Writer& writer) const override {
    writer.Write(expression_);
    writer.Write(limit_);
  }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    kernel_.Run(context, in, out);
  }
  std::unique_ptr<BoundKernel> Bind(const std::vector<HostTensor>& in,
                                    const std::vector<HostTensor>& out) const override {
    return kernel_.Bind(in.data(), out.data());
  }

  double flops() const override {
    return ArithmeticOf(expression_) * static_cast<double>(outputs[0].num_elements());
  }

  bool CanAlias(unsigned output, unsigned input) const override {
    const View &out = outputs[output], &in = inputs[input];
    return out.type == in.type && out.shape == in.shape && out.strides == in.strides &&
           HasDistinctElements(in);
  }

  bool AnyOutputOrder() const override { return true; }
  bool AnyOutputStrides() const override { return true; }
  std::vector<int> BandDimensions(int d) const override {
    return std::vector<int>(inputs.size() + outputs.size(), d);
  }

  // Every tile computes the outputs that it holds. Outputs with different mappings have separate vertices,
  // which repeat their common computations.
  TilePlan Plan(const DeviceContext& context) const override {
    std::vector<std::vector<unsigned>> groups;
    for (unsigned o = 0; o < outputs.size(); ++o) {
      const auto same = std::find_if(groups.begin(), groups.end(), [&](const std::vector<unsigned>& group) {
        const View &a = outputs[group[0]], &b = outputs[o];
        return a.offset == b.offset && a.strides == b.strides &&
               (a.variable == b.variable || context.mapping(a.variable) == context.mapping(b.variable));
      });
      if (same == groups.end()) {
        groups.push_back({o});
      } else {
        same->push_back(o);
      }
    }
    TilePlan plan;
    plan.supersteps.emplace_back();
    for (const std::vector<unsigned>& group : groups)
      plan.supersteps[0].groups.push_back(MakeGroup(context, group));
    const std::int64_t steps = StepsOf(plan.supersteps[0], context);
    if (steps == 1) return plan;
    const Superstep whole = std::move(plan.supersteps[0]);
    plan.supersteps.clear();
    plan.supersteps.resize(static_cast<std::size_t>(steps));
    for (const VertexGroup& group : whole.groups) {
      const auto parts = CutIntoSteps(group.vertices, steps, context.num_tiles());
      for (std::size_t s = 0; s < parts.size(); ++s) {
        plan.supersteps[s].groups.push_back(group);
        plan.supersteps[s].groups.back().vertices = parts[s];
      }
    }
    return plan;
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    std::vector<poplar::Tensor> tensors;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      tensors.push_back(IsOneElement(inputs[i]) ? in[i].flatten().slice(0, 1) : in[i]);
    std::vector<int> in_place;
    for (const View& output : outputs) {
      const auto same = std::find_if(inputs.begin(), inputs.end(),
                                     [&](const View& input) { return SameView(input, output); });
      in_place.push_back(same == inputs.end() ? -1 : static_cast<int>(same - inputs.begin()));
    }
    library.map(graph, expression_, tensors, out, in_place, prog, name);
  }

 private:
  // More steps take longer than they are worth.
  static constexpr std::int64_t kMostSteps = 16;

  bool HasPlanFor(std::int64_t /*bytes*/) const override { return ReadsWhatItReplaces(); }

  // Whether every result that shares a variable with an input replaces exactly this input. Other inputs must
  // be read before any result is stored.
  bool ReadsWhatItReplaces() const {
    return std::all_of(outputs.begin(), outputs.end(), [&](const View& output) {
      return std::all_of(inputs.begin(), inputs.end(), [&](const View& input) {
        return input.variable != output.variable || SameView(input, output);
      });
    });
  }

  // In how many steps the vertices receive their operands, so that the buffers stay below the limit.
  std::int64_t StepsOf(const Superstep& step, const DeviceContext& context) const {
    if (limit_ == 0 || !ReadsWhatItReplaces()) return 1;
    // A group may replace what another one reads.
    const auto is_replaced = [&](const View& input) {
      return std::any_of(outputs.begin(), outputs.end(),
                         [&](const View& output) { return input.variable == output.variable; });
    };
    if (step.groups.size() > 1 && std::any_of(inputs.begin(), inputs.end(), is_replaced)) return 1;
    std::vector<std::int64_t> bytes(context.num_tiles(), 0);
    for (const VertexGroup& group : step.groups) {
      for (const VertexGroup::Access& read : group.reads)
        AddReceivedBytes(context, inputs[read.tensor.index], group.vertices, &bytes);
    }
    const std::int64_t most = *std::max_element(bytes.begin(), bytes.end());
    return std::clamp<std::int64_t>(CeilDivide(most, limit_), 1, kMostSteps);
  }

  // Whether one element of the input is used for all elements of the results.
  bool IsOneElement(const View& view) const {
    bool one = outputs[0].num_elements() > 1;
    for (std::size_t d = 0; d < view.shape.size(); ++d)
      one = one && (view.shape[d] == 1 || view.strides[d] == 0);
    return one;
  }

  VertexGroup MakeGroup(const DeviceContext& context, const std::vector<unsigned>& members) const {
    VertexGroup group;
    std::vector<unsigned> used;
    Expression part = SelectOutputs(expression_, members, &used);
    const View& first = outputs[members[0]];
    group.codelet = "popops::Map<" + std::to_string(part.code.size()) + " ops," + NameOf(first.type) + ">";
    group.vertices = context.mapping(first.variable).VerticesOver(first, context.num_tiles());
    const auto same = [](const Box& box) { return box; };
    for (const unsigned i : used) group.reads.push_back({{OperandRef::Kind::kInput, i}, same, true});
    for (const unsigned o : members) group.writes.push_back({{OperandRef::Kind::kOutput, o}, same, true});
    std::vector<bool> scalars;
    std::vector<std::vector<bool>> repeats;
    const std::vector<std::int64_t> order = MemoryOrder(first);
    unsigned replaced = 0;  // operands that a result replaces: one pointer for both
    for (const unsigned i : used) {
      const View& view = inputs[i];
      scalars.push_back(IsOneElement(view));
      repeats.emplace_back();
      for (const std::int64_t dim : order) {
        const auto d = static_cast<std::size_t>(dim);
        repeats.back().push_back(view.shape[d] > 1 && view.strides[d] == 0);
      }
      const bool in_place = std::any_of(members.begin(), members.end(), [&](unsigned o) {
        return view.variable == outputs[o].variable && view.offset == outputs[o].offset;
      });
      replaced += in_place ? 1 : 0;
    }
    const ElementwiseCost cost(part, scalars, replaced > 0, repeats);
    const auto extents_of = [order](const Box& box) {
      std::vector<std::int64_t> extents;
      for (const std::int64_t dim : order) {
        const auto d = static_cast<std::size_t>(dim);
        extents.push_back(box.end[d] - box.begin[d]);
      }
      return extents;
    };
    group.cycles = [cost, extents_of](const TargetModel& target, const Box& box) {
      return cost.repeats() ? cost.Cycles(target, extents_of(box)) : cost.Cycles(target, box.num_elements());
    };
    group.cycles_of_boxes = [cost, extents_of](const TargetModel& target,
                                               const std::vector<const Box*>& boxes) {
      std::vector<std::vector<std::int64_t>> parts;
      for (const Box* box : boxes) parts.push_back(extents_of(*box));
      return cost.CyclesOfParts(target, parts);
    };
    group.code_bytes = cost.CodeBytes(context.target());
    // As PopLibs' vertices have it: a pointer to each operand, and the number of elements.
    group.vertex_bytes = 4 + 4 * (used.size() + members.size() - replaced);
    group.compute = [kernel = ElementwiseKernel(part)](
                        HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                        const std::vector<HostTensor>& writes) { kernel.Run(host, reads, writes); };
    return group;
  }

  Expression expression_;
  ElementwiseKernel kernel_;
};

void CheckOperands(const Expression& expression, const std::vector<poplar::Tensor>& tensors,
                   const std::vector<poplar::Tensor>& outputs, const std::string& name) {
  if (tensors.size() != expression.inputs.size() || outputs.size() != expression.outputs.size()) {
    throw poplar::poplar_error(name + ": an elementwise program of " +
                               std::to_string(expression.inputs.size()) + " inputs and " +
                               std::to_string(expression.outputs.size()) + " outputs was given " +
                               std::to_string(tensors.size()) + " and " + std::to_string(outputs.size()));
  }
  const poplar::Tensor* leader = nullptr;
  const auto check = [&](const poplar::Tensor& tensor, DType type, const char* what, std::size_t i) {
    if (leader == nullptr) leader = &tensor;
    if (tensor.elementType().id() != type || tensor.shape() != leader->shape()) {
      throw poplar::poplar_error(name + ": " + what + " " + std::to_string(i) +
                                 " of an elementwise program is " + tensor.elementType().toString() +
                                 tensor.shapeToString() + ", expected " + NameOf(type) +
                                 leader->shapeToString());
    }
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) check(tensors[i], expression.inputs[i], "input", i);
  for (std::size_t o = 0; o < outputs.size(); ++o)
    if (outputs[o].valid()) check(outputs[o], expression.TypeOf(expression.outputs[o]), "output", o);
  if (leader == nullptr)
    throw poplar::poplar_error(name + ": an elementwise program without inputs or outputs");
}

}  // namespace

std::unique_ptr<Operation> ReadMap(Reader& reader) {
  Expression expression = reader.Read<Expression>();
  const std::int64_t limit = LimitsBuffers::ReadLimit(reader);
  try {
    return std::make_unique<MapOperation>(std::move(expression), limit);
  } catch (const std::invalid_argument& error) {
    reader.Fail(error.what());
  }
}

}  // namespace ipu_model

namespace hlo {

std::vector<poplar::Tensor> map(poplar::Graph& graph, const ipu_model::Expression& expression,
                                const std::vector<poplar::Tensor>& tensors,
                                const std::vector<poplar::Tensor>& outputs, poplar::program::Sequence& prog,
                                const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  CheckOperands(expression, tensors, outputs, name);
  std::vector<poplar::Tensor> results = outputs;
  const poplar::Tensor* like = nullptr;
  for (const poplar::Tensor& t : outputs)
    if (t.valid() && like == nullptr) like = &t;
  for (std::size_t o = 0; o < results.size(); ++o) {
    if (results[o].valid()) continue;
    const DType type = expression.TypeOf(expression.outputs[o]);
    // All results are mapped alike, so that one vertex computes them together.
    results[o] = like != nullptr ? CloneForOperation(graph, poplar::Type(type), *like, debugContext)
                                 : ElementwiseOutput(graph, expression, type, tensors, debugContext);
    if (like == nullptr) like = &results[o];
  }
  if (results.empty() || results[0].numElements() == 0) return results;
  std::vector<View> views;
  for (const poplar::Tensor& t : tensors)
    views.push_back(StridedView(graph, t, prog, {debugContext, "operand"}));
  Expression merged = expression;
  MergeEqualInputs(&merged, &views);
  std::unique_ptr<MapOperation> operation;
  try {
    operation = std::make_unique<MapOperation>(std::move(merged));
  } catch (const std::invalid_argument& error) {
    throw poplar::poplar_error(name + ": " + error.what());
  }
  operation->name = name;
  operation->inputs = std::move(views);
  for (const poplar::Tensor& t : results) operation->outputs.push_back(InPlaceView(t, debugContext));
  AddOperation(prog, std::move(operation));
  return results;
}

}  // namespace hlo
