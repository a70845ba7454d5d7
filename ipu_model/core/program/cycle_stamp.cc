#include "core/program/cycle_stamp.h"

#include <utility>

#include "core/graph/graph_impl.h"
#include "core/operation/operand_check.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "hlo/CycleStamp.hpp"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

thread_local CycleClock* current_clock = nullptr;

void Store(std::uint64_t cycles, const HostTensor& row, std::int64_t at) {
  auto* const words = row.as<std::uint32_t>() + at;
  words[0] = static_cast<std::uint32_t>(cycles);
  words[row.strides[row.rank - 1]] = static_cast<std::uint32_t>(cycles >> 32);
}

std::uint64_t Now(const CycleStamp& stamp) {
  CycleClock* const clock = CycleClock::Current();
  return clock == nullptr ? 0 : clock->Read(stamp);
}

}  // namespace

CycleClock* CycleClock::Current() { return current_clock; }
CycleClock::Scope::Scope(CycleClock* clock) : outer_(std::exchange(current_clock, clock)) {}
CycleClock::Scope::~Scope() { current_clock = outer_; }

void CycleStamp::Write(Writer& writer) const {
  writer.Write(cost_.before);
  writer.Write(cost_.repeats.size());
  for (const Repeated& r : cost_.repeats) {
    writer.Write(r.count);
    writer.Write(r.body);
  }
}

std::unique_ptr<Operation> ReadCycleStamp(Reader& reader) {
  auto stamp = std::make_unique<CycleStamp>();
  CycleStamp::Cost cost;
  cost.before = reader.Read<std::uint64_t>();
  const std::size_t n = reader.ReadLength();
  for (std::size_t i = 0; i < n; ++i) {
    CycleStamp::Repeated r;
    r.count = reader.Read<std::uint64_t>();
    r.body = reader.Read<std::uint64_t>();
    if (r.count == 0) reader.Fail("a loop around a cycle stamp has no trips");
    cost.repeats.push_back(r);
  }
  stamp->set_cost(std::move(cost));
  return stamp;
}

bool CycleStamp::OperandsFit(unsigned /*num_tiles*/) const {
  return HasOperands(*this, 0, 1) && outputs[0].type == DType::kU32 && outputs[0].shape.size() == 2 &&
         outputs[0].shape[1] == 2;
}

void CycleStamp::Run(HostContext&, const std::vector<HostTensor>&, const std::vector<HostTensor>& out) const {
  const std::uint64_t cycles = Now(*this);
  for (std::int64_t i = 0; i < out[0].shape[0]; ++i) Store(cycles, out[0], i * out[0].strides[0]);
}

TilePlan CycleStamp::Plan(const DeviceContext& context) const {
  const View& out = outputs[0];
  const Mapping& mapping = context.mapping(out.variable);
  VertexGroup group;
  group.codelet = "hlo::CycleStamp";
  for (std::int64_t i = 0; i < out.shape[0]; ++i)
    group.vertices.push_back({mapping.TileOf(out.offset + i * out.strides[0]), {{i, 0}, {i + 1, 2}}});
  group.writes.push_back({{OperandRef::Kind::kOutput, 0}, [](const Box& box) { return box; }, true});
  // All vertices run at one time: the first reads the clock.
  group.compute = [this, cycles = std::make_shared<std::uint64_t>(0)](HostContext&, const Box& box,
                                                                      const std::vector<HostTensor>&,
                                                                      const std::vector<HostTensor>& writes) {
    if (box.begin[0] == 0) *cycles = Now(*this);
    Store(*cycles, writes[0], 0);
  };
  group.cycles = [](const TargetModel& target, const Box&) {
    return std::uint64_t{target.cycle_stamp_cycles};
  };
  group.code_bytes = 16;
  group.vertex_bytes = 4;
  TilePlan plan;
  plan.supersteps.push_back({{std::move(group)}});
  return plan;
}

}  // namespace ipu_model

namespace hlo {

std::uint64_t cyclesBetweenStamps(const poplar::Target& target) { return target.model().cycle_stamp_cycles; }

void cycleStamp(poplar::Graph&, const poplar::Tensor& out, poplar::program::Sequence& prog,
                const poplar::DebugContext& debugContext) {
  using namespace ipu_model;
  if (out.rank() != 2 || out.dim(1) != 2 || out.elementType() != poplar::UNSIGNED_INT ||
      out.pieces().size() > 1) {
    throw poplar::poplar_error(
        debugContext.getPathName() +
        ": a cycle stamp takes an UNSIGNED_INT tensor [tiles, 2] of one variable, not " +
        out.elementType().toString() + out.shapeToString());
  }
  if (out.numElements() == 0) return;
  auto operation = std::make_unique<CycleStamp>();
  operation->name = debugContext.getPathName();
  operation->outputs.push_back(out.pieces()[0]);
  AddOperation(prog, std::move(operation));
}

}  // namespace hlo
