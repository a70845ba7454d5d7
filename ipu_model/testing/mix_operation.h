// An operation on s32 vectors with a real kernel, and programs of it without mappings, for tests of the fast
// engine.
#ifndef IPU_MODEL_TESTING_MIX_OPERATION_H_
#define IPU_MODEL_TESTING_MIX_OPERATION_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "check.h"
#include "core/graph/graph_impl.h"
#include "engine/program/compiled_program.h"
#include "poplar/Graph.hpp"

namespace ipu_model::toy {

// out[i] = in0[i] * 3 + in1[i] + 1 on s32 vectors, computed in the order of i.
class Mix : public Operation {
 public:
  explicit Mix(bool in_place) : in_place_(in_place) {}
  std::string_view kind() const override { return "test::mix"; }
  void Write(Writer&) const override {}
  bool OperandsFit(unsigned /*num_tiles*/) const override { return true; }
  void Run(HostContext&, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    const std::int64_t n = out[0].num_elements();
    // If the operation may not run in place, it overwrites its output before it has read all inputs.
    if (!in_place_) {
      for (std::int64_t i = 0; i < n; ++i) out[0].as<std::int32_t>()[i * out[0].strides[0]] = -1;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      out[0].as<std::int32_t>()[i * out[0].strides[0]] = static_cast<std::int32_t>(
          static_cast<std::uint32_t>(in[0].as<std::int32_t>()[i * in[0].strides[0]]) * 3u +
          static_cast<std::uint32_t>(in[1].as<std::int32_t>()[i * in[1].strides[0]]) + 1u);
    }
  }
  bool AnyOutputOrder() const override { return true; }
  bool AnyOutputStrides() const override { return true; }
  std::vector<int> BandDimensions(int d) const override { return {d, d, d}; }
  TilePlan Plan(const DeviceContext&) const override { return {}; }
  bool CanAlias(unsigned, unsigned) const override { return in_place_; }

 private:
  bool in_place_;
};

inline View ViewOf(const poplar::Tensor& tensor) {
  View view;
  CHECK(tensor.asView(&view));
  return view;
}

inline void AddMix(poplar::program::Sequence* prog, const poplar::Tensor& a, const poplar::Tensor& b,
                   const poplar::Tensor& out, bool in_place) {
  auto mix = std::make_unique<Mix>(in_place);
  mix->inputs = {ViewOf(a), ViewOf(b)};
  mix->outputs = {ViewOf(out)};
  AddOperation(*prog, std::move(mix));
}

// Compiles without mappings and analysis: the fast engine needs neither.
inline std::shared_ptr<CompiledProgram> Compile(const poplar::Graph& graph,
                                                const std::vector<poplar::program::Program>& programs) {
  auto compiled = std::make_shared<CompiledProgram>(graph.getTarget());
  compiled->variables = graph.impl().variables;
  compiled->streams = graph.impl().streams;
  for (const poplar::program::Program& p : programs) compiled->programs.push_back(p.node());
  for (const poplar::program::Program& f : graph.impl().functions) compiled->functions.push_back(f.node());
  return compiled;
}

}  // namespace ipu_model::toy

#endif  // IPU_MODEL_TESTING_MIX_OPERATION_H_
