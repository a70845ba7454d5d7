#include "codelets/edge_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace ipu_model {
namespace {

constexpr std::size_t kPage = 4096, kAlignment = 64;
// Known bytes before and after each edge; and pages that cannot be accessed, more than the memory of a tile.
constexpr std::size_t kNear = 1024, kFar = 1 << 20;
constexpr unsigned char kGuard = 0xa5, kUnwritten = 0xff;
// Each takes address space and two entries of the process's table of mappings.
constexpr std::size_t kMostSlots = 256;

std::size_t RoundUp(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

// The known bytes and an edge behind them.
std::size_t WithGuard(std::size_t bytes) { return kNear + RoundUp(bytes, kAlignment); }

}  // namespace

EdgeMemory::~EdgeMemory() {
  for (const Slot& slot : slots_) {
    if (slot.begin != nullptr) munmap(slot.begin, 2 * kFar + slot.bytes);
  }
}

void EdgeMemory::Resize(Slot* slot, std::size_t bytes) {
  bytes = RoundUp(bytes, kPage);
  // Larger than needed is good for the next vertex, but all of it is filled and compared.
  if (slot->begin != nullptr && bytes <= slot->bytes && slot->bytes <= 4 * bytes) return;
  if (slot->begin != nullptr) munmap(slot->begin, 2 * kFar + slot->bytes);
  *slot = {};
  void* const memory =
      mmap(nullptr, 2 * kFar + bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  *slot = {static_cast<unsigned char*>(memory), bytes};
  if (mprotect(slot->begin + kFar, bytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
}

void EdgeMemory::Begin(const std::vector<std::size_t>& sizes) {
  const std::size_t alone = sizes.size() <= kMostSlots ? sizes.size() : kMostSlots - 1;
  const std::size_t used = std::min(sizes.size(), kMostSlots);
  if (slots_.size() < used) slots_.resize(used);
  edges_.clear();
  std::size_t together = 0;
  for (std::size_t e = alone; e < sizes.size(); ++e) together += WithGuard(sizes[e]);
  for (std::size_t s = 0; s < used; ++s) {
    Resize(&slots_[s], (s < alone ? WithGuard(sizes[s]) : together) + kNear);
    std::memset(slots_[s].begin + kFar, kGuard, slots_[s].bytes);
  }
  unsigned char* next = nullptr;
  for (std::size_t e = 0; e < sizes.size(); ++e) {
    const std::size_t s = std::min(e, used - 1);
    if (e <= alone) next = slots_[s].begin + kFar;
    unsigned char* const data = next + kNear;
    next += WithGuard(sizes[e]);
    std::memset(data, kUnwritten, sizes[e]);
    edges_.push_back({data, sizes[e], s});
  }
}

bool EdgeMemory::Damage(Place* place) const {
  bool found = false;
  const auto note = [&](const Place& at) {
    if (!found || at.distance < place->distance) *place = at;
    found = true;
  };
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    const Edge& edge = edges_[e];
    const Slot& slot = slots_[edge.slot];
    // From the edge before, or where the slot begins, to the edge behind, or where it ends.
    const bool follows = e > 0 && edges_[e - 1].slot == edge.slot;
    const unsigned char* const low = follows ? edges_[e - 1].data + edges_[e - 1].bytes : slot.begin + kFar;
    const unsigned char* const end = edge.data + edge.bytes;
    const unsigned char* const high = e + 1 < edges_.size() && edges_[e + 1].slot == edge.slot
                                          ? edges_[e + 1].data
                                          : slot.begin + kFar + slot.bytes;
    for (const unsigned char* at = edge.data; at > low; --at) {
      if (at[-1] == kGuard) continue;
      note({e, false, static_cast<std::size_t>(edge.data - at) + 1});
      break;
    }
    for (const unsigned char* at = end; at < high; ++at) {
      if (*at == kGuard) continue;
      note({e, true, static_cast<std::size_t>(at - end) + 1});
      break;
    }
  }
  return found;
}

bool EdgeMemory::Find(const void* address, Place* place) const {
  const auto* const at = static_cast<const unsigned char*>(address);
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    const Edge& edge = edges_[e];
    const Slot& slot = slots_[edge.slot];
    if (at < slot.begin || at >= slot.begin + 2 * kFar + slot.bytes) continue;
    const bool last = e + 1 == edges_.size() || edges_[e + 1].slot != edge.slot;
    if (at < edge.data) {
      *place = {e, false, static_cast<std::size_t>(edge.data - at)};
      return true;
    }
    if (!last) continue;
    *place = {e, true, static_cast<std::size_t>(at - (edge.data + edge.bytes)) + 1};
    return true;
  }
  return false;
}

}  // namespace ipu_model
