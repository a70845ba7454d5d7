// Tests GCL's collectives: values on every replica in both engines, and rejected arguments.
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "gcl/Collectives.hpp"
#include "ipu_model/Model.hpp"
#include "ipu_model/Replicas.hpp"
#include "poplar/Engine.hpp"
#include "poplar/Executable.hpp"
#include "poplar/exceptions.hpp"
#include "poputil/TileMapping.hpp"

namespace gcl {
namespace {

using jax_ipu::testing::MessageOf;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Copy;
using poplar::program::Sequence;
using Values = std::vector<float>;
using Build = std::function<Tensor(Graph&, const Tensor&, Sequence&)>;

const poplar::Target kTarget = poplar::Target::createIPUTarget(1, 4, "ipu2");

// Runs build(x) on every replica, where x has shape `shape` and the replica's input. Returns the results by
// replica.
std::vector<Values> Run(const std::string& execution, const std::vector<std::size_t>& shape,
                        std::vector<Values> inputs, const Build& build) {
  const auto replicas = static_cast<unsigned>(inputs.size());
  Graph graph(ipu_model::TargetOfReplicas(kTarget, replicas), poplar::replication_factor(replicas));
  const Tensor x = graph.addVariable(poplar::FLOAT, shape, "x");
  poputil::mapTensorLinearly(graph, x);
  Sequence main;
  main.add(Copy(graph.addHostToDeviceFIFO("in", poplar::FLOAT, x.numElements()), x));
  const Tensor result = build(graph, x, main);
  main.add(Copy(result, graph.addDeviceToHostFIFO("out", result.elementType(), result.numElements())));
  const poplar::Executable executable = poplar::compileGraph(graph, {main});
  ipu_model::ReplicaGroup group(replicas);
  std::vector<Values> results(replicas, Values(result.numElements()));
  std::vector<std::thread> threads;
  for (unsigned r = 0; r < replicas; ++r) {
    threads.emplace_back([&, r] {
      poplar::Engine engine(executable, {{"execution", execution}});
      engine.load();
      engine.connectStream("in", inputs[r].data());
      engine.connectStream("out", results[r].data());
      ipu_model::SetReplica(engine, {&group, r});
      engine.run();
      group.Leave(r);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

// Inputs of four replicas: replica r has the elements 10 r + i.
std::vector<Values> FourOf(std::size_t n) {
  std::vector<Values> inputs(4);
  for (std::size_t r = 0; r < 4; ++r) {
    for (std::size_t i = 0; i < n; ++i) inputs[r].push_back(static_cast<float>(10 * r + i));
  }
  return inputs;
}

const std::vector<std::string> kModes = {"fast", "tile"};

TEST(GroupsOfEveryType) {
  struct Case {
    CommGroup group;
    std::vector<float> sums;  // of element 0, by replica
  };
  const std::vector<Case> cases = {{CommGroup(), {60, 60, 60, 60}},
                                   {{CommGroupType::ALL, 0}, {60, 60, 60, 60}},
                                   {{CommGroupType::CONSECUTIVE, 2}, {10, 10, 50, 50}},
                                   {{CommGroupType::CONSECUTIVE, 2, 2}, {20, 40, 20, 40}},
                                   {{CommGroupType::ORTHOGONAL, 2}, {20, 40, 20, 40}},
                                   {{CommGroupType::CONSECUTIVE, 1}, {0, 10, 20, 30}},
                                   {{CommGroupType::ORTHOGONAL, 4}, {60, 60, 60, 60}}};
  for (const std::string& mode : kModes) {
    for (const Case& c : cases) {
      const auto results = Run(mode, {3}, FourOf(3), [&](Graph& g, const Tensor& x, Sequence& s) {
        return allReduceCrossReplica(g, x, CollectiveOperator::ADD, s, c.group);
      });
      for (std::size_t r = 0; r < 4; ++r) CHECK_EQ(results[r][0], c.sums[r]);
    }
  }
}

TEST(EveryMethodAndOperator) {
  const std::vector<std::pair<CollectiveOperator, float>> operators = {
      {CollectiveOperator::ADD, 64},
      {CollectiveOperator::MUL, 1 * 11 * 21 * 31},
      {CollectiveOperator::MIN, 1},
      {CollectiveOperator::MAX, 31}};
  for (const std::string& mode : kModes) {
    for (const auto& [op, expected] : operators) {
      for (const char* method : {"auto", "broadcast", "clockwise_ring", "anticlockwise_ring",
                                 "bidirectional_ring_pair", "meet_in_middle_ring"}) {
        const auto results = Run(mode, {7}, FourOf(7), [&, o = op](Graph& g, const Tensor& x, Sequence& s) {
          return allReduceCrossReplica(g, x, o, s, CommGroup(), "sum", {{"method", method}});
        });
        for (const Values& result : results) CHECK_EQ(result[1], expected);
      }
    }
  }
}

TEST(SeveralTensorsAtOnce) {
  for (const std::string& mode : kModes) {
    const auto results = Run(mode, {2, 3}, FourOf(6), [](Graph& g, const Tensor& x, Sequence& s) {
      const std::vector<Tensor> sums =
          allReduceCrossReplica(g, {x.transpose(), x[1]}, CollectiveOperator::ADD, s, CommGroup());
      CHECK(sums.size() == 2 && sums[0].shape() == (std::vector<std::size_t>{3, 2}));
      return poplar::concat(sums[0].flatten(), sums[1]);
    });
    for (const Values& result : results) CHECK(result == (Values{60, 72, 64, 76, 68, 80, 72, 76, 80}));
  }
}

TEST(ScatterGatherAndAllToAll) {
  for (const std::string& mode : kModes) {
    // Seven elements, so the last of four parts is padded.
    const auto scattered = Run(mode, {7}, FourOf(7), [](Graph& g, const Tensor& x, Sequence& s) {
      return reduceScatterCrossReplica(g, x, CollectiveOperator::ADD, s, CommGroup());
    });
    for (std::size_t r = 0; r < 4; ++r) CHECK_EQ(scattered[r].size(), 2u);
    CHECK(scattered[0] == (Values{60, 64}) && scattered[3] == (Values{84, 0}));
    const auto gathered = Run(mode, {2}, FourOf(2), [](Graph& g, const Tensor& x, Sequence& s) {
      const Tensor all = allGatherCrossReplica(g, x, s, {CommGroupType::ORTHOGONAL, 2});
      CHECK(all.shape() == (std::vector<std::size_t>{2, 2}));
      return all;
    });
    CHECK(gathered[0] == (Values{0, 1, 20, 21}) && gathered[3] == (Values{10, 11, 30, 31}));
    const auto permuted = Run(mode, {4}, FourOf(4), [](Graph& g, const Tensor& x, Sequence& s) {
      return allToAllCrossReplica(g, x, s, CommGroup());
    });
    CHECK(permuted[1] == (Values{1, 11, 21, 31}));
  }
}

// Parts of columns and transposed matrices are no flat views, but links take elements from wherever they lie.
TEST(StridedPiecesAreNotCopied) {
  struct Case {
    Build build;
    Values second;  // the result of replica 1
  };
  const std::vector<Case> cases = {
      {[](Graph& g, const Tensor& x, Sequence& s) {
         const Tensor parts = x.reshape({3, 4, 2}).dimRoll(1, 0).flatten();
         return reduceScatterCrossReplica(g, parts, CollectiveOperator::ADD, s, CommGroup());
       },
       {68, 72, 100, 104, 132, 136}},
      {[](Graph& g, const Tensor& x, Sequence& s) {
         return allGatherCrossReplica(g, x.transpose().slice(0, 2), s, {CommGroupType::ORTHOGONAL, 2})
             .flatten();
       },
       {10, 18, 26, 11, 19, 27, 30, 38, 46, 31, 39, 47}},
      {[](Graph& g, const Tensor& x, Sequence& s) {
         return allToAllCrossReplica(g, x.reshape({3, 4, 2}).dimRoll(1, 0), s, CommGroup()).slice(0, 1);
       },
       {2, 3, 10, 11, 18, 19}}};
  for (const Case& c : cases) {
    for (const std::string& mode : kModes) {
      const auto results = Run(mode, {3, 8}, FourOf(24), c.build);
      CHECK(results[1] == c.second);
    }
    Graph graph(ipu_model::TargetOfReplicas(kTarget, 4), poplar::replication_factor(4));
    const Tensor x = graph.addVariable(poplar::FLOAT, {3, 8}, "x");
    poputil::mapTensorLinearly(graph, x);
    Sequence main;
    c.build(graph, x, main);
    const ipu_model::Report report = ipu_model::ReportOf(poplar::compileGraph(graph, {main}));
    for (const ipu_model::OperationCost& operation : report.operations)
      CHECK(operation.kind != "poplar::copy");
  }
}

TEST(TheReplicaIndexIsAConstant) {
  for (const std::string& mode : kModes) {
    const auto results = Run(mode, {1}, FourOf(1), [](Graph& g, const Tensor& x, Sequence& s) {
      CHECK_EQ(g.getReplicationFactor(), 4u);
      const Tensor index = g.addReplicationIndexConstant("index");
      g.setTileMapping(index, 3);
      CHECK(index.shape().empty() && index.elementType() == poplar::UNSIGNED_INT && index.containsConstant());
      static_cast<void>(x);
      static_cast<void>(s);
      return index;
    });
    for (std::uint32_t r = 0; r < 4; ++r) {
      std::uint32_t index = 99;
      std::memcpy(&index, results[r].data(), sizeof(index));
      CHECK_EQ(index, r);
    }
  }
}

TEST(WhatIsRefused) {
  const auto reduce = [](CollectiveOperator op, const poplar::Type& type, const CommGroup& group,
                         const poplar::OptionFlags& options = {}) {
    Graph graph(ipu_model::TargetOfReplicas(kTarget, 4), poplar::replication_factor(4));
    const Tensor x = graph.addVariable(type, {8}, "x");
    poputil::mapTensorLinearly(graph, x);
    Sequence s;
    return MessageOf([&] { allReduceCrossReplica(graph, x, op, s, group, "here", options); });
  };
  const CommGroup all;
  CHECK(reduce(CollectiveOperator::ADD, poplar::FLOAT, all).empty());
  CHECK(reduce(CollectiveOperator::MAX, poplar::UNSIGNED_INT, all).empty());
  for (const std::string& message :
       {reduce(CollectiveOperator::ADD, poplar::UNSIGNED_INT, all),
        reduce(CollectiveOperator::ADD, poplar::BOOL, all),
        reduce(CollectiveOperator::LOGICAL_AND, poplar::INT, all),
        reduce(CollectiveOperator::MEAN, poplar::FLOAT, all),
        reduce(CollectiveOperator::ADD, poplar::FLOAT, {CommGroupType::CONSECUTIVE, 3}),
        reduce(CollectiveOperator::ADD, poplar::FLOAT, {CommGroupType::CONSECUTIVE, 2, 3}),
        reduce(CollectiveOperator::ADD, poplar::FLOAT, {CommGroupType::ORTHOGONAL, 0})})
    CHECK(message.find("here: ") == 0);
  CHECK(reduce(CollectiveOperator::ADD, poplar::FLOAT, all, {{"method", "pigeon"}}).find("'pigeon'") !=
        std::string::npos);
  CHECK(!MessageOf([] { Graph(kTarget, poplar::replication_factor(0)); }).empty());
  // A launch with a number of replicas other than the graph's.
  Graph graph(ipu_model::TargetOfReplicas(kTarget, 4), poplar::replication_factor(4));
  const Tensor x = graph.addVariable(poplar::FLOAT, {4}, "x");
  poputil::mapTensorLinearly(graph, x);
  Sequence s;
  s.add(Copy(x, graph.addDeviceToHostFIFO("out", poplar::FLOAT, 4)));
  poplar::Engine engine(graph, s);
  ipu_model::ReplicaGroup three(3);
  CHECK(MessageOf([&] { ipu_model::SetReplica(engine, {&three, 0}); }).find("4 replicas") !=
        std::string::npos);
}

}  // namespace
}  // namespace gcl
