// How Graph::addVariable maps a new variable to tiles.
#ifndef POPLAR_VARIABLEMAPPINGMETHOD_HPP
#define POPLAR_VARIABLEMAPPINGMETHOD_HPP

#include <ostream>

namespace poplar {

enum class VariableMappingMethod {
  NONE,  // the caller maps it
  // Evenly over all tiles, however few elements a tile gets: a test of PopLibs
  // (tests/popops/MapFusionTest.cpp) expects vertices on all tiles, where poputil::mapTensorLinearly would
  // use one.
  LINEAR,
};

inline std::ostream& operator<<(std::ostream& out, const VariableMappingMethod& method) {
  return out << (method == VariableMappingMethod::NONE ? "NONE" : "LINEAR");
}

}  // namespace poplar

#endif  // POPLAR_VARIABLEMAPPINGMETHOD_HPP
