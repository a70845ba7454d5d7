// The fast engine: binds the host plan to memory once, then steps through its instructions.
#include "engine/fast/fast_engine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <new>
#include <utility>

#include "core/program/execute.h"
#include "engine/fast/make_host_plan.h"
#include "engine/fast/packed_tensor.h"
#include "engine/run/print_tensor.h"
#include "engine/run/stream_memory.h"
#include "kernels/copy/slice.h"
#include "kernels/copy/strided_copy.h"
#include "kernels/host/host_limits.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Generated code has offsets of 32 bits.
constexpr std::size_t kMostAddressed = std::size_t{1} << 30;

std::ptrdiff_t ByteOffset(const View& view) {
  return static_cast<std::ptrdiff_t>(view.offset) * static_cast<std::ptrdiff_t>(SizeOf(view.type));
}

}  // namespace

FastEngine::Memory FastEngine::Allocate(std::size_t alignment, std::size_t bytes) {
  Memory memory(static_cast<unsigned char*>(std::aligned_alloc(alignment, bytes)));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

FastEngine::FastEngine(std::shared_ptr<const CompiledProgram> program, bool stream_memory_stays,
                       bool streams_in_place)
    : program_(std::move(program)),
      plan_(MakeHostPlan(*program_, stream_memory_stays, streams_in_place)),
      cycles_(program_, plan_.code.loops),
      loop_limit_(plan_.code.loops, &cycles_),
      host_functions_(*program_),
      print_stream_(&std::cerr) {
  program_->Prepare();
  // Large memory uses huge pages: operands are far apart, and a page table walk costs as much as a cache
  // miss.
  const std::size_t alignment = plan_.arena_bytes >= 2 * kHugePage ? kHugePage : kAlignment;
  const std::size_t bytes = (plan_.arena_bytes + alignment) / alignment * alignment;
  arena_ = Allocate(alignment, bytes);
  // a hint, which may fail without harm
  if (alignment == kHugePage) madvise(arena_.get(), bytes, MADV_HUGEPAGE);

  streams_.resize(program_->streams.size());
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    const Stream& stream = program_->streams[s];
    streams_[s].bytes = static_cast<std::size_t>(stream.num_elements) * SizeOf(stream.type);
  }
  unconnected_ = static_cast<std::uint32_t>(streams_.size());

  const HostCode& code = plan_.code;
  const auto resolve = [this](const std::vector<View>& views) {
    std::vector<HostTensor> tensors;
    for (const View& v : views) tensors.push_back(Resolve(v));
    for (std::size_t i = 0; i < views.size(); ++i) Follow(views[i], &tensors[i].data);
    return tensors;
  };
  for (const Operation* operation : code.operations) {
    operations_.push_back({operation, resolve(operation->inputs), resolve(operation->outputs),
                           dynamic_cast<const ReplicaOperation*>(operation),
                           dynamic_cast<const CombiningOperation*>(operation), nullptr});
  }
  Bind();
  for (const BandGroup& group : plan_.bands) MakeBandMemory(group);
  for (const ipu_model::Transfer& t : code.transfers) {
    BoundTransfer bound{t.stream, {}, {}};
    std::vector<View> pieces;
    for (const View& v : t.tensor) pieces.push_back(Coalesced(v));
    bound.tensor = resolve(pieces);
    for (const View& v : pieces) bound.packed.push_back(Packed(v));
    transfers_.push_back(std::move(bound));
  }
  for (const View& v : code.predicates) predicates_.push_back({Resolve(v).data, v.type});
  for (std::size_t i = 0; i < predicates_.size(); ++i) Follow(code.predicates[i], &predicates_[i].data);
  for (const ProgramNode* node : code.prints) prints_.push_back(resolve(node->tensor));
  counters_.resize(code.counts.size());
  return_slots_.resize(code.num_return_slots);
  host_functions_.ForEachStream(
      [this](std::uint32_t stream, void* begin, void*) { ConnectStream(stream, begin); });
  Compile();
  Load();
}

HostTensor FastEngine::Resolve(const View& view) const {
  const HostLocation& location = plan_.locations[view.variable];
  const View placed = location.Placed(view);
  HostTensor t = Shaped(placed);
  unsigned char* base = arena_.get();
  if (location.kind == HostLocation::Kind::kArena) {
    base += location.offset;
  } else if (location.kind == HostLocation::Kind::kConstant) {
    // Compilation rejects programs that write a constant.
    const Variable& variable = program_->variables[view.variable];
    const void* data = variable.is_replica_index ? static_cast<const void*>(&replica_.index)
                                                 : static_cast<const void*>(variable.constant->data());
    base = static_cast<unsigned char*>(const_cast<void*>(data));
  }
  t.data = base + ByteOffset(placed);
  return t;
}

void FastEngine::Follow(const View& view, void** address) {
  const HostLocation& location = plan_.locations[view.variable];
  if (location.kind != HostLocation::Kind::kStream) return;
  streams_[location.stream].pointers.push_back({address, ByteOffset(location.Placed(view))});
}

void FastEngine::Bind() {
  std::size_t bytes = 0;
  for (const HostInstruction& in : plan_.code.code) {
    if (in.code != OpCode::kRun) continue;
    BoundOperation& bound = operations_[in.a];
    if (bound.between != nullptr || bound.bound != nullptr) continue;
    // The addresses of tensors in stream memory are not known yet.
    std::vector<HostTensor> tensors[2] = {bound.in, bound.out};
    const std::vector<View>* const views[2] = {&bound.operation->inputs, &bound.operation->outputs};
    std::vector<std::uint32_t> streams;
    for (int side = 0; side < 2; ++side) {
      for (std::size_t i = 0; i < views[side]->size(); ++i) {
        const HostLocation& location = plan_.locations[(*views[side])[i].variable];
        if (location.kind != HostLocation::Kind::kStream) continue;
        tensors[side][i].data = nullptr;
        streams.push_back(location.stream);
      }
    }
    bound.bound = bound.operation->Bind(tensors[0], tensors[1]);
    if (bound.bound == nullptr) continue;
    bytes = std::max(bytes, bound.bound->scratch_bytes());
    for (const std::uint32_t stream : streams) streams_[stream].operations.push_back(in.a);
  }
  bound_memory_ = bound_scratch_.Allocate<unsigned char>(bytes);
}

CodeAddress FastEngine::AddressOf(const View& view) const {
  const HostLocation& location = plan_.locations[view.variable];
  switch (location.kind) {
    case HostLocation::Kind::kArena:
      return {CodeAddress::kArena,
              static_cast<std::ptrdiff_t>(location.offset) + ByteOffset(location.Placed(view))};
    case HostLocation::Kind::kStream:
      return {CodeAddress::kFirstPointer + static_cast<int>(location.stream),
              ByteOffset(location.Placed(view))};
    default:
      return {CodeAddress::kAbsolute, reinterpret_cast<std::ptrdiff_t>(Resolve(view).data)};
  }
}

void FastEngine::Compile() {
  const auto large = [](const StreamState& s) { return s.bytes > kMostAddressed; };
  if (!FinalHostLimits().machine_code || plan_.arena_bytes > kMostAddressed ||
      std::any_of(streams_.begin(), streams_.end(), large)) {
    return;
  }
  LoopEnvironment environment;
  environment.host = &plan_.code;
  environment.kernel = [this](std::uint32_t operation) {
    const BoundOperation& bound = operations_[operation];
    LoopEnvironment::Kernel kernel{bound.bound.get(), {}, {}};
    for (const View& v : bound.operation->inputs) kernel.in.push_back(AddressOf(v));
    for (const View& v : bound.operation->outputs) kernel.out.push_back(AddressOf(v));
    return kernel;
  };
  environment.predicate = [this](std::uint32_t predicate) {
    const View& view = plan_.code.predicates[predicate];
    return LoopEnvironment::Predicate{view.type, AddressOf(view)};
  };
  environment.counters = counters_.data();
  environment.entries = [this](std::uint32_t loop) { return cycles_.entries(loop); };
  environment.trips = [this](std::uint32_t loop) { return cycles_.trips(loop); };
  environment.engine = this;
  // Exceptions cannot pass through generated code.
  static constexpr auto guarded = [](FastEngine* engine, auto&& action) {
    try {
      action();
      return true;
    } catch (...) {
      engine->code_error_ = std::current_exception();
      return false;
    }
  };
  environment.step = [](void* self, std::uint32_t instruction) {
    auto* engine = static_cast<FastEngine*>(self);
    return guarded(engine, [&] {
      engine->cancellation_.Check();
      HostContext context{ThreadPool::Global(), engine->scratch_};
      engine->Perform(context, engine->plan_.code.code[instruction]);
    });
  };
  environment.poll = [](void* self) {
    auto* engine = static_cast<FastEngine*>(self);
    return guarded(engine, [&] {
      engine->cancellation_.Poll();
      engine->loop_limit_.Check();
    });
  };
  loops_ = CompileLoops(environment);
  if (loops_.empty()) return;
  for (std::size_t i = 0; i < loops_.size(); ++i)
    plan_.code.code[loops_[i].begin] = {OpCode::kRunLoop, static_cast<std::uint32_t>(i), loops_[i].end};
  code_bases_.assign(CodeAddress::kFirstPointer + streams_.size(), nullptr);
  code_bases_[CodeAddress::kArena] = arena_.get();
  code_bases_[CodeAddress::kScratch] = bound_memory_;
  for (std::size_t s = 0; s < streams_.size(); ++s)
    code_bases_[CodeAddress::kFirstPointer + s] = streams_[s].cursor;
}

void FastEngine::Load() {
  std::memset(arena_.get(), 0, plan_.state_bytes);
  for (BoundOperation& bound : operations_) {
    if (auto* const execute = dynamic_cast<ExecuteKernel*>(bound.bound.get())) execute->Reset();
  }
  for (StreamState& s : streams_) {
    if (s.connected) Point(&s, s.begin);
  }
}

void FastEngine::Point(StreamState* stream, unsigned char* memory) {
  stream->cursor = memory;
  if (!code_bases_.empty())
    code_bases_[CodeAddress::kFirstPointer + static_cast<std::size_t>(stream - streams_.data())] = memory;
  for (const StreamState::Pointer& p : stream->pointers) *p.address = memory + p.offset;
  for (const std::uint32_t operation : stream->operations) operations_[operation].moved = true;
}

void FastEngine::ConnectStream(std::uint32_t stream, void* begin) {
  StreamState& s = streams_[stream];
  s.port = nullptr;
  auto* memory = static_cast<unsigned char*>(begin);
  s.begin = memory;
  s.end = memory + s.bytes;
  if (!s.connected) {
    s.connected = true;
    --unconnected_;
  }
  if (s.cursor != memory || memory == nullptr) Point(&s, memory);
}

void FastEngine::ConnectPort(std::uint32_t stream, StreamPort* port) {
  ConnectStream(stream, port->memory());
  streams_[stream].port = port;
}

void FastEngine::ConnectStream(std::uint32_t stream, void* begin, void* end) {
  auto* const last = static_cast<unsigned char*>(end);
  CheckStreamMemory(program_->streams[stream], static_cast<unsigned char*>(begin), last);
  ConnectStream(stream, begin);
  StreamState& s = streams_[stream];
  s.end = last;
  if (s.end > s.begin && static_cast<std::size_t>(s.end - s.begin) > s.bytes) moving_streams_ = true;
}

void FastEngine::Advance(StreamState* stream) {
  stream->cursor += stream->bytes;
  if (stream->cursor >= stream->end) stream->cursor = stream->begin;
}

void FastEngine::CheckConnected(unsigned program) const {
  for (const HostPlan::StreamUse& use : plan_.streams[program]) {
    if (!streams_[use.stream].connected) {
      throw poplar::stream_connection_error("program " + std::to_string(program) + " uses the stream '" +
                                            program_->streams[use.stream].name +
                                            "', which is not connected: call connectStream before run");
    }
  }
}

std::int64_t FastEngine::Read(std::uint32_t predicate) const {
  const BoundPredicate& p = predicates_[predicate];
  if (p.type == DType::kPred) return *static_cast<const unsigned char*>(p.data) != 0;
  return ReadIndex(p.type, p.data);
}

void FastEngine::Transfer(HostContext& context, BoundTransfer& transfer, bool in) {
  StreamState& stream = streams_[transfer.stream];
  unsigned char* host = stream.cursor;
  if (stream.port != nullptr && in) stream.port->Fill();
  for (std::size_t i = 0; i < transfer.tensor.size(); ++i) {
    HostTensor& packed = transfer.packed[i];
    if (packed.num_elements() == 0) continue;
    packed.data = host;
    host += static_cast<std::size_t>(packed.num_elements()) * SizeOf(packed.type);
    if (in) {
      CopyTensor(context, packed, transfer.tensor[i]);
    } else {
      CopyTensor(context, transfer.tensor[i], packed);
    }
  }
  if (stream.port == nullptr) return Advance(&stream);
  if (in) {
    stream.port->Consumed();
  } else {
    stream.port->Deliver();
  }
}

void FastEngine::Print(const ProgramNode& node) {
  HostContext context{ThreadPool::Global(), scratch_};
  std::vector<HostTensor>& tensors = prints_[static_cast<std::size_t>(
      std::find(plan_.code.prints.begin(), plan_.code.prints.end(), &node) - plan_.code.prints.begin())];
  std::vector<unsigned char> dense;
  const DType type = tensors.empty() ? DType::kF32 : tensors[0].type;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t bytes = static_cast<std::size_t>(tensors[i].num_elements()) * SizeOf(type);
    if (bytes == 0) continue;
    dense.resize(dense.size() + bytes);
    HostTensor packed = Packed(node.tensor[i]);
    packed.data = dense.data() + dense.size() - bytes;
    CopyTensor(context, tensors[i], packed);
  }
  PrintTensor(*print_stream_, node.text, type, node.shape, dense.data(), node.format);
}

void FastEngine::Run(unsigned program) {
  if (unconnected_ > 0) CheckConnected(program);
  cycles_.Reset();
  loop_limit_.Start();
  const CycleClock::Scope clock(&cycles_);
  Execute(program);
  last_run_ = program;
  last_run_cycles_ = cycles_.total(program);
  if (moving_streams_) {
    for (const HostPlan::StreamUse& use : plan_.streams[program]) {
      StreamState& s = streams_[use.stream];
      if (use.bound) Advance(&s);
      Point(&s, s.cursor);
    }
  }
}

void FastEngine::PointBound(BoundOperation& bound) {
  if (bound.moved) bound.bound->Point(bound.in.data(), bound.out.data(), bound_memory_);
  bound.moved = false;
}

void FastEngine::RunLoop(const LoopCode& loop) {
  for (const std::uint32_t operation : loop.operations) PointBound(operations_[operation]);
  if (loop.Run(code_bases_.data())) return;
  std::rethrow_exception(std::exchange(code_error_, nullptr));
}

void FastEngine::Perform(HostContext& context, const HostInstruction& in) {
  const HostCode& host = plan_.code;
  switch (in.code) {
    case OpCode::kRun: {
      BoundOperation& bound = operations_[in.a];
      if (bound.bound != nullptr) {
        PointBound(bound);
        bound.bound->Run();
        return;
      }
      scratch_.Reset();
      if (bound.between != nullptr) {
        bound.between->Communicate(context, replica_, bound.in, bound.out);
      } else {
        bound.operation->Run(context, bound.in, bound.out);
      }
      return;
    }
    case OpCode::kRunBands:
      RunBands(context, in.a);
      return;
    case OpCode::kStreamIn:
      Transfer(context, transfers_[in.a], true);
      return;
    case OpCode::kStreamOut:
      Transfer(context, transfers_[in.a], false);
      return;
    case OpCode::kPrint:
      Print(*host.prints[in.a]);
      return;
    case OpCode::kHostCall:
      host_functions_.Call(in.a);
      return;
    case OpCode::kAbortIfNotZero:
      if (Read(in.a) != 0) throw poplar::application_runtime_error(host.messages[in.target]);
      return;
    case OpCode::kAbort:
      throw poplar::application_runtime_error(host.messages[in.target]);
    default:
      return;
  }
}

void FastEngine::Execute(unsigned program) {
  const FlushDenormals flush;
  HostContext context{ThreadPool::Global(), scratch_};
  const HostCode& host = plan_.code;
  const HostInstruction* const code = host.code.data();
  const HostInstruction* next = code + host.begin[program];
  while (true) {
    cancellation_.Check();
    const HostInstruction& in = *next++;
    switch (in.code) {
      case OpCode::kRun:
      case OpCode::kRunBands:
      case OpCode::kStreamIn:
      case OpCode::kStreamOut:
      case OpCode::kPrint:
      case OpCode::kHostCall:
      case OpCode::kAbortIfNotZero:
      case OpCode::kAbort:
        Perform(context, in);
        break;
      case OpCode::kRunLoop:
        RunLoop(loops_[in.a]);
        next = code + in.target;
        break;
      case OpCode::kUndefined:
      case OpCode::kSync:
        break;
      case OpCode::kJump:
        next = code + in.target;
        break;
      case OpCode::kJumpIfZero:
        if (Read(in.a) == 0) next = code + in.target;
        break;
      case OpCode::kJumpIfNotZero:
        if (Read(in.a) != 0) next = code + in.target;
        break;
      case OpCode::kSetCounter:
        counters_[in.a] = host.counts[in.a];
        break;
      case OpCode::kLoop:
        cancellation_.CountTrip();
        if (--counters_[in.a] > 0) next = code + in.target;
        break;
      case OpCode::kEnterLoop:
        cycles_.Enter(in.a);
        break;
      case OpCode::kTrip:
        cancellation_.CountTrip();
        cycles_.Trip(in.a);
        loop_limit_.Check();
        break;
      case OpCode::kSwitch: {
        const SwitchTable& table = host.switches[in.a];
        const std::int64_t value = Read(table.predicate);
        const auto found = std::find(table.cases.begin(), table.cases.end(), value);
        next = code + table.targets[static_cast<std::size_t>(found - table.cases.begin())];
        break;
      }
      case OpCode::kCall:
        return_slots_[in.a] = static_cast<std::uint32_t>(next - code);
        next = code + in.target;
        break;
      case OpCode::kReturn:
        next = code + return_slots_[in.a];
        break;
      case OpCode::kEnd:
        return;
    }
  }
}

}  // namespace ipu_model
