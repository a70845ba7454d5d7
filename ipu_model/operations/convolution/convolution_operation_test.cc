// Tests convolutions on the device: the vertices give the result of the whole operation for every split, and
// mappings are complete.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "core/graph/graph_impl.h"
#include "core/operation/serialise.h"
#include "core/program/program_node.h"
#include "core/vertices/limits_buffers.h"
#include "hlo/Convolution.hpp"
#include "ipu_model/Model.hpp"
#include "operations/convolution/convolution_plan.h"
#include "operations/convolution/convolution_serial.h"
#include "poplar/Engine.hpp"
#include "poplar/exceptions.hpp"
#include "poplin/Convolution.hpp"
#include "testing/plan_runner.h"

namespace ipu_model {
namespace {

using poplar::Graph;
using poplar::Target;
using poplar::Tensor;
using Sizes = std::vector<std::size_t>;

struct Case {
  Sizes lhs, rhs;
  hlo::ConvolutionParameters params;
  std::vector<std::int64_t> lhs_layout, rhs_layout, out_layout;
};

std::vector<std::int64_t> RandomLayout(std::mt19937& random, std::size_t rank) {
  std::vector<std::int64_t> layout;
  for (std::size_t d = 0; d < rank; ++d) layout.push_back(static_cast<std::int64_t>(d));
  if (random() % 3 > 0) std::rotate(layout.begin() + 1, layout.begin() + 2, layout.end());
  if (random() % 3 == 0) std::shuffle(layout.begin(), layout.end(), random);
  return layout;
}

Case RandomCase(std::mt19937& random, std::size_t spatial) {
  const auto up_to = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
  for (;;) {
    Case c;
    ConvolutionGeometry& g = c.params.geometry;
    g.spatial = static_cast<int>(spatial);
    const std::int64_t groups = up_to(3) == 0 ? 1 + up_to(6) : 1;
    const bool by_batch = up_to(2) == 0;
    (by_batch ? g.batch_groups : g.feature_groups) = groups;
    const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    const std::int64_t batch = 1 + up_to(5), channels = (up_to(15) == 0 ? 0 : 1) + up_to(20);
    const std::int64_t features = 1 + up_to(20);
    c.lhs = {size(batch * (by_batch ? groups : 1)), size(channels * (by_batch ? 1 : groups))};
    c.rhs = {size(groups * features), size(channels)};
    const bool many_taps = up_to(3) == 0;
    for (std::size_t d = 0; d < spatial; ++d) {
      ConvolutionWindow& w = g.window[d];
      w.stride = 1 + (up_to(3) == 0 ? up_to(3) : 0);
      w.rhs_dilation = 1 + (up_to(3) == 0 ? up_to(3) : 0);
      w.lhs_dilation = 1 + (up_to(4) == 0 ? up_to(3) : 0);
      w.reversed = up_to(4) == 0;
      w.padding_low = up_to(2) == 0 ? 0 : up_to(6) - 2;
      c.params.paddingHigh.push_back(up_to(2) == 0 ? 0 : up_to(6) - 2);
      const std::int64_t input = 1 + up_to(10);
      c.lhs.push_back(size(input));
      c.rhs.push_back(size(many_taps        ? std::max<std::int64_t>(1, input - up_to(3))
                           : up_to(12) == 0 ? 0
                                            : 1 + up_to(3)));
    }
    const Sizes out = hlo::convolutionOutputShape(c.lhs, c.rhs, c.params);
    double work = static_cast<double>(channels + 1);
    for (std::size_t d = 0; d < out.size(); ++d)
      work *= static_cast<double>(out[d] * (d < 2 ? 1 : c.rhs[d] + 1));
    c.lhs_layout = RandomLayout(random, spatial + 2);
    c.rhs_layout = RandomLayout(random, spatial + 2);
    c.out_layout = RandomLayout(random, spatial + 2);
    if (work > 0 && work < 2e6) return c;
  }
}

template <typename T>
std::vector<T> Values(std::mt19937& random, std::size_t n) {
  std::vector<T> values(n);
  for (T& v : values) v = static_cast<T>(static_cast<int>(random() % 9) - 4);
  return values;
}

// Small integers, so that sums are exact in every order.
template <typename T>
void Compare(std::mt19937& random, const Case& c, DType type, unsigned tiles, unsigned bytes_per_tile,
             std::size_t* partial_sums, const poplar::OptionFlags& options = {}, std::int64_t limit = 0) {
  Graph graph(Target::createIPUTarget(1, tiles, "ipu2"));
  Case typed = c;
  typed.params.outputType = poplar::Type(type);
  const Tensor lhs = hlo::createConvolutionInput(graph, poplar::Type(type), c.lhs, c.rhs, typed.params,
                                                 c.lhs_layout, "lhs", options);
  const Tensor rhs = hlo::createConvolutionWeights(graph, poplar::Type(type), c.lhs, c.rhs, typed.params,
                                                   c.rhs_layout, "rhs", options);
  poplar::program::Sequence prog;
  const Tensor out = hlo::convolution(graph, lhs, rhs, typed.params, c.out_layout, prog, "conv", options);
  CHECK(out.shape() == hlo::convolutionOutputShape(c.lhs, c.rhs, typed.params));
  if (limit > 0) {
    CHECK(dynamic_cast<LimitsBuffers&>(*prog.node()->children.back()->operation).LimitBuffers(limit));
  }
  for (const Variable& v : graph.impl().variables)
    CHECK(v.num_elements == 0 || v.mapping.Complete(v.num_elements));
  PlanRunner whole(graph, bytes_per_tile), vertices(graph, bytes_per_tile);
  const auto x = Values<T>(random, lhs.numElements()), w = Values<T>(random, rhs.numElements());
  for (PlanRunner* runner : {&whole, &vertices}) {
    runner->Store(lhs, x.data());
    runner->Store(rhs, w.data());
  }
  whole.RunWhole(prog);
  vertices.RunVertices(prog);
  CHECK(whole.Load(out) == vertices.Load(out));
  CHECK(vertices.cycles() > 0);
  *partial_sums += vertices.supersteps() > 1;
}

TEST(VerticesComputeTheConvolution) {
  std::mt19937 random(5);
  std::size_t partial_sums = 0;
  for (int i = 0; i < 120; ++i) {
    const unsigned tiles = i % 3 == 0 ? 3 : i % 3 == 1 ? 64 : 1472;
    const Case c = RandomCase(random, static_cast<std::size_t>(i) % 4);
    Compare<float>(random, c, DType::kF32, tiles, 0, &partial_sums);
    if (i % 4 == 0) Compare<std::int32_t>(random, c, DType::kS32, tiles, 0, &partial_sums);
    if (i % 4 == 1) Compare<_Float16>(random, c, DType::kF16, tiles, 0, &partial_sums);
    if (i % 4 == 2) Compare<double>(random, c, DType::kF64, tiles, 0, &partial_sums);
  }
  CHECK(partial_sums > 10);
}

// With little memory a part is processed in steps, over its outputs, over what it adds up, or both: where the
// plan has little, and where a program is found to have little.
TEST(SerialStepsComputeTheConvolution) {
  std::mt19937 random(11);
  const TargetModel& target = FindTargetModel("ipu2");
  std::size_t partial_sums = 0, planned = 0, stepped = 0, added = 0, both = 0, again = 0;
  for (int i = 0; i < 90; ++i) {
    const unsigned tiles = i % 3 == 0 ? 1 : i % 3 == 1 ? 3 : 16;
    Case c = RandomCase(random, static_cast<std::size_t>(i) % 4);
    if (i % 2 == 0) c.rhs[0] *= 9;  // more than one group of output channels
    const char* const memory = i % 5 < 3 ? "0.0008" : "0.004";
    const double bytes = std::stod(memory) * target.bytes_per_tile;
    const poplar::OptionFlags options = {{"availableMemoryProportion", memory}};
    Compare<float>(random, c, DType::kF32, tiles, 0, &partial_sums, options);
    if (i % 4 == 0) Compare<std::int32_t>(random, c, DType::kS32, tiles, 0, &partial_sums, options);
    Compare<_Float16>(random, c, DType::kF16, tiles, 0, &partial_sums,
                      {{"availableMemoryProportion", memory}, {"partialsType", "half"}});
    const auto limit = static_cast<std::int64_t>(std::max(bytes, 512.0));
    Compare<float>(random, c, DType::kF32, tiles, 0, &partial_sums, {}, limit);
    Compare<_Float16>(random, c, DType::kF16, tiles, 0, &partial_sums, {{"partialsType", "half"}}, limit);
    ConvolutionProblem p;
    p.geometry = c.params.geometry;
    p.lhs.assign(c.lhs.begin(), c.lhs.end());
    p.rhs.assign(c.rhs.begin(), c.rhs.end());
    const Sizes out = hlo::convolutionOutputShape(c.lhs, c.rhs, c.params);
    p.out.assign(out.begin(), out.end());
    p.most_temporary_bytes = bytes;
    const SerialSplit chosen = ChooseConvolutionSplit(p, target, tiles).serial;
    CHECK(!chosen.adds() || !chosen.cuts_outputs());
    planned += chosen.split();
    p.most_temporary_bytes = 0.6 * target.bytes_per_tile;
    const SerialSplit serial = LimitSerialSplit(p, ChooseConvolutionSplit(p, target, tiles), bytes);
    again += !HasSerialSplit(p, ChooseConvolutionSplit(p, target, tiles), bytes) &&
             ConvolutionSplitWithin(p, target, tiles, bytes).has_value();
    stepped += serial.split();
    added += serial.adds();
    both += serial.adds() && serial.cuts_outputs();
  }
  CHECK(planned > 20);
  CHECK(again > 0);
  CHECK(both > 3);
  CHECK(stepped > 30);
  CHECK(added > 5);
  CHECK(stepped > added + 5);
}

// Channels are major in the result, so few tiles have those of a step: the tiles with partial sums add them.
TEST(StepsOfMajorChannelsComputeTheConvolution) {
  std::mt19937 random(19);
  std::size_t partial_sums = 0;
  for (const unsigned tiles : {7u, 16u, 64u}) {
    for (const char* const memory : {"0.02", "0.01", "0.005"}) {
      Case c;
      c.params.geometry.spatial = 2;
      for (ConvolutionWindow& w : c.params.geometry.window) w.padding_low = w.lhs_dilation = 2;
      c.params.paddingHigh = {2, 2};
      c.lhs = {13, 64, 3, 4};
      c.rhs = {72, 64, 4, 4};
      c.lhs_layout = c.out_layout = {0, 1, 2, 3};
      c.rhs_layout = {0, 1, 2, 3};
      const poplar::OptionFlags options = {{"availableMemoryProportion", memory}};
      Compare<float>(random, c, DType::kF32, tiles, 0, &partial_sums, options);
      Compare<_Float16>(random, c, DType::kF16, tiles, 0, &partial_sums, options);
    }
  }
  CHECK(partial_sums == 18);
}

// Every tile keeps its input over the steps, with the rows that its neighbours also read.
TEST(KeptInputsComputeTheConvolution) {
  std::mt19937 random(17);
  const TargetModel& target = FindTargetModel("ipu2");
  std::size_t partial_sums = 0, kept = 0;
  for (const std::size_t kernel : {1, 3}) {
    for (const char* const memory : {"0.014", "0.01", "0.007", "0.005"}) {
      Case c;
      c.params.geometry.spatial = 2;
      c.params.paddingHigh = {0, 0};
      c.lhs = {3, 16, 13, 11};
      c.rhs = {96, 16, kernel, kernel};
      c.lhs_layout = c.out_layout = {0, 2, 3, 1};
      c.rhs_layout = {2, 3, 1, 0};
      Compare<float>(random, c, DType::kF32, 48, 0, &partial_sums, {{"availableMemoryProportion", memory}});
      Compare<_Float16>(random, c, DType::kF16, 48, 0, &partial_sums,
                        {{"availableMemoryProportion", memory}, {"partialsType", "half"}});
      ConvolutionProblem p;
      p.geometry = c.params.geometry;
      p.lhs.assign(c.lhs.begin(), c.lhs.end());
      p.rhs.assign(c.rhs.begin(), c.rhs.end());
      const Sizes out = hlo::convolutionOutputShape(c.lhs, c.rhs, c.params);
      p.out.assign(out.begin(), out.end());
      p.most_temporary_bytes = std::stod(memory) * target.bytes_per_tile;
      kept += ChooseConvolutionSplit(p, target, 48).serial.keeps_input;
    }
  }
  CHECK(kept > 1);
}

TEST(PointwiseVerticesComputeTheConvolution) {
  std::mt19937 random(3);
  std::size_t partial_sums = 0;
  const std::vector<std::vector<std::int64_t>> layouts = {
      {0, 2, 3, 1}, {1, 0, 2, 3}, {0, 1, 2, 3}, {0, 3, 2, 1}};
  for (const auto& layout : layouts) {
    for (const std::int64_t groups : {1, 3}) {
      Case c;
      c.params.geometry.spatial = 2;
      c.params.geometry.feature_groups = groups;
      c.params.paddingHigh = {0, 0};
      c.lhs = {5, static_cast<std::size_t>(20 * groups), 3, 7};
      c.rhs = {static_cast<std::size_t>(6 * groups), 20, 1, 1};
      c.lhs_layout = c.out_layout = layout;
      c.rhs_layout = {2, 3, 1, 0};
      Compare<float>(random, c, DType::kF32, 64, 0, &partial_sums);
      Compare<_Float16>(random, c, DType::kF16, 64, 0, &partial_sums, {{"partialsType", "half"}});
      Compare<float>(random, c, DType::kF32, 16, 0, &partial_sums, {{"availableMemoryProportion", "0.001"}});
    }
  }
  CHECK(partial_sums > 0);
}

TEST(ResultMappedLikeTheWeights) {
  Graph graph(Target::createIPUTarget(1, 64, "ipu2"));
  const Tensor weights = graph.addVariable(poplar::FLOAT, {3, 3, 8, 16}, "weights");
  graph.setTileMapping(weights.slice(0, 1), 5);
  graph.setTileMapping(weights.slice(1, 3), 7);
  const Tensor x = graph.addVariable(poplar::FLOAT, {8, 4, 10, 10}, "x");
  const Tensor dy = graph.addVariable(poplar::FLOAT, {16, 4, 8, 8}, "dy");
  graph.setTileMapping(x, 0);
  graph.setTileMapping(dy, 1);
  hlo::ConvolutionParameters params;
  params.geometry.spatial = 2;
  params.paddingHigh = {0, 0};
  params.outputType = poplar::FLOAT;
  poplar::program::Sequence prog;
  const Tensor dw =
      hlo::convolution(graph, x, dy, params, {2, 3, 0, 1}, prog, "dw", {}, weights.dimShuffle({2, 3, 0, 1}));
  CHECK(graph.getTileMapping(dw.dimShuffle({2, 3, 0, 1})) == graph.getTileMapping(weights));
  std::mt19937 random(1);
  PlanRunner whole(graph, 0), vertices(graph, 0);
  const auto a = Values<float>(random, x.numElements()), b = Values<float>(random, dy.numElements());
  for (PlanRunner* runner : {&whole, &vertices}) {
    runner->Store(x, a.data());
    runner->Store(dy, b.data());
  }
  whole.RunWhole(prog);
  vertices.RunVertices(prog);
  CHECK(whole.Load(dw) == vertices.Load(dw));
}

// The plan of a convolution of halves, 3x3 on 16x16 positions, on 64 tiles; calls check(plan, runner,
// operation).
template <typename F>
void WithPlan(std::size_t channels, F&& check) {
  Case c;
  c.params.geometry.spatial = 2;
  for (int d = 0; d < 2; ++d) c.params.geometry.window[d].padding_low = 1;
  c.params.paddingHigh = {1, 1};
  c.params.outputType = poplar::HALF;
  c.lhs = {1, channels, 16, 16};
  c.rhs = {channels, channels, 3, 3};
  Graph graph(Target::createIPUTarget(1, 64, "ipu2"));
  const Tensor lhs =
      hlo::createConvolutionInput(graph, poplar::HALF, c.lhs, c.rhs, c.params, {0, 2, 3, 1}, "lhs");
  const Tensor rhs =
      hlo::createConvolutionWeights(graph, poplar::HALF, c.lhs, c.rhs, c.params, {2, 3, 1, 0}, "rhs");
  poplar::program::Sequence prog;
  hlo::convolution(graph, lhs, rhs, c.params, {0, 2, 3, 1}, prog);
  const PlanRunner context(graph, 0);
  const Operation& operation = *prog.node()->children.back()->operation;
  check(operation.Plan(context), context, operation);
}

// Checks what the vertices of `group` copy of their inputs; returns how many have all of it.
std::size_t CheckArranged(const VertexGroup& group, const PlanRunner& context, const View& input,
                          bool padded) {
  std::size_t whole = 0;
  const auto& read = group.reads.at(0);
  CHECK(static_cast<bool>(read.arranged));
  for (const Vertex& v : group.vertices) {
    const Box region = read.region(v.box);
    const std::int64_t held = context.mapping(input.variable).Held(v.tile, input, region);
    if (held == 0) continue;
    const LocalCopy copy = read.arranged(v.box, region.num_elements(), held);
    const bool all = held == region.num_elements();
    whole += all;
    CHECK_EQ(copy.elements, all && !padded ? 0 : held);
    CHECK(copy.rows <= copy.elements && (copy.rows > 0) == (copy.elements > 0));
  }
  return whole;
}

TEST(WhatATileHasOfAnInputIsCopiedBesideTheHalo) {
  WithPlan(32, [](const TilePlan& plan, const PlanRunner& context, const Operation& operation) {
    const VertexGroup& products = plan.supersteps.at(0).groups.at(0);
    CHECK(products.codelet.find("poplin::ConvPartialnx1") == 0);
    CHECK(CheckArranged(products, context, operation.inputs[0], false) < products.vertices.size());
  });
}

TEST(RowsOfSlicArePaddedWithZeros) {
  WithPlan(4, [](const TilePlan& plan, const PlanRunner& context, const Operation& operation) {
    const VertexGroup &zeros = plan.supersteps.at(0).groups.at(0),
                      &products = plan.supersteps.at(1).groups.at(0);
    CHECK(products.codelet.find("poplin::ConvPartial1xNSLIC") == 0);
    CheckArranged(products, context, operation.inputs[0], true);
    // A fourth tap of 4 x 4 weights in each row of the kernel, and a position of 4 channels in each of the
    // input.
    const Box& box = zeros.vertices.at(0).box;
    const Shape input = products.reads[0].region(box).extents(),
                weights = products.reads[1].region(box).extents();
    const auto bytes = static_cast<std::uint64_t>(2 * (weights[2] * 16 + input[2] * 4));
    CHECK_EQ(zeros.cycles(context.target(), box), context.target().sync_cycles + (bytes + 3) / 4);
  });
}

TEST(Serialisation) {
  std::mt19937 random(2);
  Case c = RandomCase(random, 2);
  c.params.outputType = poplar::FLOAT;
  Graph graph(Target::createIPUTarget(1, 64, "ipu2"));
  const Tensor lhs = hlo::createConvolutionInput(graph, poplar::FLOAT, c.lhs, c.rhs, c.params, c.lhs_layout);
  const Tensor rhs =
      hlo::createConvolutionWeights(graph, poplar::FLOAT, c.lhs, c.rhs, c.params, c.rhs_layout);
  poplar::program::Sequence prog;
  hlo::convolution(graph, lhs, rhs, c.params, c.out_layout, prog);
  const Operation& operation = *prog.node()->children.at(0)->operation;
  Writer writer;
  operation.Write(writer);
  Reader reader(writer.data());
  const auto copy = OperationRegistry().at(std::string(operation.kind()))(reader);
  CHECK_EQ(reader.remaining(), std::size_t{0});
  copy->inputs = operation.inputs;
  copy->outputs = operation.outputs;
  Writer again;
  copy->Write(again);
  CHECK(again.data() == writer.data());
  CHECK_EQ(copy->flops(), operation.flops());
}

// A convolution with transposed, flipped weights is the input gradient: padding 2 around dy, stride 1.
TEST(PoplinTransforms) {
  Graph graph(Target::createIPUTarget(1, 16, "ipu2"));
  poplin::ConvParams params(poplar::FLOAT, 1, {5}, {3}, 1, 1, 1);
  params.inputTransform.paddingLower = {1};
  params.inputTransform.truncationUpper = {1};
  params.kernelTransform.flip = {true};
  params.outputTransform.stride = {2};
  params.outputTransform.paddingUpper = {1};
  CHECK_EQ(params.getTransformedInputSize(0), std::size_t{5});
  CHECK_EQ(params.getOutputSize(0), std::size_t{3});
  const Tensor in = poplin::createInput(graph, params, "in");
  const Tensor weights = poplin::createWeights(graph, params, "weights");
  poplar::program::Sequence prog;
  const Tensor out = poplin::convolution(graph, in, weights, params, false, prog, "conv");
  CHECK(out.shape() == (Sizes{1, 1, 3}));
  PlanRunner runner(graph, 0);
  const float x[] = {1, 2, 3, 4, 5}, w[] = {1, 10, 100};
  runner.Store(in, x);
  runner.Store(weights, w);
  runner.RunWhole(prog);
  // Input 0 1 2 3 4, kernel 100 10 1; every second result of 12 123 234.
  const Bytes bytes = runner.Load(out.slice(0, 2, 2));
  float y[2];
  std::memcpy(y, bytes.data(), sizeof(y));
  CHECK_EQ(y[0], 12.0f);
  CHECK_EQ(y[1], 234.0f);
}

TEST(Refusals) {
  Graph graph(Target::createIPUTarget(1, 4, "ipu2"));
  poplar::program::Sequence prog;
  const Tensor x = graph.addVariable(poplar::FLOAT, {2, 3, 5}, "x");
  const Tensor w = graph.addVariable(poplar::FLOAT, {4, 2, 3}, "w");
  const Tensor i = graph.addVariable(poplar::INT, {4, 3, 3}, "i");
  hlo::ConvolutionParameters params;
  params.geometry.spatial = 1;
  params.paddingHigh = {0};
  params.outputType = poplar::FLOAT;
  CHECK_THROWS(poplar::poplar_error, hlo::convolution(graph, x, w, params, {0, 1, 2}, prog));
  CHECK_THROWS(poplar::type_error, hlo::convolution(graph, x, i, params, {0, 1, 2}, prog));
  const Tensor good = graph.addVariable(poplar::FLOAT, {4, 3, 3}, "good");
  CHECK_THROWS(poplar::poplar_error, hlo::convolution(graph, x, good, params, {0, 1, 1}, prog));
  CHECK_THROWS(poplar::invalid_option,
               hlo::convolution(graph, x, good, params, {0, 1, 2}, prog, {}, {{"partialsTyp", "half"}}));
  CHECK_THROWS(poplar::invalid_option, hlo::convolution(graph, x, good, params, {0, 1, 2}, prog, {},
                                                        {{"availableMemoryProportion", "much"}}));
}

}  // namespace
}  // namespace ipu_model
