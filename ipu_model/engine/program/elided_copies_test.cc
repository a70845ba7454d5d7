// Each program copies x to y and adds y to z; what differs decides whether the copy costs anything.
#include "engine/program/elided_copies.h"

#include <memory>
#include <utility>
#include <vector>

#include "check.h"
#include "core/program/copy.h"
#include "engine/report/device_report.h"
#include "testing/toy_operations.h"

using namespace ipu_model;
using toy::Builder;

namespace {

std::unique_ptr<Operation> CopyOf(const View& from, const View& to) {
  auto copy = std::make_unique<Copy>();
  copy->inputs = {from};
  copy->outputs = {to};
  return copy;
}

constexpr std::int64_t kElements = 16;
constexpr unsigned kTiles = 4;

struct Program {
  Builder b{kTiles};
  View x = b.Split("x", kElements, kTiles), y = b.Split("y", kElements, kTiles),
       z = b.Split("z", kElements, kTiles);

  std::shared_ptr<ProgramNode> Copied() { return Builder::Do(CopyOf(x, y)); }
  std::shared_ptr<ProgramNode> Read() { return Builder::Do(toy::Add({y, y}, z)); }
  std::shared_ptr<ProgramNode> Write(const View& to) { return Builder::Do(toy::Add({z, z}, to)); }
  std::size_t Elided(std::vector<std::shared_ptr<ProgramNode>> children) {
    b.Main(std::move(children));
    return ElidedCopies(*b.program).size();
  }
};

std::shared_ptr<ProgramNode> Twice(std::vector<std::shared_ptr<ProgramNode>> children) {
  return Builder::Repeat(2, Builder::Node(ProgramKind::kSequence, std::move(children)));
}

}  // namespace

TEST(ACopyToWhatLiesAlikeCostsNothing) {
  Program p;
  p.b.Main({p.Copied(), p.Read()});
  CHECK_EQ(ElidedCopies(*p.b.program).size(), 1u);
  Program without;
  without.b.Main({without.Read()});
  CHECK_EQ(Analyse(*p.b.program).cycles.total(), Analyse(*without.b.program).cycles.total());
}

TEST(NothingElseWritesTheDestination) {
  Program before, after, late;
  CHECK_EQ(before.Elided({before.Write(before.y), before.Copied(), before.Read()}), 0u);
  CHECK_EQ(after.Elided({after.Copied(), after.Read(), after.Write(after.y)}), 0u);
  CHECK_EQ(late.Elided({late.Read(), late.Copied()}), 0u);  // reads what another run copied
}

TEST(TheSourceKeepsItsValuesAsLongAsTheDestinationIsRead) {
  Program before, between, after;
  CHECK_EQ(before.Elided({before.Write(before.x), before.Copied(), before.Read()}), 1u);
  CHECK_EQ(between.Elided({between.Copied(), between.Write(between.x), between.Read()}), 0u);
  CHECK_EQ(after.Elided({after.Copied(), after.Read(), after.Write(after.x)}), 1u);
}

TEST(Loops) {
  Program whole, read, changed, later;
  CHECK_EQ(whole.Elided({Twice({whole.Copied(), whole.Read(), whole.Write(whole.x)})}), 1u);
  CHECK_EQ(read.Elided({read.Copied(), Twice({read.Read()})}), 1u);
  // The second trip would read what the first one wrote.
  CHECK_EQ(changed.Elided({changed.Copied(), Twice({changed.Read(), changed.Write(changed.x)})}), 0u);
  // Nobody says that a loop has a trip.
  CHECK_EQ(later.Elided({Twice({later.Copied()}), later.Read()}), 0u);
}

TEST(AChainOfCopiesHasTheFirstSource) {
  Program p, changed;
  const View last = p.b.Split("last", kElements, kTiles);
  CHECK_EQ(p.Elided({p.Copied(), Builder::Do(CopyOf(p.y, last)), Builder::Do(toy::Add({last, last}, p.z))}),
           2u);
  const View other = changed.b.Split("last", kElements, kTiles);
  CHECK_EQ(changed.Elided({changed.Copied(), Builder::Do(CopyOf(changed.y, other)), changed.Write(changed.x),
                           Builder::Do(toy::Add({other, other}, changed.z))}),
           1u);
}

TEST(OnlyTheOrderOnEachTileCounts) {
  // The halves of y are the other way around, and so are the tiles of its elements.
  Program p;
  std::vector<MappedInterval> intervals;
  for (const unsigned tile : {2u, 3u, 0u, 1u}) {
    const auto begin = static_cast<std::int64_t>(intervals.size()) * 4;
    intervals.push_back({begin, begin + 4, tile});
  }
  const View y = p.b.Add("y", {kElements}, Mapping(intervals));
  const auto half = [](View view, std::int64_t at) {
    view.offset = at;
    view.shape = {kElements / 2};
    return view;
  };
  auto copy = std::make_unique<Copy>();
  copy->inputs = {half(p.x, 0), half(p.x, 8)};
  copy->outputs = {half(y, 8), half(y, 0)};
  CHECK_EQ(p.Elided({Builder::Do(std::move(copy)), Builder::Do(toy::Add({y, y}, p.z))}), 1u);
}

TEST(OtherPlacesAndOrdersAreCopied) {
  Program places, order, part;
  const View elsewhere = places.b.Split("elsewhere", kElements, 2);
  CHECK_EQ(places.Elided({Builder::Do(CopyOf(places.x, elsewhere)),
                          Builder::Do(toy::Add({elsewhere, elsewhere}, places.z))}),
           0u);
  View reversed = order.x;
  reversed.offset = kElements - 1;
  reversed.strides = {-1};
  CHECK_EQ(order.Elided({Builder::Do(CopyOf(reversed, order.y)), order.Read()}), 0u);
  View half = part.x, half_of_y = part.y;
  half.shape = half_of_y.shape = {kElements / 2};
  CHECK_EQ(part.Elided({Builder::Do(CopyOf(half, half_of_y)), part.Read()}), 0u);
}
