// The memories of the tiles, and the lists of moves that the exchange makes between them and a vertex's
// buffers.
#ifndef IPU_MODEL_ENGINE_TILE_TILE_STORAGE_H_
#define IPU_MODEL_ENGINE_TILE_TILE_STORAGE_H_

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/mapping/mapping.h"

namespace ipu_model {

// The placement of one tensor's elements, as intervals, each contiguous on one tile.
struct Placement {
  struct PlacedInterval {
    std::int64_t begin, end;
    std::uint32_t tile, address;
  };
  std::size_t element_bytes = 0;
  std::vector<PlacedInterval> intervals;  // sorted
  // Returns null if no tile holds the element.
  const PlacedInterval* Find(std::int64_t element) const;
};

// One move: `count` elements, at a distance of `stride` elements in the memory of `tile` from `address` on,
// correspond to the elements from `local` on of a dense buffer.
struct TileMove {
  std::uint32_t tile, address, local, count;
  std::int32_t stride;
};

struct UnplacedElement : std::runtime_error {
  explicit UnplacedElement(std::int64_t e)
      : std::runtime_error("element " + std::to_string(e) + " is on no tile"), element(e) {}
  std::int64_t element;
};

class TileStorage {
 public:
  explicit TileStorage(unsigned num_tiles) : memories_(num_tiles) {}

  // Reserves memory for the elements on the tiles that hold them.
  Placement Allocate(const Mapping& mapping, std::int64_t num_elements, std::size_t element_bytes);
  // Sets every byte of a tensor.
  void Fill(const Placement& placement, unsigned char value);
  void Gather(const std::vector<TileMove>& moves, std::size_t element_bytes, unsigned char* local) const;
  void Scatter(const std::vector<TileMove>& moves, std::size_t element_bytes, const unsigned char* local);
  std::size_t bytes_on(unsigned tile) const { return memories_[tile].size(); }

 private:
  std::vector<std::vector<unsigned char>> memories_;
};

// Returns the moves for a dense row-major buffer of `region`, which must be inside the view. Throws
// UnplacedElement.
std::vector<TileMove> TileMovesOf(const View& view, const Box& region, const Placement& placement);

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_TILE_TILE_STORAGE_H_
