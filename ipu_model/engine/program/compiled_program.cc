// The parts of a compiled program that engines and analyses look up.
#include "engine/program/compiled_program.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "poplar/exceptions.hpp"

namespace ipu_model {

void CompiledProgram::Prepare() const {
  std::call_once(prepared_, [this] {
    std::vector<std::shared_ptr<const ProgramNode>> roots = programs;
    roots.insert(roots.end(), functions.begin(), functions.end());
    for (const ProgramNode* node : NodesOf(roots)) {
      if (node->operation != nullptr) node->operation->Prepare();
    }
  });
}

const Report* CompiledProgram::report_of(unsigned program) const {
  if (program == 0) return &report;
  for (const FurtherMain& main : further_mains) {
    if (main.program == program) return &main.report;
  }
  return nullptr;
}

const Stream& CompiledProgram::StreamNamed(std::string_view name, std::uint32_t* index) const {
  for (std::uint32_t i = 0; i < streams.size(); ++i) {
    if (streams[i].name != name) continue;
    *index = i;
    return streams[i];
  }
  std::string known;
  for (const Stream& s : streams) known += (known.empty() ? "" : ", ") + s.name;
  throw poplar::stream_connection_error("there is no stream '" + std::string(name) +
                                        "'; the executable has: " + (known.empty() ? "none" : known));
}

std::vector<const ProgramNode*> NodesOf(const std::vector<std::shared_ptr<const ProgramNode>>& roots) {
  std::vector<const ProgramNode*> order;
  std::unordered_map<const ProgramNode*, bool> done;  // false: on the path from the root
  std::vector<std::pair<const ProgramNode*, std::size_t>> path;
  for (const auto& root : roots) {
    if (done.emplace(root.get(), false).second) path.emplace_back(root.get(), 0);
    while (!path.empty()) {
      auto& [node, next] = path.back();
      if (next == node->children.size()) {
        done[node] = true;
        order.push_back(node);
        path.pop_back();
        continue;
      }
      const ProgramNode* child = node->children[next++].get();
      const auto [it, added] = done.emplace(child, false);
      if (added) {
        path.emplace_back(child, 0);
      } else if (!it->second) {
        throw poplar::control_program_error("the program '" + child->name + "' contains itself");
      }
    }
  }
  return order;
}

}  // namespace ipu_model
