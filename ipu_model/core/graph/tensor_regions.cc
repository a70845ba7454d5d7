// The parts of poplar::Tensor that take or give regions, and what it prints.
#include <algorithm>
#include <cstring>
#include <sstream>
#include <utility>

#include "core/graph/compute_set.h"
#include "core/graph/graph_impl.h"
#include "core/graph/tensor_data.h"
#include "core/mapping/stretches.h"
#include "core/mapping/strides.h"
#include "poplar/Tensor.hpp"
#include "poplar/exceptions.hpp"

namespace poplar {

using ipu_model::ElementsIn;
using ipu_model::GraphImpl;
using ipu_model::SharedStretches;
using ipu_model::Stretch;
using ipu_model::StretchesOf;

std::vector<Tensor> Tensor::slices(ArrayRef<Interval> intervals, unsigned dimension) const {
  CheckDim("slices", dimension);
  std::vector<Tensor> result;
  result.reserve(intervals.size());
  for (const Interval& i : intervals) result.push_back(slice(i, dimension));
  return result;
}

std::vector<Tensor> Tensor::slices(const std::vector<std::vector<Interval>>& intervals,
                                   unsigned dimension) const {
  CheckDim("slices", dimension);
  for (const std::vector<Interval>& set : intervals) {
    for (const Interval& i : set) {
      if (i.begin() > i.end()) slice(i, dimension);  // throws
    }
  }
  std::vector<Tensor> result;
  result.reserve(intervals.size());
  // All regions of a flat tensor are found in one walk over its blocks; slices would be a walk each.
  const bool flat = rank() == 1 && dimension == 0;
  std::size_t elements = 0;
  for (const std::vector<Interval>& set : intervals) elements += ElementsIn(set);
  const auto stretches = flat ? SharedStretches(*this, elements, false) : nullptr;
  for (const std::vector<Interval>& set : intervals) {
    // PopLibs' generated maps slice operands of one element like those of vectors, beyond their end, and only
    // use how many elements the slices have: the slices repeat the element.
    const auto beyond = [this](const Interval& i) { return i.end() > numElements(); };
    if (flat && numElements() == 1 && std::any_of(set.begin(), set.end(), beyond)) {
      result.push_back(broadcast(static_cast<unsigned>(ElementsIn(set)), 0));
    } else if (flat) {
      for (const Interval& i : set) {
        if (i.end() > numElements()) slice(i, 0);  // throws
      }
      result.push_back(TensorOfStretches(*this, SelectStretches(*stretches, set)));
    } else if (set.empty()) {
      result.push_back(slice(0, 0, dimension));
    } else {
      result.push_back(concat(slices(ArrayRef<Interval>(set), dimension), dimension));
    }
  }
  return result;
}

std::vector<Tensor> Tensor::slices(ArrayRef<unsigned> indices, unsigned dimension) const {
  CheckDim("slices", dimension);
  std::vector<Tensor> result;
  result.reserve(indices.size());
  for (const std::size_t i : indices) result.push_back(slice(i, i + 1, dimension));
  return result;
}

Tensor Tensor::dimShufflePartial(const std::vector<unsigned>& source,
                                 const std::vector<unsigned>& destination) const {
  CheckValid("dimShufflePartial");
  std::vector<unsigned> permutation(rank(), rank());
  std::vector<bool> moved(rank(), false);
  bool fits = source.size() == destination.size();
  for (std::size_t i = 0; fits && i < source.size(); ++i) {
    fits = source[i] < rank() && destination[i] < rank() && !moved[source[i]] &&
           permutation[destination[i]] == rank();
    if (!fits) break;
    moved[source[i]] = true;
    permutation[destination[i]] = source[i];
  }
  if (!fits) {
    throw poplar_error(
        "Tensor::dimShufflePartial: sources and destinations must be as many, different, and "
        "dimensions of the tensor, which has shape " +
        shapeToString());
  }
  unsigned next = 0;
  for (unsigned& from : permutation) {
    if (from != rank()) continue;
    while (moved[next]) ++next;
    from = next++;
  }
  return dimShuffle(permutation);
}

Tensor Tensor::upsample(unsigned scale, unsigned dimension, UpsampleMethod /*method*/) const {
  CheckDim("upsample", dimension);
  std::vector<std::size_t> shape = this->shape();
  shape[dimension] *= scale;
  return expand({dimension + 1}).broadcast(scale, dimension + 1).reshape(shape);
}

bool Tensor::intersectsWith(const Tensor& other) const {
  CheckValid("intersectsWith");
  other.CheckValid("intersectsWith");
  if (graph() != other.graph()) return false;
  const auto sorted = [](const Tensor& t) {
    std::vector<Stretch> s = StretchesOf(t, true);
    std::sort(s.begin(), s.end(), [](const Stretch& a, const Stretch& b) {
      return a.variable != b.variable ? a.variable < b.variable : a.element < b.element;
    });
    return s;
  };
  const std::vector<Stretch> a = sorted(*this), b = sorted(other);
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].variable != b[j].variable) {
      ++(a[i].variable < b[j].variable ? i : j);
    } else if (a[i].element + a[i].count <= b[j].element) {
      ++i;
    } else if (b[j].element + b[j].count <= a[i].element) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

std::vector<Interval> Tensor::getContiguousRegions() const {
  std::vector<Interval> regions;
  for (const Stretch& s : StretchesOf(*this, true))
    regions.emplace_back(static_cast<std::size_t>(s.begin), static_cast<std::size_t>(s.begin + s.count));
  return regions;
}

std::vector<VariableInterval> Tensor::getVarRegions() const {
  std::vector<VariableInterval> regions;
  for (const Stretch& s : StretchesOf(*this, true)) {
    regions.emplace_back(VariableRef(s.variable), Interval(static_cast<std::size_t>(s.element),
                                                           static_cast<std::size_t>(s.element + s.count)));
  }
  return regions;
}

bool Tensor::constantNumber(double* number, std::int64_t* integer) const {
  CheckValid("getConstantValue");
  ipu_model::View view;
  if (numElements() != 1 || !asView(&view)) return false;
  const ipu_model::Variable& variable =
      ipu_model::GraphOf(*this, "Tensor::getConstantValue").variables[view.variable];
  if (variable.constant == nullptr || variable.is_replica_index) return false;
  const std::size_t size = ipu_model::SizeOf(variable.type);
  const ipu_model::Number n = ipu_model::NumberOfBytes(
      variable.constant->data() + static_cast<std::size_t>(view.offset) * size, view.type);
  *number = n.real;
  *integer = n.is_real ? static_cast<std::int64_t>(n.real) : n.integer;
  return true;
}

bool Tensor::equals(const Tensor& other) const {
  if (data_ == other.data_) return true;
  if (!valid() || !other.valid() || graph() != other.graph() || elementType() != other.elementType() ||
      shape() != other.shape())
    return false;
  if (blocks().size() == 1 && other.blocks().size() == 1) {
    const auto whole = [](const Tensor& t) { return Coalesced(t.blocks()[0].view(t.elementType().id())); };
    return numElements() == 0 || SameView(whole(*this), whole(other));
  }
  const std::vector<Stretch> a = StretchesOf(*this, false), b = StretchesOf(other, false);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Stretch& x, const Stretch& y) {
    return x.variable == y.variable && x.element == y.element && x.count == y.count && x.step == y.step;
  });
}

std::string Tensor::getVarStr() const {
  if (!valid()) return "";
  std::vector<ipu_model::VariableId> seen;
  std::string names;
  if (graph() == nullptr) return "<of a graph that is gone>";
  const auto& variables = static_cast<const GraphImpl*>(graph())->variables;
  for (std::size_t i = 0; i < blocks().size(); ++i) {
    const ipu_model::VariableId id = blocks()[i].variable();
    if (std::find(seen.begin(), seen.end(), id) != seen.end()) continue;
    seen.push_back(id);
    const std::string& name = variables[id].name;
    names += (names.empty() ? "" : ",") + (name.empty() ? "<" + std::to_string(id) + ">" : name);
  }
  return names;
}

std::string Tensor::getDebugStr() const {
  if (!valid()) return "<empty tensor>";
  return getVarStr() + " " + elementType().toString() + shapeToString();
}

void Tensor::output(std::ostream& out) const {
  if (!valid()) {
    out << "<empty tensor>";
    return;
  }
  out << elementType().toString() << shapeToString() << " [";
  outputRegions(out);
  out << "]";
}

void Tensor::outputRegions(std::ostream& out) const {
  if (!valid()) return;
  const GraphImpl& impl = ipu_model::GraphOf(*this, "Tensor::output");
  const char* separator = "";
  for (const VariableInterval& r : getVarRegions()) {
    out << separator << impl.variables[r.var.id()].name << "#" << r.var.id() << r.interval;
    separator = ", ";
  }
}

Tensor append(const Tensor& first, const Tensor& second, unsigned dimension) {
  return concat(first, second.expand({dimension}), dimension);
}

}  // namespace poplar
