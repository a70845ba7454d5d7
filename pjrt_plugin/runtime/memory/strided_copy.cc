// Strided copy: merges dimensions, then copies segments, or square blocks when the two sides order dimensions
// differently.
#include "runtime/memory/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace jax_ipu {
namespace {

struct Dimension {
  std::int64_t size, to, from;
};

// Dimensions sorted by descending destination stride; adjacent dimensions that are contiguous on both sides
// are merged.
std::vector<Dimension> Normalise(const std::vector<std::int64_t>& shape, const Strides& to,
                                 const Strides& from) {
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) dimensions.push_back({shape[i], to[i], from[i]});
  }
  std::stable_sort(dimensions.begin(), dimensions.end(),
                   [](const Dimension& a, const Dimension& b) { return std::abs(a.to) > std::abs(b.to); });
  std::vector<Dimension> merged;
  for (const Dimension& d : dimensions) {
    if (!merged.empty() && merged.back().to == d.to * d.size && merged.back().from == d.from * d.size) {
      merged.back() = {merged.back().size * d.size, d.to, d.from};
    } else {
      merged.push_back(d);
    }
  }
  return merged;
}

template <typename Element>
void CopyLine(char* to, const char* from, const Dimension& d) {
  if (d.to == sizeof(Element) && d.from == sizeof(Element)) {
    std::memcpy(to, from, static_cast<std::size_t>(d.size) * sizeof(Element));
    return;
  }
  for (std::int64_t i = 0; i < d.size; ++i) {
    std::memcpy(to + i * d.to, from + i * d.from, sizeof(Element));
  }
}

// Copies two dimensions in square blocks that fit the L1 cache on both sides.
template <typename Element>
void CopyPlane(char* to, const char* from, const Dimension& outer, const Dimension& inner) {
  constexpr std::int64_t kBlock = 32;
  for (std::int64_t i = 0; i < outer.size; i += kBlock) {
    const std::int64_t rows = std::min(kBlock, outer.size - i);
    for (std::int64_t j = 0; j < inner.size; j += kBlock) {
      const Dimension line = {std::min(kBlock, inner.size - j), inner.to, inner.from};
      for (std::int64_t r = i; r < i + rows; ++r) {
        CopyLine<Element>(to + r * outer.to + j * inner.to, from + r * outer.from + j * inner.from, line);
      }
    }
  }
}

template <typename Element>
void Copy(char* to, const char* from, const Dimension* d, std::size_t rank) {
  if (rank == 0) {
    std::memcpy(to, from, sizeof(Element));
  } else if (rank == 1) {
    CopyLine<Element>(to, from, d[0]);
  } else if (rank == 2 && std::abs(d[1].from) > std::abs(d[0].from)) {
    CopyPlane<Element>(to, from, d[0], d[1]);
  } else {
    for (std::int64_t i = 0; i < d[0].size; ++i) {
      Copy<Element>(to + i * d[0].to, from + i * d[0].from, d + 1, rank - 1);
    }
  }
}

struct Bytes16 {
  char bytes[16];
};

}  // namespace

Strides DenseStrides(const std::vector<std::int64_t>& shape, std::size_t element_bytes) {
  Strides strides(shape.size());
  auto stride = static_cast<std::int64_t>(element_bytes);
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

Strides LayoutStrides(const std::vector<std::int64_t>& shape, std::size_t element_bytes,
                      const std::int64_t* minor_to_major) {
  Strides strides(shape.size());
  auto stride = static_cast<std::int64_t>(element_bytes);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto dimension = static_cast<std::size_t>(minor_to_major[i]);
    strides[dimension] = stride;
    stride *= shape[dimension];
  }
  return strides;
}

bool IsDense(const std::vector<std::int64_t>& shape, std::size_t element_bytes, const Strides& strides) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  const Strides dense = DenseStrides(shape, element_bytes);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1 && strides[i] != dense[i]) return false;
  }
  return true;
}

void CopyStrided(void* to, const Strides& to_strides, const void* from, const Strides& from_strides,
                 const std::vector<std::int64_t>& shape, std::size_t element_bytes) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  std::vector<Dimension> dimensions = Normalise(shape, to_strides, from_strides);
  if (dimensions.size() > 2) {
    // The source's innermost dimension goes next to the destination's, so that both lie in one plane.
    const auto inner = std::min_element(
        dimensions.begin(), dimensions.end(),
        [](const Dimension& a, const Dimension& b) { return std::abs(a.from) < std::abs(b.from); });
    if (inner < dimensions.end() - 2) std::rotate(inner, inner + 1, dimensions.end() - 1);
  }
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  switch (element_bytes) {
    case 1:
      return Copy<std::uint8_t>(out, in, dimensions.data(), dimensions.size());
    case 2:
      return Copy<std::uint16_t>(out, in, dimensions.data(), dimensions.size());
    case 4:
      return Copy<std::uint32_t>(out, in, dimensions.data(), dimensions.size());
    case 8:
      return Copy<std::uint64_t>(out, in, dimensions.data(), dimensions.size());
    default:
      return Copy<Bytes16>(out, in, dimensions.data(), dimensions.size());
  }
}

}  // namespace jax_ipu
