// Starts of windows at run-time places; after common.hpp.

namespace hlo {

constexpr unsigned kMostDimensions = 16;

// An index as it was given, or `wrap` more if it is negative.
template <typename S>
inline long long wrapped(S index, int wrap) {
  const auto value = static_cast<long long>(index);
  return value < 0 ? value + wrap : value;
}
inline long long clamped(long long start, int limit) { return start < 0 ? 0 : start > limit ? limit : start; }

}  // namespace hlo
