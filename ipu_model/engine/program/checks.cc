#include "engine/program/checks.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/mapping/strides.h"
#include "engine/program/compiled_program.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

class Checker {
 public:
  explicit Checker(const CompiledProgram& program)
      : program_(program), checked_(program.variables.size(), false) {}

  void Check(const View& view, const std::string& user) {
    if (view.variable >= program_.variables.size()) {
      throw poplar::poplar_error(user + " refers to variable " + std::to_string(view.variable) + " of " +
                                 std::to_string(program_.variables.size()));
    }
    if (view.shape.size() > static_cast<std::size_t>(kMaxRank)) {
      throw poplar::poplar_error(user + " uses a view of " + std::to_string(view.shape.size()) +
                                 " dimensions; at most " + std::to_string(kMaxRank) + " are possible");
    }
    if (view.num_elements() == 0) return;
    const Variable& variable = program_.variables[view.variable];
    if (SizeOf(view.type) != SizeOf(variable.type)) {
      throw poplar::poplar_error(user + " reads variable '" + variable.name + "' of type " +
                                 NameOf(variable.type) + " as " + NameOf(view.type) +
                                 ", which is not of the same size");
    }
    std::int64_t min = 0, max = 0;
    ElementRange(view, &min, &max);
    if (min < 0 || max >= variable.num_elements) {
      throw poplar::poplar_error(user + " uses elements " + std::to_string(min) + " to " +
                                 std::to_string(max) + " of variable '" + variable.name + "', which has " +
                                 std::to_string(variable.num_elements));
    }
    if (checked_[view.variable]) return;
    checked_[view.variable] = true;
    CheckMapping(variable, user);
  }

 private:
  [[noreturn]] static void Fail(const Variable& variable, const std::string& user, const std::string& what) {
    throw poplar::invalid_tile_mapping("variable '" + variable.name + "' (" + NameOf(variable.type) + " " +
                                       ShapeString(variable.shape) + "), used by " + user + ": " + what);
  }

  void CheckMapping(const Variable& variable, const std::string& user) {
    const Mapping& mapping = variable.mapping;
    const unsigned num_tiles = program_.target.getNumTiles();
    if (mapping.empty()) {
      Fail(variable, user, "none of its elements is mapped to a tile; call Graph::setTileMapping");
    }
    const Grid* grid = mapping.grid();
    if (grid != nullptr && NumElements(grid->shape) != variable.num_elements) {
      Fail(variable, user,
           "its mapping is for " + std::to_string(NumElements(grid->shape)) + " elements, not " +
               std::to_string(variable.num_elements));
    }
    // A grid covers each element once, on tiles below its own number of tiles.
    if (grid != nullptr && grid->num_tiles <= num_tiles) return;
    std::int64_t next = 0;
    mapping.ForEachInterval(
        0, variable.num_elements, [&](std::int64_t begin, std::int64_t end, unsigned tile) {
          if (begin != next) FailUnmapped(variable, user, next, begin);
          if (tile >= num_tiles) {
            Fail(variable, user,
                 "element " + std::to_string(begin) + " is mapped to tile " + std::to_string(tile) +
                     " of a target with " + std::to_string(num_tiles) + " tiles");
          }
          next = end;
        });
    if (next != variable.num_elements) FailUnmapped(variable, user, next, variable.num_elements);
  }

  [[noreturn]] static void FailUnmapped(const Variable& variable, const std::string& user, std::int64_t begin,
                                        std::int64_t end) {
    Fail(variable, user,
         "elements [" + std::to_string(begin) + ", " + std::to_string(end) + ") are mapped to no tile");
  }

  const CompiledProgram& program_;
  std::vector<bool> checked_;
};

void CheckConstantsNotWritten(const CompiledProgram& program, const std::vector<const ProgramNode*>& nodes) {
  const auto check = [&](const std::vector<View>& views, const std::string& by) {
    for (const View& v : views) {
      const Variable& variable = program.variables[v.variable];
      if (variable.constant != nullptr) {
        throw poplar::control_program_error("'" + by + "' writes the constant '" + variable.name + "'");
      }
    }
  };
  for (const ProgramNode* node : nodes) {
    if (node->kind == ProgramKind::kStreamIn || node->kind == ProgramKind::kWriteUndef)
      check(node->tensor, node->name);
    if (node->operation != nullptr) check(node->operation->outputs, node->operation->name);
  }
}

}  // namespace

void CheckNotRecursive(const CompiledProgram& program) {
  std::vector<std::vector<std::uint32_t>> calls;
  for (const auto& function : program.functions) {
    calls.emplace_back();
    for (const ProgramNode* node : NodesOf({function})) {
      if (node->kind == ProgramKind::kCall) calls.back().push_back(node->function);
    }
  }
  std::vector<int> state(calls.size(), 0);  // 1: on the path, 2: done
  for (std::uint32_t root = 0; root < calls.size(); ++root) {
    std::vector<std::pair<std::uint32_t, std::size_t>> path;
    if (state[root] == 0) path.emplace_back(root, 0);
    while (!path.empty()) {
      auto& [function, next] = path.back();
      state[function] = 1;
      if (next == calls[function].size()) {
        state[function] = 2;
        path.pop_back();
        continue;
      }
      const std::uint32_t callee = calls[function][next++];
      if (state.at(callee) == 1) {
        throw poplar::control_program_error("function " + std::to_string(callee) + " calls itself");
      }
      if (state[callee] == 0) path.emplace_back(callee, 0);
    }
  }
}

void CheckProgram(const CompiledProgram& program) {
  CheckNotRecursive(program);
  Checker checker(program);
  std::vector<std::shared_ptr<const ProgramNode>> roots = program.programs;
  roots.insert(roots.end(), program.functions.begin(), program.functions.end());
  const std::vector<const ProgramNode*> nodes = NodesOf(roots);
  for (const ProgramNode* node : nodes) {
    for (const View& view : node->tensor) checker.Check(view, "program '" + node->name + "'");
    if (node->operation == nullptr) continue;
    const std::string user =
        "operation '" + node->operation->name + "' (" + std::string(node->operation->kind()) + ")";
    for (const View& view : node->operation->inputs) checker.Check(view, user);
    for (const View& view : node->operation->outputs) checker.Check(view, user);
  }
  CheckConstantsNotWritten(program, nodes);
}

}  // namespace ipu_model
