// Whether executables of this process tell clients their ABI version (pjrt/abi_version.h).
#ifndef JAX_IPU_RUNTIME_EXECUTABLE_EXECUTABLE_VERSIONS_H_
#define JAX_IPU_RUNTIME_EXECUTABLE_EXECUTABLE_VERSIONS_H_

namespace jax_ipu {

// For jaxlib, which serialises executables without a version, or with one of a platform that it knows.
void HideExecutableVersions();
bool AreExecutableVersionsHidden();

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_EXECUTABLE_EXECUTABLE_VERSIONS_H_
