// Products of a small matrix and a long one of which both are at most four elements thin, as of a rotation
// and many points: every vector holds one coordinate of several points.
#include <type_traits>

#include "kernels/product/thin.h"
#include "kernels/vector/shuffle.h"
#include "kernels/vector/vector_types.h"

namespace ipu_model {
namespace ISA_NAMESPACE {
namespace {

// Columns below which other kernels are as fast, and elements of B from which a second worker pays.
constexpr std::int64_t kFewestColumns = 64, kParallelElements = 16 << 10;

template <typename T>
using Vector = typename VectorTypes<T>::Register;
template <typename T>
using Memory = typename VectorTypes<T>::Memory;
template <typename T>
struct Order {
  using Index = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  typedef Index Type __attribute__((vector_size(kVectorBytes)));
};

// parts[c][l] = from[l * kParts + c]: the coordinates of kLanes points.
template <typename T, int kParts>
[[gnu::always_inline]] inline void Split(const T* from, Vector<T> (&parts)[kParts]) {
  constexpr int kN = kLanes<T>;
  Vector<T> loaded[kParts];
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) loaded[i] = *reinterpret_cast<const Memory<T>*>(from + i * kN);
#pragma GCC unroll 4
  for (int c = 0; c < kParts; ++c) {
    Vector<T> part = loaded[0];
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) {
      typename Order<T>::Type order{};
#pragma GCC unroll 16
      for (int l = 0; l < kN; ++l) {
        const int place = l * kParts + c;
        order[l] = place / kN == i ? (i == 0 ? place : kN + place % kN) : l;
      }
      part = Shuffle(part, loaded[i], order);
    }
    parts[c] = part;
  }
}

// The inverse: to[l * kParts + c] = parts[c][l].
template <typename T, int kParts>
[[gnu::always_inline]] inline void Join(const Vector<T> (&parts)[kParts], T* to) {
  constexpr int kN = kLanes<T>;
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) {
    Vector<T> joined = parts[0];
#pragma GCC unroll 4
    for (int c = 0; c < kParts; ++c) {
      typename Order<T>::Type order{};
#pragma GCC unroll 16
      for (int l = 0; l < kN; ++l) {
        const int place = i * kN + l;
        order[l] = place % kParts == c ? (c == 0 ? 0 : kN) + place / kParts : l;
      }
      joined = Shuffle(joined, parts[c], order);
    }
    *reinterpret_cast<Memory<T>*>(to + i * kN) = joined;
  }
}

template <typename T, int kM, int kK>
void Run(HostContext& context, const GemmProblem& p) {
  const bool b_joined = p.b.row == 1 && p.b.column == kK, c_joined = p.c.row == 1 && p.c.column == kM;
  for (std::int64_t g = 0; g < p.groups; ++g) {
    const T* const a = static_cast<const T*>(p.a.data) + g * p.a.group;
    const T* const b = static_cast<const T*>(p.b.data) + g * p.b.group;
    T* const c = static_cast<T*>(const_cast<void*>(p.c.data)) + g * p.c.group;
    T factors[kM][kK];
    for (int r = 0; r < kM; ++r) {
      for (int i = 0; i < kK; ++i) factors[r][i] = a[r * p.a.row + i * p.a.column];
    }
    const auto columns = [&](std::int64_t begin, std::int64_t end) {
      std::int64_t j = begin;
      for (; j + kLanes<T> <= end; j += kLanes<T>) {
        Vector<T> in[kK], out[kM];
        if (b_joined) {
          Split<T, kK>(b + j * kK, in);
        } else {
#pragma GCC unroll 4
          for (int i = 0; i < kK; ++i) in[i] = *reinterpret_cast<const Memory<T>*>(b + i * p.b.row + j);
        }
#pragma GCC unroll 4
        for (int r = 0; r < kM; ++r) {
          out[r] = Vector<T>{};
#pragma GCC unroll 4
          for (int i = 0; i < kK; ++i) out[r] += in[i] * factors[r][i];
        }
        if (c_joined) {
          Join<T, kM>(out, c + j * kM);
        } else {
#pragma GCC unroll 4
          for (int r = 0; r < kM; ++r) *reinterpret_cast<Memory<T>*>(c + r * p.c.row + j) = out[r];
        }
      }
      for (; j < end; ++j) {
        for (int r = 0; r < kM; ++r) {
          T sum{};
          for (int i = 0; i < kK; ++i) sum += b[i * p.b.row + j * p.b.column] * factors[r][i];
          c[r * p.c.row + j * p.c.column] = sum;
        }
      }
    };
    if (p.n * kK < kParallelElements) {
      columns(0, p.n);
    } else {
      ParallelFor(context.pool, p.n, kFewestColumns, columns, /*pieces_per_worker=*/1);
    }
  }
}

template <typename T, int kM>
void RunDepth(HostContext& context, const GemmProblem& p) {
  switch (p.k) {
    case 1:
      return Run<T, kM, 1>(context, p);
    case 2:
      return Run<T, kM, 2>(context, p);
    case 3:
      return Run<T, kM, 3>(context, p);
    default:
      return Run<T, kM, 4>(context, p);
  }
}

template <typename T>
void RunRows(HostContext& context, const GemmProblem& p) {
  switch (p.m) {
    case 1:
      return RunDepth<T, 1>(context, p);
    case 2:
      return RunDepth<T, 2>(context, p);
    case 3:
      return RunDepth<T, 3>(context, p);
    default:
      return RunDepth<T, 4>(context, p);
  }
}

}  // namespace

bool RunThin(HostContext& context, const GemmProblem& p) {
  if (p.m > kMostThin || p.k > kMostThin || p.n < kFewestColumns || p.half_step > 0) return false;
  const bool b_joined = p.b.row == 1 && p.b.column == p.k, c_joined = p.c.row == 1 && p.c.column == p.m;
  if ((!b_joined && p.b.column != 1) || (!c_joined && p.c.column != 1)) return false;
  const DType type = p.accumulator;
  if (p.a.type != type || p.b.type != type || p.c.type != type) return false;
  if (type == DType::kF32) {
    RunRows<float>(context, p);
    return true;
  }
  if (type == DType::kF64) {
    RunRows<double>(context, p);
    return true;
  }
  return false;
}

}  // namespace ISA_NAMESPACE
}  // namespace ipu_model
