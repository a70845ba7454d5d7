#include "engine/cost/tile_memory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "engine/cost/memory_messages.h"
#include "engine/program/host_code.h"
#include "engine/program/liveness.h"

namespace ipu_model {
namespace {

std::int64_t Align(std::int64_t bytes) { return (bytes + 7) / 8 * 8; }

// The bytes of one variable on one tile.
struct Share {
  unsigned tile;
  std::int64_t bytes;
};

std::vector<Share> SharesOf(const Variable& variable, unsigned num_tiles) {
  std::vector<Share> shares;
  const std::vector<std::int64_t> elements =
      variable.mapping.ElementsPerTile(variable.num_elements, num_tiles);
  for (unsigned tile = 0; tile < num_tiles; ++tile) {
    if (elements[tile] > 0) {
      shares.push_back({tile, Align(elements[tile] * static_cast<std::int64_t>(SizeOf(variable.type)))});
    }
  }
  return shares;
}

// The peak of one tile.
struct Peak {
  std::int64_t total = -1, variables = 0, temporaries = 0, buffers = 0;
  std::uint32_t program = 0, instruction = 0, step = 0;
};

}  // namespace

class MemoryAnalysis::Walk {
 public:
  explicit Walk(const CompiledProgram& program)
      : program_(program),
        num_tiles_(program.target.getNumTiles()),
        host_(Flatten(program)),
        shares_(program.variables.size()),
        always_(num_tiles_, 0),
        constants_(num_tiles_, 0),
        state_(num_tiles_, 0),
        code_(num_tiles_, 0),
        lasting_bytes_(num_tiles_, 0),
        live_(num_tiles_, 0),
        temporaries_(num_tiles_, 0),
        peaks_(num_tiles_) {
    for (std::size_t v = 0; v < program.variables.size(); ++v) {
      if (program.variables[v].num_elements > 0) shares_[v] = SharesOf(program.variables[v], num_tiles_);
    }
    AnalysePrograms();
    for (VariableId v = 0; v < lasting_.size(); ++v) {
      if (lasting_[v]) Add(v, 1, &lasting_bytes_);
    }
  }

  // Without `uses`, counts only variables.
  void Run(const OperationUses* uses) {
    uses_ = uses;
    lacking_.clear();
    if (uses_ != nullptr) AddStatic();
    std::fill(peaks_.begin(), peaks_.end(), Peak());
    for (std::uint32_t p = 0; p < liveness_.size(); ++p) WalkProgram(p);
    for (unsigned tile = 0; tile < num_tiles_; ++tile) Consider(tile, 0, 0, 0, 0, 0);
  }

  bool Fits() const {
    const auto limit = static_cast<std::int64_t>(program_.target.getBytesPerTile());
    return std::all_of(peaks_.begin(), peaks_.end(), [&](const Peak& peak) { return peak.total <= limit; });
  }

  std::vector<std::pair<const Operation*, std::int64_t>> LackingBuffers() const {
    std::vector<std::pair<const Operation*, std::int64_t>> lacking;
    for (const auto& [number, bytes] : lacking_) lacking.emplace_back(host_.operations[number], bytes);
    return lacking;
  }

  void Fill(Report* report) const {
    report->num_tiles = num_tiles_;
    report->limit_tile_bytes = program_.target.getBytesPerTile();
    std::vector<TileUse> tiles;
    for (unsigned tile = 0; tile < num_tiles_; ++tile) {
      const Peak& peak = peaks_[tile];
      const auto total = static_cast<std::uint64_t>(peak.total);
      tiles.push_back({tile, total});
      report->total_bytes += total;
      report->variable_bytes += static_cast<std::uint64_t>(peak.variables);
      report->temporary_bytes += static_cast<std::uint64_t>(peak.temporaries);
      report->exchange_buffer_bytes += static_cast<std::uint64_t>(peak.buffers);
      report->constant_bytes += static_cast<std::uint64_t>(constants_[tile]);
      report->vertex_bytes += static_cast<std::uint64_t>(state_[tile]);
      report->code_bytes += static_cast<std::uint64_t>(code_[tile]);
    }
    const std::size_t shown = std::min<std::size_t>(8, tiles.size());
    const auto over = std::count_if(tiles.begin(), tiles.end(),
                                    [&](const TileUse& t) { return t.bytes > report->limit_tile_bytes; });
    std::partial_sort(tiles.begin(), tiles.begin() + static_cast<std::ptrdiff_t>(shown), tiles.end(),
                      [](const TileUse& a, const TileUse& b) {
                        return a.bytes != b.bytes ? a.bytes > b.bytes : a.tile < b.tile;
                      });
    tiles.resize(shown);
    report->fullest_tiles = tiles;
    if (tiles.empty()) return;
    report->max_tile = tiles[0].tile;
    report->max_tile_bytes = tiles[0].bytes;
    report->peak_variable_bytes = static_cast<std::uint64_t>(peak_variables_);
    report->largest_tensors = TensorsOn(report->max_tile);
    const auto most_code = std::max_element(code_.begin(), code_.end());
    if (over > 0) {
      report->peak = PeakOf(*report);
      report->out_of_memory = OutOfMemoryMessage(*report, static_cast<std::uint64_t>(over),
                                                 OperationAt(peaks_[report->max_tile]));
    } else if (*most_code > CodeLimit()) {
      report->max_tile = static_cast<unsigned>(most_code - code_.begin());
      report->max_tile_bytes = static_cast<std::uint64_t>(peaks_[report->max_tile].total);
      report->largest_tensors = TensorsOn(report->max_tile);
      report->peak = PeakOf(*report);
      const auto too_many =
          std::count_if(code_.begin(), code_.end(), [&](std::int64_t b) { return b > CodeLimit(); });
      report->out_of_memory =
          OutOfCodeMessage(*report, static_cast<std::uint64_t>(too_many),
                           static_cast<std::uint64_t>(CodeLimit()), host_.operations.size());
    }
    if (report->largest_tensors.size() > 10) report->largest_tensors.resize(10);
  }

  void Profile(MemoryProfile* profile) {
    profile_ = profile;
    if (!liveness_.empty()) WalkProgram(0);  // its peaks are known already
    profile_ = nullptr;
    profile->constants = constants_;
    profile->vertex_state = state_;
    profile->code = code_;
    const Peak* fullest = nullptr;
    for (const Peak& peak : peaks_) {
      profile->variables.push_back(peak.variables);
      profile->temporaries.push_back(peak.temporaries);
      profile->buffers.push_back(peak.buffers);
      profile->total.push_back(peak.total);
      if (fullest == nullptr || peak.total > fullest->total) fullest = &peak;
    }
    if (fullest != nullptr) {
      profile->peak_program = fullest->program;
      profile->peak_instruction = fullest->instruction;
      profile->peak_step = fullest->step;
    }
    if (liveness_.empty()) return;
    const std::uint32_t begin = host_.begin[0], end = host_.begin[1];
    std::vector<MemoryProfile::Life> lives(shares_.size());
    for (VariableId v = 0; v < shares_.size(); ++v) {
      lives[v].variable = v;
      lives[v].lasting = lasting_[v];
      for (const LiveRange& r : liveness_[0].ranges[v]) {
        lives[v].live.emplace_back(r.begin / 2, r.end / 2);
      }
    }
    const std::vector<std::vector<VariableAccess>> accesses = Accesses(program_, host_, begin, end);
    for (std::uint32_t i = 0; i < accesses.size(); ++i) {
      for (const VariableAccess& a : accesses[i]) {
        if (a.read) lives[a.variable].reads.push_back(i);
        if (a.written) lives[a.variable].writes.push_back(i);
      }
    }
    for (MemoryProfile::Life& life : lives) {
      const bool constant = program_.variables[life.variable].constant != nullptr;
      if (shares_[life.variable].empty() || (life.live.empty() && !(constant && uses_ != nullptr))) continue;
      profile->lives.push_back(std::move(life));
    }
  }

  TileBytes BytesOf(VariableId v) const {
    TileBytes bytes(num_tiles_, 0);
    for (const Share& share : shares_[v]) bytes[share.tile] = share.bytes;
    return bytes;
  }

 private:
  // Adds the bytes that are always live: constants, vertex state, code.
  void AddStatic() {
    for (TileBytes* bytes : {&constants_, &state_, &code_}) std::fill(bytes->begin(), bytes->end(), 0);
    counted_.clear();
    for (std::size_t v = 0; v < shares_.size(); ++v) {
      if (program_.variables[v].constant == nullptr) continue;
      for (const Share& share : shares_[v]) constants_[share.tile] += share.bytes;
    }
    std::map<std::string, CodeletUse> codelets;
    std::uint64_t supersteps = 0;
    for (const Operation* operation : host_.operations) {
      if (!counted_.insert({operation, true}).second) continue;
      const OperationUse& use = *uses_->at(operation);
      supersteps += use.coded_steps;
      for (const CodeletUse& c : use.codelets) Merge(c, &codelets);
      for (unsigned t = 0; t < use.vertex_state.size(); ++t) state_[t] += Align(use.vertex_state[t]);
      for (unsigned t = 0; t < use.exchange_code.size(); ++t) code_[t] += use.exchange_code[t];
    }
    const TargetModel& target = program_.target.model();
    const auto control = static_cast<std::int64_t>(target.runtime_bytes +
                                                   supersteps * target.control_code_bytes_per_superstep);
    for (const auto& [name, codelet] : codelets) {
      for (unsigned t = 0; t < num_tiles_; ++t) {
        if (codelet.tiles[t]) code_[t] += static_cast<std::int64_t>(codelet.bytes);
      }
    }
    for (unsigned t = 0; t < num_tiles_; ++t) {
      code_[t] += control;
      always_[t] = constants_[t] + state_[t] + code_[t];
    }
  }

  // Any program may run after any other, so a variable that one program reads before writing it is live after
  // all programs.
  void AnalysePrograms() {
    std::vector<std::vector<std::vector<VariableAccess>>> accesses;
    const std::size_t count = program_.programs.size();
    for (std::size_t p = 0; p < count; ++p) {
      accesses.push_back(Accesses(program_, host_, host_.begin[p], host_.begin[p + 1]));
    }
    lasting_.assign(program_.variables.size(), false);
    for (bool changed = true; changed;) {
      changed = false;
      liveness_.clear();
      for (std::size_t p = 0; p < count; ++p) {
        liveness_.push_back(
            AnalyseLiveness(program_, host_, host_.begin[p], host_.begin[p + 1], accesses[p], lasting_));
      }
      for (const ProgramLiveness& l : liveness_) {
        for (const VariableId v : l.live_at_entry) {
          changed = changed || !lasting_[v];
          lasting_[v] = true;
        }
      }
    }
  }

  void Add(VariableId v, std::int64_t sign, TileBytes* live) const {
    if (program_.variables[v].constant != nullptr) return;
    for (const Share& share : shares_[v]) (*live)[share.tile] += sign * share.bytes;
  }

  void Consider(unsigned tile, std::int64_t temporaries, std::int64_t buffers, std::uint32_t program,
                std::uint32_t instruction, std::uint32_t step) {
    const std::int64_t total = always_[tile] + live_[tile] + temporaries + buffers;
    Peak& peak = peaks_[tile];
    if (total > peak.total) peak = {total, live_[tile], temporaries, buffers, program, instruction, step};
  }

  // Adds a line to the profile.
  void AddLine(const TileBytes* temporaries, const TileBytes* buffers) {
    total_.resize(num_tiles_);
    TileBytes& total = total_;
    MemoryProfile::Line line{0, 0, -1, 0};
    for (unsigned tile = 0; tile < num_tiles_; ++tile) {
      total[tile] = always_[tile] + live_[tile] + (temporaries != nullptr ? (*temporaries)[tile] : 0) +
                    (buffers != nullptr ? (*buffers)[tile] : 0);
      line.bytes += total[tile];
      if (total[tile] <= line.fullest_bytes) continue;
      line.fullest_bytes = total[tile];
      line.fullest_tile = tile;
    }
    if (!profile_->too_many_rows) {
      line.row = profile_->rows.Add(RunLengthsOf(total));
      profile_->too_many_rows = profile_->rows.num_values() > ipu_model::Profile::kMostValues;
      if (profile_->too_many_rows) profile_->rows.Take();
    }
    profile_->lines.push_back(line);
  }

  // Whether a profile has a step for the instruction, besides operations.
  static bool IsStep(OpCode code) {
    return code == OpCode::kStreamIn || code == OpCode::kStreamOut || code == OpCode::kJumpIfZero ||
           code == OpCode::kJumpIfNotZero || code == OpCode::kSwitch || code == OpCode::kAbortIfNotZero ||
           code == OpCode::kHostCall || code == OpCode::kAbort || code == OpCode::kSync;
  }

  void WalkProgram(std::uint32_t p) {
    const std::uint32_t begin = host_.begin[p], end = host_.begin[p + 1];
    const bool profiled = profile_ != nullptr && p == 0;
    if (profiled) profile_->first_line.assign(end - begin, -1);
    std::vector<std::pair<std::uint32_t, VariableId>> births, deaths;
    live_ = lasting_bytes_;
    for (VariableId v = 0; v < shares_.size(); ++v) {
      const std::vector<LiveRange>& ranges = liveness_[p].ranges[v];
      if (lasting_[v]) {
        // A program that transfers one state leaves all other states unchanged.
        if (ranges.size() == 1 && ranges[0].begin == 0 && ranges[0].end + 1 == 2 * (end - begin)) continue;
        Add(v, -1, &live_);
      }
      for (const LiveRange& r : ranges) {
        births.emplace_back(r.begin, v);
        deaths.emplace_back(r.end, v);
      }
    }
    std::sort(births.begin(), births.end());
    std::sort(deaths.begin(), deaths.end());
    std::size_t born = 0, dead = 0;
    bool grown = true;
    for (std::uint32_t i = begin; i < end; ++i) {
      const std::uint32_t reads = 2 * (i - begin), writes = reads + 1;
      for (; born < births.size() && births[born].first <= writes; ++born) {
        Add(births[born].second, 1, &live_);
        grown = true;
      }
      if (grown) {
        peak_variables_ =
            std::max(peak_variables_, std::accumulate(live_.begin(), live_.end(), std::int64_t{0}));
      }
      const bool is_operation = host_.code[i].code == OpCode::kRun;
      if (profiled && (is_operation || IsStep(host_.code[i].code))) {
        profile_->first_line[i - begin] = static_cast<std::int64_t>(profile_->lines.size());
        if (!is_operation || uses_ == nullptr) AddLine(nullptr, nullptr);
      }
      if (uses_ != nullptr && is_operation) {
        WalkOperation(host_.code[i].a, p, i);
        grown = false;
      } else if (grown) {
        for (unsigned tile = 0; tile < num_tiles_; ++tile) Consider(tile, 0, 0, p, i, 0);
        grown = false;
      }
      for (; dead < deaths.size() && deaths[dead].first <= writes; ++dead) {
        Add(deaths[dead].second, -1, &live_);
      }
    }
    std::fill(live_.begin(), live_.end(), 0);
  }

  void WalkOperation(std::uint32_t number, std::uint32_t p, std::uint32_t instruction) {
    const OperationUse& use = *uses_->at(host_.operations[number]);
    const auto limit = static_cast<std::int64_t>(program_.target.getBytesPerTile());
    for (std::uint32_t s = 0; s < std::max<std::size_t>(1, use.steps.size()); ++s) {
      bool has_temporaries = false;
      for (const TemporaryUse& t : use.temporaries) {
        if (s < t.first_step || s > t.last_step) continue;
        if (!has_temporaries) std::fill(temporaries_.begin(), temporaries_.end(), 0);
        has_temporaries = true;
        for (unsigned tile = 0; tile < num_tiles_; ++tile) temporaries_[tile] += t.bytes[tile];
      }
      const bool has_buffers = s < use.steps.size() && !use.steps[s].buffers.empty();
      if (profile_ != nullptr && p == 0) {
        AddLine(has_temporaries ? &temporaries_ : nullptr, has_buffers ? &use.steps[s].buffers : nullptr);
      }
      bool overflows = false;
      std::int64_t free = limit;
      for (unsigned tile = 0; tile < num_tiles_; ++tile) {
        const std::int64_t temporaries = has_temporaries ? temporaries_[tile] : 0;
        const std::int64_t buffers = has_buffers ? use.steps[s].buffers[tile] : 0;
        Consider(tile, temporaries, buffers, p, instruction, s);
        if (temporaries + buffers == 0) continue;
        const std::int64_t left = limit - always_[tile] - live_[tile];
        free = std::min(free, left);
        overflows = overflows || temporaries + buffers > left;
      }
      if (!overflows) continue;
      const auto [entry, is_new] = lacking_.try_emplace(number, free);
      entry->second = std::min(entry->second, free);
    }
  }

  TilePeak PeakOf(const Report& report) const {
    const Peak& peak = peaks_[report.max_tile];
    TilePeak result;
    result.variables = static_cast<std::uint64_t>(peak.variables);
    result.temporaries = static_cast<std::uint64_t>(peak.temporaries);
    result.exchange_buffers = static_cast<std::uint64_t>(peak.buffers);
    result.constants = static_cast<std::uint64_t>(constants_[report.max_tile]);
    result.vertex_state = static_cast<std::uint64_t>(state_[report.max_tile]);
    result.code = static_cast<std::uint64_t>(code_[report.max_tile]);
    result.variables_only = uses_ == nullptr;
    if (const Operation* operation = OperationAt(peak)) result.operation = operation->name;
    result.tensors = report.largest_tensors;
    return result;
  }

  // Returns the tensors on the tile, largest first.
  std::vector<TensorUse> TensorsOn(unsigned tile) const {
    std::vector<TensorUse> tensors;
    const Peak& peak = peaks_[tile];
    const auto add_variable = [&](VariableId v, const char* role) {
      TensorUse use;
      for (const Share& share : shares_[v]) {
        use.bytes += static_cast<std::uint64_t>(share.bytes);
        if (share.tile == tile) use.bytes_on_tile = static_cast<std::uint64_t>(share.bytes);
      }
      if (use.bytes_on_tile == 0) return;
      const Variable& variable = program_.variables[v];
      use.name = variable.name;
      use.dtype = NameOf(variable.type);
      use.shape = variable.shape;
      use.role = role;
      use.lasting = lasting_[v];
      tensors.push_back(std::move(use));
    };
    const bool in_program = peak.program < liveness_.size();
    const std::uint32_t reads = in_program ? 2 * (peak.instruction - host_.begin[peak.program]) : 0;
    for (VariableId v = 0; v < shares_.size(); ++v) {
      if (program_.variables[v].constant != nullptr) {
        add_variable(v, "constant");
        continue;
      }
      if (!in_program) continue;
      for (const LiveRange& r : liveness_[peak.program].ranges[v]) {
        if (r.begin <= reads + 1 && r.end >= reads) {
          add_variable(v, "variable");
          break;
        }
      }
    }
    if (const Operation* operation = uses_ != nullptr ? OperationAt(peak) : nullptr) {
      const OperationUse& use = *uses_->at(operation);
      const auto add = [&](const TileBytes& bytes, const char* role) {
        if (bytes.empty() || bytes[tile] == 0) return;
        TensorUse t;
        for (const std::int64_t b : bytes) t.bytes += static_cast<std::uint64_t>(b);
        t.bytes_on_tile = static_cast<std::uint64_t>(bytes[tile]);
        t.name = operation->name;
        t.role = role;
        tensors.push_back(std::move(t));
      };
      for (const TemporaryUse& t : use.temporaries) {
        if (peak.step >= t.first_step && peak.step <= t.last_step) add(t.bytes, "temporary");
      }
      if (peak.step < use.steps.size()) add(use.steps[peak.step].buffers, "exchange buffer");
    }
    std::stable_sort(tensors.begin(), tensors.end(), [](const TensorUse& a, const TensorUse& b) {
      return a.bytes_on_tile > b.bytes_on_tile;
    });
    return tensors;
  }

  const Operation* OperationAt(const Peak& peak) const {
    if (peak.instruction >= host_.code.size()) return nullptr;
    const HostInstruction& instruction = host_.code[peak.instruction];
    return instruction.code == OpCode::kRun ? host_.operations[instruction.a] : nullptr;
  }

  std::int64_t CodeLimit() const { return program_.target.model().instruction_fetch_bytes; }

  const CompiledProgram& program_;
  const OperationUses* uses_ = nullptr;
  MemoryProfile* profile_ = nullptr;
  const unsigned num_tiles_;
  const HostCode host_;
  std::vector<std::vector<Share>> shares_;
  TileBytes always_, constants_, state_, code_;
  // The variables that keep their contents between runs, and their bytes.
  std::vector<bool> lasting_;
  TileBytes lasting_bytes_;
  TileBytes live_, temporaries_, total_;
  std::int64_t peak_variables_ = 0;
  std::vector<Peak> peaks_;
  std::vector<ProgramLiveness> liveness_;
  std::unordered_map<const Operation*, bool> counted_;
  // Number of an operation in host_.operations -> the bytes that are left for its buffers.
  std::map<std::uint32_t, std::int64_t> lacking_;
};

MemoryAnalysis::MemoryAnalysis(const CompiledProgram& program) : walk_(std::make_unique<Walk>(program)) {}
MemoryAnalysis::~MemoryAnalysis() = default;

bool MemoryAnalysis::VariablesFit(Report* report) {
  walk_->Run(nullptr);
  if (walk_->Fits()) return true;
  walk_->Fill(report);
  return false;
}

void MemoryAnalysis::Fill(const OperationUses& uses, Report* report) {
  walk_->Run(&uses);
  walk_->Fill(report);
}

void MemoryAnalysis::Profile(MemoryProfile* profile) { walk_->Profile(profile); }

TileBytes MemoryAnalysis::BytesOf(VariableId variable) const { return walk_->BytesOf(variable); }

std::vector<std::pair<const Operation*, std::int64_t>> MemoryAnalysis::LackingBuffers() const {
  return walk_->LackingBuffers();
}

}  // namespace ipu_model
