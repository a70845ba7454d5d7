// Python: collectives between the replicas of a graph.
#include "gcl/Collectives.hpp"

#include <stdexcept>
#include <unordered_map>

#include "bindings/bindings.h"
#include "hlo/Collectives.hpp"

namespace jax_ipu::bindings {
namespace {

using gcl::CollectiveOperator;
using gcl::CommGroup;
using gcl::CommGroupType;
using hlo::Expression;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;
using Groups = hlo::ReplicaGroups;
using Tensors = std::vector<Tensor>;

template <typename T>
T Named(const std::unordered_map<std::string, T>& table, const std::string& name) {
  const auto found = table.find(name);
  if (found == table.end()) throw std::invalid_argument("GCL has no '" + name + "'");
  return found->second;
}

CommGroupType GroupTypeNamed(const std::string& name) {
  static const std::unordered_map<std::string, CommGroupType> types = {
      {"ALL", CommGroupType::ALL},
      {"CONSECUTIVE", CommGroupType::CONSECUTIVE},
      {"ORTHOGONAL", CommGroupType::ORTHOGONAL}};
  return Named(types, name);
}

CollectiveOperator OperatorNamed(const std::string& name) {
  static const std::unordered_map<std::string, CollectiveOperator> operators = {
      {"ADD", CollectiveOperator::ADD},
      {"MEAN", CollectiveOperator::MEAN},
      {"MUL", CollectiveOperator::MUL},
      {"MIN", CollectiveOperator::MIN},
      {"MAX", CollectiveOperator::MAX},
      {"LOGICAL_AND", CollectiveOperator::LOGICAL_AND},
      {"LOGICAL_OR", CollectiveOperator::LOGICAL_OR},
      {"SQUARE_ADD", CollectiveOperator::SQUARE_ADD},
      {"LOCAL", CollectiveOperator::LOCAL}};
  return Named(operators, name);
}

Tensors AllReduceCrossReplica(Graph& graph, const Tensors& datas, const std::string& op, Sequence& sequence,
                              const CommGroup& group, const std::string& name, const std::string& method) {
  return gcl::allReduceCrossReplica(graph, datas, OperatorNamed(op), sequence, group, name,
                                    {{"method", method}});
}

Tensor ReduceScatterCrossReplica(Graph& graph, const Tensor& data, const std::string& op, Sequence& sequence,
                                 const CommGroup& group, const std::string& name) {
  return gcl::reduceScatterCrossReplica(graph, data, OperatorNamed(op), sequence, group, name);
}

Tensor AllGatherCrossReplica(Graph& graph, const Tensor& data, Sequence& sequence, const CommGroup& group,
                             const std::string& name) {
  return gcl::allGatherCrossReplica(graph, data, sequence, group, name);
}

Tensor AllToAllCrossReplica(Graph& graph, const Tensor& data, Sequence& sequence, const CommGroup& group,
                            const std::string& name) {
  return gcl::allToAllCrossReplica(graph, data, sequence, group, name);
}

Tensor AllGather(Graph& graph, const Tensor& data, std::size_t dimension, const Groups& groups,
                 Sequence& sequence, const std::string& name) {
  return hlo::allGather(graph, data, dimension, groups, sequence, name);
}

Tensor AllToAll(Graph& graph, const Tensor& data, std::size_t split_dimension, std::size_t concat_dimension,
                const Groups& groups, Sequence& sequence, const std::string& name) {
  return hlo::allToAll(graph, data, split_dimension, concat_dimension, groups, sequence, name);
}

Tensors AllReduce(Graph& graph, const Tensors& datas, const Groups& groups, const Expression& body,
                  Sequence& sequence, const std::string& name) {
  return hlo::allReduce(graph, datas, groups, body, sequence, name);
}

Tensor ReduceScatter(Graph& graph, const Tensor& data, std::size_t dimension, const Groups& groups,
                     const Expression& body, Sequence& sequence, const std::string& name) {
  return hlo::reduceScatter(graph, data, dimension, groups, body, sequence, name);
}

Tensor Permute(Graph& graph, const Tensor& data, const std::vector<int>& sources, Sequence& sequence,
               const std::string& name) {
  return hlo::permute(graph, data, sources, sequence, name);
}

Tensor Broadcast(Graph& graph, const Tensor& data, const Groups& groups, Sequence& sequence,
                 const std::string& name) {
  return hlo::broadcast(graph, data, groups, sequence, name);
}

}  // namespace

void BindCollectives(nb::module_& module) {
  nb::class_<CommGroup>(module, "CommGroup")
      .def(
          "__init__",
          [](CommGroup* self, const std::string& type, unsigned size, unsigned stride) {
            new (self) CommGroup(GroupTypeNamed(type), size, stride);
          },
          nb::arg("type"), nb::arg("size") = 0, nb::arg("stride") = 1);
  module.def("all_reduce_cross_replica", AllReduceCrossReplica, nb::arg("graph"), nb::arg("datas"),
             nb::arg("op"), nb::arg("seq"), nb::arg("group"), nb::arg("name") = "",
             nb::arg("method") = "auto");
  module.def("reduce_scatter_cross_replica", ReduceScatterCrossReplica, nb::arg("graph"), nb::arg("data"),
             nb::arg("op"), nb::arg("seq"), nb::arg("group"), nb::arg("name") = "");
  module.def("all_gather_cross_replica", AllGatherCrossReplica, nb::arg("graph"), nb::arg("data"),
             nb::arg("seq"), nb::arg("group"), nb::arg("name") = "");
  module.def("all_to_all_cross_replica", AllToAllCrossReplica, nb::arg("graph"), nb::arg("data"),
             nb::arg("seq"), nb::arg("group"), nb::arg("name") = "");
  module.def("all_gather", AllGather, nb::arg("graph"), nb::arg("data"), nb::arg("dimension"),
             nb::arg("groups"), nb::arg("seq"), nb::arg("name") = "");
  module.def("all_to_all", AllToAll, nb::arg("graph"), nb::arg("data"), nb::arg("split_dimension"),
             nb::arg("concat_dimension"), nb::arg("groups"), nb::arg("seq"), nb::arg("name") = "");
  module.def("all_reduce", AllReduce, nb::arg("graph"), nb::arg("datas"), nb::arg("groups"), nb::arg("body"),
             nb::arg("seq"), nb::arg("name") = "");
  module.def("reduce_scatter", ReduceScatter, nb::arg("graph"), nb::arg("data"), nb::arg("dimension"),
             nb::arg("groups"), nb::arg("body"), nb::arg("seq"), nb::arg("name") = "");
  module.def("collective_permute", Permute, nb::arg("graph"), nb::arg("data"), nb::arg("sources"),
             nb::arg("seq"), nb::arg("name") = "");
  module.def("collective_broadcast", Broadcast, nb::arg("graph"), nb::arg("data"), nb::arg("groups"),
             nb::arg("seq"), nb::arg("name") = "");
}

}  // namespace jax_ipu::bindings
