// What tiles send and receive in the exchange of one superstep.
#ifndef IPU_MODEL_ENGINE_COST_EXCHANGE_TRAFFIC_H_
#define IPU_MODEL_ENGINE_COST_EXCHANGE_TRAFFIC_H_

#include <cstdint>
#include <vector>

namespace ipu_model {

using TileBytes = std::vector<std::int64_t>;  // by tile; empty if zero on all tiles

struct ExchangeTraffic {
  TileBytes received, shared;  // bytes by tile; by the first tile of a pair, what both receive
  // Bytes that each tile sends: what some tiles read alone, and what only pairs of tiles read.
  TileBytes sent_alone, sent_to_pairs;
  bool sends = false;  // whether any tile sends
  TileBytes fragments;
  // Where several groups of tiles are told apart, otherwise empty: bytes for each tile that receives them,
  // and those from group to group, flat.
  TileBytes sent, delivered, between_groups;
  bool moved = false;  // whether any of these is not zero
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_COST_EXCHANGE_TRAFFIC_H_
