// Recognises comparators that order by keys, and encodes the keys as unsigned integers of the same order.
#ifndef IPU_MODEL_KERNELS_SORT_SORT_KEY_H_
#define IPU_MODEL_KERNELS_SORT_SORT_KEY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ipu_model/Types.hpp"
#include "kernels/elementwise/program/expression.h"

namespace ipu_model {

// One key of a lexicographic order.
struct SortKey {
  enum class Part : std::uint8_t { kWhole, kReal, kImaginary };

  int operand = 0;
  Part part = Part::kWhole;
  DType type = DType::kF32;  // of the part
  bool descending = false;
  bool equal_zeros = false;  // -0 equals +0, as do denormals that compare as zero
  bool equal_nans = false;   // all NaN are equal and above infinity

  // Returns the number of bits of the encoded key: 8, 16, 32 or 64.
  int bits() const { return 8 * static_cast<int>(SizeOf(type)); }
  // Whether different elements may have equal keys.
  bool lossy() const { return equal_zeros || equal_nans; }
};

// Returns the keys, most significant first, if `comparator` (inputs a_0, b_0, a_1, b_1, ...) is exactly a
// lexicographic comparison: kLt, kGt or kTotalLt of operands (or parts of complex ones), possibly with JAX's
// canonical zeros and NaNs, joined as `less(k) or (equal(k) and rest)`. A plain kLt on floats is not an order
// if there are NaNs; the result may then place them anywhere, and they go last.
std::optional<std::vector<SortKey>> RecogniseKeys(const Expression& comparator);

// keys[i] = the key of element i for i in [0, n), with `stride` in elements. Keys of 64-bit types need
// K = uint64_t. Returns true if two elements may have the same key but different bits (only for lossy keys).
template <typename K>
bool EncodeKeys(const SortKey& key, const void* data, std::int64_t stride, std::int64_t n, K* keys);

// Writes the elements with the given keys: exact for keys that are not lossy, otherwise canonical zeros and
// NaNs. Not for integers of less than a byte.
template <typename K>
void DecodeKeys(const SortKey& key, const K* keys, std::int64_t n, void* data);

}  // namespace ipu_model

#endif  // IPU_MODEL_KERNELS_SORT_SORT_KEY_H_
