#include "core/program/execute.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "codelets/codelet_output.h"
#include "codelets/isolation.h"
#include "core/graph/compute_set.h"
#include "core/operation/serialise.h"
#include "core/program/program_node.h"
#include "core/vertices/checked_vertex.h"
#include "poplar/Program.hpp"
#include "poplar/exceptions.hpp"

namespace ipu_model {

using codelet::Field;

namespace {

constexpr std::size_t kAlignment = 64;
// Less work than this is not worth waking other threads.
constexpr std::size_t kAloneBytes = 64 * 1024;

std::size_t Aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The address of an interval in a tensor of one dimension.
unsigned char* AddressOf(const HostTensor& tensor, std::int64_t begin) {
  return tensor.as<unsigned char>() +
         begin * tensor.strides[0] * static_cast<std::int64_t>(SizeOf(tensor.type));
}

[[noreturn]] void Fail(const VertexProgram& program, std::size_t vertex, const std::string& reason) {
  throw poplar::runtime_error(program.Name(vertex) + " was ended: " + reason);
}

}  // namespace

ExecuteKernel::ExecuteKernel(std::shared_ptr<const VertexProgram> program)
    : program_(std::move(program)), instances_(program_), buffers_(nullptr, std::free) {}

void ExecuteKernel::Point(const HostTensor* in, const HostTensor* out, unsigned char* /*scratch*/) {
  // Two passes: the size of the buffers, then their addresses.
  for (int pass = 0; pass < 2; ++pass) {
    std::size_t at = 0;
    gathers_.clear();
    scatters_.clear();
    first_gather_.clear();
    first_scatter_.clear();
    bytes_ = 0;
    for (std::size_t i = 0; i < program_->vertices.size(); ++i) {
      const ProgramVertex& v = program_->vertices[i];
      first_gather_.push_back(gathers_.size());
      first_scatter_.push_back(scatters_.size());
      for (std::size_t e = 0; e < v.edges.size(); ++e) {
        const VertexEdge& edge = v.edges[e];
        const Field& field = program_->FieldOf(v, edge);
        const std::size_t bytes = static_cast<std::size_t>(edge.elements()) * field.element_bytes;
        bytes_ += bytes;
        const std::vector<VertexInterval>& intervals = edge.writes.empty() ? edge.reads : edge.writes;
        const HostTensor* const operands = edge.writes.empty() ? in : out;
        if (intervals.size() == 1) {
          const HostTensor& tensor = operands[intervals[0].operand];
          unsigned char* const data = AddressOf(tensor, intervals[0].begin);
          const std::size_t alignment = std::max(field.alignment, field.element_bytes);
          const bool together = tensor.strides[0] == 1 || intervals[0].count == 1;
          if (together && reinterpret_cast<std::uintptr_t>(data) % alignment == 0) {
            instances_.Connect(i, e, data);
            continue;
          }
        }
        const std::size_t begin = at;
        at += Aligned(std::max<std::size_t>(bytes, 1));
        if (pass == 0) continue;
        unsigned char* const buffer = buffers_.get() + begin;
        instances_.Connect(i, e, buffer);
        for (const bool reads : {true, false}) {
          unsigned char* part = buffer;
          for (const VertexInterval& interval : reads ? edge.reads : edge.writes) {
            const HostTensor& tensor = (reads ? in : out)[interval.operand];
            const bool together = tensor.strides[0] == 1;
            const std::int64_t pieces = together ? 1 : interval.count;
            const std::size_t size =
                static_cast<std::size_t>(together ? interval.count : 1) * field.element_bytes;
            for (std::int64_t k = 0; k < pieces; ++k, part += size) {
              unsigned char* const place = AddressOf(tensor, interval.begin + k);
              if (reads) {
                gathers_.push_back({part, place, size});
              } else {
                scatters_.push_back({place, part, size});
              }
            }
          }
        }
      }
    }
    first_gather_.push_back(gathers_.size());
    first_scatter_.push_back(scatters_.size());
    if (pass == 0 && at > buffer_bytes_) {
      buffers_.reset(static_cast<unsigned char*>(std::aligned_alloc(kAlignment, at)));
      if (buffers_ == nullptr) throw std::bad_alloc();
      buffer_bytes_ = at;
    }
  }
}

std::string ExecuteKernel::RunRange(std::size_t begin, std::size_t end, double seconds,
                                    std::size_t* failed) const {
  for (std::size_t i = first_gather_[begin]; i < first_gather_[end]; ++i)
    std::memcpy(gathers_[i].to, gathers_[i].from, gathers_[i].bytes);
  std::string reason = RunGuarded(instances_.vertices().data(), begin, end, seconds, failed);
  for (std::size_t i = first_scatter_[begin]; i < first_scatter_[end]; ++i)
    std::memcpy(scatters_[i].to, scatters_[i].from, scatters_[i].bytes);
  return reason;
}

std::string ExecuteKernel::RunInHelper(double seconds, std::size_t* failed) const {
  const auto bytes = [this](std::size_t i, std::size_t e) {
    const VertexEdge& edge = program_->vertices[i].edges[e];
    const Field& field = program_->FieldOf(program_->vertices[i], edge);
    return static_cast<std::size_t>(edge.elements()) * field.element_bytes;
  };
  std::vector<IsolatedMemory> results = {instances_.memory()};
  for (std::size_t i = 0; i < program_->vertices.size(); ++i) {
    const std::vector<VertexEdge>& edges = program_->vertices[i].edges;
    for (std::size_t e = 0; e < edges.size(); ++e) {
      if (!edges[e].writes.empty())
        results.push_back({static_cast<unsigned char*>(instances_.data(i, e)), bytes(i, e)});
    }
  }
  const auto run = [&](std::size_t i) {
    const std::size_t edges = program_->vertices[i].edges.size();
    std::vector<void*> data;
    for (std::size_t e = 0; e < edges; ++e) data.push_back(instances_.data(i, e));
    std::string reason = RunChecked(
        *program_, &instances_, i, seconds,
        [&](std::size_t e, unsigned char* to) { std::memcpy(to, data[e], bytes(i, e)); },
        [&](std::size_t e, const unsigned char* from) { std::memcpy(data[e], from, bytes(i, e)); });
    // What comes back of the state refers to the memory of this process again.
    for (std::size_t e = 0; e < edges; ++e) instances_.Connect(i, e, data[e]);
    return reason;
  };
  for (const Move& gather : gathers_) std::memcpy(gather.to, gather.from, gather.bytes);
  std::string reason = RunIsolated(program_->vertices.size(), run, results, failed);
  if (reason.empty()) {
    for (const Move& scatter : scatters_) std::memcpy(scatter.to, scatter.from, scatter.bytes);
  }
  return reason;
}

void ExecuteKernel::Run() const {
  const std::size_t n = instances_.vertices().size();
  const double seconds = VertexTimeLimit::Current();
  std::ostream* const output = CodeletOutput::Current();
  if (n == 0) return;
  std::size_t failed = 0;
  std::string reason;
  if (CodeletsAreIsolated()) {
    reason = RunInHelper(seconds, &failed);
  } else if (n == 1 || bytes_ + 64 * n < kAloneBytes) {
    reason = RunRange(0, n, seconds, &failed);
  } else {
    std::mutex mutex;
    std::atomic<bool> stop{false};
    ParallelFor(
        ThreadPool::Global(), static_cast<std::int64_t>(n), 1, [&](std::int64_t begin, std::int64_t end) {
          if (stop.load(std::memory_order_relaxed)) return;
          const CodeletOutput scope(output);
          std::size_t vertex = 0;
          std::string what =
              RunRange(static_cast<std::size_t>(begin), static_cast<std::size_t>(end), seconds, &vertex);
          if (what.empty()) return;
          stop.store(true, std::memory_order_relaxed);
          const std::lock_guard<std::mutex> lock(mutex);
          if (!reason.empty()) return;
          reason = std::move(what);
          failed = vertex;
        });
  }
  if (!reason.empty()) Fail(*program_, failed, reason);
}

void Execute::Resolve(GraphImpl* graph) {
  ResolvedComputeSet resolved = ipu_model::Resolve(*set_, graph);
  inputs = std::move(resolved.inputs);
  outputs = std::move(resolved.outputs);
  program_ = std::move(resolved.program);
}

void Execute::Attach(const std::vector<std::shared_ptr<const CodeletLibrary>>& libraries) {
  VertexProgram program = *program_;
  program.Attach(libraries);
  program_ = std::make_shared<const VertexProgram>(std::move(program));
}

void Execute::Write(Writer& writer) const { program_->Write(&writer); }

std::unique_ptr<Operation> ReadExecute(Reader& reader) {
  return std::make_unique<Execute>(VertexProgram::Read(&reader));
}

bool Execute::OperandsFit(unsigned num_tiles) const {
  std::string problem;
  return program_->Fits(inputs, outputs, num_tiles, [](VariableId v) { return std::to_string(v); }, &problem);
}

void Execute::Run(HostContext&, const std::vector<HostTensor>& in, const std::vector<HostTensor>& out) const {
  ExecuteKernel kernel(program_);
  kernel.Point(in.data(), out.data(), nullptr);
  kernel.Run();
}

std::unique_ptr<BoundKernel> Execute::Bind(const std::vector<HostTensor>&,
                                           const std::vector<HostTensor>&) const {
  return std::make_unique<ExecuteKernel>(program_);
}

double Execute::flops() const {
  double flops = 0;
  for (const ProgramVertex& v : program_->vertices) flops += static_cast<double>(v.flops);
  return flops;
}

namespace {

// The intervals of a vertex in the order of the accesses of its group.
struct Accesses {
  std::vector<VertexInterval> reads, writes;
};

// What all vertices of one plan share.
struct TileVertices {
  std::shared_ptr<const VertexProgram> program;
  std::vector<Accesses> accesses;              // by vertex
  std::unique_ptr<VertexInstances> instances;  // made by the first vertex that runs
};

// What reports say of cycles that nobody gives.
const char* RemarkOf(CycleSource source) {
  switch (source) {
    case CycleSource::kDefault:
      return " (cycles: default estimate)";
    case CycleSource::kCompiledLoop:
      return " (cycles: from the compiled loop)";
    default:
      return "";
  }
}

// Runs one vertex on copies of its elements.
void RunOnCopies(TileVertices* shared, std::size_t number, const std::vector<HostTensor>& reads,
                 const std::vector<HostTensor>& writes) {
  const VertexProgram& program = *shared->program;
  if (shared->instances == nullptr) shared->instances = std::make_unique<VertexInstances>(shared->program);
  const ProgramVertex& v = program.vertices[number];
  std::size_t r = 0, w = 0;  // edges are loaded and stored in their order
  const auto load = [&](std::size_t e, unsigned char* at) {
    for (const VertexInterval& interval : v.edges[e].reads) {
      const std::size_t part =
          static_cast<std::size_t>(interval.count) * program.FieldOf(v, v.edges[e]).element_bytes;
      std::memcpy(at, reads[r++].data, part);
      at += part;
    }
  };
  const auto store = [&](std::size_t e, const unsigned char* at) {
    for (const VertexInterval& interval : v.edges[e].writes) {
      const std::size_t part =
          static_cast<std::size_t>(interval.count) * program.FieldOf(v, v.edges[e]).element_bytes;
      std::memcpy(writes[w++].data, at, part);
      at += part;
    }
  };
  const auto run = [&](std::size_t /*the only one*/) {
    return RunChecked(program, shared->instances.get(), number, VertexTimeLimit::Current(), load, store);
  };
  std::string reason;
  if (CodeletsAreIsolated()) {
    std::vector<IsolatedMemory> results = {shared->instances->memory()};
    std::size_t next = 0, failed = 0;
    for (const VertexEdge& edge : v.edges) {
      const std::size_t size = program.FieldOf(v, edge).element_bytes;
      for (const VertexInterval& part : edge.writes) {
        results.push_back({writes[next++].as<unsigned char>(), static_cast<std::size_t>(part.count) * size});
      }
    }
    reason = RunIsolated(1, run, results, &failed);
  } else {
    reason = run(number);
  }
  if (!reason.empty()) Fail(program, number, reason);
}

}  // namespace

TilePlan Execute::Plan(const DeviceContext& /*context*/) const {
  auto shared = std::make_shared<TileVertices>();
  shared->program = program_;
  shared->accesses.resize(program_->vertices.size());
  TilePlan plan;
  plan.supersteps.emplace_back();
  std::vector<VertexGroup>& groups = plan.supersteps[0].groups;
  // Vertices of one class whose intervals are of the same operands, one after another, are one group.
  std::map<std::vector<std::uint32_t>, std::size_t> group_of;
  for (std::size_t i = 0; i < program_->vertices.size(); ++i) {
    const ProgramVertex& v = program_->vertices[i];
    Accesses& accesses = shared->accesses[i];
    std::vector<std::uint32_t> key = {v.type, static_cast<std::uint32_t>(v.cycle_source)};
    std::uint64_t state_bytes = 0;
    const VertexType& type = program_->types[v.type];
    for (const VertexEdge& edge : v.edges) {
      accesses.reads.insert(accesses.reads.end(), edge.reads.begin(), edge.reads.end());
      accesses.writes.insert(accesses.writes.end(), edge.writes.begin(), edge.writes.end());
    }
    key.push_back(static_cast<std::uint32_t>(accesses.reads.size()));
    for (const VertexInterval& interval : accesses.reads) key.push_back(interval.operand);
    for (const VertexInterval& interval : accesses.writes) key.push_back(interval.operand);
    for (std::size_t f = 0; f < type.type->num_fields; ++f) {
      const Field& field = type.type->fields[f];
      state_bytes += field.device_bytes;
      if (field.kind == codelet::kVectorValue) state_bytes += v.values[f].size();
      if (field.kind != codelet::kScalarEdges && field.kind != codelet::kVectorEdges) continue;
      for (const VertexEdge& edge : v.edges)
        state_bytes += edge.field == f && !edge.is_metadata ? field.device_edge_bytes : 0;
    }
    // A pointer of 32 bits to each metadata.
    for (const VertexEdge& edge : v.edges) state_bytes += edge.is_metadata ? 4 : 0;
    // Groups have one size of state; vertices of one class differ by their numbers only.
    key.push_back(static_cast<std::uint32_t>(state_bytes));
    const auto [entry, is_new] = group_of.try_emplace(std::move(key), groups.size());
    if (is_new) {
      VertexGroup& group = groups.emplace_back();
      group.codelet = type.name + RemarkOf(v.cycle_source);
      group.code_bytes = type.code->CodeBytes(*type.type);
      group.vertex_bytes = state_bytes;
      const auto access = [&](OperandRef::Kind kind, const VertexInterval& interval, std::size_t k,
                              bool reads) {
        return VertexGroup::Access{{kind, interval.operand}, [shared, k, reads](const Box& box) {
                                     const Accesses& own =
                                         shared->accesses[static_cast<std::size_t>(box.begin[0])];
                                     const VertexInterval& r = (reads ? own.reads : own.writes)[k];
                                     return Box{{r.begin}, {r.begin + r.count}};
                                   }};
      };
      for (std::size_t k = 0; k < accesses.reads.size(); ++k)
        group.reads.push_back(access(OperandRef::Kind::kInput, accesses.reads[k], k, true));
      for (std::size_t k = 0; k < accesses.writes.size(); ++k)
        group.writes.push_back(access(OperandRef::Kind::kOutput, accesses.writes[k], k, false));
      group.compute = [shared](HostContext& /*host*/, const Box& box, const std::vector<HostTensor>& reads,
                               const std::vector<HostTensor>& writes) {
        RunOnCopies(shared.get(), static_cast<std::size_t>(box.begin[0]), reads, writes);
      };
      group.cycles = [](const TargetModel&, const Box& box) {
        return static_cast<std::uint64_t>(box.end[1]);
      };
    }
    // The second dimension of the box has the vertex's cycles, because analyses take vertices with boxes of
    // one size for equal.
    const auto n = static_cast<std::int64_t>(i);
    groups[entry->second].vertices.push_back(
        {v.tile, {{n, 0}, {n + 1, static_cast<std::int64_t>(v.cycles)}}});
  }
  return plan;
}

}  // namespace ipu_model

namespace poplar::program {

Execute::Execute(const ComputeSet& cs, const DebugContext& debugContext)
    : Program(std::make_shared<ipu_model::ProgramNode>()) {
  if (cs.data() == nullptr)
    throw control_program_error("Execute: the compute set is empty (default-constructed)");
  if (cs.data()->program != nullptr) {
    setNode(cs.data()->program);
    return;
  }
  node_->kind = ipu_model::ProgramKind::kOperation;
  node_->origin = ipu_model::CurrentOrigin();
  node_->graph = cs.data()->graph;
  node_->name = debugContext.getPathName().empty() ? cs.data()->name : debugContext.getPathName();
  node_->operation = std::make_shared<ipu_model::Execute>(cs.data());
  node_->operation->name = node_->name;
}

}  // namespace poplar::program
