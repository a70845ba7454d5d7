// Residency: running a program, with what the run adds to traces, counters and the log.
#include <exception>
#include <string>
#include <utility>

#include "ipu_model/Log.hpp"
#include "runtime/device/residency.h"

namespace jax_ipu {

using ipu_model::LogLevel;
using ipu_model::LogModule;

void Residency::CheckCancelled(const LoadedProgram& program) const {
  if (!cancellation_.requested.load(std::memory_order_relaxed)) return;
  throw Error(Code::kCancelled, "The run of '" + program.executable_->name + "' on IPU " +
                                    std::to_string(device_id_) +
                                    " was cancelled by an interrupt (Ctrl-C). It has no results, and the "
                                    "arrays that were donated to it are deleted. The IPU is ready for the "
                                    "next run");
}

void Residency::RunMain(LoadedProgram& program) {
  DeviceEngine& engine = *program.image_->engine_;
  engine.SetCancellation(&cancellation_.requested, cancellation_.poll);
  try {
    engine.Run(program.entry().main_program);
  } catch (...) {
    engine.SetCancellation(nullptr, nullptr);
    engine.DisconnectRemoteBuffers();
    CheckCancelled(program);
    throw;
  }
  engine.SetCancellation(nullptr, nullptr);
  engine.DisconnectRemoteBuffers();
}

void Residency::Run(const std::shared_ptr<LoadedProgram>& program, const std::vector<Argument>& arguments,
                    const ArrayList& outputs, ipu_model::ReplicaGroup* group, std::uint64_t run_id,
                    LinkRound* round) {
  if (!Trace::IsActive()) return RunUntraced(program, arguments, outputs, group, round);
  const std::shared_ptr<TracedWork> work = NewWork();
  work->run_id = run_id == 0 ? Trace::NextRunId() : run_id;
  work->meets_others = group != nullptr;
  work->executable = program->executable_;
  work->replica = program->replica_;
  traced_ = work.get();
  try {
    RunUntraced(program, arguments, outputs, group, round);
  } catch (const std::exception& error) {
    traced_ = nullptr;
    work->error = error.what();
    work->end_ns = Trace::Now();
    Trace::Add(work);
    throw;
  }
  traced_ = nullptr;
  work->stream_prefix = program->entry().prefix;
  work->cycles = program->image_->engine_->LastRunCycles();
  work->loops = program->image_->engine_->LastRunLoops();
  try {
    work->timeline = program->image_->engine_->timeline(program->entry().main_program);
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
                            ipu_model::ReplicaGroup* group, LinkRound* round) {
  CheckCancelled(*program);
  std::vector<std::shared_ptr<void>>
      held;  // borrowed memory that another thread may give back during the run
  for (const Argument& argument : arguments) {
    if (const Error* error = Wait(argument.array->ready())) throw Error(*error);
    if (!argument.array->on_host()) continue;
    if (std::shared_ptr<void> memory = argument.array->host()->Hold()) held.push_back(std::move(memory));
  }
  if (round != nullptr) LinkTogether(program, arguments, *round);
  Load(program, arguments);
  SwapStates(*program, arguments);
  PrepareHostCopies(*program, arguments);
  ConnectStreams(*program, arguments, outputs);
  try {
    WriteState(*program, arguments);
    WriteKept(*program, arguments);
    program->image_->engine_->SetReplica({group, program->replica_});
    RunMain(*program);
  } catch (...) {
    CountHostCalls(*program);
    ReleaseState(*program, arguments);  // the variables may be half written
    ForgetKept(*program->image_);
    throw;
  }
  CountHostCalls(*program);
  ReleaseState(*program, arguments);
  TransferState(*program, arguments, outputs);
  Add(usage_->runs, 1);
  Add(usage_->link_bytes, program->executable_->cost.link_bytes);
  Add(usage_->cycles, program->image_->engine_->LastRunCycles());
  LogRun(*program);
}

void Residency::LogRun(const LoadedProgram& program) const {
  if (!IsLogged(LogModule::kEngine, LogLevel::kDebug)) return;
  const Counters now = counters();
  Log(LogModule::kEngine, LogLevel::kDebug,
      "IPU " + std::to_string(device_id_) + " ran '" + program.executable_->name +
          "': " + std::to_string(program.image_->engine_->LastRunCycles()) + " cycles; so far " +
          std::to_string(now.runs) + " runs, " + std::to_string(now.engine_loads) + " loads, " +
          std::to_string(now.h2d_bytes) + " bytes received, " + std::to_string(now.d2h_bytes) + " sent");
}

void Residency::CountHostCalls(const LoadedProgram& program) {
  const HostCallTraffic traffic = program.image_->engine_->LastHostCalls();
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
