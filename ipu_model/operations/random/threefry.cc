// JAX's threefry2x32: every tile computes the blocks of the elements that it holds.
#include "kernels/random/threefry.h"

#include <algorithm>
#include <array>
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

bool IsResultType(DType type) {
  return type == DType::kU8 || type == DType::kU16 || type == DType::kU32 || type == DType::kU64;
}

// inputs: two words of the key, then the tensors of the counter's words; outputs: as Threefry's.
class ThreefryOperation : public Operation, public Expandable {
 public:
  explicit ThreefryOperation(std::array<CounterWord, 2> words) : words_(std::move(words)) {}

  std::string_view kind() const override { return "hlo::threefry2x32"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    const std::size_t tensors = (words_[0].has_tensor ? 1u : 0u) + (words_[1].has_tensor ? 1u : 0u);
    if (outputs.empty() || outputs.size() > 2 || !HasOperands(*this, 2 + tensors, outputs.size()))
      return false;
    bool fits = IsResultType(outputs[0].type) && SameShapes(outputs, 0, outputs.size());
    for (const View& view : inputs) fits = fits && view.shape == outputs[0].shape && view.type == DType::kU32;
    if (outputs.size() == 2) fits = fits && outputs[0].type == DType::kU32 && outputs[1].type == DType::kU32;
    for (const CounterWord& word : words_) fits = fits && word.strides.size() == outputs[0].shape.size();
    return fits;
  }
  void Write(Writer& writer) const override {
    for (const CounterWord& word : words_) {
      writer.Write(word.has_tensor);
      writer.Write(word.start);
      writer.Write(word.strides);
    }
  }

  void Prepare() override { begin_.assign(outputs[0].shape.size(), 0); }
  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    const CounterWord words[2] = {words_[0], words_[1]};
    Threefry(context, in, words, begin_, out);
  }
  std::unique_ptr<BoundKernel> Bind(const std::vector<HostTensor>& in,
                                    const std::vector<HostTensor>& out) const override {
    const CounterWord words[2] = {words_[0], words_[1]};
    return BindThreefry(in, words, out);
  }
  // A block is 20 rounds of an addition, a rotation (3) and an exclusive or, and 17 additions of keys; one
  // word is the exclusive or of both.
  double flops() const override {
    return static_cast<double>(outputs[0].num_elements()) * (20 * 5 + 17 + (outputs.size() == 1 ? 1 : 0));
  }
  bool AnyOutputOrder() const override { return true; }

  TilePlan Plan(const DeviceContext& context) const override {
    TilePlan plan;
    plan.supersteps.emplace_back();
    const bool together =
        outputs.size() == 1 ||
        (outputs[0].offset == outputs[1].offset && outputs[0].strides == outputs[1].strides &&
         context.mapping(outputs[0].variable) == context.mapping(outputs[1].variable));
    auto& groups = plan.supersteps[0].groups;
    if (together) {
      groups.push_back(MakeGroup(context, 0, outputs.size()));
    } else {
      for (unsigned o = 0; o < 2; ++o) groups.push_back(MakeGroup(context, o, 1));
    }
    return plan;
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    library.threefry2x32(graph, InputsBesideOutputs(*this, graph, in, prog), words_, out,
                         PlanOf(*this, graph), prog, name);
  }

 private:
  // The vertices of `count` outputs from `first` on, which have one mapping.
  VertexGroup MakeGroup(const DeviceContext& context, unsigned first, std::size_t count) const {
    const View& out = outputs[first];
    VertexGroup group;
    group.codelet = std::string("hlo::Threefry2x32<") + NameOf(out.type) + ">";
    group.vertices = context.mapping(out.variable).VerticesOver(out, context.num_tiles());
    const auto same = [](const Box& box) { return box; };
    for (unsigned i = 0; i < inputs.size(); ++i)
      group.reads.push_back({{OperandRef::Kind::kInput, i}, same, true});
    for (unsigned o = first; o < first + count; ++o)
      group.writes.push_back({{OperandRef::Kind::kOutput, o}, same, true});
    const bool both = count == outputs.size();
    group.compute = [words = words_, first, both](HostContext& host, const Box& box,
                                                  const std::vector<HostTensor>& reads,
                                                  const std::vector<HostTensor>& writes) {
      const CounterWord own[2] = {words[0], words[1]};
      if (both) return Threefry(host, reads, own, box.begin, writes);
      // A vertex for one word computes the other one as well.
      HostTensor other = writes[0];
      other.data = host.scratch.Allocate<std::uint32_t>(static_cast<std::size_t>(other.num_elements()));
      std::vector<HostTensor> pair = {other, other};
      pair[first] = writes[0];
      Threefry(host, reads, own, box.begin, pair);
    };
    const ThreefryCost cost(out.type, outputs.size() == 1, count, inputs.size() - 2);
    group.cycles = [cost](const TargetModel& target, const Box& box) {
      return cost.Cycles(target, box.num_elements());
    };
    group.code_bytes = cost.CodeBytes(context.target());
    // The counter of the first element and its strides, and the addresses of the operands.
    group.vertex_bytes = 16 + 8 * out.shape.size() + 4 * (inputs.size() + count);
    return group;
  }

  std::array<CounterWord, 2> words_;
  Shape begin_;
};

}  // namespace

std::unique_ptr<Operation> ReadThreefry(Reader& reader) {
  std::array<CounterWord, 2> words;
  for (CounterWord& word : words) {
    word.has_tensor = reader.Read<bool>();
    word.start = reader.Read<std::uint32_t>();
    word.strides = reader.Read<std::vector<std::uint32_t>>();
  }
  return std::make_unique<ThreefryOperation>(std::move(words));
}

}  // namespace ipu_model

namespace hlo {

void threefry2x32(poplar::Graph& graph, const std::array<poplar::Tensor, 2>& key,
                  const std::array<CounterWord, 2>& counter,
                  const std::vector<poplar::Tensor>& counterTensors,
                  const std::vector<poplar::Tensor>& outputs, poplar::program::Sequence& prog,
                  const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  auto operation = std::make_unique<ThreefryOperation>(counter);
  operation->name = debugContext.getPathName();
  std::vector<poplar::Tensor> tensors(key.begin(), key.end());
  tensors.insert(tensors.end(), counterTensors.begin(), counterTensors.end());
  for (const poplar::Tensor& t : tensors)
    operation->inputs.push_back(StridedView(graph, t, prog, {debugContext, "operand"}));
  for (const poplar::Tensor& t : outputs) operation->outputs.push_back(InPlaceView(t, debugContext));
  if (!operation->OperandsFit(graph.getTarget().getNumTiles())) {
    throw poplar::poplar_error(operation->name +
                               ": threefry2x32 needs UNSIGNED_INT operands of the shape of its results, a "
                               "stride for each dimension, and either one unsigned result of 8 to 64 bits or "
                               "two of 32 bits");
  }
  if (outputs[0].numElements() > 0) AddOperation(prog, std::move(operation));
}

}  // namespace hlo
