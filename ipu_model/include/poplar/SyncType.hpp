// The extent of a synchronisation.
#ifndef POPLAR_SYNCTYPE_HPP
#define POPLAR_SYNCTYPE_HPP

namespace poplar {

enum class SyncType {
  INTERNAL,  // all tiles of an IPU
  EXTERNAL,  // all tiles of all IPUs
  GLOBAL     // the same, with the host
};

}  // namespace poplar

#endif  // POPLAR_SYNCTYPE_HPP
