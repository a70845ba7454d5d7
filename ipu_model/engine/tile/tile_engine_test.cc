#include "engine/tile/tile_engine.h"

#include <numeric>
#include <sstream>

#include "check.h"
#include "engine/run/print_tensor.h"
#include "engine/tile/tile_storage.h"
#include "poplar/exceptions.hpp"
#include "testing/toy_operations.h"

using jax_ipu::testing::Contains;
using jax_ipu::testing::MessageOf;
using namespace ipu_model;
using toy::Builder;

namespace {

using Ints = std::vector<std::int32_t>;

Ints Iota(std::int64_t n) {
  Ints v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return v;
}

// Runs program 0 with the given memory connected to the streams.
void RunProgram(const Builder& builder, std::vector<Ints*> streams) {
  TileEngine engine(builder.program);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    engine.ConnectStream(static_cast<std::uint32_t>(i), streams[i]->data(),
                         streams[i]->data() + streams[i]->size());
  }
  engine.Load();
  engine.Run(0);
}

std::shared_ptr<ProgramNode> Mark(ProgramKind kind, const View& view, const std::string& text) {
  auto node = Builder::Node(kind, {}, {view});
  node->text = text;
  return node;
}

}  // namespace

TEST(StorageHoldsOnlyWhatIsMapped) {
  TileStorage storage(4);
  const Placement p =
      storage.Allocate(Mapping(std::vector<MappedInterval>{{0, 3, 1}, {3, 5, 2}, {5, 6, 1}}), 6, 4);
  CHECK_EQ(storage.bytes_on(0), 0u);
  CHECK_EQ(storage.bytes_on(1), 20u);  // 12, aligned to 16, plus 4
  CHECK_EQ(storage.bytes_on(2), 8u);
  CHECK(p.Find(6) == nullptr);
  CHECK_EQ(p.Find(4)->tile, 2u);
}

TEST(MovesFollowAnyStrides) {
  TileStorage storage(3);
  const Placement p =
      storage.Allocate(Mapping(std::vector<MappedInterval>{{0, 5, 2}, {5, 7, 0}, {7, 12, 1}}), 12, 4);
  const Ints values = Iota(12);
  const View whole{0, DType::kS32, 0, {12}, {1}};
  storage.Scatter(TileMovesOf(whole, Box::Whole(whole.shape), p), 4,
                  reinterpret_cast<const unsigned char*>(values.data()));
  const std::vector<View> views = {
      {0, DType::kS32, 0, {4, 3}, {1, 4}}, {0, DType::kS32, 11, {12}, {-1}},
      {0, DType::kS32, 6, {2, 3}, {0, 0}}, {0, DType::kS32, 1, {2, 2, 3}, {5, -1, 2}},
      {0, DType::kS32, 3, {}, {}},         {0, DType::kS32, 0, {0, 4}, {4, 1}}};
  for (const View& view : views) {
    Ints got(static_cast<std::size_t>(view.num_elements()), -1);
    storage.Gather(TileMovesOf(view, Box::Whole(view.shape), p), 4,
                   reinterpret_cast<unsigned char*>(got.data()));
    std::size_t at = 0;
    Shape index(view.shape.size(), 0);
    for (; at < got.size(); ++at) {
      std::int64_t e = view.offset;
      for (std::size_t d = 0; d < index.size(); ++d) e += index[d] * view.strides[d];
      CHECK_EQ(got[at], static_cast<std::int32_t>(e));
      for (std::size_t d = index.size(); d-- > 0;) {
        if (++index[d] < view.shape[d]) break;
        index[d] = 0;
      }
    }
  }
}

TEST(AddsAcrossDifferentMappings) {
  Builder b(8);
  const View x = b.Split("x", 20, 8), y = b.Split("y", 20, 3), z = b.Split("z", 20, 5);
  b.Main({b.Transfer("x", x, true), b.Transfer("y", y, true), Builder::Do(toy::Add({x, y}, z)),
          b.Transfer("z", z, false)});
  Ints in0 = Iota(20), in1 = Iota(20), out(20);
  RunProgram(b, {&in0, &in1, &out});
  for (int i = 0; i < 20; ++i) CHECK_EQ(out[static_cast<std::size_t>(i)], 2 * i);
}

TEST(TransposedAndBroadcastOperands) {
  Builder b(8);
  const View x = b.Add("x", {4, 6}, Mapping(Grid::Of({4, 6}, {2, 3}, 8)));
  const View y = b.Split("y", 6, 4);
  const View z = b.Add("z", {6, 4}, Mapping(Grid::Of({24}, {7}, 8)));
  View xt = x, yb = y;
  xt.shape = {6, 4};
  xt.strides = {1, 6};
  yb.shape = {6, 4};
  yb.strides = {1, 0};
  b.Main({b.Transfer("x", x, true), b.Transfer("y", y, true), Builder::Do(toy::Add({xt, yb}, z)),
          b.Transfer("z", z, false)});
  Ints in0 = Iota(24), in1 = Iota(6), out(24);
  RunProgram(b, {&in0, &in1, &out});
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 4; ++j) CHECK_EQ(out[static_cast<std::size_t>(i * 4 + j)], j * 6 + i + i);
  }
}

TEST(AllReadsHappenBeforeAllWrites) {
  // Reverses a vector in place: each vertex reads elements that another one writes.
  Builder b(4);
  const View x = b.Split("x", 10, 4);
  View reversed = x;
  reversed.offset = 9;
  reversed.strides = {-1};
  b.Main({b.Transfer("in", x, true), Builder::Do(toy::Add({reversed}, x)), b.Transfer("out", x, false)});
  Ints in = Iota(10), out(10);
  RunProgram(b, {&in, &out});
  for (int i = 0; i < 10; ++i) CHECK_EQ(out[static_cast<std::size_t>(i)], 9 - i);
}

TEST(TemporariesLiveWhereTheirGridSays) {
  Builder b(4);
  const View x = b.Split("x", 9, 2), s = b.Add("s", {}, Mapping(std::vector<MappedInterval>{{0, 1, 3}}));
  b.Main({b.Transfer("x", x, true), Builder::Do(toy::Sum(x, s, 3)), b.Transfer("s", s, false)});
  Ints in = Iota(9), out(1);
  RunProgram(b, {&in, &out});
  CHECK_EQ(out[0], 36);
}

TEST(ConstantsAndZeroedVariables) {
  Builder b(4);
  const View c = b.Constant("c", {5, 6, 7}, 2), zero = b.Split("zero", 3, 3), z = b.Split("z", 3, 1);
  b.Main({Builder::Do(toy::Add({c, zero}, z)), b.Transfer("z", z, false)});
  Ints out(3);
  RunProgram(b, {&out});
  CHECK(out == Ints({5, 6, 7}));
}

TEST(ControlFlow) {
  // s doubles 3 times in a Repeat, then grows by one per trip while n counts down, then by a Switch and an
  // If.
  Builder b(4);
  const View s = b.Constant("one", {1}, 1), minus = b.Constant("minus", {-1}, 0);
  const View x = b.Split("x", 1, 1), n = b.Split("n", 1, 1), copy = b.Split("copy", 1, 1);
  const auto grow = [&] { return Builder::Do(toy::Add({x, s}, x)); };
  auto loop =
      Builder::Node(ProgramKind::kRepeatWhileTrue,
                    {Builder::Do(toy::Add({n}, copy)),
                     Builder::Node(ProgramKind::kSequence, {grow(), Builder::Do(toy::Add({n, minus}, n))})},
                    {copy});
  auto choice =
      Builder::Node(ProgramKind::kSwitch,
                    {grow(), Builder::Do(toy::Add({x, x}, x)), Builder::Node(ProgramKind::kSequence)}, {x});
  choice->cases = {99, 13};
  auto condition = Builder::Node(ProgramKind::kIf, {Builder::Node(ProgramKind::kSequence), grow()}, {n});
  auto call = Builder::Node(ProgramKind::kCall);
  b.program->functions.push_back(grow());
  b.Main({b.Transfer("x", x, true), b.Transfer("n", n, true),
          Builder::Repeat(3, Builder::Do(toy::Add({x, x}, x))), loop, choice, condition, call,
          b.Transfer("out", x, false)});
  Ints in0 = {1}, in1 = {5}, out(1);
  RunProgram(b, {&in0, &in1, &out});
  CHECK_EQ(out[0], 28);  // 1 -> 8 -> 13 -> 26 -> 27 -> 28
}

TEST(RepeatWhileFalseStopsOnTrue) {
  Builder b(2);
  const View one = b.Constant("one", {1}, 0), n = b.Split("n", 1, 1), x = b.Split("x", 1, 1);
  b.Main({b.Transfer("n", n, true),
          Builder::Node(ProgramKind::kRepeatWhileFalse,
                        {Builder::Do(toy::Add({x, one}, x)), Builder::Do(toy::Add({n, one}, n))}, {n}),
          b.Transfer("x", x, false)});
  Ints in = {0}, out(1);
  RunProgram(b, {&in, &out});
  CHECK_EQ(out[0], 2);  // the condition runs before each test: n is 0, then 1
}

TEST(StreamsMoveThroughTheirMemoryAndStartOver) {
  Builder b(2);
  const View x = b.Split("x", 2, 2);
  b.Main({Builder::Repeat(
      3, Builder::Node(ProgramKind::kSequence, {b.Transfer("in", x, true), b.Transfer("out", x, false)}))});
  Ints in = {1, 2, 3, 4}, out(6);
  RunProgram(b, {&in, &out});
  CHECK(out == Ints({1, 2, 3, 4, 1, 2}));
}

TEST(PrintAndAbort) {
  Builder b(2);
  const View c = b.Constant("c", {1, 0, 3}, 0);
  auto print = Mark(ProgramKind::kPrint, c, "c");
  print->shape = {3};
  b.Main({print, Mark(ProgramKind::kAbort, c, "unused")});
  b.program->programs.push_back(Builder::Node(ProgramKind::kSequence));
  View first = c;
  first.shape = first.strides = {};
  b.program->programs.push_back(Mark(ProgramKind::kAbort, first, "the loss is not finite"));
  TileEngine engine(b.program);
  engine.Load();
  std::ostringstream text;
  engine.SetPrintTensorStream(text);
  CHECK(Contains(MessageOf([&] { engine.Run(2); }), "the loss is not finite"));
  engine.Run(1);
  const Ints matrix = {1, 2, 3, 4};
  PrintTensor(text, "m", DType::kS32, {2, 2}, matrix.data());
  const float values[] = {7.0f, -0.5f};
  PrintTensor(text, "v2", DType::kF32, {2}, values);
  CHECK_EQ(text.str(), "m: [\n  [1 2]\n  [3 4]\n]\nv2: [7.0000000 -0.5000000]\n");
}

TEST(TwoWritersOfOneElementAreFound) {
  Builder b(4);
  const View z = b.Split("z", 8, 4);
  b.Main({Builder::Do(std::make_unique<toy::Toy>(
      "toy::clash", std::vector<View>{}, std::vector<View>{z}, [](const toy::Toy& op, const DeviceContext&) {
        TilePlan plan;
        plan.supersteps.push_back({{toy::AddGroup(op, {{0, {{0}, {5}}}, {3, {{4}, {8}}}})}});
        return plan;
      }))});
  const std::string message = MessageOf([&] { RunProgram(b, {}); });
  CHECK(Contains(message, "toy::clash"));
  CHECK(Contains(message, "both write element 4 of variable 'z' on tile 2"));
}

TEST(ElementsWithoutATileAreFound) {
  Builder b(4);
  const View z = b.Add("z", {8}, Mapping(std::vector<MappedInterval>{{0, 4, 0}, {6, 8, 1}}));
  b.Main({Builder::Do(std::make_unique<toy::Toy>(
      "toy::hole", std::vector<View>{}, std::vector<View>{z}, [](const toy::Toy& op, const DeviceContext&) {
        TilePlan plan;
        plan.supersteps.push_back({{toy::AddGroup(op, {{1, {{0}, {8}}}})}});
        return plan;
      }))});
  const std::string message = MessageOf([&] { RunProgram(b, {}); });
  CHECK(Contains(message, "element 4 of variable 'z'"));
  CHECK(Contains(message, "vertex on tile 1"));
}

TEST(RegionsOutsideTheViewAndTilesOutsideTheTargetAreFound) {
  for (const bool bad_tile : {false, true}) {
    Builder b(4);
    const View z = b.Split("z", 8, 4);
    b.Main({Builder::Do(std::make_unique<toy::Toy>(
        "toy::outside", std::vector<View>{}, std::vector<View>{z},
        [bad_tile](const toy::Toy& op, const DeviceContext&) {
          TilePlan plan;
          plan.supersteps.push_back(
              {{toy::AddGroup(op, {bad_tile ? Vertex{4, {{0}, {8}}} : Vertex{0, {{0}, {9}}}})}});
          return plan;
        }))});
    const std::string message = MessageOf([&] { RunProgram(b, {}); });
    CHECK(
        Contains(message, bad_tile ? "on tile 4 of a target with 4 tiles" : "reaches [0:9] of variable 'z'"));
  }
}

TEST(UnconnectedStreamIsAnError) {
  Builder b(2);
  b.Main({b.Transfer("input", b.Split("x", 2, 2), true)});
  TileEngine engine(b.program);
  engine.Load();
  CHECK(Contains(MessageOf([&] { engine.Run(0); }), "stream 'input'"));
}

TEST(ManyOperationsOnAllTiles) {
  Builder b(1472);
  const View x = b.Split("x", 3000, 1472), y = b.Split("y", 3000, 100);
  std::vector<std::shared_ptr<ProgramNode>> children = {b.Transfer("x", x, true)};
  for (int i = 0; i < 25; ++i) {
    children.push_back(Builder::Do(toy::Add({x}, y)));
    children.push_back(Builder::Do(toy::Add({y, y}, x)));
  }
  children.push_back(b.Transfer("out", x, false));
  b.Main(children);
  Ints in(3000, 1), out(3000);
  RunProgram(b, {&in, &out});
  for (const std::int32_t v : out) CHECK_EQ(v, 1 << 25);
}
