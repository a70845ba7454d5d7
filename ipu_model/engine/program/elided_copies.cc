#include "engine/program/elided_copies.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/mapping/strides.h"

namespace ipu_model {
namespace {

constexpr std::size_t kMostRows = 1 << 17;

// Calls visit(from, to, count) with each row of consecutive elements of a pair of views, until it returns
// false.
template <typename F>
bool ForEachRow(const View& from, const View& to, F&& visit) {
  std::size_t outer = to.shape.size();
  std::int64_t row = 1;
  for (; outer > 0; --outer) {
    const std::size_t d = outer - 1;
    if (to.shape[d] > 1 && (to.strides[d] != row || from.strides[d] != row)) break;
    row *= to.shape[d];
  }
  std::vector<std::int64_t> at(outer, 0);
  std::int64_t x = from.offset, y = to.offset;
  for (;;) {
    if (!visit(x, y, row)) return false;
    std::size_t d = outer;
    for (; d > 0; --d) {
      const std::size_t i = d - 1;
      x += from.strides[i];
      y += to.strides[i];
      if (++at[i] < to.shape[i]) break;
      x -= from.strides[i] * to.shape[i];
      y -= to.strides[i] * to.shape[i];
      at[i] = 0;
    }
    if (d == 0) return true;
  }
}

// Whether a copy writes all of one variable with as many elements of another one.
bool IsWhole(const Operation& copy, const std::vector<Variable>& variables) {
  if (copy.kind() != "poplar::copy" || copy.inputs.empty()) return false;
  const VariableId from = copy.inputs[0].variable, to = copy.outputs[0].variable;
  const Variable &source = variables[from], &destination = variables[to];
  if (from == to || source.constant != nullptr || source.type != destination.type ||
      source.num_elements != destination.num_elements) {
    return false;
  }
  std::int64_t elements = 0;
  for (const View& out : copy.outputs) elements += out.num_elements();
  return elements == destination.num_elements;
}

// Whether each tile has the elements of both variables of a whole copy in the same order.
bool LieAlike(const Operation& copy, const std::vector<Variable>& variables) {
  const VariableId from = copy.inputs[0].variable, to = copy.outputs[0].variable;
  const Variable &source = variables[from], &destination = variables[to];
  struct Row {
    unsigned tile;
    std::int64_t to, from, count;
  };
  std::vector<Row> rows;
  std::vector<MappedInterval> here, there;
  const auto add = [&](std::int64_t x, std::int64_t y, std::int64_t count) {
    here.clear();
    there.clear();
    source.mapping.Intervals(x, x + count, &here);
    destination.mapping.Intervals(y, y + count, &there);
    if (here.size() != there.size()) return false;
    for (std::size_t i = 0; i < here.size(); ++i) {
      if (here[i].tile != there[i].tile || here[i].begin - x != there[i].begin - y ||
          here[i].end - x != there[i].end - y)
        return false;
      rows.push_back({there[i].tile, there[i].begin, here[i].begin, here[i].end - here[i].begin});
    }
    // What is in so many rows is most likely in another order.
    return rows.size() < kMostRows;
  };
  for (std::size_t i = 0; i < copy.inputs.size(); ++i) {
    const View &in = copy.inputs[i], &out = copy.outputs[i];
    if (in.variable != from || out.variable != to || out.num_elements() == 0 || !ForEachRow(in, out, add))
      return false;
  }
  std::sort(rows.begin(), rows.end(),
            [](const Row& a, const Row& b) { return std::tie(a.tile, a.to) < std::tie(b.tile, b.to); });
  // Each element is read once, as rows are in the order of both.
  return std::adjacent_find(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
           return a.tile == b.tile && a.from + a.count > b.from;
         }) == rows.end();
}

// Where nodes read and write the variables of possible copies. A body is what a root or a branch of control
// flow runs in order; its places are its programs, without the sequences around them.
class Uses {
 public:
  explicit Uses(const CompiledProgram& program) : program_(program) {
    for (const auto* roots : {&program.programs, &program.functions}) {
      for (const auto& root : *roots) Find(*root);
    }
    if (copies_.empty()) return;
    // Functions are walked where they are called, so a copy in one that is called twice has two uses.
    for (const auto& root : program.programs) Body(*root);
  }

  std::unordered_set<const Operation*> Elided() const {
    std::unordered_set<const Operation*> elided;
    std::unordered_map<VariableId, VariableId> sources;  // by destination that is elided
    for (const Operation* const copy : copies_) {
      const VariableId to = copy->outputs[0].variable;
      VariableId from = copy->inputs[0].variable;
      // A destination that is elided already is its source.
      for (auto source = sources.find(from); source != sources.end(); source = sources.find(from))
        from = source->second;
      // Few copies may be elided, and how variables lie takes longest to find.
      if (!MayBe(to, from) || !LieAlike(*copy, program_.variables)) continue;
      elided.insert(copy);
      sources.emplace(to, from);
    }
    return elided;
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  // A use by one node has one of these for each view, for its own body and for each body around that.
  struct Use {
    std::size_t number, body, place;
    bool writes;
  };

  // Finds possible copies, in the order of the program.
  void Find(const ProgramNode& node) {
    if (!visited_.insert(&node).second) return;
    if (node.kind == ProgramKind::kOperation && IsWhole(*node.operation, program_.variables)) {
      copies_.push_back(node.operation.get());
      uses_[node.operation->inputs[0].variable];
      uses_[node.operation->outputs[0].variable];
    }
    for (const auto& child : node.children) Find(*child);
  }

  void Body(const ProgramNode& node) {
    path_.push_back({bodies_++, 0});
    Walk(node);
    path_.pop_back();
  }

  void Walk(const ProgramNode& node) {
    if (node.kind == ProgramKind::kSequence) {
      for (const auto& child : node.children) Walk(*child);
      return;
    }
    if (node.operation != nullptr) {
      for (const View& view : node.operation->inputs) Note(view.variable, false);
      for (const View& view : node.operation->outputs) Note(view.variable, true);
    }
    // What is not known to be read only counts as written too.
    if (node.kind != ProgramKind::kWriteUndef) {
      for (const View& view : node.tensor) {
        Note(view.variable, false);
        if (node.kind != ProgramKind::kStreamOut && node.kind != ProgramKind::kPrint)
          Note(view.variable, true);
      }
    }
    ++num_uses_;
    for (const auto& child : node.children) Body(*child);
    if (node.kind == ProgramKind::kCall) Body(*program_.functions.at(node.function));
    ++path_.back().second;
  }

  void Note(VariableId variable, bool writes) {
    const auto found = uses_.find(variable);
    if (found == uses_.end()) return;
    for (const auto& [body, place] : path_) found->second.push_back({num_uses_, body, place, writes});
  }

  bool MayBe(VariableId to, VariableId from) const {
    const std::vector<Use>& of_to = uses_.at(to);
    const Use* write = nullptr;  // in the innermost body, which is the last of its number
    std::size_t all = 0, last_number = kNone;
    for (const Use& use : of_to) {
      if (use.number != last_number) ++all;
      last_number = use.number;
      if (!use.writes) continue;
      if (write != nullptr && write->number != use.number) return false;
      write = &use;
    }
    if (write == nullptr) return false;
    // All other uses come later, in the same body or in bodies within it.
    std::size_t within = 0, last = write->place;
    last_number = kNone;
    for (const Use& use : of_to) {
      if (use.body != write->body) continue;
      if (use.place < write->place) return false;
      if (use.number != last_number) ++within;
      last_number = use.number;
      last = std::max(last, use.place);
    }
    const std::vector<Use>& of_from = uses_.at(from);
    return within == all && std::none_of(of_from.begin(), of_from.end(), [&](const Use& use) {
             return use.writes && use.body == write->body && use.place > write->place && use.place <= last;
           });
  }

  const CompiledProgram& program_;
  std::unordered_set<const ProgramNode*> visited_;
  std::vector<const Operation*> copies_;
  std::unordered_map<VariableId, std::vector<Use>> uses_;
  std::size_t bodies_ = 0, num_uses_ = 0;
  std::vector<std::pair<std::size_t, std::size_t>> path_;  // bodies, and the places in them
};

}  // namespace

std::unordered_set<const Operation*> ElidedCopies(const CompiledProgram& program) {
  return Uses(program).Elided();
}

}  // namespace ipu_model
