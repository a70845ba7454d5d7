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
struct ProfileFile;  // engine/profile_file.h
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

class Memory {
 public:
  explicit Memory(std::uint64_t bytes) : bytes_(bytes) {}
  std::uint64_t excludingGaps() const { return bytes_; }

 private:
  std::uint64_t bytes_;
};

class TileMemory {
 public:
  explicit TileMemory(std::uint64_t bytes) : bytes_(bytes) {}
  // At the tile's fullest moment.
  Memory total() const { return Memory(bytes_); }

 private:
  std::uint64_t bytes_;
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

// A part of the program.
class Program {
 public:
  Program(std::string name, std::string type) : name_(std::move(name)), type_(std::move(type)) {}
  std::string name() const { return name_; }
  std::string type() const { return type_; }  // "operation", "stream in", "loop", ...
  // So that both program().name() and program()->name() work.
  const Program* operator->() const { return this; }

 private:
  std::string name_, type_;
};

class CompilationReport {
 public:
  explicit CompilationReport(Data data) : data_(std::move(data)) {}
  Graph graph() const { return Graph(data_); }
  Target target() const { return Target(data_); }
  std::vector<Tile> tiles() const;

 private:
  Data data_;
};

struct Cycles {
  std::uint64_t compute = 0, exchange = 0, sync = 0;
  std::uint64_t total() const { return compute + exchange + sync; }
};

class ExecutionStep {
 public:
  ExecutionStep(Data data, std::size_t run, std::size_t step)
      : data_(std::move(data)), run_(run), step_(step) {}
  Program program() const;
  std::uint64_t executions() const;
  Cycles cycles() const;  // of all executions

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

class ExecutionReport {
 public:
  explicit ExecutionReport(Data data) : data_(std::move(data)) {}
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
