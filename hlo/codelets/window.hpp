// Windows over the part of an operand that a vertex has; hlo/window/window.cc generates the vertex classes.
#include "scalarComplex.hpp"

namespace hlo {

// By dimension: the number of windows, the extent of the operand, and the window's size, stride, dilations
// and lower padding, as of WindowGeometry.
template <typename Numbers>
struct Windows {
  const Numbers &windows, &extent, &size, &stride, &dilation, &base, &padding;

  // Calls f(place) for the elements of window `at`, in row-major order, that are no padding.
  template <typename F>
  void forEach(unsigned at, const F& f) const {
    constexpr unsigned kMostDimensions = 16;
    long long origin[kMostDimensions];
    unsigned taps = 1;
    for (unsigned d = windows.size(); d-- > 0;) {
      origin[d] = static_cast<long long>(at % windows[d]) * stride[d] - padding[d];
      at /= windows[d];
      taps *= size[d];
    }
    for (unsigned tap = 0; tap < taps; ++tap) {
      long long place = 0, weight = 1;
      unsigned rest = tap;
      bool inside = true;
      for (unsigned d = windows.size(); d-- > 0;) {
        const long long dilated = origin[d] + static_cast<long long>(rest % size[d]) * dilation[d];
        const long long position = dilated / base[d];
        rest /= size[d];
        inside = inside && dilated >= 0 && dilated % base[d] == 0 && position < extent[d];
        place += position * weight;
        weight *= extent[d];
      }
      if (inside) f(static_cast<unsigned>(place));
    }
  }
};

// The place of element `at` of a box of `extent` in the box that begins at `first` in it and has the extents
// `part`; -1 outside.
template <typename Numbers>
long long placeIn(unsigned at, const Numbers& extent, const Numbers& first, const Numbers& part) {
  long long place = 0, weight = 1;
  for (unsigned d = extent.size(); d-- > 0;) {
    const long long position = static_cast<long long>(at % extent[d]) - first[d];
    at /= extent[d];
    if (position < 0 || position >= part[d]) return -1;
    place += position * weight;
    weight *= part[d];
  }
  return place;
}

}  // namespace hlo
