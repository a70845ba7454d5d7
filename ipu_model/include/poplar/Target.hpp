// The target of a compilation: an architecture and a number of tiles.
#ifndef POPLAR_TARGET_HPP
#define POPLAR_TARGET_HPP

#include <cstddef>
#include <string>

#include "poplar/Type.hpp"

namespace ipu_model {
struct TargetModel;  // core/target_model.h
}

namespace poplar {

enum class TargetType { IPU, IPU_MODEL, CPU };

class Target {
 public:
  // Architectures: "ipu1", "ipu2", "ipu21", "bow". Throws poplar_error for any other and for numIPUs != 1
  // (every replica is its own single-IPU target).
  static Target createIPUTarget(unsigned numIPUs, const std::string& architecture);
  // Uses the first tilesPerIPU tiles only; throws when the architecture has fewer.
  static Target createIPUTarget(unsigned numIPUs, unsigned tilesPerIPU, const std::string& architecture);

  TargetType getTargetType() const { return TargetType::IPU_MODEL; }
  const std::string& getTargetArchString() const { return architecture_; }
  unsigned getNumIPUs() const { return 1; }
  unsigned getTilesPerIPU() const { return num_tiles_; }
  unsigned getNumTiles() const { return num_tiles_; }
  unsigned getNumWorkerContexts() const;
  std::size_t getBytesPerTile() const;
  double getTileClockFrequency() const;             // Hz
  unsigned getExchangeBytesPerCycle() const;        // of one tile
  unsigned getMemcpyBytesPerCycle() const;          // of a copy inside one tile
  unsigned getDataPathWidth() const;                // bits
  unsigned getVectorWidth(const Type& type) const;  // elements in one data path word, at least 1
  unsigned getTypeSize(const Type& type) const;     // bytes of one element

  const ipu_model::TargetModel& model() const {
    return *model_;
  }  // internals of the model, not part of Poplar

  friend bool operator==(const Target& a, const Target& b) {
    return a.model_ == b.model_ && a.num_tiles_ == b.num_tiles_;
  }
  friend bool operator!=(const Target& a, const Target& b) { return !(a == b); }

 private:
  Target(std::string architecture, const ipu_model::TargetModel* model, unsigned num_tiles);

  std::string architecture_;
  const ipu_model::TargetModel* model_;  // static table entry
  unsigned num_tiles_;
};

}  // namespace poplar

#endif  // POPLAR_TARGET_HPP
