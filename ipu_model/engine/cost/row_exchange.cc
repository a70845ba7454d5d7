#include "engine/cost/row_exchange.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace ipu_model {

void RowExchange::Join(std::vector<Row>* rows) {
  std::sort(rows->begin(), rows->end(),
            [](const Row& a, const Row& b) { return std::tie(a.tile, a.begin) < std::tie(b.tile, b.begin); });
  std::size_t n = 0;
  for (const Row& row : *rows) {
    if (n > 0 && (*rows)[n - 1].tile == row.tile && row.begin <= (*rows)[n - 1].end) {
      (*rows)[n - 1].end = std::max((*rows)[n - 1].end, row.end);
    } else {
      (*rows)[n++] = row;
    }
  }
  rows->resize(n);
}

void RowExchange::Turn(std::size_t number, const Row& row) {
  const bool begins = reader_[row.tile] == kNone;
  reader_[row.tile] = begins ? number : kNone;
  readers_ += begins ? 1 : -1;
  if (!group_of_tile_.empty()) readers_of_groups_[group_of_tile_[row.tile]] += begins ? 1 : -1;
  const unsigned other = row.tile ^ 1u;
  const bool other_reads = other < num_tiles_ && reader_[other] != kNone;
  half_pairs_ += begins == other_reads ? -1 : 1;
}

void RowExchange::SendToReaders(unsigned holder, std::int64_t bytes, ExchangeTraffic* traffic) {
  const bool reads = reader_[holder] != kNone;
  const std::int64_t others = readers_ - (reads ? 1 : 0);
  if (others == 0) return;
  // Without the holder, its pair is a half if its neighbour reads.
  const unsigned other = holder ^ 1u;
  const bool other_reads = other < num_tiles_ && reader_[other] != kNone;
  const std::int64_t halves = half_pairs_ + (!reads ? 0 : other_reads ? 1 : -1);
  (pairs_ && halves == 0 ? traffic->sent_to_pairs : traffic->sent_alone)[holder] += bytes;
  traffic->sends = true;
  if (group_of_tile_.empty()) return;
  traffic->moved = true;
  traffic->sent[holder] += bytes * others;
  const std::size_t own = group_of_tile_[holder];
  for (std::size_t g = 0; g < num_groups_; ++g) {
    const std::int64_t readers = readers_of_groups_[g] - (reads && g == own ? 1 : 0);
    traffic->between_groups[own * num_groups_ + g] += bytes * readers;
  }
}

void RowExchange::SendReads(std::vector<Row>* reads, const Mapping& mapping, std::int64_t element_bytes,
                            ExchangeTraffic* traffic) {
  // Where rows end and begin: in this order at one place, so that a tile has one row at a time.
  struct Event {
    std::int64_t at;
    bool begins;
    std::size_t row;
  };
  std::vector<Event> events;
  events.reserve(2 * reads->size());
  for (std::size_t i = 0; i < reads->size(); ++i) {
    events.push_back({(*reads)[i].begin, true, i});
    events.push_back({(*reads)[i].end, false, i});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.at, a.begins, a.row) < std::tie(b.at, b.begins, b.row);
  });
  std::size_t interval = 0;
  intervals_.clear();
  for (std::size_t e = 0; e < events.size();) {
    const std::int64_t begin = events[e].at;
    if (readers_ == 0) {
      // The intervals up to the next place that nobody reads.
      std::int64_t open = 0;
      std::size_t last = e;
      for (; last < events.size(); ++last) {
        open += events[last].begins ? 1 : -1;
        if (open == 0 && (last + 1 == events.size() || events[last + 1].at > events[last].at)) break;
      }
      intervals_.clear();
      mapping.Intervals(begin, events[last].at, &intervals_);
      interval = 0;
    }
    for (; e < events.size() && events[e].at == begin; ++e) Turn(events[e].row, (*reads)[events[e].row]);
    if (readers_ == 0) continue;
    const std::int64_t end = events[e].at;
    for (std::int64_t at = begin; at < end && interval < intervals_.size();) {
      const std::int64_t next = std::min(end, intervals_[interval].end);
      const unsigned holder = intervals_[interval].tile;
      if (holder < num_tiles_ && next > at) {
        if (reader_[holder] != kNone) (*reads)[reader_[holder]].held += next - at;
        if (pairs_ && (holder ^ 1u) < num_tiles_ && reader_[holder] != kNone &&
            reader_[holder ^ 1u] != kNone) {
          traffic->shared[holder & ~1u] -= (next - at) * element_bytes;
        }
        SendToReaders(holder, (next - at) * element_bytes, traffic);
      }
      at = next;
      if (next == intervals_[interval].end) ++interval;
    }
  }
}

void RowExchange::ShareReads(const std::vector<Row>& reads, std::int64_t element_bytes,
                             ExchangeTraffic* traffic) const {
  // The rows of a tile are together, and those of its neighbour follow.
  for (std::size_t a = 0; a < reads.size();) {
    const unsigned tile = reads[a].tile;
    std::size_t b = a;
    while (b < reads.size() && reads[b].tile == tile) ++b;
    const std::size_t end_a = b;
    if (tile % 2 == 0) {
      while (a < end_a && b < reads.size() && reads[b].tile == tile + 1) {
        const std::int64_t common =
            std::min(reads[a].end, reads[b].end) - std::max(reads[a].begin, reads[b].begin);
        if (common > 0) traffic->shared[tile] += common * element_bytes;
        ++(reads[a].end < reads[b].end ? a : b);
      }
    }
    a = end_a;
  }
}

std::int64_t RowExchange::SendWrites(std::vector<Row>* writes, const std::vector<Row>& reads,
                                     const Mapping& mapping, std::int64_t element_bytes,
                                     ExchangeTraffic* traffic) {
  std::sort(writes->begin(), writes->end(), [](const Row& a, const Row& b) { return a.begin < b.begin; });
  std::map<unsigned, std::int64_t> received_to;  // by holder: the end of the last elements that it receives
  std::int64_t sent = 0;
  for (const Row& row : *writes) {
    intervals_.clear();
    mapping.Intervals(row.begin, row.end, &intervals_);
    auto read = std::lower_bound(reads.begin(), reads.end(), row, [](const Row& a, const Row& b) {
      return std::tie(a.tile, a.end) < std::tie(b.tile, b.begin);
    });
    for (const MappedInterval& interval : intervals_) {
      if (interval.tile == row.tile || interval.tile >= num_tiles_) continue;
      const std::int64_t elements = interval.end - interval.begin, bytes = elements * element_bytes;
      sent += bytes;
      traffic->sent_alone[row.tile] += bytes;
      traffic->received[interval.tile] += bytes;
      traffic->sends = true;
      const auto [last, is_first] = received_to.try_emplace(interval.tile, interval.end);
      if (is_first || std::exchange(last->second, interval.end) != interval.begin)
        ++traffic->fragments[interval.tile];
      if (!group_of_tile_.empty()) {
        traffic->moved = true;
        traffic->sent[row.tile] += bytes;
        traffic->delivered[interval.tile] += bytes;
        const std::size_t from = group_of_tile_[row.tile], to = group_of_tile_[interval.tile];
        traffic->between_groups[from * num_groups_ + to] += bytes;
      }
      // What the tile also reads is in its buffer already.
      std::int64_t also_read = 0;
      while (read != reads.end() && read->tile == row.tile && read->end <= interval.begin) ++read;
      for (auto r = read; r != reads.end() && r->tile == row.tile && r->begin < interval.end; ++r)
        also_read += std::min(r->end, interval.end) - std::max(r->begin, interval.begin);
      needed_[row.tile] += elements - also_read;
    }
  }
  return sent;
}

std::uint64_t RowExchange::Count(const std::vector<Variable>& variables, ExchangeTraffic* traffic,
                                 TileBytes* buffers) {
  std::int64_t received = 0;
  for (auto& [variable, rows] : variables_) {
    const Mapping& mapping = variables.at(variable).mapping;
    const std::int64_t size = rows.element_bytes;
    needed_.assign(num_tiles_, 0);
    Join(&rows.reads);
    SendReads(&rows.reads, mapping, size, traffic);
    if (pairs_) ShareReads(rows.reads, size, traffic);
    for (const Row& row : rows.reads) {
      const std::int64_t missing = row.end - row.begin - row.held;
      if (missing == 0) continue;
      needed_[row.tile] += missing;
      traffic->received[row.tile] += missing * size;
      if (!group_of_tile_.empty()) traffic->delivered[row.tile] += missing * size;
      ++traffic->fragments[row.tile];
      received += missing * size;
    }
    received += SendWrites(&rows.writes, rows.reads, mapping, size, traffic);
    for (unsigned tile = 0; tile < num_tiles_; ++tile) {
      if (needed_[tile] == 0) continue;
      if (buffers->empty()) buffers->assign(num_tiles_, 0);
      (*buffers)[tile] += (needed_[tile] * size + 7) / 8 * 8;
    }
  }
  variables_.clear();
  return static_cast<std::uint64_t>(received);
}

}  // namespace ipu_model
