#include "runtime/process/processor.h"

#include <cpuid.h>
#include <strings.h>

#include <cstdlib>

namespace jax_ipu {
namespace {

// Clang's __builtin_cpu_supports does not know this one.
bool HasF16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

std::string MissingInstructions() {
  std::string missing;
  const auto need = [&missing](const char* name, bool has) {
    if (!has) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  const char* limit = std::getenv("JAX_IPU_MAX_ISA");
  const bool held_to_sse2 = limit != nullptr && strcasecmp(limit, "sse2") == 0;
  // The kernels are compiled for x86-64-v3.
  need("AVX2", __builtin_cpu_supports("avx2") && !held_to_sse2);
  need("FMA", __builtin_cpu_supports("fma") && !held_to_sse2);
  need("BMI1", __builtin_cpu_supports("bmi") && !held_to_sse2);
  need("BMI2", __builtin_cpu_supports("bmi2") && !held_to_sse2);
  need("F16C", HasF16c() && !held_to_sse2);
  if (missing.empty()) return missing;
  return "The IPU model needs a processor with AVX2 and FMA (x86-64-v3: Intel Haswell, AMD Excavator or "
         "newer), but this one lacks " +
         missing + (held_to_sse2 ? ", because JAX_IPU_MAX_ISA=sse2 says so" : "") +
         ". In a virtual machine or an emulator, let it have the host's processor features";
}

}  // namespace jax_ipu
