#include "engine/cost/memory_messages.h"

#include <algorithm>
#include <cstdio>

namespace ipu_model {
namespace {

std::string Size(std::uint64_t bytes) {
  char text[64];
  if (bytes < 10 * 1024) {
    std::snprintf(text, sizeof(text), "%llu B", static_cast<unsigned long long>(bytes));
  } else if (bytes < 10 * 1024 * 1024) {
    std::snprintf(text, sizeof(text), "%.1f KiB", static_cast<double>(bytes) / 1024);
  } else {
    std::snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / (1024 * 1024));
  }
  return text;
}

}  // namespace

std::string OutOfMemoryMessage(const Report& report, std::uint64_t over, const Operation* operation) {
  const TilePeak& peak = report.peak;
  std::string text = "out of IPU memory: " + std::to_string(over) + " of " +
                     std::to_string(report.num_tiles) + " tiles need more than their " +
                     Size(report.limit_tile_bytes) + (peak.variables_only ? " for variables alone" : "") +
                     ".\nThe worst is tile " + std::to_string(report.max_tile) + ": ";
  if (peak.variables_only) {
    text += Size(report.max_tile_bytes) + " of variables";
  } else {
    text += Size(report.max_tile_bytes) + " = variables " + Size(peak.variables) + " + temporaries " +
            Size(peak.temporaries) + " + exchange buffers " + Size(peak.exchange_buffers) + " + constants " +
            Size(peak.constants) + " + vertex state " + Size(peak.vertex_state) + " + code " +
            Size(peak.code);
  }
  if (operation != nullptr) {
    text += ", during '" + operation->name + "' (" + std::string(operation->kind()) + ")";
  }
  text += ".\nFullest tiles:";
  for (const TileUse& t : report.fullest_tiles) {
    text += " " + std::to_string(t.tile) + ": " + Size(t.bytes) + ";";
  }
  text.back() = '.';
  text += "\nLargest tensors on tile " + std::to_string(report.max_tile) + " at that moment:";
  for (std::size_t i = 0; i < std::min<std::size_t>(10, report.largest_tensors.size()); ++i) {
    const TensorUse& t = report.largest_tensors[i];
    text += "\n  " + Size(t.bytes_on_tile) + " here, " + Size(t.bytes) + " in all: " + t.role + " '" +
            t.name + "'";
    if (t.dtype.empty()) continue;
    text += " " + t.dtype + "[";
    for (std::size_t d = 0; d < t.shape.size(); ++d) {
      text += (d ? "," : "") + std::to_string(t.shape[d]);
    }
    text += "]";
  }
  return text;
}

std::string OutOfCodeMessage(const Report& report, std::uint64_t over, std::uint64_t limit,
                             std::size_t operations) {
  return "out of IPU memory: " + std::to_string(over) + " of " + std::to_string(report.num_tiles) +
         " tiles need more code than the " + Size(limit) +
         " of their memory that instructions can be in.\nThe worst is tile " +
         std::to_string(report.max_tile) + ": " + Size(report.peak.code) + " of code for " +
         std::to_string(operations) + " operations, and " + Size(report.max_tile_bytes - report.peak.code) +
         " of data.";
}

}  // namespace ipu_model
