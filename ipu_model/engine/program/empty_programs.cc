#include "engine/program/empty_programs.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/program/execute.h"
#include "engine/program/compiled_program.h"

namespace ipu_model {
namespace {

bool DoesNothing(const Operation& operation) {
  if (const auto* execute = dynamic_cast<const Execute*>(&operation))
    return execute->program()->vertices.empty();
  // An operation that has no results by its kind is there for another reason.
  if (operation.outputs.empty()) return operation.kind() == "poplar::copy";
  return std::all_of(operation.outputs.begin(), operation.outputs.end(),
                     [](const View& view) { return view.num_elements() == 0; });
}

}  // namespace

void DropEmptyPrograms(const std::vector<std::vector<std::shared_ptr<const ProgramNode>>*>& roots) {
  std::vector<std::shared_ptr<const ProgramNode>> all;
  for (const auto* group : roots) all.insert(all.end(), group->begin(), group->end());
  // By node that changes: what takes its place; null for one that does nothing.
  std::unordered_map<const ProgramNode*, std::shared_ptr<ProgramNode>> changed;
  for (const ProgramNode* node : NodesOf(all)) {  // children first
    if (node->operation != nullptr && DoesNothing(*node->operation)) {
      changed.emplace(node, nullptr);
      continue;
    }
    if (std::none_of(node->children.begin(), node->children.end(),
                     [&](const auto& child) { return changed.count(child.get()) != 0; })) {
      continue;
    }
    auto copy = std::make_shared<ProgramNode>(*node);
    copy->children.clear();
    for (const std::shared_ptr<ProgramNode>& child : node->children) {
      const auto found = changed.find(child.get());
      if (found == changed.end()) {
        copy->children.push_back(child);
      } else if (found->second != nullptr) {
        copy->children.push_back(found->second);
      } else if (node->kind != ProgramKind::kSequence) {
        copy->children.push_back(std::make_shared<ProgramNode>());  // a sequence of nothing
      }
    }
    changed.emplace(node, std::move(copy));
  }
  for (auto* group : roots) {
    for (std::shared_ptr<const ProgramNode>& root : *group) {
      const auto found = changed.find(root.get());
      if (found == changed.end()) continue;
      root = found->second != nullptr ? found->second : std::make_shared<ProgramNode>();
    }
  }
}

}  // namespace ipu_model
