// Compute sets of random vertices with random edges, in both engines.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "check.h"
#include "core/mapping/box.h"
#include "poplar/Engine.hpp"
#include "testing/codelet_cache.h"
#include "testing/compute_sets.h"

namespace ipu_model {
namespace {

using poplar::ComputeSet;
using poplar::Graph;
using poplar::Tensor;
using poplar::VertexRef;
using poplar::program::Execute;
using poplar::program::Sequence;
using toy::InBoth;
using toy::Read;
using toy::Write;

const toy::CodeletCache cache;

const char* const kMix = R"cpp(
#include <poplar/Vertex.hpp>
  using namespace poplar;

  class Mix : public Vertex {
   public:
    Vector<Input<Vector<int>>> in;
    InOut<Vector<int>> io;
    Output<Vector<int>> out;
    unsigned k;
    bool compute() {
      for (unsigned i = 0; i < out.size(); ++i) {
        unsigned sum = k;
        for (unsigned e = 0; e < in.size(); ++e)
          if (in[e].size() > 0) sum += static_cast<unsigned>(in[e][(i * 7 + e) % in[e].size()]) * (e + 1);
        out[i] = static_cast<int>(sum);
      }
      for (unsigned i = 0; i < io.size(); ++i) io[i] = static_cast<int>(static_cast<unsigned>(io[i]) * 3 + k);
      return true;
    }
  };
)cpp";

constexpr std::size_t kRows = 6, kColumns = 8, kSize = kRows * kColumns;

class RandomComputeSet {
 public:
  explicit RandomComputeSet(std::mt19937* random) : random_(*random), graph_(toy::NewGraph(kMix)) {
    for (const char* name : {"a", "b", "out"}) AddVariable(name);
    AddVertices();
  }

  // Runs it in both engines, with values that are random as well.
  void Check() {
    std::vector<int> a(kSize), b(kSize);
    for (int& x : a) x = static_cast<int>(random_() % 2001) - 1000;
    for (int& x : b) x = static_cast<int>(random_() % 2001) - 1000;
    std::vector<int> want_b = b, want_out(kSize);
    for (const MixVertex& v : vertices_) v.Compute(a, &want_b, &want_out);
    InBoth(graph_, Sequence({Execute(set_)}), [&](poplar::Engine* engine) {
      Write(engine, "a", a);
      Write(engine, "b", b);
      engine->run();
      CHECK(Read<int>(engine, "a", kSize) == a);
      CHECK(Read<int>(engine, "b", kSize) == want_b);
      CHECK(Read<int>(engine, "out", kSize) == want_out);
    });
  }

 private:
  // What a vertex reads of a, by edge, and has of b and out; as numbers of elements.
  struct MixVertex {
    std::vector<std::vector<std::size_t>> in;
    std::vector<std::size_t> own;
    unsigned k;

    // As the codelet does it.
    void Compute(const std::vector<int>& a, std::vector<int>* b, std::vector<int>* out) const {
      for (std::size_t i = 0; i < own.size(); ++i) {
        unsigned sum = k;
        for (std::size_t n = 0; n < in.size(); ++n)
          sum += static_cast<unsigned>(a[in[n][(i * 7 + n) % in[n].size()]]) * static_cast<unsigned>(n + 1);
        (*out)[own[i]] = static_cast<int>(sum);
        (*b)[own[i]] = static_cast<int>(static_cast<unsigned>((*b)[own[i]]) * 3 + k);
      }
    }
  };

  std::size_t Below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  void AddVariable(const char* name) {
    variables_.push_back(graph_.addVariable(poplar::INT, {kRows, kColumns}, name));
    Graph::TileToTensorMapping mapping(16);
    for (std::size_t begin = 0; begin < kSize;) {
      const std::size_t end = std::min(kSize, begin + 1 + Below(9));
      mapping[Below(16)].emplace_back(begin, end);
      begin = end;
    }
    graph_.setTileMapping(variables_.back(), mapping);
    graph_.createHostWrite(name, variables_.back());
    graph_.createHostRead(name, variables_.back());
  }

  Tensor RandomView(Tensor t) {
    for (int step = 0; step < 3; ++step) {
      const auto d = static_cast<unsigned>(Below(t.rank()));
      switch (Below(5)) {
        case 0:
          t = t.dimShuffle(t.rank() == 2 ? std::vector<unsigned>{1, 0} : std::vector<unsigned>{0});
          break;
        case 1:
          t = t.reverse(d);
          break;
        case 2: {
          const std::size_t begin = Below(t.dim(d)), end = begin + 1 + Below(t.dim(d) - begin);
          t = t.slice(begin, end, d);
          break;
        }
        case 3:
          t = t.subSample(1 + static_cast<unsigned>(Below(3)), d);
          break;
        default:
          t = t.flatten();
      }
    }
    return t;
  }

  // The elements of its variable that a tensor has, in its order.
  static std::vector<std::size_t> ElementsOf(const Tensor& t) {
    std::vector<std::size_t> elements;
    for (const View& v : t.pieces()) {
      const Box box = Box::Whole(v.shape);
      for (std::int64_t i = 0; i < box.num_elements(); ++i) {
        std::int64_t rest = i, at = v.offset;
        for (std::size_t d = v.shape.size(); d-- > 0; rest /= v.shape[d])
          at += rest % v.shape[d] * v.strides[d];
        elements.push_back(static_cast<std::size_t>(at));
      }
    }
    return elements;
  }

  // Divides the elements of b and out, in a random order, among vertices.
  void AddVertices() {
    set_ = graph_.addComputeSet("mix");
    std::vector<std::size_t> order(kSize);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    for (std::size_t taken = 0; taken < kSize;) {
      const std::size_t count = std::min(kSize - taken, Below(12));
      const auto begin = order.begin() + static_cast<std::ptrdiff_t>(taken);
      AddVertex({begin, begin + static_cast<std::ptrdiff_t>(count)});
      taken += count;
    }
  }

  void AddVertex(std::vector<std::size_t> own) {
    MixVertex made;
    made.own = std::move(own);
    if (Below(2) == 0) std::sort(made.own.begin(), made.own.end());
    const VertexRef v = graph_.addVertex(set_, "Mix");
    std::vector<Tensor> io, out, in;
    for (const std::size_t at : made.own) {
      io.push_back(variables_[1].flatten().slice(at, at + 1));
      out.push_back(variables_[2].flatten().slice(at, at + 1));
    }
    if (made.own.empty()) io = out = {variables_[1].flatten().slice(0, 0)};
    graph_.connect(v["io"], io);
    graph_.connect(v["out"], out);
    for (std::size_t n = Below(4); n > 0; --n) {
      in.push_back(RandomView(variables_[0]));
      if (Below(3) == 0) in.back() = concat(in.back().flatten(), RandomView(variables_[0]).flatten());
      made.in.push_back(ElementsOf(in.back()));
    }
    graph_.connect(v["in"], in);
    made.k = static_cast<unsigned>(Below(1000));
    graph_.setInitialValue(v["k"], made.k);
    graph_.setTileMapping(v, static_cast<unsigned>(Below(16)));
    vertices_.push_back(std::move(made));
  }

  std::mt19937& random_;
  Graph graph_;
  std::vector<Tensor> variables_;
  ComputeSet set_;
  std::vector<MixVertex> vertices_;
};

TEST(random_compute_sets) {
  std::mt19937 random(7);
  for (int round = 0; round < 12; ++round) RandomComputeSet(&random).Check();
}

}  // namespace
}  // namespace ipu_model
