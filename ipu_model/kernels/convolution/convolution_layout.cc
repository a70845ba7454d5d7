// Copies that change layout and type. They walk in blocks over the two dimensions that are contiguous in
// source and destination.
#include "kernels/convolution/convolution_layout.h"

#include <algorithm>
#include <complex>
#include <cstdlib>

#include "kernels/convolution/convolution_strip.h"
#include "kernels/copy/convert_rows.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/host/isa.h"

namespace ipu_model {
namespace {

struct Walk {
  int rank = 0;  // number of dimensions outside the block
  std::int64_t shape[kMaxRank], from[kMaxRank], to[kMaxRank];
  std::int64_t n, from_n, to_n;  // the dimension with the smallest stride in `to`
  // The dimension with the smallest stride in `from`; m is 1 if it is the same dimension.
  std::int64_t m, from_m, to_m;
};

constexpr std::int64_t kLongRow = 1024;

Walk PlanWalk(const HostTensor& from, const HostTensor& to) {
  Walk w{};
  int inner = -1, other = -1;
  const auto smaller = [](const HostTensor& t, int d, int best) {
    return t.shape[d] > 1 && (best < 0 || std::abs(t.strides[d]) < std::abs(t.strides[best]));
  };
  for (int d = from.rank - 1; d >= 0; --d) {
    if (smaller(to, d, inner)) inner = d;
    if (smaller(from, d, other)) other = d;
  }
  if (other == inner) other = -1;
  w.n = inner < 0 ? 1 : to.shape[inner];
  w.from_n = inner < 0 ? 0 : from.strides[inner];
  w.to_n = inner < 0 ? 0 : to.strides[inner];
  w.m = other < 0 ? 1 : to.shape[other];
  w.from_m = other < 0 ? 0 : from.strides[other];
  w.to_m = other < 0 ? 0 : to.strides[other];
  // Merge dimensions that continue the innermost one into longer rows, up to a length that leaves enough rows
  // for the workers.
  bool merged[kMaxRank] = {};
  for (int d = from.rank - 1; d >= 0 && other < 0 && w.n < kLongRow; --d) {
    if (d == inner || from.strides[d] != w.n * w.from_n || to.strides[d] != w.n * w.to_n) continue;
    w.n *= to.shape[d];
    merged[d] = true;
  }
  for (int d = 0; d < from.rank; ++d) {
    if (d == inner || d == other || merged[d]) continue;
    w.shape[w.rank] = to.shape[d];
    w.from[w.rank] = from.strides[d];
    w.to[w.rank++] = to.strides[d];
  }
  return w;
}

constexpr std::int64_t kBlock = 16;

// Copies elements of type T.
template <typename T>
struct Identity {
  using From = T;
  using To = T;
  void operator()(const Walk& w, const T* from, T* to, std::int64_t m) const {
    if (m == 1 && w.from_n == 1 && w.to_n == 1) {
      std::copy_n(from, w.n, to);
      return;
    }
    for (std::int64_t i0 = 0; i0 < w.n; i0 += kBlock) {
      const std::int64_t i1 = std::min(i0 + kBlock, w.n);
      for (std::int64_t j = 0; j < m; ++j) {
        for (std::int64_t i = i0; i < i1; ++i) {
          to[i * w.to_n + j * w.to_m] = from[i * w.from_n + j * w.from_m];
        }
      }
    }
  }
};

// Converts elements by `row`.
struct Conversion {
  using From = void;
  using To = void;
  ConvertRow row;
  std::int64_t from_size, to_size;
  void operator()(const Walk& w, const void* from, void* to, std::int64_t m) const {
    const StridedRow from_row{static_cast<std::size_t>(from_size), w.from_n};
    const StridedRow to_row{static_cast<std::size_t>(to_size), w.to_n};
    const auto* in = static_cast<const unsigned char*>(from);
    auto* out = static_cast<unsigned char*>(to);
    const std::int64_t step = m == 1 ? w.n : kBlock;
    for (std::int64_t i = 0; i < w.n; i += step) {
      for (std::int64_t j = 0; j < m; ++j) {
        ConvertStrided(row, in + (i * w.from_n + j * w.from_m) * from_size, from_row,
                       out + (i * w.to_n + j * w.to_m) * to_size, to_row, std::min(step, w.n - i));
      }
    }
  }
};

// Calls copy(walk, from, to, m) for every block of the walk.
template <typename Copy>
void CopyBlocks(ThreadPool& pool, const HostTensor& from, const HostTensor& to, const Copy& copy) {
  if (to.num_elements() == 0) return;
  const Walk w = PlanWalk(from, to);
  const std::int64_t blocks = (w.m + kBlock - 1) / kBlock;
  std::int64_t outer = blocks;
  for (int d = 0; d < w.rank; ++d) outer *= w.shape[d];
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (w.n * std::min(w.m, kBlock)));
  const auto from_size = static_cast<std::int64_t>(SizeOf(from.type));
  const auto to_size = static_cast<std::int64_t>(SizeOf(to.type));
  ParallelFor(pool, outer, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t j = i % blocks * kBlock;
      std::int64_t rest = i / blocks;
      std::int64_t f = j * w.from_m, t = j * w.to_m;
      for (int d = w.rank - 1; d >= 0; --d) {
        f += rest % w.shape[d] * w.from[d];
        t += rest % w.shape[d] * w.to[d];
        rest /= w.shape[d];
      }
      const void* source = from.as<const unsigned char>() + f * from_size;
      void* target = to.as<unsigned char>() + t * to_size;
      copy(w, static_cast<const typename Copy::From*>(source), static_cast<typename Copy::To*>(target),
           std::min(kBlock, w.m - j));
    }
  });
}

void HalfRow(const void* from, void* to, std::int64_t n) {
  JAX_IPU_FOR_ISA(HalfToFloat)(static_cast<const std::uint16_t*>(from), static_cast<float*>(to), n);
}
void RowToHalf(const void* from, void* to, std::int64_t n) {
  JAX_IPU_FOR_ISA(FloatToHalf)(static_cast<const float*>(from), static_cast<std::uint16_t*>(to), n);
}

// The type of sums that has the same low bits: integers wrap.
DType SumOf(DType type) {
  return type == DType::kS32 ? DType::kU32 : type == DType::kS64 ? DType::kU64 : type;
}

// Null if neither type is one of sums.
ConvertRow RowBetween(DType from, DType to) {
  if (from == DType::kF16 && to == DType::kF32) return HalfRow;
  if (from == DType::kF32 && to == DType::kF16) return RowToHalf;
  const ConvertRow load = RowToSums(from, SumOf(to));
  return load != nullptr ? load : RowFromSums(SumOf(from), to);
}

}  // namespace

void CopyConvert(ThreadPool& pool, const HostTensor& from, const HostTensor& to) {
  const auto size = static_cast<std::int64_t>(SizeOf(from.type));
  if (from.type != to.type) {
    const ConvertRow row = RowBetween(from.type, to.type);
    if (row == nullptr) std::abort();  // rejected when the operation was created
    return CopyBlocks(pool, from, to, Conversion{row, size, static_cast<std::int64_t>(SizeOf(to.type))});
  }
  switch (size) {
    case 1:
      return CopyBlocks(pool, from, to, Identity<std::uint8_t>{});
    case 2:
      return CopyBlocks(pool, from, to, Identity<std::uint16_t>{});
    case 4:
      return CopyBlocks(pool, from, to, Identity<std::uint32_t>{});
    case 8:
      return CopyBlocks(pool, from, to, Identity<std::uint64_t>{});
    default:
      return CopyBlocks(pool, from, to, Identity<std::complex<double>>{});
  }
}

HostTensor DenseTensor(HostContext& context, const HostTensor& like, DType type, const int* order) {
  HostTensor dense = like;
  dense.type = type;
  const auto elements = static_cast<std::size_t>(SetDenseStrides(&dense, order));
  dense.data = context.scratch.Allocate(elements * SizeOf(type));
  return dense;
}

HostTensor DenseCopy(HostContext& context, const HostTensor& from, DType type, const int* order) {
  const HostTensor dense = DenseTensor(context, from, type, order);
  CopyConvert(context.pool, from, dense);
  return dense;
}

}  // namespace ipu_model
