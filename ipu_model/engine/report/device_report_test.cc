// The comments derive the expected numbers by hand.
#include "engine/report/device_report.h"

#include <optional>

#include "check.h"
#include "core/program/copy.h"
#include "core/target/target_model.h"
#include "engine/program/checks.h"
#include "poplar/exceptions.hpp"
#include "testing/toy_operations.h"

using namespace ipu_model;
using jax_ipu::testing::Contains;
using jax_ipu::testing::MessageOf;
using toy::Builder;

namespace {

const TargetModel& Ipu2() { return FindTargetModel("ipu2"); }

// An operation of one vertex group: `vertices` read all of `in`; it writes `out` on tile 0.
std::unique_ptr<Operation> Gather(const View& in, const View& out, const std::vector<unsigned>& tiles) {
  return std::make_unique<toy::Toy>("toy::gather", std::vector<View>{in}, std::vector<View>{out},
                                    [tiles](const toy::Toy& op, const DeviceContext&) {
                                      VertexGroup group;
                                      group.codelet = "Gather";
                                      for (const unsigned tile : tiles) {
                                        group.vertices.push_back({tile, Box::Whole(op.inputs[0].shape)});
                                      }
                                      group.reads.push_back({{toy::kInput, 0}, toy::Same});
                                      TilePlan plan;
                                      plan.supersteps.push_back({{group}});
                                      return plan;
                                    });
}

}  // namespace

TEST(AlignedElementwiseNeedsNoExchange) {
  Builder b(8);
  const View x = b.Split("x", 16, 8), y = b.Split("y", 16, 8), z = b.Split("z", 16, 8);
  b.Main({Builder::Do(toy::Add({x, y}, z))});
  const Report r = Analyse(*b.program);
  CHECK_EQ(r.exchange_bytes, 0u);
  CHECK_EQ(r.cycles.exchange, 0u);
  CHECK_EQ(r.cycles.compute, 12u);  // 10 + 2 elements
  CHECK_EQ(r.cycles.sync, 0u);
  CHECK_EQ(r.flops, 16.0);
  CHECK_EQ(r.operations.size(), 1u);
  CHECK_EQ(r.operations[0].tiles, 8u);
  CHECK_EQ(r.operations[0].kind, "toy::add");
}

TEST(OnlyWhatATileDoesNotHoldIsExchanged) {
  // z has 2 elements on each of 4 tiles, y is on tile 0: tiles 1, 2 and 3 receive 2 x 4 bytes, 2 cycles each,
  // which tile 0 sends one after the other.
  Builder b(4);
  const View x = b.Split("x", 8, 4), y = b.Split("y", 8, 1), z = b.Split("z", 8, 4);
  b.Main({Builder::Do(toy::Add({x, y}, z))});
  const Report r = Analyse(*b.program);
  CHECK_EQ(r.exchange_bytes, 24u);
  CHECK_EQ(r.cycles.exchange, 6u);
}

TEST(ATileSendsEachElementOnce) {
  // Tile 0 holds 16 elements, of which tiles 2 to 7 each receive the same 4, or tiles 2 and 4 another 8.
  const auto cycles = [](const std::vector<std::pair<std::int64_t, unsigned>>& readers, std::int64_t width) {
    Builder b(8);
    View part = b.Split("y", 16, 1);
    std::vector<ipu_model::MappedInterval> intervals;
    const View z = b.Add("z", {static_cast<std::int64_t>(readers.size()) * width}, [&] {
      std::int64_t at = 0;
      for (const auto& [first, tile] : readers) {
        intervals.push_back({at, at + width, tile});
        at += width;
      }
      return Mapping(intervals);
    }());
    part.shape = {static_cast<std::int64_t>(readers.size()), width};
    part.strides = {readers.size() > 1 ? readers[1].first - readers[0].first : 0, 1};
    View out = z;
    out.shape = part.shape;
    out.strides = {width, 1};
    b.Main({Builder::Do(toy::Add({part}, out))});
    return Analyse(*b.program).cycles.exchange;
  };
  CHECK_EQ(cycles({{0, 2}, {0, 4}, {0, 6}}, 4), 4u);  // the same 16 bytes
  CHECK_EQ(cycles({{0, 2}, {8, 4}}, 8), 16u);         // 2 x 32 bytes
}

TEST(ATileSendsAnElementOnceThroughAllOperands) {
  // Tile 0 holds one element, which tiles 2 and 4 each receive through an operand of its own.
  Builder b(6);
  const View s = b.Split("s", 1, 1);
  std::vector<View> z;
  for (const unsigned tile : {2u, 4u})
    z.push_back(b.Add("z", {1}, Mapping(std::vector<ipu_model::MappedInterval>{{0, 1, tile}})));
  auto copy = std::make_unique<ipu_model::Copy>();
  copy->inputs = {s, s};
  copy->outputs = z;
  b.Main({Builder::Do(std::move(copy))});
  const Report r = Analyse(*b.program);
  CHECK_EQ(r.exchange_bytes, 8u);
  CHECK_EQ(r.cycles.exchange, 1u);
}

TEST(BroadcastElementsAreSentOnce) {
  // Each of tiles 1, 2 and 3 receives the scalar once.
  Builder b(4);
  View s = b.Split("s", 1, 1);
  const View z = b.Split("z", 64, 4);
  s.shape = {64};
  s.strides = {0};
  b.Main({Builder::Do(toy::Add({s}, z))});
  const Report r = Analyse(*b.program);
  CHECK_EQ(r.exchange_bytes, 12u);
  CHECK_EQ(r.cycles.exchange, 1u);
}

TEST(NeighboursThatReceiveTheSameShareTheBus) {
  // 16 elements are 64 bytes: 16 cycles at 4 bytes per cycle; 8 for a pair that receives the same data.
  for (const bool pair : {true, false}) {
    Builder b(6);
    const View y = b.Split("y", 16, 1), z = b.Split("z", 1, 1);
    b.Main({Builder::Do(Gather(y, z, pair ? std::vector<unsigned>{2, 3} : std::vector<unsigned>{3, 4}))});
    const Report r = Analyse(*b.program);
    CHECK_EQ(r.exchange_bytes, 128u);
    CHECK_EQ(r.cycles.exchange, pair ? 8u : 16u);
  }
  // One tile of the pair holds half: 8 elements arrive for both, none for it alone; the other one receives 8
  // more.
  Builder b(4);
  const View y = b.Add("y", {16}, Mapping(std::vector<ipu_model::MappedInterval>{{0, 8, 2}, {8, 16, 0}}));
  b.Main({Builder::Do(Gather(y, b.Split("z", 1, 1), {2, 3}))});
  const Report r = Analyse(*b.program);
  CHECK_EQ(r.exchange_bytes, 32u + 64u);
  CHECK_EQ(r.cycles.exchange, 32u / 8 + 32u / 4);
}

TEST(VerticesOfOneTileShareWhatTheyRead) {
  Builder b(4);
  const View y = b.Split("y", 16, 1);
  b.Main({Builder::Do(Gather(y, b.Split("z", 1, 1), {3, 3, 3}))});
  CHECK_EQ(Analyse(*b.program).exchange_bytes, 64u);
}

TEST(PartialSumsAndRemoteResult) {
  // x: [0, 4) on tile 0, [4, 9) on tile 1; parts of 3 on tiles 0, 1 and 2. Tile 1 lacks element 3, tile 2
  // lacks all of its 3: 16 bytes, 12 of them on one tile: 3 cycles. Then tile 0 lacks two of the partial sums
  // (2 cycles), and tile 3 receives the result.
  Builder b(4);
  const View x = b.Split("x", 9, 2),
             s = b.Add("s", {}, Mapping(std::vector<ipu_model::MappedInterval>{{0, 1, 3}}));
  b.Main({Builder::Do(toy::Sum(x, s, 3))});
  const Report r = Analyse(*b.program);
  CHECK_EQ(r.exchange_bytes, 16u + 8u + 4u);
  CHECK_EQ(r.cycles.exchange, 3u + 2u);
  CHECK_EQ(r.cycles.compute, 3u + 3u);
  CHECK_EQ(r.cycles.sync, 2u * Ipu2().sync_cycles);
}

TEST(CodeletsAndCodeOfAnOperation) {
  Builder b(8);
  const View x = b.Split("x", 16, 4), y = b.Split("y", 16, 4);
  b.Main({Builder::Do(toy::Add({x}, y)), Builder::Do(toy::Add({y}, x))});
  const Report r = Analyse(*b.program);
  CHECK_EQ(r.operations.size(), 2u);
  for (const OperationCost& row : r.operations) {
    CHECK(row.codelets == std::vector<std::string>{"Add"});
    // The codelet on 4 tiles, the control code of one superstep on all 8.
    CHECK_EQ(row.code_bytes, 4u * 100 + 8u * Ipu2().control_code_bytes_per_superstep);
  }
  // The operations share the codelet.
  CHECK_EQ(r.code_bytes,
           2 * r.operations[0].code_bytes - 4u * 100 + 8u * std::uint64_t{Ipu2().runtime_bytes});

  // Two codelets, and code for the exchange between their supersteps.
  Builder sum(4);
  const View in = sum.Split("in", 9, 3);
  View out = sum.Split("out", 1, 1);
  out.shape = {};
  out.strides = {};
  sum.Main({Builder::Do(toy::Sum(in, out, 3))});
  const Report other = Analyse(*sum.program);
  const OperationCost& row = other.operations.at(0);
  CHECK((row.codelets == std::vector<std::string>{"Final", "Partial"}));
  CHECK(row.code_bytes > 3u * 40 + 60 + 4u * 2 * Ipu2().control_code_bytes_per_superstep);
  CHECK_EQ(other.code_bytes, row.code_bytes + 4u * std::uint64_t{Ipu2().runtime_bytes});
}

TEST(ControlFlowCycles) {
  Builder b(2);
  const View x = b.Split("x", 2, 2), n = b.Split("n", 1, 1);
  const auto add = [&] { return Builder::Do(toy::Add({x, x}, x)); };  // 11 cycles
  b.program->functions.push_back(add());
  auto call = [] { return Builder::Node(ProgramKind::kCall); };
  b.Main(
      {Builder::Repeat(5, Builder::Node(ProgramKind::kSequence, {add(), call(), call()})),
       Builder::Node(ProgramKind::kIf, {add(), Builder::Node(ProgramKind::kSequence, {add(), add()})}, {n})});
  const Report r = Analyse(*b.program);
  CHECK(!r.unknown_trip_count);
  CHECK_EQ(r.cycles.compute, 11u * (5 * 3 + 2));
  CHECK_EQ(r.cycles.sync, Ipu2().sync_cycles);  // of the decision
  std::uint64_t executions = 0;
  for (const OperationCost& row : r.operations) {
    executions += row.executions;
    CHECK_EQ(row.cycles.compute, 11u * row.executions);
  }
  CHECK_EQ(executions, 5u + 10u + 1u + 2u);
}

TEST(UnknownTripCountsAreCountedOnceAndListed) {
  Builder b(2);
  const View x = b.Split("x", 2, 2), n = b.Split("n", 1, 1);
  b.Main({Builder::Node(ProgramKind::kRepeatWhileTrue,
                        {Builder::Do(toy::Add({n}, n)), Builder::Repeat(3, Builder::Do(toy::Add({x}, x)))},
                        {n})});
  const Report r = Analyse(*b.program);
  CHECK(r.unknown_trip_count);
  CHECK_EQ(r.loops.size(), 1u);
  CHECK_EQ(r.loops[0].condition.compute, 11u);
  CHECK_EQ(r.loops[0].body.compute, 33u);
  CHECK_EQ(r.cycles.compute, 44u);
  const auto nodes = NodesOf({b.program->programs[0]});
  CHECK(nodes.at(r.loops[0].node)->kind == ProgramKind::kRepeatWhileTrue);
}

TEST(HostTransfersAreReportedApart) {
  Builder b(2);
  const View x = b.Split("x", 1000, 2);
  b.Main({Builder::Repeat(3, b.Transfer("in", x, true)), b.Transfer("out", x, false)});
  const Report r = Analyse(*b.program);
  CHECK_EQ(r.stream_in_bytes, 12000u);
  CHECK_EQ(r.stream_out_bytes, 4000u);
  CHECK_EQ(r.cycles.total(), 0u);
  CHECK(r.host_link_cycles >= 4u * Ipu2().global_sync_cycles);
}

// y, on tile 1, = x, on tile 0, in two supersteps, or in one that runs twice.
enum class Steps { kTwo, kLaterTrip, kLoop };
Report TwoSteps(Steps steps, bool is_copy) {
  Builder b(2);
  const View x = b.Split("x", 100, 1);
  const View y = b.Add("y", {100}, Mapping(std::vector<MappedInterval>{{0, 100, 1}}));
  b.Main({Builder::Do(std::make_unique<toy::Toy>(
      "toy::add", std::vector<View>{x}, std::vector<View>{y},
      [=](const toy::Toy& op, const DeviceContext& context) {
        VertexGroup group =
            toy::AddGroup(op, context.mapping(y.variable).VerticesOver(y, context.num_tiles()));
        group.is_copy = is_copy;
        TilePlan plan;
        plan.supersteps = {{{group}}};
        if (steps == Steps::kLoop) {
          plan.loops = {{0, 1, 2}};
        } else {
          plan.supersteps.push_back({{group}, steps == Steps::kLaterTrip});
        }
        return plan;
      }))});
  return Analyse(*b.program);
}

TEST(LaterTripsOfLoopsShareCodeAndVertices) {
  const Report steps = TwoSteps(Steps::kTwo, false), trips = TwoSteps(Steps::kLaterTrip, false);
  CHECK_EQ(steps.vertex_bytes, 32u);
  CHECK_EQ(trips.vertex_bytes, 16u);
  const std::uint64_t one_step =
      2u * Ipu2().control_code_bytes_per_superstep + Ipu2().exchange_code_bytes_per_fragment;
  CHECK_EQ(steps.code_bytes, 100u + 2u * Ipu2().runtime_bytes + 2u * one_step);
  CHECK_EQ(trips.code_bytes, steps.code_bytes - one_step);
  CHECK_EQ(trips.operations[0].code_bytes, steps.operations[0].code_bytes - one_step);
  CHECK_EQ(trips.cycles.total(), steps.cycles.total());
  const Report loop = TwoSteps(Steps::kLoop, false);
  CHECK_EQ(loop.vertex_bytes, trips.vertex_bytes);
  CHECK_EQ(loop.code_bytes, trips.code_bytes);
  CHECK_EQ(loop.cycles.total(), trips.cycles.total());
  CHECK_EQ(loop.exchange_bytes, trips.exchange_bytes);
  CHECK_EQ(loop.exchange_buffer_bytes, trips.exchange_buffer_bytes);
}

TEST(CopiesNeedNoExchangeBuffer) {
  const Report buffered = TwoSteps(Steps::kTwo, false), copied = TwoSteps(Steps::kTwo, true);
  CHECK_EQ(buffered.exchange_buffer_bytes, 400u);
  CHECK_EQ(copied.exchange_buffer_bytes, 0u);
  CHECK_EQ(copied.exchange_bytes, buffered.exchange_bytes);
}

// y, on tile 1, = x, of which each tile has a half.
Report OfHalves(bool arranged) {
  Builder b(2);
  const View x = b.Split("x", 100, 2);
  const View y = b.Add("y", {100}, Mapping(std::vector<MappedInterval>{{0, 100, 1}}));
  b.Main({Builder::Do(std::make_unique<toy::Toy>(
      "toy::add", std::vector<View>{x}, std::vector<View>{y},
      [=](const toy::Toy& op, const DeviceContext& context) {
        VertexGroup group =
            toy::AddGroup(op, context.mapping(y.variable).VerticesOver(y, context.num_tiles()));
        if (arranged) {
          group.reads[0].arranged = [](const Box&, std::int64_t elements, std::int64_t held) {
            CHECK_EQ(elements, 100);
            return LocalCopy{2, held};
          };
        }
        TilePlan plan;
        plan.supersteps = {{{group}}};
        return plan;
      }))});
  return Analyse(*b.program);
}

TEST(WhatATileHasOfAPieceIsCopiedBesideWhatArrives) {
  const Report in_place = OfHalves(false), copied = OfHalves(true);
  const std::uint64_t rows = 2u * (15u + 13u);  // of 25 elements
  CHECK_EQ(copied.cycles.compute, in_place.cycles.compute + Ipu2().local_copy_call_cycles + rows);
  CHECK_EQ(copied.exchange_bytes, in_place.exchange_bytes);
  CHECK_EQ(in_place.exchange_buffer_bytes, 200u);
  CHECK_EQ(copied.exchange_buffer_bytes, 400u);
  CHECK_EQ(copied.vertex_bytes, in_place.vertex_bytes + 16u);
}

TEST(MemoryFollowsLiveness) {
  // On tile 0, x and y are live together, then y and z: two of three variables of 4096 bytes.
  Builder b(2);
  const View x = b.Split("x", 1024, 1), y = b.Split("y", 1024, 1), z = b.Split("z", 1024, 1);
  b.Main({b.Transfer("in", x, true), Builder::Do(toy::Add({x}, y)), Builder::Do(toy::Add({y}, z)),
          b.Transfer("out", z, false)});
  const Report r = Analyse(*b.program);
  const std::uint64_t control = Ipu2().runtime_bytes + 2 * Ipu2().control_code_bytes_per_superstep;
  CHECK_EQ(r.variable_bytes, 8192u);
  CHECK_EQ(r.vertex_bytes, 32u);
  CHECK_EQ(r.code_bytes, 100u + 2 * control);  // the codelet once, on tile 0
  CHECK_EQ(r.max_tile, 0u);
  CHECK_EQ(r.max_tile_bytes, 8192u + 32u + 100u + control);
  CHECK_EQ(r.total_bytes, r.max_tile_bytes + control);
  CHECK_EQ(r.largest_tensors.size(), 2u);
  CHECK_EQ(r.largest_tensors[0].bytes_on_tile, 4096u);
  CHECK_EQ(r.limit_tile_bytes, 638976u);
  CHECK(r.out_of_memory.empty());
}

TEST(StateStaysBetweenPrograms) {
  // w is read before it is written, so it stays live while the other program runs.
  Builder b(1);
  const View w = b.Split("w", 1024, 1), x = b.Split("x", 1024, 1), y = b.Split("y", 512, 1);
  b.Main({b.Transfer("in", y, true), b.Transfer("out", y, false)});
  CHECK_EQ(Analyse(*b.program).variable_bytes, 2048u);
  b.Main({b.Transfer("x", x, true), Builder::Do(toy::Add({w, x}, w))});
  const Report r = Analyse(*b.program);
  CHECK_EQ(r.variable_bytes, 8192u);
  CHECK_EQ(r.cycles.total(), 0u);  // of the main program
}

TEST(LoopsKeepWhatTheNextIterationReads) {
  // x is rewritten only after the loop, so it is live while t is.
  Builder b(1);
  const View x = b.Split("x", 1024, 1), t = b.Split("t", 1024, 1), u = b.Split("u", 1024, 1);
  b.Main({b.Transfer("in", x, true),
          Builder::Repeat(4, Builder::Node(ProgramKind::kSequence,
                                           {Builder::Do(toy::Add({x}, t)), Builder::Do(toy::Add({t}, u))})),
          b.Transfer("out", u, false)});
  CHECK_EQ(Analyse(*b.program).variable_bytes, 3u * 4096u);
}

TEST(TemporariesAndExchangeBuffersCount) {
  // Step 2 has the peak of tile 0: its partial sum (8 bytes aligned), two received ones (8) and the result
  // for tile 3 (8). Its part of x stays live, because nothing writes x before it is read.
  Builder b(4);
  const View x = b.Split("x", 9, 2),
             s = b.Add("s", {}, Mapping(std::vector<ipu_model::MappedInterval>{{0, 1, 3}}));
  b.Main({Builder::Do(toy::Sum(x, s, 3)), b.Transfer("s", s, false)});
  const Report r = Analyse(*b.program);
  CHECK_EQ(r.max_tile, 0u);
  std::uint64_t temporary = 0, buffer = 0;
  for (const TensorUse& t : r.largest_tensors) {
    if (t.role == "temporary") temporary = t.bytes_on_tile;
    if (t.role == "exchange buffer") buffer = t.bytes_on_tile;
  }
  CHECK_EQ(temporary, 8u);
  CHECK_EQ(buffer, 16u);
}

TEST(ConstantsAlwaysCount) {
  Builder b(2);
  const View c = b.Constant("c", std::vector<std::int32_t>(100, 1), 1), z = b.Split("z", 100, 2);
  b.Main({Builder::Do(toy::Add({c}, z))});
  CHECK_EQ(Analyse(*b.program).constant_bytes, 400u);
}

TEST(OutOfMemoryNamesTilesAndTensors) {
  Builder b(4);
  const View w = b.Add("train.py:12 weights", {400, 500},
                       Mapping(std::vector<ipu_model::MappedInterval>{{0, 1000, 0}, {1000, 200000, 2}}));
  b.Main({b.Transfer("w", w, true), Builder::Do(toy::Add({w}, w)), b.Transfer("out", w, false)});
  const Report r = Analyse(*b.program);
  const std::string& m = r.out_of_memory;
  CHECK(Contains(m, "1 of 4 tiles"));
  CHECK(Contains(m, "tile 2"));
  CHECK(Contains(m, "624.0 KiB"));
  CHECK(Contains(m, "'train.py:12 weights' s32[400,500]"));
  // Nothing is planned if the variables alone do not fit.
  CHECK(Contains(m, "for variables alone") && r.peak.variables_only && r.operations.empty());
  CHECK_EQ(r.peak.variables, 796000u);
  CHECK_EQ(r.peak_variable_bytes, 800000u);
  CHECK_EQ(r.peak.tensors.size(), 1u);
  CHECK(r.peak.tensors[0].lasting == false && r.peak.tensors[0].bytes == 800000u);
  CHECK_EQ(r.fullest_tiles.size(), 4u);
  CHECK_EQ(r.fullest_tiles[0].tile, 2u);
  CHECK(r.max_tile_bytes > r.limit_tile_bytes);
}

TEST(CodeMustLieWhereInstructionsAreFetched) {
  // Codelets of 100 bytes and 44 bytes for each superstep: the memory has room for all, its first part has
  // not.
  Builder b(2);
  const View x = b.Split("x", 8, 2);
  const poplar::Target& target = b.program->target;
  const std::int64_t room = ipu_model::CodeBytesPerTile(target) - Ipu2().runtime_bytes - 100;
  const auto most = static_cast<std::size_t>(room / Ipu2().control_code_bytes_per_superstep);
  for (const std::size_t count : {most, most + 1}) {
    std::vector<std::shared_ptr<ProgramNode>> steps;
    for (std::size_t i = 0; i < count; ++i) steps.push_back(Builder::Do(toy::Add({x}, x)));
    b.Main(steps);
    const Report r = Analyse(*b.program);
    CHECK(r.max_tile_bytes < r.limit_tile_bytes);
    CHECK_EQ(r.out_of_memory.empty(), count == most);
    if (count == most) continue;
    CHECK(Contains(r.out_of_memory, "2 of 2 tiles need more code than the 208.0 KiB"));
    CHECK(r.peak.code > ipu_model::CodeBytesPerTile(target));
  }
}

TEST(OutOfMemoryCountsWhatAnOperationNeeds) {
  // Tile 3 has room for its variables, but not for the 48,000 bytes that it receives.
  Builder b(4);
  const auto on = [](std::int64_t elements, unsigned tile) {
    return Mapping(std::vector<ipu_model::MappedInterval>{{0, elements, tile}});
  };
  const View w = b.Add("w", {155000}, on(155000, 3)), y = b.Add("y", {12000}, on(12000, 0)),
             z = b.Add("z", {}, on(1, 3));
  b.Main({b.Transfer("w", w, true), b.Transfer("y", y, true), Builder::Do(Gather(y, z, {3})),
          b.Transfer("out", w, false)});
  const Report r = Analyse(*b.program);
  CHECK(Contains(r.out_of_memory, "exchange buffers") && !r.peak.variables_only && !r.operations.empty());
  CHECK_EQ(r.max_tile, 3u);
  CHECK_EQ(r.peak.exchange_buffers, 48000u);
  CHECK_EQ(r.peak.variables, 620008u);  // w and z
}

TEST(ProgramsShareWhatIsPlanned) {
  Builder b(4);
  const View x = b.Split("x", 90, 2),
             s = b.Add("s", {}, Mapping(std::vector<ipu_model::MappedInterval>{{0, 1, 3}}));
  b.Main({b.Transfer("x", x, true), Builder::Do(toy::Sum(x, s, 3)), b.Transfer("s", s, false)});
  ipu_model::TilePlanCache cache;
  std::size_t polls = 0;
  // An error that ends a compilation leaves no incomplete plan in the cache.
  cache.poll = [](std::size_t, std::size_t) { throw std::runtime_error("stop"); };
  CHECK_THROWS(std::runtime_error, Analyse(*b.program, &cache));
  CHECK_EQ(cache.size(), 0u);
  cache.poll = [&](std::size_t, std::size_t) { ++polls; };
  const Report first = Analyse(*b.program, &cache), second = Analyse(*b.program, &cache);
  CHECK_EQ(cache.size(), 1u);
  CHECK_EQ(polls, 1u);
  CHECK_EQ(first.cycles.total(), second.cycles.total());
  CHECK_EQ(first.max_tile_bytes, second.max_tile_bytes);
}

TEST(TimeEndsWhileAnOperationIsPlanned) {
  Builder b(4);
  const View x = b.Split("x", 90, 2),
             s = b.Add("s", {}, Mapping(std::vector<ipu_model::MappedInterval>{{0, 1, 3}}));
  b.Main({b.Transfer("x", x, true), Builder::Do(toy::Sum(x, s, 3)), b.Transfer("s", s, false)});
  ipu_model::TilePlanCache cache;
  std::optional<ipu_model::Deadline> over;
  cache.poll = [&](std::size_t, std::size_t) {
    over.emplace(0.0);
  };  // between operations; this is the only one
  CHECK_THROWS(ipu_model::OutOfTime, Analyse(*b.program, &cache));
  CHECK_EQ(cache.size(), 0u);
  over.reset();
  cache.poll = nullptr;
  Analyse(*b.program, &cache);
  CHECK_EQ(cache.size(), 1u);
}

TEST(ReportsSurviveSerialisation) {
  Builder b(4);
  const View x = b.Split("x", 90, 2),
             s = b.Add("s", {}, Mapping(std::vector<ipu_model::MappedInterval>{{0, 1, 3}}));
  b.Main({b.Transfer("x", x, true),
          Builder::Node(ProgramKind::kRepeatWhileFalse,
                        {Builder::Do(toy::Sum(x, s, 3)), Builder::Do(toy::Add({x}, x))}, {s})});
  Report r = Analyse(*b.program);
  r.out_of_memory = "text";
  Writer first, second;
  WriteReport(first, r);
  Reader reader(first.data());
  WriteReport(second, ReadReport(reader));
  CHECK_EQ(reader.remaining(), 0u);
  CHECK(first.data() == second.data());
  Reader truncated(std::string_view(first.data()).substr(0, first.data().size() / 2));
  CHECK_THROWS(SerialiseError, ReadReport(truncated));
}

TEST(ChecksNameTheVariable) {
  const auto message_for = [](Mapping mapping, std::int64_t slice) {
    Builder b(4);
    View v = b.Add("v", {8}, std::move(mapping));
    v.shape = {slice};
    b.Main({Builder::Do(toy::Add({v}, b.Split("ok", slice, 2)))});
    return MessageOf([&] { CheckProgram(*b.program); });
  };
  using Intervals = std::vector<ipu_model::MappedInterval>;
  CHECK_EQ(message_for(Mapping(Grid::Of({8}, {4}, 4)), 8), "");
  CHECK_EQ(message_for(Mapping(Grid::Of({2, 4}, {2, 2}, 2)), 8), "");
  CHECK(Contains(message_for(Mapping(), 8), "variable 'v'"));
  CHECK(Contains(message_for(Mapping(Intervals{{0, 3, 0}, {5, 8, 1}}), 8),
                 "elements [3, 5) are mapped to no tile"));
  CHECK(Contains(message_for(Mapping(Intervals{{0, 7, 0}}), 8), "elements [7, 8) are mapped to no tile"));
  CHECK(Contains(message_for(Mapping(Intervals{{0, 4, 0}, {4, 8, 4}}), 8), "element 4 is mapped to tile 4"));
  CHECK(Contains(message_for(Mapping(Grid::Of({8}, {8}, 8)), 8), "of a target with 4 tiles"));
  CHECK(Contains(message_for(Mapping(Grid::Of({9}, {4}, 4)), 8), "for 9 elements"));
  CHECK(Contains(message_for(Mapping(Grid::Of({8}, {4}, 4)), 9), "elements 0 to 8 of variable 'v'"));
}
