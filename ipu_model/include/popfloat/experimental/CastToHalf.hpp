// Half and single precision on the host, as bits and numbers. Source: Graphcore's PopLibs,
// popfloat/experimental/CastToHalf.hpp.
#ifndef POPFLOAT_EXPERIMENTAL_CASTTOHALF_HPP
#define POPFLOAT_EXPERIMENTAL_CASTTOHALF_HPP

#include <cstdint>
#include <cstring>

namespace popfloat::experimental {

// The bits of the nearest half, ties to even. A finite number that is too large becomes the largest half of
// its sign, or NaN with `enNanoo`.
std::uint16_t singleToHalf(float value, bool enNanoo = false);
// The value of a half that is given as its bits.
float halfToSingle(std::uint16_t ihalf);

}  // namespace popfloat::experimental

#endif  // POPFLOAT_EXPERIMENTAL_CASTTOHALF_HPP
