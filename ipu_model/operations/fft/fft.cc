// Fourier transforms: one superstep per dimension; a line is whole on one tile, and the lines are spread over
// the tiles.
#include "hlo/Fft.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "core/graph/expandable.h"
#include "core/graph/graph_impl.h"
#include "core/operation/operand_check.h"
#include "core/operation/serialise.h"
#include "core/target/target_model.h"
#include "kernels/fft/fft.h"
#include "kernels/host/dense_tensor.h"
#include "operations/data_views.h"
#include "operations/fft/fft_cost.h"
#include "operations/index/slice_grid.h"
#include "operations/readers.h"
#include "poplar/exceptions.hpp"

namespace ipu_model {
namespace {

using hlo::FftType;

DType ComplexOf(DType type) {
  return type == DType::kF64 || type == DType::kC128 ? DType::kC128 : DType::kC64;
}
DType RealOf(DType type) { return ComplexOf(type) == DType::kC128 ? DType::kF64 : DType::kF32; }

// The transform along one dimension.
struct Pass {
  int dim;
  bool inverse;
  double scale;
  Shape in, out;
  std::shared_ptr<const FftPlan> plan;
};

Grid LineGrid(const Shape& shape, std::size_t dim, DType type, unsigned num_tiles) {
  std::vector<bool> whole(shape.size(), false);
  whole[dim] = true;
  return SliceGrid(shape, whole, type, num_tiles, INT64_MAX);
}

constexpr std::int64_t kWorkBytes = 128 << 10;

// What a vertex works with besides its lines. Real lines of an even length 2 n are transformed as n complex
// numbers; the transform is computed in the result, unless the result is shorter or the transform is a
// convolution.
struct Workspace {
  std::int64_t length;        // complex numbers for each worker, or 0
  std::int64_t workers;       // as many as have room for that
  std::uint64_t table_bytes;  // in the state of the vertex
  Workspace(const Pass& pass, DType type, const TargetModel& target) {
    const bool real = pass.plan->real(), packed = real && pass.plan->length() % 2 == 0;
    const std::int64_t n = packed ? pass.plan->length() / 2 : pass.plan->length();
    const std::int64_t convolution = FftConvolutionLength(n);
    length = convolution > 0 ? convolution : real && !packed ? n : 0;
    const auto roots = [](std::int64_t order) {  // products of two entries
      std::int64_t size = 1;
      while (size * size < order) size *= 2;
      return size + (order + size - 1) / size;
    };
    const std::int64_t entries =
        roots(2 * n) + (length > 0 ? roots(length) : 0) + (convolution > 0 ? convolution : 0);
    const std::int64_t bytes = static_cast<std::int64_t>(SizeOf(type));
    table_bytes = static_cast<std::uint64_t>(entries * bytes);
    workers = length == 0
                  ? target.worker_contexts
                  : std::clamp<std::int64_t>(kWorkBytes / (length * bytes), 1, target.worker_contexts);
  }
};

// inputs: operand; outputs: transform.
class FftOperation : public Operation, public Expandable {
 public:
  FftOperation(FftType type, Shape lengths, double flops)
      : type_(type), lengths_(std::move(lengths)), flops_(flops) {}

  std::string_view kind() const override { return "hlo::fft"; }
  bool OperandsFit(unsigned /*num_tiles*/) const override {
    if (!HasOperands(*this, 1, 1)) return false;
    const DType dtype = inputs[0].type;
    const bool real = type_ == FftType::kRfft, inverse_real = type_ == FftType::kIrfft;
    const Shape& in = inputs[0].shape;
    if (lengths_.empty() || lengths_.size() > in.size() ||
        !(real ? dtype == DType::kF32 || dtype == DType::kF64 : IsComplex(dtype)))
      return false;
    Shape from = in, out = in;
    for (std::size_t i = 0; i < lengths_.size(); ++i) {
      const std::size_t d = in.size() - lengths_.size() + i;
      from[d] = out[d] = lengths_[i];
    }
    std::int64_t& halved = real ? out.back() : from.back();
    if (real || inverse_real) halved = halved == 0 ? 0 : halved / 2 + 1;
    return in == from && outputs[0].shape == out &&
           outputs[0].type == (inverse_real ? RealOf(dtype) : ComplexOf(dtype));
  }
  void Write(Writer& writer) const override {
    writer.Write(type_);
    writer.Write(lengths_);
    writer.Write(flops_);
  }
  double flops() const override {
    if (flops_ >= 0) return flops_;
    double levels = 0;
    for (const std::int64_t n : lengths_) {
      for (std::int64_t m = n; m > 1; m /= 2) ++levels;
    }
    return 8 * static_cast<double>(inputs[0].num_elements()) *
           levels;  // XLA: 4 fused operations in each level
  }

  void Prepare() override { passes_ = MakePasses(); }

  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override {
    HostTensor from = in[0];
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      const Pass& pass = passes_[i];
      HostTensor to = out[0];
      if (type_ == FftType::kIrfft && i + 1 < passes_.size()) {
        // The spectrum before the last pass is not an output. It is stored in a dense tensor: newly allocated
        // by the first pass, and then transformed in place.
        to = from;
        if (i == 0) {
          const auto elements = static_cast<std::size_t>(SetDenseStrides(&to));
          to.data = context.scratch.Allocate(elements * SizeOf(to.type));
        }
      }
      pass.plan->Run(context, pass.inverse, pass.scale, pass.dim, from, to);
      from = to;
    }
  }

  // Bands run along the dimensions that are not transformed.
  std::vector<int> BandDimensions(int d) const override {
    if (d + static_cast<int>(lengths_.size()) >= static_cast<int>(outputs[0].shape.size())) return {};
    return {d, d};
  }

  TilePlan Plan(const DeviceContext& context) const override {
    TilePlan plan;
    if (outputs[0].num_elements() == 0) return plan;
    const DType complex = ComplexOf(inputs[0].type);
    const std::vector<Pass> passes = MakePasses();
    OperandRef from{OperandRef::Kind::kInput, 0};
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const Pass& pass = passes[i];
      const std::size_t dim = static_cast<std::size_t>(pass.dim);
      const bool last = i + 1 == passes.size();
      const Grid lines = LineGrid(pass.out, dim, complex, context.num_tiles());
      const OperandRef to{last ? OperandRef::Kind::kOutput : OperandRef::Kind::kTemporary,
                          last ? 0u : static_cast<unsigned>(plan.temporaries.size())};
      if (!last) plan.temporaries.push_back({complex, lines});
      VertexGroup group;
      group.codelet = "hlo::Fft";
      group.vertices = lines.Vertices();
      group.code_bytes = 1500;
      const Workspace work(pass, complex, context.target());
      group.vertex_bytes = 40 + work.table_bytes;
      group.reads.push_back({from, [dim, n = pass.in[dim]](const Box& box) {
                               Box region = box;
                               region.begin[dim] = 0;
                               region.end[dim] = n;
                               return region;
                             }});
      group.writes.push_back({to, [](const Box& box) { return box; }});
      if (work.length > 0) {
        const auto used = [dim, workers = work.workers](const Box& box) {
          const std::int64_t extent = std::max<std::int64_t>(1, box.end[dim] - box.begin[dim]);
          return std::min(workers, box.num_elements() / extent);
        };
        std::int64_t most = 0;
        for (const Vertex& vertex : group.vertices) most = std::max(most, used(vertex.box));
        const OperandRef numbers{OperandRef::Kind::kTemporary,
                                 static_cast<unsigned>(plan.temporaries.size())};
        const std::int64_t parts = lines.num_parts();
        plan.temporaries.push_back(
            {complex, Grid::Of({parts, most, work.length}, {parts, 1, 1}, context.num_tiles())});
        group.writes.push_back({numbers, [lines, used, length = work.length](const Box& box) {
                                  std::int64_t part = 0;
                                  for (std::size_t d = 0; d < box.begin.size(); ++d)
                                    part += lines.PartOf(static_cast<int>(d), box.begin[d]) *
                                            lines.tile_stride[d];
                                  return Box{{part, 0, 0}, {part + 1, used(box), length}};
                                }});
      }
      group.compute = [pass](HostContext& host, const Box&, const std::vector<HostTensor>& reads,
                             const std::vector<HostTensor>& writes) {
        pass.plan->Run(host, pass.inverse, pass.scale, pass.dim, reads[0], writes[0]);
      };
      group.cycles = [complex, dim, workers = work.workers, operations = pass.plan->operations()](
                         const TargetModel& target, const Box& box) {
        const std::int64_t extent = std::max<std::int64_t>(1, box.end[dim] - box.begin[dim]);
        const std::int64_t count = box.num_elements() / extent;
        const std::int64_t all = std::min<std::int64_t>(count, target.worker_contexts),
                           busy = std::max<std::int64_t>(1, std::min(count, workers));
        return FftCycles(target, RealOf(complex), count,
                         operations * static_cast<double>(all) / static_cast<double>(busy));
      };
      plan.supersteps.push_back({{std::move(group)}});
      from = to;
    }
    return plan;
  }

  void Expand(const hlo::Expansions& library, poplar::Graph& graph, const std::vector<poplar::Tensor>& in,
              const std::vector<poplar::Tensor>& out, poplar::program::Sequence& prog) const override {
    library.fft(graph, InputsBesideOutputs(*this, graph, in, prog)[0], type_,
                {lengths_.begin(), lengths_.end()}, out[0], PlanOf(*this, graph), prog, name);
  }

  // Returns how the result is mapped, which is as the last pass is split.
  static Grid ResultGrid(const Shape& out, FftType type, std::size_t rank, DType dtype, unsigned num_tiles) {
    const std::size_t last = out.size() - 1;
    return LineGrid(out, type == FftType::kIrfft || rank == 1 ? last : out.size() - rank, ComplexOf(dtype),
                    num_tiles);
  }

 private:
  // rfft starts with the last dimension, irfft ends with it. The last pass of an inverse transform scales by
  // all lengths.
  std::vector<Pass> MakePasses() const {
    const int rank = static_cast<int>(inputs[0].shape.size()), count = static_cast<int>(lengths_.size());
    const DType complex = ComplexOf(inputs[0].type);
    const bool inverse = type_ == FftType::kIfft || type_ == FftType::kIrfft;
    std::vector<Pass> passes;
    double elements = 1;
    for (int i = 0; i < count; ++i) {
      const int dim = type_ == FftType::kIrfft ? rank - count + i : rank - 1 - i;
      const std::int64_t length = lengths_[static_cast<std::size_t>(dim - (rank - count))];
      elements *= static_cast<double>(length);
      Pass pass{dim, inverse, inverse && i + 1 == count ? 1 / elements : 1, {}, {}, nullptr};
      const bool real = dim == rank - 1 && (type_ == FftType::kRfft || type_ == FftType::kIrfft);
      for (const Pass& other : passes) {
        if (other.plan->length() == length && other.plan->real() == real) pass.plan = other.plan;
      }
      if (!pass.plan) pass.plan = std::make_shared<const FftPlan>(complex, length, real);
      pass.in = passes.empty() ? inputs[0].shape : passes.back().out;
      pass.out = pass.in;
      if (dim == rank - 1) pass.out.back() = outputs[0].shape.back();
      passes.push_back(std::move(pass));
    }
    return passes;
  }

  FftType type_;
  Shape lengths_;
  double flops_;  // negative: as XLA counts them
  std::vector<Pass> passes_;
};

}  // namespace

std::unique_ptr<Operation> ReadFft(Reader& reader) {
  const FftType type = reader.Read<FftType>();
  Shape lengths = reader.Read<Shape>();
  const double flops = reader.Read<double>();
  if (!std::isfinite(flops)) reader.Fail("a transform has a wrong number of operations");
  return std::make_unique<FftOperation>(type, std::move(lengths), flops);
}

}  // namespace ipu_model

namespace hlo {

poplar::Tensor fft(poplar::Graph& graph, const poplar::Tensor& operand, FftType type,
                   const std::vector<std::size_t>& lengths, poplar::program::Sequence& prog,
                   const poplar::DebugContext& debugContext, double flops) {
  using namespace ipu_model;
  const std::string& name = debugContext.getPathName();
  const DType dtype = operand.elementType().id();
  const bool real = type == FftType::kRfft;
  bool fits = (real ? dtype == DType::kF32 || dtype == DType::kF64 : IsComplex(dtype)) && !lengths.empty() &&
              lengths.size() <= operand.rank();
  Shape out = ShapeOf(operand);
  for (std::size_t i = 0; fits && i < lengths.size(); ++i) {
    const std::size_t dim = out.size() - lengths.size() + i;
    const bool half = type == FftType::kIrfft && i + 1 == lengths.size();
    // An empty real transform has an empty spectrum.
    const std::size_t expected = half ? (lengths[i] == 0 ? 0 : lengths[i] / 2 + 1) : lengths[i];
    fits = operand.dim(static_cast<unsigned>(dim)) == expected;
  }
  if (!fits) {
    throw poplar::poplar_error(name + ": fft of " + NameOf(dtype) + " " + operand.shapeToString() +
                               " does not fit its type and lengths");
  }
  const std::int64_t last = static_cast<std::int64_t>(lengths.back());
  if (real) out.back() = last == 0 ? 0 : last / 2 + 1;
  if (type == FftType::kIrfft) out.back() = last;
  auto operation = std::make_unique<FftOperation>(type, Shape(lengths.begin(), lengths.end()), flops);
  operation->name = name;
  operation->inputs.push_back(StridedView(graph, operand, prog, {debugContext, "operand"}));
  const DType result = type == FftType::kIrfft ? RealOf(dtype) : ComplexOf(dtype);
  const ipu_model::Grid grid =
      FftOperation::ResultGrid(out, type, lengths.size(), dtype, graph.getTarget().getNumTiles());
  const poplar::Tensor tensor = NewTensor(graph, result, out, Mapping(grid), name);
  tensor.asView(&operation->outputs.emplace_back());
  AddOperation(prog, std::move(operation));
  return tensor;
}

}  // namespace hlo
