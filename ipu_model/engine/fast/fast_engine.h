// Runs a compiled program on the host: one kernel per operation, over whole tensors.
#ifndef IPU_MODEL_ENGINE_FAST_FAST_ENGINE_H_
#define IPU_MODEL_ENGINE_FAST_FAST_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "core/operation/combining_operation.h"
#include "core/operation/replica_operation.h"
#include "engine/fast/host_plan.h"
#include "engine/fast/loop_code.h"
#include "engine/program/compiled_program.h"
#include "engine/run/cancellation.h"
#include "engine/run/executed_cycles.h"
#include "engine/run/host_functions.h"
#include "engine/run/loop_limit.h"
#include "engine/run/stream_port.h"
#include "kernels/host/bound_kernel.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

// Owns the memory of the variables. Run does not allocate. Not thread safe.
class FastEngine {
 public:
  // `stream_memory_stays`, `streams_in_place`: see MakeHostPlan.
  explicit FastEngine(std::shared_ptr<const CompiledProgram> program, bool stream_memory_stays = false,
                      bool streams_in_place = true);
  FastEngine(const FastEngine&) = delete;
  FastEngine& operator=(const FastEngine&) = delete;

  // Sets the variables that keep their contents between runs to zero, and rewinds the streams.
  void Load();
  // Successive transfers move through [begin, end) and then start over. end == begin + one transfer repeats
  // it.
  void ConnectStream(std::uint32_t stream, void* begin, void* end);
  void ConnectStream(std::uint32_t stream, void* begin);
  // Only for engines without streams in place. The port must outlive the runs that use it.
  void ConnectPort(std::uint32_t stream, StreamPort* port);
  void ConnectHostFunction(const std::string& name, HostCallback callback) {
    host_functions_.Connect(name, std::move(callback));
  }
  HostFunctions& host_functions() { return host_functions_; }
  void SetPrintTensorStream(std::ostream& stream) { print_stream_ = &stream; }
  // Sets the replica as which the next runs take part in collectives.
  void SetReplica(const Replica& replica) { replica_ = replica; }
  void SetCancellation(Cancellation cancellation) { cancellation_ = std::move(cancellation); }
  void SetLoopLimit(double seconds) { loop_limit_.Set(seconds); }  // see LoopLimit::Set
  // `program` is one of the compiled program's. Throws RunCancelled.
  void Run(unsigned program);
  // Returns the cycles of the last run if that was a main program; otherwise 0.
  std::uint64_t last_run_cycles() const { return last_run_cycles_; }
  // What the loops of the last run did, in the order of Report::loops.
  std::vector<LoopRun> last_run_loops() const { return cycles_.runs(last_run_); }

  std::size_t arena_bytes() const { return plan_.arena_bytes; }
  std::size_t state_bytes() const { return plan_.state_bytes; }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  using Memory = std::unique_ptr<unsigned char, Free>;
  static constexpr std::size_t kAlignment = 64;  // of memory that is not in huge pages
  static Memory Allocate(std::size_t alignment, std::size_t bytes);
  struct BoundOperation {
    const Operation* operation;
    std::vector<HostTensor> in, out;
    const ReplicaOperation* between;      // the operation, if all replicas take part in it
    const CombiningOperation* combining;  // the operation, if parts of it can run by themselves
    std::unique_ptr<BoundKernel> bound;   // runs instead of the operation, if there is one
    bool moved = true;                    // whether tensors moved after `bound` was pointed to them
  };
  // The data of one worker that runs bands, on its own cache lines: the operations' tensors, cut to the band.
  struct alignas(64) BandWorker {
    Scratch scratch;
    std::vector<std::vector<HostTensor>> in, out;
    Memory local;  // for one band
  };
  struct BandMemory {
    std::vector<BandWorker> workers;
    Memory partials;  // partial results of all bands
  };
  struct BoundTransfer {
    std::uint32_t stream;
    std::vector<HostTensor> tensor, packed;  // `packed` is the host side; its data is set for every transfer
  };
  struct BoundPredicate {
    void* data;
    DType type;
  };
  struct StreamState {
    unsigned char *begin = nullptr, *end = nullptr, *cursor = nullptr;
    std::size_t bytes = 0;
    bool connected = false;
    StreamPort* port = nullptr;  // of a callback
    // The pointers to variables in the stream's memory, and the operations that have such variables.
    struct Pointer {
      void** address;
      std::ptrdiff_t offset;
    };
    std::vector<Pointer> pointers;
    std::vector<std::uint32_t> operations;
  };

  HostTensor Resolve(const View& view) const;
  // If the view's variable is in the memory of a stream, *address is updated whenever that memory moves.
  void Follow(const View& view, void** address);
  void CheckConnected(unsigned program) const;
  void Point(StreamState* stream, unsigned char* memory);
  void Bind();
  // Replaces loops of small operations by machine code.
  void Compile();
  CodeAddress AddressOf(const View& view) const;
  static void Advance(StreamState* stream);
  std::int64_t Read(std::uint32_t predicate) const;
  void Transfer(HostContext& context, BoundTransfer& transfer, bool in);
  void Print(const ProgramNode& node);
  void MakeBandMemory(const BandGroup& group);
  // Returns the first band's partial results of one output.
  HostTensor Partial(const BandMemory& memory, const BandedOperation& banded, std::size_t output) const;
  void RunBands(HostContext& context, std::uint32_t group);
  void RunBand(const BandGroup& group, const BandMemory& memory, std::size_t i, std::int64_t band,
               BandWorker* worker) const;
  void Execute(unsigned program);
  // Runs an instruction that is not control flow.
  void Perform(HostContext& context, const HostInstruction& in);
  void RunLoop(const LoopCode& loop);
  void PointBound(BoundOperation& bound);

  std::shared_ptr<const CompiledProgram> program_;
  HostPlan plan_;
  Memory arena_;
  std::vector<BoundOperation> operations_;
  std::vector<BandMemory> band_memory_;  // by group
  std::vector<BoundTransfer> transfers_;
  std::vector<BoundPredicate> predicates_;
  std::vector<std::vector<HostTensor>> prints_;
  std::vector<std::uint64_t> counters_;
  ExecutedCycles cycles_;
  LoopLimit loop_limit_;
  HostFunctions host_functions_;
  unsigned last_run_ = 0;
  std::uint64_t last_run_cycles_ = 0;
  std::vector<std::uint32_t> return_slots_;
  std::vector<StreamState> streams_;
  std::uint32_t unconnected_ = 0;
  bool moving_streams_ = false;  // whether a stream has memory for more than one transfer
  Scratch scratch_, bound_scratch_;
  unsigned char* bound_memory_ = nullptr;  // scratch memory that the bound kernels share
  std::vector<LoopCode> loops_;
  std::vector<unsigned char*> code_bases_;  // the table that code addresses refer to
  std::exception_ptr code_error_;           // what ended a loop's code
  Replica replica_;
  Cancellation cancellation_;
  std::ostream* print_stream_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_FAST_FAST_ENGINE_H_
