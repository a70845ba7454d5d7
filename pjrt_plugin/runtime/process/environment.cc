#include "runtime/process/environment.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "ipu_model/Chips.hpp"

namespace jax_ipu {
namespace {

// Nothing is set to the empty string but a list.
bool Find(const char* variable, std::string* text) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return false;
  *text = value;
  return true;
}

[[noreturn]] void Refuse(const char* variable, const std::string& text, const std::string& good) {
  throw Error(Code::kInvalidArgument,
              std::string(variable) + "='" + text + "' is not valid. Give " + good + ".");
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool IsOneOf(const std::string& text, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

std::string Joined(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ", ") + name;
  return joined;
}

// -1: not a decimal number from `low` to `high`.
long Number(const std::string& text, long low, long high) {
  const bool is_number =
      !text.empty() && text.size() < 10 &&
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
  const long value = is_number ? std::stol(text) : -1;
  return value >= low && value <= high ? value : -1;
}

// White space around it is ignored, as in Python's numbers.
std::string Trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::vector<int> DeviceList(const char* variable, const std::string& text) {
  std::vector<int> ids;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const long id = Number(Trimmed(part), 0, 1 << 20);
    if (id < 0 || std::find(ids.begin(), ids.end(), id) != ids.end())
      ids.push_back(-1);
    else
      ids.push_back(static_cast<int>(id));
  }
  if (text.back() == ',' || std::find(ids.begin(), ids.end(), -1) != ids.end()) {
    Refuse(variable, text, "distinct device numbers separated by commas, e.g. 0,1");
  }
  return ids;
}

bool Boolean(const char* variable, bool otherwise) {
  std::string text;
  if (!Find(variable, &text)) return otherwise;
  const std::string word = Lower(text);
  if (IsOneOf(word, {"1", "true", "yes", "t", "on"})) return true;
  if (IsOneOf(word, {"0", "false", "no", "f", "off"})) return false;
  Refuse(variable, text, "one of 1, true, yes, t, on or 0, false, no, f, off");
}

}  // namespace

DeviceConfig ConfigFromEnvironment() {
  DeviceConfig config;
  std::string text;
  config.use_model = Boolean("JAX_IPU_USE_MODEL", config.use_model);
  if (!config.use_model) {
    throw Error(
        Code::kFailedPrecondition,
        "JAX_IPU_USE_MODEL is false, but this build of jax_ipu has no Poplar SDK and so no hardware device. "
        "Unset JAX_IPU_USE_MODEL to use the IPU model.");
  }
  if (Find("JAX_IPU_MODEL_VERSION", &text)) {
    config.version = Lower(text);
    const std::vector<std::string> chips = ipu_model::ChipNames();
    if (!IsOneOf(config.version, chips)) Refuse("JAX_IPU_MODEL_VERSION", text, "one of " + Joined(chips));
  }
  if (Find("JAX_IPU_MODEL_NUM_TILES", &text) && Lower(text) != "all" && text != "0") {
    const long most = ipu_model::MostTiles(), tiles = Number(text, 1, most);
    if (tiles < 0) {
      Refuse("JAX_IPU_MODEL_NUM_TILES", text,
             "a whole number from 1 to " + std::to_string(most) + ", or all");
    }
    config.num_tiles = static_cast<unsigned>(tiles);
  }
  if (Find("JAX_IPU_MODEL_EXECUTION", &text)) {
    config.execution = Lower(text);
    if (!IsOneOf(config.execution, {"fast", "tile", "codelets"}))
      Refuse("JAX_IPU_MODEL_EXECUTION", text, "one of fast, tile, codelets");
  }
  if (Find("JAX_IPU_TRACE_PLANES", &text)) {
    config.trace_planes = Lower(text);
    if (!IsOneOf(config.trace_planes, {"custom", "tpu"}))
      Refuse("JAX_IPU_TRACE_PLANES", text, "one of custom, tpu");
  }
  if (Find("JAX_IPU_DEVICE_COUNT", &text)) {
    const long count = Number(text, 1, 1 << 20);
    if (count < 0) Refuse("JAX_IPU_DEVICE_COUNT", text, "a whole number of at least 1");
    config.device_ids.clear();
    for (int id = 0; id < count; ++id) config.device_ids.push_back(id);
  }
  if (Find("JAX_IPU_VISIBLE_DEVICES", &text) && !Trimmed(text).empty()) {
    config.device_ids = DeviceList("JAX_IPU_VISIBLE_DEVICES", text);
  }
  if (Find("JAX_IPU_MONITOR", &text) && text.find('/') != std::string::npos) {
    config.usage_folder = text;
  } else {
    config.monitored = Boolean("JAX_IPU_MONITOR", config.monitored);
  }
  config.synthetic_data = Boolean("JAX_IPU_SYNTHETIC_DATA", config.synthetic_data);
  config.link = Boolean("JAX_IPU_LINK", config.link);
  return config;
}

}  // namespace jax_ipu
