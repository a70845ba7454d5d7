#include "engine/cost/operation_plans.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/deadline.h"
#include "core/operation/serialise.h"
#include "engine/cost/exchange.h"
#include "engine/program/elided_copies.h"

namespace ipu_model {
namespace {

// Makes keys for everything that determines the plan of an operation: its kind and attributes, and the
// mappings of its operands, but not the identity of the variables. Equal mappings have equal numbers.
class PlanKeys {
 public:
  PlanKeys(const CompiledProgram& program, TilePlanCache::Plans* cache) : program_(program), cache_(*cache) {}

  std::string Of(const Operation& operation) {
    Writer writer;
    writer.Write(operation.kind());
    operation.Write(writer);
    // Two views of one variable may differ in meaning from views of two variables with equal mappings.
    first_views_.clear();
    std::size_t number = 0;
    for (const std::vector<View>* views : {&operation.inputs, &operation.outputs}) {
      writer.Write(views->size());
      for (const View& view : *views) {
        writer.Write(MappingNumber(view.variable));
        writer.Write(first_views_.try_emplace(view.variable, number++).first->second);
        writer.Write(view.type);
        writer.Write(view.offset);
        writer.Write(view.shape);
        writer.Write(view.strides);
      }
    }
    return writer.Take();
  }

 private:
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
  std::unordered_map<VariableId, std::size_t> first_views_;  // of one operation
};

std::shared_ptr<const OperationUse> UseOfNothing(const Operation& operation) {
  auto use = std::make_shared<OperationUse>();
  use->last_reads.assign(operation.inputs.size(), -1);
  return use;
}

}  // namespace

TilePlanCache::TilePlanCache(bool detailed) : plans_(std::make_unique<Plans>()), detailed_(detailed) {}
TilePlanCache::~TilePlanCache() = default;
std::size_t TilePlanCache::size() const { return plans_->plans.size(); }

OperationUses PlanOperations(const CompiledProgram& program, TilePlanCache* cache) {
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
  const Deadline* const deadline = DeadlineOfThread();
  auto work = [&](int) {
    const HelpersDeadline same(deadline);
    ExchangeAnalyser analyser(program, cache->detailed());
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
  const std::unordered_set<const Operation*> elided = ElidedCopies(program);
  for (const auto& [operation, plan] : operations) {
    const bool nothing = elided.count(operation) != 0;
    uses.emplace(operation, nothing ? UseOfNothing(*operation) : plan->second);
  }
  return uses;
}

}  // namespace ipu_model
