// Branch and bound over the free variables, with propagation of ranges.
#include <algorithm>
#include <gccs/popsolver/Model.hpp>
#include <numeric>

namespace gccs {
namespace popsolver {

namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

std::uint64_t Multiplied(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result;
  return __builtin_mul_overflow(a, b, &result) ? kMax : result;
}
std::uint64_t Added(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result;
  return __builtin_add_overflow(a, b, &result) ? kMax : result;
}
std::uint64_t CeilDivided(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace

Model::Model() = default;

Variable Model::Add(std::uint64_t min, std::uint64_t max, const std::string& name, bool decision) {
  domains_.push_back({min, max});
  names_.push_back(name);
  groups_.push_back(0);
  if (decision) decisions_.push_back(domains_.size() - 1);
  return Variable(domains_.size() - 1);
}

Variable Model::addVariable(const std::string& name) { return Add(0, kMax - 1, name, true); }

Variable Model::AddResult(Kind kind, const std::vector<Variable>& args, const std::string& name,
                          std::uint64_t max) {
  const Variable result = Add(0, max, name, false);
  Constraint constraint{kind, {}, result.id, nullptr};
  for (const Variable v : args) constraint.args.push_back(v.id);
  constraints_.push_back(std::move(constraint));
  return result;
}

Variable Model::Call(std::vector<Variable> vars, Function f, const std::string& name) {
  const Variable result = AddResult(Kind::kCall, vars, name);
  constraints_.back().function = std::move(f);
  return result;
}

Variable Model::product(std::vector<Variable> vars, const std::string& name) {
  return AddResult(Kind::kProduct, vars, name);
}
Variable Model::sum(std::vector<Variable> vars, const std::string& name) {
  return AddResult(Kind::kSum, vars, name);
}
Variable Model::max(std::vector<Variable> vars, const std::string& name) {
  return AddResult(Kind::kMax, vars, name);
}
Variable Model::min(std::vector<Variable> vars, const std::string& name) {
  return AddResult(Kind::kMin, vars, name);
}
Variable Model::sub(Variable a, Variable b, const std::string& name) {
  return AddResult(Kind::kSub, {a, b}, name);
}
Variable Model::ceildiv(Variable a, Variable b, const std::string& name) {
  return AddResult(Kind::kCeilDiv, {a, b}, name);
}
Variable Model::floordiv(Variable a, Variable b, const std::string& name) {
  return AddResult(Kind::kFloorDiv, {a, b}, name);
}
Variable Model::mod(Variable a, Variable b, const std::string& name) {
  return AddResult(Kind::kMod, {a, b}, name);
}
Variable Model::ceildivConstrainDivisor(Variable a, Variable b, const std::string& name) {
  const Variable quotient = ceildiv(a, b, name);
  constraints_.push_back({Kind::kExactDivisor, {a.id, b.id}, quotient.id, nullptr});
  return quotient;
}
Variable Model::booleanNot(Variable a, const std::string& name) {
  return AddResult(Kind::kNot, {a}, name, 1);
}
Variable Model::booleanAnd(Variable a, Variable b, const std::string& name) {
  return AddResult(Kind::kAnd, {a, b}, name, 1);
}
Variable Model::booleanOr(Variable a, Variable b, const std::string& name) {
  return AddResult(Kind::kOr, {a, b}, name, 1);
}
Variable Model::reifiedLess(Variable a, Variable b, const std::string& name) {
  return AddResult(Kind::kLess, {a, b}, name, 1);
}
Variable Model::reifiedLessOrEqual(Variable a, Variable b, const std::string& name) {
  return AddResult(Kind::kLessOrEqual, {a, b}, name, 1);
}
Variable Model::reifiedEqual(Variable a, Variable b, const std::string& name) {
  return AddResult(Kind::kEqual, {a, b}, name, 1);
}
void Model::equal(Variable a, Variable b) {
  constraints_.push_back({Kind::kEqual, {a.id, b.id}, one().id, nullptr});
}
void Model::lessOrEqual(Variable a, Variable b) {
  constraints_.push_back({Kind::kLessOrEqual, {a.id, b.id}, one().id, nullptr});
}
void Model::less(Variable a, Variable b) {
  constraints_.push_back({Kind::kLess, {a.id, b.id}, one().id, nullptr});
}
void Model::factorOf(Variable a, Variable b) {
  constraints_.push_back({Kind::kFactor, {a.id, b.id}, one().id, nullptr});
}

PriorityGroup Model::addPriorityGroup() { return PriorityGroup(num_groups_++); }
void Model::setPriorityGroup(Variable v, PriorityGroup group) { groups_[v.id] = group.id; }
void Model::prioritiseOver(PriorityGroup a, PriorityGroup b) { priorities_.emplace_back(a.id, b.id); }

struct Model::Search {
  explicit Search(const Model& m, const std::vector<Variable>& goals) : model(m), objectives(goals) {
    watchers.resize(m.domains_.size());
    for (std::size_t c = 0; c < m.constraints_.size(); ++c) {
      for (const std::size_t a : m.constraints_[c].args) watchers[a].push_back(c);
      watchers[m.constraints_[c].result].push_back(c);
    }
    for (auto& list : watchers) list.erase(std::unique(list.begin(), list.end()), list.end());
    queued.assign(m.constraints_.size() / 64 + 1, 0);
    // Groups in an order that respects the priorities.
    std::vector<std::size_t> rank(m.num_groups_, 0);
    for (std::size_t round = 0; round < m.num_groups_; ++round) {
      for (const auto& [first, later] : m.priorities_) rank[later] = std::max(rank[later], rank[first] + 1);
    }
    for (const std::size_t v : m.decisions_) order.emplace_back(rank[m.groups_[v]], v);
    std::sort(order.begin(), order.end());
  }

  void Enqueue(std::size_t c) { queued[c / 64] |= std::uint64_t{1} << (c % 64); }

  // `from` is a constraint that needs not be looked at again for it.
  bool Narrow(std::size_t v, std::uint64_t min, std::uint64_t max, std::size_t from = kNone) {
    Domain& domain = d[v];
    const std::uint64_t low = std::max(domain.min, min), high = std::min(domain.max, max);
    if (low > high) return false;
    if (low == domain.min && high == domain.max) return true;
    trail.emplace_back(v, domain);
    domain = {low, high};
    for (const std::size_t c : watchers[v]) {
      if (c != from) Enqueue(c);
    }
    return true;
  }

  bool Apply(std::size_t number) {
    const Constraint& c = model.constraints_[number];
    const std::size_t r = c.result;
    const auto arg = [&](std::size_t i) -> const Domain& { return d[c.args[i]]; };
    if (c.kind == Kind::kCall) {
      values.clear();
      for (const std::size_t a : c.args) {
        if (!d[a].fixed()) return true;
        values.push_back(d[a].min);
      }
      ++evaluated.call;
      std::uint64_t value = 0;
      return c.function(values, &value) && Narrow(r, value, value, number);
    }
    ++evaluated.other;
    switch (c.kind) {
      case Kind::kProduct: {
        std::uint64_t low = 1, high = 1;
        for (const std::size_t a : c.args) {
          low = Multiplied(low, d[a].min);
          high = Multiplied(high, d[a].max);
        }
        if (!Narrow(r, low, high, number)) return false;
        for (std::size_t i = 0; i < c.args.size(); ++i) {
          std::uint64_t others = 1, most = 1;
          for (std::size_t k = 0; k < c.args.size(); ++k) {
            if (k == i) continue;
            others = Multiplied(others, arg(k).min);
            most = Multiplied(most, arg(k).max);
          }
          const std::uint64_t max = others == 0 || d[r].max == kMax ? kMax : d[r].max / others;
          const std::uint64_t min = most == 0 || most == kMax ? 0 : CeilDivided(d[r].min, most);
          if (!Narrow(c.args[i], min, max)) return false;
        }
        return true;
      }
      case Kind::kSum: {
        std::uint64_t low = 0, high = 0;
        for (const std::size_t a : c.args) {
          low = Added(low, d[a].min);
          high = Added(high, d[a].max);
        }
        if (!Narrow(r, low, high, number)) return false;
        if (d[r].max == kMax) return true;
        for (std::size_t i = 0; i < c.args.size(); ++i) {
          const std::uint64_t others = low - arg(i).min;
          if (others > d[r].max || !Narrow(c.args[i], 0, d[r].max - others)) return false;
          low = others + d[c.args[i]].min;
        }
        return true;
      }
      case Kind::kMax: {
        std::uint64_t low = 0, high = 0;
        for (const std::size_t a : c.args) {
          low = std::max(low, d[a].min);
          high = std::max(high, d[a].max);
        }
        if (!Narrow(r, low, high, number)) return false;
        for (const std::size_t a : c.args) {
          if (!Narrow(a, 0, d[r].max)) return false;
        }
        return true;
      }
      case Kind::kMin: {
        std::uint64_t low = kMax, high = kMax;
        for (const std::size_t a : c.args) {
          low = std::min(low, d[a].min);
          high = std::min(high, d[a].max);
        }
        if (!Narrow(r, low, high, number)) return false;
        for (const std::size_t a : c.args) {
          if (!Narrow(a, d[r].min, kMax)) return false;
        }
        return true;
      }
      case Kind::kSub:
        // Differences are not negative.
        if (!Narrow(c.args[0], Added(arg(1).min, d[r].min), Added(arg(1).max, d[r].max))) return false;
        if (!Narrow(c.args[1], 0, arg(0).max - std::min(arg(0).max, d[r].min))) return false;
        return Narrow(r, arg(0).min > arg(1).max ? arg(0).min - arg(1).max : 0, arg(0).max - arg(1).min,
                      number);
      case Kind::kCeilDiv:
      case Kind::kFloorDiv: {
        if (!Narrow(c.args[1], 1, kMax)) return false;
        const bool ceil = c.kind == Kind::kCeilDiv;
        const auto divide = [ceil](std::uint64_t a, std::uint64_t b) {
          return ceil ? CeilDivided(a, b) : a / b;
        };
        if (!Narrow(r, divide(arg(0).min, arg(1).max), divide(arg(0).max, arg(1).min), number)) return false;
        if (d[r].max == kMax) return true;
        const std::uint64_t most =
            ceil ? Multiplied(d[r].max, arg(1).max) : Multiplied(Added(d[r].max, 1), arg(1).max);
        return Narrow(c.args[0], 0, most);
      }
      case Kind::kMod:
        if (!Narrow(c.args[1], 1, kMax)) return false;
        if (arg(0).fixed() && arg(1).fixed()) {
          const std::uint64_t value = arg(0).min % arg(1).min;
          return Narrow(r, value, value);
        }
        return Narrow(r, 0, std::min(arg(0).max, arg(1).max - 1));
      case Kind::kExactDivisor:
        if (!arg(0).fixed() || !arg(1).fixed() || arg(0).min == 0) return true;
        return CeilDivided(arg(0).min, CeilDivided(arg(0).min, arg(1).min)) == arg(1).min;
      case Kind::kNot:
        if (arg(0).min > 0) return Narrow(r, 0, 0);
        if (arg(0).max == 0) return Narrow(r, 1, 1);
        if (d[r].min == 1) return Narrow(c.args[0], 0, 0);
        return d[r].max == 1 || Narrow(c.args[0], 1, kMax);
      case Kind::kAnd:
        if (arg(0).max == 0 || arg(1).max == 0) return Narrow(r, 0, 0);
        if (arg(0).min > 0 && arg(1).min > 0) return Narrow(r, 1, 1);
        return d[r].min == 0 || (Narrow(c.args[0], 1, kMax) && Narrow(c.args[1], 1, kMax));
      case Kind::kOr:
        if (arg(0).min > 0 || arg(1).min > 0) return Narrow(r, 1, 1);
        if (arg(0).max == 0 && arg(1).max == 0) return Narrow(r, 0, 0);
        return d[r].max == 1 || (Narrow(c.args[0], 0, 0) && Narrow(c.args[1], 0, 0));
      case Kind::kLess:
        if (d[r].min == 1) {
          return arg(1).max > 0 && Narrow(c.args[0], 0, arg(1).max - 1) && arg(0).min < kMax &&
                 Narrow(c.args[1], arg(0).min + 1, kMax);
        }
        if (arg(0).max < arg(1).min) return Narrow(r, 1, 1);
        return arg(0).min < arg(1).max || Narrow(r, 0, 0);
      case Kind::kLessOrEqual:
        if (d[r].min == 1) return Narrow(c.args[0], 0, arg(1).max) && Narrow(c.args[1], arg(0).min, kMax);
        if (arg(0).max <= arg(1).min) return Narrow(r, 1, 1);
        return arg(0).min <= arg(1).max || Narrow(r, 0, 0);
      case Kind::kEqual:
        if (d[r].min == 1) {
          return Narrow(c.args[0], arg(1).min, arg(1).max) && Narrow(c.args[1], arg(0).min, arg(0).max);
        }
        if (arg(0).fixed() && arg(1).fixed())
          return Narrow(r, arg(0).min == arg(1).min, arg(0).min == arg(1).min);
        return (arg(0).min <= arg(1).max && arg(1).min <= arg(0).max) || Narrow(r, 0, 0);
      default:
        if (!arg(0).fixed() || !arg(1).fixed()) return true;
        return arg(1).min != 0 && arg(0).min % arg(1).min == 0;
    }
  }

  // Looks at constraints in the order in which they were made, over and over: a result is then narrowed after
  // all that it is made of, not once for each.
  bool Propagate() {
    for (bool any = true; any;) {
      any = false;
      for (std::size_t word = 0; word < queued.size(); ++word) {
        while (queued[word] != 0) {
          any = true;
          const std::size_t c = word * 64 + static_cast<std::size_t>(__builtin_ctzll(queued[word]));
          queued[word] &= queued[word] - 1;
          if (!Apply(c)) {
            Clear();
            return false;
          }
        }
      }
    }
    return true;
  }

  // Whether a solution with these ranges could be better than the best one.
  bool MayImprove() const {
    if (!found) return true;
    for (std::size_t i = 0; i < objectives.size(); ++i) {
      const Domain& o = d[objectives[i].id];
      if (o.min != best_objectives[i] || i + 1 == objectives.size()) return o.min < best_objectives[i];
    }
    return false;
  }

  // Whether there can be a better solution with the ranges that have been narrowed.
  bool IsOpen() {
    // The first objective may not get worse.
    if (found && !Narrow(objectives[0].id, 0, best_objectives[0])) {
      Clear();
      return false;
    }
    return Propagate() && MayImprove();
  }

  // The open decision of the first group that has one, with the fewest values; null if all are made.
  const std::size_t* NextDecision() const {
    const std::size_t* next = nullptr;
    std::size_t group = 0;
    std::uint64_t size = 0;
    for (const auto& [rank, v] : order) {
      if (d[v].fixed()) continue;
      if (next != nullptr && rank != group) break;
      const std::uint64_t values = d[v].max - d[v].min;
      if (next != nullptr && values >= size) continue;
      next = &v;
      group = rank;
      size = values;
    }
    return next;
  }

  void Solve() {
    if (!IsOpen()) return;
    const std::size_t* const next = NextDecision();
    if (next == nullptr) {
      best.clear();
      for (const Domain& domain : d) best.push_back(domain.min);
      best_objectives.clear();
      for (const Variable o : objectives) best_objectives.push_back(d[o.id].min);
      found = true;
      return;
    }
    const std::size_t v = *next;
    while (true) {
      const std::size_t mark = trail.size();
      const std::uint64_t value = d[v].min;
      Narrow(v, value, value);
      Solve();
      for (; trail.size() > mark; trail.pop_back()) d[trail.back().first] = trail.back().second;
      if (value == d[v].max) return;
      Narrow(v, value + 1, d[v].max);
      if (!IsOpen()) return;
    }
  }

  void Clear() { std::fill(queued.begin(), queued.end(), 0); }

  const Model& model;
  const std::vector<Variable>& objectives;
  std::vector<std::vector<std::size_t>> watchers;
  std::vector<std::uint64_t> queued;                       // a bit for each constraint
  std::vector<Domain> d;                                   // of the variables
  std::vector<std::pair<std::size_t, Domain>> trail;       // what was narrowed, and from what
  std::vector<std::pair<std::size_t, std::size_t>> order;  // (rank of its group, decision)
  std::vector<std::uint64_t> values;                       // of the arguments of a call
  bool found = false;
  std::vector<std::uint64_t> best, best_objectives;
  ConstraintEvaluationSummary evaluated;
};

Solution Model::minimize(const std::vector<Variable>& objectives) {
  Search search(*this, objectives);
  for (std::size_t c = 0; c < constraints_.size(); ++c) search.Enqueue(c);
  search.d = domains_;
  search.Solve();
  if (search.found) return Solution(std::move(search.best), search.evaluated);
  Solution none;
  none.setEvaluated(search.evaluated);
  return none;
}

}  // namespace popsolver
}  // namespace gccs
