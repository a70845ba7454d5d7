#include "engine/cost/cycle_walk.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/cost/exchange.h"
#include "engine/program/compiled_program.h"
#include "engine/program/io_tiles.h"

namespace ipu_model {
namespace {

class CycleWalk {
 public:
  CycleWalk(const CompiledProgram& program, const OperationUses* uses, Report* report,
            CycleObserver* observer)
      : program_(program),
        uses_(uses),
        target_(program.target.model()),
        report_(*report),
        observer_(observer),
        io_tiles_(program) {
    std::vector<std::shared_ptr<const ProgramNode>> roots = program.programs;
    roots.insert(roots.end(), program.functions.begin(), program.functions.end());
    std::uint32_t number = 0;
    for (const ProgramNode* node : NodesOf(roots)) numbers_[node] = number++;
  }

  void Run(unsigned main) {
    report_.clock_hz = target_.clock_hz;
    if (program_.programs.empty()) return;
    report_.cycles = Walk(*program_.programs.at(main), 1);
    report_.unknown_trip_count = !report_.loops.empty();
  }

 private:
  // Tiles synchronise before they exchange. Without an exchange each goes on by itself: two cycle counts in a
  // row are target_.cycle_stamp_cycles apart, which is less than a sync.
  Cycles CyclesOf(const SuperstepUse& step) const {
    std::uint64_t sync = step.exchange_cycles > 0 ? target_.sync_cycles : 0;
    if (step.link_syncs > 0) sync = std::uint64_t{step.link_syncs} * target_.global_sync_cycles;
    return {step.compute_cycles, step.exchange_cycles, sync};
  }

  // A predicate is broadcast to all tiles as one word, followed by a sync.
  Cycles Decision() const {
    const Cycles cycles{0, 1, target_.sync_cycles};
    if (observer_ != nullptr) observer_->Decision(cycles);
    return cycles;
  }

  // Returns the cycles of one execution of `node`, which runs `executions` times.
  Cycles Walk(const ProgramNode& node, std::uint64_t executions) {
    if (observer_ == nullptr) return Count(node, executions, nullptr);
    std::size_t counted = 0;
    observer_->Enter(node, executions);
    const Cycles cycles = Count(node, executions, &counted);
    observer_->Leave(cycles, counted);
    return cycles;
  }

  // `cycles` on the tiles that compute, beside the transfer that is under way.
  void Overlap(std::uint64_t cycles, std::uint64_t executions) {
    const std::uint64_t hidden = std::min(cycles, under_way_);
    under_way_ -= hidden;
    report_.overlapped_link_cycles += hidden * executions;
  }

  // A part of the program with transfers of its own: it is beside the transfer before it as a whole, if it
  // leaves the tiles for input and output alone.
  Cycles Apart(const ProgramNode& node, std::uint64_t executions, std::uint64_t times) {
    const std::uint64_t before = std::exchange(under_way_, 0), used = io_uses_;
    const Cycles cycles = Walk(node, executions * times) * times;
    under_way_ = io_uses_ == used ? before : 0;
    Overlap(cycles.total(), executions);
    return cycles;
  }

  Cycles Count(const ProgramNode& node, std::uint64_t executions, std::size_t* counted) {
    Cycles cycles;
    switch (node.kind) {
      case ProgramKind::kSequence:
        for (const auto& child : node.children) cycles += Walk(*child, executions);
        return cycles;
      case ProgramKind::kOperation:
        return Account(*node.operation, executions);
      case ProgramKind::kStreamIn:
      case ProgramKind::kStreamOut: {
        const std::uint64_t bytes = BytesOf(node.tensor) * executions;
        const bool in = node.kind == ProgramKind::kStreamIn;
        (in ? report_.stream_in_bytes : report_.stream_out_bytes) += bytes;
        const std::uint64_t link = LinkCycles(program_, node.stream, executions, bytes);
        report_.host_link_cycles += link;
        if (program_.streams.at(node.stream).remote) {
          (in ? report_.streaming_in_bytes : report_.streaming_out_bytes) += bytes;
          report_.streaming_cycles += link;
        }
        if (io_tiles_.Hold(node.tensor)) {
          under_way_ += LinkCycles(program_, node.stream, 1, BytesOf(node.tensor));
          ++io_uses_;
        } else {
          under_way_ = 0;
          ++io_waits_;
        }
        if (observer_ != nullptr) observer_->Transfer(BytesOf(node.tensor));
        return cycles;
      }
      case ProgramKind::kRepeat:
        if (node.count == 0) return cycles;
        return Apart(*node.children[0], executions, node.count);
      case ProgramKind::kRepeatWhileTrue:
      case ProgramKind::kRepeatWhileFalse: {
        LoopCost loop;
        loop.node = numbers_.at(&node);
        loop.name = node.name;
        loop.condition = Apart(*node.children[0], executions, 1);
        loop.condition += Decision();
        loop.body = Apart(*node.children[1], executions, 1);
        cycles += loop.condition;
        cycles += loop.body;
        report_.loops.push_back(std::move(loop));
        return cycles;
      }
      case ProgramKind::kIf:
      case ProgramKind::kSwitch: {
        const Cycles decision = Decision();
        const std::uint64_t before = std::exchange(under_way_, 0), used = io_uses_, waits = io_waits_;
        std::uint64_t started = 0;  // what is left of the longest transfer that a branch starts
        // Count the most expensive branch.
        for (std::size_t i = 0; i < node.children.size(); ++i) {
          const Cycles branch = Walk(*node.children[i], executions);
          started = std::max(started, std::exchange(under_way_, 0));
          if (branch.total() <= cycles.total()) continue;
          cycles = branch;
          if (counted != nullptr) *counted = i;
        }
        cycles += decision;
        under_way_ = started + (io_waits_ == waits ? before : 0);
        if (io_uses_ == used) Overlap(cycles.total(), executions);
        return cycles;
      }
      case ProgramKind::kCall:
        return Walk(*program_.functions.at(node.function), executions);
      case ProgramKind::kAbort:
        return Decision();
      case ProgramKind::kSync:
        cycles.sync = node.count == 0 ? target_.sync_cycles : target_.global_sync_cycles;
        if (observer_ != nullptr) observer_->Decision(cycles);
        return cycles;
      case ProgramKind::kHostCall:
        // The device waits for the host. The report leaves out the run time of the host function.
        if (program_.host_functions.at(node.function).remote_buffer < 0) {
          report_.host_link_cycles += target_.global_sync_cycles * executions;
          under_way_ = 0;
          ++io_waits_;
        }
        if (observer_ != nullptr) observer_->HostCall();
        return cycles;
      case ProgramKind::kWriteUndef:
      case ProgramKind::kPrint:
      case ProgramKind::kCount:
        return cycles;
    }
    return cycles;
  }

  Cycles Account(const Operation& operation, std::uint64_t executions) {
    const OperationUse* const use = uses_ != nullptr ? uses_->at(&operation).get() : nullptr;
    const auto [entry, is_new] = rows_.try_emplace(&operation, report_.operations.size());
    if (is_new) {
      report_.operations.emplace_back();
      report_.operations.back().kind = operation.kind();
      report_.operations.back().name = operation.name;
      report_.operations.back().scope = operation.scope;
      if (use != nullptr) {
        report_.operations.back().tiles = use->computing_tiles;
        AddCode(*use, &report_.operations.back());
      }
    }
    OperationCost& row = report_.operations[entry->second];
    Cycles cycles;
    std::uint64_t bytes = 0;
    const std::size_t steps = use != nullptr ? use->steps.size() : 0;
    for (std::size_t s = 0; s < steps; ++s) {
      const Cycles of_step = CyclesOf(use->steps[s]);
      cycles += of_step;
      bytes += use->steps[s].exchange_bytes;
      row.link_bytes += use->steps[s].link_bytes * executions;
      report_.link_bytes += use->steps[s].link_bytes * executions;
      if (observer_ != nullptr) observer_->Superstep(entry->second, use, s, of_step);
    }
    if (steps == 0 && observer_ != nullptr) observer_->Superstep(entry->second, use, 0, {});
    row.executions += executions;
    row.cycles += cycles * executions;
    row.exchange_bytes += bytes * executions;
    row.flops += operation.flops() * static_cast<double>(executions);
    if (io_tiles_.AreUsedBy(operation)) {
      under_way_ = 0;
      ++io_uses_;
      ++io_waits_;
    }
    Overlap(cycles.total(), executions);
    report_.exchange_bytes += bytes * executions;
    report_.flops += operation.flops() * static_cast<double>(executions);
    return cycles;
  }

  void AddCode(const OperationUse& use, OperationCost* row) const {
    std::map<std::string, CodeletUse> codelets;
    for (const CodeletUse& codelet : use.codelets) Merge(codelet, &codelets);
    for (const auto& [name, codelet] : codelets) {
      row->codelets.push_back(name);
      row->code_bytes += codelet.bytes * static_cast<std::uint64_t>(
                                             std::count(codelet.tiles.begin(), codelet.tiles.end(), true));
    }
    for (const std::int64_t bytes : use.exchange_code) row->code_bytes += static_cast<std::uint64_t>(bytes);
    row->code_bytes += use.coded_steps * target_.control_code_bytes_per_superstep *
                       std::uint64_t{program_.target.getNumTiles()};
  }

  static std::uint64_t BytesOf(const std::vector<View>& views) {
    std::uint64_t bytes = 0;
    for (const View& view : views) {
      bytes += static_cast<std::uint64_t>(view.num_elements()) * SizeOf(view.type);
    }
    return bytes;
  }

  const CompiledProgram& program_;
  const OperationUses* const uses_;
  const TargetModel& target_;
  Report& report_;
  CycleObserver* const observer_;
  const IoTiles io_tiles_;
  std::unordered_map<const ProgramNode*, std::uint32_t> numbers_;
  std::unordered_map<const Operation*, std::size_t> rows_;
  std::uint64_t under_way_ = 0;  // cycles that the transfers to and from these tiles still take
  std::uint64_t io_uses_ = 0;    // transfers and operations so far that use them
  std::uint64_t io_waits_ = 0;   // operations and other transfers so far that waited for them
};

}  // namespace

std::uint64_t LinkCycles(const CompiledProgram& program, std::uint32_t stream, std::uint64_t transfers,
                         std::uint64_t bytes) {
  const TargetModel& model = program.target.model();
  if (!program.streams.at(stream).remote || model.streaming_memory_bytes_per_second <= 0)
    return HostLinkCycles(program.target, transfers, bytes);
  return model.global_sync_cycles * transfers +
         static_cast<std::uint64_t>(static_cast<double>(bytes) / model.streaming_memory_bytes_per_second *
                                    model.clock_hz);
}

void CountCycles(const CompiledProgram& program, const OperationUses* uses, Report* report,
                 CycleObserver* observer, unsigned main) {
  CycleWalk(program, uses, report, observer).Run(main);
}

}  // namespace ipu_model
