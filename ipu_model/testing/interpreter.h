// A plain interpreter of the program tree, to which tests compare engines: every variable has its own memory.
#ifndef IPU_MODEL_TESTING_INTERPRETER_H_
#define IPU_MODEL_TESTING_INTERPRETER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "core/graph/graph_impl.h"
#include "engine/program/compiled_program.h"

namespace ipu_model::toy {

// Of programs of copies and of the operation of mix_operation.h, on s32.
class Interpreter {
 public:
  explicit Interpreter(const CompiledProgram& program) : program_(program) {
    for (const ipu_model::Variable& v : program.variables) {
      memory_.emplace_back(static_cast<std::size_t>(v.num_elements), 0);
      if (v.constant) std::memcpy(memory_.back().data(), v.constant->data(), v.constant->size());
    }
  }
  std::map<std::uint32_t, std::vector<std::int32_t>> streams;

  void Run(unsigned program) { Node(*program_.programs[program]); }

 private:
  std::vector<std::int32_t*> Elements(const std::vector<View>& views) {
    std::vector<std::int32_t*> elements;
    for (const View& v : views) {
      for (std::int64_t i = 0; i < v.num_elements(); ++i) {
        std::int64_t rest = i, at = v.offset;
        for (std::size_t d = v.shape.size(); d-- > 0;) {
          at += rest % v.shape[d] * v.strides[d];
          rest /= v.shape[d];
        }
        elements.push_back(&memory_[v.variable][static_cast<std::size_t>(at)]);
      }
    }
    return elements;
  }
  void Node(const ProgramNode& node) {
    const auto elements = Elements(node.tensor);
    switch (node.kind) {
      case ProgramKind::kSequence:
        for (const auto& child : node.children) Node(*child);
        break;
      case ProgramKind::kOperation: {
        std::vector<std::vector<std::int32_t>> in;
        for (const View& v : node.operation->inputs) {
          in.emplace_back();
          for (const std::int32_t* e : Elements({v})) in.back().push_back(*e);
        }
        for (std::size_t o = 0; o < node.operation->outputs.size(); ++o) {
          const auto out = Elements({node.operation->outputs[o]});
          for (std::size_t i = 0; i < out.size(); ++i) {
            *out[i] = node.operation->kind() == "poplar::copy"
                          ? in[o][i]
                          : static_cast<std::int32_t>(static_cast<std::uint32_t>(in[0][i]) * 3u +
                                                      static_cast<std::uint32_t>(in[1][i]) + 1u);
          }
        }
        break;
      }
      case ProgramKind::kStreamIn:
        for (std::size_t i = 0; i < elements.size(); ++i) *elements[i] = streams[node.stream][i];
        break;
      case ProgramKind::kStreamOut:
        streams[node.stream].clear();
        for (const std::int32_t* e : elements) streams[node.stream].push_back(*e);
        break;
      case ProgramKind::kRepeat:
        for (std::uint64_t i = 0; i < node.count; ++i) Node(*node.children[0]);
        break;
      case ProgramKind::kRepeatWhileTrue:
      case ProgramKind::kRepeatWhileFalse:
        while (true) {
          Node(*node.children[0]);
          if ((*elements[0] != 0) != (node.kind == ProgramKind::kRepeatWhileTrue)) break;
          Node(*node.children[1]);
        }
        break;
      case ProgramKind::kIf:
        Node(*node.children[*elements[0] != 0 ? 0 : 1]);
        break;
      case ProgramKind::kSwitch: {
        const auto found = std::find(node.cases.begin(), node.cases.end(), *elements[0]);
        Node(*node.children[static_cast<std::size_t>(found - node.cases.begin())]);
        break;
      }
      case ProgramKind::kCall:
        Node(*program_.functions[node.function]);
        break;
      default:
        break;
    }
  }

  const CompiledProgram& program_;
  std::vector<std::vector<std::int32_t>> memory_;
};

}  // namespace ipu_model::toy

#endif  // IPU_MODEL_TESTING_INTERPRETER_H_
