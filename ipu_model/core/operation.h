// An operation is what one PopLibs call adds to a program. It *means* the vertices of its supersteps; the
// fast engine runs it as one kernel over whole tensors, the tile engine runs every vertex alone on what the
// exchange delivered, and the compiler costs it.
#ifndef IPU_MODEL_CORE_OPERATION_H_
#define IPU_MODEL_CORE_OPERATION_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/box.h"
#include "core/mapping.h"
#include "kernels/host/bound_kernel.h"
#include "kernels/host/context.h"
#include "kernels/host/host_tensor.h"

namespace ipu_model {

class Writer;  // core/serialise.h: Write(int64/double/string/Shape/Expression/View/Partition/bytes...)
class Reader;
struct TargetModel;  // core/target_model.h: the hardware numbers of one architecture

// What an operation may ask about the graph when it lays out its vertices.
class DeviceContext {
 public:
  virtual ~DeviceContext() = default;
  virtual const TargetModel& target() const = 0;
  virtual unsigned num_tiles() const = 0;
  virtual const Mapping& mapping(VariableId variable) const = 0;
};

// Which tensor a vertex operand refers to.
struct OperandRef {
  enum class Kind { kInput, kOutput, kTemporary } kind;
  unsigned index;
};

// A tensor that lives only between the supersteps of one operation (partial sums, ...).
struct Temporary {
  DType type;
  Partition placement;  // placement.shape is the shape
};

// One codelet, its operands, and the partition that says which slice each tile works on.
struct VertexGroup {
  std::string codelet;  // e.g. "poplin::ConvPartial1x1<half,float>"
  std::vector<Vertex> vertices;
  // region(box) is the part of operand i (over its view's shape) that a vertex working on `box` reads or
  // writes.
  struct Access {
    OperandRef tensor;
    std::function<Box(const Box&)> region;
    bool identity = false;  // region(box) == box: the analysis then need not call it
  };
  std::vector<Access> reads, writes;
  // One vertex, on local dense row-major copies of its regions. Writes every element of every written region
  // (a region that is only partly updated must also be read: then it arrives in `reads` and is copied by the
  // codelet).
  std::function<void(HostContext&, const Box&, const std::vector<HostTensor>& reads,
                     const std::vector<HostTensor>& writes)>
      compute;
  // Tile cycles of one vertex (all six workers together), from figures/facts.
  std::function<std::uint64_t(const TargetModel&, const Box&)> cycles;
  std::uint64_t code_bytes = 0;    // of the codelet, once per tile that has a vertex
  std::uint64_t vertex_bytes = 0;  // of the state of one vertex
};

// exchange, then compute, then sync. All reads happen before all writes.
struct Superstep {
  std::vector<VertexGroup> groups;
};

struct DevicePlan {
  std::vector<Temporary> temporaries;
  std::vector<Superstep> supersteps;
};

class Operation {
 public:
  virtual ~Operation() = default;

  // Registry key and what reports print, e.g. "popops::map".
  virtual std::string_view kind() const = 0;
  // The attributes; operands and names are written by the core.
  virtual void Write(Writer& writer) const = 0;

  // Once per engine before the first Run: choose kernels, compile expressions. Must not look at data.
  virtual void Prepare() {}
  // The whole operation on whole tensors (fast engine). Deterministic. in/out parallel to inputs/outputs.
  // An output view may be exactly an input view only where the operation says so (in_place()).
  virtual void Run(HostContext& context, const std::vector<HostTensor>& in,
                   const std::vector<HostTensor>& out) const = 0;
  // What Run does with tensors of these shapes and strides, bound; null when that gains nothing. Tensors
  // without data get theirs later.
  virtual std::unique_ptr<BoundKernel> Bind(const std::vector<HostTensor>& /*in*/,
                                            const std::vector<HostTensor>& /*out*/) const {
    return nullptr;
  }
  // Its vertices on the device.
  virtual DevicePlan Plan(const DeviceContext& context) const = 0;

  virtual double flops() const { return 0; }
  // True when output i may be stored exactly over input j without changing the result.
  virtual bool CanAlias(unsigned /*output*/, unsigned /*input*/) const { return false; }

  // Whether the whole operation does as well with outputs whose elements lie in another order in memory.
  virtual bool AnyOutputOrder() const { return false; }
  // Whether the operation can run on bands of the first output along its dimension `d`: for inputs, then
  // outputs, the dimension whose positions go with those of the band, -1 for an operand that every band reads
  // whole. Empty: it cannot.
  virtual std::vector<int> BandDimensions(int /*d*/) const { return {}; }

  std::vector<View> inputs, outputs;
  std::string name;  // debug name: the user's source location and op
};

using OperationReader = std::unique_ptr<Operation> (*)(Reader&);

// kind -> reader, for deserialisation. One table, filled in operations/registry.cc.
const std::map<std::string, OperationReader, std::less<>>& OperationRegistry();

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_OPERATION_H_
