// Fill and iota: results without inputs.
#include <memory>
#include <utility>

#include "core/graph/expandable.h"
#include "core/graph/graph_impl.h"
#include "core/operation/operand_check.h"
#include "core/operation/serialise.h"
#include "hlo/Elementwise.hpp"
#include "kernels/elementwise/fill.h"
#include "operations/data_views.h"
#include "operations/elementwise/fill_iota_cost.h"
#include "operations/readers.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

// Every tile writes the part of the output that it holds.
TilePlan PlanOwnElements(const DeviceContext& context, const View& out, const char* codelet,
                         std::uint64_t (*cycles)(const TargetModel&, DType, std::int64_t),
                         decltype(VertexGroup::compute) compute) {
  VertexGroup group;
  group.codelet = codelet;
  group.vertices = context.mapping(out.variable).VerticesOver(out, context.num_tiles());
  group.writes.push_back({{OperandRef::Kind::kOutput, 0}, [](const Box& box) { return box; }});
  group.compute = std::move(compute);
  group.cycles = [type = out.type, cycles](const TargetModel& target, const Box& box) {
    return cycles(target, type, box.num_elements());
  };
  group.code_bytes = 120;
  group.vertex_bytes = 12;
  TilePlan plan;
  plan.supersteps.push_back({{std::move(group)}});
  return plan;
}

class FillOperation : public Operation, public Expandable {
 public:
  explicit FillOperation(std::string value) : value_(std::move(value)) {}
  std::string_view kind() const override { return "popops::fill"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    return HasOperands(*this, 0, 1) && value_.size() == SizeOf(outputs[0].type);
  }
  void Write(Writer& writer) const override { writer.Write(value_); }
  void Run(HostContext& context, const std::vector<HostTensor>&,
           const std::vector<HostTensor>& out) const override {
    Fill(context, value_.data(), out[0]);
  }
  TilePlan Plan(const DeviceContext& context) const override {
    return PlanOwnElements(
        context, outputs[0], "popops::Fill", FillCycles,
        [value = value_](HostContext& host, const Box&, const std::vector<HostTensor>&,
                         const std::vector<HostTensor>& writes) { Fill(host, value.data(), writes[0]); });
  }
  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>&,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    library.fill(graph, out[0], value_, prog, name);
  }

 private:
  std::string value_;
};

class IotaOperation : public Operation, public Expandable {
 public:
  explicit IotaOperation(std::int64_t dimension) : dimension_(dimension) {}
  std::string_view kind() const override { return "popops::iota"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    return HasOperands(*this, 0, 1) && dimension_ < static_cast<std::int64_t>(outputs[0].shape.size());
  }
  void Write(Writer& writer) const override { writer.Write(dimension_); }
  void Run(HostContext& context, const std::vector<HostTensor>&,
           const std::vector<HostTensor>& out) const override {
    Iota(context, 0, static_cast<int>(dimension_), out[0]);
  }
  TilePlan Plan(const DeviceContext& context) const override {
    return PlanOwnElements(
        context, outputs[0], "popops::Iota", IotaCycles,
        [dimension = dimension_](HostContext& host, const Box& box, const std::vector<HostTensor>&,
                                 const std::vector<HostTensor>& writes) {
          Iota(host, box.begin[static_cast<std::size_t>(dimension)], static_cast<int>(dimension), writes[0]);
        });
  }
  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>&,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    library.iota(graph, out[0], static_cast<std::size_t>(dimension_), prog, name);
  }

 private:
  std::int64_t dimension_;
};

}  // namespace

std::unique_ptr<Operation> ReadFill(Reader& reader) {
  std::string value = reader.Read<std::string>();
  if (value.empty() || value.size() > 16) reader.Fail("a fill value has 1 to 16 bytes");
  return std::make_unique<FillOperation>(std::move(value));
}
std::unique_ptr<Operation> ReadIota(Reader& reader) {
  return std::make_unique<IotaOperation>(reader.ReadInteger(0, kMaxRank - 1));
}

}  // namespace ipu_model

namespace hlo {

void fill(poplar::Graph&, const poplar::Tensor& tensor, const std::string& bytes,
          poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  if (bytes.size() != SizeOf(tensor.elementType().id())) {
    throw poplar::poplar_error(debugContext.getPathName() + ": fill of " + tensor.elementType().toString() +
                               " with a value of " + std::to_string(bytes.size()) + " bytes");
  }
  if (tensor.numElements() == 0) return;
  auto operation = std::make_unique<FillOperation>(bytes);
  operation->name = debugContext.getPathName();
  operation->outputs.push_back(InPlaceView(tensor, debugContext));
  AddOperation(prog, std::move(operation));
}

void iota(poplar::Graph&, const poplar::Tensor& tensor, std::size_t dimension,
          poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  if (dimension >= tensor.rank()) {
    throw poplar::poplar_error(debugContext.getPathName() + ": iota along dimension " +
                               std::to_string(dimension) + " of a tensor of shape " + tensor.shapeToString());
  }
  if (tensor.numElements() == 0) return;
  auto operation = std::make_unique<IotaOperation>(static_cast<std::int64_t>(dimension));
  operation->name = debugContext.getPathName();
  operation->outputs.push_back(InPlaceView(tensor, debugContext));
  AddOperation(prog, std::move(operation));
}

}  // namespace hlo
