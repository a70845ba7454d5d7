// Pooling: groups outputs into boxes whose windows overlap the operand in the same way, and runs them strip
// by strip.
#include "kernels/window/window_pool.h"

#include <algorithm>
#include <cstdint>

#include "kernels/convolution/convolution_overlap.h"
#include "kernels/elementwise/fill.h"
#include "kernels/host/integer_division.h"
#include "kernels/host/isa.h"
#include "kernels/window/window_strip.h"
#include "kernels/window/window_walk.h"

namespace ipu_model {
namespace {

template <typename T>
WindowFunctions<T> FunctionsFor(WindowCombiner combiner) {
  return JAX_IPU_FOR_ISA(GetWindowFunctions<T>(combiner));
}

// One dimension without base dilation. Strides are in elements.
struct PoolDimension {
  std::int64_t input, window, output;
  std::int64_t stride, dilation, padding;
  std::int64_t in, out;
};

template <typename T>
class Pooling {
 public:
  Pooling(const WindowFunctions<T>& functions, const T* in, T* out, T init, int dims,
          const PoolDimension* dim)
      : functions_(functions), in_(in), out_(out), init_(init), dims_(dims), dim_(dim) {}

  void Run(HostContext& context) {
    double steps = 1;
    std::int64_t taps = 1;
    for (int d = 0; d < dims_; ++d) {
      steps *= static_cast<double>(dim_[d].output) *
               static_cast<double>(std::max<std::int64_t>(1, dim_[d].window));
      taps *= dim_[d].window;
      classes_[d] = FindOverlap(context.scratch, dim_[d].output, dim_[d].stride, dim_[d].window,
                                dim_[d].dilation, dim_[d].padding, dim_[d].input);
    }
    ChooseAxes();
    const int workers = WindowWorkers(context.pool, steps / 4);
    const std::size_t each = static_cast<std::size_t>(std::max<std::int64_t>(1, taps));
    auto* offsets = context.scratch.Allocate<std::int64_t>(each * static_cast<std::size_t>(workers));
    auto task = [&](int worker) {
      int at[kMaxRank] = {};
      for (;;) {
        OverlapClass box[kMaxRank];
        for (int d = 0; d < dims_; ++d) box[d] = classes_[d].data[at[d]];
        RunBox(box, worker, workers, offsets + static_cast<std::size_t>(worker) * each);
        int d = dims_ - 1;
        while (d >= 0 && ++at[d] == classes_[d].size) at[d--] = 0;
        if (d < 0) break;
      }
    };
    context.pool.Run(workers, TaskRef(task));
  }

 private:
  // Columns: the dimension that is contiguous in operand and result. Rows: of the others, the one with the
  // smallest stride.
  void ChooseAxes() {
    for (int d = 0; d < dims_; ++d) {
      if (dim_[d].output > 1 && dim_[d].in == 1 && dim_[d].out == 1 && dim_[d].stride == 1) column_ = d;
    }
    for (int pass = column_ < 0 ? 0 : 1; pass < 2; ++pass) {
      int& axis = pass == 0 ? column_ : row_;
      for (int d = 0; d < dims_; ++d) {
        if (d == column_ || dim_[d].output <= 1) continue;
        if (axis < 0 || std::abs(dim_[d].in) < std::abs(dim_[axis].in)) axis = d;
      }
    }
  }

  void RunBox(const OverlapClass* box, int worker, int workers, std::int64_t* offsets) const {
    WindowStrip<T> strip;
    strip.offsets = offsets;
    strip.num_offsets = FindOffsets(box, offsets);
    const auto extent = [&](int d) { return d < 0 ? 1 : box[d].end - box[d].begin; };
    const auto step = [&](int d, bool in) {
      return d < 0 ? std::int64_t{1} : in ? dim_[d].in * dim_[d].stride : dim_[d].out;
    };
    strip.a_column = step(column_, true);
    strip.c_column = step(column_, false);
    strip.a_row = step(row_, true);
    strip.c_row = step(row_, false);
    strip.columns = extent(column_);
    strip.init = init_;
    std::int64_t units = 1;
    for (int d = 0; d < dims_; ++d) units *= d == column_ ? 1 : extent(d);
    const std::int64_t rows = extent(row_);
    std::int64_t unit = units * worker / workers;
    const std::int64_t end = units * (worker + 1) / workers;
    while (unit < end) {
      const std::int64_t row = unit % rows;
      strip.rows = std::min(rows - row, end - unit);
      std::int64_t a = 0, c = 0, rest = unit / rows;
      for (int d = dims_ - 1; d >= 0; --d) {
        std::int64_t q = box[d].begin;
        if (d == row_) {
          q += row;
        } else if (d != column_) {
          q += rest % extent(d);
          rest /= extent(d);
        }
        a += (q * dim_[d].stride - dim_[d].padding) * dim_[d].in;
        c += q * dim_[d].out;
      }
      strip.a = in_ + a;
      strip.c = out_ + c;
      functions_.reduce(strip);
      unit += strip.rows;
    }
  }

  // Writes the offsets of the window's elements in row-major order; returns their number.
  std::int64_t FindOffsets(const OverlapClass* box, std::int64_t* offsets) const {
    std::int64_t n = 1, first = 0;
    for (int d = 0; d < dims_; ++d) {
      n *= box[d].other_end - box[d].other_begin;
      first += box[d].other_begin * dim_[d].dilation * dim_[d].in;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      std::int64_t rest = i, offset = first;
      for (int d = dims_ - 1; d >= 0; --d) {
        const std::int64_t size = box[d].other_end - box[d].other_begin;
        offset += rest % size * dim_[d].dilation * dim_[d].in;
        rest /= size;
      }
      offsets[i] = offset;
    }
    return n;
  }

  const WindowFunctions<T>& functions_;
  const T* in_;
  T* out_;
  const T init_;
  const int dims_;
  const PoolDimension* dim_;
  OverlapClasses classes_[kMaxRank];
  int column_ = -1, row_ = -1;
};

// Splits the problem by the residues of output and window positions modulo the base dilation, as convolution
// does.
template <typename T>
void RunPhases(HostContext& context, const WindowGeometry& g, const WindowFunctions<T>& functions,
               const T* in, T* out, T init, PoolDimension* dim, int d) {
  while (d < g.rank && g.dim[d].base_dilation == 1) ++d;
  if (d == g.rank) {
    Pooling<T>(functions, in, out, init, g.rank, dim).Run(context);
    return;
  }
  const std::int64_t dilation = g.dim[d].base_dilation;
  const PoolDimension whole = dim[d];
  std::int64_t output_phases = 1, window_phases = 1;
  while (whole.stride * output_phases % dilation != 0) ++output_phases;
  while (whole.dilation * window_phases % dilation != 0) ++window_phases;
  for (std::int64_t q = 0; q < std::min(output_phases, whole.output); ++q) {
    PoolDimension& part = dim[d];
    part = whole;
    part.out = whole.out * output_phases;
    part.output = (whole.output - q + output_phases - 1) / output_phases;
    part.stride = whole.stride * output_phases / dilation;
    part.dilation = whole.dilation * window_phases / dilation;
    part.window = 0;
    part.padding = 0;
    for (std::int64_t k = 0; k < std::min(window_phases, whole.window); ++k) {
      const std::int64_t position = q * whole.stride + k * whole.dilation - whole.padding;
      if (FloorDivide(position, dilation) * dilation != position) continue;
      part.window = (whole.window - k + window_phases - 1) / window_phases;
      part.padding = -FloorDivide(position, dilation);
      break;
    }
    RunPhases(context, g, functions, in, out + q * whole.out, init, dim, d + 1);
  }
  dim[d] = whole;
}

template <typename T>
void PoolOf(HostContext& context, const WindowGeometry& g, WindowCombiner combiner, const HostTensor& in,
            const void* init, const HostTensor& out) {
  PoolDimension dim[kMaxRank];
  for (int d = 0; d < g.rank; ++d) {
    const WindowDimension& w = g.dim[d];
    dim[d] = {in.shape[d],       w.size,        out.shape[d],  w.stride,
              w.window_dilation, w.padding_low, in.strides[d], out.strides[d]};
  }
  const WindowFunctions<T> functions = FunctionsFor<T>(combiner);
  RunPhases<T>(context, g, functions, in.as<const T>(), out.as<T>(), *static_cast<const T*>(init), dim, 0);
}

// All dimensions except those of the strip.
struct Outer {
  std::int64_t count = 1;
  int dims = 0;
  std::int64_t shape[kMaxRank], in[kMaxRank], out[kMaxRank];

  void Add(const HostTensor& from, const HostTensor& to, int d) {
    count *= to.shape[d];
    shape[dims] = to.shape[d];
    in[dims] = from.strides[d];
    out[dims++] = to.strides[d];
  }
  void Find(std::int64_t index, std::int64_t* in_offset, std::int64_t* out_offset) const {
    *in_offset = *out_offset = 0;
    for (int d = dims - 1; d >= 0; --d) {
      *in_offset += index % shape[d] * in[d];
      *out_offset += index % shape[d] * out[d];
      index /= shape[d];
    }
  }
};

// Scans one long row: every worker scans its part, then combines it with the total of the parts before it.
template <typename T>
void ScanLongRow(HostContext& context, const WindowFunctions<T>& f, const T* a, T* c, std::int64_t n, T init,
                 bool backwards, int workers) {
  T* totals = context.scratch.Allocate<T>(static_cast<std::size_t>(workers));
  const auto begin = [&](int w) { return n * w / workers; };
  const int first = backwards ? workers - 1 : 0;
  auto scan = [&](int w) {
    totals[w] = f.scan_row(a + begin(w), c + begin(w), begin(w + 1) - begin(w),
                           w == first ? init : f.identity, backwards);
  };
  context.pool.Run(workers, TaskRef(scan));
  const std::int64_t no_offset = 0;
  WindowStrip<T> one{totals, 1, 1, &no_offset, 1, nullptr, 1, 1, 1, 1, init};
  T* carries = context.scratch.Allocate<T>(static_cast<std::size_t>(workers));
  T carry = totals[first];
  for (int i = 1; i < workers; ++i) {
    const int w = backwards ? workers - 1 - i : i;
    carries[w] = carry;
    one.a = totals + w;
    one.c = &carry;
    one.init = carry;
    f.reduce(one);
  }
  auto add = [&](int w) {
    if (w == first) return;
    const std::int64_t size = begin(w + 1) - begin(w);
    f.reduce({c + begin(w), size, 1, &no_offset, 1, c + begin(w), size, 1, 1, size, carries[w]});
  };
  context.pool.Run(workers, TaskRef(add));
}

template <typename T>
void ScanOf(HostContext& context, int dimension, bool backwards, WindowCombiner combiner,
            const HostTensor& in, const void* init_value, const HostTensor& out) {
  const WindowFunctions<T> f = FunctionsFor<T>(combiner);
  const T init = *static_cast<const T*>(init_value);
  const std::int64_t n = out.shape[dimension], total = out.num_elements();
  if (total == 0) return;
  const int workers = WindowWorkers(context.pool, static_cast<double>(total));
  const T* a = in.as<const T>();
  T* c = out.as<T>();
  Outer outer;
  if (in.strides[dimension] == 1 && out.strides[dimension] == 1) {
    for (int d = 0; d < out.rank; ++d) {
      if (d != dimension) outer.Add(in, out, d);
    }
    const auto row = [&](std::int64_t i, bool long_row) {
      std::int64_t from, to;
      outer.Find(i, &from, &to);
      if (long_row) {
        ScanLongRow(context, f, a + from, c + to, n, init, backwards, workers);
      } else {
        f.scan_row(a + from, c + to, n, init, backwards);
      }
    };
    if (outer.count < workers) {
      for (std::int64_t i = 0; i < outer.count; ++i) row(i, true);
      return;
    }
    const std::int64_t pieces = std::min(outer.count, workers * kPiecesPerWorker);
    WorkShares shares(pieces, workers);
    auto task = [&](int w) {
      for (std::int64_t p = shares.Next(w); p != WorkShares::kNone; p = shares.Next(w)) {
        for (std::int64_t i = outer.count * p / pieces; i < outer.count * (p + 1) / pieces; ++i)
          row(i, false);
      }
    };
    context.pool.Run(workers, TaskRef(task));
    return;
  }
  int column = -1;
  for (int d = 0; d < out.rank; ++d) {
    if (d != dimension && out.shape[d] > 1 && in.strides[d] == 1 && out.strides[d] == 1) column = d;
  }
  for (int d = 0; d < out.rank; ++d) {
    if (d != dimension && d != column) outer.Add(in, out, d);
  }
  const std::int64_t width = column < 0 ? 1 : out.shape[column];
  constexpr std::int64_t kBlock = 256;  // columns of one strip
  const std::int64_t blocks = (width + kBlock - 1) / kBlock;
  ScanStrip<T> whole{a, in.strides[dimension], 1, c, out.strides[dimension], 1, n, 0, init};
  if (backwards) {
    whole.a += (n - 1) * whole.a_step;
    whole.c += (n - 1) * whole.c_step;
    whole.a_step = -whole.a_step;
    whole.c_step = -whole.c_step;
  }
  auto task = [&](int w) {
    const std::int64_t units = outer.count * blocks;
    for (std::int64_t i = units * w / workers; i < units * (w + 1) / workers; ++i) {
      std::int64_t from, to;
      outer.Find(i / blocks, &from, &to);
      ScanStrip<T> strip = whole;
      strip.a += from + i % blocks * kBlock;
      strip.c += to + i % blocks * kBlock;
      strip.columns = std::min(kBlock, width - i % blocks * kBlock);
      f.scan(strip);
    }
  };
  context.pool.Run(workers, TaskRef(task));
}

template <typename F>
void WithPoolType(DType type, F&& f) {
  switch (type) {
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kS32:
      return f(std::int32_t{});
    case DType::kU32:
      return f(std::uint32_t{});
    case DType::kS64:
      return f(std::int64_t{});
    case DType::kU64:
      return f(std::uint64_t{});
    default:
      return;
  }
}

}  // namespace

bool PoolTakes(DType type) {
  bool takes = false;
  WithPoolType(type, [&](auto) { takes = true; });
  return takes;
}

void Pool(HostContext& context, const WindowGeometry& geometry, WindowCombiner combiner, const HostTensor& in,
          const void* init, const HostTensor& out) {
  if (out.num_elements() == 0) return;
  WithPoolType(in.type,
               [&](auto zero) { PoolOf<decltype(zero)>(context, geometry, combiner, in, init, out); });
}

void ScanAlong(HostContext& context, int dimension, bool backwards, WindowCombiner combiner,
               const HostTensor& in, const void* init, const HostTensor& out) {
  WithPoolType(in.type, [&](auto zero) {
    ScanOf<decltype(zero)>(context, dimension, backwards, combiner, in, init, out);
  });
}

}  // namespace ipu_model
