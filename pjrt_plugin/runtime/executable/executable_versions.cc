#include "runtime/executable/executable_versions.h"

#include <atomic>

namespace jax_ipu {
namespace {

std::atomic<bool> hidden{false};

}  // namespace

void HideExecutableVersions() { hidden = true; }
bool AreExecutableVersionsHidden() { return hidden; }

}  // namespace jax_ipu
