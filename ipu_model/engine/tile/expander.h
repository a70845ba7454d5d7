// Operations as programs of vertices: what the library hlo makes of them, when the tile engine meets them.
#ifndef IPU_MODEL_ENGINE_TILE_EXPANDER_H_
#define IPU_MODEL_ENGINE_TILE_EXPANDER_H_

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/program/compiled_program.h"
#include "hlo/Expansion.hpp"

namespace ipu_model {

class Expander {
 public:
  Expander(const CompiledProgram& program, const hlo::Expansions& library);

  // The expansion of an operation of the program, made by the first call for it; null if it has none. Throws
  // hlo::NotExpanded that names the operation.
  const ProgramNode* ProgramOf(const Operation& operation);
  // The program's variables, then those of the expansions.
  const std::vector<Variable>& variables() const { return graph_.impl().variables; }
  ExpandedKinds kinds() const;

 private:
  const hlo::Expansions& library_;
  poplar::Graph graph_;
  std::unordered_map<const Operation*, poplar::program::Sequence> programs_;
  std::set<std::string> expanded_, others_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_TILE_EXPANDER_H_
