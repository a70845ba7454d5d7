// Reads profiles: profile.pop, which engines write with the option autoReport.all, and what Engine::getReport
// returns. The files are the model's own; those of Graphcore's SDK have another format. Bytes are per tile or
// per IPU as the names say, cycles are tile clock cycles. Source: Graphcore's documentation of the PopVision
// Analysis Library (libpva).
#ifndef PVA_PVA_HPP
#define PVA_PVA_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ipu_model {
struct ProfileFile;  // engine/report/profile_file.h
}

namespace pva {

using Data = std::shared_ptr<const ipu_model::ProfileFile>;  // internal

class PoplarVersion {
 public:
  explicit PoplarVersion(std::string text) : text_(std::move(text)) {}
  // Of the model.
  std::string string() const { return text_; }

 private:
  std::string text_;
};

class Graph {
 public:
  explicit Graph(Data data) : data_(std::move(data)) {}
  // Supersteps of library functions count as compute sets.
  std::size_t numComputeSets() const;
  std::size_t numVertices() const;
  std::size_t numEdges() const;
  std::size_t numVars() const;

 private:
  Data data_;
};

class Target {
 public:
  explicit Target(Data data) : data_(std::move(data)) {}
  std::string architecture() const;
  std::size_t numIPUs() const;
  std::size_t tilesPerIpu() const;
  std::size_t numTiles() const;
  std::size_t numReplicas() const;
  std::size_t bytesPerTile() const;
  std::size_t bytesPerIPU() const;
  std::size_t totalMemory() const;
  double clockFrequency() const;  // Hz

 private:
  Data data_;
};

class VertexType {
 public:
  explicit VertexType(std::string name) : name_(std::move(name)) {}
  std::string name() const { return name_; }

 private:
  std::string name_;
};

class VertexInstance {
 public:
  VertexInstance(VertexType type, std::size_t tile) : type_(std::move(type)), tile_(tile) {}
  VertexType type() const { return type_; }
  std::size_t tile() const { return tile_; }

 private:
  VertexType type_;
  std::size_t tile_;
};

// A compute set of the graph; each superstep of a library function is one.
class ComputeSet {
 public:
  ComputeSet(Data data, std::size_t index) : data_(std::move(data)), index_(index) {}
  std::string name() const;
  std::vector<VertexInstance> vertices() const;

 private:
  Data data_;
  std::size_t index_;
};

class Memory {
 public:
  explicit Memory(std::uint64_t bytes) : bytes_(bytes) {}
  std::uint64_t excludingGaps() const { return bytes_; }

 private:
  std::uint64_t bytes_;
};

// The model has no interleaved elements, no overlaps and no gaps.
class MemoryRegion {
 public:
  explicit MemoryRegion(std::uint64_t bytes) : bytes_(bytes) {}
  std::uint64_t nonOverlapped() const { return bytes_; }
  std::uint64_t overlapped() const { return 0; }

 private:
  std::uint64_t bytes_;
};
class MemoryCategory {
 public:
  explicit MemoryCategory(std::uint64_t bytes) : bytes_(bytes) {}
  MemoryRegion nonInterleaved() const { return MemoryRegion(bytes_); }
  MemoryRegion interleaved() const { return MemoryRegion(0); }
  MemoryRegion overflowed() const { return MemoryRegion(0); }
  std::uint64_t total() const { return bytes_; }

 private:
  std::uint64_t bytes_;
};
// Bytes by what they are for, on a tile. All that vertices have of fields, descriptors and lists is
// vertexInstanceState.
class MemoryCategories {
 public:
  MemoryCategories(std::uint64_t exchange_code, std::uint64_t vertex_state)
      : exchange_code_(exchange_code), vertex_state_(vertex_state) {}
  MemoryCategory internalExchangeCode() const { return MemoryCategory(exchange_code_); }
  MemoryCategory vertexInstanceState() const { return MemoryCategory(vertex_state_); }
  MemoryCategory copyDescriptor() const { return MemoryCategory(0); }
  MemoryCategory vectorListDescriptor() const { return MemoryCategory(0); }
  MemoryCategory vertexFieldData() const { return MemoryCategory(0); }

 private:
  std::uint64_t exchange_code_, vertex_state_;
};

class TileMemory {
 public:
  TileMemory(Data data, std::size_t tile) : data_(std::move(data)), tile_(tile) {}
  // At the tile's fullest moment.
  Memory total() const;
  // Those on the tile, of all compute sets.
  std::vector<VertexInstance> vertices() const;
  MemoryCategories category() const;

 private:
  Data data_;
  std::size_t tile_;
};

class Tile {
 public:
  Tile(Data data, std::size_t id) : data_(std::move(data)), id_(id) {}
  std::size_t id() const { return id_; }
  std::size_t ipu() const;
  TileMemory memory() const;

 private:
  Data data_;
  std::size_t id_;
};

class Var {
 public:
  Var(Data data, std::size_t index) : data_(std::move(data)), index_(index) {}
  std::string name() const;
  std::uint64_t bytes() const;  // on all tiles

 private:
  Data data_;
  std::size_t index_;
};

class ProgramVisitor;

// A part of the program.
class Program {
 public:
  // Those of libpva that the model has.
  enum class Type {
    OnTileExecute,
    DoExchange,
    Sequence,
    Repeat,  // loops of any kind
    Sync,    // of a loop, a conditional or an abort: the predicate goes to all tiles
    HostFunction,
    StreamCopyBegin,
    StreamCopyMid,
    StreamCopyEnd,
    Overflow,  // blocks that are not recorded
    Unknown,
  };
  Program(std::string name, std::string type) : name_(std::move(name)), type_(std::move(type)) {}
  // Of a compute set: its exchange, or its vertices.
  Program(Data data, std::size_t set, bool exchange);
  std::string name() const { return name_; }
  Type type() const;
  // So that both program().name() and program()->name() work.
  const Program* operator->() const { return this; }
  // Calls the visitor's function for this kind of program.
  void accept(ProgramVisitor& visitor) const;

 protected:
  std::vector<Var> VarsOf(const std::vector<std::int64_t>& variables) const;
  Data data_;  // null if it is no compute set
  std::size_t set_ = 0;

 private:
  std::string name_, type_;
  bool exchange_ = false;
};

// The vertices of a compute set, or of a copy within tiles.
class OnTileExecuteProgram : public Program {
 public:
  OnTileExecuteProgram(Data data, std::size_t set) : Program(std::move(data), set, false) {}
  ComputeSet computeset() const { return {data_, set_}; }
  std::vector<Var> vars() const;  // that the vertices read and write
};

// Tiles receive what a compute set reads.
class DoExchangeProgram : public Program {
 public:
  DoExchangeProgram(Data data, std::size_t set) : Program(std::move(data), set, true) {}
  std::vector<Var> vars() const;  // with elements that are received
};

// Derived classes do what they want with the kinds of programs that they know.
class ProgramVisitor {
 public:
  virtual ~ProgramVisitor() = default;
  virtual void visitOnTileExecute(const OnTileExecuteProgram& /*program*/) {}
  virtual void visitDoExchange(const DoExchangeProgram& /*program*/) {}
};

class CompilationReport {
 public:
  explicit CompilationReport(Data data) : data_(std::move(data)) {}
  Graph graph() const { return Graph(data_); }
  Target target() const { return Target(data_); }
  std::vector<Tile> tiles() const;
  std::vector<ComputeSet> computeSets() const;
  // Those of all compute sets, in no order, after their exchanges; other parts are in Report::execution.
  std::vector<Program> programs() const;

 private:
  Data data_;
};

struct Cycles {
  std::uint64_t compute = 0, exchange = 0, sync = 0;
  std::uint64_t total() const { return compute + exchange + sync; }
};

// A compute set of a step.
class ComputeSetExecution {
 public:
  ComputeSetExecution(std::string name, std::vector<std::uint64_t> cycles)
      : name_(std::move(name)), cycles_(std::move(cycles)) {}
  std::string name() const { return name_; }
  // Of one execution. The model has no other cycles than estimates.
  const std::vector<std::uint64_t>& cyclesByTile() const { return cycles_; }
  const std::vector<std::uint64_t>& estimatedCyclesByTile() const { return cycles_; }

 private:
  std::string name_;
  std::vector<std::uint64_t> cycles_;
};

class ExecutionStep {
 public:
  ExecutionStep(Data data, std::size_t run, std::size_t step)
      : data_(std::move(data)), run_(run), step_(step) {}
  Program program() const;
  std::uint64_t executions() const;
  Cycles cycles() const;  // of all executions
  std::vector<ComputeSetExecution> computeSets() const;

 private:
  Data data_;
  std::size_t run_, step_;
};

class Run {
 public:
  Run(Data data, std::size_t index) : data_(std::move(data)), index_(index) {}
  std::string name() const;
  std::uint64_t cycles() const;
  double microseconds() const;
  std::vector<ExecutionStep> steps() const;

 private:
  Data data_;
  std::size_t index_;
};

// One execution of a block (Engine option profiler.blocks.filter or profiler.programs.filter), or a phase of
// a transfer (debug.instrumentExternalExchange). Cycles count from the first run and include those that wait
// for the host.
class BlockExecution {
 public:
  BlockExecution(Data data, std::size_t run, std::size_t block, std::uint64_t run_begin)
      : data_(std::move(data)), run_(run), block_(block), run_begin_(run_begin) {}
  std::shared_ptr<Program> program() const;
  std::size_t tile() const;
  std::uint64_t cyclesFrom() const;
  std::uint64_t cyclesTo() const;
  bool isStreamCopy() const;
  bool isOverflow() const;  // a time in which the buffer was full, so that blocks were lost
  bool isBlockFlush() const { return false; }  // the model records blocks on the host
  bool isCommon() const { return !isStreamCopy() && !isOverflow(); }

 private:
  Data data_;
  std::size_t run_, block_;
  std::uint64_t run_begin_;
};

class ExecutionReport {
 public:
  explicit ExecutionReport(Data data) : data_(std::move(data)) {}
  // Of all runs, in the order of their begin. One tile of each IPU has blocks (profiler.blocks.tile), those
  // of transfers are on the tile that has the first element.
  std::vector<BlockExecution> blocks(std::size_t tile) const;
  std::vector<Run> runs() const;
  std::vector<ExecutionStep> steps() const;  // of all runs

 private:
  Data data_;
};

class Report {
 public:
  explicit Report(Data data) : data_(std::move(data)) {}
  PoplarVersion poplarVersion() const;
  CompilationReport compilation() const { return CompilationReport(data_); }
  ExecutionReport execution() const { return ExecutionReport(data_); }

 private:
  Data data_;
};

// Throws poplar::poplar_error with the reason when the file cannot be read.
Report openReport(const std::string& filename);

}  // namespace pva

#endif  // PVA_PVA_HPP
