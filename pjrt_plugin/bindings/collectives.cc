// Python: collectives between the replicas of a graph.
#include "hlo/Collectives.hpp"

#include "pjrt_plugin/bindings/bindings.h"

namespace jax_ipu::bindings {
namespace {

using ipu_model::Expression;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;
using Groups = hlo::ReplicaGroups;

Tensor ReplicaIndex(Graph& graph, Sequence& sequence, const std::string& name) {
  return hlo::replicaIndex(graph, sequence, name);
}

Tensor AllGather(Graph& graph, const Tensor& data, std::size_t dimension, const Groups& groups,
                 Sequence& sequence, const std::string& name) {
  return hlo::allGather(graph, data, dimension, groups, sequence, name);
}

Tensor AllToAll(Graph& graph, const Tensor& data, std::size_t split_dimension, std::size_t concat_dimension,
                const Groups& groups, Sequence& sequence, const std::string& name) {
  return hlo::allToAll(graph, data, split_dimension, concat_dimension, groups, sequence, name);
}

Tensor AllReduce(Graph& graph, const Tensor& data, const Groups& groups, const Expression& body,
                 Sequence& sequence, const std::string& name) {
  return hlo::allReduce(graph, data, groups, body, sequence, name);
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
  module.def("replica_index", ReplicaIndex, nb::arg("graph"), nb::arg("seq"), nb::arg("name") = "");
  module.def("all_gather", AllGather, nb::arg("graph"), nb::arg("data"), nb::arg("dimension"),
             nb::arg("groups"), nb::arg("seq"), nb::arg("name") = "");
  module.def("all_to_all", AllToAll, nb::arg("graph"), nb::arg("data"), nb::arg("split_dimension"),
             nb::arg("concat_dimension"), nb::arg("groups"), nb::arg("seq"), nb::arg("name") = "");
  module.def("all_reduce", AllReduce, nb::arg("graph"), nb::arg("data"), nb::arg("groups"), nb::arg("body"),
             nb::arg("seq"), nb::arg("name") = "");
  module.def("reduce_scatter", ReduceScatter, nb::arg("graph"), nb::arg("data"), nb::arg("dimension"),
             nb::arg("groups"), nb::arg("body"), nb::arg("seq"), nb::arg("name") = "");
  module.def("collective_permute", Permute, nb::arg("graph"), nb::arg("data"), nb::arg("sources"),
             nb::arg("seq"), nb::arg("name") = "");
  module.def("collective_broadcast", Broadcast, nb::arg("graph"), nb::arg("data"), nb::arg("groups"),
             nb::arg("seq"), nb::arg("name") = "");
}

}  // namespace jax_ipu::bindings
