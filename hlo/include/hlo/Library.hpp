// The library hlo: StableHLO's operations that PopLibs lacks, as programs of vertices on Poplar's public API.
#ifndef HLO_LIBRARY_HPP
#define HLO_LIBRARY_HPP

#include "hlo/Expansion.hpp"

namespace hlo {

const Expansions& library();

}  // namespace hlo

#endif  // HLO_LIBRARY_HPP
