#include "engine/cost/exchange.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/deadline.h"
#include "core/target/ring_links.h"

namespace ipu_model {
namespace {

// Hashes the elements of a region; broadcast dimensions are ignored.
std::uint64_t HashOf(const View& view, const Box& box) {
  std::uint64_t h = 0x9e3779b97f4a7c15u;
  const auto mix = [&h](std::int64_t x) {
    h ^= static_cast<std::uint64_t>(x);
    h *= 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  };
  for (std::size_t d = 0; d < box.begin.size(); ++d) {
    if (view.strides[d] == 0 && box.end[d] > box.begin[d]) continue;
    mix(box.begin[d]);
    mix(box.end[d]);
  }
  return h | 1;  // 0 means that there is no region yet
}

// Adds `next` to `run` where it begins where that ends in one dimension and is equal in all others.
bool Join(const Box& next, Box* run) {
  std::size_t along = next.begin.size();
  for (std::size_t d = 0; d < next.begin.size(); ++d) {
    if (next.begin[d] == run->begin[d] && next.end[d] == run->end[d]) continue;
    if (along < next.begin.size() || next.begin[d] != run->end[d] || next.end[d] <= next.begin[d])
      return false;
    along = d;
  }
  if (along == next.begin.size()) return false;
  run->end[along] = next.end[along];
  return true;
}

// An upper bound of the elements of a variable on any tile.
std::int64_t MostOnTile(const Mapping& mapping, std::int64_t all) {
  const Grid* grid = mapping.grid();
  if (grid == nullptr) return all;
  std::int64_t most = (grid->num_parts() + grid->num_tiles - 1) / grid->num_tiles;
  for (int d = 0; d < static_cast<int>(grid->shape.size()); ++d) most *= grid->LargestPart(d);
  return most;
}

}  // namespace

void Merge(const CodeletUse& use, std::map<std::string, CodeletUse>* codelets) {
  const auto [entry, is_new] = codelets->try_emplace(use.codelet, use);
  if (is_new) return;
  CodeletUse& known = entry->second;
  known.bytes = std::max(known.bytes, use.bytes);
  for (std::size_t t = 0; t < use.tiles.size(); ++t) known.tiles[t] = known.tiles[t] || use.tiles[t];
}

unsigned TilesPerGroup(const poplar::Target& target) {
  if (target.getNumIPUs() > 1) return target.getTilesPerIPU();
  constexpr unsigned kMostGroups = 23;  // of 64 tiles, on an IPU with 1,472
  const unsigned num_tiles = target.getNumTiles();
  return std::max(1u, (num_tiles + kMostGroups - 1) / kMostGroups);
}

ExchangeAnalyser::ExchangeAnalyser(const CompiledProgram& program, bool detailed)
    : program_(program),
      context_(program),
      target_(program.target.model()),
      num_tiles_(program.target.getNumTiles()),
      accesses_(num_tiles_),
      compute_(num_tiles_, 0),
      detailed_(detailed),
      several_ipus_(program.target.getNumIPUs() > 1),
      tiles_per_group_(TilesPerGroup(program.target)),
      num_groups_((num_tiles_ + tiles_per_group_ - 1) / tiles_per_group_),
      known_cycles_(256),
      sent_of_operand_(num_tiles_),
      held_(num_tiles_, 0),
      rows_(num_tiles_, target_.tiles_per_shared_bus == 2, group_of_tile_, num_groups_),
      edge_copies_(program.variables) {
  before_.Reset(num_tiles_);
  after_.Reset(num_tiles_);
  for (TileBytes* bytes : {&traffic_.received, &traffic_.shared, &traffic_.sent_alone,
                           &traffic_.sent_to_pairs, &traffic_.fragments}) {
    bytes->assign(num_tiles_, 0);
  }
  if (!detailed && !several_ipus_) return;
  traffic_.sent.assign(num_tiles_, 0);
  traffic_.delivered.assign(num_tiles_, 0);
  traffic_.between_groups.assign(std::size_t{num_groups_} * num_groups_, 0);
  of_groups_.assign(num_groups_, 0);
  readers_of_groups_.assign(num_groups_, 0);
  for (unsigned tile = 0; tile < num_tiles_; ++tile) group_of_tile_.push_back(tile / tiles_per_group_);
}

ExchangeAnalyser::TileAccess& ExchangeAnalyser::Touch(unsigned tile) {
  TileAccess& access = accesses_[tile];
  if (access.last == 0) touched_.push_back(tile);
  return access;
}

void ExchangeAnalyser::ForgetTouched() {
  for (const unsigned tile : touched_) accesses_[tile] = {};
  touched_.clear();
}

void ExchangeAnalyser::Buffer(SuperstepUse* use, unsigned tile, std::int64_t bytes) {
  Grow(&use->buffers);
  use->buffers[tile] += (bytes + 7) / 8 * 8;
}

unsigned* ExchangeAnalyser::SlotOf(std::uint64_t hash) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = (hash >> 16) & mask;
  while (slots_[i] != 0 && regions_[slots_[i] - 1].hash != hash) i = (i + 1) & mask;
  return &slots_[i];
}

void ExchangeAnalyser::Note(std::uint64_t hash, std::size_t vertex, unsigned tile, std::int64_t held) {
  // Few regions need a few slots only, at most half of which are taken.
  if (2 * num_regions_ >= slots_.size()) {
    slots_.assign(std::max<std::size_t>(64, 4 * slots_.size()), 0);
    for (std::size_t r = 0; r < num_regions_; ++r) *SlotOf(regions_[r].hash) = static_cast<unsigned>(r + 1);
  }
  unsigned* const slot = SlotOf(hash);
  if (*slot == 0) {
    if (++num_regions_ > regions_.size()) regions_.emplace_back();
    *slot = static_cast<unsigned>(num_regions_);
    Region& region = regions_[num_regions_ - 1];
    region.hash = hash;
    region.vertex = vertex;
    region.pairs = false;
    region.tiles.clear();
  }
  regions_[*slot - 1].tiles.emplace_back(tile, held);
}

template <typename Alike, typename F>
void ExchangeAnalyser::ForEachRun(HeldCounter* counter, const VertexGroup& group,
                                  const VertexGroup::Access& access, Alike&& alike, F&& visit) {
  const auto region_of = [&](std::size_t r) {
    const Box& box = group.vertices[regions_[r].vertex].box;
    return access.identity ? box : access.region(box);
  };
  Box next;
  if (num_regions_ > 0) next = region_of(0);
  for (std::size_t begin = 0, end = 0; begin < num_regions_; begin = end) {
    Box run = std::move(next);
    while (++end < num_regions_) {
      CheckDeadlineAt(end);
      next = region_of(end);
      if (!alike(regions_[begin], regions_[end]) || !Join(next, &run)) break;
    }
    CheckDeadlineAt(begin);
    holders_.clear();
    counter->Holders(run, &holders_);
    visit(begin, end);
  }
}

void ExchangeAnalyser::Move(const Region& region, std::int64_t element_bytes, bool to_vertices) {
  traffic_.moved = true;
  TileBytes& from_holders = to_vertices ? traffic_.sent : traffic_.delivered;
  TileBytes& at_vertices = to_vertices ? traffic_.delivered : traffic_.sent;
  const auto between = [&](std::size_t holder, std::size_t vertex) -> std::int64_t& {
    return traffic_
        .between_groups[to_vertices ? holder * num_groups_ + vertex : vertex * num_groups_ + holder];
  };
  const auto tiles = static_cast<std::int64_t>(region.tiles.size());
  std::int64_t all = 0;
  for (const auto& [holder, elements] : holders_) {
    const std::int64_t bytes = elements * element_bytes;
    from_holders[holder] += bytes * tiles;
    of_groups_[group_of_tile_[holder]] += bytes;
    all += bytes;
  }
  for (const auto& [tile, held] : region.tiles) {
    const std::size_t own = group_of_tile_[tile];
    from_holders[tile] -= held * element_bytes;
    at_vertices[tile] += all - held * element_bytes;
    between(own, own) -= held * element_bytes;
    ++readers_of_groups_[own];
  }
  for (std::size_t own = 0; own < num_groups_; ++own) {
    const std::int64_t readers = std::exchange(readers_of_groups_[own], 0);
    if (readers == 0) continue;
    for (std::size_t g = 0; g < num_groups_; ++g) between(g, own) += of_groups_[g] * readers;
  }
  std::fill(of_groups_.begin(), of_groups_.end(), 0);
}

void ExchangeAnalyser::ForgetRegions() {
  num_regions_ = 0;
  slots_.clear();
}

bool ExchangeAnalyser::ReadByPairs(const std::vector<std::pair<unsigned, std::int64_t>>& tiles) const {
  if (target_.tiles_per_shared_bus != 2) return false;
  return std::all_of(tiles.begin(), tiles.end(), [&](const auto& reader) {
    // The neighbour is mostly next to it in the list.
    const auto at = &reader - tiles.data();
    const unsigned other = reader.first ^ 1u;
    const auto is_other = [&](std::ptrdiff_t i) {
      return i >= 0 && i < static_cast<std::ptrdiff_t>(tiles.size()) &&
             tiles[static_cast<std::size_t>(i)].first == other;
    };
    return is_other(at - 1) || is_other(at + 1) ||
           std::any_of(tiles.begin(), tiles.end(), [&](const auto& t) { return t.first == other; });
  });
}

void ExchangeAnalyser::CountHeld(HeldCounter* counter, const View& view) {
  std::fill(held_.begin(), held_.end(), 0);
  holders_.clear();
  counter->Holders(Box::Whole(view.shape), &holders_);
  for (const auto& [tile, elements] : holders_) {
    if (tile < num_tiles_) held_[tile] += elements;
  }
}

bool ExchangeAnalyser::MaySlow(const View& view, const Mapping& mapping) const {
  const auto size = static_cast<std::int64_t>(SizeOf(view.type));
  std::int64_t most = 0;
  for (const unsigned tile : touched_) most = std::max(most, traffic_.received[tile]);
  // Data that pairs of tiles share arrives, and leaves, at twice the rate.
  return MostOnTile(mapping, program_.variables.at(view.variable).num_elements) * size > most / 2;
}

// Regions may overlap, and a tile sends no element twice.
void ExchangeAnalyser::Send(std::size_t begin, std::size_t end) {
  const bool pairs = regions_[begin].pairs;
  for (const auto& [holder, elements] : holders_) {
    auto& [alone, to_pairs] = sent_of_operand_[holder];
    if (alone == 0 && to_pairs == 0) senders_.push_back(holder);
    (pairs ? to_pairs : alone) += elements;
  }
  // A tile that alone reads a region sends nothing of it.
  for (std::size_t r = begin; r < end; ++r) {
    if (regions_[r].tiles.size() != 1) continue;
    const auto& [reader, held] = regions_[r].tiles[0];
    sent_of_operand_[reader].first -= held;
  }
}

void ExchangeAnalyser::EndSending(HeldCounter* counter, const View& view, const Mapping& mapping) {
  const auto size = static_cast<std::int64_t>(SizeOf(view.type));
  CountHeld(counter, view);
  const Variable& variable = program_.variables.at(view.variable);
  const bool is_temporary = &mapping != &variable.mapping;
  const auto others = is_temporary ? unsent_.end() : unsent_.find(view.variable);
  if (others != unsent_.end() && others->second.empty())
    others->second = mapping.ElementsPerTile(variable.num_elements, num_tiles_);
  for (const unsigned tile : senders_) {
    auto& elements = sent_of_operand_[tile];
    std::int64_t all = held_[tile];
    if (others != unsent_.end()) all = std::min(all, others->second[tile]);
    const std::int64_t alone = std::min(all, elements.first);
    const std::int64_t to_pairs = std::min(all - alone, elements.second);
    if (others != unsent_.end()) others->second[tile] -= alone + to_pairs;
    traffic_.sent_alone[tile] += alone * size;
    traffic_.sent_to_pairs[tile] += to_pairs * size;
    elements = {0, 0};
  }
  senders_.clear();
  traffic_.sends = true;
}

void ExchangeAnalyser::EndExchange(SuperstepDetail* detail) {
  detail->sent = RunLengthsOf(traffic_.sent);
  detail->received = RunLengthsOf(traffic_.delivered);
  for (std::size_t i = 0; i < traffic_.between_groups.size(); ++i) {
    if (traffic_.between_groups[i] == 0) continue;
    detail->pairs.push_back(static_cast<std::int64_t>(i / num_groups_));
    detail->pairs.push_back(static_cast<std::int64_t>(i % num_groups_));
    detail->pairs.push_back(traffic_.between_groups[i]);
  }
  for (TileBytes* bytes : {&traffic_.sent, &traffic_.delivered, &traffic_.between_groups})
    std::fill(bytes->begin(), bytes->end(), 0);
  traffic_.moved = false;
}

void ExchangeAnalyser::AddLinks(SuperstepUse* use) const {
  if (!traffic_.moved) return;
  for (unsigned from = 0; from < num_groups_; ++from) {
    for (unsigned to = 0; to < num_groups_; ++to) {
      const std::int64_t bytes = traffic_.between_groups[std::size_t{from} * num_groups_ + to];
      if (from != to && bytes > 0) use->link_bytes += static_cast<std::uint64_t>(bytes);
    }
  }
  if (use->link_bytes == 0) return;
  use->link_syncs = 1;
  use->exchange_cycles =
      std::max(use->exchange_cycles, LinkExchangeCycles(traffic_.between_groups, num_groups_, target_));
}

bool ExchangeAnalyser::Read(const VertexGroup& group, const VertexGroup::Access& access, const View& view,
                            const Mapping& mapping, SuperstepUse* use) {
  HeldCounter counter(mapping, view);
  const auto size = static_cast<std::int64_t>(SizeOf(view.type));
  needs_.clear();
  Box computed;
  for (const Vertex& vertex : group.vertices) {
    const auto number = static_cast<std::size_t>(&vertex - group.vertices.data());
    CheckDeadlineAt(number);
    if (!access.identity) computed = access.region(vertex.box);
    const Box& region = access.identity ? vertex.box : computed;
    const std::int64_t elements = counter.Distinct(region), held = counter.Held(vertex.tile, region);
    const auto arrange = [&] {
      if (!access.arranged || held == 0) return;
      before_.Add(target_, vertex.tile, size, access.arranged(vertex.box, elements, held), !group.is_copy);
    };
    if (held == elements) {
      arrange();
      continue;
    }
    const std::uint64_t hash = HashOf(view, region);
    needs_.push_back({number, hash, held});
    TileAccess& a = Touch(vertex.tile);
    if (a.last == hash) continue;
    a.last = hash;
    a.key += hash;
    a.elements += elements;
    a.held += held;
    arrange();
    ++traffic_.fragments[vertex.tile];
    if (detailed_ || several_ipus_) Note(hash, number, vertex.tile, held);
  }
  if (touched_.empty()) return true;
  for (const unsigned tile : touched_) {
    const TileAccess& a = accesses_[tile];
    const std::int64_t bytes = (a.elements - a.held) * size;
    traffic_.received[tile] += bytes;
    use->exchange_bytes += static_cast<std::uint64_t>(bytes);
    if (!group.is_copy) Buffer(use, tile, bytes);
    // If neighbours need the same regions, an element that neither holds is received once for both.
    if (target_.tiles_per_shared_bus != 2 || tile % 2 != 0 || tile + 1 >= num_tiles_) continue;
    const TileAccess& b = accesses_[tile + 1];
    if (b.key == a.key)
      traffic_.shared[tile] += std::max<std::int64_t>(0, a.elements - a.held - b.held) * size;
  }
  const bool moves = detailed_ || several_ipus_, sends = MaySlow(view, mapping);
  if (sends && !moves) {
    for (const Need& need : needs_) Note(need.hash, need.vertex, group.vertices[need.vertex].tile, need.held);
  }
  if (sends) {
    for (std::size_t r = 0; r < num_regions_; ++r) regions_[r].pairs = ReadByPairs(regions_[r].tiles);
  }
  const auto alike = [&](const Region& a, const Region& b) { return !moves && a.pairs == b.pairs; };
  ForEachRun(&counter, group, access, alike, [&](std::size_t begin, std::size_t end) {
    if (sends) Send(begin, end);
    if (moves) Move(regions_[begin], size, true);
  });
  if (sends) EndSending(&counter, view, mapping);
  ForgetRegions();
  ForgetTouched();
  return false;
}

bool ExchangeAnalyser::Write(const VertexGroup& group, const VertexGroup::Access& access, const View& view,
                             const Mapping& mapping, SuperstepUse* use) {
  HeldCounter counter(mapping, view);
  const auto size = static_cast<std::int64_t>(SizeOf(view.type));
  std::int64_t missing = 0;
  Box computed;
  for (const Vertex& vertex : group.vertices) {
    const auto number = static_cast<std::size_t>(&vertex - group.vertices.data());
    CheckDeadlineAt(number);
    if (!access.identity) computed = access.region(vertex.box);
    const Box& region = access.identity ? vertex.box : computed;
    const std::int64_t elements = counter.Distinct(region), held = counter.Held(vertex.tile, region);
    TileAccess& a = Touch(vertex.tile);
    a.last = 1;
    a.elements += elements;
    a.held += held;
    missing += elements - held;
    if (held < elements) Note(HashOf(view, region), number, vertex.tile, held);
  }
  if (missing > 0) {
    use->exchange_bytes += static_cast<std::uint64_t>(missing * size);
    for (const unsigned tile : touched_) {
      const TileAccess& a = accesses_[tile];
      if (a.elements <= a.held) continue;
      Buffer(use, tile, (a.elements - a.held) * size);
      traffic_.sent_alone[tile] += (a.elements - a.held) * size;
      traffic_.sends = true;
    }
    // Owners receive what others write of it, however much of the view they have.
    std::fill(held_.begin(), held_.end(), 0);
    const bool moves = detailed_ || several_ipus_;
    const auto alike = [&](const Region& a, const Region& b) {
      return !moves && a.tiles.size() == b.tiles.size();
    };
    ForEachRun(&counter, group, access, alike, [&](std::size_t begin, std::size_t end) {
      if (moves) Move(regions_[begin], size, false);
      const auto writers = static_cast<std::int64_t>(regions_[begin].tiles.size());
      for (const auto& [holder, elements] : holders_) {
        if (holder < num_tiles_) held_[holder] += writers * elements;
      }
      for (std::size_t r = begin; r < end; ++r) {
        for (const auto& [writer, held] : regions_[r].tiles) held_[writer] -= held;
      }
    });
    for (unsigned tile = 0; tile < num_tiles_; ++tile) {
      if (held_[tile] == 0) continue;
      traffic_.received[tile] += held_[tile] * size;
      ++traffic_.fragments[tile];
    }
  }
  ForgetRegions();
  ForgetTouched();
  return missing == 0;
}

void ExchangeAnalyser::AddRows(const VertexGroup& group, const VertexGroup::Access& access, const View& view,
                               bool is_write) {
  for (const Vertex& vertex : group.vertices) {
    const Box row = access.region(vertex.box);
    rows_.Add(vertex.tile, view.variable, SizeOf(view.type), view.offset + row.begin[0],
              view.offset + row.end[0], is_write);
  }
}

}  // namespace ipu_model
