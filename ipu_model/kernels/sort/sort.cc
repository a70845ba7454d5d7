// Sorts by recognised keys (radix sort) or by a general comparator (merge sort that compares in batches).
#include "kernels/sort/sort.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "kernels/copy/strided_copy.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/sort/merger.h"
#include "kernels/sort/radix_sort.h"

namespace ipu_model {
namespace {

// If there are few rows, rows longer than this are sorted by all threads together.
constexpr std::int64_t kSharedRow = 48 << 10;

struct Bytes16 {
  std::uint64_t low, high;
};

template <typename T, typename Position>
void PermuteAs(std::int64_t begin, std::int64_t end, const void* from, void* to, Position position) {
  const T* f = static_cast<const T*>(from);
  T* t = static_cast<T*>(to);
  for (std::int64_t i = begin; i < end; ++i) t[i] = f[position(i)];
}

// to[i] = from[position(i)] for elements of `size` bytes.
template <typename Position>
void Permute(ThreadPool* pool, std::size_t size, std::int64_t n, const void* from, void* to,
             Position position) {
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    switch (size) {
      case 1:
        return PermuteAs<std::uint8_t>(begin, end, from, to, position);
      case 2:
        return PermuteAs<std::uint16_t>(begin, end, from, to, position);
      case 4:
        return PermuteAs<std::uint32_t>(begin, end, from, to, position);
      case 8:
        return PermuteAs<std::uint64_t>(begin, end, from, to, position);
      default:
        return PermuteAs<Bytes16>(begin, end, from, to, position);
    }
  };
  if (pool == nullptr) {
    run(0, n);
  } else {
    ParallelFor(*pool, n, 4096, run);
  }
}

template <typename S>
void PackPayload(std::int64_t n, const void* payload, std::uint64_t* records) {
  const S* p = static_cast<const S*>(payload);
  for (std::int64_t i = 0; i < n; ++i) records[i] = records[i] << 32 | p[i];
}
template <typename S>
void UnpackPayload(std::int64_t n, const std::uint64_t* records, void* payload) {
  S* p = static_cast<S*>(payload);
  for (std::int64_t i = 0; i < n; ++i) p[i] = static_cast<S>(records[i]);
}

// Returns the tensor with dimension `dim` last, as contiguous rows to sort.
HostTensor DimLast(const HostTensor& t, int dim) {
  HostTensor moved = t;
  for (int d = dim; d + 1 < t.rank; ++d) {
    moved.shape[d] = t.shape[d + 1];
    moved.strides[d] = t.strides[d + 1];
  }
  moved.shape[t.rank - 1] = t.shape[dim];
  moved.strides[t.rank - 1] = t.strides[dim];
  return moved;
}

// less(a, b) or (not less(b, a) and position_a < position_b).
Expression WithTieBreak(const Expression& comparator) {
  Expression e;
  e.inputs = comparator.inputs;
  e.inputs.push_back(DType::kU32);
  e.inputs.push_back(DType::kU32);
  e.constants = comparator.constants;
  const std::size_t inputs = comparator.inputs.size(), constants = comparator.constants.size();
  const std::size_t first = e.inputs.size() + constants;
  // Appends the comparator's code, with a and b swapped if `swapped`; returns the register of its result.
  const auto append = [&](bool swapped) {
    const std::size_t base = first + e.code.size();
    const auto place = [&](std::uint16_t reg) {
      if (reg < inputs) return static_cast<std::uint16_t>(swapped ? reg ^ 1 : reg);
      if (reg < inputs + constants) return static_cast<std::uint16_t>(reg + 2);
      return static_cast<std::uint16_t>(reg - inputs - constants + base);
    };
    for (Instruction code : comparator.code) {
      for (std::uint16_t& reg : code.operand) reg = place(reg);
      e.code.push_back(code);
    }
    return place(comparator.outputs[0]);
  };
  const auto logical = [&](ScalarOp op, DType type, std::size_t a, std::size_t b) {
    Instruction code;
    code.op = op;
    code.operand_type = type;
    code.result_type = DType::kPred;
    code.operand[0] = static_cast<std::uint16_t>(a);
    code.operand[1] = static_cast<std::uint16_t>(b);
    e.code.push_back(code);
    return first + e.code.size() - 1;
  };
  const std::size_t less = append(false), greater = append(true);
  const std::size_t tie = logical(ScalarOp::kNot, DType::kPred, greater, 0);
  const std::size_t earlier = logical(ScalarOp::kLt, DType::kU32, inputs, inputs + 1);
  const std::size_t both = logical(ScalarOp::kAnd, DType::kPred, tie, earlier);
  e.outputs = {static_cast<std::uint16_t>(logical(ScalarOp::kOr, DType::kPred, less, both))};
  return e;
}

}  // namespace

// The dense rows of every operand.
struct SortKernel::Rows {
  std::int64_t count = 0, length = 0;
  std::vector<const char*> in;
  std::vector<char*> out;
  std::vector<std::size_t> size;

  const char* In(std::size_t operand, std::int64_t row) const {
    return in[operand] + row * length * static_cast<std::int64_t>(size[operand]);
  }
  char* Out(std::size_t operand, std::int64_t row) const {
    return out[operand] + row * length * static_cast<std::int64_t>(size[operand]);
  }
};

struct SortKernel::Workspace {
  std::uint64_t *records, *buffer, *keys;
};

SortKernel::SortKernel(const Expression& comparator, bool tie_break)
    : num_operands_(comparator.inputs.size() / 2 + (tie_break ? 1 : 0)) {
  if (std::optional<std::vector<SortKey>> keys = RecogniseKeys(comparator)) {
    if (tie_break) {
      SortKey position;
      position.operand = static_cast<int>(num_operands_) - 1;
      position.type = DType::kU32;
      keys->push_back(position);
    }
    single_key_ = keys->size() == 1;
    for (const SortKey& key : *keys) {
      if (key.bits() == 64) {
        parts_.push_back({key, 32, 32});
        parts_.push_back({key, 0, 32});
      } else {
        parts_.push_back({key, 0, key.bits()});
      }
    }
    return;
  }
  const Expression less = tie_break ? WithTieBreak(comparator) : comparator;
  inputs_ = less.inputs;
  used_.assign(inputs_.size(), false);
  const auto use = [&](std::uint16_t reg) {
    if (reg < used_.size()) used_[reg] = true;
  };
  for (const Instruction& code : less.code) {
    for (const std::uint16_t reg : code.operand) use(reg);
  }
  for (const std::uint16_t reg : less.outputs) use(reg);
  less_ = std::make_unique<ElementwiseKernel>(less);
}

void SortKernel::Run(HostContext& context, int dim, const std::vector<HostTensor>& in,
                     const std::vector<HostTensor>& out) const {
  const std::int64_t elements = in[0].num_elements();
  if (elements == 0) return;
  Rows rows;
  rows.length = in[0].shape[dim];
  rows.count = elements / rows.length;
  if (rows.length > std::int64_t{0xffffffff})
    throw std::invalid_argument("sort: more than 2^32 - 1 elements");
  // Operands whose rows are not contiguous are copied to and from dense rows.
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::size_t size = SizeOf(in[i].type), bytes = static_cast<std::size_t>(elements) * size;
    rows.size.push_back(size);
    const HostTensor source = DimLast(in[i], dim);
    void* data = source.data;
    if (!IsDense(source) || data == out[i].data) {
      data = context.scratch.Allocate(bytes);
      CopyTensor(context, source, DenseLike(source, data));
    }
    rows.in.push_back(static_cast<const char*>(data));
    const HostTensor target = DimLast(out[i], dim);
    rows.out.push_back(static_cast<char*>(IsDense(target) ? target.data : context.scratch.Allocate(bytes)));
  }
  if (by_keys()) {
    const bool shared = rows.length >= kSharedRow && rows.count < 2 * context.pool.size();
    const std::int64_t grain = shared ? rows.count : std::max<std::int64_t>(1, 2048 / rows.length);
    const std::int64_t grains = (rows.count + grain - 1) / grain;
    const int workers = static_cast<int>(std::min<std::int64_t>(grains, context.pool.size()));
    // Per worker: records, a buffer, and, if there are several parts, the keys of one part.
    const std::size_t n = static_cast<std::size_t>(rows.length);
    const std::size_t per_worker = (parts_.size() > 1 ? 3 : 2) * n + 16;
    std::uint64_t* memory =
        context.scratch.Allocate<std::uint64_t>(per_worker * static_cast<std::size_t>(workers));
    auto task = [&](int w) {
      std::uint64_t* base = memory + per_worker * static_cast<std::size_t>(w);
      const Workspace work{base, base + n, base + 2 * n};
      const std::int64_t end = std::min(rows.count, grains * (w + 1) / workers * grain);
      for (std::int64_t row = grains * w / workers * grain; row < end; ++row) {
        SortRow(shared ? &context.pool : nullptr, rows, row, work);
      }
    };
    if (workers > 1) {
      context.pool.Run(workers, TaskRef(task));
    } else {
      task(0);
    }
  } else {
    std::uint32_t* order = context.scratch.Allocate<std::uint32_t>(static_cast<std::size_t>(elements));
    std::uint32_t* other = context.scratch.Allocate<std::uint32_t>(static_cast<std::size_t>(elements));
    MergeSort(context, rows, order, other);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const HostTensor target = DimLast(out[i], dim);
    if (rows.out[i] != target.data) CopyTensor(context, DenseLike(target, rows.out[i]), target);
  }
}

namespace {

// Sorts keys that ascend but for some that are all the largest one, as masked positions are, or that ascend
// as they are. Returns where the sorted keys are, or null for others, which are left as they were. Overwrites
// `buffer`.
template <typename K>
K* SortAscending(K* keys, K* buffer, std::int64_t n) {
  std::int64_t first = 1;
  while (first < n && keys[first - 1] <= keys[first]) ++first;
  if (first >= n) return keys;
  const K largest = keys[first - 1];
  std::int64_t kept = first;
  while (kept > 0 && keys[kept - 1] == largest) --kept;
  std::copy_n(keys, kept, buffer);
  constexpr std::int64_t kBlock = 512;
  for (std::int64_t begin = first; begin < n; begin += kBlock) {
    const std::int64_t end = std::min(n, begin + kBlock), before = std::max<std::int64_t>(1, kept);
    unsigned larger = 0, descents = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      buffer[kept] = keys[i];
      kept += keys[i] != largest ? 1 : 0;
    }
    for (std::int64_t i = begin; i < end; ++i) larger |= keys[i] > largest;
    for (std::int64_t k = before; k < kept; ++k) descents |= buffer[k - 1] > buffer[k];
    if ((larger | descents) != 0) return nullptr;
  }
  std::fill_n(buffer + kept, n - kept, largest);
  return buffer;
}

template <typename K>
K* SortKeys(ThreadPool* pool, K* keys, K* buffer, std::int64_t n, int bits) {
  K* sorted = SortAscending(keys, buffer, n);
  return sorted != nullptr ? sorted : RadixSort(pool, keys, buffer, n, 0, bits);
}

}  // namespace

// Sorts one operand whose elements are determined by their keys, without positions. Returns false if they are
// not.
bool SortKernel::SortPlainKeys(ThreadPool* pool, const Rows& rows, std::int64_t row,
                               const Workspace& work) const {
  const SortKey& key = parts_[0].key;
  if (rows.in.size() != 1 || !single_key_ || key.part != SortKey::Part::kWhole) return false;
  const std::int64_t n = rows.length;
  if (key.bits() == 64) {
    if (EncodeKeys(key, rows.In(0, row), 1, n, work.records)) return false;
    DecodeKeys(key, SortKeys(pool, work.records, work.buffer, n, 64), n, rows.Out(0, row));
    return true;
  }
  std::uint32_t* records = reinterpret_cast<std::uint32_t*>(work.records);
  std::uint32_t* buffer = reinterpret_cast<std::uint32_t*>(work.buffer);
  if (EncodeKeys(key, rows.In(0, row), 1, n, records)) return false;
  DecodeKeys(key, SortKeys(pool, records, buffer, n, key.bits()), n, rows.Out(0, row));
  return true;
}

void SortKernel::SortRow(ThreadPool* pool, const Rows& rows, std::int64_t row, const Workspace& work) const {
  if (SortPlainKeys(pool, rows, row, work)) return;
  const std::int64_t n = rows.length;
  const bool single = parts_.size() == 1;
  const SortKey& first = parts_[0].key;
  const std::size_t key_operand = static_cast<std::size_t>(first.operand);
  std::uint64_t *records = work.records, *buffer = work.buffer;
  bool decodable = false, carried = false;
  for (std::size_t p = parts_.size(); p-- > 0;) {
    const KeyPart& part = parts_[p];
    const char* data = rows.In(static_cast<std::size_t>(part.key.operand), row);
    if (p + 1 == parts_.size()) {
      const bool lossy = EncodeKeys(part.key, data, 1, n, records);
      decodable = single && !lossy && first.part == SortKey::Part::kWhole;
      // One small payload is stored in the record instead of the position.
      carried = decodable && rows.in.size() == 2 && rows.size[1 - key_operand] <= 4;
      if (carried) {
        const char* payload = rows.In(1 - key_operand, row);
        switch (rows.size[1 - key_operand]) {
          case 1:
            PackPayload<std::uint8_t>(n, payload, records);
            break;
          case 2:
            PackPayload<std::uint16_t>(n, payload, records);
            break;
          default:
            PackPayload<std::uint32_t>(n, payload, records);
            break;
        }
      } else {
        for (std::int64_t i = 0; i < n; ++i) {
          records[i] = (records[i] >> part.shift) << 32 | static_cast<std::uint64_t>(i);
        }
      }
    } else {
      EncodeKeys(part.key, data, 1, n, work.keys);
      for (std::int64_t i = 0; i < n; ++i) {
        const std::uint64_t position = records[i] & 0xffffffffu;
        records[i] = (work.keys[position] >> part.shift) << 32 | position;
      }
    }
    std::uint64_t* sorted = RadixSort(pool, records, buffer, n, 32, 32 + part.bits);
    if (sorted != records) std::swap(records, buffer);
  }
  for (std::size_t i = 0; i < rows.in.size(); ++i) {
    char* out = rows.Out(i, row);
    if (decodable && i == key_operand) {
      for (std::int64_t e = 0; e < n; ++e) buffer[e] = records[e] >> 32;
      DecodeKeys(first, buffer, n, out);
    } else if (carried) {
      switch (rows.size[i]) {
        case 1:
          UnpackPayload<std::uint8_t>(n, records, out);
          break;
        case 2:
          UnpackPayload<std::uint16_t>(n, records, out);
          break;
        default:
          UnpackPayload<std::uint32_t>(n, records, out);
          break;
      }
    } else {
      Permute(pool, rows.size[i], n, rows.In(i, row), out,
              [records](std::int64_t e) { return records[e] & 0xffffffffu; });
    }
  }
}

// Bottom-up merge sort of all rows at once. When few sorted parts are left, each merge is cut into segments
// whose boundaries are found by binary search on the diagonal (merge path).
void SortKernel::MergeSort(HostContext& context, const Rows& rows, std::uint32_t* order,
                           std::uint32_t* other) const {
  const std::int64_t n = rows.length, total = rows.count * n;
  std::vector<HostTensor> in(2 * num_operands_), out(1);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::size_t bytes = kMergeLanes * rows.size[i / 2];
    void* data = context.scratch.Allocate(bytes);
    std::memset(data, 0, bytes);
    in[i] = DenseVector(inputs_[i], kMergeLanes, data);
  }
  std::uint8_t* goes_first = context.scratch.Allocate<std::uint8_t>(kMergeLanes);
  out[0] = DenseVector(DType::kPred, kMergeLanes, goes_first);

  Comparisons compared;
  compared.goes_first = goes_first;
  const auto compare = [&](std::int64_t count) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      in[i].shape[0] = count;
      if (!used_[i]) continue;
      const std::int64_t* element = i % 2 == 0 ? compared.x : compared.y;
      Permute(nullptr, rows.size[i / 2], count, rows.in[i / 2], in[i].data,
              [element](std::int64_t k) { return element[k]; });
    }
    out[0].shape[0] = count;
    less_->Run(context, in, out);
  };

  for (std::int64_t e = 0; e < total; ++e) order[e] = static_cast<std::uint32_t>(e % n);

  for (std::int64_t width = 1; width < n; width *= 2) {
    Merger merger(n, order, other, compared, compare);
    const std::int64_t segment = std::max<std::int64_t>(32, (total + kMergeLanes - 1) / kMergeLanes);
    for (std::int64_t row = 0; row < rows.count; ++row) {
      for (std::int64_t left = 0; left < n; left += 2 * width) {
        const std::int64_t middle = std::min(left + width, n), end = std::min(left + 2 * width, n);
        for (std::int64_t to = left; to < end; to += segment)
          merger.Add(row, left, middle, end, to, std::min(to + segment, end));
      }
    }
    merger.Flush();
    std::swap(order, other);
  }
  for (std::size_t i = 0; i < rows.in.size(); ++i) {
    ParallelFor(context.pool, rows.count, std::max<std::int64_t>(1, 4096 / n),
                [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t row = begin; row < end; ++row) {
                    Permute(nullptr, rows.size[i], n, rows.In(i, row), rows.Out(i, row),
                            [=](std::int64_t e) { return order[row * n + e]; });
                  }
                });
  }
}

}  // namespace ipu_model
