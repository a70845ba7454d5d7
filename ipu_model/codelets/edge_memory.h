// Memory for the edges of a vertex in which a write outside of an edge is found.
#ifndef IPU_MODEL_CODELETS_EDGE_MEMORY_H_
#define IPU_MODEL_CODELETS_EDGE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ipu_model {

// Each edge is alone between bytes of a known value, which Damage compares, and pages around them that cannot
// be accessed, for more bytes than a tile has: an access there ends the vertex (RunGuarded). Edges past the
// first few hundred of a vertex share their pages, with known bytes between them. Not thread safe.
class EdgeMemory {
 public:
  EdgeMemory() = default;
  EdgeMemory(const EdgeMemory&) = delete;
  EdgeMemory& operator=(const EdgeMemory&) = delete;
  ~EdgeMemory();

  // Sizes in bytes of the edges of the next vertex. Their memory is that of the vertex before.
  void Begin(const std::vector<std::size_t>& sizes);
  // Aligned to 64 bytes; its bytes are 0xff.
  unsigned char* edge(std::size_t e) const { return edges_[e].data; }

  struct Place {
    std::size_t edge = 0;
    bool after = false;        // or before
    std::size_t distance = 0;  // in bytes, from 1
  };
  // Whether bytes beside an edge were written; `place` is the nearest to an edge.
  bool Damage(Place* place) const;
  // Whether an address is in the pages beside an edge.
  bool Find(const void* address, Place* place) const;

 private:
  struct Slot {
    unsigned char* begin = nullptr;  // of the pages that cannot be accessed
    std::size_t bytes = 0;           // of those between them that can
  };
  struct Edge {
    unsigned char* data;
    std::size_t bytes;
    std::size_t slot;
  };
  void Resize(Slot* slot, std::size_t bytes);

  std::vector<Slot> slots_;
  std::vector<Edge> edges_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CODELETS_EDGE_MEMORY_H_
