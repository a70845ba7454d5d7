// The profile as text, in the sections that Poplar's summary has.
#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>

#include "engine/report/profile_file.h"

namespace ipu_model {
namespace {

std::string Grouped(std::uint64_t n) {
  std::string digits = std::to_string(n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string Fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return text;
}

std::string Percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? ""
                    : " (" + Fixed(100.0 * static_cast<double>(part) / static_cast<double>(whole), 1) + "%)";
}

class Text {
 public:
  void Title(const std::string& title) { out_ << (out_.tellp() > 0 ? "\n" : "") << title << ":\n"; }
  void Heading(const std::string& heading) { out_ << "  " << heading << ":\n"; }
  void Row(const std::string& name, const std::string& value, int indent = 2) {
    out_ << std::string(static_cast<std::size_t>(indent), ' ') << name << ':'
         << std::string(name.size() + static_cast<std::size_t>(indent) < 38
                            ? 38 - name.size() - static_cast<std::size_t>(indent)
                            : 1,
                        ' ')
         << value << '\n';
  }
  void Line(const std::string& line) { out_ << line << '\n'; }
  std::string Take() { return out_.str(); }

 private:
  std::ostringstream out_;
};

std::string Bytes(std::uint64_t bytes) { return Grouped(bytes) + " B"; }

void PrintTarget(const ProfileFile& file, Text* out) {
  const std::uint64_t total = file.bytes_per_tile * file.num_tiles;
  out->Title("Target");
  out->Row("Type", "IPU Model");
  out->Row("Architecture", file.architecture);
  out->Row("Number of IPUs", Grouped(file.num_ipus));
  out->Row("Tiles per IPU", Grouped(file.num_tiles / std::max(1u, file.num_ipus)));
  out->Row("Total Tiles", Grouped(file.num_tiles));
  out->Row("Memory Per-Tile", Fixed(static_cast<double>(file.bytes_per_tile) / 1024, 1) + " kB");
  out->Row("Total Memory", Fixed(static_cast<double>(total) / 1048576, 1) + " MB");
  out->Row("Clock Speed (approx)", Fixed(file.clock_hz / 1e6, 1) + " MHz");
  out->Row("Number of Replicas", Grouped(file.replicas));
}

void PrintGraph(const ProfileFile& file, Text* out) {
  out->Title("Graph");
  out->Row("Number of vertices", Grouped(file.vertices));
  out->Row("Number of edges", Grouped(file.edges));
  out->Row("Number of variables", Grouped(file.variables));
  out->Row("Number of compute sets", Grouped(file.compute_sets));
}

void PrintMemory(const ProfileFile& file, Text* out) {
  const Report& report = file.report;
  const std::uint64_t all = file.bytes_per_tile * file.num_tiles;
  out->Title("Memory Usage");
  out->Heading("Total");
  out->Row("Used", Bytes(report.total_bytes) + Percent(report.total_bytes, all), 4);
  out->Row("Available", Bytes(all), 4);
  out->Heading("By Tile");
  std::uint64_t smallest = file.tile_bytes.empty() ? 0 : static_cast<std::uint64_t>(file.tile_bytes[0]);
  unsigned out_of_memory = 0;
  for (const std::int64_t bytes : file.tile_bytes) {
    smallest = std::min(smallest, static_cast<std::uint64_t>(bytes));
    out_of_memory += static_cast<std::uint64_t>(bytes) > file.bytes_per_tile ? 1 : 0;
  }
  out->Row("Maximum",
           Bytes(report.max_tile_bytes) + Percent(report.max_tile_bytes, file.bytes_per_tile) + " on tile " +
               std::to_string(report.max_tile),
           4);
  out->Row("Minimum", Bytes(smallest) + Percent(smallest, file.bytes_per_tile), 4);
  out->Row("Tiles out of memory", Grouped(out_of_memory), 4);
  out->Heading("By Data");
  out->Row("Variables", Bytes(report.variable_bytes), 4);
  out->Row("Constants", Bytes(report.constant_bytes), 4);
  out->Row("Temporaries", Bytes(report.temporary_bytes), 4);
  out->Row("Exchange buffers", Bytes(report.exchange_buffer_bytes), 4);
  out->Row("Vertex state", Bytes(report.vertex_bytes), 4);
  out->Row("Code", Bytes(report.code_bytes), 4);
  if (!report.largest_tensors.empty()) out->Heading("Largest on tile " + std::to_string(report.max_tile));
  for (const TensorUse& tensor : report.largest_tensors)
    out->Row(tensor.name.empty() ? "(no name)" : tensor.name, Bytes(tensor.bytes_on_tile) + " " + tensor.role,
             4);
}

void PrintProgram(const ProfileFile& file, Text* out) {
  PrintTarget(file, out);
  PrintGraph(file, out);
  PrintMemory(file, out);
}

std::string Time(std::uint64_t cycles, double clock_hz) {
  return Grouped(cycles) + " (approx " + Fixed(static_cast<double>(cycles) / clock_hz * 1e6, 1) +
         " microseconds)";
}

void PrintExecution(const ProfileFile& file, bool show_steps, Text* out) {
  out->Title("Execution");
  Cycles all;
  std::uint64_t host = 0;
  std::string programs;
  for (const ProfiledRun& run : file.runs) {
    all += run.cycles;
    for (const ProfiledStep& step : run.steps) host += step.host_cycles;
    programs += (programs.empty() ? "" : ", ") + std::to_string(run.program);
  }
  out->Row("Programs executed", programs.empty() ? "none" : programs);
  out->Row("Total cycles", Time(all.total(), file.clock_hz));
  out->Row("Compute", Grouped(all.compute) + Percent(all.compute, all.total()), 4);
  out->Row("Exchange", Grouped(all.exchange) + Percent(all.exchange, all.total()), 4);
  out->Row("Sync", Grouped(all.sync) + Percent(all.sync, all.total()), 4);
  out->Row("Waiting for the host, apart", Time(host, file.clock_hz));
  std::map<std::string, std::uint64_t> kinds;
  for (const OperationCost& operation : file.report.operations)
    kinds[operation.kind] += operation.cycles.total();
  if (!kinds.empty()) out->Heading("Cycles of one run of program 0, by operation");
  for (const auto& [kind, cycles] : kinds) out->Row(kind, Grouped(cycles), 4);
  if (!show_steps) return;
  out->Heading("Steps (cycles: compute + exchange + sync)");
  for (const ProfiledRun& run : file.runs) {
    out->Line("    Program " + std::to_string(run.program) + (run.name.empty() ? "" : " " + run.name) + ": " +
              Grouped(run.cycles.total()) + " cycles");
    int depth = 6;
    for (const ProfiledStep& step : run.steps) {
      if (step.kind == "loop end") {
        depth -= 2;
        continue;
      }
      std::string line = std::string(static_cast<std::size_t>(std::max(depth, 6)), ' ') + step.kind;
      if (!step.name.empty()) line += " '" + step.name + "'";
      if (step.kind == "loop") {
        out->Line(line + ", " + Grouped(step.executions) + " trips");
        depth += 2;
        continue;
      }
      if (step.executions > 1) line += " x " + Grouped(step.executions);
      if (step.cycles.total() > 0) {
        line += ": " + Grouped(step.cycles.total()) + " cycles (" + Grouped(step.cycles.compute) + " + " +
                Grouped(step.cycles.exchange) + " + " + Grouped(step.cycles.sync) + ")";
      }
      if (step.bytes > 0) line += ", " + Bytes(step.bytes);
      if (step.host_cycles > 0) line += ", " + Grouped(step.host_cycles) + " cycles for the host";
      out->Line(line);
    }
  }
}

}  // namespace

std::string GraphSummary(const ProfileFile& file) {
  Text out;
  PrintProgram(file, &out);
  return out.Take();
}

std::string ProfileSummary(const ProfileFile& file, bool show_steps) {
  Text out;
  PrintProgram(file, &out);
  PrintExecution(file, show_steps, &out);
  return out.Take();
}

}  // namespace ipu_model
