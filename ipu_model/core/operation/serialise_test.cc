// Tests that written data is read back unchanged, and that damaged data is rejected.
#include "core/operation/serialise.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "check.h"

namespace {

using namespace ipu_model;

enum class Colour : std::uint8_t { kRed, kBlue, kCount };

TEST(ValuesComeBack) {
  Writer w;
  const std::vector<std::int64_t> integers = {0,
                                              -1,
                                              1,
                                              63,
                                              -64,
                                              64,
                                              1 << 20,
                                              std::numeric_limits<std::int64_t>::max(),
                                              std::numeric_limits<std::int64_t>::min()};
  for (std::int64_t i : integers) w.Write(i);
  w.Write(std::numeric_limits<std::uint64_t>::max());
  w.Write(-0.0);
  w.Write(std::nan(""));
  w.Write(1.5f);
  w.Write(std::string("a\0b", 3));
  w.Write(std::vector<std::string>{"x", ""});
  w.Write(true);
  w.Write(Colour::kBlue);
  w.Write(View{7, DType::kBF16, 3, {2, 0}, {-5, 1}});
  const Grid grid = Grid::Of({10, 6}, {5, 2}, 16, 3);
  w.Write(grid);
  w.Write(Box{{1, 2}, {3, 4}});
  w.Write(Mapping(grid), 60);
  w.Write(Mapping(std::vector<MappedInterval>{{0, 4, 1}, {6, 8, 0}}), 8);
  w.Write(Mapping(), 8);
  Expression e;
  e.inputs = {DType::kF32, DType::kF32};
  ScalarConstant one;
  one.bytes[3] = 0x3f;
  e.constants = {one};
  e.code = {{ScalarOp::kAdd, DType::kF32, DType::kF32, {0, 1, 0}, 0},
            {ScalarOp::kLt, DType::kF32, DType::kPred, {3, 2, 0}, 9}};
  e.outputs = {4, 0};
  w.Write(e);

  Reader r(w.data());
  for (std::int64_t i : integers) CHECK_EQ(r.Read<std::int64_t>(), i);
  CHECK_EQ(r.Read<std::uint64_t>(), std::numeric_limits<std::uint64_t>::max());
  const auto zero = r.Read<double>();
  CHECK(zero == 0 && std::signbit(zero));
  CHECK(std::isnan(r.Read<double>()));
  CHECK_EQ(r.Read<float>(), 1.5f);
  CHECK(r.Read<std::string>() == std::string("a\0b", 3));
  CHECK((r.Read<std::vector<std::string>>() == std::vector<std::string>{"x", ""}));
  CHECK(r.Read<bool>());
  CHECK(r.Read<Colour>() == Colour::kBlue);
  const auto view = r.Read<View>();
  CHECK(view.variable == 7 && view.type == DType::kBF16 && view.offset == 3);
  CHECK((view.shape == Shape{2, 0}) && (view.strides == Shape{-5, 1}));
  const auto p = r.Read<Grid>();
  CHECK(p.shape == grid.shape && p.parts == grid.parts && p.grain == grid.grain);
  CHECK(p.tile_stride == grid.tile_stride && p.first_tile == 3 && p.num_tiles == 16);
  CHECK((r.Read<Box>().end == Shape{3, 4}));
  CHECK(r.ReadMapping(60) == Mapping(grid));
  CHECK(r.ReadMapping(8) == Mapping(std::vector<MappedInterval>{{0, 4, 1}, {6, 8, 0}}));
  CHECK(r.ReadMapping(8).empty());
  const auto back = r.Read<Expression>();
  CHECK(back.inputs == e.inputs && back.outputs == e.outputs);
  CHECK(back.constants.size() == 1 && back.constants[0].bytes[3] == 0x3f);
  CHECK(back.code.size() == 2 && back.code[1].op == ScalarOp::kLt && back.code[1].operand[1] == 2);
  CHECK(back.code[1].result_type == DType::kPred && back.code[1].immediate == 9);
  CHECK_EQ(r.remaining(), 0u);
}

TEST(ValuesOutOfRangeAreRefused) {
  Writer w;
  w.Write(300);
  w.Write(2);
  w.Write(-1);
  Reader r(w.data());
  CHECK_THROWS(SerialiseError, Reader(w.data()).Read<std::uint8_t>());
  CHECK_EQ(r.Read<int>(), 300);
  const std::string two = w.data().substr(2);
  CHECK_THROWS(SerialiseError, Reader(two).Read<bool>());
  CHECK_THROWS(SerialiseError, Reader(two).Read<Colour>());
  CHECK_EQ(r.Read<int>(), 2);
  CHECK_THROWS(SerialiseError, r.Read<unsigned>());
  CHECK_THROWS(SerialiseError, Reader("").Read<int>());
  CHECK_THROWS(SerialiseError, Reader("\x80\x80").Read<int>());
  CHECK_THROWS(SerialiseError, Reader(std::string(20, '\xff')).Read<std::int64_t>());
}

TEST(GridsWithoutRoomToComputeAreRefused) {
  const auto read = [](const Grid& grid) {
    Writer w;
    w.Write(grid);
    return Reader(w.data()).Read<Grid>();
  };
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  const Grid good = {{kMany}, {1 << 10}, {4}, {1}, 3, 16};
  CHECK(read(good) == good);
  Grid parts = good, grain = good, stride = good, empty = good;
  parts.parts = {std::int64_t{1} << 30};
  grain.grain = {std::numeric_limits<std::int64_t>::max()};
  stride.tile_stride = {std::int64_t{1} << 53};
  empty.shape = {kMany, kMany, 0};
  empty.parts = empty.grain = empty.tile_stride = {1, 1, 1};
  for (const Grid& bad : {parts, grain, stride, empty}) CHECK_THROWS(SerialiseError, read(bad));
}

TEST(LongLengthsAllocateNothing) {
  Writer w;
  w.Write(std::int64_t{1} << 60);
  CHECK_THROWS(SerialiseError, Reader(w.data()).Read<std::string>());
  CHECK_THROWS(SerialiseError, Reader(w.data()).Read<Shape>());
}

TEST(RandomBytesNeverCrash) {
  std::mt19937 rng(1);
  int refused = 0;
  const auto attempt = [&refused](auto&& read) {
    try {
      read();
    } catch (const SerialiseError&) {
      ++refused;
    }
  };
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(rng() % 60, '\0');
    for (char& c : bytes) c = static_cast<char>(rng() % 3 == 0 ? rng() : rng() % 8);
    attempt([&] { Reader(bytes).Read<View>(); });
    attempt([&] { Reader(bytes).Read<Grid>(); });
    attempt([&] { Reader(bytes).Read<Expression>(); });
    attempt([&] { Reader(bytes).ReadMapping(12); });
    attempt([&] { Reader(bytes).Read<std::vector<std::string>>(); });
  }
  CHECK(refused > 1000);
}

}  // namespace
