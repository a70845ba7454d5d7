// Log lines of Poplar and PopLibs. Source of names and levels: Graphcore's Poplar and PopLibs User Guide,
// "Environment variables". A build against the SDK replaces the implementation by the SDK's own log.
#ifndef IPU_MODEL_LOG_HPP
#define IPU_MODEL_LOG_HPP

#include <string>

namespace ipu_model {

enum class LogLevel : int { kOff, kError, kWarn, kInfo, kDebug, kTrace };

// Poplar: kEngine (loads, runs, transfers), kGraph (compilation), kTarget (devices). PopLibs: the libraries
// of the operations that are compiled, kPopOther for those that Graphcore's PopLibs lack.
enum class LogModule : int { kEngine, kGraph, kTarget, kPoplin, kPopnn, kPopops, kPopOther };

// Whether lines of this level are written. The level of a module is that of POPLAR_<MODULE>_LOG_LEVEL or
// POPLIBS_<MODULE>_LOG_LEVEL; by default that of POPLAR_LOG_LEVEL or POPLIBS_LOG_LEVEL; by default OFF. The
// variables are read once. Thread safe.
bool IsLogged(LogModule module, LogLevel level);

// Writes one line if IsLogged: time, module, process and thread, level, message. POPLAR_LOG_DEST and
// POPLIBS_LOG_DEST say where: "stderr" (the default), "stdout", or a file, to which lines are appended.
// Thread safe; processes may share a file.
void Log(LogModule module, LogLevel level, const std::string& message);

// The module of an operation, by the namespace of its kind: "popops::map" is of kPopops.
LogModule ModuleOfKind(const std::string& kind);

}  // namespace ipu_model

#endif  // IPU_MODEL_LOG_HPP
