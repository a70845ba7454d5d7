// Runs a program as the device does: every vertex alone, on what the exchange delivered from tile memories
// that hold only the elements mapped there. Proves mappings, regions and exchange by execution.
#ifndef IPU_MODEL_ENGINE_TILE_ENGINE_H_
#define IPU_MODEL_ENGINE_TILE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>

#include "engine/cancellation.h"
#include "engine/host_functions.h"
#include "kernels/collectives/replicas.h"

namespace ipu_model {

// Same results as the fast engine: exactly, except for the order of floating-point sums. Not thread safe.
class TileEngine {
 public:
  explicit TileEngine(std::shared_ptr<const CompiledProgram> program);
  ~TileEngine();

  // Zeroes the variables, writes the constants, rewinds the streams.
  void Load();
  // Successive transfers move through [begin, end) and then start over; end == begin + one transfer repeats.
  void ConnectStream(std::uint32_t stream, void* begin, void* end);
  void ConnectHostFunction(const std::string& name, HostCallback callback);
  void SetPrintTensorStream(std::ostream& stream);
  // As which replica the next runs take part in exchanges.
  void SetReplica(const Replica& replica);
  void SetCancellation(Cancellation cancellation);
  // Throws RunCancelled, and poplar::poplar_error that names operation, tile and element when two
  // vertices of a superstep write one element, an element has no tile, or a vertex reaches outside its
  // tensor.
  void Run(unsigned program);
  // Of the last run of the main program; 0 after a run of another one.
  std::uint64_t last_run_cycles() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_TILE_ENGINE_H_
