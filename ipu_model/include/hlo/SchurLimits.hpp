// What the Schur form of small matrices takes.
#ifndef HLO_SCHURLIMITS_HPP
#define HLO_SCHURLIMITS_HPP

namespace hlo {

// A matrix is one worker's, so that larger ones take longer than in steps of many tiles.
inline constexpr unsigned kMostSchurRows = 16;

}  // namespace hlo

#endif  // HLO_SCHURLIMITS_HPP
