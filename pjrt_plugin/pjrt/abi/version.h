// Version of the package, given by the build.
#ifndef JAX_IPU_PJRT_ABI_VERSION_H_
#define JAX_IPU_PJRT_ABI_VERSION_H_

#include <string_view>

namespace jax_ipu::pjrt {

#ifdef JAX_IPU_VERSION
inline constexpr std::string_view kPackageVersion = JAX_IPU_VERSION;
#else
inline constexpr std::string_view kPackageVersion = "0.0.0.dev0";
#endif

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_ABI_VERSION_H_
