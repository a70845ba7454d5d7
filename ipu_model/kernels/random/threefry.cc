// Rows of blocks. The blocks of a row with one key and evenly spaced counters are computed from these in
// registers; for others the keys and counters are gathered first.
#include "kernels/random/threefry.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/host/isa.h"
#include "kernels/random/random_loops.h"

namespace ipu_model {
namespace {

constexpr std::int64_t kChunk = 1024;
constexpr int kMostIn = 4;

// The dimensions in the order in which the first result lies in memory, merged where everything allows it.
struct Walk {
  struct Dimension {
    std::int64_t extent;
    std::int64_t in[kMostIn] = {}, out[2] = {};
    std::uint32_t counter[2] = {};
  };
  std::vector<Dimension> dims;  // the last one is the row
  std::uint32_t start[2] = {};
  std::size_t num_in = 0, num_out = 0;

  Walk(const std::vector<HostTensor>& in, const CounterWord (&words)[2],
       const std::vector<std::int64_t>& begin, const std::vector<HostTensor>& out)
      : num_in(in.size()), num_out(out.size()) {
    for (int w = 0; w < 2; ++w) {
      start[w] = words[w].start;
      for (std::size_t d = 0; d < begin.size(); ++d)
        start[w] += words[w].strides[d] * static_cast<std::uint32_t>(begin[d]);
    }
    std::vector<Dimension> all;
    for (int d = 0; d < out[0].rank; ++d) {
      if (out[0].shape[d] == 1) continue;
      Dimension& dim = all.emplace_back();
      dim.extent = out[0].shape[d];
      for (std::size_t i = 0; i < num_in; ++i) dim.in[i] = in[i].strides[d];
      for (std::size_t o = 0; o < num_out; ++o) dim.out[o] = out[o].strides[d];
      for (int w = 0; w < 2; ++w) dim.counter[w] = words[w].strides[static_cast<std::size_t>(d)];
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Dimension& a, const Dimension& b) { return a.out[0] > b.out[0]; });
    for (const Dimension& dim : all) {
      if (!dims.empty() && Continues(dims.back(), dim)) {
        const std::int64_t extent = dims.back().extent;
        dims.back() = dim;
        dims.back().extent *= extent;
      } else {
        dims.push_back(dim);
      }
    }
    if (dims.empty()) dims.push_back({1});
  }

 private:
  // Whether a step of `outer` is as long as all steps of `inner`.
  bool Continues(const Dimension& outer, const Dimension& inner) const {
    bool same = true;
    for (std::size_t i = 0; i < num_in; ++i) same = same && outer.in[i] == inner.in[i] * inner.extent;
    for (std::size_t o = 0; o < num_out; ++o) same = same && outer.out[o] == inner.out[o] * inner.extent;
    for (int w = 0; w < 2; ++w)
      same = same && outer.counter[w] == inner.counter[w] * static_cast<std::uint32_t>(inner.extent);
    return same;
  }
};

ThreefryForm FormOf(const std::vector<HostTensor>& out) {
  if (out.size() == 2) return ThreefryForm::kWords;
  switch (SizeOf(out[0].type)) {
    case 1:
      return ThreefryForm::kXor8;
    case 2:
      return ThreefryForm::kXor16;
    case 4:
      return ThreefryForm::kXor32;
    default:
      return ThreefryForm::kPair64;
  }
}

template <typename T>
void Spread(const void* from, std::int64_t n, std::int64_t stride, char* to) {
  const T* values = static_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  for (std::int64_t i = 0; i < n; ++i) out[i * stride] = values[i];
}

// Computes rows and parts of rows of one call.
class Rows {
 public:
  Rows(const std::vector<HostTensor>& in, const CounterWord (&words)[2], const Walk& walk,
       const std::vector<HostTensor>& out)
      : in_(in), out_(out), walk_(walk), row_(walk.dims.back()), form_(FormOf(out)) {
    size_ = static_cast<std::int64_t>(SizeOf(out[0].type));
    int next = 2;
    for (int w = 0; w < 2; ++w) tensor_[w] = words[w].has_tensor ? next++ : -1;
    counted_ = row_.in[0] == 0 && row_.in[1] == 0;
    for (int w = 0; w < 2; ++w) counted_ = counted_ && (tensor_[w] < 0 || row_.in[tensor_[w]] == 0);
  }

  // The elements [first, first + n) of a row, n <= kChunk.
  void Run(std::int64_t row, std::int64_t first, std::int64_t n) const {
    const std::uint32_t* in[kMostIn] = {};
    char* out[2] = {};
    for (std::size_t i = 0; i < in_.size(); ++i)
      in[i] = in_[i].as<const std::uint32_t>() + first * row_.in[i];
    for (std::size_t o = 0; o < out_.size(); ++o) out[o] = out_[o].as<char>() + first * row_.out[o] * size_;
    std::uint32_t start[2];
    for (int w = 0; w < 2; ++w)
      start[w] = walk_.start[w] + row_.counter[w] * static_cast<std::uint32_t>(first);
    for (std::size_t d = walk_.dims.size() - 1; d-- > 0;) {
      const Walk::Dimension& dim = walk_.dims[d];
      const std::int64_t at = row % dim.extent;
      row /= dim.extent;
      for (std::size_t i = 0; i < in_.size(); ++i) in[i] += at * dim.in[i];
      for (std::size_t o = 0; o < out_.size(); ++o) out[o] += at * dim.out[o] * size_;
      for (int w = 0; w < 2; ++w) start[w] += dim.counter[w] * static_cast<std::uint32_t>(at);
    }
    // A result that is not dense along the row is computed in a buffer.
    alignas(64) char buffer[2][kChunk * 8];
    void* to[2];
    for (std::size_t o = 0; o < 2; ++o) to[o] = IsConsecutive(o, n) ? out[o] : buffer[o];
    counted_ ? Counted(in, start, n, to) : Gathered(in, start, n, to);
    for (std::size_t o = 0; o < out_.size(); ++o) {
      if (!IsConsecutive(o, n)) Scatter(buffer[o], n, row_.out[o], out[o]);
    }
  }

 private:
  bool IsConsecutive(std::size_t o, std::int64_t n) const { return row_.out[o] == 1 || n == 1; }

  void Counted(const std::uint32_t* const* in, const std::uint32_t* start, std::int64_t n,
               void* const* to) const {
    ThreefryCounters counters;
    for (int w = 0; w < 2; ++w) {
      counters.key[w] = *in[w];
      counters.start[w] = start[w] + (tensor_[w] < 0 ? 0 : *in[tensor_[w]]);
      counters.step[w] = row_.counter[w];
    }
    JAX_IPU_FOR_ISA(ThreefryCount)(counters, n, form_, to);
  }

  void Gathered(const std::uint32_t* const* in, const std::uint32_t* start, std::int64_t n,
                void* const* to) const {
    alignas(64) std::uint32_t values[kMostIn][kChunk];
    for (int w = 0; w < 2; ++w) {
      for (std::int64_t i = 0; i < n; ++i) values[w][i] = in[w][i * row_.in[w]];
      std::uint32_t counter = start[w];
      for (std::int64_t i = 0; i < n; ++i, counter += row_.counter[w]) values[2 + w][i] = counter;
      if (tensor_[w] < 0) continue;
      const std::uint32_t* tensor = in[tensor_[w]];
      const std::int64_t stride = row_.in[tensor_[w]];
      for (std::int64_t i = 0; i < n; ++i) values[2 + w][i] += tensor[i * stride];
    }
    const std::uint32_t* const pointers[kMostIn] = {values[0], values[1], values[2], values[3]};
    JAX_IPU_FOR_ISA(ThreefryHash)(pointers, n, form_, to);
  }

  void Scatter(const char* from, std::int64_t n, std::int64_t stride, char* to) const {
    switch (size_) {
      case 1:
        return Spread<std::uint8_t>(from, n, stride, to);
      case 2:
        return Spread<std::uint16_t>(from, n, stride, to);
      case 4:
        return Spread<std::uint32_t>(from, n, stride, to);
      default:
        return Spread<std::uint64_t>(from, n, stride, to);
    }
  }

  const std::vector<HostTensor>&in_, &out_;
  const Walk& walk_;
  const Walk::Dimension& row_;
  ThreefryForm form_;
  std::int64_t size_;
  int tensor_[2];  // the operand that is added to each word, or -1
  bool counted_;   // whether a row has one key and evenly spaced counters
};

// Larger tensors gain from several threads.
constexpr std::int64_t kMostBound = 8192;

class BoundThreefry : public BoundKernel {
 public:
  BoundThreefry(const std::vector<HostTensor>& in, const CounterWord (&words)[2],
                const std::vector<HostTensor>& out)
      : in_(in),
        out_(out),
        walk_(in, words, std::vector<std::int64_t>(static_cast<std::size_t>(out[0].rank)), out),
        rows_(in_, words, walk_, out_),
        length_(walk_.dims.back().extent),
        rows_in_all_(out[0].num_elements() / length_) {}

  std::size_t scratch_bytes() const override { return 0; }
  void Point(const HostTensor* in, const HostTensor* out, unsigned char* /*scratch*/) override {
    for (std::size_t i = 0; i < in_.size(); ++i) in_[i].data = in[i].data;
    for (std::size_t o = 0; o < out_.size(); ++o) out_[o].data = out[o].data;
  }
  void Run() const override {
    for (std::int64_t row = 0; row < rows_in_all_; ++row) {
      for (std::int64_t first = 0; first < length_; first += kChunk)
        rows_.Run(row, first, std::min(kChunk, length_ - first));
    }
  }

 private:
  std::vector<HostTensor> in_, out_;
  Walk walk_;
  Rows rows_;
  std::int64_t length_, rows_in_all_;
};

}  // namespace

std::unique_ptr<BoundKernel> BindThreefry(const std::vector<HostTensor>& in, const CounterWord (&words)[2],
                                          const std::vector<HostTensor>& out) {
  const std::int64_t elements = out[0].num_elements();
  if (elements == 0 || elements > kMostBound) return nullptr;
  return std::make_unique<BoundThreefry>(in, words, out);
}

void Threefry(HostContext& context, const std::vector<HostTensor>& in, const CounterWord (&words)[2],
              const std::vector<std::int64_t>& begin, const std::vector<HostTensor>& out) {
  assert(in.size() >= 2 && in.size() <= kMostIn && (out.size() == 1 || out.size() == 2));
  const std::int64_t elements = out[0].num_elements();
  if (elements == 0) return;
  const Walk walk(in, words, begin, out);
  const Rows rows(in, words, walk, out);
  const std::int64_t length = walk.dims.back().extent, chunks = (length + kChunk - 1) / kChunk;
  ParallelFor(context.pool, elements / length * chunks,
              std::max<std::int64_t>(1, 8192 / std::min(length, kChunk)),
              [&](std::int64_t from, std::int64_t to) {
                for (std::int64_t chunk = from; chunk < to; ++chunk) {
                  const std::int64_t first = chunk % chunks * kChunk;
                  rows.Run(chunk / chunks, first, std::min(kChunk, length - first));
                }
              });
}

}  // namespace ipu_model
