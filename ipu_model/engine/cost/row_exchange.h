// The exchange of vertices whose edges are rows of consecutive elements of variables: those of
// program::Execute. Exact: of what the vertices of a tile read together, the tile receives each element that
// it does not hold once, and the tile that holds an element sends it once, whoever receives it.
#ifndef IPU_MODEL_ENGINE_COST_ROW_EXCHANGE_H_
#define IPU_MODEL_ENGINE_COST_ROW_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "core/graph/graph_impl.h"
#include "core/mapping/mapping.h"
#include "engine/cost/exchange_traffic.h"

namespace ipu_model {

class RowExchange {
 public:
  // `pairs`: whether two tiles share a bus. `group_of_tile` is empty where no groups are told apart.
  RowExchange(unsigned num_tiles, bool pairs, const std::vector<unsigned>& group_of_tile, unsigned num_groups)
      : num_tiles_(num_tiles),
        pairs_(pairs),
        group_of_tile_(group_of_tile),
        num_groups_(num_groups),
        reader_(num_tiles, kNone),
        readers_of_groups_(num_groups, 0) {}

  // A vertex on `tile` reads or writes [begin, end) of the variable.
  void Add(unsigned tile, VariableId variable, std::size_t element_bytes, std::int64_t begin,
           std::int64_t end, bool is_write) {
    if (begin >= end) return;
    OfVariable& rows = variables_[variable];
    rows.element_bytes = static_cast<std::int64_t>(element_bytes);
    (is_write ? rows.writes : rows.reads).push_back({tile, begin, end, 0});
  }
  // Adds the exchange of what was added since the last call to `traffic`, and to `buffers` the bytes that
  // vertices use and their tile does not hold. Returns the bytes that all tiles receive.
  std::uint64_t Count(const std::vector<Variable>& variables, ExchangeTraffic* traffic, TileBytes* buffers);

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  struct Row {
    unsigned tile;
    std::int64_t begin, end;
    std::int64_t held;  // elements that the tile holds
  };
  struct OfVariable {
    std::int64_t element_bytes = 0;
    std::vector<Row> reads, writes;
  };

  // Sorts the rows by tile, and joins those of a tile that overlap or touch.
  static void Join(std::vector<Row>* rows);
  // What the tiles that hold the elements send for the reads, which are joined; sets Row::held.
  void SendReads(std::vector<Row>* reads, const Mapping& mapping, std::int64_t element_bytes,
                 ExchangeTraffic* traffic);
  // `holder` sends so many bytes to the readers of the place where SendReads is.
  void SendToReaders(unsigned holder, std::int64_t bytes, ExchangeTraffic* traffic);
  // A row of `reads` begins or ends.
  void Turn(std::size_t number, const Row& row);
  // What the tiles of each pair both read.
  void ShareReads(const std::vector<Row>& reads, std::int64_t element_bytes, ExchangeTraffic* traffic) const;
  // Returns the bytes that are written to other tiles. `reads` are joined.
  std::int64_t SendWrites(std::vector<Row>* writes, const std::vector<Row>& reads, const Mapping& mapping,
                          std::int64_t element_bytes, ExchangeTraffic* traffic);

  const unsigned num_tiles_;
  const bool pairs_;
  const std::vector<unsigned>& group_of_tile_;
  const unsigned num_groups_;
  std::map<VariableId, OfVariable> variables_;
  // For the place where SendReads is, by tile: its row of the reads.
  std::vector<std::size_t> reader_;
  std::int64_t readers_ = 0;
  std::int64_t half_pairs_ = 0;  // pairs of which one tile reads
  std::vector<std::int64_t> readers_of_groups_;
  TileBytes needed_;  // by tile: elements of one variable that its vertices use and that it does not hold
  std::vector<MappedInterval> intervals_;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_ENGINE_COST_ROW_EXCHANGE_H_
