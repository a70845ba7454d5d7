// rng_bit_generator: every tile generates what it holds, from the state that is sent to all.
#include "kernels/random/random_bits.h"

#include <memory>
#include <string>
#include <utility>

#include "core/graph/expandable.h"
#include "core/graph/graph_impl.h"
#include "core/operation/operand_check.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "hlo/Random.hpp"
#include "operations/data_views.h"
#include "operations/random/random_cost.h"
#include "operations/readers.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

// inputs: state; outputs: new state, bits.
class RandomBitsOperation : public Operation, public Expandable {
 public:
  explicit RandomBitsOperation(RandomAlgorithm algorithm) : algorithm_(algorithm) {}

  std::string_view kind() const override { return "hlo::rngBitGenerator"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    if (!HasOperands(*this, 1, 2)) return false;
    const View &state = inputs[0], &bits = outputs[1];
    if (state.shape.size() != 1 || (state.shape[0] > 1 && state.strides[0] != 1)) return false;
    const std::int64_t bytes = state.shape[0] * static_cast<std::int64_t>(SizeOf(state.type));
    return (bytes == 16 || (bytes == 24 && algorithm_ == RandomAlgorithm::kPhilox)) && IsInteger(bits.type) &&
           outputs[0].shape == state.shape && outputs[0].type == state.type &&
           (state.shape[0] <= 1 || outputs[0].strides[0] == 1);
  }
  void Write(Writer& writer) const override { writer.Write(algorithm_); }
  double flops() const override { return static_cast<double>(outputs[1].num_elements()) * 60; }

  void Prepare() override { begin_.assign(outputs[1].shape.size(), 0); }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    RandomBits(context, algorithm_, in[0], outputs[1].shape, begin_, out[1]);
    AdvanceState(algorithm_, in[0], outputs[1].shape, Bits(), out[0]);
  }

  TilePlan Plan(const DeviceContext& context) const override {
    const Box state_box = Box::Whole(inputs[0].shape);
    const auto state_region = [state_box](const Box&) { return state_box; };
    const auto identity = [](const Box& box) { return box; };
    VertexGroup bits;
    bits.codelet = algorithm_ == RandomAlgorithm::kThreeFry ? "hlo::ThreeFry" : "hlo::Philox";
    bits.vertices = context.mapping(outputs[1].variable).VerticesOver(outputs[1], context.num_tiles());
    bits.code_bytes = 500;
    bits.vertex_bytes = 40;
    bits.reads.push_back({{OperandRef::Kind::kInput, 0}, state_region});
    bits.writes.push_back({{OperandRef::Kind::kOutput, 1}, identity});
    bits.compute = [algorithm = algorithm_, whole = outputs[1].shape](HostContext& host, const Box& box,
                                                                      const std::vector<HostTensor>& reads,
                                                                      const std::vector<HostTensor>& writes) {
      RandomBits(host, algorithm, reads[0], whole, box.begin, writes[0]);
    };
    bits.cycles = [words = Bits() == 64 ? 2 : 1](const TargetModel& target, const Box& box) {
      return RandomBitsCycles(target, words * box.num_elements());
    };
    VertexGroup advance;
    advance.codelet = "hlo::AdvanceState";
    advance.vertices = {{0, state_box}};
    advance.code_bytes = 100;
    advance.vertex_bytes = 24;
    advance.reads.push_back({{OperandRef::Kind::kInput, 0}, identity});
    advance.writes.push_back({{OperandRef::Kind::kOutput, 0}, identity});
    advance.compute = [algorithm = algorithm_, whole = outputs[1].shape, element_bits = Bits()](
                          HostContext&, const Box&, const std::vector<HostTensor>& reads,
                          const std::vector<HostTensor>& writes) {
      AdvanceState(algorithm, reads[0], whole, element_bits, writes[0]);
    };
    advance.cycles = [](const TargetModel& target, const Box&) { return AdvanceStateCycles(target); };
    TilePlan plan;
    plan.supersteps.push_back({{std::move(bits), std::move(advance)}});
    return plan;
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    const std::vector<poplar::Tensor> reads = InputsBesideOutputs(*this, graph, in, prog);
    library.rngBitGenerator(graph, algorithm_, reads[0], out[0], out[1], PlanOf(*this, graph), prog, name);
  }

 private:
  int Bits() const { return 8 * static_cast<int>(SizeOf(outputs[1].type)); }

  RandomAlgorithm algorithm_;
  Shape begin_;
};

}  // namespace

std::unique_ptr<Operation> ReadRandomBits(Reader& reader) {
  return std::make_unique<RandomBitsOperation>(reader.Read<RandomAlgorithm>());
}

}  // namespace ipu_model

namespace hlo {

std::pair<poplar::Tensor, poplar::Tensor> rngBitGenerator(
    poplar::Graph& graph, ipu_model::RandomAlgorithm algorithm, const poplar::Tensor& state,
    const poplar::Type& type, const std::vector<std::size_t>& shape, poplar::program::Sequence& prog,
    const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  const std::size_t bytes = state.numElements() * SizeOf(state.elementType().id());
  if (state.rank() != 1 || (bytes != 16 && !(bytes == 24 && algorithm == RandomAlgorithm::kPhilox))) {
    throw poplar::poplar_error(name + ": rng_bit_generator needs a 1-D state of 16 bytes, or 24 for Philox");
  }
  const DType dtype = type.id();
  if (!IsInteger(dtype) || dtype == DType::kS2 || dtype == DType::kS4 || dtype == DType::kU2 ||
      dtype == DType::kU4) {
    throw poplar::poplar_error(name + ": rng_bit_generator of type " + NameOf(dtype));
  }
  auto operation = std::make_unique<RandomBitsOperation>(algorithm);
  operation->name = name;
  // A dense copy, because the kernels read the state's bytes.
  View view = StridedView(graph, state, prog, {debugContext, "state"});
  if (view.strides[0] != 1) {
    const poplar::Tensor dense = graph.clone(state, {debugContext, "state"});
    prog.add(poplar::program::Copy(state, dense, false, debugContext));
    dense.asView(&view);
  }
  operation->inputs.push_back(view);
  const poplar::Tensor new_state = NewTensor(
      graph, view.type, view.shape, LinearMapping(graph, view.type, view.num_elements()), {name + "/state"});
  const Shape extents(shape.begin(), shape.end());
  const poplar::Tensor bits =
      NewTensor(graph, dtype, extents, LinearMapping(graph, dtype, NumElements(extents)), name);
  new_state.asView(&operation->outputs.emplace_back());
  bits.asView(&operation->outputs.emplace_back());
  AddOperation(prog, std::move(operation));
  return {new_state, bits};
}

}  // namespace hlo
