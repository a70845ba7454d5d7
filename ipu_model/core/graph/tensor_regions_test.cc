// Regions of tensors, their order in memory, and clones that keep it; values of constants and of types.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "core/graph/graph_impl.h"
#include "core/mapping/stretches.h"
#include "poplar/DebugContext.hpp"
#include "poplar/Engine.hpp"
#include "poplar/Graph.hpp"
#include "poplar/IPUModel.hpp"
#include "poplar/MetadataCreation.hpp"
#include "poplar/QuarterFloat.hpp"
#include "poplar/TypeConversion.hpp"
#include "poplar/exceptions.hpp"

namespace {

using poplar::concat;
using poplar::Graph;
using poplar::Interval;
using poplar::Tensor;
using Intervals = std::vector<Interval>;
using Sets = std::vector<Intervals>;

Graph NewGraph(unsigned tiles = 8) { return Graph(poplar::Target::createIPUTarget(1, tiles, "ipu2")); }

// The elements of a tensor, one by one.
std::vector<std::pair<unsigned, std::int64_t>> ElementsOf(const Tensor& tensor) {
  std::vector<std::pair<unsigned, std::int64_t>> elements;
  for (const ipu_model::Stretch& s : ipu_model::StretchesOf(tensor, false)) {
    for (std::int64_t i = 0; i < s.count; ++i) elements.emplace_back(s.variable, s.element + i * s.step);
  }
  return elements;
}

TEST(SlicesOfIntervals) {
  Graph graph = NewGraph();
  const Tensor t = graph.addVariable(poplar::INT, {4, 6});
  const auto parts = t.slices({{0, 2}, {4, 6}}, 1);
  CHECK(parts.size() == 2 && parts[1] == t.slice(4, 6, 1));
  const std::array<std::size_t, 2> begin{0, 4}, end{2, 6};
  CHECK(t.slice(begin, end) == t.slice({0, 4}, {2, 6}) && t.slice(begin, end) == parts[1].slice(0, 2));
  const auto sets = t.flatten().slices(Sets{{{1, 3}, {20, 24}}, {}}, 0);
  CHECK(sets[0] == concat(t.flatten().slice(1, 3), t.flatten().slice(20, 24)));
  CHECK(sets[1].numElements() == 0);
  const auto rows = t.slices(std::vector<unsigned>{3, 0}, 0);
  CHECK(rows[0] == t.slice(3, 4, 0) && rows[1] == t.slice(0, 1, 0));
  CHECK_THROWS(poplar::poplar_error, t.flatten().slices(Sets{{{20, 25}}}, 0));
}

TEST(SlicesOfATensorWithManyRegions) {
  Graph graph = NewGraph();
  const Tensor variable = graph.addVariable(poplar::INT, {40, 6});
  // Two elements of every row, in another order, so that steps and unit steps are different stretches.
  const Tensor t = variable.slice(1, 5, 1).reshape({80, 2}).reverse(0).reshape({40, 4}).transpose().flatten();
  CHECK(ipu_model::StretchesOf(t, true).size() > ipu_model::StretchesOf(t, false).size());
  const auto sorted = graph.getSortedContiguousRegions(t, {{3, 9}});
  for (std::size_t begin = 0; begin + 9 <= t.numElements(); begin += 7) {
    const auto sets = t.slices(Sets{{{begin, begin + 3}}, {{begin + 5, begin + 9}, {begin, begin + 1}}});
    CHECK(sets[0] == t.slice(begin, begin + 3));
    CHECK(sets[1] == concat(t.slice(begin + 5, begin + 9), t.slice(begin, begin + 1)));
  }
  CHECK(graph.getSortedContiguousRegions(t, {{3, 9}}) == sorted);
}

TEST(ShufflesOfSomeDimensions) {
  Graph graph = NewGraph();
  const Tensor t = graph.addVariable(poplar::INT, {2, 3, 4, 5});
  CHECK(t.dimShufflePartial({3, 0}, {0, 2}) == t.dimShuffle({3, 1, 0, 2}));
  CHECK(t.dimShufflePartial({}, {}) == t);
  CHECK_THROWS(poplar::poplar_error, t.dimShufflePartial({0, 0}, {0, 1}));
  CHECK_THROWS(poplar::poplar_error, t.dimShufflePartial({0}, {4}));
}

TEST(SortedRegionsOfAReversedTensor) {
  Graph graph = NewGraph();
  const Tensor a = graph.addVariable(poplar::INT, {8}, "a"), b = graph.addVariable(poplar::INT, {4}, "b");
  // In memory: a[0..8), b[0..4).
  const Tensor t = concat({b, a.slice(4, 8), a.slice(0, 4)});
  CHECK((graph.getSortedContiguousRegions(t, {{0, 12}}) == Sets{{{8, 12}, {4, 8}}, {{0, 4}}}));
  CHECK((graph.getSortedContiguousRegions(t, {{2, 6}}) == Sets{{{4, 6}}, {{2, 4}}}));
  CHECK((t.getContiguousRegions() == Intervals{{0, 4}, {4, 8}, {8, 12}}));
  const auto variables = t.getVarRegions();
  CHECK(variables.size() == 3 && variables[1].interval == Interval(4, 8) &&
        variables[0].var != variables[1].var);
  std::ostringstream regions, all, none;
  t.outputRegions(regions);
  CHECK_EQ(regions.str(), "b#1[0,4), a#0[4,8), a#0[0,4)");
  t.output(all);
  CHECK_EQ(all.str(), "int{12} [" + regions.str() + "]");
  Tensor().outputRegions(none);
  CHECK_EQ(none.str(), "");
}

TEST(SortedRegionsFindAliases) {
  Graph graph = NewGraph();
  const Tensor v = graph.addVariable(poplar::INT, {4});
  const Tensor t = v.broadcast(3, 0);  // 12 elements, each of v three times
  CHECK((graph.getSortedContiguousRegions(t, {{0, 12}}, true) == Sets{{{0, 4}}}));
  std::vector<std::size_t> aliases;
  const Sets sets = graph.getSortedContiguousRegions(t, {{0, 12}}, false, &aliases);
  CHECK((sets == Sets{{{0, 4}}, {{4, 8}}, {{8, 12}}}));
  CHECK((aliases == std::vector<std::size_t>{0, 0, 0}));
  // A part of what came before, and what follows it.
  const Tensor u = concat(v.slice(0, 3), v.slice(1, 4));
  CHECK((graph.getSortedContiguousRegions(u, {{0, 6}}, true) == Sets{{{0, 3}, {5, 6}}}));
  graph.getSortedContiguousRegions(u, {{0, 6}}, false, &aliases);
  CHECK((aliases == std::vector<std::size_t>{0, 1, 5}));
}

TEST(ReorderingGivesMemoryOrderAndTheSamePermutation) {
  std::mt19937 random(3);
  Graph graph = NewGraph();
  for (int round = 0; round < 50; ++round) {
    const Tensor a = graph.addVariable(poplar::INT, {6, 4}), b = graph.addVariable(poplar::INT, {3, 4});
    Tensor t = round % 2 == 0 ? a.transpose() : concat(a.reverse(round % 2), b).dimShuffle({1, 0});
    Tensor other = graph.addVariable(poplar::INT, {t.numElements()});
    const auto before = ElementsOf(t);
    const auto other_before = ElementsOf(other);
    graph.reorderToSimplify(&t, {&other});
    const auto after = ElementsOf(t), other_after = ElementsOf(other);
    CHECK(std::is_sorted(after.begin(), after.end()));
    for (std::size_t i = 0; i < after.size(); ++i) {
      const auto at = static_cast<std::size_t>(other_after[i].second);
      CHECK(before[at] == after[i] && other_before[at] == other_after[i]);
    }
  }
  Tensor t = graph.addVariable(poplar::INT, {4}), wrong = graph.addVariable(poplar::INT, {5});
  CHECK_THROWS(poplar::poplar_error, graph.reorderToSimplify(&t, {&wrong}));
}

TEST(ClonesKeepOrderAliasesAndTiles) {
  Graph graph = NewGraph();
  const Tensor a = graph.addVariable(poplar::INT, {8}), b = graph.addVariable(poplar::INT, {4});
  graph.setTileMapping(a, {{{0, 3}}, {{3, 8}}});
  graph.setTileMapping(b, 5);
  const Tensor t = concat({b, a.reverse(0), a.slice(2, 4)});
  using Method = poplar::TensorCloneMethod;
  const Tensor kept = graph.clone(t, "kept", Method::PRESERVE_ORDER_AND_ALIASES);
  CHECK(kept.shape() == t.shape() && kept.containsAliases() && !kept.intersectsWith(t));
  CHECK(graph.getTileMapping(kept) == graph.getTileMapping(t));
  CHECK(graph.getSortedContiguousRegions(kept, {{0, 14}}, true) ==
        graph.getSortedContiguousRegions(t, {{0, 14}}, true));
  const Tensor gathered = graph.clone(t, "gathered", Method::GATHER_AND_PRESERVE_TILE_ORDER_AND_ALIASES);
  CHECK(graph.getTileMapping(gathered) == graph.getTileMapping(t));
  // The elements of each tile are one region of one variable.
  const auto first = gathered.getVarRegions().front().var;
  for (const auto& r : gathered.getVarRegions()) CHECK(r.var == first);
  for (const auto& intervals : graph.getTileMapping(graph.getVariable(first))) CHECK(intervals.size() <= 1);
  // A tensor whose tiles follow one another looks like its clone.
  const Tensor wide = graph.addVariable(poplar::INT, {8}).broadcast(2, 0);
  graph.setTileMapping(wide.slice(0, 8), {{{0, 3}}, {{3, 8}}});
  const Tensor same = graph.clone(wide, "same", Method::GATHER_AND_PRESERVE_TILE_ORDER_AND_ALIASES);
  CHECK(same.getVarRegions().size() == 2 && same.getVarRegions()[1].interval == Interval(0, 8));
  // Without aliases a concatenation keeps its order; with them it gets a new one.
  const Tensor unaliased = graph.clone(t.slice(0, 12), "order");
  CHECK(graph.getSortedContiguousRegions(unaliased, {{0, 12}}) ==
        graph.getSortedContiguousRegions(t, {{0, 12}}));
  CHECK(graph.clone(t).isContiguous());
}

TEST(PartsOfReshapedTensorsAreContiguous) {
  // Each row of `t` is 16 elements of one half of the variable, then 16 of the other.
  Graph graph = NewGraph();
  const Tensor v = graph.addVariable(poplar::INT, {2, 16, 16});
  const Tensor t = v.dimShuffle({1, 0, 2}).reshape({16, 32});
  for (const std::size_t row : {0, 5}) {
    for (const std::size_t begin : {0, 16}) {
      CHECK(t[row].slice(begin, begin + 16).isContiguous());
      CHECK(t[row].slice(begin + 4, begin + 12).isContiguous());
    }
    CHECK(!t[row].isContiguous() && !t[row].slice(8, 24).isContiguous());
  }
  CHECK(concat(v[0].flatten().slice(0, 8), v[0].flatten().slice(8, 20)).isContiguous());
}

TEST(CopiesByTile) {
  Graph graph = NewGraph(2);
  const Tensor t = graph.addVariable(poplar::FLOAT, {6});
  graph.setTileMapping(t, {{{0, 2}, {4, 6}}, {{2, 4}}});
  for (const auto method : {poplar::TensorCloneDuplicationMethod::DUPLICATE_BY_OUTER_DIMENSION,
                            poplar::TensorCloneDuplicationMethod::DUPLICATE_BY_TILE_CONTIGUOUS_REGION}) {
    const Tensor copies = graph.cloneN(t, 3, "copies", poplar::TensorCloneMethod::CREATE_NEW_ORDER, method);
    CHECK((copies.shape() == std::vector<std::size_t>{3, 6}) && !copies.containsAliases());
    for (unsigned i = 0; i < 3; ++i) CHECK(graph.getTileMapping(copies[i]) == graph.getTileMapping(t));
  }
}

// Rows of every step: forwards, backwards, apart, repeated; with elements on no tile.
TEST(TileMappingsOfViews) {
  Graph graph = NewGraph(4);
  const Tensor whole = graph.addVariable(poplar::FLOAT, {6, 5}),
               part = graph.addVariable(poplar::FLOAT, {30});
  graph.setTileMapping(whole, {{{0, 7}}, {{7, 8}, {20, 30}}, {{8, 20}}, {}});
  graph.setTileMapping(part, {{{3, 9}}, {}, {}, {{12, 29}}});
  for (const Tensor& t : {whole, part.reshape({6, 5})}) {
    const Tensor views[] = {t.reverse(0),
                            t.reverse(1),
                            t.flatten().reverse(0),
                            t.transpose(),
                            t.flatten().subSample(4, 0),
                            t.flatten().subSample(7, 0).reverse(0),
                            t.reshape({30, 1}).broadcast(3, 1),
                            concat(t.reverse(1), t.slice(1, 3, 0))};
    for (const Tensor& view : views) {
      const Graph::TileToTensorMapping mapping = graph.getTileMapping(view, false);
      const Tensor flat = view.flatten();
      for (std::size_t e = 0; e < flat.numElements(); ++e) {
        const Graph::TileToTensorMapping one = graph.getTileMapping(flat.slice(e, e + 1), false);
        for (std::size_t tile = 0; tile < 4; ++tile) {
          const bool holds = std::any_of(mapping[tile].begin(), mapping[tile].end(),
                                         [&](const Interval& i) { return i.begin() <= e && e < i.end(); });
          CHECK(holds == !one[tile].empty());
        }
      }
    }
  }
}

TEST(ViewsAreEqualByElements) {
  Graph graph = NewGraph(4);
  const Tensor t = graph.addVariable(poplar::FLOAT, {1000000}),
               u = graph.addVariable(poplar::FLOAT, {1000000});
  const auto repeated = [](const Tensor& x) { return x.expand({1}).broadcast(3, 1); };
  CHECK(repeated(t) == repeated(t) && repeated(t) != repeated(u));
  CHECK(repeated(t).reshape({1000, 3000}) ==
        repeated(t.reshape({1000, 1000}).flatten()).reshape({1000, 3000}));
  CHECK(repeated(t) != t.expand({0}).broadcast(3, 0).reshape({1000000, 3}));
  CHECK(repeated(t) != repeated(t.reverse(0)));
  CHECK(repeated(t).flatten() == repeated(t).flatten() && repeated(t).flatten() != repeated(u).flatten());
}

TEST(VirtualGraphsHaveTilesOfTheirOwn) {
  Graph graph = NewGraph(8);
  Graph first = graph.createVirtualGraph(4), second = graph.createVirtualGraph({5, 4, 7});
  CHECK(second.getTarget().getNumTiles() == 3 && second.convertVirtualTileToPhysicalTile(0) == 5);
  const Tensor t = first.addVariable(poplar::FLOAT, {1024}, poplar::VariableMappingMethod::LINEAR);
  const Graph::TileToTensorMapping mapping = first.getTileMapping(t);
  CHECK(mapping.size() == 4 && graph.getTileMapping(t).size() == 8);
  CHECK_THROWS(poplar::invalid_tile_mapping, second.getTileMapping(t));
  const Tensor u = first.clone(t);
  second.setTileMapping(u, {{{0, 512}}, {{512, 1000}}, {{1000, 1024}}});
  CHECK((graph.getTileMapping(u)[4] == Intervals{{512, 1000}} &&
         graph.getTileMapping(u)[5] == Intervals{{0, 512}}));
  const Tensor whole = second.addVariable(poplar::FLOAT, {6}), part = second.addVariable(poplar::FLOAT, {6});
  second.setTileMapping(whole, 2);
  second.setTileMapping(part.slice(0, 6), 2);
  for (const Tensor& v : {whole, part}) {
    CHECK(graph.getTileMapping(v)[7] == Intervals({{0, 6}}));
    CHECK(second.getTileMapping(v)[2] == Intervals({{0, 6}}));
  }
  CHECK_THROWS(poplar::invalid_tile_mapping, second.setTileMapping(u, 3));
  CHECK_THROWS(poplar::poplar_error, second.createVirtualGraph(0, 4));
  CHECK(second.createVirtualGraph(2, 3).convertVirtualTileToPhysicalTile(0) == 7);
}

TEST(ConstantsAndBroadcasts) {
  Graph graph = NewGraph();
  const Tensor c = graph.addConstant(poplar::HALF, {2, 1}, {1.5f, -2.0f});
  float value = 0;
  CHECK(c[1].getConstantValue(&value) && value == -2);
  CHECK(!c.getConstantValue(&value) && !graph.addVariable(poplar::INT, {1}).getConstantValue(&value));
  const Tensor wide = c.broadcast(5, 1);
  CHECK(graph.findUnbroadcastTensor(wide) == c);
  CHECK(c.isParallelWriteable() == false && graph.isConstant(c.getVarRegions()[0].var));
  const std::int16_t numbers[] = {3, -4};
  const Tensor n =
      graph.addConstant(poplar::INT, {2}, numbers, poplar::TypeTraits::make<std::int16_t>(), false);
  int second = 0;
  CHECK(n[1].getConstantValue(&second) && second == -4);
  const std::size_t sizes[] = {1, 700};
  CHECK(graph.addConstant(poplar::UNSIGNED_SHORT, {2}, sizes)[1].getConstantValue(&second) && second == 700);
}

// One value is stored once, however many elements have it.
TEST(ConstantsOfOneValue) {
  Graph graph = NewGraph();
  const Tensor c = graph.addConstant(poplar::FLOAT, {3, 1, 4}, 2.5f);
  CHECK(c.shape() == (std::vector<std::size_t>{3, 1, 4}) && c.containsAliases());
  float value = 0;
  CHECK(c[2][0][3].getConstantValue(&value) && value == 2.5f);
  graph.setTileMapping(c, {{{2, 5}}, {{0, 2}, {5, 12}}});
  const Graph::TileToTensorMapping mapping = graph.getTileMapping(c);
  CHECK(mapping[1].size() == 1 && mapping[1][0].size() == 12);
  for (const auto& region : c.getVarRegions()) CHECK(region.interval.end() == 1);
  const Tensor half = graph.addConstantHalf(poplar::HALF, {5}, std::uint16_t{0x3c00});
  CHECK(half.containsAliases() && half[4].getConstantValue(&value) && value == 1);
  CHECK(graph.addConstant(poplar::FLOAT, {3, 0}, 1.0f).numElements() == 0);
  CHECK(!graph.addConstant(poplar::FLOAT, {1, 1}, 1.0f).containsAliases());
}

TEST(NumbersThatAreTooLargeForAQuarter) {
  using Format = poplar::QuarterMetadata::Format;
  const float infinity = std::numeric_limits<float>::infinity();
  const struct {
    Format format;
    int scale;
    float value;
    unsigned char largest, nan;  // without and with nanoo
  } cases[] = {
      {Format::F143, 0, 240, 0x7f, 0x7f},           {Format::F143, 0, 247, 0x7f, 0x7f},
      {Format::F143, 0, 248, 0x7f, 0x80},           {Format::F143, 0, -248, 0xff, 0x80},
      {Format::F143, 1, 480, 0x7f, 0x7f},           {Format::F143, -10, 8, 0x7f, 0x80},
      {Format::F152, 0, 57344, 0x7f, 0x7f},         {Format::F152, 0, 61439, 0x7f, 0x7f},
      {Format::F152, 0, 61440, 0x7f, 0x80},         {Format::F152, 0, -1e9f, 0xff, 0x80},
      {Format::F143, 31, infinity, 0x80, 0x80},     {Format::F152, 31, -infinity, 0x80, 0x80},
      {Format::F143, 0, std::nanf(""), 0x80, 0x80},
  };
  for (const auto& c : cases) {
    const poplar::QuarterMetadata metadata(c.format, c.scale);
    for (const bool nanoo : {false, true}) {
      const unsigned char expected = nanoo ? c.nan : c.largest;
      unsigned char one = 1, of_range = 1;
      poplar::convertToDeviceType(poplar::QUARTER, metadata, c.value, &one, nanoo);
      poplar::convertToDeviceType(poplar::QUARTER, metadata, std::vector<float>{c.value}, &of_range, nanoo);
      CHECK_EQ(one, expected);
      CHECK_EQ(of_range, expected);
      CHECK_EQ(poplar::toQuarter(c.value, {c.format == Format::F152, c.scale}, nanoo).bits, expected);
    }
  }
}

TEST(QuarterMetadata) {
  using poplar::QuarterMetadata;
  for (const auto format : {QuarterMetadata::Format::F143, QuarterMetadata::Format::F152}) {
    const QuarterMetadata metadata(format, -3);
    CHECK(QuarterMetadata::fromBinary(metadata.getBinary()) == metadata);
    // Every byte keeps its value; the largest values are those of Noune et al. 2022.
    std::vector<unsigned char> bytes(256), back(256);
    for (unsigned i = 0; i < 256; ++i) bytes[i] = static_cast<unsigned char>(i);
    std::vector<float> values(256);
    poplar::convertFromDeviceType(poplar::QUARTER, metadata, bytes.data(), values);
    poplar::convertToDeviceType(poplar::QUARTER, metadata, values, back.data());
    CHECK(back == bytes && std::isnan(values[0x80]));
    CHECK(values[0x7f] == (format == QuarterMetadata::Format::F143 ? 240.0f : 57344.0f) / 8);
    CHECK(values[1] == std::ldexp(1.0f, format == QuarterMetadata::Format::F143 ? -13 : -20));
  }
  CHECK_THROWS(poplar::poplar_error, QuarterMetadata(QuarterMetadata::Format::F143, 32));

  Graph graph = NewGraph();
  const Tensor own = graph.addVariable(poplar::QUARTER, {4}, "own");
  CHECK(own.getMetadata() != graph.addVariable(poplar::QUARTER, {4}, "other").getMetadata());
  CHECK(graph.getTileMapping(own.getMetadata())[0].size() == 1);
  CHECK_THROWS(poplar::poplar_error, graph.addVariable(poplar::QUARTER, Tensor(), {4}));
  const Tensor metadata = graph.addConstant(poplar::QUARTER_METADATA, {1},
                                            QuarterMetadata(QuarterMetadata::Format::F152, 0).getBinary());
  const Tensor q = graph.addVariable(poplar::QUARTER, metadata, {4});
  CHECK(q.hasMetadata() && q.slice(1, 3).reshape({2, 1}).getMetadata() == metadata);
  CHECK(!q.reinterpret(poplar::UNSIGNED_CHAR).hasMetadata());
  CHECK(graph.clone(q).hasMetadata() && graph.clone(q).getMetadata() != metadata);
  const Tensor other = graph.addConstant(poplar::QUARTER_METADATA, {1},
                                         QuarterMetadata(QuarterMetadata::Format::F143, 1).getBinary());
  CHECK(graph.clone(other, q, "other").getMetadata() == other);
  // A tensor of another type has no metadata to replace.
  const Tensor plain = graph.addVariable(poplar::HALF, {4});
  CHECK(graph.clone(plain.getMetadata(), plain).elementType() == poplar::HALF);
  const Tensor one = graph.addConstant(poplar::QUARTER, metadata, {2}, 1.0f);
  unsigned char bits = 0;
  CHECK(one[0].reinterpret(poplar::UNSIGNED_CHAR).getConstantValue(&bits) && bits == 0x40);
}

TEST(LinearVariablesAreOnAllTiles) {
  Graph graph = NewGraph();
  const Tensor t = graph.addVariable(poplar::FLOAT, {16}, poplar::VariableMappingMethod::LINEAR);
  std::size_t elements = 0;
  for (const Intervals& of_tile : graph.getTileMapping(t)) {
    CHECK_EQ(of_tile.size(), 1u);
    CHECK_EQ(of_tile.at(0).size(), 2u);
    elements += of_tile.at(0).size();
  }
  CHECK_EQ(elements, 16u);
}

TEST(SlicesOfOneElementRepeatIt) {
  Graph graph = NewGraph();
  const Tensor one = graph.addVariable(poplar::FLOAT, {1}, "one");
  const auto slices = one.slices(Sets{{{0, 3}, {5, 6}}, {{0, 1}}, {}});
  CHECK_EQ(slices[0].numElements(), 4u);
  CHECK(slices[0][3] == one[0] && slices[1] == one);
  CHECK_EQ(slices[2].numElements(), 0u);
  CHECK_THROWS(poplar::poplar_error, graph.addVariable(poplar::FLOAT, {2}).slices(Sets{{{0, 3}}}));
}

TEST(TensorsAreWrittenAndRead) {
  using poplar::QuarterMetadata;
  Graph graph = NewGraph();
  const Tensor a = graph.addVariable(poplar::FLOAT, {4, 6}, "a"),
               b = graph.addVariable(poplar::FLOAT, {2, 4}, "b");
  graph.setTileMapping(a, 1);
  graph.setTileMapping(b[0], 2);
  graph.setTileMapping(b[1], 3);
  // Strides, a concatenation, elements twice, and a type of its own with metadata.
  const Tensor joined = poplar::concat(a.transpose(), b.broadcast(1, 0));
  const Tensor metadata = poplar::createConstantMetadataTensor(graph, QuarterMetadata::Format::F152, 1);
  const Tensor q = graph.addVariable(poplar::QUARTER, metadata, {3}, "q");
  graph.setTileMapping(q, 0);
  std::stringstream file;
  graph.serializeTensors(file, {joined, q, joined[1]}, poplar::SerializationFormat::Binary);
  const std::string data = file.str();
  Graph other = NewGraph();
  const std::vector<Tensor> read = other.deserializeTensors(file, poplar::SerializationFormat::Binary);
  CHECK_EQ(read.size(), 3u);
  CHECK(read[0].shape() == joined.shape() && read[0].elementType() == poplar::FLOAT);
  CHECK(read[2] == read[0][1]);
  CHECK(other.getTileMapping(read[0]) == graph.getTileMapping(joined));
  CHECK(read[0].getContiguousRegions() == joined.getContiguousRegions());
  CHECK(read[1].elementType() == poplar::QUARTER &&
        read[1].getMetadata().elementType() == poplar::QUARTER_METADATA);
  for (const std::size_t cut : {std::size_t{0}, std::size_t{10}, data.size() - 1}) {
    std::istringstream part(data.substr(0, cut));
    CHECK_THROWS(poplar::poplar_error, other.deserializeTensors(part, poplar::SerializationFormat::Binary));
  }
  CHECK_THROWS(poplar::poplar_error, graph.serializeTensors(file, {a}, poplar::SerializationFormat::JSON));
}

TEST(TypesOfOneRepresentation) {
  CHECK(poplar::CHAR != poplar::SIGNED_CHAR && poplar::LONG != poplar::LONGLONG);
  CHECK(poplar::HALF.isFloatingPoint() && poplar::QUARTER.isFloatingPoint());
  CHECK(!poplar::UNSIGNED_CHAR.isFloatingPoint() && !poplar::QUARTER_METADATA.isFloatingPoint());
  CHECK(poplar::UNSIGNED_INT.toString() == "unsigned int" && poplar::HALF.toString() == "half");
  CHECK(poplar::equivalent_device_type<double>().value == poplar::FLOAT);
  Graph graph = NewGraph();
  CHECK(graph.addVariable(poplar::CHAR, {3})[1].elementType() == poplar::CHAR);
  CHECK(graph.clone(poplar::LONG, graph.addVariable(poplar::INT, {3})).elementType() == poplar::LONG);
  std::vector<std::uint16_t> half(2);
  poplar::copyFloatToDeviceHalf(graph.getTarget(), std::vector<float>{1, -0.5f}.data(), half.data(), 2);
  CHECK((half == std::vector<std::uint16_t>{0x3c00, 0xb800}));
  std::vector<std::int64_t> longs(1);
  poplar::convertToDeviceType(poplar::LONGLONG, std::vector<std::int64_t>{(std::int64_t{1} << 62) + 1},
                              longs.data());
  CHECK(longs[0] == (std::int64_t{1} << 62) + 1);
}

TEST(InitialValuesAreThereAfterEveryLoad) {
  for (const char* execution : {"fast", "tile"}) {
    poplar::IPUModel model;
    model.tilesPerIPU = 4;
    const poplar::Device device = model.createDevice();
    Graph graph(device.getTarget());
    const Tensor t = graph.addVariable(poplar::INT, {3}), u = graph.addVariable(poplar::FLOAT, {2});
    graph.setTileMapping(t, 1);
    graph.setTileMapping(u, 2);
    graph.setInitialValue(t, poplar::ArrayRef<int>({7, 8, 9}));
    graph.setInitialValue(u, 0.5f);
    graph.createHostRead("t", t);
    graph.createHostWrite("t", t);
    graph.createHostRead("u", u);
    CHECK_THROWS(poplar::poplar_error, graph.setInitialValue(t.broadcast(2, 0), 1));
    std::stringstream stored;
    poplar::compileGraph(graph, {poplar::program::Sequence()}).serialize(stored);
    poplar::Engine engine(poplar::Executable::deserialize(stored), {{"execution", execution}});
    for (int round = 0; round < 2; ++round) {
      engine.load(device);
      std::vector<int> values(3);
      std::vector<float> floats(2);
      engine.readTensor("t", values.data(), values.data() + 3);
      engine.readTensor("u", floats.data(), floats.data() + 2);
      CHECK((values == std::vector<int>{7, 8, 9}) && (floats == std::vector<float>{0.5f, 0.5f}));
      values = {1, 2, 3};
      engine.writeTensor("t", values.data(), values.data() + 3);
    }
  }
}

TEST(DebugInfoIsStreamed) {
  const std::string path = "/tmp/ipu_model_debug_info_test.json";
  poplar::DebugInfo::initializeStreamer(path);
  {
    poplar::DebugInfo outer(poplar::DebugContext("layer"), "test");
    CHECK(outer.setValue("api", "f") && !outer.setValue("id", 1));
    poplar::DebugInfo inner(poplar::DebugContext(outer, "in\"ner"), "test");
    inner.setValue("args",
                   poplar::ProfileValue::Map{{"n", 3}, {"list", poplar::ProfileValue::Vector{true, 0.5}}});
    CHECK(poplar::DebugContext(poplar::DebugNameAndId(inner, "x"), "y").getPathName() == "layer/in\"ner/x/y");
  }
  poplar::DebugInfo::closeStreamer();
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  std::remove(path.c_str());
  CHECK(text.str().find("\"args\":{\"list\":[true,0.5],\"n\":3}") != std::string::npos);
  CHECK(text.str().find("\"name\":\"layer/in\\\"ner\"") != std::string::npos);
}

TEST(TargetQueries) {
  const poplar::Target target = poplar::Target::createIPUTarget(1, 4, "ipu2");
  // PopLibs: half to float with 8 units, half to half with 16. Both 8 on the first IPU.
  CHECK(target.getNumConvUnits(poplar::HALF, poplar::FLOAT) == 8);
  CHECK(target.getNumConvUnits(poplar::HALF, poplar::HALF) == 16);
  CHECK(target.getNumConvUnits(poplar::FLOAT, poplar::FLOAT) == 16);
  CHECK(target.getNumConvUnits(poplar::FLOAT, poplar::HALF) == 0);
  CHECK(target.getConvUnitCoeffLoadBytesPerCycle() == 16);            // with 128-bit loads
  CHECK(target.getNumConvUnits(poplar::QUARTER, poplar::HALF) == 0);  // on ipu21 only
  const poplar::Target first = poplar::Target::createIPUTarget(1, 4, "ipu1");
  CHECK(first.getNumConvUnits(poplar::HALF, poplar::FLOAT) == 8);
  CHECK(target.getWeightsPerConvUnit(poplar::HALF) == 16 && target.getWeightsPerConvUnit(poplar::FLOAT) == 8);
  CHECK(target.getNumConvUnits(poplar::INT, poplar::INT) == 0);
  CHECK(target.getTypeLimitsMaxAs<std::uint64_t>(poplar::UNSIGNED_INT) == 0xffffffffu);
  CHECK_THROWS(poplar::type_error, target.getTypeLimitsMaxAs<int>(poplar::UNSIGNED_INT));
  CHECK(target.getMemoryElementOffsets().size() == 39);
  CHECK(poplar::Target::createCPUTarget().getTargetType() == poplar::TargetType::CPU);
}

}  // namespace
