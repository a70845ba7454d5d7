// Top-k by a threshold scan: once k candidates are known, most blocks of 256 elements are rejected by one
// comparison with the smallest candidate.
#include "kernels/sort/top_k.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels/host/isa.h"
#include "kernels/sort/sort_key.h"
#include "kernels/sort/sort_loops.h"

namespace ipu_model {
namespace {

constexpr std::int64_t kBlock = 256;
// So few candidates are kept in order, one by one.
constexpr std::int64_t kFew = 16;
constexpr std::int64_t kSharedRow = 64 << 10;

// The greater candidate is better: it has the larger key, or the same key and the lower position.
struct Candidate32 {
  using Key = std::uint32_t;
  std::uint64_t value;
  Candidate32() = default;
  Candidate32(Key key, std::uint32_t position) : value(std::uint64_t{key} << 32 | ~position) {}
  Key key() const { return static_cast<Key>(value >> 32); }
  std::uint32_t position() const { return ~static_cast<std::uint32_t>(value); }
  friend bool operator>(const Candidate32& a, const Candidate32& b) { return a.value > b.value; }
};
struct Candidate64 {
  using Key = std::uint64_t;
  Key key_;
  std::uint32_t position_;
  Candidate64() = default;
  Candidate64(Key key, std::uint32_t position) : key_(key), position_(position) {}
  Key key() const { return key_; }
  std::uint32_t position() const { return position_; }
  friend bool operator>(const Candidate64& a, const Candidate64& b) {
    return a.key_ != b.key_ ? a.key_ > b.key_ : a.position_ < b.position_;
  }
};

template <typename C>
bool Better(const C& a, const C& b) {
  return a > b;
}

std::int64_t Capacity(std::int64_t k) { return 2 * k + 2 * kBlock; }

// Writes the k best of the elements [begin, end) of a row, in any order, to `best`, which has room for
// Capacity(k) candidates. Returns their number.
template <typename C>
std::int64_t Scan(const SortKey& key, const char* row, std::int64_t stride, std::int64_t begin,
                  std::int64_t end, std::int64_t k, C* best) {
  using Key = typename C::Key;
  const std::int64_t bytes = stride * static_cast<std::int64_t>(SizeOf(key.type));
  std::int64_t count = 0;
  bool full = false;
  Key threshold = 0;
  Key keys[kBlock];
  const auto shrink = [&] {
    if (count <= k) return;
    std::nth_element(best, best + (k - 1), best + count, Better<C>);
    count = k;
    threshold = best[k - 1].key();
    full = true;
  };
  const auto insert = [&](const C& candidate) {
    std::int64_t at = full ? k - 1 : count++;
    for (; at > 0 && candidate > best[at - 1]; --at) best[at] = best[at - 1];
    best[at] = candidate;
    full = count == k;
    if (full) threshold = best[k - 1].key();
  };
  for (std::int64_t i = begin; i < end; i += kBlock) {
    const std::int64_t n = std::min(kBlock, end - i);
    EncodeKeys(key, row + i * bytes, stride, n, keys);
    if (full) {
      // A later element with an equal key is worse, because its position is higher.
      const Key largest = JAX_IPU_FOR_ISA(LargestKey(keys, n));
      if (largest <= threshold) continue;
    }
    if (k <= kFew) {
      for (std::int64_t e = 0; e < n; ++e)
        if (!full || keys[e] > threshold) insert(C(keys[e], static_cast<std::uint32_t>(i + e)));
      continue;
    }
    for (std::int64_t e = 0; e < n; ++e) {
      if (!full || keys[e] > threshold) best[count++] = C(keys[e], static_cast<std::uint32_t>(i + e));
    }
    if (!full || count > Capacity(k) - kBlock) shrink();
  }
  shrink();
  return count;
}

template <typename C>
void TopKAs(HostContext& context, const SortKey& key, const HostTensor& operand, const HostTensor& values,
            const HostTensor& indices) {
  const int last = operand.rank - 1;
  const std::int64_t n = operand.shape[last], k = values.shape[last];
  const std::int64_t rows = values.num_elements() / k;
  const std::int64_t size = static_cast<std::int64_t>(SizeOf(operand.type));
  // Few long rows are cut into parts, whose candidates are merged afterwards.
  const std::int64_t workers = context.pool.size();
  const std::int64_t parts = rows < workers && n >= kSharedRow && n >= 8 * k * workers ? workers : 1;
  const std::int64_t capacity = Capacity(k);
  const std::int64_t tasks = rows * parts;
  const bool serial = operand.num_elements() < (16 << 10) || tasks == 1;
  // With one part, each worker needs one candidate buffer; with several, every part needs its own.
  const std::int64_t runs = serial ? 1 : std::min<std::int64_t>(workers, tasks);
  const std::int64_t slots = parts > 1 ? tasks : runs;
  C* memory = context.scratch.Allocate<C>(static_cast<std::size_t>(slots * capacity));
  std::int64_t* counts = context.scratch.Allocate<std::int64_t>(static_cast<std::size_t>(tasks));

  const auto offset = [&](const HostTensor& t, std::int64_t row) {
    std::int64_t at = 0;
    for (int d = last - 1; d >= 0; --d) {
      at += row % t.shape[d] * t.strides[d];
      row /= t.shape[d];
    }
    return at;
  };
  const auto store = [&](std::int64_t row, C* best, std::int64_t count) {
    if (count > k) std::nth_element(best, best + (k - 1), best + count, Better<C>);
    std::sort(best, best + k, Better<C>);
    const char* from = operand.as<char>() + offset(operand, row) * size;
    char* to = values.as<char>() + offset(values, row) * size;
    std::int32_t* index = indices.as<std::int32_t>() + offset(indices, row);
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t position = best[i].position();
      std::memcpy(to + i * values.strides[last] * size, from + position * operand.strides[last] * size,
                  static_cast<std::size_t>(size));
      index[i * indices.strides[last]] = static_cast<std::int32_t>(position);
    }
  };
  const auto run = [&](std::int64_t task, C* best) {
    const std::int64_t row = task / parts, part = task % parts;
    const char* from = operand.as<char>() + offset(operand, row) * size;
    counts[task] = Scan(key, from, operand.strides[last], n * part / parts, n * (part + 1) / parts, k, best);
    if (parts == 1) store(row, best, counts[task]);
  };
  auto worker = [&](int w) {
    for (std::int64_t task = tasks * w / runs; task < tasks * (w + 1) / runs; ++task) {
      run(task, memory + (parts > 1 ? task : w) * capacity);
    }
  };
  if (serial) {
    worker(0);
  } else {
    context.pool.Run(static_cast<int>(runs), TaskRef(worker));
  }
  for (std::int64_t row = 0; parts > 1 && row < rows; ++row) {
    C* best = memory + row * parts * capacity;
    std::int64_t count = counts[row * parts];
    for (std::int64_t part = 1; part < parts; ++part) {
      const C* more = memory + (row * parts + part) * capacity;
      const std::int64_t added = counts[row * parts + part];
      std::copy(more, more + added, best + count);
      count += added;
      if (count <= k) continue;
      std::nth_element(best, best + (k - 1), best + count, Better<C>);
      count = k;
    }
    store(row, best, count);
  }
}

}  // namespace

bool TopKSupports(DType type) {
  return IsInteger(type) || type == DType::kPred || type == DType::kF16 || type == DType::kBF16 ||
         type == DType::kF32 || type == DType::kF64;
}

void TopK(HostContext& context, bool largest, const HostTensor& operand, const HostTensor& values,
          const HostTensor& indices) {
  if (values.num_elements() == 0) return;
  if (!TopKSupports(operand.type)) {
    throw std::invalid_argument(std::string("top_k of ") + NameOf(operand.type));
  }
  SortKey key;
  key.type = operand.type;
  key.descending = !largest;
  if (SizeOf(operand.type) <= 4) {
    TopKAs<Candidate32>(context, key, operand, values, indices);
  } else {
    TopKAs<Candidate64>(context, key, operand, values, indices);
  }
}

}  // namespace ipu_model
