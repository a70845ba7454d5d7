#include "engine/report/blocks.h"

#include <algorithm>
#include <utility>

#include "engine/report/device_report.h"

namespace ipu_model {
namespace {

// In the tutorial, a buffer of 1,000 bytes holds 42 blocks.
std::uint64_t BlocksOf(std::uint64_t buffer_bytes) { return buffer_bytes * 42 / 1000; }

bool Matches(std::string_view name, const std::string& text, const std::regex& filter) {
  return !text.empty() && std::regex_match(name.begin(), name.end(), filter);
}

}  // namespace

BlockRecorder::BlockRecorder(const BlockOptions& options, const poplar::Target& target)
    : options_(options),
      target_(target),
      blocks_filter_(options.blocks),
      programs_filter_(options.programs),
      buffers_(target.getNumTiles()) {}

void BlockRecorder::Add(const Timeline::Step& step, std::string_view name,
                        const std::vector<RunLengths>* tile_cycles) {
  using Kind = Timeline::Kind;
  const bool matches = Matches(name, options_.programs, programs_filter_);
  switch (step.kind) {
    case Kind::kScopeBegin:
      return Begin(name, "scope", step.executions,
                   matches || (step.is_block && Matches(name, options_.blocks, blocks_filter_)));
    case Kind::kLoopBegin:
      return Begin(name, "loop", 1, matches);
    case Kind::kScopeEnd:
    case Kind::kLoopEnd:
      return End();
    case Kind::kOperation:
      return AddOperation(step, name, tile_cycles);
    case Kind::kStreamIn:
    case Kind::kStreamOut:
      return AddTransfer(step, name);
    case Kind::kDecision:
    case Kind::kOther:
    case Kind::kHostCall:
      clock_ += step.cycles.total() + step.host_cycles;
  }
}

void BlockRecorder::AddOperation(const Timeline::Step& step, std::string_view name,
                                 const std::vector<RunLengths>* tile_cycles) {
  std::set<std::uint64_t> ipus;
  if (tile_cycles != nullptr) {
    for (const RunLengths& superstep : *tile_cycles) {
      std::uint64_t tile = 0;
      for (std::size_t i = 0; i + 1 < superstep.size(); i += 2) {
        const std::uint64_t end = tile + static_cast<std::uint64_t>(superstep[i + 1]);
        if (superstep[i] > 0 && end > tile) {
          for (std::uint64_t ipu = tile / target_.getTilesPerIPU(); ipu * target_.getTilesPerIPU() < end;
               ++ipu)
            ipus.insert(ipu);
        }
        tile = end;
      }
    }
  }
  const std::uint64_t from = clock_;
  clock_ += step.cycles.total() + step.host_cycles;
  if (Matches(name, options_.programs, programs_filter_))
    Record(name, "operation", from, step.executions, ipus);
  if (!open_.empty()) open_.back().ipus.merge(ipus);
}

void BlockRecorder::AddTransfer(const Timeline::Step& step, std::string_view name) {
  // The device waits for the host, then the elements move.
  const std::uint64_t begin = clock_;
  const std::uint64_t wait = std::min(HostLinkCycles(target_, step.executions, 0), step.host_cycles);
  clock_ += step.cycles.total() + step.host_cycles;
  if (!options_.transfers) return;
  RecordOn(step.tile, name, "stream begin", begin, begin + wait, step.executions);
  RecordOn(step.tile, name, "stream mid", begin + wait, clock_, step.executions);
  RecordOn(step.tile, name, "stream end", clock_, clock_, step.executions);
}

void BlockRecorder::Begin(std::string_view name, const char* kind, std::uint64_t executions, bool recorded) {
  open_.push_back({std::string(name), kind, clock_, executions, recorded, {}});
}

void BlockRecorder::End() {
  if (open_.empty()) return;
  Open ended = std::move(open_.back());
  open_.pop_back();
  if (ended.recorded) Record(ended.name, ended.kind, ended.from, ended.executions, ended.ipus);
  if (!open_.empty()) open_.back().ipus.merge(ended.ipus);
}

void BlockRecorder::Record(std::string_view name, const char* kind, std::uint64_t from,
                           std::uint64_t executions, const std::set<std::uint64_t>& ipus) {
  for (std::uint64_t ipu = 0; ipu < target_.getNumIPUs(); ++ipu) {
    if (!ipus.empty() && ipus.count(ipu) == 0) continue;
    RecordOn(ipu * target_.getTilesPerIPU() + options_.tile, name, kind, from, clock_, executions);
  }
}

void BlockRecorder::RecordOn(std::uint64_t tile, std::string_view name, const char* kind, std::uint64_t from,
                             std::uint64_t to, std::uint64_t executions) {
  if (tile >= buffers_.size()) return;
  Buffer& buffer = buffers_[tile];
  // A step of several executions is part of a loop too long to be listed.
  if (executions == 1 && (options_.flush || buffer.blocks < BlocksOf(options_.buffer_bytes))) {
    ++buffer.blocks;
    blocks_.push_back({std::string(name), kind, tile, from, to});
  } else if (!buffer.overflow) {
    buffer.overflow = blocks_.size();
    blocks_.push_back({"overflow", "overflow", tile, from, to});
  } else {
    blocks_[*buffer.overflow].to = to;
  }
}

std::vector<ProfiledBlock> BlockRecorder::Take() {
  while (!open_.empty()) End();  // of a run with more steps than are listed
  std::stable_sort(blocks_.begin(), blocks_.end(), [](const ProfiledBlock& a, const ProfiledBlock& b) {
    return a.from != b.from ? a.from < b.from : a.to > b.to;
  });
  return std::exchange(blocks_, {});
}

}  // namespace ipu_model
