// Which steps of a program use the tiles for input and output.
#ifndef IPU_MODEL_ENGINE_PROGRAM_IO_TILES_H_
#define IPU_MODEL_ENGINE_PROGRAM_IO_TILES_H_

#include <algorithm>
#include <vector>

#include "engine/program/compiled_program.h"

namespace ipu_model {

class IoTiles {
 public:
  explicit IoTiles(const CompiledProgram& program) {
    if (program.io_tiles == 0) return;
    const unsigned first = program.target.getNumTiles() - program.io_tiles;
    for (const Variable& variable : program.variables) {
      const std::int64_t n = variable.num_elements;
      on_them_.push_back(n > 0 && variable.mapping.IntervalAt(0).tile >= first &&
                         variable.mapping.IntervalAt(n - 1).tile >= first);
    }
  }

  // Whether a transfer of these views goes on while other tiles compute.
  bool Hold(const std::vector<View>& views) const {
    return !on_them_.empty() && !views.empty() &&
           std::all_of(views.begin(), views.end(),
                       [&](const View& view) { return on_them_.at(view.variable); });
  }
  // Whether an operation waits for the transfers.
  bool AreUsedBy(const Operation& operation) const {
    if (on_them_.empty()) return false;
    const auto on = [&](const View& view) { return on_them_.at(view.variable); };
    return std::any_of(operation.inputs.begin(), operation.inputs.end(), on) ||
           std::any_of(operation.outputs.begin(), operation.outputs.end(), on);
  }

 private:
  std::vector<bool> on_them_;  // by variable; empty without such tiles
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_PROGRAM_IO_TILES_H_
