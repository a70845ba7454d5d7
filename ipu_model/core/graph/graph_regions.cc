// The functions of poplar::Graph on the order of elements in memory.
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/graph/graph_impl.h"
#include "core/mapping/blocks.h"
#include "core/mapping/stretches.h"
#include "core/mapping/strides.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

bool Before(const Stretch& a, const Stretch& b) {
  return a.variable != b.variable ? a.variable < b.variable : a.element < b.element;
}

// The elements of a tensor that are used, by variable: sorted intervals that do not touch.
std::map<VariableId, std::vector<poplar::Interval>> UsedElements(const std::vector<Stretch>& stretches) {
  std::vector<Stretch> sorted = stretches;
  std::sort(sorted.begin(), sorted.end(), Before);
  std::map<VariableId, std::vector<poplar::Interval>> used;
  for (const Stretch& s : sorted) {
    const auto begin = static_cast<std::size_t>(s.element), end = begin + static_cast<std::size_t>(s.count);
    std::vector<poplar::Interval>& intervals = used[s.variable];
    if (!intervals.empty() && begin <= intervals.back().end()) {
      intervals.back() = poplar::Interval(intervals.back().begin(), std::max(intervals.back().end(), end));
    } else {
      intervals.emplace_back(begin, end);
    }
  }
  return used;
}

}  // namespace

poplar::Tensor CloneKeepingAliases(poplar::Graph* graph, poplar::Type type, const poplar::Tensor& tensor,
                                   const std::string& name, bool gather) {
  GraphImpl& impl = graph->impl();
  const std::vector<Stretch> stretches = StretchesOf(tensor, true);
  // Where the copy of an element is: the intervals of the source, in the order of the source, with the place
  // of their first element.
  struct Place {
    std::int64_t begin, end;
    VariableId variable;
    std::int64_t element;
  };
  std::map<VariableId, std::vector<Place>> places;
  struct Part {
    std::vector<MappedInterval> intervals;
    std::int64_t elements = 0;
    std::vector<std::pair<VariableId, std::size_t>> places;  // of the elements, by number
  };
  const auto used = UsedElements(stretches);
  // With `gather`: one for each tile, which lie one after another in one variable; otherwise a variable for
  // each source.
  std::map<std::int64_t, Part> parts;
  for (const auto& [id, intervals] : used) {
    for (const poplar::Interval& i : intervals) {
      const auto begin = static_cast<std::int64_t>(i.begin()), end = static_cast<std::int64_t>(i.end());
      std::vector<MappedInterval> intervals;
      impl.variables[id].mapping.Intervals(begin, end, &intervals);
      std::int64_t next = begin;
      const auto add = [&](std::int64_t from, std::int64_t to, std::int64_t tile) {
        if (from >= to) return;
        Part& part = parts[gather ? tile : static_cast<std::int64_t>(id)];
        part.places.emplace_back(id, places[id].size());
        places[id].push_back({from, to, 0, part.elements});
        if (tile >= 0)
          part.intervals.push_back({part.elements, part.elements + to - from, static_cast<unsigned>(tile)});
        part.elements += to - from;
      };
      for (const MappedInterval& r : intervals) {
        add(next, r.begin, -1);
        add(r.begin, r.end, r.tile);
        next = r.end;
      }
      add(next, end, -1);
    }
  }
  if (gather) {
    Part all;
    for (const auto& [tile, part] : parts) {
      for (const MappedInterval& r : part.intervals)
        all.intervals.push_back({r.begin + all.elements, r.end + all.elements, r.tile});
      for (const auto& [source, place] : part.places) places[source][place].element += all.elements;
      all.places.insert(all.places.end(), part.places.begin(), part.places.end());
      all.elements += part.elements;
    }
    parts = {{0, std::move(all)}};
  }
  for (auto& [key, part] : parts) {
    const VariableId id = impl.AddVariable(type.id(), {part.elements}, name,
                                           part.intervals.empty() ? Mapping() : Mapping(part.intervals));
    for (const auto& [source, place] : part.places) places[source][place].variable = id;
  }
  std::vector<Stretch> copied;
  for (const Stretch& s : stretches) {
    const std::vector<Place>& of = places[s.variable];
    std::int64_t element = s.element;
    const std::int64_t end = s.element + s.count;
    auto at = std::upper_bound(of.begin(), of.end(), element,
                               [](std::int64_t e, const Place& p) { return e < p.begin; });
    for (--at; element < end; ++at) {
      const std::int64_t count = std::min(end, at->end) - element;
      AppendStretch({0, at->variable, at->element + element - at->begin, count, 1}, false, &copied);
      element += count;
    }
  }
  const poplar::Tensor like = tensor.withType(type, {});
  return TensorOfStretches(like, copied).reshape(tensor.shape());
}

poplar::Tensor CloneForOperation(poplar::Graph& graph, poplar::Type type, const poplar::Tensor& tensor,
                                 const poplar::DebugContext& debug_context) {
  View view;
  return graph.clone(type, tensor, debug_context,
                     tensor.asView(&view) ? poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES
                                          : poplar::TensorCloneMethod::CREATE_NEW_ORDER);
}

}  // namespace ipu_model

namespace poplar {

using ipu_model::Stretch;
using ipu_model::StretchesOf;
using ipu_model::View;

namespace {

struct Piece {
  Interval region;  // of the flattened tensor
  ipu_model::VariableId variable;
  std::int64_t element;
};

// Cuts sorted pieces so that each is either the first with its elements in memory, or has elements of one
// earlier piece only. `first` of the latter is where that has them.
struct AliasedPiece {
  Piece piece;
  std::size_t first;
};
std::vector<AliasedPiece> FindAliases(const std::vector<Piece>& pieces) {
  std::vector<AliasedPiece> result;
  std::vector<Piece> unique;  // of this variable, ascending
  std::size_t oldest = 0;     // those before end before every later piece
  for (Piece p : pieces) {
    if (!unique.empty() && unique.back().variable != p.variable) {
      unique.clear();
      oldest = 0;
    }
    const auto end_of = [](const Piece& u) { return u.element + static_cast<std::int64_t>(u.region.size()); };
    while (oldest < unique.size() && end_of(unique[oldest]) <= p.element) ++oldest;
    const auto take = [&p](std::size_t count) {
      const Piece part{Interval(p.region.begin(), p.region.begin() + count), p.variable, p.element};
      p.region = Interval(part.region.end(), p.region.end());
      p.element += static_cast<std::int64_t>(count);
      return part;
    };
    for (std::size_t u = oldest; u < unique.size() && p.region.size() > 0; ++u) {
      const std::int64_t shared = std::min(end_of(unique[u]), end_of(p)) - p.element;
      const std::size_t first =
          unique[u].region.begin() + static_cast<std::size_t>(p.element - unique[u].element);
      if (shared > 0) result.push_back({take(static_cast<std::size_t>(shared)), first});
    }
    if (p.region.size() > 0) {
      unique.push_back(p);
      result.push_back({p, p.region.begin()});
    }
  }
  return result;
}

}  // namespace

std::vector<std::vector<Interval>> Graph::getSortedContiguousRegions(
    const Tensor& tensor, ArrayRef<Interval> regions, bool removeAliasedIntervals,
    std::vector<std::size_t>* aliases) const {
  ipu_model::CheckGraph(*impl_, tensor, "getSortedContiguousRegions");
  const auto shared = ipu_model::SharedStretches(tensor, ipu_model::ElementsIn(regions), true);
  const std::vector<Stretch>& stretches = *shared;
  std::vector<Piece> pieces;
  for (const Interval& region : regions) {
    if (region.end() > tensor.numElements() || region.begin() > region.end()) {
      throw poplar_error("getSortedContiguousRegions: [" + std::to_string(region.begin()) + ", " +
                         std::to_string(region.end()) + ") is not inside a tensor of shape " +
                         tensor.shapeToString());
    }
    auto begin = static_cast<std::int64_t>(region.begin());
    const auto end = static_cast<std::int64_t>(region.end());
    if (begin == end) continue;
    auto at = std::upper_bound(stretches.begin(), stretches.end(), begin,
                               [](std::int64_t b, const Stretch& s) { return b < s.begin; });
    for (--at; begin < end; ++at) {
      const std::int64_t to = std::min(end, at->begin + at->count);
      pieces.push_back({Interval(static_cast<std::size_t>(begin), static_cast<std::size_t>(to)), at->variable,
                        at->element + begin - at->begin});
      begin = to;
    }
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.variable != b.variable ? a.variable < b.variable : a.element < b.element;
  });
  if (aliases != nullptr) aliases->clear();
  const bool find_aliases = removeAliasedIntervals || aliases != nullptr;
  std::vector<AliasedPiece> found;
  if (find_aliases) {
    found = FindAliases(pieces);
  } else {
    for (const Piece& p : pieces) found.push_back({p, p.region.begin()});
  }
  std::vector<std::vector<Interval>> result;
  const AliasedPiece* last = nullptr;
  std::size_t last_first = 0;  // of the last interval
  for (const AliasedPiece& a : found) {
    const Piece& p = a.piece;
    if (removeAliasedIntervals && a.first != p.region.begin()) continue;
    const bool continues =
        last != nullptr && last->piece.variable == p.variable &&
        last->piece.element + static_cast<std::int64_t>(last->piece.region.size()) == p.element;
    last = &a;
    if (!continues) result.emplace_back();
    std::vector<Interval>& set = result.back();
    if (!set.empty() && set.back().end() == p.region.begin() &&
        (!find_aliases || last_first + set.back().size() == a.first)) {
      set.back() = Interval(set.back().begin(), p.region.end());
      continue;
    }
    set.push_back(p.region);
    last_first = a.first;
    if (aliases != nullptr) aliases->push_back(a.first);
  }
  return result;
}

void Graph::reorderToSimplify(Tensor* tensor, ArrayRef<Tensor*> others, bool /*requireSimplestOrder*/) const {
  ipu_model::CheckGraph(*impl_, *tensor, "reorderToSimplify");
  const std::size_t elements = tensor->numElements();
  for (const Tensor* t : others) {
    ipu_model::CheckGraph(*impl_, *t, "reorderToSimplify");
    if (t->numElements() != elements) {
      throw poplar_error("reorderToSimplify: tensors of shapes " + tensor->shapeToString() + " and " +
                         t->shapeToString() + " do not have as many elements");
    }
  }
  if (elements == 0) return;
  const Tensor flat = tensor->flatten();
  if (tensor->blocks().size() == 1) {
    // One strided view: the order of its dimensions is enough.
    const View merged = ipu_model::Coalesced(tensor->blocks()[0].view(tensor->elementType().id()));
    std::vector<unsigned> order(merged.shape.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](unsigned a, unsigned b) { return merged.strides[a] > merged.strides[b]; });
    if (std::all_of(merged.strides.begin(), merged.strides.end(), [](std::int64_t s) { return s >= 0; })) {
      const std::vector<std::size_t> shape(merged.shape.begin(), merged.shape.end());
      *tensor = flat.reshape(shape).dimShuffle(order).flatten();
      for (Tensor* t : others) *t = t->flatten().reshape(shape).dimShuffle(order).flatten();
      return;
    }
  }
  std::vector<Stretch> sorted = StretchesOf(flat, true);
  std::stable_sort(sorted.begin(), sorted.end(), ipu_model::Before);
  std::vector<Interval> regions;
  for (const Stretch& s : sorted)
    regions.emplace_back(static_cast<std::size_t>(s.begin), static_cast<std::size_t>(s.begin + s.count));
  const auto reorder = [&](const Tensor& t) {
    return TensorOfStretches(t, SelectStretches(StretchesOf(t, false), regions));
  };
  *tensor = reorder(flat);
  for (Tensor* t : others) *t = reorder(t->flatten());
}

Tensor Graph::cloneN(const Tensor& tensor, std::size_t N, const DebugContext& debugContext,
                     TensorCloneMethod method, TensorCloneDuplicationMethod duplicationMethod) {
  return cloneN(tensor.elementType(), tensor, N, debugContext, method, duplicationMethod);
}

Tensor Graph::cloneN(const Type& type, const Tensor& tensor, std::size_t N, const DebugContext& debugContext,
                     TensorCloneMethod method, TensorCloneDuplicationMethod duplicationMethod) {
  ipu_model::CheckGraph(*impl_, tensor, "Graph::cloneN");
  std::vector<std::size_t> shape = tensor.shape();
  shape.insert(shape.begin(), N);
  if (duplicationMethod == TensorCloneDuplicationMethod::DUPLICATE_BY_OUTER_DIMENSION || N == 0 ||
      tensor.numElements() == 0 || type.requiresMetadata()) {
    if (N == 0) return clone(type, tensor, debugContext, method).expand({0}).slice(0, 0);
    std::vector<Tensor> copies;
    for (std::size_t i = 0; i < N; ++i) {
      // All copies of a QUARTER have the metadata of the first, as they are one tensor.
      const Tensor copy = i > 0 && type.requiresMetadata()
                              ? clone(type, copies[0].getMetadata(), tensor, debugContext, method)
                              : clone(type, tensor, debugContext, method);
      copies.push_back(copy.expand({0}));
    }
    return concat(copies);
  }
  // One variable for each tile; its rows are copies of the tile's elements, in the order of the memory.
  const Tensor flat = tensor.flatten();
  std::vector<std::pair<Interval, Tensor>> parts;
  const TileToTensorMapping tiles = getTileMapping(flat);
  for (unsigned tile = 0; tile < tiles.size(); ++tile) {
    std::size_t elements = 0, first = 0;
    for (const Interval& i : tiles[tile]) elements += i.size();
    if (elements == 0) continue;
    const Tensor variable = addVariable(type, {N, elements}, debugContext);
    setTileMapping(variable, tile);
    for (const std::vector<Interval>& set : getSortedContiguousRegions(flat, tiles[tile])) {
      for (const Interval& i : set) {
        parts.emplace_back(i, variable.slice(first, first + i.size(), 1));
        first += i.size();
      }
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return a.first.begin() < b.first.begin(); });
  std::vector<Tensor> ordered;
  for (const auto& [interval, part] : parts) ordered.push_back(part);
  return concat(ordered, 1).reshape(shape);
}

Tensor Graph::findUnbroadcastTensor(const Tensor& tensor) const {
  ipu_model::CheckGraph(*impl_, tensor, "findUnbroadcastTensor");
  if (tensor.blocks().size() != 1 || tensor.numElements() == 0) return tensor;
  View view;
  if (!tensor.asView(&view)) return tensor;
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    if (view.strides[d] == 0) view.shape[d] = 1;
  }
  if (view.num_elements() == static_cast<std::int64_t>(tensor.numElements())) return tensor;
  return Tensor::fromView(view, tensor.graph()).withType(tensor.elementType(), tensor.getMetadata());
}

namespace {
void CheckVariable(const ipu_model::GraphImpl& graph, VariableRef variable, const char* method) {
  if (variable.id() < graph.variables.size()) return;
  throw poplar_error(std::string(method) + ": there is no variable " + std::to_string(variable.id()) +
                     "; the graph has " + std::to_string(graph.variables.size()));
}
}  // namespace

bool Graph::isConstant(VariableRef variable) const {
  CheckVariable(*impl_, variable, "isConstant");
  return impl_->variables[variable.id()].constant != nullptr;
}

Tensor Graph::getVariable(VariableRef variable) const {
  CheckVariable(*impl_, variable, "getVariable");
  return impl_->TensorOf(variable.id());
}

}  // namespace poplar
