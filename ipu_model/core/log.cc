#include "ipu_model/Log.hpp"

#include <fcntl.h>
#include <strings.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

namespace ipu_model {
namespace {

constexpr std::size_t kModules = 7;
constexpr std::size_t kFirstOfPopLibs = static_cast<std::size_t>(LogModule::kPoplin);
constexpr std::array<const char*, kModules> kNames = {"ENGINE", "GRAPH",  "TARGET", "POPLIN",
                                                      "POPNN",  "POPOPS", "OTHER"};
constexpr std::array<const char*, 6> kLevels = {"OFF", "ERR", "WARN", "INFO", "DEBUG", "TRACE"};

void Write(int descriptor, const std::string& line) {
  // One call per line, so that lines of several threads and processes do not mix. A full disk loses lines.
  [[maybe_unused]] const ssize_t written = write(descriptor, line.data(), line.size());
}

LogLevel LevelOf(const std::string& variable, LogLevel otherwise) {
  const char* text = std::getenv(variable.c_str());
  if (text == nullptr || *text == '\0') return otherwise;
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    if (strcasecmp(text, kLevels[i]) == 0) return static_cast<LogLevel>(i);
  }
  Write(STDERR_FILENO, variable + "='" + text +
                           "' is not a log level and has no effect. Give OFF, ERR, WARN, INFO, DEBUG or "
                           "TRACE.\n");
  return otherwise;
}

int DestinationOf(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0' || strcasecmp(text, "stderr") == 0) return STDERR_FILENO;
  if (strcasecmp(text, "stdout") == 0) return STDOUT_FILENO;
  const int file = open(text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file >= 0) return file;
  Write(STDERR_FILENO, std::string(variable) + "='" + text + "' cannot be opened; log lines go to stderr.\n");
  return STDERR_FILENO;
}

struct Settings {
  std::array<LogLevel, kModules> levels{};
  int poplar = STDERR_FILENO, poplibs = STDERR_FILENO;

  Settings() {
    bool used = false;
    for (const bool libs : {false, true}) {
      const std::string prefix = libs ? "POPLIBS_" : "POPLAR_";
      const LogLevel all = LevelOf(prefix + "LOG_LEVEL", LogLevel::kOff);
      for (std::size_t m = libs ? kFirstOfPopLibs : 0; m < (libs ? kModules : kFirstOfPopLibs); ++m) {
        levels[m] = LevelOf(prefix + kNames[m] + "_LOG_LEVEL", all);
        used = used || levels[m] != LogLevel::kOff;
      }
    }
    if (!used) return;
    poplar = DestinationOf("POPLAR_LOG_DEST");
    poplibs = DestinationOf("POPLIBS_LOG_DEST");
  }
  static const Settings& Get() {
    static const Settings settings;
    return settings;
  }
};

std::string Time() {
  timeval now{};
  gettimeofday(&now, nullptr);
  tm utc{};
  gmtime_r(&now.tv_sec, &utc);
  char text[40];
  const std::size_t size = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text + size, sizeof(text) - size, ".%06ldZ", static_cast<long>(now.tv_usec));
  return text;
}

}  // namespace

bool IsLogged(LogModule module, LogLevel level) {
  return level <= Settings::Get().levels[static_cast<std::size_t>(module)];
}

void Log(LogModule module, LogLevel level, const std::string& message) {
  if (!IsLogged(module, level)) return;
  const auto m = static_cast<std::size_t>(module);
  const bool libs = m >= kFirstOfPopLibs;
  std::string name = std::string(libs ? "PL:" : "PO:") + kNames[m];
  name.resize(11, ' ');
  const std::string line = Time() + " " + name + std::to_string(getpid()) + "." + std::to_string(gettid()) +
                           " " + kLevels[static_cast<std::size_t>(level)][0] + ": " + message + "\n";
  Write(libs ? Settings::Get().poplibs : Settings::Get().poplar, line);
}

LogModule ModuleOfKind(const std::string& kind) {
  const std::string library = kind.substr(0, kind.find("::"));
  for (std::size_t m = kFirstOfPopLibs; m < kModules; ++m) {
    if (strcasecmp(library.c_str(), kNames[m]) == 0) return static_cast<LogModule>(m);
  }
  return LogModule::kPopOther;
}

}  // namespace ipu_model
