// Profiles: the steps of the main program and what the tiles hold in each.
#include "ipu_model/Profile.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "engine/cost/cycle_walk.h"
#include "engine/cost/tile_addresses.h"
#include "engine/cost/tile_memory.h"
#include "engine/program/compiled_program.h"
#include "engine/program/host_code.h"
#include "engine/program/run_lengths.h"
#include "engine/report/device_report.h"

namespace ipu_model {
namespace {

const char* KindOf(const ProgramNode& node) {
  switch (node.kind) {
    case ProgramKind::kSequence:
      return "sequence";
    case ProgramKind::kOperation:
      return "operation";
    case ProgramKind::kStreamIn:
      return "stream in";
    case ProgramKind::kStreamOut:
      return "stream out";
    case ProgramKind::kRepeat:
      return "repeat";
    case ProgramKind::kRepeatWhileTrue:
    case ProgramKind::kRepeatWhileFalse:
      return "while";
    case ProgramKind::kIf:
      return "if";
    case ProgramKind::kSwitch:
      return "switch";
    case ProgramKind::kCall:
      return "call";
    case ProgramKind::kHostCall:
      return "host call";
    case ProgramKind::kAbort:
      return "abort";
    case ProgramKind::kSync:
      return "sync";
    case ProgramKind::kWriteUndef:
    case ProgramKind::kPrint:
    case ProgramKind::kCount:
      break;
  }
  return "other";
}

// Makes nodes and steps from the walk that counts the cycles, and finds the instruction of each step.
class StepBuilder : public CycleObserver {
 public:
  StepBuilder(const CompiledProgram& program, Profile* profile)
      : program_(program),
        profile_(*profile),
        tree_(profile->nodes),
        steps_(profile->steps),
        code_(Flatten(program, &nodes_)) {}

  // By step: its instruction, counted from the program's first, and its superstep of the operation.
  const std::vector<std::uint32_t>& instructions() const { return instructions_; }
  const std::vector<std::uint32_t>& supersteps() const { return supersteps_; }
  const HostCode& code() const { return code_; }
  // By row of Report::operations.
  const std::vector<const OperationUse*>& uses() const { return uses_; }
  std::vector<RunLengths> TakeComputeRows() { return compute_rows_.Take(); }

  void Enter(const ProgramNode& node, std::uint64_t executions) override {
    Open open{&node, tree_.kind.size(), {}, cursor_};
    tree_.kind.emplace_back(KindOf(node));
    tree_.name.push_back(node.name);
    tree_.parent.push_back(open_.empty() ? -1 : static_cast<std::int32_t>(open_.back().number));
    tree_.operation.push_back(-1);
    tree_.trips.push_back(node.kind == ProgramKind::kRepeat ? node.count : 0);
    tree_.executions.push_back(executions);
    tree_.first_step.push_back(static_cast<std::int32_t>(steps_.node.size()));
    tree_.last_step.push_back(-1);
    tree_.cycles.push_back(0);
    if (!open_.empty()) open_.back().children.push_back(open.number);
    if (node.kind == ProgramKind::kCall) {
      for (std::uint32_t i = cursor_; i < code_.begin.at(1); ++i) {
        if (nodes_[i] != &node) continue;
        open.cursor = i + 1;
        cursor_ = code_.code[i].target;
        break;
      }
    }
    open_.push_back(std::move(open));
  }

  void Leave(const Cycles& cycles, std::size_t counted) override {
    const Open open = std::move(open_.back());
    open_.pop_back();
    std::int32_t& first = tree_.first_step[open.number];
    std::int32_t& last = tree_.last_step[open.number];
    tree_.cycles[open.number] = cycles.total();
    last = static_cast<std::int32_t>(steps_.node.size()) - 1;
    if (last < first) first = last = -1;
    if (open.node->kind == ProgramKind::kIf || open.node->kind == ProgramKind::kSwitch) {
      for (std::size_t i = 0; i < open.children.size(); ++i) {
        const std::int32_t begin = tree_.first_step[open.children[i]];
        if (i == counted || begin < 0) continue;
        std::fill(steps_.counted.begin() + begin,
                  steps_.counted.begin() + tree_.last_step[open.children[i]] + 1, std::uint8_t{0});
      }
    }
    if (open.node->kind == ProgramKind::kCall) cursor_ = open.cursor;
  }

  void Superstep(std::size_t row, const OperationUse* use, std::size_t step, const Cycles& cycles) override {
    if (row == profile_.origins.size()) {
      profile_.origins.push_back(open_.back().node->origin);
      uses_.push_back(use);
    }
    if (step == 0) FindInstruction();
    const auto operation = static_cast<std::int32_t>(row);
    tree_.operation[open_.back().number] = operation;
    AddStep(operation, step, cycles);
    if (use == nullptr || step >= use->steps.size()) return;
    const SuperstepDetail& detail = use->details.at(step);
    steps_.name.back() = detail.codelets;
    steps_.exchange_bytes.back() = use->steps[step].exchange_bytes;
    steps_.link_bytes.back() = use->steps[step].link_bytes;
    steps_.active_tiles.back() = detail.active_tiles;
    steps_.total_compute.back() = detail.total_compute;
    steps_.local_copies.back() = use->steps[step].local_copy_cycles;
    const auto [known, is_new] = compute_row_.try_emplace(&detail, idle_row_);
    if (is_new && !detail.compute_cycles.empty()) known->second = compute_rows_.Add(detail.compute_cycles);
    profile_.tile_compute.lines.back() = known->second;
  }

  void Decision(const Cycles& cycles) override {
    FindInstruction();
    AddStep(-1, 0, cycles);
  }

  void Transfer(std::uint64_t bytes) override {
    FindInstruction();
    AddStep(-1, 0, {});
    steps_.host_bytes.back() = bytes;
    steps_.name.back() = program_.streams.at(open_.back().node->stream).name;
  }

  void HostCall() override {
    FindInstruction();
    AddStep(-1, 0, {});
    steps_.name.back() = program_.host_functions.at(open_.back().node->function).name;
  }

 private:
  struct Open {
    const ProgramNode* node;
    std::size_t number;
    std::vector<std::size_t> children;
    std::uint32_t cursor;  // where the instructions after a call are
  };
  // Whether an instruction makes a step of its node.
  static bool MakesStep(OpCode code) {
    return code != OpCode::kJump && code != OpCode::kSetCounter && code != OpCode::kLoop &&
           code != OpCode::kEnterLoop && code != OpCode::kTrip;
  }

  // Moves the cursor after the next instruction of the node that is open. An operation without one has the
  // place of the instruction before it.
  void FindInstruction() {
    const ProgramNode* const node = open_.back().node;
    for (std::uint32_t i = cursor_; i < code_.begin.at(1); ++i) {
      if (nodes_[i] != node || !MakesStep(code_.code[i].code)) continue;
      instruction_ = i;
      cursor_ = i + 1;
      return;
    }
  }

  void AddStep(std::int32_t operation, std::size_t superstep, const Cycles& cycles) {
    const std::size_t node = open_.back().number;
    steps_.node.push_back(static_cast<std::uint32_t>(node));
    steps_.operation.push_back(operation);
    steps_.name.emplace_back();
    steps_.executions.push_back(tree_.executions[node]);
    steps_.counted.push_back(1);
    steps_.compute.push_back(cycles.compute);
    steps_.exchange.push_back(cycles.exchange);
    steps_.sync.push_back(cycles.sync);
    steps_.exchange_bytes.push_back(0);
    steps_.link_bytes.push_back(0);
    steps_.host_bytes.push_back(0);
    steps_.active_tiles.push_back(0);
    steps_.total_compute.push_back(0);
    steps_.local_copies.push_back(0);
    profile_.tile_compute.lines.push_back(idle_row_);
    instructions_.push_back(instruction_);
    supersteps_.push_back(static_cast<std::uint32_t>(superstep));
  }

  const CompiledProgram& program_;
  Profile& profile_;
  ProfileNodes& tree_;
  ProfileSteps& steps_;
  std::vector<const ProgramNode*> nodes_;  // before code_, which fills it
  const HostCode code_;
  std::vector<Open> open_;
  std::uint32_t cursor_ = 0, instruction_ = 0;
  std::vector<std::uint32_t> instructions_, supersteps_;
  std::vector<const OperationUse*> uses_;
  std::unordered_map<const SuperstepDetail*, std::uint32_t> compute_row_;
  RunLengthRows compute_rows_;
  const std::uint32_t idle_row_ =
      compute_rows_.Add(RunLengthsOf(std::vector<int>(program_.target.getNumTiles(), 0)));
};

// The steps in which instructions run. Those of a function are steps of each of its calls.
class StepsOfInstructions {
 public:
  explicit StepsOfInstructions(const std::vector<std::uint32_t>& instructions) : instructions_(instructions) {
    for (std::uint32_t s = 0; s < instructions.size(); ++s) {
      if (s == 0 || instructions[s] < instructions[s - 1]) rising_.push_back(s);
    }
    rising_.push_back(static_cast<std::uint32_t>(instructions.size()));
  }

  // Appends (first, last) for each range of steps whose instructions are in [first, last].
  void Find(std::uint32_t first, std::uint32_t last,
            std::vector<std::pair<std::uint32_t, std::uint32_t>>* out) const {
    for (std::size_t r = 0; r + 1 < rising_.size(); ++r) {
      const auto begin = instructions_.begin() + rising_[r], end = instructions_.begin() + rising_[r + 1];
      const auto low = std::lower_bound(begin, end, first), high = std::upper_bound(low, end, last);
      if (low == high) continue;
      out->emplace_back(static_cast<std::uint32_t>(low - instructions_.begin()),
                        static_cast<std::uint32_t>(high - instructions_.begin()) - 1);
    }
  }

 private:
  const std::vector<std::uint32_t>& instructions_;
  std::vector<std::uint32_t> rising_;  // where instructions no longer rise: a call or its end
};

class ProfileBuilder {
 public:
  ProfileBuilder(const CompiledProgram& program, DeviceAnalysis* analysis)
      : program_(program), memory_(analysis->memory), uses_(analysis->planned ? &analysis->uses : nullptr) {}

  Profile Build() {
    StepBuilder steps(program_, &profile_);
    Report report;
    CountCycles(program_, uses_, &report, &steps);
    profile_.operations = std::move(report.operations);
    profile_.tile_compute.rows = steps.TakeComputeRows();
    memory_.Profile(&lines_);
    AddMemory(steps);
    AddVariables(steps);
    if (uses_ != nullptr) {
      AddBuffers(steps);
      AddExchange(steps);
    }
    profile_.variables.rows = variable_rows_.Take();
    AddAddresses(block_of_variable_, num_blocks_, lines_, steps.instructions().size(), &profile_);
    if (lines_.too_many_rows) {
      profile_.tile_memory.lines.clear();
    } else {
      profile_.tile_memory.rows = lines_.rows.Take();
    }
    return std::move(profile_);
  }

 private:
  const MemoryProfile::Line* LineOf(const StepBuilder& steps, std::size_t step) const {
    const std::int64_t first = lines_.first_line.at(steps.instructions()[step]);
    if (first < 0) return nullptr;
    // The instruction of an operation that makes none may have fewer lines.
    const auto line = static_cast<std::size_t>(first) + steps.supersteps()[step];
    return &lines_.lines.at(std::min(line, lines_.lines.size() - 1));
  }

  void AddMemory(const StepBuilder& steps) {
    ProfileMemory& memory = profile_.memory;
    memory.variables = RunLengthsOf(lines_.variables);
    memory.temporaries = RunLengthsOf(lines_.temporaries);
    memory.exchange_buffers = RunLengthsOf(lines_.buffers);
    memory.constants = RunLengthsOf(lines_.constants);
    memory.vertex_state = RunLengthsOf(lines_.vertex_state);
    memory.code = RunLengthsOf(lines_.code);
    memory.total = RunLengthsOf(lines_.total);
    for (const TileBytes* bytes : {&lines_.constants, &lines_.vertex_state, &lines_.code}) {
      for (const std::int64_t b : *bytes) memory.always_live_bytes += static_cast<std::uint64_t>(b);
    }
    for (std::size_t s = 0; s < steps.instructions().size(); ++s) {
      const MemoryProfile::Line* const line = LineOf(steps, s);
      profile_.tile_memory.lines.push_back(line != nullptr ? line->row : 0);
      profile_.steps.live_bytes.push_back(line != nullptr ? static_cast<std::uint64_t>(line->bytes) : 0);
      profile_.steps.fullest_bytes.push_back(line != nullptr ? static_cast<std::uint64_t>(line->fullest_bytes)
                                                             : 0);
      profile_.steps.fullest_tile.push_back(line != nullptr ? line->fullest_tile : 0);
      if (memory.peak_step < 0 && lines_.peak_program == 0 &&
          steps.instructions()[s] == lines_.peak_instruction && steps.supersteps()[s] == lines_.peak_step) {
        memory.peak_step = static_cast<std::int32_t>(s);
      }
    }
  }

  // Adds a variable that the caller completes.
  void NewVariable(const std::string& name, const char* role, const TileBytes& bytes) {
    std::uint64_t all = 0, most = 0;
    std::uint32_t tiles = 0;
    for (const std::int64_t b : bytes) {
      all += static_cast<std::uint64_t>(b);
      most = std::max(most, static_cast<std::uint64_t>(b));
      tiles += b > 0 ? 1 : 0;
    }
    ProfileVariables& v = profile_.variables;
    v.name.push_back(name);
    v.dtype.emplace_back();
    v.shape.emplace_back();
    v.role.emplace_back(role);
    v.lasting.push_back(0);
    v.bytes.push_back(all);
    v.bytes_on_tile.push_back(most);
    v.tiles.push_back(tiles);
    v.row.push_back(variable_rows_.Add(RunLengthsOf(bytes)));
    v.live_steps.emplace_back();
    v.last_use.push_back(-1);
    v.operation.push_back(-1);
    v.origin.push_back(0);
    block_of_variable_.push_back(num_blocks_++);
  }

  // The last step of the instructions in `reads` that reads the variable, or -1.
  std::int32_t LastUse(const StepsOfInstructions& find, const HostCode& code,
                       const MemoryProfile::Life& life) const {
    std::int32_t last = -1;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
    for (const std::uint32_t i : life.reads) {
      found.clear();
      find.Find(i, i, &found);
      for (const auto& [first, end] : found) {
        auto step = static_cast<std::int32_t>(end);
        const HostInstruction& in = code.code[i];
        if (in.code == OpCode::kRun && uses_ != nullptr) {
          const OperationUse* const use = uses_->at(code.operations[in.a]).get();
          int superstep = -1;
          const std::vector<View>& inputs = code.operations[in.a]->inputs;
          for (std::size_t k = 0; k < inputs.size(); ++k) {
            if (inputs[k].variable == life.variable) superstep = std::max(superstep, use->last_reads.at(k));
          }
          if (superstep >= 0) step = std::min(step, static_cast<std::int32_t>(first) + superstep);
        }
        last = std::max(last, step);
      }
    }
    return last;
  }

  void AddVariables(const StepBuilder& steps) {
    const StepsOfInstructions find(steps.instructions());
    const std::size_t num_steps = steps.instructions().size();
    ProfileVariables& out = profile_.variables;
    for (const MemoryProfile::Life& life : lines_.lives) {
      const Variable& v = program_.variables[life.variable];
      const bool constant = v.constant != nullptr;
      std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges;
      if (constant) {
        if (num_steps > 0) ranges.emplace_back(0, static_cast<std::uint32_t>(num_steps - 1));
      } else {
        for (const auto& [first, last] : life.live) find.Find(first, last, &ranges);
      }
      if (ranges.empty()) continue;
      NewVariable(v.name, constant ? "constant" : "variable", memory_.BytesOf(life.variable));
      out.dtype.back() = NameOf(v.type);
      out.shape.back() = v.shape;
      out.lasting.back() = life.lasting && !constant ? 1 : 0;
      out.live_steps.back() = JoinedSteps(std::move(ranges));
      out.last_use.back() = LastUse(find, steps.code(), life);
      for (const std::uint32_t i : life.writes) {
        std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
        find.Find(i, i, &found);
        if (found.empty()) continue;
        const std::int32_t row = profile_.steps.operation[found[0].first];
        if (row >= 0) out.origin.back() = profile_.origins[static_cast<std::size_t>(row)];
        break;
      }
      const std::vector<std::uint32_t>& live = out.live_steps.back();
      const bool always = live.size() == 2 && live[0] == 0 && live[1] + 1 == num_steps;
      if (always && !constant) profile_.memory.always_live_bytes += out.bytes.back();
    }
  }

  // Temporaries and exchange buffers.
  void AddBuffers(const StepBuilder& steps) {
    const std::size_t num_steps = steps.instructions().size();
    // By row of the operation, superstep and number of the temporary there.
    std::map<std::tuple<std::int32_t, std::uint32_t, std::size_t>, std::uint32_t> blocks;
    ProfileVariables& out = profile_.variables;
    for (std::size_t s = 0; s < num_steps; ++s) {
      const std::int32_t row = profile_.steps.operation[s];
      if (row < 0) continue;
      const OperationUse& use = *steps.uses()[static_cast<std::size_t>(row)];
      const std::uint32_t step = steps.supersteps()[s];
      // Each call of a function has its own steps, but the same memory.
      const auto add = [&](const char* role, std::size_t number, const TileBytes& bytes, std::size_t length) {
        if (std::all_of(bytes.begin(), bytes.end(), [](std::int64_t b) { return b == 0; })) return;
        NewVariable(profile_.operations[static_cast<std::size_t>(row)].name, role, bytes);
        out.live_steps.back() = {static_cast<std::uint32_t>(s), static_cast<std::uint32_t>(s + length - 1)};
        out.last_use.back() = static_cast<std::int32_t>(s + length - 1);
        out.operation.back() = row;
        out.origin.back() = profile_.origins[static_cast<std::size_t>(row)];
        const auto [known, is_new] = blocks.try_emplace({row, step, number}, block_of_variable_.back());
        if (is_new) return;
        block_of_variable_.back() = known->second;
        --num_blocks_;
      };
      std::size_t number = 0;
      for (const TemporaryUse& temporary : use.temporaries) {
        const std::size_t first = temporary.first_step;
        const std::size_t last = std::min<std::size_t>(temporary.last_step, use.steps.size() - 1);
        ++number;
        if (step == first && first <= last) add("temporary", number, temporary.bytes, last - first + 1);
      }
      if (step < use.steps.size()) add("exchange buffer", 0, use.steps[step].buffers, 1);
    }
  }

  void AddExchange(const StepBuilder& steps) {
    ProfileExchange& exchange = profile_.exchange;
    exchange.group_tiles = TilesPerGroup(program_.target);
    struct Known {
      std::uint32_t sent, received, pairs;
    };
    std::unordered_map<const SuperstepDetail*, Known> known;
    RunLengthRows sent, received, pairs;
    for (std::size_t s = 0; s < steps.instructions().size(); ++s) {
      const std::int32_t row = profile_.steps.operation[s];
      if (row < 0) continue;
      const OperationUse& use = *steps.uses()[static_cast<std::size_t>(row)];
      const std::uint32_t step = steps.supersteps()[s];
      if (step >= use.details.size() || use.details[step].pairs.empty()) continue;
      const SuperstepDetail& detail = use.details[step];
      const auto [entry, is_new] = known.try_emplace(&detail);
      if (is_new) {
        entry->second = {sent.Add(detail.sent), received.Add(detail.received), pairs.Add(detail.pairs)};
      }
      exchange.steps.push_back(static_cast<std::uint32_t>(s));
      exchange.sent.lines.push_back(entry->second.sent);
      exchange.received.lines.push_back(entry->second.received);
      exchange.pairs.lines.push_back(entry->second.pairs);
    }
    exchange.sent.rows = sent.Take();
    exchange.received.rows = received.Take();
    exchange.pairs.rows = pairs.Take();
  }

  const CompiledProgram& program_;
  Profile profile_;
  MemoryAnalysis& memory_;
  const OperationUses* const uses_;
  MemoryProfile lines_;
  RunLengthRows variable_rows_;
  std::vector<std::uint32_t> block_of_variable_;  // those with one block have the same addresses
  std::uint32_t num_blocks_ = 0;
};

}  // namespace

Profile ProfileOfAnalysis(const CompiledProgram& program, DeviceAnalysis* analysis) {
  return ProfileBuilder(program, analysis).Build();
}

namespace {

// Analyses a program again unless its compilation was for a profile.
Profile ProfileOfProgram(const CompiledProgram& program) {
  std::shared_ptr<DeviceAnalysis> analysis = program.analysis;
  if (analysis == nullptr) {
    TilePlanCache cache(true);
    Analyse(program, &cache, &analysis);
  }
  return ProfileOfAnalysis(program, analysis.get());
}

}  // namespace

Profile ProfileOf(const poplar::Executable& executable) { return ProfileOfProgram(*executable.program()); }

Profile ProfileOf(const OutOfMemory& failure) { return ProfileOfProgram(*failure.program); }

}  // namespace ipu_model
