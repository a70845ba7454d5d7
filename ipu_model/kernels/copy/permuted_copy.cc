#include "kernels/copy/permuted_copy.h"

#include <algorithm>
#include <limits>

#include "kernels/host/host_tensor.h"

namespace ipu_model {
namespace {

constexpr std::int64_t kLanes = PermutedCopy::kLanes;
// Limits the memory and the time of planning.
constexpr std::int64_t kMostElements = 8192;
// With fewer elements in a step, or in segments as long as this, loops are as fast.
constexpr std::int64_t kLeastPerStep = 4, kLongSegment = 64;

struct Element {
  std::int64_t from, to;  // in lanes
};

// The elements of the box in row-major order.
std::vector<Element> Elements(int rank, const std::int64_t* shape, const std::int64_t* src,
                              const std::int64_t* dst, std::int64_t lane_bytes) {
  std::vector<Element> elements{{0, 0}};
  for (int d = 0; d < rank; ++d) {
    std::vector<Element> more;
    more.reserve(elements.size() * static_cast<std::size_t>(shape[d]));
    for (const Element& e : elements) {
      for (std::int64_t i = 0; i < shape[d]; ++i)
        more.push_back({e.from + i * src[d] / lane_bytes, e.to + i * dst[d] / lane_bytes});
    }
    elements = std::move(more);
  }
  return elements;
}

// Adds the steps for the elements [begin, end), which go to one vector from element `to` on.
void AddSteps(Element* begin, Element* end, std::int64_t to, std::int64_t lane_bytes, PermutedCopy* copy) {
  while (begin < end) {
    const std::int64_t from = std::min_element(begin, end, [](const Element& a, const Element& b) {
                                return a.from < b.from;
                              })->from;
    PermutedCopy::Step step;
    step.from = static_cast<std::int32_t>(from * lane_bytes);
    step.to = static_cast<std::int32_t>(to * lane_bytes);
    Element* rest = begin;
    for (Element* e = begin; e < end; ++e) {
      const std::int64_t lane = e->from - from, result = e->to - to;
      if (lane >= 2 * kLanes) {
        *rest++ = *e;
        continue;
      }
      const auto bit = static_cast<std::uint16_t>(1u << (lane % kLanes));
      (lane < kLanes ? step.first : step.second) |= bit;
      step.result |= static_cast<std::uint16_t>(1u << result);
      step.lane[result] = static_cast<std::uint8_t>(lane);
    }
    end = rest;
    copy->steps.push_back(step);
  }
}

}  // namespace

std::optional<PermutedCopy> PlanPermutedCopy(int rank, const std::int64_t* shape, const std::int64_t* src,
                                             const std::int64_t* dst, std::size_t size) {
  PermutedCopy copy;
  copy.size = std::min<std::size_t>(size, 4);
  const auto lane_bytes = static_cast<std::int64_t>(copy.size);
  std::int64_t extent[kMaxRank + 1], from[kMaxRank + 1], to[kMaxRank + 1], total = 1;
  std::int64_t reach = 0;
  int used = 0;
  for (int d = 0; d < rank; ++d) {
    total *= shape[d];
    if (shape[d] == 1) continue;
    extent[used] = shape[d];
    from[used] = src[d];
    to[used++] = dst[d];
    reach += (shape[d] - 1) * std::max(std::abs(src[d]), std::abs(dst[d]));
  }
  // Wide elements are several lanes.
  if (size > 4) {
    extent[used] = static_cast<std::int64_t>(size) / lane_bytes;
    from[used] = to[used] = lane_bytes;
    total *= extent[used++];
  }
  constexpr std::int64_t kFarthest = std::numeric_limits<std::int32_t>::max() - 4 * kLanes * 4;
  if (total == 0 || total > kMostElements || reach > kFarthest || used == 0) return std::nullopt;
  const int inner = used - 1;
  if (extent[inner] >= kLongSegment && to[inner] == lane_bytes &&
      (from[inner] == lane_bytes || from[inner] == 0))
    return std::nullopt;
  std::vector<Element> elements = Elements(used, extent, from, to, lane_bytes);
  std::stable_sort(elements.begin(), elements.end(),
                   [](const Element& a, const Element& b) { return a.to < b.to; });
  for (Element *e = elements.data(), *const end = e + elements.size(); e < end;) {
    Element* next = e;
    while (next < end && next->to - e->to < kLanes) ++next;
    AddSteps(e, next, e->to, lane_bytes, &copy);
    if (static_cast<std::int64_t>(copy.steps.size()) * kLeastPerStep > total) return std::nullopt;
    e = next;
  }
  const auto single = std::stable_partition(copy.steps.begin(), copy.steps.end(),
                                            [](const PermutedCopy::Step& s) { return s.second == 0; });
  copy.num_single = static_cast<std::size_t>(single - copy.steps.begin());
  return copy;
}

}  // namespace ipu_model
