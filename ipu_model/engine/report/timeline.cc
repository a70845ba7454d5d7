// The steps of a run, from the program tree, the report and the trips that loops made.
#include "ipu_model/Timeline.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/target/target_model.h"
#include "engine/cost/cycle_walk.h"
#include "engine/program/compiled_program.h"
#include "engine/program/io_tiles.h"
#include "engine/report/device_report.h"

namespace ipu_model {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

std::uint64_t BytesOf(const std::vector<View>& views) {
  std::uint64_t bytes = 0;
  for (const View& view : views) bytes += static_cast<std::uint64_t>(view.num_elements()) * SizeOf(view.type);
  return bytes;
}

// total * part / whole, rounded down.
std::uint64_t ShareOf(std::uint64_t total, std::uint64_t part, std::uint64_t whole) {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(total) * part / whole);
}

class ProgramTimeline : public Timeline {
 public:
  ProgramTimeline(std::shared_ptr<const CompiledProgram> program, unsigned main)
      : program_(std::move(program)), main_(main), io_tiles_(*program_) {
    std::vector<std::shared_ptr<const ProgramNode>> roots = program_->programs;
    roots.insert(roots.end(), program_->functions.begin(), program_->functions.end());
    const std::vector<const ProgramNode*> nodes = NodesOf(roots);
    const std::vector<LoopCost>& loops = report().loops;
    // The report has a loop once for each call of its function, the engines count its runs together: the
    // first entry stands for all.
    first_entry_.resize(loops.size());
    for (std::size_t i = 0; i < loops.size(); ++i) {
      if (loops[i].node >= nodes.size()) continue;
      std::size_t& entry = nodes_[nodes[loops[i].node]].loop;
      first_entry_[i] = entry == kNone;
      if (entry == kNone) entry = i;
    }
    decision_ = {0, 1, program_->target.model().sync_cycles};
    if (!program_->programs.empty()) Number(*program_->programs.at(main_));
    bytes_.resize(report().operations.size());
  }

  const Report& report() const override { return *program_->report_of(main_); }
  std::uint64_t bytes_accessed(std::size_t operation) const override { return bytes_.at(operation); }

  const std::vector<SuperstepCost>& supersteps(std::size_t operation) const override {
    static const std::vector<SuperstepCost> none;
    std::call_once(has_supersteps_, [this] { supersteps_ = SuperstepsOf(*program_, main_); });
    return operation < supersteps_.size() ? supersteps_[operation] : none;
  }

  bool Visit(const std::vector<LoopRun>& loops, std::uint64_t most_steps, std::uint64_t most_steps_of_run,
             const std::function<void(const Step&)>& visit) const override {
    if (program_->programs.empty()) return true;
    Walk walk(*this, loops, most_steps, most_steps_of_run, visit);
    walk.Run(*program_->programs.at(main_), 1);
    walk.Rest();
    return walk.complete();
  }

 private:
  struct Node {
    std::size_t operation = kNone;  // index into Report::operations
    std::size_t loop = kNone;       // index into Report::loops
    std::size_t branch = kNone;     // of a conditional: the child that the report counts
    Cycles cycles;                  // of one execution, as the report counts it
    bool numbered = false;
  };

  const Node& NodeOf(const ProgramNode& node) const { return nodes_.at(&node); }
  const ProgramNode& FunctionOf(const ProgramNode& node) const {
    return *program_->functions.at(node.function);
  }

  // Finds the rows of the operations, which are in the order of the first visit, and the branches that count.
  // engine/cost/cycle_walk.cc visits the nodes in the same way.
  const Cycles& Number(const ProgramNode& node) {
    Node& entry = nodes_[&node];
    if (std::exchange(entry.numbered, true)) return entry.cycles;
    Cycles cycles;
    switch (node.kind) {
      case ProgramKind::kSequence:
        for (const auto& child : node.children) cycles += Number(*child);
        break;
      case ProgramKind::kOperation:
        cycles = NumberOperation(*node.operation, &entry);
        break;
      case ProgramKind::kRepeat:
        if (node.count > 0) cycles = Number(*node.children[0]) * node.count;
        break;
      case ProgramKind::kRepeatWhileTrue:
      case ProgramKind::kRepeatWhileFalse:
        cycles += Number(*node.children[0]);
        cycles += decision_;
        cycles += Number(*node.children[1]);
        break;
      case ProgramKind::kIf:
      case ProgramKind::kSwitch:
        for (std::size_t i = 0; i < node.children.size(); ++i) {
          const Cycles& branch = Number(*node.children[i]);
          if (branch.total() <= cycles.total()) continue;
          cycles = branch;
          entry.branch = i;
        }
        cycles += decision_;
        break;
      case ProgramKind::kCall:
        cycles = Number(FunctionOf(node));
        break;
      case ProgramKind::kAbort:
        cycles = decision_;
        break;
      case ProgramKind::kSync:
        cycles = SyncCycles(node);
        break;
      case ProgramKind::kStreamIn:
      case ProgramKind::kStreamOut:
      case ProgramKind::kHostCall:
      case ProgramKind::kWriteUndef:
      case ProgramKind::kPrint:
      case ProgramKind::kCount:
        break;
    }
    return entry.cycles = cycles;  // references to entries stay valid
  }

  // 0 where no tile holds the first element.
  std::uint32_t FirstTile(const std::vector<View>& views) const {
    for (const View& view : views) {
      if (view.num_elements() == 0) continue;
      const unsigned tile = program_->variables.at(view.variable).mapping.TileOf(view.offset);
      return tile == kNoTile ? 0 : tile;
    }
    return 0;
  }

  Cycles SyncCycles(const ProgramNode& node) const {
    const TargetModel& target = program_->target.model();
    return {0, 0, node.count == 0 ? target.sync_cycles : target.global_sync_cycles};
  }

  Cycles NumberOperation(const Operation& operation, Node* entry) {
    const auto [row, is_new] = rows_.try_emplace(&operation, rows_.size());
    if (row->second >= report().operations.size()) return {};
    entry->operation = row->second;
    if (is_new) bytes_.push_back(BytesOf(operation.inputs) + BytesOf(operation.outputs));
    const OperationCost& cost = report().operations[row->second];
    const std::uint64_t n = std::max<std::uint64_t>(cost.executions, 1);
    return {cost.cycles.compute / n, cost.cycles.exchange / n, cost.cycles.sync / n};
  }

  class Walk {
   public:
    Walk(const ProgramTimeline& timeline, const std::vector<LoopRun>& loops, std::uint64_t most_steps,
         std::uint64_t most_steps_of_run, const std::function<void(const Step&)>& visit)
        : timeline_(timeline),
          most_steps_(static_cast<double>(most_steps)),
          left_(most_steps_of_run),
          visit_(visit) {
      for (std::size_t i = 0; i < timeline.report().loops.size(); ++i)
        loops_.push_back({i < loops.size() && timeline.first_entry_[i] ? loops[i] : LoopRun()});
    }

    bool complete() const { return left_ > 0; }

    // `n` executions of the node.
    void Run(const ProgramNode& node, std::uint64_t n) {
      if (left_ == 0) return;
      --left_;
      Step step = {};
      step.executions = n;
      switch (node.kind) {
        case ProgramKind::kSequence:
          if (!node.name.empty()) Scope(Kind::kScopeBegin, node, n);
          for (const auto& child : node.children) Run(*child, n);
          if (!node.name.empty()) Scope(Kind::kScopeEnd, node, n);
          return;
        case ProgramKind::kOperation: {
          const Node& entry = timeline_.NodeOf(node);
          if (entry.operation == kNone) return;
          step.kind = Kind::kOperation;
          step.operation = entry.operation;
          step.cycles = entry.cycles * n;
          step.uses_io_tiles = timeline_.io_tiles_.AreUsedBy(*node.operation);
          return visit_(step);
        }
        case ProgramKind::kRepeat: {
          if (node.count == 0) return;
          Begin(node.name, node.count * n);
          Times(*node.children[0], n, node.count);
          return End();
        }
        case ProgramKind::kRepeatWhileTrue:
        case ProgramKind::kRepeatWhileFalse:
          return While(node, n);
        case ProgramKind::kIf:
        case ProgramKind::kSwitch: {
          Decision(node.name, n);
          const std::size_t branch = timeline_.NodeOf(node).branch;
          if (branch != kNone) Run(*node.children[branch], n);
          return;
        }
        case ProgramKind::kCall:
          return Run(timeline_.FunctionOf(node), n);
        case ProgramKind::kAbort:
          return Decision(node.name, n);
        case ProgramKind::kSync:
          step.kind = Kind::kDecision;
          step.name = node.name;
          step.cycles = timeline_.SyncCycles(node) * n;
          return visit_(step);
        case ProgramKind::kStreamIn:
        case ProgramKind::kStreamOut:
          step.kind = node.kind == ProgramKind::kStreamIn ? Kind::kStreamIn : Kind::kStreamOut;
          step.name = timeline_.program_->streams.at(node.stream).name;
          step.bytes = BytesOf(node.tensor) * n;
          step.host_cycles = LinkCycles(*timeline_.program_, node.stream, n, step.bytes);
          step.uses_io_tiles = timeline_.io_tiles_.Hold(node.tensor);
          step.tile = timeline_.FirstTile(node.tensor);
          return visit_(step);
        case ProgramKind::kHostCall: {
          const HostFunction& function = timeline_.program_->host_functions.at(node.function);
          step.kind = Kind::kHostCall;
          step.name = function.name;
          for (const auto* streams : {&function.inputs, &function.outputs}) {
            for (const std::uint32_t i : *streams) {
              const Stream& stream = timeline_.program_->streams.at(i);
              step.bytes += static_cast<std::uint64_t>(stream.num_elements) * SizeOf(stream.type) * n;
            }
          }
          if (function.remote_buffer < 0)
            step.host_cycles = HostLinkCycles(timeline_.program_->target, n, 0);  // as in the report
          return visit_(step);
        }
        case ProgramKind::kWriteUndef:
        case ProgramKind::kPrint:
        case ProgramKind::kCount:
          return;
      }
    }

    // The loops of branches that the walk has not visited as often as the run: as ExecutedCycles counts them.
    void Rest() {
      for (std::size_t i = 0; i < loops_.size(); ++i) {
        const Loop& loop = loops_[i];
        if (loop.seen >= loop.run.entries) continue;
        const std::uint64_t trips = loop.run.trips - ShareOf(loop.run.trips, loop.seen, loop.run.entries);
        const std::uint64_t entries = loop.run.entries - loop.seen;
        if (trips < entries || trips == 0) continue;
        const LoopCost& cost = timeline_.report().loops[i];
        Step step = {};
        step.kind = Kind::kOther;
        step.executions = trips;
        step.name = cost.name;
        step.cycles = cost.condition * trips;
        step.cycles += cost.body * (trips - entries);
        visit_(step);
      }
    }

   private:
    struct Loop {
      LoopRun run;
      std::uint64_t seen = 0;  // executions that the walk has visited
    };

    void Scope(Kind kind, const ProgramNode& node, std::uint64_t n) {
      Step step = {};
      step.kind = kind;
      step.executions = n;
      step.name = node.name;
      step.is_block = node.block;
      visit_(step);
    }
    void Begin(std::string_view name, std::uint64_t trips) {
      Step step = {};
      step.kind = Kind::kLoopBegin;
      step.executions = trips;
      step.name = name;
      visit_(step);
    }
    void End() {
      Step step = {};
      step.kind = Kind::kLoopEnd;
      visit_(step);
    }
    void Decision(std::string_view name, std::uint64_t n) {
      Step step = {};
      step.kind = Kind::kDecision;
      step.executions = n;
      step.name = name;
      step.cycles = timeline_.decision_ * n;
      visit_(step);
    }

    // `count` executions of the body in each of `n`.
    void Times(const ProgramNode& body, std::uint64_t n, std::uint64_t count) {
      if (n > 1 || StepsOf(body) * static_cast<double>(count) > most_steps_) return Run(body, n * count);
      for (std::uint64_t i = 0; i < count && left_ > 0; ++i) Run(body, 1);
    }

    void While(const ProgramNode& node, std::uint64_t n) {
      const ProgramNode &condition = *node.children[0], &body = *node.children[1];
      const std::size_t number = timeline_.NodeOf(node).loop;
      // Executions beyond the entries of the run are in branches that the run did not take: one trip each, of
      // which the report counts one condition.
      std::uint64_t entered = n, trips = 0;
      if (number != kNone) {
        Loop& loop = loops_[number];
        entered = std::min(n, loop.run.entries - std::min(loop.seen, loop.run.entries));
        if (entered > 0) {
          trips = ShareOf(loop.run.trips, loop.seen + entered, loop.run.entries) -
                  ShareOf(loop.run.trips, loop.seen, loop.run.entries);
        }
        loop.seen += n;
      } else {
        entered = 0;
      }
      const std::uint64_t untaken = n - entered;
      Begin(node.name, trips + untaken);
      const double steps = StepsOf(condition) + 1 + StepsOf(body);
      if (n == 1 && untaken == 0 && steps * static_cast<double>(trips) <= most_steps_) {
        for (std::uint64_t i = 0; i < trips && left_ > 0; ++i) {
          Run(condition, 1);
          Decision(node.name, 1);
          Run(body, 1);
        }
        Run(condition, 1);
        Decision(node.name, 1);
      } else {
        Run(condition, n + trips);
        Decision(node.name, n + trips);
        if (trips + untaken > 0) Run(body, trips + untaken);
      }
      End();
    }

    // The number of steps of one execution, with the average trips of loops.
    double StepsOf(const ProgramNode& node) {
      const auto found = steps_.find(&node);
      if (found != steps_.end()) return found->second;
      double steps = 1;
      switch (node.kind) {
        case ProgramKind::kSequence:
          for (const auto& child : node.children) steps += StepsOf(*child);
          break;
        case ProgramKind::kRepeat:
          if (node.count > 0) steps += Unfolded(StepsOf(*node.children[0]), static_cast<double>(node.count));
          break;
        case ProgramKind::kRepeatWhileTrue:
        case ProgramKind::kRepeatWhileFalse: {
          const std::size_t number = timeline_.NodeOf(node).loop;
          const LoopRun run = number == kNone ? LoopRun() : loops_[number].run;
          const double trips =
              run.entries == 0 ? 1 : static_cast<double>(run.trips) / static_cast<double>(run.entries);
          steps += Unfolded(StepsOf(*node.children[0]) + 1 + StepsOf(*node.children[1]), trips);
          break;
        }
        case ProgramKind::kIf:
        case ProgramKind::kSwitch: {
          const std::size_t branch = timeline_.NodeOf(node).branch;
          steps += 1 + (branch == kNone ? 0 : StepsOf(*node.children[branch]));
          break;
        }
        case ProgramKind::kCall:
          steps += StepsOf(timeline_.FunctionOf(node));
          break;
        default:
          break;
      }
      steps_[&node] = steps;
      return steps;
    }
    double Unfolded(double steps, double trips) const {
      return steps * trips > most_steps_ ? steps : steps * std::max(trips, 1.0);
    }

    const ProgramTimeline& timeline_;
    const double most_steps_;
    std::uint64_t left_;
    const std::function<void(const Step&)>& visit_;
    std::vector<Loop> loops_;
    std::unordered_map<const ProgramNode*, double> steps_;
  };

  const std::shared_ptr<const CompiledProgram> program_;
  const unsigned main_;
  const IoTiles io_tiles_;
  Cycles decision_;
  std::unordered_map<const ProgramNode*, Node> nodes_;
  std::unordered_map<const Operation*, std::size_t> rows_;
  std::vector<bool> first_entry_;     // by entry of Report::loops
  std::vector<std::uint64_t> bytes_;  // by row
  mutable std::once_flag has_supersteps_;
  mutable std::vector<std::vector<SuperstepCost>> supersteps_;  // by row; of the last rows none
};

}  // namespace

std::shared_ptr<const Timeline> MakeTimeline(const poplar::Executable& executable, unsigned main) {
  return std::make_shared<ProgramTimeline>(executable.program(), main);
}

}  // namespace ipu_model
