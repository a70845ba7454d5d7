// What tiles exchange for vertices that read and write rows of variables, against a count of single elements.
#include "engine/cost/row_exchange.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "check.h"
#include "core/graph/graph_impl.h"

namespace ipu_model {
namespace {

struct Row {
  unsigned tile;
  VariableId variable;
  std::int64_t begin, end;
  bool is_write;
};

ExchangeTraffic NoTraffic(unsigned tiles, unsigned groups) {
  ExchangeTraffic t;
  for (TileBytes* bytes :
       {&t.received, &t.shared, &t.sent_alone, &t.sent_to_pairs, &t.fragments, &t.sent, &t.delivered}) {
    bytes->assign(tiles, 0);
  }
  t.between_groups.assign(std::size_t{groups} * groups, 0);
  return t;
}

Variable VariableOf(std::vector<MappedInterval> intervals) {
  Variable v;
  v.type = DType::kF32;
  v.num_elements = intervals.back().end;
  v.mapping = Mapping(std::move(intervals));
  return v;
}

// The traffic of the rows, counted element by element; each has four bytes.
ExchangeTraffic OfElements(const std::vector<Variable>& variables, const std::vector<Row>& rows,
                           const std::vector<unsigned>& group, unsigned groups, bool pairs) {
  const auto tiles = static_cast<unsigned>(group.size());
  ExchangeTraffic t = NoTraffic(tiles, groups);
  for (VariableId v = 0; v < variables.size(); ++v) {
    for (std::int64_t e = 0; e < variables[v].num_elements; ++e) {
      const unsigned holder = variables[v].mapping.TileOf(e);
      std::set<unsigned> readers;
      for (const Row& row : rows) {
        if (row.variable != v || e < row.begin || e >= row.end) continue;
        if (!row.is_write) {
          readers.insert(row.tile);
        } else if (row.tile != holder) {
          t.sent_alone[row.tile] += 4;
          t.sent[row.tile] += 4;
          t.received[holder] += 4;
          t.delivered[holder] += 4;
          t.between_groups[group[row.tile] * groups + group[holder]] += 4;
        }
      }
      readers.erase(holder);
      for (const unsigned tile : readers) {
        t.received[tile] += 4;
        t.delivered[tile] += 4;
        t.sent[holder] += 4;
        t.between_groups[group[holder] * groups + group[tile]] += 4;
        if (pairs && tile % 2 == 0 && readers.count(tile + 1) != 0) t.shared[tile] += 4;
      }
      if (readers.empty()) continue;
      const bool to_pairs = pairs && std::all_of(readers.begin(), readers.end(), [&](unsigned tile) {
                              return readers.count(tile ^ 1u) != 0;
                            });
      (to_pairs ? t.sent_to_pairs : t.sent_alone)[holder] += 4;
    }
  }
  return t;
}

TEST(TrafficOfRandomRowsIsThatOfTheirElements) {
  std::mt19937 random(7);
  const auto number = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
  for (int round = 0; round < 300; ++round) {
    const unsigned tiles = 1 + number(9), groups = 3;
    const bool pairs = number(2) == 0;
    std::vector<unsigned> group;
    for (unsigned t = 0; t < tiles; ++t) group.push_back(t * groups / tiles);
    std::vector<Variable> variables;
    for (int v = 0; v < 2; ++v) {
      std::vector<MappedInterval> intervals;
      for (std::int64_t at = 0; at < 40;) {
        const std::int64_t end = std::min<std::int64_t>(40, at + 1 + number(12));
        intervals.push_back({at, end, number(tiles)});
        at = end;
      }
      variables.push_back(VariableOf(std::move(intervals)));
    }
    std::vector<Row> rows;
    for (unsigned n = number(25); n > 0; --n) {
      const std::int64_t begin = number(40), end = std::min<std::int64_t>(40, begin + number(14));
      rows.push_back({number(tiles), number(2), begin, end, false});
    }
    // No element is written twice; some of what is written is read by the same vertex.
    for (std::int64_t at = 0; at < 40; at += 8) {
      if (number(2) == 0) continue;
      rows.push_back({number(tiles), 1, at, at + 1 + number(8), true});
      if (number(2) == 0) rows.push_back({rows.back().tile, 1, at, at + 3, false});
    }
    RowExchange exchange(tiles, pairs, group, groups);
    for (const Row& row : rows) exchange.Add(row.tile, row.variable, 4, row.begin, row.end, row.is_write);
    ExchangeTraffic traffic = NoTraffic(tiles, groups);
    TileBytes buffers;
    std::int64_t all = 0;
    const std::uint64_t bytes = exchange.Count(variables, &traffic, &buffers);
    const ExchangeTraffic expected = OfElements(variables, rows, group, groups, pairs);
    for (const std::int64_t b : expected.received) all += b;
    CHECK_EQ(static_cast<std::int64_t>(bytes), all);
    CHECK(traffic.received == expected.received && traffic.shared == expected.shared);
    CHECK(traffic.sent_alone == expected.sent_alone && traffic.sent_to_pairs == expected.sent_to_pairs);
    CHECK(traffic.sent == expected.sent && traffic.delivered == expected.delivered);
    CHECK(traffic.between_groups == expected.between_groups);
    CHECK_EQ(traffic.sends, all > 0);
    // The buffers have what a tile reads or writes and does not hold, in words of eight bytes.
    std::vector<std::set<std::pair<VariableId, std::int64_t>>> used(tiles);
    for (const Row& row : rows) {
      for (std::int64_t e = row.begin; e < row.end; ++e) {
        if (variables[row.variable].mapping.TileOf(e) != row.tile) used[row.tile].insert({row.variable, e});
      }
    }
    buffers.resize(tiles);
    for (unsigned t = 0; t < tiles; ++t) {
      const auto of_first =
          std::count_if(used[t].begin(), used[t].end(), [](const auto& u) { return u.first == 0; });
      const auto of_second = static_cast<std::int64_t>(used[t].size()) - of_first;
      CHECK_EQ(buffers[t], (of_first * 4 + 7) / 8 * 8 + (of_second * 4 + 7) / 8 * 8);
    }
  }
}

TEST(ReadersOfEverythingInPieces) {
  // However the edges are cut, and for all fields together.
  const unsigned tiles = 100;
  const std::vector<Variable> variables = {VariableOf({{0, 1000, 0}})};
  for (const std::int64_t pieces : {1, 20, 1000}) {
    const std::vector<unsigned> no_groups;
    RowExchange exchange(tiles, true, no_groups, 0);
    for (unsigned tile = 0; tile < tiles; ++tile) {
      for (std::int64_t p = 0; p < pieces; ++p)
        exchange.Add(tile, 0, 4, 1000 / pieces * p, 1000 / pieces * (p + 1), false);
    }
    ExchangeTraffic traffic = NoTraffic(tiles, 0);
    TileBytes buffers;
    CHECK_EQ(exchange.Count(variables, &traffic, &buffers), 99u * 4000u);
    CHECK_EQ(traffic.sent_alone[0], 4000);
    CHECK_EQ(traffic.sent_to_pairs[0], 0);  // its neighbour reads alone
    CHECK_EQ(traffic.fragments[99], 1);
  }
}

}  // namespace
}  // namespace ipu_model
