// Residency: loading, spilling, and moving state and streams around a run.
#include "runtime/device/residency.h"

#include <algorithm>
#include <string>

#include "ipu_model/Log.hpp"
#include "runtime/executable/stream_titles.h"

namespace jax_ipu {
namespace {

using ipu_model::LogLevel;
using ipu_model::LogModule;
// A run that has to spill more than this first is left to the device's thread.
constexpr std::size_t kCheapSpillBytes = std::size_t{256} << 10;

std::size_t LargestInput(const Executable& executable) {
  std::size_t bytes = sizeof(Seed);
  for (const InputSpec& input : executable.inputs) bytes = std::max(bytes, input.tensor.bytes());
  return bytes;
}
}  // namespace

LoadedProgram::LoadedProgram(std::shared_ptr<const Executable> executable, unsigned replica)
    : executable_(std::move(executable)),
      replica_(replica),
      callbacks_(executable_->host_callbacks),
      ffi_calls_(executable_->ffi_calls),
      inputs_(executable_->inputs.size()),
      output_streams_(executable_->outputs.size(), -1),
      output_is_remote_(executable_->outputs.size()) {
  for (const InputSpec& input : executable_->inputs) {
    if (input.aliased_output >= 0) resident_bytes_ += input.tensor.bytes();
  }
}

void Residency::Connect(LoadedProgram& program) {
  const Executable& executable = *program.executable_;
  // The compiler may leave out streams of tensors without elements.
  const auto index = [&program](const TensorSpec& tensor, const std::string& name) {
    if (tensor.bytes() == 0 && !program.engine_->HasStream(name)) return -1;
    return program.engine_->StreamIndex(name);
  };
  for (std::size_t i = 0; i < executable.inputs.size(); ++i) {
    const InputSpec& spec = executable.inputs[i];
    LoadedProgram::Input& input = program.inputs_[i];
    const std::string number = std::to_string(i);
    if (spec.aliased_output >= 0) {
      input.write_stream = index(spec.tensor, "state" + number);
      input.read_stream = index(spec.tensor, "state" + number + ".out");
    } else if (spec.kept()) {
      input.write_stream = index(spec.tensor, "state" + number);
    } else if (spec.used) {
      input.is_remote = program.engine_->HasRemoteBuffer("in" + number);
      if (!input.is_remote) input.stream = index(spec.tensor, "in" + number);
    }
  }
  for (std::size_t j = 0; j < executable.outputs.size(); ++j) {
    const OutputSpec& spec = executable.outputs[j];
    if (spec.aliased_input >= 0 || spec.forwarded_input >= 0) continue;
    const std::string name = "out" + std::to_string(j);
    program.output_is_remote_[j] = program.engine_->HasRemoteBuffer(name);
    if (!program.output_is_remote_[j]) program.output_streams_[j] = index(spec.tensor, name);
  }
  if (program.engine_->HasStream(kSeedStream)) {
    program.seed_stream_ = program.engine_->StreamIndex(kSeedStream);
  }
}

void Residency::Load(const std::shared_ptr<LoadedProgram>& program) {
  if (loaded_ == program) return;
  if (loaded_) Spill(*loaded_);
  loaded_.reset();
  if (!program->engine_) {
    std::unique_ptr<DeviceEngine> created = factory_(*program->executable_, config_);
    created->ConnectFfiCalls(program->ffi_calls_, device_id_);
    program->engine_ = std::move(created);
    if (config_.synthetic_data) program->zeros_ = HostBlock::Zeros(LargestInput(*program->executable_));
    Connect(*program);
  }
  program->engine_->Load();
  loaded_ = program;
  Add(usage_->engine_loads, 1);
  usage_->SetProgram(program->executable_->name);
  const std::uint64_t bytes = program->executable_->memory.total_bytes;
  usage_->bytes_in_use.store(bytes, std::memory_order_relaxed);
  if (bytes > peak_bytes_in_use()) usage_->peak_bytes_in_use.store(bytes, std::memory_order_relaxed);
}

void Residency::Spill(LoadedProgram& program) {
  ForgetKept(program);
  for (LoadedProgram::Input& input : program.inputs_) {
    if (const std::shared_ptr<Array> array = input.resident.lock()) {
      Fetch(*array);
      array->program_.reset();
    }
    input.resident.reset();
  }
}

void Residency::Fetch(Array& array) {
  if (const Error* error = Wait(array.ready())) throw Error(*error);
  if (array.on_host()) {
    if (!array.received_) CountRead(array);
    return;
  }
  const std::string stream = "state" + std::to_string(array.slot_) + ".out";
  const std::shared_ptr<const Executable> executable = array.program_->executable_;
  array.PublishHost(Read(array));
  CountReceived(array.spec().bytes());
  if (Trace::IsActive())
    TraceTransfer(TracedTransfer::Kind::kToHost, TitleOfStream(*executable, stream), array.spec().bytes());
}

void Residency::FetchForLinks(Array& array) {
  if (const Error* error = Wait(array.ready())) throw Error(*error);
  if (array.on_host()) return;
  array.only_on_ipus_.store(true, std::memory_order_relaxed);
  array.PublishHost(Read(array));
}

void Residency::CountRead(Array& array) {
  if (!array.only_on_ipus() || !array.only_on_ipus_.exchange(false)) return;
  CountReceived(array.spec().bytes());
  if (Trace::IsActive()) AddToTraces({TracedTransfer::Kind::kToHost, "", array.spec().bytes(), 0});
}

std::uint64_t Residency::BytesToSend(Array& array) {
  return std::exchange(array.received_, false) ? 0 : array.spec().bytes();
}

std::shared_ptr<HostBlock> Residency::Read(const Array& array) {
  // Keeps the program alive: the array may be its last owner, and gives it up when it is published.
  const std::shared_ptr<LoadedProgram> program = array.program_;
  if (!program || program != loaded_) {
    throw Error(Code::kInternal, "An array is neither on the host nor on the device");
  }
  const std::size_t bytes = array.spec().bytes();
  if (config_.synthetic_data) return HostBlock::Zeros(bytes);
  LogTransfer("reads", array.slot_, bytes);
  std::shared_ptr<HostBlock> block = HostBlock::Allocate(pool_, bytes);
  if (bytes > 0) {
    program->engine_->ConnectStream(program->inputs_[array.slot_].read_stream, block->data());
    program->engine_->Run(program->executable_->inputs[array.slot_].read_program);
  }
  return block;
}

bool Residency::IsCheapToSwitchTo(const LoadedProgram& program) const {
  if (!program.engine_) return false;
  return loaded_.get() == &program || !loaded_ || loaded_->resident_bytes_ <= kCheapSpillBytes;
}

// Requires that one of the two is the first input of its type.
void Residency::Swap(LoadedProgram& program, std::size_t first, std::size_t other) {
  program.engine_->Run(program.executable_->inputs[other].swap_program);
  std::swap(program.inputs_[first].resident, program.inputs_[other].resident);
  for (const std::size_t slot : {first, other}) {
    if (const std::shared_ptr<Array> array = program.inputs_[slot].resident.lock()) array->slot_ = slot;
  }
}

// Follows each cycle of the permutation, through the first variable of the type: one swap for each state that
// moves, and one more where the first is not in the cycle.
void Residency::SwapStates(LoadedProgram& program, const std::vector<Argument>& arguments) {
  const std::vector<InputSpec>& inputs = program.executable_->inputs;
  const auto is_here = [&](std::size_t i) {
    return inputs[i].aliased_output >= 0 && arguments[i].array->program_.get() == &program;
  };
  bool in_place = true;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    in_place = in_place && (!is_here(i) || arguments[i].array->slot_ == i);
  }
  if (in_place) return;

  const auto first_of_type = [&](std::size_t slot) {
    return inputs[slot].swap_with < 0 ? slot : static_cast<std::size_t>(inputs[slot].swap_with);
  };
  // For each variable, the argument that is the array in it. An array that is passed as two arguments counts
  // as the argument of its variable.
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::vector<std::size_t> argument_in(inputs.size(), kNone);
  for (const bool moves : {false, true}) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!is_here(i)) continue;
      const std::size_t from = arguments[i].array->slot_;
      if ((from != i) != moves || argument_in[from] != kNone) continue;
      if (first_of_type(from) == first_of_type(i)) argument_in[from] = i;
    }
  }
  const auto is_misplaced = [&](std::size_t slot) {
    return argument_in[slot] != kNone && argument_in[slot] != slot;
  };
  const auto swap = [&](std::size_t first, std::size_t other) {
    Swap(program, first, other);
    std::swap(argument_in[first], argument_in[other]);
  };
  for (std::size_t slot = 0; slot < inputs.size(); ++slot) {
    while (is_misplaced(slot)) {
      const std::size_t first = first_of_type(slot);
      if (slot != first) swap(first, slot);
      while (is_misplaced(first)) swap(first, argument_in[first]);
    }
  }
}

void Residency::PrepareHostCopies(LoadedProgram& program, const std::vector<Argument>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const InputSpec& spec = program.executable_->inputs[i];
    Array& array = *arguments[i].array;
    if (spec.aliased_output < 0) {
      if (spec.used) Fetch(array);
      continue;
    }
    if (IsIn(array, program, i)) {
      if (!arguments[i].donated) Fetch(array);  // main overwrites the variable, the caller keeps the array
      continue;
    }
    Fetch(array);
    if (const std::shared_ptr<Array> occupant = program.inputs_[i].resident.lock()) {
      Fetch(*occupant);
      occupant->program_.reset();
    }
  }
}

void Residency::CountWrite(const LoadedProgram& program, std::size_t input, std::uint64_t bytes) {
  CountSent(bytes);
  if (traced_ != nullptr && bytes > 0)
    TraceTransfer(TracedTransfer::Kind::kFromHost,
                  TitleOfStream(*program.executable_, "state" + std::to_string(input)), bytes);
}

void Residency::WriteState(LoadedProgram& program, const std::vector<Argument>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const InputSpec& spec = program.executable_->inputs[i];
    Array& array = *arguments[i].array;
    const std::size_t bytes = spec.tensor.bytes();
    if (spec.aliased_output < 0 || bytes == 0 || IsIn(array, program, i) || config_.synthetic_data) continue;
    program.engine_->ConnectStream(program.inputs_[i].write_stream, array.host()->data());
    program.engine_->Run(spec.write_program);
    LogTransfer("writes", i, bytes);
    CountWrite(program, i, BytesToSend(array));
  }
}

void Residency::WriteKept(LoadedProgram& program, const std::vector<Argument>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const InputSpec& spec = program.executable_->inputs[i];
    if (!spec.kept()) continue;
    // Host memory is written only once, so the same block always holds the same value. Where it lies matters
    // to the model, which reads it there.
    std::weak_ptr<HostBlock>& kept = program.inputs_[i].kept;
    const std::shared_ptr<HostBlock>& block =
        config_.synthetic_data ? program.zeros_ : arguments[i].array->host();
    void* const data = block->data();
    const bool same = !kept.owner_before(block) && !block.owner_before(kept);
    if (same && program.inputs_[i].kept_data == data) continue;
    program.engine_->ConnectStream(program.inputs_[i].write_stream, data);
    program.engine_->Run(spec.write_program);
    LogTransfer("writes", i, spec.tensor.bytes());
    CountWrite(program, i, BytesToSend(*arguments[i].array));
    kept = block;
    program.inputs_[i].kept_data = data;
  }
}

void Residency::ConnectStreams(LoadedProgram& program, const std::vector<Argument>& arguments,
                               const ArrayList& outputs) {
  const Executable& executable = *program.executable_;
  std::uint64_t h2d = 0, d2h = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (program.inputs_[i].is_remote) {
      program.engine_->ConnectRemoteBuffer("in" + std::to_string(i), SourceOf(program, *arguments[i].array));
      arguments[i].array->received_ = false;
    }
    if (program.inputs_[i].stream < 0) continue;
    program.engine_->ConnectStream(program.inputs_[i].stream, SourceOf(program, *arguments[i].array));
    const std::uint64_t sent = BytesToSend(*arguments[i].array);
    h2d += sent;
    if (traced_ != nullptr && sent == 0) traced_->streams_from_ipus.push_back("in" + std::to_string(i));
  }
  for (std::size_t j = 0; j < outputs.size(); ++j) {
    if (program.output_is_remote_[j]) {
      program.engine_->ConnectRemoteBuffer("out" + std::to_string(j), outputs[j]->host()->data());
    } else if (program.output_streams_[j] >= 0) {
      program.engine_->ConnectStream(program.output_streams_[j], outputs[j]->host()->data());
      d2h += outputs[j]->host()->bytes();
    } else if (const int forwarded = executable.outputs[j].forwarded_input;
               forwarded >= 0 && !outputs[j]->on_host()) {
      Array& array = *arguments[static_cast<std::size_t>(forwarded)].array;
      Fetch(array);
      outputs[j]->PublishHost(array.host());
    }
  }
  if (program.seed_stream_ >= 0) {
    ++seed_[0];
    program.engine_->ConnectStream(program.seed_stream_, seed_.data());
    h2d += sizeof(Seed);
  }
  CountSent(h2d);
  CountReceived(d2h);
}

void Residency::TransferState(LoadedProgram& program, const std::vector<Argument>& arguments,
                              const ArrayList& outputs) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const InputSpec& spec = program.executable_->inputs[i];
    if (spec.aliased_output < 0) continue;
    const std::shared_ptr<Array>& output = outputs[static_cast<std::size_t>(spec.aliased_output)];
    if (spec.unchanged && arguments[i].array->on_host()) {
      arguments[i].array->host()->Own(pool_);
      output->PublishHost(arguments[i].array->host());
    }
    output->program_ = loaded_;
    output->slot_ = i;
    program.inputs_[i].resident = output;
  }
}

void Residency::ReleaseState(LoadedProgram& program, const std::vector<Argument>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (program.executable_->inputs[i].aliased_output < 0) continue;
    arguments[i].array->program_.reset();
    program.inputs_[i].resident.reset();
  }
}

void Residency::ForgetKept(LoadedProgram& program) {
  for (LoadedProgram::Input& input : program.inputs_) input.kept.reset();
}

void Residency::CheckCancelled(const LoadedProgram& program) const {
  if (!cancellation_.requested.load(std::memory_order_relaxed)) return;
  throw Error(Code::kCancelled, "The run of '" + program.executable_->name + "' on IPU " +
                                    std::to_string(device_id_) +
                                    " was cancelled by an interrupt (Ctrl-C). It has no results, and the "
                                    "arrays that were donated to it are deleted. The IPU is ready for the "
                                    "next run");
}

void Residency::RunMain(LoadedProgram& program) {
  program.engine_->SetCancellation(&cancellation_.requested, cancellation_.poll);
  try {
    program.engine_->Run(program.executable_->main_program);
  } catch (...) {
    program.engine_->SetCancellation(nullptr, nullptr);
    CheckCancelled(program);
    throw;
  }
  program.engine_->SetCancellation(nullptr, nullptr);
}

void Residency::Run(const std::shared_ptr<LoadedProgram>& program, const std::vector<Argument>& arguments,
                    const ArrayList& outputs, ipu_model::ReplicaGroup* group, std::uint64_t run_id) {
  if (!Trace::IsActive()) return RunUntraced(program, arguments, outputs, group);
  const std::shared_ptr<TracedWork> work = NewWork();
  work->run_id = run_id == 0 ? Trace::NextRunId() : run_id;
  work->meets_others = group != nullptr;
  work->executable = program->executable_;
  work->replica = program->replica_;
  traced_ = work.get();
  try {
    RunUntraced(program, arguments, outputs, group);
  } catch (const std::exception& error) {
    traced_ = nullptr;
    work->error = error.what();
    work->end_ns = Trace::Now();
    Trace::Add(work);
    throw;
  }
  traced_ = nullptr;
  work->cycles = program->engine_->LastRunCycles();
  work->loops = program->engine_->LastRunLoops();
  try {
    work->timeline = program->engine_->timeline();
  } catch (const std::exception&) {
    // The run has succeeded; its operations are missing in the trace, which says so.
  }
  work->end_ns = Trace::Now();
  Trace::Add(work);
}

std::shared_ptr<TracedWork> Residency::NewWork() const {
  auto work = std::make_shared<TracedWork>();
  work->device_id = device_id_;
  work->version = config_.version;
  work->num_tiles = config_.num_tiles;
  work->has_host_link = !config_.synthetic_data;
  work->begin_ns = Trace::Now();
  return work;
}

void Residency::TraceTransfer(TracedTransfer::Kind kind, const std::string& name, std::uint64_t bytes) {
  const TracedTransfer transfer = {kind, name, bytes, 0};
  if (traced_ == nullptr) return AddToTraces(transfer);
  if (!config_.synthetic_data) traced_->transfers.push_back(transfer);
}

void Residency::AddToTraces(const TracedTransfer& transfer) const {
  if (config_.synthetic_data) return;
  const std::shared_ptr<TracedWork> work = NewWork();
  work->run_id = Trace::NextRunId();
  work->end_ns = work->begin_ns;
  work->transfers = {transfer};
  Trace::Add(work);
}

void Residency::RunUntraced(const std::shared_ptr<LoadedProgram>& program,
                            const std::vector<Argument>& arguments, const ArrayList& outputs,
                            ipu_model::ReplicaGroup* group) {
  CheckCancelled(*program);
  std::vector<std::shared_ptr<void>>
      held;  // borrowed memory that another thread may give back during the run
  for (const Argument& argument : arguments) {
    if (const Error* error = Wait(argument.array->ready())) throw Error(*error);
    if (!argument.array->on_host()) continue;
    if (std::shared_ptr<void> memory = argument.array->host()->Hold()) held.push_back(std::move(memory));
  }
  Load(program);
  SwapStates(*program, arguments);
  PrepareHostCopies(*program, arguments);
  ConnectStreams(*program, arguments, outputs);
  try {
    WriteState(*program, arguments);
    WriteKept(*program, arguments);
    program->engine_->SetReplica({group, program->replica_});
    RunMain(*program);
  } catch (...) {
    CountHostCalls(*program);
    ReleaseState(*program, arguments);  // the variables may be half written
    ForgetKept(*program);
    throw;
  }
  CountHostCalls(*program);
  ReleaseState(*program, arguments);
  TransferState(*program, arguments, outputs);
  Add(usage_->runs, 1);
  Add(usage_->link_bytes, program->executable_->cost.link_bytes);
  Add(usage_->cycles, program->engine_->LastRunCycles());
  LogRun(*program);
}

void Residency::LogTransfer(const char* what, std::size_t slot, std::size_t bytes) const {
  if (config_.synthetic_data || !IsLogged(LogModule::kEngine, LogLevel::kTrace)) return;
  Log(LogModule::kEngine, LogLevel::kTrace,
      "IPU " + std::to_string(device_id_) + ": the host " + what + " state " + std::to_string(slot) + ", " +
          std::to_string(bytes) + " bytes");
}

void Residency::LogRun(const LoadedProgram& program) const {
  if (!IsLogged(LogModule::kEngine, LogLevel::kDebug)) return;
  const Counters now = counters();
  Log(LogModule::kEngine, LogLevel::kDebug,
      "IPU " + std::to_string(device_id_) + " ran '" + program.executable_->name +
          "': " + std::to_string(program.engine_->LastRunCycles()) + " cycles; so far " +
          std::to_string(now.runs) + " runs, " + std::to_string(now.engine_loads) + " loads, " +
          std::to_string(now.h2d_bytes) + " bytes received, " + std::to_string(now.d2h_bytes) + " sent");
}

void Residency::CountHostCalls(const LoadedProgram& program) {
  const HostCallTraffic traffic = program.engine_->LastHostCalls();
  CountSent(traffic.h2d_bytes);
  CountReceived(traffic.d2h_bytes);
}

Counters Residency::counters() const {
  const auto read = [](const UsageCounter& counter) { return counter.load(std::memory_order_relaxed); };
  Counters counters;
  counters.h2d_bytes = read(usage_->h2d_bytes);
  counters.d2h_bytes = read(usage_->d2h_bytes);
  counters.engine_loads = read(usage_->engine_loads);
  counters.runs = read(usage_->runs);
  counters.cycles = read(usage_->cycles);
  counters.link_bytes = read(usage_->link_bytes);
  return counters;
}

}  // namespace jax_ipu
