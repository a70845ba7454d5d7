// For tests: runs the operations of a sequence, whole and vertex by vertex, on separate buffers. Checks the
// rules for vertices: regions are inside their tensors, and every element of a result is written exactly
// once.
#ifndef IPU_MODEL_TESTING_PLAN_RUNNER_H_
#define IPU_MODEL_TESTING_PLAN_RUNNER_H_

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "core/graph/graph_impl.h"
#include "core/program/program_node.h"
#include "core/target/target_model.h"
#include "kernels/copy/strided_copy.h"
#include "kernels/host/dense_tensor.h"
#include "poplar/Graph.hpp"
#include "poputil/TileMapping.hpp"

namespace ipu_model {

using Bytes = std::vector<unsigned char>;

inline std::vector<std::size_t> Extents(const Shape& shape) { return {shape.begin(), shape.end()}; }

// Returns a variable that is mapped linearly, element by element.
inline poplar::Tensor MappedVariable(poplar::Graph& graph, DType type, const Shape& shape) {
  const poplar::Tensor t = graph.addVariable(poplar::Type(type), Extents(shape), "variable");
  poputil::mapTensorLinearly(graph, t, 1, 1);
  return t;
}

class PlanRunner : public DeviceContext {
 public:
  // `bytes_per_tile`: 0 means the target's.
  PlanRunner(poplar::Graph& graph, unsigned bytes_per_tile)
      : graph_(graph), target_(graph.getTarget().model()), context_{ThreadPool::Global(), scratch_} {
    if (bytes_per_tile > 0) target_.bytes_per_tile = bytes_per_tile;
    for (const Variable& v : graph.impl().variables) {
      memory_.emplace_back(static_cast<std::size_t>(v.num_elements) * SizeOf(v.type) + 1, 0xcd);
      if (v.constant) std::memcpy(memory_.back().data(), v.constant->data(), v.constant->size());
    }
  }

  const TargetModel& target() const override { return target_; }
  unsigned num_tiles() const override { return graph_.getTarget().getNumTiles(); }
  unsigned all_tiles() const override { return num_tiles(); }
  const Mapping& mapping(VariableId id) const override { return graph_.impl().variables[id].mapping; }

  HostTensor TensorOf(const View& view) {
    HostTensor t;
    t.data = memory_[view.variable].data() + view.offset * static_cast<std::int64_t>(SizeOf(view.type));
    t.type = view.type;
    t.rank = static_cast<int>(view.shape.size());
    for (int d = 0; d < t.rank; ++d) {
      t.shape[d] = view.shape[static_cast<std::size_t>(d)];
      t.strides[d] = view.strides[static_cast<std::size_t>(d)];
    }
    return t;
  }

  void Store(const poplar::Tensor& tensor, const void* values) {
    View view;
    CHECK(tensor.asView(&view));
    CopyTensor(context_, Dense(view.type, view.shape, const_cast<void*>(values)), TensorOf(view));
  }
  Bytes Load(const poplar::Tensor& tensor) {
    View view;
    CHECK(tensor.asView(&view));
    Bytes bytes(static_cast<std::size_t>(view.num_elements()) * SizeOf(view.type));
    CopyTensor(context_, TensorOf(view), Dense(view.type, view.shape, bytes.data()));
    return bytes;
  }

  void RunWhole(const poplar::program::Sequence& prog) {
    ForEach(*prog.node(), [&](Operation& op) {
      std::vector<HostTensor> in, out;
      for (const View& v : op.inputs) in.push_back(TensorOf(v));
      for (const View& v : op.outputs) out.push_back(TensorOf(v));
      op.Prepare();
      scratch_.Reset();
      op.Run(context_, in, out);
    });
  }

  void RunVertices(const poplar::program::Sequence& prog) {
    ForEach(*prog.node(), [&](Operation& op) { RunPlan(op); });
  }

  std::size_t supersteps() const { return supersteps_; }
  std::uint64_t cycles() const { return cycles_; }

 private:
  template <typename F>
  static void ForEach(const ProgramNode& node, F&& f) {
    if (node.kind == ProgramKind::kOperation) f(*node.operation);
    for (const auto& child : node.children) ForEach(*child, f);
  }

  static HostTensor Dense(DType type, const Shape& shape, void* data) {
    HostTensor t;
    t.data = data;
    t.type = type;
    t.rank = static_cast<int>(shape.size());
    std::copy(shape.begin(), shape.end(), t.shape);
    SetDenseStrides(&t);
    return t;
  }

  struct Local {
    Bytes bytes;
    HostTensor tensor, whole;  // the local copy, and the region that it is a copy of
    View view;
  };

  void RunPlan(const Operation& op) {
    const TilePlan plan = op.Plan(*this);
    std::vector<Bytes> temporaries;
    for (const Temporary& t : plan.temporaries) {
      temporaries.emplace_back(static_cast<std::size_t>(NumElements(t.placement.shape)) * SizeOf(t.type) + 1,
                               0xab);
    }
    const auto local = [&](const VertexGroup::Access& access, const Box& box) {
      Local l;
      HostTensor whole;
      if (access.tensor.kind == OperandRef::Kind::kTemporary) {
        const Temporary& t = plan.temporaries[access.tensor.index];
        whole = Dense(t.type, t.placement.shape, temporaries[access.tensor.index].data());
      } else {
        whole = TensorOf(access.tensor.kind == OperandRef::Kind::kInput ? op.inputs[access.tensor.index]
                                                                        : op.outputs[access.tensor.index]);
      }
      const Box region = access.region(box);
      CHECK_EQ(static_cast<int>(region.begin.size()), whole.rank);
      CHECK_EQ(static_cast<int>(region.end.size()), whole.rank);
      const Shape extents = region.extents();
      for (std::size_t d = 0; d < extents.size(); ++d) {
        CHECK(region.begin[d] >= 0 && region.begin[d] <= region.end[d] && region.end[d] <= whole.shape[d]);
      }
      l.bytes.assign(static_cast<std::size_t>(NumElements(extents)) * SizeOf(whole.type) + 1, 0xef);
      l.tensor = Dense(whole.type, extents, l.bytes.data());
      l.whole = SubTensor(whole, region.begin.data(), extents.data());
      return l;
    };
    plan.ForEachRun([&](std::size_t number) {
      const Superstep& step = plan.supersteps[number];
      ++supersteps_;
      struct Work {
        const VertexGroup* group;
        const Box* box;
        std::vector<Local> reads, writes;
      };
      std::vector<Work> works;
      for (const VertexGroup& group : step.groups) {
        for (const Vertex& vertex : group.vertices) {
          CHECK(vertex.tile < num_tiles());
          if (group.cycles) cycles_ += group.cycles(target_, vertex.box);
          Work work{&group, &vertex.box, {}, {}};
          for (const auto& access : group.reads) {
            work.reads.push_back(local(access, vertex.box));
            CopyTensor(context_, work.reads.back().whole, work.reads.back().tensor);
          }
          for (const auto& access : group.writes) work.writes.push_back(local(access, vertex.box));
          works.push_back(std::move(work));
        }
      }
      for (Work& work : works) {
        std::vector<HostTensor> reads, writes;
        for (Local& l : work.reads) reads.push_back(l.tensor);
        for (Local& l : work.writes) writes.push_back(l.tensor);
        scratch_.Reset();
        work.group->compute(context_, *work.box, reads, writes);
      }
      for (Work& work : works) {
        for (Local& l : work.writes) CopyTensor(context_, l.tensor, l.whole);
      }
      // If a second vertex had written the same element, the comparison would fail.
      for (Work& work : works) {
        for (Local& l : work.writes) {
          Bytes back(l.bytes.size(), 0xef);
          HostTensor copy = l.tensor;
          copy.data = back.data();
          CopyTensor(context_, l.whole, copy);
          CHECK(back == l.bytes);
        }
      }
    });
  }

  poplar::Graph& graph_;
  TargetModel target_;
  Scratch scratch_;
  HostContext context_;
  std::vector<Bytes> memory_;
  std::size_t supersteps_ = 0;
  std::uint64_t cycles_ = 0;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_TESTING_PLAN_RUNNER_H_
