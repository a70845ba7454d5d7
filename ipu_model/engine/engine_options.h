// The options of poplar::Engine.
#ifndef IPU_MODEL_ENGINE_ENGINE_OPTIONS_H_
#define IPU_MODEL_ENGINE_ENGINE_OPTIONS_H_

#include <string>

#include "engine/report/blocks.h"
#include "poplar/OptionFlags.hpp"

namespace ipu_model {

struct EngineOptions {
  bool tile = false;                 // execution = tile
  bool stream_memory_stays = false;  // see MakeHostPlan
  bool one_replica = false;          // the caller has an engine for each replica
  bool prefetch = false;             // callbacks may prefetch
  bool allow_out_of_memory = false;  // a program that does not fit is compiled, for its profile
  double vertex_seconds = 10;
  // What is written to `report_folder`/profile.pop.
  bool graph_profile = false, execution_profile = false;
  std::string report_folder = ".";
  unsigned profiled_runs = 2;
  BlockOptions blocks;
};

// The options, and those of the environment variable POPLAR_ENGINE_OPTIONS, which come first. Throws
// poplar::invalid_option for a name that Poplar and the model do not have, and for a value that does not
// fit.
EngineOptions ReadEngineOptions(const poplar::OptionFlags& options);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_ENGINE_OPTIONS_H_
