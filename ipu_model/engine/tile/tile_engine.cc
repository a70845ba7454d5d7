#include "engine/tile/tile_engine.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/operation/replica_operation.h"
#include "core/program/execute.h"
#include "engine/program/compiled_program.h"
#include "engine/program/plan_context.h"
#include "engine/run/executed_cycles.h"
#include "engine/run/loop_limit.h"
#include "engine/run/print_tensor.h"
#include "engine/run/stream_memory.h"
#include "engine/tile/expander.h"
#include "engine/tile/planned_operation.h"
#include "engine/tile/tile_storage.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/host/half_rounding.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

// The fill byte of uninitialised memory. A result that contains it shows a read of an element that was never
// written.
constexpr unsigned char kPoison = 0xff;

struct PlannedTensor {  // operand of control flow or of a host transfer
  std::vector<std::vector<TileMove>> views;
  std::size_t bytes = 0;
};

std::vector<const ProgramNode*> LoopsOf(const CompiledProgram& program) {
  std::vector<std::shared_ptr<const ProgramNode>> roots = program.programs;
  roots.insert(roots.end(), program.functions.begin(), program.functions.end());
  std::vector<const ProgramNode*> loops;
  for (const ProgramNode* node : NodesOf(roots)) {
    if (node->kind == ProgramKind::kRepeatWhileTrue || node->kind == ProgramKind::kRepeatWhileFalse)
      loops.push_back(node);
  }
  return loops;
}

struct StreamMemory {
  unsigned char *begin = nullptr, *end = nullptr, *next = nullptr;
  StreamPort* port = nullptr;  // of a callback
};

}  // namespace

class TileEngine::Implementation {
 public:
  explicit Implementation(std::shared_ptr<const CompiledProgram> program)
      : program_(std::move(program)),
        context_(*program_),
        storage_(program_->target.getNumTiles()),
        planner_(context_, &storage_, placements_),
        streams_(program_->streams.size()),
        loops_(LoopsOf(*program_)),
        cycles_(program_, loops_),
        loop_limit_(loops_, &cycles_),
        host_functions_(*program_) {
    program_->Prepare();
    host_functions_.ForEachStream(
        [this](std::uint32_t stream, void* begin, void* end) { ConnectStream(stream, begin, end); });
    for (std::size_t i = 0; i < loops_.size(); ++i) loop_numbers_[loops_[i]] = i;
    PlaceVariables();
  }

  void Load() {
    // Vertices begin with a new state: those that have one are made again.
    for (auto entry = operations_.begin(); entry != operations_.end();) {
      const bool has_state = dynamic_cast<const Execute*>(entry->first) != nullptr;
      entry = has_state ? operations_.erase(entry) : std::next(entry);
    }
    for (std::size_t i = 0; i < placements_.size(); ++i) {
      storage_.Fill(placements_[i], 0);
      WriteConstant(i);
    }
    WriteReplicaIndices();
    for (StreamMemory& stream : streams_) stream.next = stream.begin;
  }

  void ConnectStream(std::uint32_t stream, void* begin, void* end) {
    auto* first = static_cast<unsigned char*>(begin);
    CheckStreamMemory(program_->streams.at(stream), first, static_cast<unsigned char*>(end));
    streams_.at(stream) = {first, static_cast<unsigned char*>(end), first, nullptr};
  }

  void ConnectStream(std::uint32_t stream, void* begin) {
    const Stream& described = program_->streams.at(stream);
    const std::size_t bytes = static_cast<std::size_t>(described.num_elements) * SizeOf(described.type);
    ConnectStream(stream, begin, static_cast<unsigned char*>(begin) + bytes);
  }

  void ConnectPort(std::uint32_t stream, StreamPort* port) {
    ConnectStream(stream, port->memory());
    streams_[stream].port = port;
  }

  HostFunctions& host_functions() { return host_functions_; }

  void ConnectHostFunction(const std::string& name, HostCallback callback) {
    host_functions_.Connect(name, std::move(callback));
  }

  void SetPrintTensorStream(std::ostream& stream) { print_ = &stream; }
  void SetReplica(const Replica& replica) {
    replica_ = replica;
    WriteReplicaIndices();
  }

  void SetCancellation(Cancellation cancellation) { cancellation_ = std::move(cancellation); }
  void SetLoopLimit(double seconds) { loop_limit_.Set(seconds); }

  void RunExpansions(const hlo::Expansions& library) {
    expander_ = std::make_unique<Expander>(*program_, library);
    context_.SetVariables(expander_->variables());
  }
  ExpandedKinds kinds() const { return expander_ == nullptr ? ExpandedKinds{} : expander_->kinds(); }

  void Run(unsigned program) {
    const FlushDenormals flush;
    cycles_.Reset();
    loop_limit_.Start();
    const CycleClock::Scope clock(&cycles_);
    Run(*program_->programs.at(program));
    last_run_ = program;
    last_run_cycles_ = cycles_.total(program);
  }
  std::uint64_t last_run_cycles() const { return last_run_cycles_; }
  std::vector<LoopRun> last_run_loops() const { return cycles_.runs(last_run_); }

 private:
  void Run(const ProgramNode& node) {
    cancellation_.Check();
    switch (node.kind) {
      case ProgramKind::kSequence:
        for (const auto& child : node.children) Run(*child);
        return;
      case ProgramKind::kOperation:
        RunOperation(*node.operation);
        return;
      case ProgramKind::kStreamIn: {
        const PlannedTensor& tensor = TensorOf(node);
        StreamPort* const port = streams_[node.stream].port;
        if (port != nullptr) port->Fill();
        StoreTensor(node, tensor, NextTransfer(node.stream, tensor.bytes));
        if (port != nullptr) port->Consumed();
        return;
      }
      case ProgramKind::kStreamOut: {
        const PlannedTensor& tensor = TensorOf(node);
        LoadTensor(node, tensor, NextTransfer(node.stream, tensor.bytes));
        if (StreamPort* const port = streams_[node.stream].port) port->Deliver();
        return;
      }
      case ProgramKind::kRepeat:
        for (std::uint64_t i = 0; i < node.count; ++i) {
          cancellation_.CountTrip();
          Run(*node.children[0]);
        }
        return;
      case ProgramKind::kRepeatWhileTrue:
      case ProgramKind::kRepeatWhileFalse: {
        const std::size_t loop = loop_numbers_.at(&node);
        cycles_.Enter(loop);
        while (true) {
          Run(*node.children[0]);
          if (Predicate(node) != (node.kind == ProgramKind::kRepeatWhileTrue)) return;
          cancellation_.CountTrip();
          cycles_.Trip(loop);
          loop_limit_.Check();
          Run(*node.children[1]);
        }
      }
      case ProgramKind::kIf:
        Run(*node.children[Predicate(node) ? 0 : 1]);
        return;
      case ProgramKind::kSwitch: {
        std::int32_t control = 0;
        LoadTensor(node, TensorOf(node), reinterpret_cast<unsigned char*>(&control));
        const auto found = std::find(node.cases.begin(), node.cases.end(), control);
        Run(*node.children[static_cast<std::size_t>(found - node.cases.begin())]);
        return;
      }
      case ProgramKind::kCall:
        Run(*program_->functions.at(node.function));
        return;
      case ProgramKind::kWriteUndef:
        return;
      case ProgramKind::kPrint: {
        const PlannedTensor& tensor = TensorOf(node);
        std::vector<unsigned char> bytes(tensor.bytes);
        LoadTensor(node, tensor, bytes.data());
        PrintTensor(*print_, node.text, node.tensor.empty() ? DType::kF32 : node.tensor[0].type, node.shape,
                    bytes.data(), node.format);
        return;
      }
      case ProgramKind::kHostCall:
        host_functions_.Call(node.function);
        return;
      case ProgramKind::kAbort:
        if (node.tensor.empty() || Predicate(node)) throw poplar::application_runtime_error(node.text);
        return;
      case ProgramKind::kSync:
        return;
      case ProgramKind::kCount:
        break;
    }
    throw poplar::control_program_error("program '" + node.name + "' is of an unknown kind");
  }

  bool Predicate(const ProgramNode& node) {
    std::uint64_t value[2] = {};
    LoadTensor(node, TensorOf(node), reinterpret_cast<unsigned char*>(value));
    return value[0] != 0 || value[1] != 0;
  }

  unsigned char* NextTransfer(std::uint32_t stream, std::size_t bytes) {
    StreamMemory& memory = streams_[stream];
    if (memory.begin == nullptr && bytes > 0) {
      throw poplar::stream_connection_error("stream '" + program_->streams[stream].name +
                                            "' is not connected; call Engine::connectStream first");
    }
    unsigned char* at = memory.next;
    memory.next += bytes;
    if (static_cast<std::size_t>(memory.end - memory.next) < bytes) memory.next = memory.begin;
    return at;
  }

  const PlannedTensor& TensorOf(const ProgramNode& node) {
    auto [entry, is_new] = tensors_.try_emplace(&node);
    PlannedTensor& tensor = entry->second;
    if (is_new) {
      for (const View& view : node.tensor) {
        try {
          tensor.views.push_back(TileMovesOf(view, Box::Whole(view.shape), placements_.at(view.variable)));
        } catch (const UnplacedElement& e) {
          tensors_.erase(entry);
          throw poplar::invalid_tile_mapping("program '" + node.name + "': element " +
                                             std::to_string(e.element) + " of variable '" +
                                             program_->variables[view.variable].name + "' is on no tile");
        }
        tensor.bytes += static_cast<std::size_t>(view.num_elements()) * SizeOf(view.type);
      }
    }
    return tensor;
  }

  void LoadTensor(const ProgramNode& node, const PlannedTensor& tensor, unsigned char* bytes) {
    for (std::size_t i = 0; i < node.tensor.size(); ++i) {
      storage_.Gather(tensor.views[i], SizeOf(node.tensor[i].type), bytes);
      bytes += static_cast<std::size_t>(node.tensor[i].num_elements()) * SizeOf(node.tensor[i].type);
    }
  }

  void StoreTensor(const ProgramNode& node, const PlannedTensor& tensor, const unsigned char* bytes) {
    for (std::size_t i = 0; i < node.tensor.size(); ++i) {
      storage_.Scatter(tensor.views[i], SizeOf(node.tensor[i].type), bytes);
      bytes += static_cast<std::size_t>(node.tensor[i].num_elements()) * SizeOf(node.tensor[i].type);
    }
  }

  PlannedOperation& Planned(const Operation& operation) {
    std::unique_ptr<PlannedOperation>& entry = operations_[&operation];
    if (entry == nullptr) entry = planner_.Plan(operation);
    return *entry;
  }

  HostTensor LocalTensor(const LocalOperand& operand, DType type) {
    HostTensor tensor;
    tensor.data = local_ + operand.offset;
    tensor.type = type;
    tensor.rank = static_cast<int>(operand.shape.size());
    std::copy(operand.shape.begin(), operand.shape.end(), tensor.shape);
    SetDenseStrides(&tensor);
    return tensor;
  }

  static DType TypeOf(const Operation& operation, const PlannedOperation& planned, OperandRef ref) {
    switch (ref.kind) {
      case OperandRef::Kind::kInput:
        return operation.inputs[ref.index].type;
      case OperandRef::Kind::kOutput:
        return operation.outputs[ref.index].type;
      default:
        return planned.plan.temporaries[ref.index].type;
    }
  }

  // Gives memory to the variables that have none yet.
  void PlaceVariables() {
    for (std::size_t i = placements_.size(); i < context_.variables().size(); ++i) {
      const Variable& variable = context_.variables()[i];
      placements_.push_back(
          storage_.Allocate(variable.mapping, variable.num_elements, SizeOf(variable.type)));
    }
  }

  void WriteConstant(std::size_t id) {
    const Variable& variable = context_.variables()[id];
    if (variable.constant == nullptr || variable.num_elements == 0) return;
    Write(id,
          variable.is_replica_index ? static_cast<const void*>(&replica_.index) : variable.constant->data());
  }

  // Writes all elements of a variable.
  void Write(std::size_t id, const void* data) {
    const Variable& variable = context_.variables()[id];
    View whole;
    whole.shape = {variable.num_elements};
    whole.strides = {1};
    storage_.Scatter(TileMovesOf(whole, Box::Whole(whole.shape), placements_[id]), SizeOf(variable.type),
                     static_cast<const unsigned char*>(data));
  }

  void WriteReplicaIndices() {
    for (std::size_t i = 0; i < placements_.size(); ++i) {
      if (context_.variables()[i].is_replica_index) Write(i, &replica_.index);
    }
  }

  // The other replicas receive the contents of this replica's tiles as dense tensors.
  void RunBetweenReplicas(const ReplicaOperation& operation) {
    local_memory_.Reset();
    scratch_.Reset();
    const auto dense = [this](const View& view, std::vector<TileMove>* moves) {
      *moves = TileMovesOf(view, Box::Whole(view.shape), placements_.at(view.variable));
      local_ = local_memory_.Allocate<unsigned char>(static_cast<std::size_t>(view.num_elements()) *
                                                     SizeOf(view.type));
      return LocalTensor({view.shape, 0, {}}, view.type);
    };
    std::vector<HostTensor> in, out;
    std::vector<TileMove> moves;
    for (const View& view : operation.inputs) {
      in.push_back(dense(view, &moves));
      storage_.Gather(moves, SizeOf(view.type), local_);
    }
    std::vector<std::vector<TileMove>> received(operation.outputs.size());
    for (std::size_t i = 0; i < received.size(); ++i)
      out.push_back(dense(operation.outputs[i], &received[i]));
    HostContext context{ThreadPool::Global(), scratch_};
    operation.Communicate(context, replica_, in, out);
    for (std::size_t i = 0; i < received.size(); ++i)
      storage_.Scatter(received[i], SizeOf(out[i].type), out[i].as<unsigned char>());
  }

  // While an object exists, operations run without their expansions.
  class InExpansion {
   public:
    explicit InExpansion(bool* flag) : flag_(flag) { *flag_ = true; }
    ~InExpansion() { *flag_ = false; }
    InExpansion(const InExpansion&) = delete;
    InExpansion& operator=(const InExpansion&) = delete;

   private:
    bool* const flag_;
  };

  // Runs the expansion of an operation. Returns false if it has none.
  bool RunExpansion(const Operation& operation) {
    if (expander_ == nullptr || in_expansion_) return false;
    const ProgramNode* const expansion = expander_->ProgramOf(operation);
    if (expansion == nullptr) return false;
    const std::size_t known = placements_.size();
    PlaceVariables();
    for (std::size_t i = known; i < placements_.size(); ++i) WriteConstant(i);
    const InExpansion scope(&in_expansion_);
    Run(*expansion);
    return true;
  }

  void RunOperation(const Operation& operation) {
    if (RunExpansion(operation)) return;
    if (const auto* between = dynamic_cast<const ReplicaOperation*>(&operation))
      return RunBetweenReplicas(*between);
    PlannedOperation& planned = Planned(operation);
    for (const Placement& temporary : planned.temporaries) storage_.Fill(temporary, kPoison);
    planned.plan.ForEachRun([&](std::size_t number) {
      const PlannedStep& step = planned.steps[number];
      cancellation_.Check();
      local_memory_.Reset();
      local_ = local_memory_.Allocate<unsigned char>(step.local_bytes);
      std::memset(local_, kPoison, step.local_bytes);
      for (const PlannedVertex& v : step.vertices) {
        for (std::size_t i = 0; i < v.reads.size(); ++i) {
          storage_.Gather(v.reads[i].moves, SizeOf(TypeOf(operation, planned, v.group->reads[i].tensor)),
                          local_ + v.reads[i].offset);
        }
      }
      for (const PlannedVertex& v : step.vertices) {
        reads_.clear();
        writes_.clear();
        for (std::size_t i = 0; i < v.reads.size(); ++i) {
          reads_.push_back(LocalTensor(v.reads[i], TypeOf(operation, planned, v.group->reads[i].tensor)));
        }
        for (std::size_t i = 0; i < v.writes.size(); ++i) {
          writes_.push_back(LocalTensor(v.writes[i], TypeOf(operation, planned, v.group->writes[i].tensor)));
        }
        scratch_.Reset();
        HostContext context{ThreadPool::Global(), scratch_};
        const TileGenerator generator(v.vertex->tile);
        v.group->compute(context, v.vertex->box, reads_, writes_);
      }
      for (const PlannedVertex& v : step.vertices) {
        for (std::size_t i = 0; i < v.writes.size(); ++i) {
          storage_.Scatter(v.writes[i].moves, SizeOf(TypeOf(operation, planned, v.group->writes[i].tensor)),
                           local_ + v.writes[i].offset);
        }
      }
    });
  }

  std::shared_ptr<const CompiledProgram> program_;
  PlanContext context_;
  TileStorage storage_;
  std::vector<Placement> placements_;  // by variable
  OperationPlanner planner_;
  std::vector<StreamMemory> streams_;
  std::vector<const ProgramNode*> loops_;  // with an unknown trip count
  std::unordered_map<const ProgramNode*, std::size_t> loop_numbers_;
  ExecutedCycles cycles_;
  LoopLimit loop_limit_;
  HostFunctions host_functions_;
  unsigned last_run_ = 0;
  std::uint64_t last_run_cycles_ = 0;
  std::unordered_map<const Operation*, std::unique_ptr<PlannedOperation>> operations_;
  std::unordered_map<const ProgramNode*, PlannedTensor> tensors_;
  unsigned char* local_ = nullptr;  // dense copies of the current superstep, in local_memory_
  std::vector<HostTensor> reads_, writes_;
  Scratch local_memory_, scratch_;
  Replica replica_;
  Cancellation cancellation_;
  std::unique_ptr<Expander> expander_;  // null: operations run without expansions
  bool in_expansion_ = false;
  std::ostream* print_ = &std::cerr;
};

TileEngine::TileEngine(std::shared_ptr<const CompiledProgram> program)
    : implementation_(std::make_unique<Implementation>(std::move(program))) {}
TileEngine::~TileEngine() = default;
void TileEngine::Load() { implementation_->Load(); }
void TileEngine::ConnectStream(std::uint32_t stream, void* begin, void* end) {
  implementation_->ConnectStream(stream, begin, end);
}
void TileEngine::ConnectStream(std::uint32_t stream, void* begin) {
  implementation_->ConnectStream(stream, begin);
}
void TileEngine::ConnectPort(std::uint32_t stream, StreamPort* port) {
  implementation_->ConnectPort(stream, port);
}
HostFunctions& TileEngine::host_functions() { return implementation_->host_functions(); }
void TileEngine::ConnectHostFunction(const std::string& name, HostCallback callback) {
  implementation_->ConnectHostFunction(name, std::move(callback));
}
void TileEngine::SetPrintTensorStream(std::ostream& stream) { implementation_->SetPrintTensorStream(stream); }
void TileEngine::SetReplica(const Replica& replica) { implementation_->SetReplica(replica); }
void TileEngine::SetCancellation(Cancellation cancellation) {
  implementation_->SetCancellation(std::move(cancellation));
}
void TileEngine::SetLoopLimit(double seconds) { implementation_->SetLoopLimit(seconds); }
void TileEngine::RunExpansions(const hlo::Expansions& library) { implementation_->RunExpansions(library); }
ExpandedKinds TileEngine::kinds() const { return implementation_->kinds(); }
void TileEngine::Run(unsigned program) { implementation_->Run(program); }
std::uint64_t TileEngine::last_run_cycles() const { return implementation_->last_run_cycles(); }
std::vector<LoopRun> TileEngine::last_run_loops() const { return implementation_->last_run_loops(); }

}  // namespace ipu_model
