// For tests: small operations on s32 tensors whose vertices, exchange and cycles can be counted by hand.
#ifndef IPU_MODEL_TESTING_TOY_OPERATIONS_H_
#define IPU_MODEL_TESTING_TOY_OPERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/mapping/strides.h"
#include "core/operation/serialise.h"
#include "engine/program/compiled_program.h"
#include "engine/program/run_lengths.h"

namespace ipu_model::toy {

// An operation that only has a plan.
class Toy : public Operation {
 public:
  using Planner = std::function<TilePlan(const Toy&, const DeviceContext&)>;
  Toy(std::string_view kind, std::vector<View> in, std::vector<View> out, Planner planner)
      : kind_(kind), planner_(std::move(planner)) {
    inputs = std::move(in);
    outputs = std::move(out);
    name = std::string(kind);
  }
  std::string_view kind() const override { return kind_; }
  void Write(Writer& writer) const override { writer.Write(reinterpret_cast<std::intptr_t>(this)); }
  bool OperandsFit(unsigned /*num_tiles*/) const override { return true; }
  void Run(HostContext&, const std::vector<HostTensor>&, const std::vector<HostTensor>&) const override {}
  TilePlan Plan(const DeviceContext& context) const override { return planner_(*this, context); }
  double flops() const override {
    return outputs.empty() ? 0 : static_cast<double>(outputs[0].num_elements());
  }

 private:
  std::string kind_;
  Planner planner_;
};

inline Box Same(const Box& box) { return box; }
constexpr auto kInput = OperandRef::Kind::kInput;
constexpr auto kOutput = OperandRef::Kind::kOutput;
constexpr auto kTemporary = OperandRef::Kind::kTemporary;

// out = sum of the inputs, computed on the tiles of the output. 10 + elements cycles; 100 bytes of code; 16
// bytes of state per vertex.
inline VertexGroup AddGroup(const Operation& operation, std::vector<Vertex> vertices) {
  VertexGroup group;
  group.codelet = "Add";
  group.vertices = std::move(vertices);
  for (unsigned i = 0; i < operation.inputs.size(); ++i) group.reads.push_back({{kInput, i}, Same, true});
  group.writes.push_back({{kOutput, 0}, Same, true});
  group.compute = [](HostContext&, const Box& box, const std::vector<HostTensor>& reads,
                     const std::vector<HostTensor>& writes) {
    for (std::int64_t i = 0; i < box.num_elements(); ++i) {
      std::int32_t sum = 0;
      for (const HostTensor& t : reads) sum += t.as<std::int32_t>()[i];
      writes[0].as<std::int32_t>()[i] = sum;
    }
  };
  group.cycles = [](const TargetModel&, const Box& box) {
    return static_cast<std::uint64_t>(10 + box.num_elements());
  };
  group.code_bytes = 100;
  group.vertex_bytes = 16;
  return group;
}

inline std::unique_ptr<Operation> Add(std::vector<View> in, View out) {
  return std::make_unique<Toy>(
      "toy::add", std::move(in), std::vector<View>{std::move(out)},
      [](const Toy& op, const DeviceContext& context) {
        const View& view = op.outputs[0];
        TilePlan plan;
        plan.supersteps.emplace_back();
        plan.supersteps[0].groups.push_back(
            AddGroup(op, context.mapping(view.variable).VerticesOver(view, context.num_tiles())));
        return plan;
      });
}

// Scalar out = sum of a vector: one partial sum on each of `parts` tiles, then one vertex on tile 0. Cycles:
// the number of elements that a vertex reads.
inline std::unique_ptr<Operation> Sum(View in, View out, std::int64_t parts) {
  return std::make_unique<Toy>(
      "toy::sum", std::vector<View>{std::move(in)}, std::vector<View>{std::move(out)},
      [parts](const Toy& op, const DeviceContext& context) {
        const std::int64_t n = op.inputs[0].shape.at(0);
        const Grid split = Grid::Of({n}, {parts}, context.num_tiles());
        const Grid partials = Grid::Of({parts}, {parts}, context.num_tiles());
        const auto sum = [](HostContext&, const Box&, const std::vector<HostTensor>& reads,
                            const std::vector<HostTensor>& writes) {
          std::int32_t total = 0;
          for (std::int64_t i = 0; i < reads[0].num_elements(); ++i) total += reads[0].as<std::int32_t>()[i];
          writes[0].as<std::int32_t>()[0] = total;
        };
        TilePlan plan;
        plan.temporaries.push_back({DType::kS32, partials});
        VertexGroup first;
        first.codelet = "Partial";
        first.vertices = split.Vertices();
        first.reads.push_back({{kInput, 0}, Same});
        first.writes.push_back({{kTemporary, 0}, [split](const Box& box) {
                                  const std::int64_t part = split.PartOf(0, box.begin[0]);
                                  return Box{{part}, {part + 1}};
                                }});
        first.compute = sum;
        first.cycles = [](const TargetModel&, const Box& box) {
          return static_cast<std::uint64_t>(box.num_elements());
        };
        first.code_bytes = 40;
        first.vertex_bytes = 8;
        VertexGroup second;
        second.codelet = "Final";
        second.vertices = {{0, Box{}}};
        second.reads.push_back({{kTemporary, 0}, [parts](const Box&) { return Box{{0}, {parts}}; }});
        second.writes.push_back({{kOutput, 0}, [](const Box&) { return Box{}; }});
        second.compute = sum;
        second.cycles = [parts](const TargetModel&, const Box&) { return static_cast<std::uint64_t>(parts); };
        second.code_bytes = 60;
        second.vertex_bytes = 8;
        plan.supersteps.push_back({{first}});
        plan.supersteps.push_back({{second}});
        return plan;
      });
}

// A program under construction.
class Builder {
 public:
  explicit Builder(unsigned num_tiles, const std::string& architecture = "ipu2")
      : program(
            std::make_shared<CompiledProgram>(poplar::Target::createIPUTarget(1, num_tiles, architecture))) {}

  View Add(const std::string& name, const Shape& shape, Mapping mapping) {
    Variable variable;
    variable.type = DType::kS32;
    variable.num_elements = NumElements(shape);
    variable.shape = shape;
    variable.name = name;
    variable.mapping = std::move(mapping);
    program->variables.push_back(std::move(variable));
    View view;
    view.variable = static_cast<VariableId>(program->variables.size() - 1);
    view.type = DType::kS32;
    view.shape = shape;
    view.strides = RowMajorStrides(shape);
    return view;
  }
  // Returns a view of a new variable on `parts` tiles, from tile 0 on.
  View Split(const std::string& name, std::int64_t n, std::int64_t parts) {
    return Add(name, {n}, Mapping(Grid::Of({n}, {parts}, program->target.getNumTiles())));
  }
  View Constant(const std::string& name, const std::vector<std::int32_t>& values, unsigned tile) {
    const auto n = static_cast<std::int64_t>(values.size());
    const View view = Add(name, {n}, Mapping(std::vector<MappedInterval>{{0, n, tile}}));
    const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
    program->variables.back().constant = std::make_shared<const std::vector<unsigned char>>(
        bytes, bytes + values.size() * sizeof(std::int32_t));
    return view;
  }
  static std::shared_ptr<ProgramNode> Node(ProgramKind kind,
                                           std::vector<std::shared_ptr<ProgramNode>> children = {},
                                           std::vector<View> tensor = {}) {
    auto node = std::make_shared<ProgramNode>();
    node->kind = kind;
    node->children = std::move(children);
    node->tensor = std::move(tensor);
    return node;
  }
  static std::shared_ptr<ProgramNode> Do(std::unique_ptr<Operation> operation) {
    auto node = Node(ProgramKind::kOperation);
    node->operation = std::move(operation);
    node->name = node->operation->name;
    return node;
  }
  static std::shared_ptr<ProgramNode> Repeat(std::uint64_t count, std::shared_ptr<ProgramNode> body) {
    auto node = Node(ProgramKind::kRepeat, {std::move(body)});
    node->count = count;
    return node;
  }
  std::shared_ptr<ProgramNode> Transfer(const std::string& name, const View& view, bool in) {
    program->streams.push_back({name, view.type, view.num_elements(), in});
    auto node = Node(in ? ProgramKind::kStreamIn : ProgramKind::kStreamOut, {}, {view});
    node->stream = static_cast<std::uint32_t>(program->streams.size() - 1);
    return node;
  }
  void Main(std::vector<std::shared_ptr<ProgramNode>> children) {
    program->programs.push_back(Node(ProgramKind::kSequence, std::move(children)));
  }

  std::shared_ptr<CompiledProgram> program;
};

// while (n) { n -= 1; body }: an Add and a decision in the condition, an Add and `body` in the body.
inline std::shared_ptr<ProgramNode> Countdown(Builder& b, const View& n,
                                              std::vector<std::shared_ptr<ProgramNode>> body) {
  const View copy = b.Split("copy", 1, 1), minus = b.Constant("minus", {-1}, 0);
  body.insert(body.begin(), Builder::Do(Add({n, minus}, n)));
  return Builder::Node(ProgramKind::kRepeatWhileTrue,
                       {Builder::Do(Add({n}, copy)), Builder::Node(ProgramKind::kSequence, std::move(body))},
                       {copy});
}

// The values of a list of run lengths.
inline std::vector<std::int64_t> Expanded(const RunLengths& runs) {
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i + 1 < runs.size(); i += 2)
    values.insert(values.end(), static_cast<std::size_t>(runs[i + 1]), runs[i]);
  return values;
}

}  // namespace ipu_model::toy

#endif  // IPU_MODEL_TESTING_TOY_OPERATIONS_H_
