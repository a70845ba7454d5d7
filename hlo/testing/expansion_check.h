// For tests: an operation and its expansion have the same vertices (tiles, cycles, what each reads and
// writes) and give the same values.
#ifndef HLO_TESTING_EXPANSION_CHECK_H_
#define HLO_TESTING_EXPANSION_CHECK_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "check.h"
#include "core/program/execute.h"
#include "engine/program/compiled_program.h"
#include "engine/program/plan_context.h"
#include "engine/tile/expander.h"
#include "hlo/Library.hpp"
#include "poplar/Engine.hpp"
#include "poplar/exceptions.hpp"
#include "poputil/TileMapping.hpp"

namespace hlo::testing {

using namespace ipu_model;
using Bytes = std::vector<unsigned char>;

inline poplar::Graph SmallGraph() { return poplar::Graph(poplar::Target::createIPUTarget(1, 7, "ipu2")); }

// A variable of which each tile has a part.
inline poplar::Tensor Linear(poplar::Graph& graph, DType type, const std::vector<std::size_t>& shape) {
  const poplar::Tensor t = graph.addVariable(poplar::Type(type), shape, "t");
  poputil::mapTensorLinearly(graph, t, 1, 1);
  return t;
}

// Runs the program as expansions. Returns the message of the refusal, which it must end with.
inline std::string Refusal(const poplar::Graph& graph, const poplar::program::Sequence& prog) {
  poplar::Engine engine(graph, prog, {{"execution", "tile"}});
  RunExpansions(engine, library());
  engine.load();
  try {
    engine.run();
  } catch (const NotExpanded& error) {
    return error.what();
  }
  CHECK(false);
  return "";
}

inline Bytes RandomBytes(const poplar::Tensor& t, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(t.numElements() * SizeOf(t.elementType().id()));
  for (unsigned char& b : bytes) b = static_cast<unsigned char>(random());
  return bytes;
}
template <typename T>
Bytes BytesOf(T value) {
  Bytes bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

// Small whole numbers, whose sums and products of +-1 are exact in any order.
inline Bytes SmallNumbers(const poplar::Tensor& t, unsigned seed, int largest) {
  const DType type = t.elementType().id();
  std::mt19937 random(seed);
  Bytes bytes;
  for (std::size_t i = 0; i < t.numElements(); ++i) {
    const int number = static_cast<int>(random() % static_cast<unsigned>(2 * largest)) - largest;
    const int value = number >= 0 ? number + 1 : number;
    std::int64_t word = type == DType::kPred ? value & 1 : value;
    if (IsFloat(type)) {
      const auto x = static_cast<float>(value);
      std::uint32_t bits;
      std::memcpy(&bits, &x, sizeof(bits));
      const std::uint32_t half = (bits >> 16 & 0x8000) | (((bits & 0x7fffffff) - 0x38000000) >> 13);
      word = type == DType::kF32 ? bits : type == DType::kBF16 ? bits >> 16 : half;
    }
    const Bytes element = BytesOf(word);
    bytes.insert(bytes.end(), element.begin(), element.begin() + static_cast<std::ptrdiff_t>(SizeOf(type)));
  }
  return bytes;
}

// Indices of `rows` rows; up to 100 beyond either end.
inline Bytes Indices(const poplar::Tensor& t, unsigned seed, std::size_t rows) {
  std::mt19937 random(seed);
  Bytes bytes;
  for (std::size_t i = 0; i < t.numElements(); ++i) {
    const Bytes index = BytesOf(static_cast<std::int64_t>(random() % (rows + 200)) - 100);
    bytes.insert(bytes.end(), index.begin(),
                 index.begin() + static_cast<std::ptrdiff_t>(SizeOf(t.elementType().id())));
  }
  return bytes;
}

// Elements [begin, end) of a variable.
struct ElementRun {
  VariableId variable;
  std::int64_t begin, end;

  bool operator==(const ElementRun& o) const {
    return variable == o.variable && begin == o.begin && end == o.end;
  }
  bool operator<(const ElementRun& o) const {
    return std::tie(variable, begin, end) < std::tie(o.variable, o.begin, o.end);
  }
  // Whether a run that is not before this one makes one with it.
  bool Reaches(const ElementRun& next) const { return variable == next.variable && next.begin <= end; }
};

// One vertex: tile, cycles, and the elements that it reads and writes, as the longest runs in order.
using Elements = std::vector<ElementRun>;
using VertexRecord = std::tuple<unsigned, std::uint64_t, Elements, Elements>;
using StepRecord = std::vector<VertexRecord>;

// Adds the rows of a region, which may overlap what is there.
inline void AddElements(const View& view, const Box& region, Elements* elements) {
  if (region.num_elements() == 0) return;
  Shape at = region.begin;
  // Without strides the last dimension is a run.
  const std::size_t outer = !at.empty() && view.strides.back() == 1 ? at.size() - 1 : at.size();
  const std::int64_t length = outer < at.size() ? region.end.back() - region.begin.back() : 1;
  while (true) {
    std::int64_t element = view.offset;
    for (std::size_t d = 0; d < at.size(); ++d) element += at[d] * view.strides[d];
    const ElementRun run = {view.variable, element, element + length};
    if (!elements->empty() && elements->back() < run && elements->back().Reaches(run)) {
      elements->back().end = std::max(elements->back().end, run.end);
    } else {
      elements->push_back(run);
    }
    std::size_t d = outer;
    while (d > 0 && ++at[d - 1] == region.end[d - 1]) {
      at[d - 1] = region.begin[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

// Makes equal sets of elements equal: sorted runs, of which no two make one.
inline void SortRuns(Elements* elements) {
  std::sort(elements->begin(), elements->end());
  std::size_t kept = 0;
  for (const ElementRun& run : *elements) {
    if (kept > 0 && (*elements)[kept - 1].Reaches(run)) {
      (*elements)[kept - 1].end = std::max((*elements)[kept - 1].end, run.end);
    } else {
      (*elements)[kept++] = run;
    }
  }
  elements->resize(kept);
}

// `first_temporary`: the variable that stands for the first temporary of the plan.
inline std::vector<StepRecord> RecordsOf(const Operation& operation, const DeviceContext& context,
                                         VariableId first_temporary) {
  const TilePlan plan = operation.Plan(context);
  std::vector<StepRecord> steps;
  for (const Superstep& superstep : plan.supersteps) {
    StepRecord& step = steps.emplace_back();
    for (const VertexGroup& group : superstep.groups) {
      // By tile: the place of its vertex in `step`, and the vertex's boxes, which may be several.
      std::map<unsigned, std::pair<std::size_t, std::vector<const Box*>>> joined;
      for (const Vertex& vertex : group.vertices) {
        Elements reads, writes;
        for (const bool read : {true, false}) {
          for (const VertexGroup::Access& access : read ? group.reads : group.writes) {
            View view = ViewOf(operation, plan, access.tensor);
            if (access.tensor.kind == OperandRef::Kind::kTemporary)
              view.variable = first_temporary + access.tensor.index;
            AddElements(view, access.region(vertex.box), read ? &reads : &writes);
          }
        }
        const auto [known, is_first] =
            joined.try_emplace(vertex.tile, step.size(), std::vector<const Box*>());
        known->second.second.push_back(&vertex.box);
        if (!is_first && group.cycles_of_boxes) {
          auto& [tile, cycles, all_reads, all_writes] = step[known->second.first];
          cycles = group.cycles_of_boxes(context.target(), known->second.second);
          all_reads.insert(all_reads.end(), reads.begin(), reads.end());
          all_writes.insert(all_writes.end(), writes.begin(), writes.end());
          SortRuns(&all_reads);
          SortRuns(&all_writes);
          continue;
        }
        SortRuns(&reads);
        SortRuns(&writes);
        step.emplace_back(vertex.tile, group.cycles(context.target(), vertex.box), std::move(reads),
                          std::move(writes));
      }
    }
    std::sort(step.begin(), step.end());
  }
  return steps;
}

inline const Operation* OnlyOperation(const CompiledProgram& program) {
  const Operation* operation = nullptr;
  for (const ProgramNode* node : NodesOf({program.programs[0]})) {
    if (node->operation == nullptr) continue;
    CHECK(operation == nullptr);
    operation = node->operation.get();
  }
  return operation;
}

class ExpansionCheck {
 public:
  // `program` consists of one operation. SameValues writes a value to each of the `inputs` before it runs,
  // and compares the `outputs`.
  ExpansionCheck(poplar::Graph& graph, const poplar::program::Sequence& program,
                 const std::vector<poplar::Tensor>& inputs, const std::vector<poplar::Tensor>& outputs)
      : graph_(graph), inputs_(inputs), outputs_(outputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      graph.createHostWrite("in" + std::to_string(i), inputs[i]);
    for (std::size_t o = 0; o < outputs.size(); ++o)
      graph.createHostRead("out" + std::to_string(o), outputs[o]);
    executable_ = std::make_unique<poplar::Executable>(poplar::compileGraph(graph, {program}));
    // A compiled program has no operation without results.
    for (const poplar::Tensor& t : outputs) elements_ += t.numElements();
    const std::vector<const ProgramNode*> nodes = NodesOf({executable_->program()->programs[0]});
    CHECK_EQ(elements_ > 0, std::any_of(nodes.begin(), nodes.end(),
                                        [](const ProgramNode* node) { return node->operation != nullptr; }));
  }

  // Tiles, cycles and regions of every vertex of every superstep. `receives`: the expansion first copies what
  // a superstep reads and writes over; then these copies and what vertices read are left out.
  void SameVertices(bool receives = false) {
    if (elements_ == 0) return;
    const CompiledProgram& program = *executable_->program();
    Expander expander(program, library());
    const Operation* const operation = OnlyOperation(program);
    const ProgramNode* const expansion = expander.ProgramOf(*operation);
    CHECK(expansion != nullptr);
    if (expansion == nullptr) return;
    PlanContext context(program);
    const auto temporaries = static_cast<VariableId>(program.variables.size());
    std::vector<StepRecord> plan = RecordsOf(*operation, context, temporaries);
    context.SetVariables(expander.variables());
    std::vector<StepRecord> steps;
    AddSteps(*expansion, context, &steps);
    if (receives) {
      const auto end = temporaries + static_cast<VariableId>(operation->Plan(context).temporaries.size());
      steps.erase(std::remove_if(steps.begin(), steps.end(),
                                 [end](const StepRecord& step) {
                                   return std::get<3>(step.at(0)).at(0).variable >= end;
                                 }),
                  steps.end());
      for (std::vector<StepRecord>* records : {&plan, &steps}) {
        for (StepRecord& step : *records) {
          for (VertexRecord& vertex : step) std::get<2>(vertex).clear();
          std::sort(step.begin(), step.end());
        }
      }
    }
    CHECK_EQ(plan.size(), steps.size());
    for (std::size_t s = 0; s < std::min(plan.size(), steps.size()); ++s) {
      CHECK_EQ(plan[s].size(), steps[s].size());
      CHECK(plan[s] == steps[s]);
      if (plan[s] != steps[s]) Show(plan[s], steps[s]);
    }
  }

  // The supersteps of the operation's plan; 0 without results.
  std::size_t Supersteps() const {
    if (elements_ == 0) return 0;
    const CompiledProgram& program = *executable_->program();
    return OnlyOperation(program)->Plan(PlanContext(program)).supersteps.size();
  }

  // Values of the fast engine, of the tile engine, and of the expansions, compared by `equal`, which sees one
  // element of each.
  using Equal = std::function<bool(DType type, const void* expected, const void* actual)>;
  void SameValues(const std::vector<Bytes>& values, const Equal& equal) {
    const std::vector<Bytes> expected = Run("fast", values);
    for (const char* mode : {"tile", "expansions"}) {
      const std::vector<Bytes> all = Run(mode, values);
      for (std::size_t o = 0; o < outputs_.size(); ++o) {
        const DType type = outputs_[o].elementType().id();
        const Bytes& actual = all[o];
        int wrong = 0;
        for (std::size_t at = 0; at < actual.size(); at += SizeOf(type)) {
          if (equal(type, expected[o].data() + at, actual.data() + at)) continue;
          if (++wrong == 1)
            std::fprintf(stderr, "output %zu (%s), element %zu, %s: %s, not %s\n", o, NameOf(type),
                         at / SizeOf(type), mode, Text(type, actual.data() + at).c_str(),
                         Text(type, expected[o].data() + at).c_str());
        }
        CHECK_EQ(wrong, 0);
      }
    }
  }

  // The outputs for the inputs `values`, by the engine "fast" or "tile", or by the tile engine's
  // "expansions".
  std::vector<Bytes> Run(const std::string& mode, const std::vector<Bytes>& values) {
    poplar::Engine engine(*executable_, {{"execution", mode == "fast" ? "fast" : "tile"}});
    if (mode == "expansions") RunExpansions(engine, library());
    engine.load();
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      engine.writeTensor("in" + std::to_string(i), values.at(i).data(), values[i].data() + values[i].size());
    engine.run(0);
    std::vector<Bytes> results;
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      Bytes& result =
          results.emplace_back(outputs_[o].numElements() * SizeOf(outputs_[o].elementType().id()));
      engine.readTensor("out" + std::to_string(o), result.data(), result.data() + result.size());
    }
    if (mode == "expansions") CHECK_EQ(KindsRunBy(engine).expanded.size(), elements_ == 0 ? 0u : 1u);
    return results;
  }

  static std::string Text(DType type, const unsigned char* bytes) {
    if (type == DType::kF32) {
      float x;
      std::memcpy(&x, bytes, sizeof(x));
      return std::to_string(x);
    }
    std::string text;
    for (std::size_t i = SizeOf(type); i-- > 0;) {
      text += "0123456789abcdef"[bytes[i] >> 4];
      text += "0123456789abcdef"[bytes[i] & 15];
    }
    return text;
  }

 private:
  static void AddSteps(const ProgramNode& node, const DeviceContext& context,
                       std::vector<StepRecord>* steps) {
    if (node.operation != nullptr) {
      for (StepRecord& step : RecordsOf(*node.operation, context, 0)) steps->push_back(std::move(step));
    }
    for (const auto& child : node.children) AddSteps(*child, context, steps);
  }
  static void Show(const StepRecord& plan, const StepRecord& steps) {
    const auto show = [](const char* what, const VertexRecord& v) {
      std::fprintf(stderr, "%s: tile %u, %llu cycles, reads %zu, writes %zu", what, std::get<0>(v),
                   static_cast<unsigned long long>(std::get<1>(v)), std::get<2>(v).size(),
                   std::get<3>(v).size());
      for (const Elements* const runs : {&std::get<2>(v), &std::get<3>(v)}) {
        for (const auto& [variable, begin, end] : *runs)
          std::fprintf(stderr, " %c%u:%lld-%lld", runs == &std::get<2>(v) ? 'r' : 'w', variable,
                       static_cast<long long>(begin), static_cast<long long>(end - 1));
      }
      std::fprintf(stderr, "\n");
    };
    for (std::size_t i = 0; i < std::max(plan.size(), steps.size()); ++i) {
      if (i < plan.size() && i < steps.size() && plan[i] == steps[i]) continue;
      if (i < plan.size()) show("kernel", plan[i]);
      if (i < steps.size()) show("expansion", steps[i]);
      return;
    }
  }

  poplar::Graph& graph_;
  std::vector<poplar::Tensor> inputs_, outputs_;
  std::unique_ptr<poplar::Executable> executable_;
  std::size_t elements_ = 0;  // of all outputs
};

// Equal bytes; NaNs are equal to each other, and zeros of either kind to denormals, which the device flushes.
inline bool SameBits(DType type, const void* expected, const void* actual) {
  if (std::memcmp(expected, actual, SizeOf(type)) == 0) return true;
  if (IsFloat(type) && SizeOf(type) == 1) {  // a NaN is any
    const auto isNan = [type](const void* bytes) {
      const unsigned number = *static_cast<const unsigned char*>(bytes) & 0x7fu;
      return (type == DType::kF8E5M2 && number > 0x7c) || (type == DType::kF8E4M3 && number > 0x78) ||
             (type == DType::kF8E3M4 && number > 0x70) || (type == DType::kF8E4M3FN && number == 0x7f);
    };
    return isNan(expected) && isNan(actual);
  }
  if (type == DType::kF64) {  // as for f32 below
    const auto wide = [](const void* bytes) -> std::uint64_t {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes, sizeof(word));
      if ((word & ~(1ull << 63)) > 0x7ffull << 52) return 0x7ff8ull << 48;
      return (word & 0x7ffull << 52) == 0 ? 0 : word;
    };
    return wide(expected) == wide(actual);
  }
  const auto number = [type](const void* bytes) {
    std::uint16_t half = 0;
    std::uint32_t word = 0;
    std::memcpy(&word, bytes, type == DType::kF32 ? 4 : 2);
    half = static_cast<std::uint16_t>(word);
    if (type == DType::kF16 && (half & 0x7fff) > 0x7c00) return 0x7fc00000u;
    if (type == DType::kBF16) word = static_cast<std::uint32_t>(half) << 16;
    if (type == DType::kF16) return static_cast<std::uint32_t>(half);
    if ((word & 0x7fffffffu) > 0x7f800000u) return 0x7fc00000u;
    return (word & 0x7f800000u) == 0 ? 0u : word;
  };
  const bool real = type == DType::kF32 || type == DType::kF16 || type == DType::kBF16;
  return real && number(expected) == number(actual);
}

// Whether numbers of f32 differ by at most `ulps` units in the last place, and f16 and bf16 by at most one;
// with 0, and for all other types: whether they have the same bits.
inline ExpansionCheck::Equal Within(std::uint32_t ulps) {
  return [ulps](DType type, const void* expected, const void* actual) {
    if (SameBits(type, expected, actual)) return true;
    if (ulps == 0 || (type != DType::kF32 && type != DType::kF16 && type != DType::kBF16)) return false;
    const auto number = [type](const void* bytes) {
      std::int32_t word = 0;
      std::int16_t half = 0;
      std::memcpy(&half, bytes, sizeof(half));
      if (type == DType::kF32) std::memcpy(&word, bytes, sizeof(word));
      return type == DType::kF32 ? word : std::int32_t{half};
    };
    const std::int32_t a = number(expected), b = number(actual);
    return (a < 0) == (b < 0) &&
           static_cast<std::uint32_t>(std::abs(a - b)) <= (type == DType::kF32 ? ulps : 1);
  };
}

}  // namespace hlo::testing

#endif  // HLO_TESTING_EXPANSION_CHECK_H_
