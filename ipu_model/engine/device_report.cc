#include "engine/device_report.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "core/limits_buffers.h"
#include "engine/exchange.h"
#include "engine/tile_memory.h"

namespace ipu_model {
namespace {

class CycleWalk {
 public:
  CycleWalk(const CompiledProgram& program, const OperationUses& uses, Report* report)
      : program_(program), uses_(uses), target_(program.target.model()), report_(*report) {
    std::vector<std::shared_ptr<const ProgramNode>> roots = program.programs;
    roots.insert(roots.end(), program.functions.begin(), program.functions.end());
    std::uint32_t number = 0;
    for (const ProgramNode* node : NodesOf(roots)) numbers_[node] = number++;
  }

  void Run() {
    report_.clock_hz = target_.clock_hz;
    if (program_.programs.empty()) return;
    report_.cycles = Walk(*program_.programs[0], 1);
    report_.unknown_trip_count = !report_.loops.empty();
  }

 private:
  Cycles CostOf(const OperationUse& use) const {
    Cycles cycles;
    for (const SuperstepUse& step : use.steps) {
      cycles.compute += step.compute_cycles;
      cycles.exchange += step.exchange_cycles;
      cycles.sync += step.link_syncs > 0 ? step.link_syncs * target_.global_sync_cycles : target_.sync_cycles;
    }
    return cycles;
  }

  // A predicate is broadcast to all tiles as one word, followed by a sync.
  Cycles Decision() const { return {0, 1, target_.sync_cycles}; }

  // Returns the cycles of one execution of `node`, which runs `executions` times.
  Cycles Walk(const ProgramNode& node, std::uint64_t executions) {
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
        (node.kind == ProgramKind::kStreamIn ? report_.stream_in_bytes : report_.stream_out_bytes) += bytes;
        report_.host_link_cycles += HostLinkCycles(program_.target, executions, bytes);
        return cycles;
      }
      case ProgramKind::kRepeat:
        if (node.count == 0) return cycles;
        return Walk(*node.children[0], executions * node.count) * node.count;
      case ProgramKind::kRepeatWhileTrue:
      case ProgramKind::kRepeatWhileFalse: {
        LoopCost loop;
        loop.node = numbers_.at(&node);
        loop.name = node.name;
        loop.condition = Walk(*node.children[0], executions);
        loop.condition += Decision();
        loop.body = Walk(*node.children[1], executions);
        cycles += loop.condition;
        cycles += loop.body;
        report_.loops.push_back(std::move(loop));
        return cycles;
      }
      case ProgramKind::kIf:
      case ProgramKind::kSwitch: {
        // Count the most expensive branch.
        for (const auto& child : node.children) {
          const Cycles branch = Walk(*child, executions);
          if (branch.total() > cycles.total()) cycles = branch;
        }
        cycles += Decision();
        return cycles;
      }
      case ProgramKind::kCall:
        return Walk(*program_.functions.at(node.function), executions);
      case ProgramKind::kAbort:
        return Decision();
      case ProgramKind::kHostCall:
        // The device waits for the host. The report leaves out the run time of the host function.
        report_.host_link_cycles += target_.global_sync_cycles * executions;
        return cycles;
      case ProgramKind::kWriteUndef:
      case ProgramKind::kPrint:
      case ProgramKind::kCount:
        return cycles;
    }
    return cycles;
  }

  Cycles Account(const Operation& operation, std::uint64_t executions) {
    const OperationUse& use = *uses_.at(&operation);
    const Cycles cycles = CostOf(use);
    const auto [entry, is_new] = rows_.try_emplace(&operation, report_.operations.size());
    if (is_new) {
      report_.operations.emplace_back();
      report_.operations.back().kind = operation.kind();
      report_.operations.back().name = operation.name;
      report_.operations.back().tiles = use.computing_tiles;
      AddCode(use, &report_.operations.back());
    }
    OperationCost& row = report_.operations[entry->second];
    std::uint64_t bytes = 0;
    for (const SuperstepUse& step : use.steps) {
      bytes += step.exchange_bytes;
      report_.link_bytes += step.link_bytes * executions;
    }
    row.executions += executions;
    row.cycles += cycles * executions;
    row.exchange_bytes += bytes * executions;
    row.flops += operation.flops() * static_cast<double>(executions);
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
    row->code_bytes += use.steps.size() * target_.control_code_bytes_per_superstep *
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
  const OperationUses& uses_;
  const TargetModel& target_;
  Report& report_;
  std::unordered_map<const ProgramNode*, std::uint32_t> numbers_;
  std::unordered_map<const Operation*, std::size_t> rows_;
};

// Makes keys for everything that determines the plan of an operation: its kind and attributes, and the
// mappings of its operands, but not the identity of the variables. Equal mappings have equal numbers.
class PlanKeys {
 public:
  PlanKeys(const CompiledProgram& program, TilePlanCache::Plans* cache) : program_(program), cache_(*cache) {}

  std::string Of(const Operation& operation) {
    Writer writer;
    writer.Write(operation.kind());
    operation.Write(writer);
    for (const std::vector<View>* views : {&operation.inputs, &operation.outputs}) {
      writer.Write(views->size());
      for (const View& view : *views) {
        writer.Write(MappingNumber(view.variable));
        // Two views of one variable may differ in meaning from views of two variables with equal mappings.
        std::size_t first = 0;
        while (VariableAt(operation, first) != view.variable) ++first;
        writer.Write(first);
        writer.Write(view.type);
        writer.Write(view.offset);
        writer.Write(view.shape);
        writer.Write(view.strides);
      }
    }
    return writer.Take();
  }

 private:
  static VariableId VariableAt(const Operation& operation, std::size_t i) {
    const std::size_t inputs = operation.inputs.size();
    return i < inputs ? operation.inputs[i].variable : operation.outputs[i - inputs].variable;
  }
  std::size_t MappingNumber(VariableId variable) {
    const auto [entry, is_new] = numbers_.try_emplace(variable, 0);
    if (is_new) {
      const Variable& v = program_.variables[variable];
      Writer writer;
      writer.Write(v.num_elements);
      writer.Write(v.mapping, v.num_elements);
      entry->second = cache_.mappings.try_emplace(writer.Take(), cache_.mappings.size()).first->second;
    }
    return entry->second;
  }

  const CompiledProgram& program_;
  TilePlanCache::Plans& cache_;
  std::unordered_map<VariableId, std::size_t> numbers_;
};

// How often operations are planned until their buffers fit.
constexpr int kMostRounds = 4;

// Plans every distinct operation once, on all workers.
OperationUses AnalyseOperations(const CompiledProgram& program, TilePlanCache* cache) {
  std::vector<std::shared_ptr<const ProgramNode>> roots = program.programs;
  roots.insert(roots.end(), program.functions.begin(), program.functions.end());
  OperationUses uses;
  auto& plans = cache->plans().plans;
  PlanKeys keys(program, &cache->plans());
  // Entries of the cache; what has no plan yet is planned here.
  using Plan = std::pair<const std::string, std::shared_ptr<const OperationUse>>;
  std::vector<std::pair<const Operation*, Plan*>> operations, missing;
  for (const ProgramNode* node : NodesOf(roots)) {
    if (node->kind != ProgramKind::kOperation) continue;
    const Operation* operation = node->operation.get();
    const auto [entry, is_new] = plans.try_emplace(keys.Of(*operation), nullptr);
    operations.emplace_back(operation, &*entry);
    if (is_new) missing.emplace_back(operation, &*entry);
  }

  std::vector<std::exception_ptr> errors(missing.size());
  std::atomic<std::size_t> next{0};
  const std::thread::id caller = std::this_thread::get_id();
  auto work = [&](int) {
    ExchangeAnalyser analyser(program);
    const bool polls = cache->poll && std::this_thread::get_id() == caller;
    for (std::size_t i = next++; i < missing.size(); i = next++) {
      try {
        if (polls) cache->poll(i, missing.size());
        missing[i].second->second = std::make_shared<const OperationUse>(analyser.Analyse(*missing[i].first));
      } catch (...) {
        errors[i] = std::current_exception();
        next = missing.size();
      }
    }
  };
  ThreadPool& pool = ThreadPool::Global();
  // For few operations, waking the workers costs more than it saves.
  pool.Run(missing.size() < 4 ? 1 : pool.size(), TaskRef(work));
  const auto failed = std::find_if(errors.begin(), errors.end(), [](const auto& e) { return e != nullptr; });
  if (failed != errors.end()) {
    for (const auto& [operation, plan] : missing) {
      if (plan->second == nullptr) plans.erase(plan->first);
    }
    std::rethrow_exception(*failed);
  }
  for (const auto& [operation, plan] : operations) uses.emplace(operation, plan->second);
  return uses;
}

struct FieldWriter {
  Writer& writer;
  template <typename T>
  void operator()(const char*, const T& value) {
    Put(value);
  }
  template <typename T>
  void Put(const T& value) {
    if constexpr (std::is_class_v<T> && !std::is_same_v<T, std::string>) {
      T::Fields(value, *this);
    } else {
      writer.Write(value);
    }
  }
  template <typename T>
  void Put(const std::vector<T>& values) {
    writer.Write(values.size());
    for (const T& value : values) Put(value);
  }
};

struct FieldReader {
  Reader& reader;
  template <typename T>
  void operator()(const char*, T& value) {
    Get(value);
  }
  template <typename T>
  void Get(T& value) {
    if constexpr (std::is_class_v<T> && !std::is_same_v<T, std::string>) {
      T::Fields(value, *this);
    } else {
      value = reader.Read<T>();
    }
  }
  template <typename T>
  void Get(std::vector<T>& values) {
    for (std::size_t n = reader.ReadLength(); n > 0; --n) Get(values.emplace_back());
  }
};

// Lowers the limits of operations whose buffers do not fit. Returns false if no other plan can follow.
bool LimitBuffers(const CompiledProgram& program, const MemoryAnalysis& memory) {
  std::unordered_map<const Operation*, Operation*> operations;
  std::vector<std::shared_ptr<const ProgramNode>> roots = program.programs;
  roots.insert(roots.end(), program.functions.begin(), program.functions.end());
  for (const ProgramNode* node : NodesOf(roots)) {
    if (node->operation != nullptr) operations.emplace(node->operation.get(), node->operation.get());
  }
  bool limited = false;
  for (const auto& [operation, free] : memory.LackingBuffers()) {
    auto* const limits = dynamic_cast<LimitsBuffers*>(operations.at(operation));
    // More steps need more code, so not all that is free is for buffers.
    if (limits != nullptr) limited = limits->LimitBuffers(free / 4 * 3) || limited;
  }
  return limited;
}

}  // namespace

TilePlanCache::TilePlanCache() : plans_(std::make_unique<Plans>()) {}
TilePlanCache::~TilePlanCache() = default;
std::size_t TilePlanCache::size() const { return plans_->plans.size(); }

Report Analyse(const CompiledProgram& program, TilePlanCache* cache) {
  Report report;
  MemoryAnalysis memory(program);
  if (!memory.VariablesFit(&report)) return report;
  TilePlanCache own;
  for (int round = 1;; ++round) {
    const OperationUses uses = AnalyseOperations(program, cache != nullptr ? cache : &own);
    report = {};
    CycleWalk(program, uses, &report).Run();
    memory.Fill(uses, &report);
    if (report.out_of_memory.empty() || round == kMostRounds || !LimitBuffers(program, memory)) return report;
  }
}

void WriteReport(Writer& writer, const Report& report) { FieldWriter{writer}.Put(report); }

Report ReadReport(Reader& reader) {
  Report report;
  FieldReader{reader}.Get(report);
  return report;
}

}  // namespace ipu_model
