// Compares tensor views with a list of elements.
#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "check.h"
#include "core/graph/graph_impl.h"
#include "core/mapping/blocks.h"
#include "core/mapping/strides.h"
#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"
#include "poplar/exceptions.hpp"
#include "poputil/TileMapping.hpp"

namespace {

using poplar::Tensor;
using Sizes = std::vector<std::size_t>;
using Element = std::pair<ipu_model::VariableId, std::int64_t>;

poplar::Graph NewGraph(unsigned tiles = 8) {
  return poplar::Graph(poplar::Target::createIPUTarget(1, tiles, "ipu2"));
}

std::vector<Element> ElementsOf(const Tensor& tensor) {
  std::vector<Element> elements;
  for (const ipu_model::View& v : tensor.pieces()) {
    for (std::int64_t i = 0; i < v.num_elements(); ++i) {
      std::int64_t rest = i, at = v.offset;
      for (std::size_t d = v.shape.size(); d-- > 0;) {
        at += rest % v.shape[d] * v.strides[d];
        rest /= v.shape[d];
      }
      elements.emplace_back(v.variable, at);
    }
  }
  return elements;
}

// The same methods, on a list of all elements in row-major order.
struct Reference {
  Sizes shape;
  std::vector<Element> elements;

  template <typename F>  // maps every new index to its old index
  Reference Map(const Sizes& new_shape, F&& f) const {
    Reference out{new_shape, {}};
    std::size_t n = 1;
    for (std::size_t d : new_shape) n *= d;
    Sizes index(new_shape.size());
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t rest = i;
      for (std::size_t d = new_shape.size(); d-- > 0;) {
        index[d] = rest % new_shape[d];
        rest /= new_shape[d];
      }
      const Sizes old = f(index);
      std::size_t at = 0;
      for (std::size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + old[d];
      out.elements.push_back(elements.at(at));
    }
    return out;
  }
};

// The regions of a list of elements that lie together in memory.
std::vector<poplar::VariableInterval> RegionsOf(const std::vector<Element>& elements) {
  std::vector<poplar::VariableInterval> regions;
  for (const auto& [variable, element] : elements) {
    const auto e = static_cast<std::size_t>(element);
    if (!regions.empty() && regions.back().var.id() == variable && regions.back().interval.end() == e) {
      regions.back().interval = poplar::Interval(regions.back().interval.begin(), e + 1);
    } else {
      regions.emplace_back(poplar::VariableRef(variable), poplar::Interval(e, e + 1));
    }
  }
  return regions;
}

bool SameRegions(const Tensor& tensor, const Reference& reference) {
  const std::vector<poplar::VariableInterval> wanted = RegionsOf(reference.elements),
                                              got = tensor.getVarRegions();
  const std::vector<poplar::Interval> together = tensor.getContiguousRegions();
  if (got.size() != wanted.size() || together.size() != wanted.size()) return false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i].var.id() != wanted[i].var.id() || got[i].interval != wanted[i].interval) return false;
    if (together[i] != poplar::Interval(begin, begin + wanted[i].interval.size())) return false;
    begin += wanted[i].interval.size();
  }
  return tensor.isContiguous() == (wanted.size() <= 1);
}

// Whether every element is on the tile of its variable's element.
bool SameTiles(const poplar::Graph& graph, const Tensor& tensor, const Reference& reference) {
  std::vector<unsigned> tiles(reference.elements.size(), ~0u);
  const auto mapping = graph.getTileMapping(tensor);
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    for (const poplar::Interval& i : mapping[tile])
      std::fill(&tiles[i.begin()], &tiles[i.begin()] + i.size(), tile);
  }
  const auto& variables = graph.impl().variables;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const auto& [variable, element] = reference.elements[i];
    if (tiles[i] != variables[variable].mapping.TileOf(element)) return false;
  }
  return true;
}

bool Same(const Tensor& tensor, const Reference& reference) {
  if (tensor.shape() != reference.shape || ElementsOf(tensor) != reference.elements) return false;
  if (ElementsOf(tensor.aligned()) != reference.elements) return false;
  if (!SameRegions(tensor, reference)) return false;
  std::set<Element> unique(reference.elements.begin(), reference.elements.end());
  return tensor.containsAliases() == (unique.size() != reference.elements.size());
}

// A tensor and its reference, to which random methods are applied. `graph` provides the second part of
// concatenations.
class Steps {
 public:
  Steps(std::mt19937* rng, poplar::Graph* graph, Tensor* tensor, Reference* reference)
      : rng_(*rng), graph_(*graph), tensor_(*tensor), reference_(*reference) {}

  void Step() {
    const std::size_t rank = tensor_.rank();
    const auto d = static_cast<unsigned>(Below(rank));
    Sizes shape = tensor_.shape();
    switch (Below(12)) {
      case 10:
        return AnyShape();
      case 11:
        return BetweenPartsOfItself();
      case 0: {
        if (rank == 0) return;
        const std::size_t b = Below(shape[d] + 1), e = b + Below(shape[d] - b + 1);
        shape[d] = e - b;
        reference_ = reference_.Map(shape, [=](Sizes i) { return i[d] += b, i; });
        tensor_ = tensor_.slice(b, e, d);
        return;
      }
      case 1:
        return Shuffle();
      case 2:
        if (rank == 0) return;
        reference_ = reference_.Map(shape, [&](Sizes i) { return i[d] = shape[d] - 1 - i[d], i; });
        tensor_ = tensor_.reverse(d);
        return;
      case 3: {
        if (rank == 0) return;
        const unsigned stride = 1 + static_cast<unsigned>(Below(3));
        shape[d] = (shape[d] + stride - 1) / stride;
        reference_ = reference_.Map(shape, [=](Sizes i) { return i[d] *= stride, i; });
        tensor_ = tensor_.subSample(stride, d);
        return;
      }
      case 4: {
        if (rank == 0 || tensor_.numElements() > 200) return;
        const unsigned n = static_cast<unsigned>(Below(4));
        const std::size_t size = shape[d];
        shape[d] *= n;
        reference_ = reference_.Map(shape, [=](Sizes i) { return i[d] %= size, i; });
        tensor_ = tensor_.broadcast(n, d);
        return;
      }
      case 5:
        if (rank == 0 || tensor_.numElements() > 200) return;
        return Join(d);
      case 6:
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(Below(rank + 1)), 1);
        if (shape.size() > 5) return;
        reference_.shape = shape;
        tensor_ = tensor_.reshape(shape);
        return;
      case 7:
        if (rank < 2 || d + 1 == rank) return;
        shape[d] *= shape[d + 1];
        shape.erase(shape.begin() + d + 1);
        reference_.shape = shape;
        tensor_ = tensor_.flatten(d, d + 2);
        return;
      case 8: {
        if (rank == 0 || rank > 4 || shape[d] == 0) return;
        const std::size_t n = shape[d], factor = n % 2 == 0 ? 2 : n % 3 == 0 ? 3 : 1;
        tensor_ = tensor_.reshapePartial(d, d + 1, {n / factor, factor});
        reference_.shape = tensor_.shape();
        return;
      }
      default:
        if (rank == 0 || shape[0] == 0 || rank < 3) return;
        shape.erase(shape.begin());
        reference_ = reference_.Map(shape, [](Sizes i) { return i.insert(i.begin(), 0), i; });
        tensor_ = tensor_[0];
        return;
    }
  }

 private:
  std::size_t Below(std::size_t n) { return n == 0 ? 0 : rng_() % n; }

  // Any other shape.
  void AnyShape() {
    const std::size_t n = tensor_.numElements();
    std::size_t rest = n;
    Sizes shape;
    while (rest > 1 && shape.size() < 3) {
      std::size_t factor = 1 + Below(rest);
      while (rest % factor != 0) ++factor;
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(Below(shape.size() + 1)), factor);
      rest /= factor;
    }
    if (n > 0) shape.push_back(rest);
    if (n == 0) shape = {0, 3};
    reference_.shape = shape;
    tensor_ = tensor_.reshape(shape);
  }

  // The tensor between two parts of a transposed view of itself.
  void BetweenPartsOfItself() {
    const std::size_t rank = tensor_.rank();
    Sizes shape = tensor_.shape();
    if (rank < 2 || tensor_.numElements() > 100 || shape[0] != shape[1]) return;
    std::vector<unsigned> permutation(rank);
    for (unsigned k = 0; k < rank; ++k) permutation[k] = k;
    std::swap(permutation[0], permutation[1]);
    const Tensor turned = tensor_.dimShuffle(permutation);
    const std::size_t n = shape[0], cut = Below(n + 1);
    tensor_ = poplar::concat({turned.slice(0, cut, 0), tensor_, turned.slice(cut, n, 0)}, 0);
    const Reference old = reference_;
    shape[0] = 2 * n;
    reference_ = old.Map(shape, [&](Sizes i) {
      const bool own = i[0] >= cut && i[0] < cut + n;
      if (i[0] >= cut) i[0] -= own ? cut : n;
      if (!own) std::swap(i[0], i[1]);
      return i;
    });
  }

  void Shuffle() {
    const std::size_t rank = tensor_.rank();
    Sizes shape(rank);
    std::vector<unsigned> permutation(rank);
    for (unsigned k = 0; k < rank; ++k) permutation[k] = k;
    std::shuffle(permutation.begin(), permutation.end(), rng_);
    for (unsigned k = 0; k < rank; ++k) shape[k] = tensor_.shape()[permutation[k]];
    reference_ = reference_.Map(shape, [&](const Sizes& i) {
      Sizes old(rank);
      for (unsigned k = 0; k < rank; ++k) old[permutation[k]] = i[k];
      return old;
    });
    tensor_ = tensor_.dimShuffle(permutation);
  }

  // Appends another variable along a dimension.
  void Join(unsigned d) {
    Sizes shape = tensor_.shape(), second = shape;
    second[d] = Below(3);
    Tensor other = graph_.addVariable(poplar::INT, second, "other");
    poputil::mapTensorLinearly(graph_, other, 1, 1);
    Reference all = reference_;
    const std::size_t first = shape[d];
    const Reference o{second, ElementsOf(other)};
    shape[d] += second[d];
    all.shape = shape;
    all.elements.clear();
    std::size_t outer = 1, inner = 1;
    for (std::size_t k = 0; k < shape.size(); ++k) (k < d ? outer : inner) *= k == d ? 1 : shape[k];
    for (std::size_t i = 0; i < outer; ++i) {
      const auto take = [&](const Reference& r, std::size_t n) {
        all.elements.insert(all.elements.end(),
                            r.elements.begin() + static_cast<std::ptrdiff_t>(i * n * inner),
                            r.elements.begin() + static_cast<std::ptrdiff_t>((i + 1) * n * inner));
      };
      take(reference_, first);
      take(o, second[d]);
    }
    reference_ = std::move(all);
    tensor_ = poplar::concat(tensor_, other, d);
  }

  std::mt19937& rng_;
  poplar::Graph& graph_;
  Tensor& tensor_;
  Reference& reference_;
};

TEST(RandomViewsReferToTheRightElements) {
  std::mt19937 rng(1);
  int strided = 0, pieces = 0;
  for (int round = 0; round < (jax_ipu::testing::Everything() ? 3000 : 1000); ++round) {
    poplar::Graph graph = NewGraph();
    const Sizes shape = {1 + rng() % 4, 1 + rng() % 4, 1 + rng() % 6};
    Tensor tensor = graph.addVariable(poplar::INT, shape, "x");
    poputil::mapTensorLinearly(graph, tensor, 1, 1);
    Reference reference{shape, ElementsOf(tensor)};
    for (int step = 0; step < 10; ++step) {
      Steps(&rng, &graph, &tensor, &reference).Step();
      CHECK(Same(tensor, reference));
      if (step % 3 == 0) CHECK(SameTiles(graph, tensor, reference));
      ipu_model::View view;
      const bool one = tensor.asView(&view);
      (one ? strided : pieces) += 1;
      if (one) CHECK(ipu_model::Shape(tensor.shape().begin(), tensor.shape().end()) == view.shape);
    }
  }
  CHECK(strided > 1000);
  CHECK(pieces > 1000);
}

TEST(StridedViewsStayStrided) {
  poplar::Graph graph = NewGraph();
  const Tensor x = graph.addVariable(poplar::FLOAT, {4, 6, 5}, "x");
  ipu_model::View view;
  CHECK(x.slice(1, 3, 0).slice(2, 6, 1).dimShuffle({2, 0, 1}).reverse(1).asView(&view));
  CHECK_EQ(view.offset, 2 * 30 + 2 * 5);
  CHECK(view.strides == (ipu_model::Shape{1, -30, 5}));
  CHECK(x.reshape({2, 2, 30}).asView(&view));
  CHECK(x.dimShuffle({0, 2, 1}).reshape({2, 2, 5, 3, 2}).asView(&view));
  CHECK(!x.dimShuffle({0, 2, 1}).flatten().asView(&view));
  CHECK(x.dimShuffle({0, 2, 1}).flatten().reshape({4, 5, 6}).asView(&view));
  CHECK(poplar::concat({x.slice(0, 2, 1), x.slice(2, 5, 1), x.slice(5, 6, 1)}, 1).asView(&view));
  CHECK(view.strides == (ipu_model::Shape{30, 5, 1}));
  CHECK(x.expand({0, 3}).broadcast(7, 0).asView(&view));
  CHECK(view.shape == (ipu_model::Shape{7, 4, 6, 5, 1}));
  CHECK_EQ(view.strides[0], 0);
}

// How much memory and time a view takes is how many blocks it has.
TEST(ViewsHaveFewBlocks) {
  poplar::Graph graph = NewGraph();
  // Groups of channels that are merged: {groups, batch, height, width, 16} as {batch, 16 * groups, height,
  // width}.
  const Tensor grouped = graph.addVariable(poplar::HALF, {1000, 64, 100, 22, 16}, "x");
  const Tensor merged = grouped.dimShuffle({1, 0, 4, 2, 3}).reshape({64, 16000, 100, 22});
  CHECK_EQ(merged.blocks().size(), 1u);
  CHECK_EQ(merged.slice(7, 8, 1).blocks().size(), 1u);
  CHECK_EQ(merged.slice(32, 64, 1).flatten().slice(0, 70400).blocks().size(), 1u);
  CHECK_EQ(merged.dimShuffle({0, 2, 3, 1}).reverse(3).subSample(2, 3).blocks().size(), 1u);
  CHECK_EQ(merged.dimShuffle({0, 2, 3, 1}).reshape({64 * 2200, 16000}).slice(5, 70, 0).blocks().size(), 1u);
  CHECK(merged.slice(8, 40, 1).blocks().size() <= 4u);  // not along the groups
  CHECK_EQ(poplar::concat({merged, merged, merged}, 1).blocks().size(), 3u);
  CHECK_EQ(poplar::concat({merged.slice(0, 16, 1), merged.slice(16, 48, 1)}, 1).blocks().size(), 1u);
  // Columns of several variables, flattened and taken apart again.
  std::vector<Tensor> columns;
  for (int i = 0; i < 100; ++i) columns.push_back(graph.addVariable(poplar::FLOAT, {4096, 16}, "column"));
  const Tensor matrix = poplar::concat(columns, 1);
  CHECK_EQ(matrix.blocks().size(), 100u);
  CHECK_EQ(matrix.flatten().reshape({64, 64, 1600}).dimShuffle({1, 0, 2}).blocks().size(), 100u);
  CHECK_EQ(matrix.flatten().slice(1600, 16000).blocks().size(), 100u);
  CHECK_EQ(matrix.flatten().slice(16, 32).blocks().size(), 1u);
  CHECK_EQ(matrix.getVarRegions().size(), 409600u);
  // A block of it in other dimensions.
  CHECK_EQ(matrix.reshape({4096, 100, 16}).slice(3, 5, 1).blocks().size(), 2u);
}

TEST(AliasesOfLongRowsAreFound) {
  std::mt19937 rng(3);
  int disjoint = 0, aliased = 0;
  for (int round = 0; round < 200; ++round) {
    poplar::Graph graph = NewGraph();
    const Tensor x = graph.addVariable(poplar::INT, {12, 200}, "x");
    std::vector<Tensor> parts;
    for (std::size_t row = 0; row < 12; row += 3) {
      const std::size_t begin = rng() % 150, end = begin + 10 + rng() % 40, rows = 1 + rng() % 3;
      parts.push_back(x.slice({row, begin}, {row + rows, end}).flatten());
      if (rng() % 4 == 0) parts.push_back(x.slice({row, end}, {row + rows, 200}).reverse(1).flatten());
    }
    const std::size_t again = rng() % 12, first = rng() % 180;
    if (round % 4 != 0) parts.push_back(x[again].slice(first, first + 20));
    const Tensor all = poplar::concat(parts);
    const std::vector<Element> elements = ElementsOf(all);
    const bool twice = std::set<Element>(elements.begin(), elements.end()).size() != elements.size();
    CHECK_EQ(all.containsAliases(), twice);
    (twice ? aliased : disjoint) += 1;
  }
  CHECK(disjoint > 50);
  CHECK(aliased > 20);
}

TEST(TensorsKnowTheirGraph) {
  // The second graph is often where the first one was.
  for (int round = 0; round < 20; ++round) {
    Tensor old;
    {
      poplar::Graph graph = NewGraph();
      old = graph.addVariable(poplar::FLOAT, {4}, "x");
      graph.setTileMapping(old, 0);
    }
    poplar::Graph graph = NewGraph();
    const Tensor own = graph.addVariable(poplar::FLOAT, {4}, "y");
    graph.setTileMapping(own, 0);
    CHECK(old != own);
    CHECK(old.slice(1, 3).reverse(0).numElements() == 2u);
    CHECK_THROWS(poplar::control_program_error, poplar::program::Copy(old, own));
    CHECK_THROWS(poplar::control_program_error, poplar::program::Copy(own, old));
    CHECK_THROWS(poplar::poplar_error, poplar::concat(old, own));
    CHECK_THROWS(poplar::poplar_error, graph.setInitialValue(old, 1.0f));
    CHECK_THROWS(poplar::poplar_error, graph.setTileMapping(old, 0));
    CHECK_THROWS(poplar::poplar_error, graph.getTileMapping(old));
    CHECK_THROWS(poplar::poplar_error, graph.clone(old));
    CHECK_THROWS(poplar::poplar_error, old.containsConstant());
  }
}

TEST(MisuseThrowsWithShapes) {
  poplar::Graph graph = NewGraph();
  const Tensor x = graph.addVariable(poplar::FLOAT, {4, 6}, "x");
  CHECK_THROWS(poplar::poplar_error, x.slice(3, 2, 0));
  CHECK_THROWS(poplar::poplar_error, x.slice(0, 7, 1));
  CHECK_THROWS(poplar::poplar_error, x.slice(0, 1, 2));
  CHECK_THROWS(poplar::poplar_error, x.reshape({5, 5}));
  CHECK_THROWS(poplar::poplar_error, x.dimShuffle({0, 0}));
  CHECK_THROWS(poplar::poplar_error, x.squeeze({0}));
  CHECK_THROWS(poplar::poplar_error, x.expand({3}));
  CHECK_THROWS(poplar::poplar_error, x.subSample(0, 0));
  CHECK_THROWS(poplar::poplar_error, x[4]);
  CHECK_THROWS(poplar::poplar_error, poplar::concat(x, x.slice(0, 3, 0), 1));
  CHECK_THROWS(poplar::poplar_error, Tensor().flatten());
  CHECK_THROWS(poplar::type_error, x.reinterpret(poplar::HALF));
  try {
    x.slice(0, 7, 1);
  } catch (const poplar::poplar_error& error) {
    CHECK(std::string(error.what()).find("{4,6}") != std::string::npos);
  }
}

TEST(ZeroElementsAreLegal) {
  poplar::Graph graph = NewGraph();
  const Tensor x = graph.addVariable(poplar::FLOAT, {4, 0, 3}, "x");
  CHECK_EQ(x.reshape({0, 7}).numElements(), 0u);
  CHECK_EQ(x.dimShuffle({2, 0, 1}).slice(1, 2, 0).reverse(2).rank(), 3u);
  CHECK_EQ(poplar::concat(x, x, 1).dim(1), 0u);
  const Tensor y = graph.addVariable(poplar::FLOAT, {4, 2, 3}, "y");
  CHECK_EQ(poplar::concat({x, y, x}, 1).dim(1), 2u);
  CHECK_EQ(y.broadcast(0, 1).numElements(), 0u);
  CHECK(!x.containsAliases());
  poputil::mapTensorLinearly(graph, x);
  CHECK_EQ(graph.clone(x).numElements(), 0u);
}

TEST(TileMappingOfViews) {
  poplar::Graph graph = NewGraph();
  const Tensor x = graph.addVariable(poplar::FLOAT, {4, 6}, "x");
  graph.setTileMapping(x, 3);
  graph.setTileMapping(x.slice(2, 4, 1), 5);
  const auto mapping = graph.getTileMapping(x);
  std::size_t on_three = 0, on_five = 0;
  for (const poplar::Interval& i : mapping[3]) on_three += i.size();
  for (const poplar::Interval& i : mapping[5]) {
    on_five += i.size();
    CHECK_EQ(i.begin() % 6, 2u);
  }
  CHECK_EQ(on_three, 16u);
  CHECK_EQ(on_five, 8u);
  const auto columns = graph.getTileMapping(x.transpose());
  CHECK(columns[5] == (std::vector<poplar::Interval>{{8, 16}}));

  // Clones keep the mapping and the memory order.
  const Tensor c = graph.clone(x.transpose());
  CHECK(c.shape() == (Sizes{6, 4}));
  CHECK(graph.getTileMapping(c) == columns);
  ipu_model::View view;
  CHECK(c.asView(&view));
  CHECK(view.strides == (ipu_model::Shape{1, 6}));
  // With CREATE_NEW_ORDER, clones have the memory order of their dimensions.
  const Tensor n = graph.clone(poplar::HALF, x.transpose(), {}, poplar::TensorCloneMethod::CREATE_NEW_ORDER);
  CHECK(graph.getTileMapping(n) == columns);
  CHECK(n.elementType() == poplar::HALF);
  CHECK(n.asView(&view));
  CHECK(view.strides == (ipu_model::Shape{4, 1}));
  const Tensor b = graph.clone(x.slice(0, 1, 0).broadcast(3, 0));
  CHECK(!b.containsAliases());
  CHECK(graph.getTileMapping(b) == graph.getTileMapping(x.slice(0, 1, 0).broadcast(3, 0)));

  // Mapping by intervals, through a view with gaps.
  poplar::Graph::TileToTensorMapping wanted(3);
  wanted[0] = {{0, 3}, {7, 8}};
  wanted[2] = {{3, 7}};
  const Tensor y = graph.addVariable(poplar::FLOAT, {4, 4}, "y");
  graph.setTileMapping(y.subSample(2, 1), wanted);
  auto got = graph.getTileMapping(y.subSample(2, 1));
  got.resize(3);
  CHECK(got == wanted);
  CHECK_THROWS(poplar::invalid_tile_mapping, graph.setTileMapping(y, 8));
  wanted[1] = {{2, 4}};
  CHECK_THROWS(poplar::invalid_tile_mapping, graph.setTileMapping(y.subSample(2, 1), wanted));
}

TEST(LinearMappingIsBalanced) {
  poplar::Graph graph = NewGraph(16);
  const Tensor x = graph.addVariable(poplar::FLOAT, {1000}, "x");
  poputil::mapTensorLinearly(graph, x);
  const auto mapping = graph.getTileMapping(x);
  std::size_t total = 0;
  for (const auto& intervals : mapping) {
    for (const poplar::Interval& i : intervals) total += i.size();
  }
  CHECK_EQ(total, 1000u);
  CHECK(mapping == poputil::calcLinearTileMapping(graph, x));
  const Tensor small = graph.addVariable(poplar::FLOAT, {32}, "small");
  poputil::mapTensorLinearly(graph, small);
  CHECK_EQ(graph.getTileMapping(small)[0].size(), 1u);
  CHECK(graph.getTileMapping(small)[1].empty());
}

}  // namespace
