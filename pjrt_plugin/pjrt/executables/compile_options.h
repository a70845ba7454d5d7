// The few fields of xla.CompileOptionsProto that the plugin needs, read from and written to the protobuf wire
// format.
#ifndef JAX_IPU_PJRT_EXECUTABLES_COMPILE_OPTIONS_H_
#define JAX_IPU_PJRT_EXECUTABLES_COMPILE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace jax_ipu::pjrt {

struct CompileOptions {
  int num_replicas = 1, num_partitions = 1;
  int device_ordinal = -1;  // -1: not given
  // Device ids, [replica][partition]; empty: not given.
  std::vector<std::vector<int>> device_assignment;
};

// Throws Error(kInvalidArgument) when the bytes are not a protobuf message.
CompileOptions ParseCompileOptions(std::string_view serialized);

// A serialised xla.DeviceAssignmentProto.
std::string SerializeDeviceAssignment(const std::vector<std::vector<int>>& devices);

}  // namespace jax_ipu::pjrt

#endif  // JAX_IPU_PJRT_EXECUTABLES_COMPILE_OPTIONS_H_
