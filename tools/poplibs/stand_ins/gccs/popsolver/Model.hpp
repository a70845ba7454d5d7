// Stand-in for Graphcore's unpublished constraint solver, with the interface that PopLibs' planners use:
// unsigned variables with ranges, arithmetic constraints, and the solution that minimises a list of
// variables.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gccs {
namespace popsolver {

class DataType {
 public:
  using UnderlyingType = std::uint64_t;
  constexpr DataType() = default;
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  explicit constexpr DataType(T value) : value_(static_cast<std::uint64_t>(value)) {}
  constexpr std::uint64_t operator*() const { return value_; }
  template <typename T>
  T getAs() const {
    return static_cast<T>(value_);
  }
  static constexpr DataType min() { return DataType(std::uint64_t{0}); }
  static constexpr DataType max() { return DataType(std::numeric_limits<std::uint64_t>::max()); }

  friend constexpr bool operator==(DataType a, DataType b) { return a.value_ == b.value_; }
  friend constexpr bool operator!=(DataType a, DataType b) { return a.value_ != b.value_; }
  friend constexpr bool operator<(DataType a, DataType b) { return a.value_ < b.value_; }
  friend constexpr bool operator>(DataType a, DataType b) { return a.value_ > b.value_; }
  friend constexpr bool operator<=(DataType a, DataType b) { return a.value_ <= b.value_; }
  friend constexpr bool operator>=(DataType a, DataType b) { return a.value_ >= b.value_; }
  friend constexpr DataType operator+(DataType a, DataType b) { return DataType(a.value_ + b.value_); }
  friend constexpr DataType operator-(DataType a, DataType b) { return DataType(a.value_ - b.value_); }
  friend constexpr DataType operator*(DataType a, DataType b) { return DataType(a.value_ * b.value_); }
  friend constexpr DataType operator/(DataType a, DataType b) { return DataType(a.value_ / b.value_); }
  friend constexpr DataType operator%(DataType a, DataType b) { return DataType(a.value_ % b.value_); }
  DataType& operator+=(DataType b) { return *this = *this + b; }
  DataType& operator-=(DataType b) { return *this = *this - b; }
  DataType& operator*=(DataType b) { return *this = *this * b; }
  DataType& operator++() {
    ++value_;
    return *this;
  }
  friend std::ostream& operator<<(std::ostream& out, DataType d) { return out << d.value_; }
  friend std::istream& operator>>(std::istream& in, DataType& d) { return in >> d.value_; }

 private:
  std::uint64_t value_ = 0;
};

struct Variable {
  Variable() = default;
  explicit Variable(std::size_t i) : id(i) {}
  std::size_t id = std::numeric_limits<std::size_t>::max();
  friend bool operator==(Variable a, Variable b) { return a.id == b.id; }
  friend bool operator!=(Variable a, Variable b) { return a.id != b.id; }
  friend bool operator<(Variable a, Variable b) { return a.id < b.id; }
};

struct ConstraintEvaluationSummary {
  std::uint64_t call = 0, other = 0;
  std::uint64_t total() const { return call + other; }
  ConstraintEvaluationSummary& operator+=(const ConstraintEvaluationSummary& b) {
    call += b.call;
    other += b.other;
    return *this;
  }
  friend ConstraintEvaluationSummary operator+(ConstraintEvaluationSummary a,
                                               const ConstraintEvaluationSummary& b) {
    return a += b;
  }
  friend std::ostream& operator<<(std::ostream& out, const ConstraintEvaluationSummary& s) {
    return out << "call: " << s.call << ", other: " << s.other;
  }
};

class Solution {
 public:
  Solution() = default;
  explicit Solution(std::vector<std::uint64_t> values, ConstraintEvaluationSummary summary)
      : values_(std::move(values)), valid_(true), summary_(summary) {}
  bool validSolution() const { return valid_; }
  // A variable that no model made is zero: planners leave the costs of a pass that does nothing so.
  DataType operator[](Variable v) const { return v == Variable() ? DataType() : DataType(values_.at(v.id)); }
  ConstraintEvaluationSummary constraintsEvaluated() const { return summary_; }
  void setEvaluated(const ConstraintEvaluationSummary& summary) { summary_ = summary; }

 private:
  std::vector<std::uint64_t> values_;
  bool valid_ = false;
  ConstraintEvaluationSummary summary_;
};

class PriorityGroup {
 public:
  PriorityGroup() = default;
  explicit PriorityGroup(std::size_t i) : id(i) {}
  std::size_t id = 0;
};

class Model {
 public:
  Model();

  Variable addVariable(const std::string& name = "");
  template <typename A, typename B>
  Variable addVariable(A min, B max, const std::string& name = "") {
    return Add(Value(min), Value(max), name, true);
  }
  template <typename A>
  Variable addConstant(A value, const std::string& name = "") {
    return Add(Value(value), Value(value), name, false);
  }
  Variable zero() { return addConstant(0u); }
  Variable one() { return addConstant(1u); }

  Variable product(std::vector<Variable> vars, const std::string& name = "");
  Variable sum(std::vector<Variable> vars, const std::string& name = "");
  Variable max(std::vector<Variable> vars, const std::string& name = "");
  Variable min(std::vector<Variable> vars, const std::string& name = "");
  Variable sub(Variable a, Variable b, const std::string& name = "");
  Variable ceildiv(Variable a, Variable b, const std::string& name = "");
  Variable floordiv(Variable a, Variable b, const std::string& name = "");
  Variable mod(Variable a, Variable b, const std::string& name = "");
  // ceil(a / b), where b must be the smallest divisor with that result.
  Variable ceildivConstrainDivisor(Variable a, Variable b, const std::string& name = "");
  Variable booleanNot(Variable a, const std::string& name = "");
  Variable booleanAnd(Variable a, Variable b, const std::string& name = "");
  Variable booleanOr(Variable a, Variable b, const std::string& name = "");
  Variable reifiedLess(Variable a, Variable b, const std::string& name = "");
  Variable reifiedLessOrEqual(Variable a, Variable b, const std::string& name = "");
  Variable reifiedEqual(Variable a, Variable b, const std::string& name = "");

  void equal(Variable a, Variable b);
  void equal(Variable a, DataType value) { equal(a, addConstant(value)); }
  void lessOrEqual(Variable a, Variable b);
  void lessOrEqual(Variable a, DataType value) { lessOrEqual(a, addConstant(value)); }
  void lessOrEqual(DataType value, Variable a) { lessOrEqual(addConstant(value), a); }
  void less(Variable a, Variable b);
  void less(Variable a, DataType value) { less(a, addConstant(value)); }
  void factorOf(Variable a, Variable b);  // b divides a

  // Any function of values. It returns a DataType, or an optional one: no solution has these arguments.
  template <typename T, typename F>
  Variable call(std::vector<Variable> vars, F f, const std::string& name = "") {
    return Call(
        std::move(vars),
        [f, arguments = std::vector<T>()](const std::vector<std::uint64_t>& values,
                                          std::uint64_t* result) mutable {
          arguments.clear();
          for (const std::uint64_t value : values) arguments.emplace_back(value);
          const auto returned = f(arguments);
          if constexpr (std::is_same_v<std::decay_t<decltype(returned)>, DataType>) {
            *result = *returned;
          } else {
            if (!returned) return false;
            *result = **returned;
          }
          return true;
        },
        name);
  }

  PriorityGroup getDefaultPriorityGroup() const { return PriorityGroup(0); }
  PriorityGroup addPriorityGroup();
  void setPriorityGroup(Variable v, PriorityGroup group);
  // Values of the variables in `a` are chosen first.
  void prioritiseOver(PriorityGroup a, PriorityGroup b);

  Solution minimize(const std::vector<Variable>& objectives);
  Solution minimize(Variable objective) { return minimize(std::vector<Variable>{objective}); }

 private:
  enum class Kind {
    kProduct,
    kSum,
    kMax,
    kMin,
    kSub,
    kCeilDiv,
    kFloorDiv,
    kMod,
    kExactDivisor,
    kNot,
    kAnd,
    kOr,
    kLess,
    kLessOrEqual,
    kEqual,
    kFactor,
    kCall
  };
  using Function = std::function<bool(const std::vector<std::uint64_t>&, std::uint64_t*)>;
  struct Domain {
    std::uint64_t min, max;
    bool fixed() const { return min == max; }
  };
  struct Constraint {
    Kind kind;
    std::vector<std::size_t> args;
    std::size_t result;
    Function function;
  };
  struct Search;

  template <typename T>
  static std::uint64_t Value(T value) {
    if constexpr (std::is_same_v<T, DataType>) {
      return *value;
    } else {
      return static_cast<std::uint64_t>(value);
    }
  }
  Variable Add(std::uint64_t min, std::uint64_t max, const std::string& name, bool decision);
  Variable AddResult(Kind kind, const std::vector<Variable>& args, const std::string& name,
                     std::uint64_t max = std::numeric_limits<std::uint64_t>::max());
  Variable Call(std::vector<Variable> vars, Function f, const std::string& name);

  std::vector<Domain> domains_;
  std::vector<std::string> names_;
  std::vector<std::size_t> decisions_;
  std::vector<Constraint> constraints_;
  std::vector<std::size_t> groups_;                              // by variable
  std::vector<std::pair<std::size_t, std::size_t>> priorities_;  // (first, later) groups
  std::size_t num_groups_ = 1;
};

}  // namespace popsolver
}  // namespace gccs
