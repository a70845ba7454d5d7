// An operation is what one PopLibs call adds to a program. It is defined by the vertices of its supersteps.
// The fast engine runs it as one kernel over whole tensors; the tile engine runs every vertex on its own, on
// the data that the exchange delivered; the compiler computes its cost.
#ifndef IPU_MODEL_CORE_OPERATION_OPERATION_H_
#define IPU_MODEL_CORE_OPERATION_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/mapping/box.h"
#include "core/mapping/mapping.h"
#include "core/operation/local_copy.h"
#include "kernels/host/bound_kernel.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

class Writer;  // see core/operation/serialise.h
class Reader;
struct TargetModel;  // see core/target/target_model.h: the hardware numbers of one architecture

// The properties of the graph that an operation may use when it plans its vertices.
class DeviceContext {
 public:
  virtual ~DeviceContext() = default;
  virtual const TargetModel& target() const = 0;
  virtual unsigned num_tiles() const = 0;  // that operations may choose
  virtual unsigned all_tiles() const = 0;  // with those for input and output, which have higher numbers
  virtual const Mapping& mapping(VariableId variable) const = 0;
};

// The tensor that a vertex operand refers to.
struct OperandRef {
  enum class Kind { kInput, kOutput, kTemporary } kind;
  unsigned index;
};

// A tensor that is only live between supersteps of one operation, such as partial sums.
struct Temporary {
  DType type;
  Grid placement;  // placement.shape is the tensor's shape
};

// One codelet, its operands, and the vertices, with the part of the iteration space that each computes.
struct VertexGroup {
  std::string codelet;  // e.g. "poplin::ConvPartial1x1<half,float>"
  std::vector<Vertex> vertices;
  // region(box) returns the part of the operand (over its view's shape) that a vertex on `box` reads or
  // writes.
  struct Access {
    OperandRef tensor;
    std::function<Box(const Box&)> region;
    bool identity = false;  // whether region(box) == box, so that analyses need not call it
    // For a region that the vertex reads as pieces of memory: what its tile, which has `held` of the
    // `elements` and receives the others, copies to them. Empty where every row may lie anywhere.
    std::function<LocalCopy(const Box& box, std::int64_t elements, std::int64_t held)> arranged = {};
  };
  std::vector<Access> reads, writes;
  // Computes one vertex on dense, row-major local copies of its regions. Must write every element of every
  // written region. A region that is only partly updated must also be read: it is then in `reads`, and the
  // codelet copies it.
  std::function<void(HostContext&, const Box&, const std::vector<HostTensor>& reads,
                     const std::vector<HostTensor>& writes)>
      compute;
  // Returns the tile cycles of one vertex (all six workers together).
  std::function<std::uint64_t(const TargetModel&, const Box&)> cycles;
  // If set, all boxes of a tile are one vertex. Returns its cycles on several; those on one are `cycles`.
  std::function<std::uint64_t(const TargetModel&, const std::vector<const Box*>&)> cycles_of_boxes;
  std::uint64_t call_cycles = 0;   // once per tile and superstep for all vertices of this codelet
  std::uint64_t code_bytes = 0;    // of the codelet, once per tile with a vertex
  std::uint64_t vertex_bytes = 0;  // of the state of one vertex
  // Whether the exchange puts what is read where it is written, so that it needs no buffer.
  bool is_copy = false;
};

// A superstep: exchange, then compute, then sync. All reads happen before all writes.
struct Superstep {
  std::vector<VertexGroup> groups;
  // Whether it is a later trip of a loop, which has its code and vertices from an earlier superstep.
  bool later_trip = false;
};

// The supersteps [begin, end) run `trips` times, as they are: what differs between trips is in the data.
struct StepLoop {
  std::size_t begin = 0, end = 0;
  std::uint64_t trips = 1;
};

struct TilePlan {
  std::vector<Temporary> temporaries;
  std::vector<Superstep> supersteps;
  std::vector<StepLoop> loops;  // disjoint, in order

  // Calls f with the numbers of the supersteps as they run.
  template <typename F>
  void ForEachRun(F&& f) const {
    auto loop = loops.begin();
    for (std::size_t s = 0; s < supersteps.size();) {
      const bool loops_here = loop != loops.end() && loop->begin == s;
      const std::size_t end = loops_here ? loop->end : s + 1;
      for (std::uint64_t trip = 0; trip < (loops_here ? loop->trips : 1); ++trip) {
        for (std::size_t i = s; i < end; ++i) f(i);
      }
      if (loops_here) ++loop;
      s = end;
    }
  }
};

class Operation {
 public:
  virtual ~Operation() = default;

  // The key in the registry and the name in reports, for example "popops::map".
  virtual std::string_view kind() const = 0;
  // Writes the attributes. The core writes operands and names.
  virtual void Write(Writer& writer) const = 0;
  // Whether operands and attributes fit together on a target with this number of tiles, so that no method
  // accesses data outside an operand. The first call after an operation is read from a file; may throw.
  virtual bool OperandsFit(unsigned num_tiles) const = 0;

  // Called once per engine before the first Run, to choose kernels and compile expressions. Must not read
  // data.
  virtual void Prepare() {}
  // Runs the whole operation on whole tensors (fast engine). Must be deterministic. `in` and `out` are
  // parallel to inputs and outputs. An output view may be exactly an input view only if CanAlias allows it.
  virtual void Run(HostContext& context, const std::vector<HostTensor>& in,
                   const std::vector<HostTensor>& out) const = 0;
  // Binds Run to tensors of these shapes and strides; returns null if that gains nothing. Tensors without
  // data get their addresses later.
  virtual std::unique_ptr<BoundKernel> Bind(const std::vector<HostTensor>& /*in*/,
                                            const std::vector<HostTensor>& /*out*/) const {
    return nullptr;
  }
  // Returns the operation's vertices on the device.
  virtual TilePlan Plan(const DeviceContext& context) const = 0;

  virtual double flops() const { return 0; }
  // Whether output i may be stored exactly over input j without changing the result.
  virtual bool CanAlias(unsigned /*output*/, unsigned /*input*/) const { return false; }

  // Whether the whole operation is as efficient for outputs with any other order of elements in memory.
  virtual bool AnyOutputOrder() const { return false; }
  // Whether it is also for outputs with elements of others between theirs.
  virtual bool AnyOutputStrides() const { return false; }
  // Whether the operation can run on bands of the first output along its dimension `d`. Returns, for the
  // inputs and then the outputs, the dimension that corresponds to the band, or -1 for an operand that every
  // band reads whole. Returns an empty vector if the operation cannot run on bands.
  virtual std::vector<int> BandDimensions(int /*d*/) const { return {}; }

  std::vector<View> inputs, outputs;
  std::string name;   // debug name: the user's source location and operation
  std::string scope;  // what the framework calls it: "jit(f)/dense/dot_general"
};

using OperationReader = std::unique_ptr<Operation> (*)(Reader&);

// Maps operation kinds to readers, for deserialisation. The one table is in operations/registry.cc.
const std::map<std::string, OperationReader, std::less<>>& OperationRegistry();

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_OPERATION_OPERATION_H_
