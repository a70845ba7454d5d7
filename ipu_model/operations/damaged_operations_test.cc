// Damages executables that contain every operation. Loading must throw an error or give a consistent program
// that runs in both engines, and never crash. Meant to run with the address and undefined behaviour
// sanitizers.
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "check.h"
#include "core/operation/serialise.h"
#include "core/program/execute.h"
#include "engine/fast/fast_engine.h"
#include "engine/stored/serialised_program.h"
#include "engine/tile/tile_engine.h"
#include "hlo/Collectives.hpp"
#include "hlo/Convolution.hpp"
#include "hlo/CycleStamp.hpp"
#include "hlo/Elementwise.hpp"
#include "hlo/Fft.hpp"
#include "hlo/Index.hpp"
#include "hlo/LinearAlgebra.hpp"
#include "hlo/Random.hpp"
#include "hlo/Reduce.hpp"
#include "hlo/Sort.hpp"
#include "hlo/Window.hpp"
#include "ipu_model/Model.hpp"
#include "ipu_model/Replicas.hpp"
#include "poplar/Engine.hpp"
#include "poplin/Cholesky.hpp"
#include "poplin/MatMul.hpp"
#include "poplin/TriangularSolve.hpp"
#include "popops/DynamicSlice.hpp"
#include "poputil/TileMapping.hpp"

namespace ipu_model {
namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

// `accumulator op value`, or the comparison of two elements.
Expression Binary(ScalarOp op, DType type, DType result) {
  Expression e;
  e.inputs = {type, type};
  e.code = {{op, type, result, {0, 1, 0}, 0}};
  e.outputs = {2};
  return e;
}

// One executable per kind of operation. They are small, so that the damage often hits every field.
class Corpus {
 public:
  Corpus() {
    const Expression add = Binary(ScalarOp::kAdd, DType::kF32, DType::kF32);
    const Expression less = Binary(ScalarOp::kLt, DType::kF32, DType::kPred);
    const Expression greater = Binary(ScalarOp::kGe, DType::kF32, DType::kPred);
    hlo::WindowDims rows;
    rows.offset_dims = {1};
    rows.collapsed_dims = {0};
    rows.start_index_map = {0};
    rows.index_vector_dim = 1;
    hlo::WindowParameters window;
    window.geometry.rank = 2;
    window.geometry.dim[0].size = window.geometry.dim[1].size = 2;
    window.geometry.dim[1].stride = 2;
    window.paddingHigh = {0, 0};

    Add([&](Graph& g, Sequence& s) { hlo::map(g, add, {F32(g, {4, 6}), F32(g, {4, 6})}, {Tensor()}, s); });
    Add([&](Graph& g, Sequence& s) { hlo::reduce(g, {F32(g, {4, 6})}, {F32(g, {})}, {1}, add, s); });
    Add([&](Graph& g, Sequence& s) { hlo::reduceWindow(g, {F32(g, {4, 6})}, {F32(g, {})}, window, add, s); });
    Add([&](Graph& g, Sequence& s) {
      hlo::selectAndScatter(g, F32(g, {4, 6}), F32(g, {3, 3}), F32(g, {}), window, greater, add, s);
    });
    Add([&](Graph& g, Sequence& s) { s.add(poplar::program::Copy(F32(g, {4, 6}), F32(g, {4, 6}))); });
    Add([&](Graph& g, Sequence& s) {
      hlo::ConvolutionParameters p;
      p.geometry.spatial = 1;
      p.geometry.window[0].padding_low = 1;
      p.paddingHigh = {1};
      p.outputType = poplar::FLOAT;
      hlo::convolution(g, F32(g, {2, 3, 5}), F32(g, {4, 3, 3}), p, {0, 1, 2}, s);
    });
    Add([&](Graph& g, Sequence& s) {
      hlo::dynamicSlice(g, F32(g, {4, 6}), {S32(g, {}), S32(g, {})}, {2, 6}, s);
    });
    Add([&](Graph& g, Sequence& s) {
      hlo::dynamicUpdateSlice(g, F32(g, {4, 6}), F32(g, {2, 6}), {S32(g, {}), S32(g, {})}, s, true);
    });
    Add([&](Graph& g, Sequence& s) { hlo::fill(g, F32(g, {4, 6}), std::string(4, 'x'), s); });
    Add([&](Graph& g, Sequence& s) { hlo::iota(g, F32(g, {4, 6}), 1, s); });
    Add([&](Graph& g, Sequence& s) { hlo::gather(g, F32(g, {4, 6}), S32(g, {3, 1}), rows, {1, 6}, s); });
    Add([&](Graph& g, Sequence& s) {
      hlo::scatter(g, {F32(g, {4, 6})}, S32(g, {3, 1}), {F32(g, {3, 6})}, rows, false, add, s, true);
    });
    Add([&](Graph& g, Sequence& s) {
      poplin::matMulGrouped(g, F32(g, {2, 3, 4}), F32(g, {2, 4, 5}), s, poplar::FLOAT);
    });
    Add([&](Graph& g, Sequence& s) { hlo::sort(g, {F32(g, {4, 6})}, 1, less, s); });
    Add([&](Graph& g, Sequence& s) { hlo::sortWithPositions(g, {F32(g, {4, 6})}, 1, less, s); });
    Add([&](Graph& g, Sequence& s) { hlo::topK(g, F32(g, {4, 6}), 2, s); });
    Add([&](Graph& g, Sequence& s) {
      const Tensor state = Variable(g, poplar::UNSIGNED_LONGLONG, {2});
      hlo::rngBitGenerator(g, hlo::RandomAlgorithm::kThreeFry, state, poplar::UNSIGNED_INT, {7}, s);
    });
    Add([&](Graph& g, Sequence& s) {
      const auto u32 = [&] { return Variable(g, poplar::UNSIGNED_INT, {3, 5}); };
      hlo::threefry2x32(g, {u32(), u32()}, {{{true, 0, {0, 0}}, {false, 7, {5, 1}}}}, {u32()}, {u32(), u32()},
                        s);
    });
    Add([&](Graph& g, Sequence& s) { poplin::cholesky(g, F32(g, {2, 4, 4}), true, s); });
    Add([&](Graph& g, Sequence& s) {
      poplin::triangularSolve(g, F32(g, {2, 4, 4}), F32(g, {2, 4, 3}), true, true, false, s);
    });
    Add([&](Graph& g, Sequence& s) { hlo::luPanel(g, F32(g, {2, 40, 3}), s); });
    Add([&](Graph& g, Sequence& s) { hlo::qrPanel(g, F32(g, {2, 7, 3}), s); });
    for (const hlo::TwoSidedForm form :
         {hlo::TwoSidedForm::kHessenberg, hlo::TwoSidedForm::kTridiagonal, hlo::TwoSidedForm::kBidiagonal}) {
      Add([&](Graph& g, Sequence& s) { hlo::twoSided(g, form, F32(g, {2, 5, 5}), s); });
    }
    Add([&](Graph& g, Sequence& s) { hlo::schur(g, F32(g, {2, 5, 5}), true, true, s); });
    Add([&](Graph& g, Sequence& s) {
      hlo::applyReflectors(g, F32(g, {2, 7, 3}), F32(g, {2, 2}), F32(g, {2, 7, 4}), 1, s);
    });
    Add([&](Graph& g, Sequence& s) {
      hlo::bidiagonalQr(g, F32(g, {2, 4}), F32(g, {2, 3}), {F32(g, {2, 4, 4}), F32(g, {2, 4, 3})}, s);
    });
    Add([&](Graph& g, Sequence& s) {
      hlo::fft(g, Variable(g, poplar::Type(DType::kC64), {3, 8}), hlo::FftType::kFft, {8}, s);
    });
    Add([](Graph& g, Sequence& s) { hlo::cycleStamp(g, Variable(g, poplar::UNSIGNED_INT, {3, 2}), s); });
    AddExecute();
    Add([&](Graph& g, Sequence& s) { hlo::allReduce(g, F32(g, {4, 6}), {{0, 1}}, add, s); });
  }

  std::vector<std::string> bodies;
  std::set<std::string, std::less<>> kinds;

 private:
  template <typename F>
  void Add(F&& build) {
    Graph graph(poplar::Target::createIPUTarget(2, 4, "ipu2"), poplar::replication_factor(2));
    Sequence main;
    build(graph, main);
    const auto program = poplar::compileGraph(graph, {main}).program();
    for (const ProgramNode* node : NodesOf(program->programs)) {
      if (node->operation != nullptr) kinds.insert(std::string(node->operation->kind()));
    }
    bodies.push_back(SerialiseBody(*program));
  }
  // Without vertices, because executables with codelets are refused whole; compiling would drop it.
  void AddExecute() {
    auto node = std::make_shared<ProgramNode>();
    node->kind = ProgramKind::kOperation;
    node->operation = std::make_shared<Execute>(VertexProgram());
    kinds.insert(std::string(node->operation->kind()));
    CompiledProgram program(poplar::Target::createIPUTarget(1, 4, "ipu2"));
    program.programs.push_back(std::move(node));
    bodies.push_back(SerialiseBody(program));
  }
  static Tensor Variable(Graph& graph, const poplar::Type& type, const std::vector<std::size_t>& shape) {
    const Tensor t = graph.addVariable(type, shape, "v");
    poputil::mapTensorLinearly(graph, t);
    return t;
  }
  static Tensor F32(Graph& graph, const std::vector<std::size_t>& shape) {
    return Variable(graph, poplar::FLOAT, shape);
  }
  static Tensor S32(Graph& graph, const std::vector<std::size_t>& shape) {
    return Variable(graph, poplar::INT, shape);
  }
};

TEST(TheCorpusHasEveryOperation) {
  const Corpus corpus;
  for (const auto& [kind, reader] : OperationRegistry()) {
    if (corpus.kinds.count(kind) == 0) std::fprintf(stderr, "no program with %s\n", kind.c_str());
    CHECK(corpus.kinds.count(kind) == 1);
  }
}

// Whether the program is read and prepared; then it also runs in both engines, with or without an error.
// Skips programs that the damage has made very large.
bool Accepted(std::string_view body) {
  std::shared_ptr<const CompiledProgram> program;
  try {
    program = DeserialiseBody(body);
    std::int64_t elements = 0;
    for (const Variable& v : program->variables) elements += v.num_elements;
    if (elements > (1 << 16)) return true;
    FastEngine engine(program);
    engine.Load();
  } catch (const std::exception& error) {
    CHECK(std::string(error.what()).size() > 10);
    return false;
  }
  const auto run = [&program](auto&& engine) {
    try {
      engine.Load();
      ReplicaGroup group(1);
      engine.SetReplica({&group, 0});
      if (!program->programs.empty()) engine.Run(0);
    } catch (const std::exception& error) {
      CHECK(std::string(error.what()).size() > 10);
    }
  };
  try {
    run(FastEngine(program));
    run(TileEngine(program));
  } catch (const std::exception& error) {
    CHECK(std::string(error.what()).size() > 10);
  }
  return true;
}

// Single changes that random damage seldom makes.
TEST(PartsThatDoNotFitEachOtherAreRefused) {
  const auto variable = [](Graph& graph, const poplar::Type& type, const std::vector<std::size_t>& shape) {
    const Tensor t = graph.addVariable(type, shape, "v");
    poputil::mapTensorLinearly(graph, t);
    return t;
  };
  using Nodes = std::vector<ProgramNode*>;
  const auto check = [](Graph& graph, const Sequence& main, auto&& damage) {
    const auto program = poplar::compileGraph(graph, {main}).program();
    CHECK(DeserialiseBody(SerialiseBody(*program)) != nullptr);
    Nodes nodes;
    for (const ProgramNode* node : NodesOf(program->programs)) {
      const bool moves = node->kind == ProgramKind::kStreamIn;
      if (moves || node->operation != nullptr) nodes.push_back(const_cast<ProgramNode*>(node));
    }
    damage(nodes);
    CHECK_THROWS(SerialiseError, DeserialiseBody(SerialiseBody(*program)));
  };
  const auto target = poplar::Target::createIPUTarget(1, 4, "ipu2");
  {
    // More rows of indices than the operand has.
    Graph graph(target);
    Sequence main;
    hlo::WindowDims dims;
    dims.collapsed_dims = {1};
    dims.operand_batching_dims = dims.indices_batching_dims = {0};
    dims.start_index_map = {1};
    dims.index_vector_dim = 1;
    const Tensor indices = variable(graph, poplar::INT, {4, 1});
    hlo::gather(graph, variable(graph, poplar::FLOAT, {4, 6}), indices, dims, {1, 1}, main);
    check(graph, main, [](const Nodes& nodes) { nodes.at(0)->operation->inputs[0].shape[0] = 2; });
  }
  {
    // Two collectives of different sizes in which replicas could meet.
    Graph graph(ipu_model::TargetOfReplicas(target, 2), poplar::replication_factor(2));
    Sequence main;
    for (const std::size_t size : {40, 4}) {
      hlo::allGather(graph, variable(graph, poplar::FLOAT, {size}), 0, {{0, 1}}, main);
    }
    check(graph, main, [](const Nodes& nodes) {
      std::vector<View>* first = nullptr;
      for (ProgramNode* node : nodes) {
        if (node->operation == nullptr || node->operation->kind() != "gcl::collective") continue;
        if (first != nullptr) node->operation->outputs[0].variable = first->at(0).variable;
        first = &node->operation->outputs;
      }
    });
  }
  {
    // Repeated elements whose number is that of the stream again, modulo 2^64.
    Graph graph(target);
    const Tensor x = variable(graph, poplar::FLOAT, {8});
    const Sequence main({poplar::program::Copy(graph.addHostToDeviceFIFO("in0", poplar::FLOAT, 8), x)});
    check(graph, main, [](const Nodes& nodes) {
      View repeated = nodes.at(0)->tensor.at(0);
      repeated.shape = {std::int64_t{1} << 48};
      repeated.strides = {0};
      nodes[0]->tensor.resize(nodes[0]->tensor.size() + (1 << 16), repeated);
    });
  }
}

TEST(EveryTruncationIsRefused) {
  for (const std::string& body : Corpus().bodies) {
    CHECK(Accepted(body));
    for (std::size_t n = 0; n < body.size(); ++n) CHECK(!Accepted(std::string_view(body).substr(0, n)));
  }
}

TEST(DamageNeverCrashes) {
  std::mt19937 random(7);
  const Corpus corpus;
  int refused = 0, accepted = 0;
  for (const std::string& body : corpus.bodies) {
    for (int round = 0; round < (jax_ipu::testing::Everything() ? 1500 : 400); ++round) {
      std::string damaged = body;
      for (unsigned i = 0; i <= random() % 3; ++i) {
        char& byte = damaged[random() % damaged.size()];
        switch (random() % 3) {
          case 0:
            byte = static_cast<char>(byte ^ (1 << (random() % 8)));
            break;
          case 1:
            byte = static_cast<char>(random() % 8);
            break;
          default:
            byte = static_cast<char>(random());
        }
      }
      ++(Accepted(damaged) ? accepted : refused);
    }
  }
  // Most bytes of a body are numbers whose change is detected.
  CHECK(refused > 1000 && accepted > 0);
}

}  // namespace
}  // namespace ipu_model
