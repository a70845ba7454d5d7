// Runs operations of popops, poplin and popnn once each, and writes their results and cycles: the same
// program compiled against PopLibs, and with OWN_LIBRARY against this project's own library.
//
//     compare FOLDER [NAME...]
//
// A line of the output is the name of a case and its cycles between two stamps; the elements of the result
// are in FOLDER/NAME, as floats.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <poplar/CycleCount.hpp>
#include <poplar/Engine.hpp>
#include <poplar/Graph.hpp>
#include <poplar/IPUModel.hpp>
#include <poplar/Program.hpp>
#include <poplin/Convolution.hpp>
#include <poplin/MatMul.hpp>
#include <poplin/codelets.hpp>
#include <popnn/NonLinearity.hpp>
#include <popnn/codelets.hpp>
#include <popops/DynamicSlice.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Expr.hpp>
#include <popops/Reduce.hpp>
#include <popops/Sort.hpp>
#include <popops/codelets.hpp>
#include <poputil/TileMapping.hpp>
#include <string>
#include <vector>

namespace {

using poplar::FLOAT;
using poplar::Graph;
using poplar::HALF;
using poplar::Tensor;
using poplar::Type;
using poplar::UNSIGNED_INT;
using poplar::program::Sequence;
using Shape = std::vector<std::size_t>;

// The operands and the result of a case.
struct Built {
  std::vector<Tensor> in;
  Tensor out;
};
enum class Library { kPopops, kPoplin, kPopnn };
struct Case {
  std::string name;
  std::function<Built(Graph&, Sequence&)> build;
  Library library = Library::kPopops;
};

Tensor Linear(Graph& graph, const Type& type, const Shape& shape) {
  const Tensor t = graph.addVariable(type, shape, "in");
  poputil::mapTensorLinearly(graph, t);
  return t;
}

std::string TypeName(const Type& type) { return type == HALF ? "f16" : "f32"; }

Case Map(const std::string& name, const Type& type, const std::vector<Shape>& shapes,
         const popops::expr::Any& expression) {
  return {name, [=](Graph& graph, Sequence& prog) {
            Built built;
            for (const Shape& shape : shapes) built.in.push_back(Linear(graph, type, shape));
            built.out = popops::map(graph, expression, built.in, prog, "map");
            return built;
          }};
}

Case Reduce(const std::string& name, const Type& type, const Shape& shape, const Shape& dims,
            popops::Operation operation) {
  return {name, [=](Graph& graph, Sequence& prog) {
            Built built;
            built.in = {Linear(graph, type, shape)};
            built.out = popops::reduce(graph, built.in[0], type, dims, {operation}, prog, "reduce");
            return built;
          }};
}

Case Product(const Type& type, std::size_t m, std::size_t k, std::size_t n) {
  const std::string sizes = std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n);
  return {"matMul " + TypeName(type) + " " + sizes,
          [=](Graph& graph, Sequence& prog) {
            Built built;
            built.in = {poplin::createMatMulInputLHS(graph, type, type, {m, k}, {k, n}, "lhs"),
                        poplin::createMatMulInputRHS(graph, type, type, {m, k}, {k, n}, "rhs")};
            built.out = poplin::matMul(graph, built.in[0], built.in[1], prog, type, "matMul");
            return built;
          },
          Library::kPoplin};
}

Case Convolution(const Type& type, std::size_t batch, std::size_t field, std::size_t kernel, std::size_t in,
                 std::size_t out) {
  const std::string sizes = std::to_string(batch) + "x" + std::to_string(in) + "x" + std::to_string(field) +
                            "x" + std::to_string(field) + " to " + std::to_string(out) + ", kernel " +
                            std::to_string(kernel);
  return {"convolution " + TypeName(type) + " " + sizes,
          [=](Graph& graph, Sequence& prog) {
            const poplin::ConvParams params(type, batch, {field, field}, {kernel, kernel}, in, out, 1);
            Built built;
            built.in = {poplin::createInput(graph, params, "in"),
                        poplin::createWeights(graph, params, "weights")};
            built.out =
                poplin::convolution(graph, built.in[0], built.in[1], params, false, prog, "convolution");
            return built;
          },
          Library::kPoplin};
}

Case NonLinearity(const std::string& name, popnn::NonLinearityType which, const Type& type,
                  const Shape& shape) {
  return {name,
          [=](Graph& graph, Sequence& prog) {
            Built built;
            built.in = {Linear(graph, type, shape)};
            built.out = popnn::nonLinearity(graph, which, built.in[0], prog, "nonLinearity");
            return built;
          },
          Library::kPopnn};
}

Case DynamicSlice(std::size_t rows, std::size_t columns, std::size_t size) {
  return {"dynamicSlice f32 " + std::to_string(rows) + "x" + std::to_string(columns) + ", rows " +
              std::to_string(size),
          [=](Graph& graph, Sequence& prog) {
            Built built;
            built.in = {popops::createSliceableTensor(graph, FLOAT, {rows, columns}, {0}, {size}, 0, "t"),
                        Linear(graph, UNSIGNED_INT, {1})};
            built.out =
                popops::dynamicSlice(graph, built.in[0], built.in[1], {0}, {size}, prog, "dynamicSlice");
            return built;
          }};
}

Case MultiSlice(std::size_t rows, std::size_t columns, std::size_t count) {
  return {
      "multiSlice f16 " + std::to_string(rows) + "x" + std::to_string(columns) + ", " + std::to_string(count),
      [=](Graph& graph, Sequence& prog) {
        Built built;
        built.in = {popops::createSliceableTensor(graph, HALF, {rows, columns}, {0}, {1}, 0, "t"),
                    Linear(graph, UNSIGNED_INT, {count, 1})};
#ifdef OWN_LIBRARY
        built.out = popops::multiSlice(graph, built.in[0], built.in[1], {0}, {1}, prog, "multiSlice");
#else
        built.out = popops::multiSlice(graph, built.in[0], built.in[1], {0}, {1}, prog, popops::SlicePlan(),
                                       {}, "multiSlice");
#endif
        return built;
      }};
}

Case Sort(std::size_t rows, std::size_t columns) {
  return {"sort f32 " + std::to_string(rows) + "x" + std::to_string(columns),
          [=](Graph& graph, Sequence& prog) {
            Built built;
            built.in = {Linear(graph, FLOAT, {rows, columns})};
            built.out = popops::sort(graph, built.in[0], 1, prog, "sort");
            return built;
          }};
}

std::vector<Case> Cases() {
  namespace pe = popops::expr;
  const pe::PlaceHolder a(1), b(2), c(3);
  using popnn::NonLinearityType;
  using popops::Operation;
  return {
      Map("add f32 1024x1024", FLOAT, {{1024, 1024}, {1024, 1024}}, pe::Any(a + b)),
      Map("add f16 1024x1024", HALF, {{1024, 1024}, {1024, 1024}}, pe::Any(a + b)),
      Map("add f32 1024x512 and 512", FLOAT, {{1024, 512}, {512}}, pe::Any(a + b)),
      Map("exp f32 512x512", FLOAT, {{512, 512}}, pe::Any(pe::Exp(a))),
      Map("tanh(a b + c) f32 512x512", FLOAT, {{512, 512}, {512, 512}, {512, 512}},
          pe::Any(pe::Tanh(a * b + c))),
      Reduce("sum f32 1024x1024, rows", FLOAT, {1024, 1024}, {0}, Operation::ADD),
      Reduce("sum f32 1024x1024, columns", FLOAT, {1024, 1024}, {1}, Operation::ADD),
      Reduce("max f16 1024x1024, columns", HALF, {1024, 1024}, {1}, Operation::MAX),
      Product(HALF, 256, 256, 256),
      Product(HALF, 1024, 1024, 256),
      Product(HALF, 1024, 1024, 1024),
      Product(FLOAT, 256, 256, 256),
      Product(FLOAT, 512, 512, 512),
      Convolution(HALF, 4, 16, 3, 64, 64),
      Convolution(FLOAT, 2, 16, 1, 64, 128),
      NonLinearity("relu f16 1024x1024", NonLinearityType::RELU, HALF, {1024, 1024}),
      NonLinearity("gelu f16 512x512", NonLinearityType::GELU, HALF, {512, 512}),
      NonLinearity("softmax f32 256x512", NonLinearityType::SOFTMAX_STABLE, FLOAT, {256, 512}),
      DynamicSlice(4096, 64, 1),
      MultiSlice(2048, 64, 256),
      Sort(8, 256),
  };
}

// Values of an operand that have an exact f16, in no order; indices are smaller than 1024.
std::vector<float> Values(std::size_t n, bool index, unsigned seed) {
  std::vector<float> values(n);
  std::uint32_t state = 12345 + seed;
  for (float& v : values) {
    state = state * 1664525u + 1013904223u;
    v = index ? static_cast<float>(state >> 22)
              : static_cast<float>(static_cast<int>(state >> 24) - 128) / 128.0f;
  }
  return values;
}

// Returns the cycles.
std::uint64_t Run(const Case& c, const std::string& folder) {
  const poplar::Device device = poplar::IPUModel("ipu2").createDevice();
  Graph graph(device.getTarget());
  popops::addCodelets(graph);
  if (c.library == Library::kPoplin) poplin::addCodelets(graph);
  if (c.library == Library::kPopnn) popnn::addCodelets(graph);
  Sequence prog;
  const Built built = c.build(graph, prog);
  const Tensor cycles = poplar::cycleCount(graph, prog, 0, poplar::SyncType::INTERNAL);
  graph.createHostRead("cycles", cycles);
  graph.createHostRead("out", built.out);
  for (std::size_t i = 0; i < built.in.size(); ++i)
    graph.createHostWrite("in" + std::to_string(i), built.in[i]);
  poplar::Engine engine(graph, prog);
  engine.load(device);
  for (std::size_t i = 0; i < built.in.size(); ++i) {
    const Type type = built.in[i].elementType();
    const std::vector<float> values =
        Values(built.in[i].numElements(), type == UNSIGNED_INT, static_cast<unsigned>(i));
    std::vector<char> bytes(graph.getTarget().getTypeSize(type) * values.size());
    if (type == HALF) {
      poplar::copyFloatToDeviceHalf(graph.getTarget(), values.data(), bytes.data(), values.size());
    } else if (type == UNSIGNED_INT) {
      for (std::size_t e = 0; e < values.size(); ++e)
        reinterpret_cast<std::uint32_t*>(bytes.data())[e] = static_cast<std::uint32_t>(values[e]);
    } else {
      std::copy(values.begin(), values.end(), reinterpret_cast<float*>(bytes.data()));
    }
    engine.writeTensor("in" + std::to_string(i), bytes.data(), bytes.data() + bytes.size());
  }
  engine.run();
  std::uint32_t stamps[2];
  engine.readTensor("cycles", stamps, stamps + 2);
  std::vector<float> out(built.out.numElements());
  if (built.out.elementType() == HALF) {
    std::vector<std::uint16_t> halves(out.size());
    engine.readTensor("out", halves.data(), halves.data() + halves.size());
    poplar::copyDeviceHalfToFloat(graph.getTarget(), halves.data(), out.data(), out.size());
  } else {
    engine.readTensor("out", out.data(), out.data() + out.size());
  }
  std::ofstream(folder + "/" + c.name, std::ios::binary)
      .write(reinterpret_cast<const char*>(out.data()),
             static_cast<std::streamsize>(out.size() * sizeof(float)));
  return stamps[0] | std::uint64_t{stamps[1]} << 32;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: compare FOLDER [NAME...]\n";
    return 2;
  }
  const std::vector<std::string> chosen(argv + 2, argv + argc);
  for (const Case& c : Cases()) {
    if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), c.name) == chosen.end()) continue;
    try {
      std::cout << c.name << "\t" << Run(c, argv[1]) << std::endl;
    } catch (const std::exception& error) {
      std::cout << c.name << "\tfailed: " << error.what() << std::endl;
    }
  }
  return 0;
}
