// Runs a program as the device does: every vertex on its own, on the data that the exchange delivered from
// tile memories, which hold only the elements that are mapped there. Proves mappings, regions and exchange by
// execution.
#ifndef IPU_MODEL_ENGINE_TILE_TILE_ENGINE_H_
#define IPU_MODEL_ENGINE_TILE_TILE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "engine/run/cancellation.h"
#include "engine/run/host_functions.h"
#include "engine/run/stream_port.h"
#include "hlo/Expansion.hpp"
#include "ipu_model/Timeline.hpp"
#include "kernels/collectives/replicas.h"

namespace ipu_model {

// Gives the same results as the fast engine, exactly, except for the order of floating-point sums. Not thread
// safe.
class TileEngine {
 public:
  explicit TileEngine(std::shared_ptr<const CompiledProgram> program);
  ~TileEngine();

  // Sets the variables to zero, writes the constants and rewinds the streams.
  void Load();
  // Successive transfers move through [begin, end) and then start over. end == begin + one transfer repeats
  // it.
  void ConnectStream(std::uint32_t stream, void* begin, void* end);
  void ConnectStream(std::uint32_t stream, void* begin);
  // The port must outlive the runs that use it.
  void ConnectPort(std::uint32_t stream, StreamPort* port);
  HostFunctions& host_functions();
  void ConnectHostFunction(const std::string& name, HostCallback callback);
  void SetPrintTensorStream(std::ostream& stream);
  // Sets the replica as which the next runs take part in collectives.
  void SetReplica(const Replica& replica);
  void SetCancellation(Cancellation cancellation);
  void SetLoopLimit(double seconds);  // see LoopLimit::Set
  // See hlo/Expansion.hpp.
  void RunExpansions(const hlo::Expansions& library);
  ExpandedKinds kinds() const;
  // Throws RunCancelled, and poplar::poplar_error that names operation, tile and element when two
  // vertices of a superstep write one element, an element has no tile, or a vertex reaches outside its
  // tensor.
  void Run(unsigned program);
  // Returns the cycles of the last run if that was a main program; otherwise 0.
  std::uint64_t last_run_cycles() const;
  // What the loops of the last run did, in the order of Report::loops.
  std::vector<LoopRun> last_run_loops() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_TILE_TILE_ENGINE_H_
