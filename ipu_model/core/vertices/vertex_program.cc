#include "core/vertices/vertex_program.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "core/mapping/strides.h"
#include "core/operation/serialise.h"
#include "core/vertices/vertex_estimate.h"

namespace ipu_model {

using codelet::Class;
using codelet::EdgeRef;
using codelet::Field;

namespace {

constexpr std::size_t kAlignment = 64;
std::size_t Aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool IsEdge(const Field& field) { return field.direction != codelet::kNoDirection; }
bool IsOneEdge(const Field& field) {
  return field.kind == codelet::kScalarEdge || field.kind == codelet::kVectorEdge;
}

void WriteIntervals(Writer* writer, const std::vector<VertexInterval>& intervals) {
  writer->Write(intervals.size());
  for (const VertexInterval& interval : intervals) {
    writer->Write(interval.operand);
    writer->Write(interval.begin);
    writer->Write(interval.count);
  }
}

std::vector<VertexInterval> ReadIntervals(Reader* reader) {
  std::vector<VertexInterval> intervals(reader->ReadLength());
  for (VertexInterval& interval : intervals) {
    interval.operand = reader->Read<std::uint32_t>();
    interval.begin = reader->Read<std::int64_t>();
    interval.count = reader->Read<std::int64_t>();
  }
  return intervals;
}

std::int64_t Elements(const std::vector<VertexInterval>& intervals) {
  std::int64_t n = 0;
  for (const VertexInterval& interval : intervals) n += interval.count;
  return n;
}

// An interval of elements of a variable, and whose it is.
struct Use {
  VariableId variable;
  std::int64_t begin, end;
  std::size_t vertex, edge;
  bool operator<(const Use& other) const {
    return variable != other.variable ? variable < other.variable : begin < other.begin;
  }
};

}  // namespace

std::int64_t VertexEdge::elements() const { return reads.empty() ? Elements(writes) : Elements(reads); }

std::string VertexProgram::Name(std::size_t vertex) const {
  const ProgramVertex& v = vertices.at(vertex);
  return "vertex " + std::to_string(vertex) + " of compute set '" + compute_set + "' (" + types[v.type].name +
         ", tile " + std::to_string(v.tile) + ")";
}

void VertexProgram::Write(Writer* writer) const {
  writer->Write(compute_set);
  writer->Write(types.size());
  for (const VertexType& type : types) {
    writer->Write(type.name);
    writer->Write(type.library);
  }
  writer->Write(vertices.size());
  for (const ProgramVertex& v : vertices) {
    writer->Write(v.type);
    writer->Write(v.tile);
    writer->Write(static_cast<std::int64_t>(v.cycles));
    writer->Write(static_cast<std::int64_t>(v.flops));
    writer->Write(v.cycle_source);
    writer->Write(v.edges.size());
    for (const VertexEdge& edge : v.edges) {
      writer->Write(edge.field);
      writer->Write(edge.is_metadata);
      WriteIntervals(writer, edge.reads);
      WriteIntervals(writer, edge.writes);
    }
    writer->Write(v.values);
  }
}

VertexProgram VertexProgram::Read(Reader* reader) {
  VertexProgram program;
  program.compute_set = reader->Read<std::string>();
  program.types.resize(reader->ReadLength());
  for (VertexType& type : program.types) {
    type.name = reader->Read<std::string>();
    type.library = reader->Read<std::string>();
  }
  for (std::size_t n = reader->ReadLength(); n > 0; --n) {
    ProgramVertex v;
    v.type = reader->Read<std::uint32_t>();
    v.tile = reader->Read<std::uint32_t>();
    v.cycles = static_cast<std::uint64_t>(reader->Read<std::int64_t>());
    v.flops = static_cast<std::uint64_t>(reader->Read<std::int64_t>());
    v.cycle_source = reader->Read<CycleSource>();
    for (std::size_t e = reader->ReadLength(); e > 0; --e) {
      VertexEdge edge;
      edge.field = reader->Read<std::uint32_t>();
      edge.is_metadata = reader->Read<bool>();
      edge.reads = ReadIntervals(reader);
      edge.writes = ReadIntervals(reader);
      v.edges.push_back(std::move(edge));
    }
    v.values = reader->Read<std::vector<std::string>>();
    program.vertices.push_back(std::move(v));
  }
  return program;
}

void VertexProgram::Attach(const std::vector<std::shared_ptr<const CodeletLibrary>>& libraries) {
  for (VertexType& type : types) {
    for (const auto& library : libraries) {
      if (library->hash() != type.library) continue;
      type.code = library;
      type.type = library->Find(type.name);
    }
    if (type.type == nullptr)
      throw SerialiseError("the executable has no codelet '" + type.name + "' that its vertices need");
  }
}

namespace {

// Checks the vertices of a program, and collects who uses which elements of its operands.
class UseCheck {
 public:
  UseCheck(const VertexProgram& program, const std::vector<View>& inputs, const std::vector<View>& outputs)
      : program_(program), inputs_(inputs), outputs_(outputs) {}

  // What is wrong with vertex `i`, or "".
  std::string CheckVertex(std::size_t i, unsigned num_tiles) {
    const ProgramVertex& v = program_.vertices[i];
    if (v.type >= program_.types.size() || program_.types[v.type].type == nullptr) return "has no codelet";
    if (v.tile >= num_tiles) return "is on tile " + std::to_string(v.tile) + ", which there is not";
    if (!IsPossibleEstimate(v.cycles, v.flops)) return "has an invalid estimate";
    const Class& type = *program_.types[v.type].type;
    if (v.values.size() != type.num_fields) return "has another number of fields than its class";
    std::vector<std::size_t> edges(type.num_fields, 0);
    elements_ = 0;
    for (std::size_t e = 0; e < v.edges.size(); ++e) {
      const std::string problem = CheckEdge(type, i, e);
      if (!problem.empty()) return problem;
      if (!v.edges[e].is_metadata) ++edges[v.edges[e].field];
    }
    for (std::size_t f = 0; f < type.num_fields; ++f) {
      const Field& field = type.fields[f];
      if (IsOneEdge(field) && edges[f] != 1) return std::string("lacks its edge '") + field.name + "'";
      const std::size_t bytes = v.values[f].size();
      const bool value_fits = field.kind == codelet::kValue ? bytes == 0 || bytes == field.element_bytes
                              : field.kind == codelet::kVectorValue ? bytes % field.element_bytes == 0
                                                                    : bytes == 0;
      if (!value_fits) return std::string("has a value that does not fit its field '") + field.name + "'";
    }
    return "";
  }

  // Once all vertices are checked: who writes what another one writes or reads, or "".
  std::string Overlap(const std::function<std::string(VariableId)>& variable) {
    std::sort(written_.begin(), written_.end());
    for (std::size_t i = 1; i < written_.size(); ++i) {
      const Use &a = written_[i - 1], &b = written_[i];
      if (a.variable == b.variable && b.begin < a.end) {
        return Describe(a) + " and " + Describe(b) + " both write element " + std::to_string(b.begin) +
               " of variable '" + variable(a.variable) + "'";
      }
    }
    // Written intervals are disjoint now, so the ends are sorted as well.
    for (const Use& use : read_) {
      auto w = std::upper_bound(written_.begin(), written_.end(), use, [](const Use& r, const Use& x) {
        return r.variable != x.variable ? r.variable < x.variable : r.begin < x.end;
      });
      for (; w != written_.end() && w->variable == use.variable && w->begin < use.end; ++w) {
        // A vertex may overwrite what it reads, through one edge or two with the same elements.
        if (w->vertex == use.vertex && (w->edge == use.edge || (w->begin == use.begin && w->end == use.end)))
          continue;
        return Describe(use) + " reads element " + std::to_string(std::max(use.begin, w->begin)) +
               " of variable '" + variable(use.variable) + "', which " + Describe(*w) + " writes";
      }
    }
    return "";
  }

 private:
  // So that sums cannot overflow.
  static constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

  // What is wrong with edge `e` of vertex `i`, or "".
  std::string CheckEdge(const Class& type, std::size_t i, std::size_t e) {
    const std::vector<VertexEdge>& edges = program_.vertices[i].edges;
    const VertexEdge& edge = edges[e];
    if (edge.field >= type.num_fields || !IsEdge(type.fields[edge.field]) ||
        (e > 0 && edge.field < edges[e - 1].field)) {
      return "has an edge that its class does not have";
    }
    const Field& field = type.fields[edge.field];
    // Behind every edge of QUARTER comes its metadata, and nowhere else.
    const bool after_quarter =
        e > 0 && edges[e - 1].field == edge.field && field.is_quarter && !edges[e - 1].is_metadata;
    const bool last = e + 1 == edges.size() || edges[e + 1].field != edge.field;
    if (edge.is_metadata != after_quarter || (field.is_quarter && last && !edge.is_metadata))
      return "has QUARTER elements without their metadata";
    const std::size_t bytes = field.element_bytes;
    if (!Add(edge.reads, inputs_, bytes, i, e, &read_) || !Add(edge.writes, outputs_, bytes, i, e, &written_))
      return "has an edge outside of its operands";
    const bool reads = edge.is_metadata || (field.direction & codelet::kRead) != 0,
               writes = !edge.is_metadata && (field.direction & codelet::kWrite) != 0;
    const std::int64_t n = edge.elements();
    if ((!reads && !edge.reads.empty()) || (!writes && !edge.writes.empty()) ||
        (reads && writes && Elements(edge.reads) != Elements(edge.writes))) {
      return "has an edge in the wrong direction";
    }
    const bool scalar =
        edge.is_metadata || field.kind == codelet::kScalarEdge || field.kind == codelet::kScalarEdges;
    if (scalar && n != 1) return "has an edge of " + std::to_string(n) + " elements for one";
    return "";
  }

  // Adds the intervals of an edge to `uses`. Returns false if they are not inside their operands.
  bool Add(const std::vector<VertexInterval>& intervals, const std::vector<View>& views,
           std::size_t element_bytes, std::size_t vertex, std::size_t edge, std::vector<Use>* uses) {
    for (const VertexInterval& interval : intervals) {
      if (interval.operand >= views.size()) return false;
      const View& view = views[interval.operand];
      if (interval.begin < 0 || interval.count <= 0 || interval.count > view.shape[0] ||
          interval.begin > view.shape[0] - interval.count || SizeOf(view.type) != element_bytes) {
        return false;
      }
      elements_ += interval.count;
      if (elements_ > kMostElements) return false;
      uses->push_back({view.variable, view.offset + interval.begin,
                       view.offset + interval.begin + interval.count, vertex, edge});
    }
    return true;
  }

  std::string Describe(const Use& use) const {
    const ProgramVertex& v = program_.vertices[use.vertex];
    return program_.Name(use.vertex) + " through '" + program_.FieldOf(v, v.edges[use.edge]).name + "'";
  }

  const VertexProgram& program_;
  const std::vector<View>&inputs_, &outputs_;
  std::vector<Use> written_, read_;
  std::int64_t elements_ = 0;  // of the vertex that is checked
};

}  // namespace

bool VertexProgram::Fits(const std::vector<View>& inputs, const std::vector<View>& outputs,
                         unsigned num_tiles, const std::function<std::string(VariableId)>& variable,
                         std::string* problem) const {
  for (const std::vector<View>* views : {&inputs, &outputs}) {
    for (const View& view : *views) {
      if (view.shape.size() == 1 && view.strides[0] == 1) continue;
      *problem = "an operand of compute set '" + compute_set + "' is not a row of elements";
      return false;
    }
  }
  UseCheck check(*this, inputs, outputs);
  for (std::size_t i = 0; i < vertices.size(); ++i) {
    const std::string wrong = check.CheckVertex(i, num_tiles);
    if (wrong.empty()) continue;
    *problem = "vertex " + std::to_string(i) + " of compute set '" + compute_set + "' " + wrong;
    return false;
  }
  const std::string overlap = check.Overlap(variable);
  if (!overlap.empty()) *problem = overlap;
  return overlap.empty();
}

VertexInstances::VertexInstances(std::shared_ptr<const VertexProgram> program)
    : program_(std::move(program)) {
  // Two passes: sizes, then addresses.
  for (int pass = 0; pass < 2; ++pass) {
    std::size_t at = 0;
    const auto take = [&](std::size_t bytes) {
      const std::size_t begin = at;
      at += Aligned(bytes);
      return pass == 0 ? nullptr : memory_.get() + begin;
    };
    for (const ProgramVertex& v : program_->vertices) {
      const Class& type = *program_->types[v.type].type;
      unsigned char* const memory = take(type.bytes);
      if (pass == 1) {
        vertices_.push_back({type.compute, memory});
        first_slot_.push_back(slots_.size());
      }
      std::size_t e = 0;
      for (std::uint32_t f = 0; f < type.num_fields; ++f) {
        const Field& field = type.fields[f];
        auto* const ref = pass == 0 ? nullptr : reinterpret_cast<EdgeRef*>(memory + field.offset);
        if (field.kind == codelet::kVectorValue) {
          unsigned char* const data = take(v.values[f].size());
          if (pass == 1)
            inner_.push_back({ref, data, v.values[f].size() / field.element_bytes, &v.values[f]});
        }
        if (!IsEdge(field)) continue;
        const std::size_t first = e, step = field.is_quarter ? 2 : 1;
        while (e < v.edges.size() && v.edges[e].field == f) ++e;
        EdgeRef* edges = ref;
        if (!IsOneEdge(field)) {
          unsigned char* const array = take((e - first) / step * sizeof(EdgeRef));
          edges = reinterpret_cast<EdgeRef*>(array);
          if (pass == 1) inner_.push_back({ref, array, (e - first) / step, nullptr});
        }
        for (std::size_t k = first; k < e && pass == 1; ++k)
          slots_.push_back({edges + (k - first) / step, nullptr,
                            static_cast<std::size_t>(v.edges[k].elements()), v.edges[k].is_metadata,
                            edges == ref || k > first + 1 ? nullptr : ref});
      }
    }
    if (pass == 1) break;
    bytes_ = Aligned(std::max<std::size_t>(at, 1));
    memory_.reset(static_cast<unsigned char*>(std::aligned_alloc(kAlignment, bytes_)));
    if (memory_ == nullptr) throw std::bad_alloc();
  }
  Reset();
}

void VertexInstances::Reset() {
  std::memset(memory_.get(), 0, bytes_);
  for (std::size_t i = 0; i < vertices_.size(); ++i) {
    const ProgramVertex& v = program_->vertices[i];
    const Class& type = *program_->types[v.type].type;
    auto* memory = static_cast<unsigned char*>(vertices_[i].vertex);
    if (type.construct != nullptr) type.construct(memory);
    for (std::size_t f = 0; f < type.num_fields; ++f) {
      if (type.fields[f].kind == codelet::kValue)
        std::memcpy(memory + type.fields[f].offset, v.values[f].data(), v.values[f].size());
    }
  }
  for (const Inner& inner : inner_) {
    *inner.ref = {inner.data, inner.size, nullptr};
    if (inner.value != nullptr) std::memcpy(inner.data, inner.value->data(), inner.value->size());
  }
  for (const Slot& slot : slots_) slot.Set();
}

void VertexInstances::Connect(std::size_t vertex, std::size_t edge, void* data) {
  Slot& slot = slots_[first_slot_[vertex] + edge];
  slot.data = data;
  slot.Set();
}

void VertexInstances::Slot::Set() const {
  if (is_metadata) {
    ref->metadata = static_cast<const unsigned char*>(data);
    // A field of several edges has the metadata of the first.
    if (all != nullptr) all->metadata = ref->metadata;
  } else {
    ref->data = data;
    ref->size = size;
  }
}

}  // namespace ipu_model
