// The operation behind program::Execute: one superstep of explicit vertices.
#ifndef IPU_MODEL_CORE_PROGRAM_EXECUTE_H_
#define IPU_MODEL_CORE_PROGRAM_EXECUTE_H_

#include <memory>
#include <string_view>
#include <vector>

#include "core/operation/operation.h"
#include "core/vertices/vertex_program.h"

namespace ipu_model {

struct ComputeSetData;  // core/graph/compute_set.h
class GraphImpl;        // core/graph/graph_impl.h

// Runs the vertices on all workers, each in its own state, which lasts until Reset. An edge whose elements
// lie together refers to them where they are; for other edges the elements are gathered and scattered.
class ExecuteKernel : public BoundKernel {
 public:
  explicit ExecuteKernel(std::shared_ptr<const VertexProgram> program);
  std::size_t scratch_bytes() const override { return 0; }
  void Point(const HostTensor* in, const HostTensor* out, unsigned char* scratch) override;
  // Throws poplar::runtime_error that names the vertex which was ended.
  void Run() const override;
  // The state before the first run.
  void Reset() { instances_.Reset(); }

 private:
  struct Move {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  std::string RunRange(std::size_t begin, std::size_t end, double seconds, std::size_t* failed) const;
  // All of them in a helper process.
  std::string RunInHelper(double seconds, std::size_t* failed) const;

  std::shared_ptr<const VertexProgram> program_;
  mutable VertexInstances instances_;  // a run changes the state of its vertices
  std::size_t bytes_ = 0;              // of all edges
  std::unique_ptr<unsigned char, void (*)(void*)> buffers_;
  std::size_t buffer_bytes_ = 0;
  std::vector<Move> gathers_, scatters_;
  std::vector<std::size_t> first_gather_, first_scatter_;  // by vertex, and the end
};

class Execute : public Operation {
 public:
  explicit Execute(std::shared_ptr<const ComputeSetData> set) : set_(std::move(set)) {}
  explicit Execute(VertexProgram program)
      : program_(std::make_shared<const VertexProgram>(std::move(program))) {}

  // Sets operands and vertices from the compute set as it is now.
  void Resolve(GraphImpl* graph);
  // For an operation that was read: sets the code of the vertices. Throws SerialiseError.
  void Attach(const std::vector<std::shared_ptr<const CodeletLibrary>>& libraries);
  const VertexProgram* program() const { return program_.get(); }
  const ComputeSetData* set() const { return set_.get(); }  // null for an operation that was read

  std::string_view kind() const override { return "poplar::execute"; }
  void Write(Writer& writer) const override;
  bool OperandsFit(unsigned num_tiles) const override;
  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override;
  std::unique_ptr<BoundKernel> Bind(const std::vector<HostTensor>& in,
                                    const std::vector<HostTensor>& out) const override;
  TilePlan Plan(const DeviceContext& context) const override;
  double flops() const override;

 private:
  std::shared_ptr<const ComputeSetData> set_;  // null for an operation that was read
  std::shared_ptr<const VertexProgram> program_;
};

std::unique_ptr<Operation> ReadExecute(Reader& reader);

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_PROGRAM_EXECUTE_H_
