// Parts of dense tensors, for reductions; hlo/reduce/reduce.cc generates the vertex classes.
#include "scalarComplex.hpp"

namespace hlo {

template <typename Numbers>
unsigned product(const Numbers& numbers) {
  unsigned n = 1;
  for (unsigned d = 0; d < numbers.size(); ++d) n *= numbers[d];
  return n;
}

// The place of element `at`, in row-major order, of dimensions with these steps.
template <typename Numbers>
unsigned placeOf(unsigned at, const Numbers& extents, const Numbers& steps) {
  unsigned place = 0;
  for (unsigned d = extents.size(); d-- > 0;) {
    place += at % extents[d] * steps[d];
    at /= extents[d];
  }
  return place;
}

}  // namespace hlo
