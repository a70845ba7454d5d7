// The names of the chips that there are numbers for: the one list of them.
#ifndef IPU_MODEL_CHIPS_HPP
#define IPU_MODEL_CHIPS_HPP

#include <string>
#include <vector>

namespace ipu_model {

// The oldest first. Each is an architecture for Target::createIPUTarget.
std::vector<std::string> ChipNames();

// The most tiles that one of them has.
unsigned MostTiles();

}  // namespace ipu_model

#endif  // IPU_MODEL_CHIPS_HPP
