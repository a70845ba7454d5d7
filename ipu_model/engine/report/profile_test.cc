// The comments derive the expected numbers by hand. CheckSums holds every profile against its device report.
#include "ipu_model/Profile.hpp"

#include <algorithm>
#include <numeric>

#include "check.h"
#include "engine/report/device_report.h"
#include "testing/toy_operations.h"

using namespace ipu_model;
using toy::Builder;
using toy::Expanded;

namespace {

using Bytes = std::vector<std::int64_t>;

std::int64_t Sum(const Bytes& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

Profile ProfileOfProgram(const Builder& b) { return ProfileOf(poplar::Executable(b.program)); }

std::size_t Named(const Profile& profile, const std::string& name, const std::string& role) {
  const ProfileVariables& v = profile.variables;
  std::size_t i = 0;
  while (v.name.at(i) != name || v.role.at(i) != role) ++i;
  return i;
}

void CheckSums(const Builder& b, const Profile& p) {
  const Report r = Analyse(*b.program);
  const ProfileSteps& s = p.steps;
  const std::size_t steps = s.node.size(), tiles = b.program->target.getNumTiles();
  Cycles cycles;
  std::uint64_t host = 0, exchanged = 0, links = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    cycles += Cycles{s.compute[i], s.exchange[i], s.sync[i]} * (s.executions[i] * s.counted[i]);
    exchanged += s.exchange_bytes[i] * s.executions[i];
    links += s.link_bytes[i] * s.executions[i];
    host += s.host_bytes[i] * s.executions[i];
    const Bytes compute = Expanded(p.tile_compute.rows.at(p.tile_compute.lines.at(i)));
    CHECK_EQ(compute.size(), tiles);
    CHECK_EQ(static_cast<std::uint64_t>(*std::max_element(compute.begin(), compute.end())), s.compute[i]);
    CHECK_EQ(static_cast<std::uint64_t>(Sum(compute)), s.total_compute[i]);
    CHECK_EQ(tiles - static_cast<std::size_t>(std::count(compute.begin(), compute.end(), 0)),
             s.active_tiles[i]);
  }
  CHECK_EQ(cycles.compute, r.cycles.compute);
  CHECK_EQ(cycles.exchange, r.cycles.exchange);
  CHECK_EQ(cycles.sync, r.cycles.sync);
  CHECK_EQ(exchanged, r.exchange_bytes);
  CHECK_EQ(links, r.link_bytes);
  CHECK_EQ(host, r.stream_in_bytes + r.stream_out_bytes);

  // The tree: a node's cycles are those of its steps, and parents contain their children.
  const ProfileNodes& tree = p.nodes;
  CHECK_EQ(tree.cycles.at(0), r.cycles.total());
  for (std::size_t n = 1; n < tree.kind.size(); ++n) {
    const auto parent = static_cast<std::size_t>(tree.parent[n]);
    CHECK(parent < n);
    if (tree.first_step[n] < 0) continue;
    CHECK(tree.first_step[parent] <= tree.first_step[n] && tree.last_step[n] <= tree.last_step[parent]);
  }

  // Memory at each tile's own peak.
  const Bytes total = Expanded(p.memory.total);
  CHECK_EQ(static_cast<std::uint64_t>(*std::max_element(total.begin(), total.end())), r.max_tile_bytes);
  CHECK_EQ(static_cast<std::uint64_t>(Sum(total)), r.total_bytes);
  CHECK_EQ(static_cast<std::uint64_t>(Sum(Expanded(p.memory.variables))), r.variable_bytes);
  CHECK_EQ(static_cast<std::uint64_t>(Sum(Expanded(p.memory.temporaries))), r.temporary_bytes);
  CHECK_EQ(static_cast<std::uint64_t>(Sum(Expanded(p.memory.exchange_buffers))), r.exchange_buffer_bytes);
  CHECK_EQ(static_cast<std::uint64_t>(Sum(Expanded(p.memory.constants))), r.constant_bytes);
  CHECK_EQ(static_cast<std::uint64_t>(Sum(Expanded(p.memory.vertex_state))), r.vertex_bytes);
  CHECK_EQ(static_cast<std::uint64_t>(Sum(Expanded(p.memory.code))), r.code_bytes);
  if (p.memory.peak_step >= 0) {
    CHECK_EQ(s.fullest_bytes.at(static_cast<std::size_t>(p.memory.peak_step)), r.max_tile_bytes);
  }

  // In each step every tile holds code, state and the variables that are live.
  const Bytes code = Expanded(p.memory.code), state = Expanded(p.memory.vertex_state);
  for (std::size_t i = 0; i < steps; ++i) {
    Bytes expected(tiles, 0);
    for (std::size_t t = 0; t < tiles; ++t) expected[t] = code[t] + state[t];
    for (std::size_t v = 0; v < p.variables.name.size(); ++v) {
      const std::vector<std::uint32_t>& when = p.variables.live_steps[v];
      for (std::size_t k = 0; k < when.size(); k += 2) {
        if (i < when[k] || i > when[k + 1]) continue;
        const Bytes bytes = Expanded(p.variables.rows.at(p.variables.row[v]));
        for (std::size_t t = 0; t < tiles; ++t) expected[t] += bytes[t];
      }
    }
    const Bytes live = Expanded(p.tile_memory.rows.at(p.tile_memory.lines.at(i)));
    CHECK(live == expected);
    CHECK_EQ(static_cast<std::uint64_t>(Sum(live)), s.live_bytes[i]);
    CHECK_EQ(static_cast<std::uint64_t>(live.at(s.fullest_tile[i])), s.fullest_bytes[i]);
    CHECK_EQ(*std::max_element(live.begin(), live.end()), live.at(s.fullest_tile[i]));
  }

  // Who sends to whom.
  for (std::size_t i = 0; i < p.exchange.steps.size(); ++i) {
    const auto bytes = static_cast<std::int64_t>(s.exchange_bytes.at(p.exchange.steps[i]));
    CHECK_EQ(Sum(Expanded(p.exchange.sent.rows.at(p.exchange.sent.lines.at(i)))), bytes);
    CHECK_EQ(Sum(Expanded(p.exchange.received.rows.at(p.exchange.received.lines.at(i)))), bytes);
    const RunLengths& pairs = p.exchange.pairs.rows.at(p.exchange.pairs.lines.at(i));
    std::int64_t sum = 0;
    for (std::size_t k = 2; k < pairs.size(); k += 3) sum += pairs[k];
    CHECK_EQ(sum, bytes);
  }
}

}  // namespace

TEST(StepsOfAnOperationAndItsExchange) {
  // As in PartialSumsAndRemoteResult of device_report_test: tile 1 receives element 3 from tile 0, tile 2 its
  // 3 elements from tile 1. Then tile 0 receives two partial sums and sends the result to tile 3.
  Builder b(4);
  const View x = b.Split("x", 9, 2),
             s = b.Add("s", {}, Mapping(std::vector<ipu_model::MappedInterval>{{0, 1, 3}}));
  b.Main({b.Transfer("x", x, true), Builder::Do(toy::Sum(x, s, 3)), b.Transfer("s", s, false)});
  const Profile p = ProfileOfProgram(b);
  CheckSums(b, p);
  CHECK_EQ(p.steps.node.size(), 4u);
  CHECK_EQ(p.steps.name[0], "x");
  CHECK_EQ(p.steps.host_bytes[0], 36u);
  CHECK_EQ(p.steps.name[1], "Partial");
  CHECK_EQ(p.steps.name[2], "Final");
  CHECK(Expanded(p.tile_compute.rows[p.tile_compute.lines[1]]) == (Bytes{3, 3, 3, 0}));
  CHECK(Expanded(p.tile_compute.rows[p.tile_compute.lines[2]]) == (Bytes{3, 0, 0, 0}));
  CHECK(p.exchange.steps == (std::vector<std::uint32_t>{1, 2}));
  CHECK_EQ(p.exchange.group_tiles, 1u);
  CHECK(p.exchange.pairs.rows[p.exchange.pairs.lines[0]] == (RunLengths{0, 1, 4, 1, 2, 12}));
  CHECK(p.exchange.pairs.rows[p.exchange.pairs.lines[1]] == (RunLengths{0, 3, 4, 1, 0, 4, 2, 0, 4}));
  // x is live from its transfer to the end of the operation, but only the first superstep reads it.
  const ProfileVariables& v = p.variables;
  const std::size_t read = Named(p, "x", "variable"), partials = Named(p, "toy::sum", "temporary");
  CHECK(v.live_steps[read] == (std::vector<std::uint32_t>{0, 2}));
  CHECK_EQ(v.last_use[read], 1);
  CHECK(Expanded(v.rows[v.row[read]]) == (Bytes{16, 24, 0, 0}));
  CHECK(v.live_steps[partials] == (std::vector<std::uint32_t>{1, 2}));
  CHECK_EQ(v.tiles[partials], 3u);
  CHECK_EQ(v.operation[partials], 0);
}

TEST(BroadcastsCountForEachReceiver) {
  Builder b(4);
  View s = b.Split("s", 1, 1);
  const View z = b.Split("z", 64, 4);
  s.shape = {64};
  s.strides = {0};
  b.Main({Builder::Do(toy::Add({s}, z))});
  const Profile p = ProfileOfProgram(b);
  CheckSums(b, p);
  CHECK(Expanded(p.exchange.sent.rows[0]) == (Bytes{12, 0, 0, 0}));
  CHECK(Expanded(p.exchange.received.rows[0]) == (Bytes{0, 4, 4, 4}));
}

TEST(LoopsAndBranches) {
  Builder b(2);
  const View x = b.Split("x", 2, 2), n = b.Split("n", 1, 1);
  const auto add = [&] { return Builder::Do(toy::Add({x}, x)); };
  b.Main(
      {Builder::Repeat(5, Builder::Node(ProgramKind::kSequence, {add(), Builder::Repeat(2, add())})),
       Builder::Node(ProgramKind::kIf, {add(), Builder::Node(ProgramKind::kSequence, {add(), add()})}, {n}),
       Builder::Node(ProgramKind::kRepeatWhileTrue, {Builder::Do(toy::Add({n}, n)), add()}, {n})});
  const Profile p = ProfileOfProgram(b);
  CheckSums(b, p);
  CHECK(p.steps.executions == (std::vector<std::uint64_t>{5, 10, 1, 1, 1, 1, 1, 1, 1}));
  // The first branch of the conditional is the cheaper one.
  CHECK(p.steps.counted == (std::vector<std::uint8_t>{1, 1, 1, 0, 1, 1, 1, 1, 1}));
  CHECK(p.steps.operation == (std::vector<std::int32_t>{0, 1, -1, 2, 3, 4, 5, -1, 6}));
  CHECK_EQ(p.nodes.kind[0], "sequence");
  CHECK_EQ(p.nodes.kind[1], "repeat");
  CHECK_EQ(p.nodes.trips[1], 5u);
  CHECK_EQ(p.nodes.first_step[1], 0);
  CHECK_EQ(p.nodes.last_step[1], 1);
  // Both are state: each run reads what the run before wrote.
  CHECK(p.variables.lasting[Named(p, "x", "variable")]);
  CHECK_EQ(p.memory.always_live_bytes, p.steps.live_bytes[0]);
}

// Compiling drops what does nothing; where it is left, as here, it has a step but no instruction.
TEST(ACopyOfNothingAfterAnOperation) {
  Builder b(4);
  const View x = b.Split("x", 9, 2),
             s = b.Add("s", {}, Mapping(std::vector<ipu_model::MappedInterval>{{0, 1, 3}}));
  auto nothing = std::make_unique<toy::Toy>("poplar::copy", std::vector<View>{}, std::vector<View>{},
                                            [](const toy::Toy&, const DeviceContext&) {
                                              TilePlan plan;
                                              plan.supersteps.emplace_back();
                                              return plan;
                                            });
  b.Main({Builder::Repeat(3, Builder::Node(ProgramKind::kSequence, {Builder::Do(toy::Sum(x, s, 3)),
                                                                    Builder::Do(std::move(nothing))}))});
  const Profile p = ProfileOfProgram(b);
  CHECK_EQ(p.steps.node.size(), 3u);
  CHECK_EQ(p.variables.last_use[Named(p, "x", "variable")], 0);
}

TEST(FunctionsHaveStepsForEachCall) {
  Builder b(2);
  const View x = b.Split("x", 2, 2), y = b.Split("y", 2, 2), t = b.Split("t", 2, 2), u = b.Split("u", 2, 2);
  const auto call = [](std::uint32_t function) {
    auto node = Builder::Node(ProgramKind::kCall);
    node->function = function;
    return node;
  };
  b.program->functions.push_back(Builder::Node(
      ProgramKind::kSequence, {Builder::Do(toy::Add({x}, t)), call(1), Builder::Do(toy::Add({t}, y))}));
  b.program->functions.push_back(Builder::Do(toy::Add({y}, u)));
  b.Main({b.Transfer("x", x, true), b.Transfer("y", y, true), call(0), Builder::Do(toy::Add({y}, x)), call(0),
          b.Transfer("y", y, false)});
  const Profile p = ProfileOfProgram(b);
  CheckSums(b, p);
  CHECK_EQ(p.operations.size(), 4u);
  CHECK(p.steps.operation == (std::vector<std::int32_t>{-1, -1, 0, 1, 2, 3, 0, 1, 2, -1}));
  CHECK_EQ(p.operations[0].executions, 2u);
  // t is live in both calls, from the operation that writes it to the one that reads it.
  CHECK(p.variables.live_steps[Named(p, "t", "variable")] == (std::vector<std::uint32_t>{2, 4, 6, 8}));
  CHECK_EQ(p.variables.last_use[Named(p, "t", "variable")], 8);
}

TEST(ConstantsAndOtherPrograms) {
  // w lasts, though the main program does not use it; c is live in every step.
  Builder b(2);
  const View c = b.Constant("c", std::vector<std::int32_t>(100, 1), 1), z = b.Split("z", 100, 2),
             w = b.Split("w", 50, 2), v = b.Split("v", 5000, 2);
  b.Main({Builder::Do(toy::Add({c}, z)), b.Transfer("z", z, false)});
  b.Main({Builder::Do(toy::Add({w}, w)), b.Transfer("v", v, true), b.Transfer("v", v, false)});
  const Profile p = ProfileOfProgram(b);
  CheckSums(b, p);
  CHECK(p.variables.live_steps[Named(p, "c", "constant")] == (std::vector<std::uint32_t>{0, 1}));
  CHECK(p.variables.lasting[Named(p, "w", "variable")]);
  CHECK_EQ(p.memory.peak_step, -1);  // the other program is fuller
}

TEST(ProgramsThatDoNotFit) {
  // The variables alone do not fit: there are steps, but no cycles.
  Builder b(4);
  const View w = b.Add("weights", {400, 500},
                       Mapping(std::vector<ipu_model::MappedInterval>{{0, 1000, 0}, {1000, 200000, 2}}));
  b.Main({b.Transfer("w", w, true), Builder::Do(toy::Add({w}, w)), b.Transfer("out", w, false)});
  const OutOfMemory failure("", Analyse(*b.program), b.program);
  const Profile p = ProfileOf(failure);
  CHECK_EQ(p.steps.node.size(), 3u);
  CHECK_EQ(p.steps.compute[1], 0u);
  CHECK_EQ(p.steps.fullest_bytes[1], 796000u);
  CHECK_EQ(p.steps.fullest_tile[1], 2u);
  CHECK_EQ(p.variables.name.size(), 1u);
  CHECK(Expanded(p.memory.total) == (Bytes{4000, 0, 796000, 0}));

  // The variables fit, but not with the buffer of the operation.
  Builder planned(4);
  const auto on = [](std::int64_t elements, unsigned tile) {
    return Mapping(std::vector<ipu_model::MappedInterval>{{0, elements, tile}});
  };
  const View x = planned.Add("x", {145000}, on(145000, 3)), y = planned.Add("y", {12000}, on(12000, 0)),
             z = planned.Add("z", {12000}, on(12000, 3));
  planned.Main({planned.Transfer("x", x, true), planned.Transfer("y", y, true), Builder::Do(toy::Add({y}, z)),
                planned.Transfer("out", x, false), planned.Transfer("z", z, false)});
  CHECK(!Analyse(*planned.program).out_of_memory.empty());
  CheckSums(planned, ProfileOfProgram(planned));
}

TEST(TheOriginOfOperationsAndVariables) {
  Builder b(2);
  const View x = b.Split("x", 4, 2), y = b.Split("y", 4, 2);
  auto add = Builder::Do(toy::Add({x}, y));
  add->origin = 7;
  b.Main({b.Transfer("x", x, true), add, b.Transfer("y", y, false)});
  const Profile p = ProfileOfProgram(b);
  CHECK(p.origins == (std::vector<std::uint32_t>{7}));
  CHECK_EQ(p.variables.origin[Named(p, "x", "variable")], 0u);
  CHECK_EQ(p.variables.origin[Named(p, "y", "variable")], 7u);
}
