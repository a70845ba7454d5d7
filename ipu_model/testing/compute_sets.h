// What the tests of compute sets share: codelets, graphs with them, and engines of both kinds.
#ifndef IPU_MODEL_TESTING_COMPUTE_SETS_H_
#define IPU_MODEL_TESTING_COMPUTE_SETS_H_

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "poplar/Engine.hpp"
#include "poplar/Graph.hpp"
#include "poplar/Program.hpp"

namespace ipu_model::toy {

inline constexpr const char* kCodelets = R"cpp(
#include <ipudef.h>
#include <poplar/HalfFloat.hpp>
#include <poplar/Vertex.hpp>
  using namespace poplar;

  class Adder : public Vertex {
   public:
    Input<float> x;
    Input<float> y;
    Output<float> sum;
    bool compute() {
      *sum = x + y;
      return true;
    }
  };

  class Scale : public Vertex {
   public:
    Input<Vector<float>> in;
    Output<Vector<float>> out;
    float factor = 2;
    bool compute() {
      for (unsigned i = 0; i < out.size(); ++i) out[i] = in[i] * factor;
      return true;
    }
  };

  template <typename T>
  class Weighted : public Vertex {
   public:
    Vector<Input<Vector<T>>> rows;
    Vector<T> weights;
    Vector<Output<T>> sums;
    bool compute() {
      for (unsigned i = 0; i < rows.size(); ++i) {
        T sum = 0;
        for (unsigned j = 0; j < rows[i].size(); ++j) sum += rows[i][j] * weights[j];
        *sums[i] = sum;
      }
      return true;
    }
  };
  template class Weighted<int>;
  template class Weighted<half>;

  class Six : public MultiVertex {
   public:
    InOut<Vector<int>> data;
    bool compute(unsigned worker) {
      for (unsigned i = worker; i < data.size(); i += numWorkers()) data[i] += 10 * static_cast<int>(worker);
      return true;
    }
  };

  class Counter : public Vertex {
   public:
    Output<int> out;
    int calls;
    bool compute() {
      *out = ++calls;
      return true;
    }
  };

  class Wide : public Vertex {
   public:
    Input<Vector<float, VectorLayout::ONE_PTR, 8>> in;
    Output<Vector<float, VectorLayout::SPAN, 8>> out;
    bool compute() {
      const float2* pairs = reinterpret_cast<const float2*>(&in[0]);
      if (reinterpret_cast<unsigned long>(pairs) % 8 != 0) return false;
      for (unsigned i = 0; i < out.size(); ++i) out[i] = pairs[i / 2][i % 2] + 1;
      return true;
    }
  };
)cpp";

// A graph of 16 tiles with the codelets of this text.
inline poplar::Graph NewGraph(const std::string& codelets = kCodelets) {
  poplar::Graph graph(poplar::Target::createIPUTarget(1, 16, "ipu2"));
  std::istringstream text(codelets);
  graph.addCodelets(text);
  return graph;
}

inline constexpr const char* kEngines[] = {"fast", "tile"};

// Calls `check` for an engine of each kind, with the streams not yet connected.
inline void InBoth(const poplar::Graph& graph, const poplar::program::Sequence& program,
                   const std::function<void(poplar::Engine*)>& check, const poplar::OptionFlags& more = {}) {
  for (const char* name : kEngines) {
    poplar::OptionFlags options = more;
    options.set("execution", name);
    poplar::Engine engine(graph, program, options);
    engine.load();
    check(&engine);
  }
}

template <typename T>
std::vector<T> Read(poplar::Engine* engine, const std::string& handle, std::size_t n) {
  std::vector<T> values(n);
  engine->readTensor(handle, values.data(), values.data() + n);
  return values;
}
template <typename T>
void Write(poplar::Engine* engine, const std::string& handle, const std::vector<T>& values) {
  engine->writeTensor(handle, values.data(), values.data() + values.size());
}

// The message of the error that `f` throws, which shall be an `Error`.
template <typename Error>
std::string MessageOf(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another type of error: ") + error.what();
  }
  return "no error";
}

// Whether the text has all of these parts; shows it if not.
inline bool Contains(const std::string& text, const std::vector<std::string>& parts) {
  const bool all = std::all_of(parts.begin(), parts.end(),
                               [&](const std::string& part) { return text.find(part) != std::string::npos; });
  if (!all) std::fprintf(stderr, "the message is: %s\n", text.c_str());
  return all;
}

}  // namespace ipu_model::toy

#endif  // IPU_MODEL_TESTING_COMPUTE_SETS_H_
