// Costs of Graph, Tensor and Engine on the host: rows of name, count and microseconds of processor time for
// each.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <poplar/Engine.hpp>
#include <poplar/Graph.hpp>
#include <poplar/IPUModel.hpp>
#include <poplar/Program.hpp>
#include <sstream>
#include <string>
#include <vector>

using namespace poplar;
using poplar::program::Copy;
using poplar::program::Execute;
using poplar::program::Sequence;

namespace {

constexpr unsigned kTiles = 1472;
const char* const kCodelets = R"cpp(
#include <poplar/Vertex.hpp>
  using namespace poplar;
  class Dot : public Vertex {
   public:
    Vector<Input<Vector<float>>> a;
    Vector<Input<Vector<float>>> b;
    Vector<Output<Vector<float>>> out;
    bool compute() {
      for (unsigned i = 0; i < out.size(); ++i)
        for (unsigned j = 0; j < out[i].size(); ++j) {
          float sum = 0;
          for (unsigned k = 0; k < a[i].size(); ++k) sum += a[i][k] * b[j][k];
          out[i][j] = sum;
        }
      return true;
    }
  };
  class Add : public Vertex {
   public:
    Vector<Input<Vector<float>>> in;
    Output<Vector<float>> out;
    bool compute() {
      for (unsigned j = 0; j < out.size(); ++j) {
        out[j] = 0;
        for (unsigned i = 0; i < in.size(); ++i) out[j] += in[i][j];
      }
      return true;
    }
  };
)cpp";

double Seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void Measure(const std::string& name, double count, const std::function<void()>& work) {
  const double begin = Seconds();
  work();
  std::printf("%s\t%.0f\t%.3f\n", name.c_str(), count, (Seconds() - begin) * 1e6 / count);
  std::fflush(stdout);
}

// The graph of a matrix product as PopLibs makes it: operands in blocks of the plan's order, a partial
// product for each tile, sums of the partial products, and copies from and to plain matrices.
void Product(const Device& device, std::size_t size) {
  const std::size_t rows = 32, columns = 9, depth = 5, group = 16;
  const std::string label = "product " + std::to_string(size) + "^3: ";
  Graph graph(device.getTarget());
  std::stringstream source(kCodelets);
  graph.addCodelets(source);
  Sequence prog;
  const auto part = [](std::size_t n, std::size_t parts, std::size_t i) { return n / 16 * i / parts * 16; };
  Tensor plain_a, plain_b, a, b, out;
  std::vector<std::vector<Tensor>> partials;
  const std::size_t vertices = rows * columns * depth;
  Measure(label + "operands, by tile", static_cast<double>(vertices), [&] {
    const auto operand = [&](std::size_t outer, std::size_t parts, unsigned shift) {
      // [group of the depth][outer][16], in one variable, as [outer][depth].
      const Tensor blocks = graph.addVariable(FLOAT, {size / group, outer, group}, "blocks");
      for (std::size_t i = 0; i < parts; ++i) {
        for (std::size_t k = 0; k < depth; ++k) {
          const Tensor block =
              blocks.slice({part(size, depth, k) / group, part(outer, parts, i), 0},
                           {part(size, depth, k + 1) / group, part(outer, parts, i + 1), group});
          graph.setTileMapping(block, static_cast<unsigned>((i * depth + k) * shift % kTiles));
        }
      }
      return blocks.dimShuffle({1, 0, 2}).reshape({outer, size});
    };
    a = operand(size, rows, 45);
    b = operand(size, columns, 32);
    plain_a = graph.addVariable(FLOAT, {size, size}, "a");
    plain_b = graph.addVariable(FLOAT, {size, size}, "b");
    for (unsigned tile = 0; tile < kTiles; ++tile) {
      const std::size_t begin = size * tile / kTiles, end = size * (tile + 1) / kTiles;
      if (begin < end) graph.setTileMapping(plain_a.slice(begin, end), tile);
      if (begin < end) graph.setTileMapping(plain_b.slice(begin, end), tile);
    }
    prog.add(Copy(plain_a, a));
    prog.add(Copy(plain_b.transpose(), b));
  });
  Measure(label + "partial products, by vertex", static_cast<double>(vertices), [&] {
    const ComputeSet set = graph.addComputeSet("products");
    for (std::size_t k = 0; k < depth; ++k) {
      std::vector<Tensor> of_rows;
      for (std::size_t i = 0; i < rows; ++i) {
        std::vector<Tensor> of_columns;
        for (std::size_t j = 0; j < columns; ++j) {
          const auto tile = static_cast<unsigned>((i * columns + j) * depth + k);
          const auto slice = [&](const Tensor& t, std::size_t parts, std::size_t n) {
            return t.slice({part(size, parts, n), part(size, depth, k)},
                           {part(size, parts, n + 1), part(size, depth, k + 1)});
          };
          const Tensor x = slice(a, rows, i), y = slice(b, columns, j);
          const Tensor z = graph.addVariable(FLOAT, {x.dim(0), y.dim(0)}, "partial");
          graph.setTileMapping(z, tile);
          const VertexRef vertex = graph.addVertex(set, "Dot", {{"a", x}, {"b", y}, {"out", z}});
          graph.setTileMapping(vertex, tile);
          of_columns.push_back(z);
        }
        of_rows.push_back(concat(of_columns, 1));
      }
      partials.push_back({concat(of_rows).expand({0})});
    }
    prog.add(Execute(set));
  });
  Measure(label + "sums, by vertex", kTiles, [&] {
    std::vector<Tensor> all;
    for (const auto& p : partials) all.push_back(p[0]);
    const Tensor stacked = concat(all).reshape({depth, size * size});
    out = graph.addVariable(FLOAT, {size * size}, "out");
    const ComputeSet set = graph.addComputeSet("sums");
    for (unsigned tile = 0; tile < kTiles; ++tile) {
      const std::size_t begin = size * size * tile / kTiles, end = size * size * (tile + 1) / kTiles;
      const Tensor sum = out.slice(begin, end);
      graph.setTileMapping(sum, tile);
      const VertexRef vertex =
          graph.addVertex(set, "Add", {{"in", stacked.slice(begin, end, 1)}, {"out", sum}});
      graph.setTileMapping(vertex, tile);
    }
    prog.add(Execute(set));
  });
  Measure(label + "compiled, by vertex", static_cast<double>(vertices + kTiles),
          [&] { Engine engine(graph, prog); });
}

void Views(const Device& device) {
  Graph graph(device.getTarget());
  for (const int count : {1000, 4000}) {
    std::vector<Tensor> parts;
    for (int i = 0; i < count; ++i) {
      parts.push_back(graph.addVariable(FLOAT, {64}, "part"));
      graph.setTileMapping(parts.back(), static_cast<unsigned>(i) % kTiles);
    }
    Tensor all;
    Measure("concat of " + std::to_string(count) + " variables, by variable", count,
            [&] { all = concat(parts); });
    Measure("getTileMapping of it, by variable", count, [&] { graph.getTileMapping(all); });
    Measure("slices of it, by slice", count, [&] {
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) all.slice(64 * i, 64 * i + 64);
    });
  }
  const Tensor grouped = graph.addVariable(HALF, {100, 8, 30, 30, 16}, "grouped");
  Tensor merged;
  Measure("merge groups of channels, once", 1,
          [&] { merged = grouped.dimShuffle({1, 0, 4, 2, 3}).reshape({8, 1600, 30, 30}); });
  Measure("slices of merged channels, by slice", 100, [&] {
    for (std::size_t i = 0; i < 100; ++i)
      merged.slice(16 * i, 16 * i + 16, 1).dimShuffle({0, 2, 3, 1}).flatten(0, 3);
  });
}

// Blocks of rows of a matrix, and the rows beside them, as stencils read them.
void Strided(const Device& device, std::size_t height) {
  const std::size_t across = 32, width = 32;
  Graph graph(device.getTarget());
  std::stringstream source(kCodelets);
  graph.addCodelets(source);
  const Tensor x = graph.addVariable(FLOAT, {across * height, across * width}, "x");
  const Tensor y = graph.addVariable(FLOAT, {across * height, across * width}, "y");
  const ComputeSet set = graph.addComputeSet("stencil");
  const std::string label = "blocks of " + std::to_string(height) + " rows: ";
  Sequence prog;
  Measure(label + "vertices, by vertex", across * across, [&] {
    for (std::size_t i = 0; i < across; ++i) {
      for (std::size_t j = 0; j < across; ++j) {
        const auto tile = static_cast<unsigned>(i * across + j);
        const std::size_t top = i * height, left = j * width;
        const Tensor out = y.slice({top, left}, {top + height, left + width});
        graph.setTileMapping(out, tile);
        graph.setTileMapping(x.slice({top, left}, {top + height, left + width}), tile);
        const std::size_t first = left == 0 ? 0 : left - 1;
        const Tensor in = x.slice({top, first}, {top + height, first + width});
        const VertexRef vertex = graph.addVertex(set, "Dot", {{"a", in}, {"b", in}, {"out", out}});
        graph.setTileMapping(vertex, tile);
      }
    }
    prog.add(Execute(set));
  });
  Measure(label + "compiled, by vertex", across * across, [&] { Engine engine(graph, prog); });
}

}  // namespace

// Arguments: which of views, strided and product are measured; without any, all.
int main(int count, char** arguments) {
  const std::vector<std::string> chosen(arguments + 1, arguments + count);
  const auto wanted = [&](const char* name) {
    return chosen.empty() || std::find(chosen.begin(), chosen.end(), name) != chosen.end();
  };
  IPUModel model;
  model.tilesPerIPU = kTiles;
  const Device device = model.createDevice();
  {
    // The codelets are compiled, or found in the cache, before anything is measured.
    Graph graph(device.getTarget());
    std::stringstream source(kCodelets);
    graph.addCodelets(source);
  }
  if (wanted("views")) Views(device);
  for (const std::size_t height : {8, 16, 32}) {
    if (wanted("strided")) Strided(device, height);
  }
  for (const std::size_t size : {512, 1024}) {
    if (wanted("product")) Product(device, size);
  }
  return 0;
}
