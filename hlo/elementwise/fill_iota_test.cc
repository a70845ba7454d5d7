// Fill and iota: kernel and expansion have the same vertices and values, for every type and tile mapping.
#include <numeric>

#include "hlo/Elementwise.hpp"
#include "testing/codelet_cache.h"
#include "testing/expansion_check.h"

namespace hlo::testing {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

const toy::SharedCodeletCache cache;

constexpr DType kPoplarTypes[] = {DType::kS8,  DType::kS16, DType::kS32, DType::kS64, DType::kU8,
                                  DType::kU16, DType::kU32, DType::kU64, DType::kF16, DType::kF32};
constexpr DType kOtherTypes[] = {DType::kS2,   DType::kS4,  DType::kU2, DType::kU4,
                                 DType::kBF16, DType::kF64, DType::kC64};

// A tensor of shape [5, 6, 7] in each way that results are mapped.
struct Form {
  const char* name;
  std::function<Tensor(Graph&, DType)> make;
};
const Form kForms[] = {
    {"linear", [](Graph& g, DType type) { return Linear(g, type, {5, 6, 7}); }},
    {"one tile",
     [](Graph& g, DType type) {
       const Tensor t = g.addVariable(poplar::Type(type), {5, 6, 7}, "t");
       g.setTileMapping(t, 3);
       return t;
     }},
    {"transposed", [](Graph& g, DType type) { return Linear(g, type, {7, 5, 6}).dimShuffle({1, 2, 0}); }},
    {"reversed",
     [](Graph& g, DType type) { return Linear(g, type, {5, 7, 6}).dimShuffle({0, 2, 1}).reverse(1); }},
    {"a slice", [](Graph& g, DType type) { return Linear(g, type, {6, 8, 9}).slice({1, 1, 2}, {6, 7, 9}); }},
    {"every second element",
     [](Graph& g, DType type) { return Linear(g, type, {5, 6, 14}).subSample(2, 2); }},
    {"a grid",
     [](Graph& g, DType type) {
       const Tensor t = g.addVariable(poplar::Type(type), {5, 6, 7}, "t");
       for (unsigned r = 0; r < 2; ++r) {
         for (unsigned c = 0; c < 3; ++c)
           g.setTileMapping(t.slice({r * 2, 0, c * 2}, {r == 0 ? 2u : 5u, 6, c == 2 ? 7u : c * 2 + 2}),
                            r * 3 + c);
       }
       return t;
     }},
    {"a grid of slices of columns",
     [](Graph& g, DType type) {
       const Tensor t = g.addVariable(poplar::Type(type), {6, 5, 7}, "t");
       for (unsigned r = 0; r < 3; ++r) {
         for (unsigned c = 0; c < 2; ++c)
           g.setTileMapping(t.slice({r * 2, c * 2, 0}, {r * 2 + 2, c == 0 ? 2u : 5u, 7}), r * 2 + c);
       }
       return t.dimShuffle({1, 0, 2});
     }},
};

void CheckFill(DType type, const Form& form) {
  Graph graph = SmallGraph();
  const Tensor t = form.make(graph, type);
  std::string bytes;
  for (std::size_t i = 0; i < SizeOf(type); ++i) bytes += static_cast<char>(17 + 31 * i);
  Sequence prog;
  hlo::fill(graph, t, bytes, prog, "fill");
  ExpansionCheck check(graph, prog, {}, {t});
  check.SameVertices();
  check.SameValues({}, SameBits);
}

void CheckIota(DType type, const Form& form, unsigned dimension) {
  Graph graph = SmallGraph();
  const Tensor t = form.make(graph, type);
  Sequence prog;
  hlo::iota(graph, t, dimension, prog, "iota");
  ExpansionCheck check(graph, prog, {}, {t});
  check.SameVertices();
  check.SameValues({}, SameBits);
}

TEST(FillInEveryForm) {
  for (const Form& form : kForms) CheckFill(DType::kF32, form);
}

TEST(FillOfEveryType) {
  for (const DType type : kPoplarTypes) CheckFill(type, kForms[0]);
  for (const DType type : kOtherTypes) CheckFill(type, kForms[0]);
  for (const DType type : {DType::kPred, DType::kF8E4M3FN, DType::kF4E2M1FN}) CheckFill(type, kForms[0]);
}

TEST(IotaInEveryFormAlongEveryDimension) {
  for (const Form& form : kForms) {
    for (unsigned d = 0; d < 3; ++d) CheckIota(DType::kS32, form, d);
  }
}

TEST(IotaOfEveryType) {
  for (const DType type : kPoplarTypes) CheckIota(type, kForms[0], 1);
  for (const DType type : kOtherTypes) CheckIota(type, kForms[0], 1);
}

// Where rounding, wrapping and infinity matter.
TEST(LongIota) {
  for (const DType type :
       {DType::kS8, DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kC64, DType::kU16}) {
    Graph graph = SmallGraph();
    const Tensor t = Linear(graph, type, {70001});
    Sequence prog;
    hlo::iota(graph, t, 0, prog, "iota");
    ExpansionCheck check(graph, prog, {}, {t});
    check.SameVertices();
    check.SameValues({}, SameBits);
  }
}

TEST(Scalars) {
  Graph graph = SmallGraph();
  const Tensor t = graph.addVariable(poplar::INT, {}, "t");
  graph.setTileMapping(t, 2);
  Sequence prog;
  hlo::fill(graph, t, std::string("\1\2\3\4"), prog, "fill");
  ExpansionCheck check(graph, prog, {}, {t});
  check.SameVertices();
  check.SameValues({}, SameBits);
}

std::string RefusalOf(const std::function<void(Graph&, Sequence&)>& build) {
  Graph graph = SmallGraph();
  Sequence prog;
  build(graph, prog);
  return Refusal(graph, prog);
}

TEST(RefusedTypesAreNamed) {
  const std::string fill = RefusalOf([](Graph& graph, Sequence& prog) {
    hlo::fill(graph, Linear(graph, DType::kC128, {9}), std::string(16, '\1'), prog, "the fill");
  });
  CHECK(fill.find("the fill") != std::string::npos && fill.find("c128") != std::string::npos);
  for (const DType type : {DType::kF8E5M2, DType::kC128}) {
    const std::string iota = RefusalOf([type](Graph& graph, Sequence& prog) {
      hlo::iota(graph, Linear(graph, type, {9}), 0, prog, "the iota");
    });
    CHECK(iota.find("the iota") != std::string::npos && iota.find(NameOf(type)) != std::string::npos);
  }
}

TEST(OnlyTheTileEngineRunsExpansions) {
  Graph graph = SmallGraph();
  Sequence prog;
  hlo::iota(graph, Linear(graph, DType::kS32, {9}), 0, prog, "iota");
  poplar::Engine engine(graph, prog, {{"execution", "fast"}});
  CHECK_THROWS(poplar::poplar_error, RunExpansions(engine, library()));
}

}  // namespace
}  // namespace hlo::testing
