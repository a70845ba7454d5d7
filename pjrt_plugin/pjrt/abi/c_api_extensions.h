// The extensions of the PJRT C ABI that the plugin offers, declared from their published layout like
// c_api.h: layouts (of arrays, programs' arguments and results), shardings, ABI versions, and the profiler.
#ifndef JAX_IPU_PJRT_ABI_C_API_EXTENSIONS_H_
#define JAX_IPU_PJRT_ABI_C_API_EXTENSIONS_H_

#include <cstddef>
#include <cstdint>

#include "pjrt/abi/c_api.h"

struct PJRT_Layouts_MemoryLayout;

enum PJRT_Extension_Type : int {
  PJRT_Extension_Type_Profiler = 1,
  PJRT_Extension_Type_Layouts = 4,
  PJRT_Extension_Type_Shardings = 19,
  PJRT_Extension_Type_AbiVersion = 20
};

struct PJRT_Layouts_MemoryLayout_Destroy_Args {
  PJRT_HEAD
  PJRT_Layouts_MemoryLayout* layout;
};
PJRT_SIZE(PJRT_Layouts_MemoryLayout_Destroy_Args, layout, 24)

struct PJRT_Layouts_MemoryLayout_Serialize_Args {
  PJRT_HEAD
  PJRT_Layouts_MemoryLayout* layout;
  const char* serialized_bytes;
  std::size_t serialized_bytes_size;
  PJRT_SerializedBytes* serialized_layout;
  void (*serialized_layout_deleter)(PJRT_SerializedBytes*);
};
PJRT_SIZE(PJRT_Layouts_MemoryLayout_Serialize_Args, serialized_layout_deleter, 56)

struct PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args {
  PJRT_HEAD
  PJRT_Client* client;
  PJRT_Buffer_Type type;
  const std::int64_t* dims;
  std::size_t num_dims;
  PJRT_Layouts_MemoryLayout* layout;
};
PJRT_SIZE(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args, layout, 56)

struct PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  PJRT_Layouts_MemoryLayout* layout;
};
PJRT_SIZE(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args, layout, 32)

struct PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args {
  PJRT_HEAD
  PJRT_TopologyDescription* topology_description;
  PJRT_Buffer_Type type;
  const std::int64_t* dims;
  std::size_t num_dims;
  PJRT_Layouts_MemoryLayout* layout;
};
PJRT_SIZE(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args, layout, 56)

struct PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  std::size_t num_outputs;
  PJRT_Layouts_MemoryLayout* const* layouts;
};
PJRT_SIZE(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args, layouts, 40)

struct PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  std::size_t num_parameters;
  PJRT_Layouts_MemoryLayout* const* layouts;
};
PJRT_SIZE(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args, layouts, 40)

struct PJRT_Layouts_Extension {
  PJRT_Extension_Base base;
  PjrtEntry PJRT_Layouts_MemoryLayout_Destroy;
  PjrtEntry PJRT_Layouts_MemoryLayout_Serialize;
  PjrtEntry PJRT_Layouts_PJRT_Client_GetDefaultLayout;
  PjrtEntry PJRT_Layouts_PJRT_Buffer_MemoryLayout;
  PjrtEntry PJRT_Layouts_PJRT_Topology_GetDefaultLayout;
  PjrtEntry PJRT_Layouts_PJRT_Executable_GetOutputLayouts;
  PjrtEntry PJRT_Layouts_PJRT_Executable_GetParameterLayouts;
};
PJRT_SIZE(PJRT_Layouts_Extension, PJRT_Layouts_PJRT_Executable_GetParameterLayouts, 80)

struct PJRT_Shardings_PJRT_Executable_ParameterShardings_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  std::size_t num_parameters;
  const char* const* shardings;
  const std::size_t* sharding_sizes;
};
PJRT_SIZE(PJRT_Shardings_PJRT_Executable_ParameterShardings_Args, sharding_sizes, 48)

struct PJRT_Shardings_PJRT_Executable_OutputShardings_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  std::size_t num_outputs;
  const char* const* shardings;
  const std::size_t* sharding_sizes;
};
PJRT_SIZE(PJRT_Shardings_PJRT_Executable_OutputShardings_Args, sharding_sizes, 48)

struct PJRT_Shardings_Extension {
  PJRT_Extension_Base base;
  PjrtEntry PJRT_Shardings_PJRT_Executable_ParameterShardings;
  PjrtEntry PJRT_Shardings_PJRT_Executable_OutputShardings;
};
PJRT_SIZE(PJRT_Shardings_Extension, PJRT_Shardings_PJRT_Executable_OutputShardings, 40)

struct PJRT_RuntimeAbiVersion;
struct PJRT_ExecutableAbiVersion;

// The structs of this extension have no list of extensions.
struct PJRT_Client_RuntimeAbiVersion_Args {
  std::size_t struct_size;
  PJRT_Client* client;
  PJRT_RuntimeAbiVersion* abi_version;
};
PJRT_SIZE(PJRT_Client_RuntimeAbiVersion_Args, abi_version, 24)

struct PJRT_Executable_GetAbiVersion_Args {
  std::size_t struct_size;
  PJRT_Executable* executable;
  PJRT_ExecutableAbiVersion* abi_version;
};
PJRT_SIZE(PJRT_Executable_GetAbiVersion_Args, abi_version, 24)

struct PJRT_RuntimeAbiVersion_Destroy_Args {
  std::size_t struct_size;
  PJRT_RuntimeAbiVersion* abi_version;
};
PJRT_SIZE(PJRT_RuntimeAbiVersion_Destroy_Args, abi_version, 16)

struct PJRT_RuntimeAbiVersion_ToProto_Args {
  std::size_t struct_size;
  PJRT_RuntimeAbiVersion* abi_version;
  const char* serialized_proto;
  std::size_t serialized_proto_size;
  PJRT_SerializedBytes* serialized_proto_holder;
  void (*serialized_proto_deleter)(PJRT_SerializedBytes*);
};
PJRT_SIZE(PJRT_RuntimeAbiVersion_ToProto_Args, serialized_proto_deleter, 48)

struct PJRT_RuntimeAbiVersion_FromProto_Args {
  std::size_t struct_size;
  const char* serialized_proto;
  std::size_t serialized_proto_size;
  PJRT_RuntimeAbiVersion* abi_version;
};
PJRT_SIZE(PJRT_RuntimeAbiVersion_FromProto_Args, abi_version, 32)

struct PJRT_RuntimeAbiVersion_PlatformId_Args {
  std::size_t struct_size;
  PJRT_RuntimeAbiVersion* abi_version;
  std::uint64_t platform_id;
};
PJRT_SIZE(PJRT_RuntimeAbiVersion_PlatformId_Args, platform_id, 24)

struct PJRT_ExecutableAbiVersion_Destroy_Args {
  std::size_t struct_size;
  PJRT_ExecutableAbiVersion* abi_version;
};
PJRT_SIZE(PJRT_ExecutableAbiVersion_Destroy_Args, abi_version, 16)

struct PJRT_ExecutableAbiVersion_ToProto_Args {
  std::size_t struct_size;
  PJRT_ExecutableAbiVersion* abi_version;
  const char* serialized_proto;
  std::size_t serialized_proto_size;
  PJRT_SerializedBytes* serialized_proto_holder;
  void (*serialized_proto_deleter)(PJRT_SerializedBytes*);
};
PJRT_SIZE(PJRT_ExecutableAbiVersion_ToProto_Args, serialized_proto_deleter, 48)

struct PJRT_ExecutableAbiVersion_FromProto_Args {
  std::size_t struct_size;
  const char* serialized_proto;
  std::size_t serialized_proto_size;
  PJRT_ExecutableAbiVersion* abi_version;
};
PJRT_SIZE(PJRT_ExecutableAbiVersion_FromProto_Args, abi_version, 32)

struct PJRT_ExecutableAbiVersion_PlatformId_Args {
  std::size_t struct_size;
  PJRT_ExecutableAbiVersion* abi_version;
  std::uint64_t platform_id;
};
PJRT_SIZE(PJRT_ExecutableAbiVersion_PlatformId_Args, platform_id, 24)

struct PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime_Args {
  std::size_t struct_size;
  PJRT_RuntimeAbiVersion* abi_version;
  PJRT_RuntimeAbiVersion* other_abi_version;
};
PJRT_SIZE(PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime_Args, other_abi_version, 24)

struct PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args {
  std::size_t struct_size;
  PJRT_RuntimeAbiVersion* abi_version;
  PJRT_ExecutableAbiVersion* executable_abi_version;
};
PJRT_SIZE(PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args, executable_abi_version, 24)

struct PJRT_AbiVersion_Extension {
  PJRT_Extension_Base base;
  PjrtEntry client_runtime_abi_version;
  PjrtEntry executable_get_abi_version;
  PjrtEntry runtime_abi_version_destroy;
  PjrtEntry runtime_abi_version_is_compatible_with_runtime;
  PjrtEntry runtime_abi_version_is_compatible_with_executable;
  PjrtEntry runtime_abi_version_to_proto;
  PjrtEntry runtime_abi_version_platform_id;
  PjrtEntry executable_abi_version_destroy;
  PjrtEntry executable_abi_version_to_proto;
  PjrtEntry executable_abi_version_platform_id;
  PjrtEntry runtime_abi_version_from_proto;
  PjrtEntry executable_abi_version_from_proto;
};
PJRT_SIZE(PJRT_AbiVersion_Extension, executable_abi_version_from_proto, 120)

// The profiler. Callers leave struct_size unset in most of these structs, so it must not be read.
struct PLUGIN_Profiler;
struct PLUGIN_Profiler_Error;

struct PLUGIN_Profiler_Error_Destroy_Args {
  std::size_t struct_size;
  void* priv;
  PLUGIN_Profiler_Error* error;
};

struct PLUGIN_Profiler_Error_Message_Args {
  std::size_t struct_size;
  void* priv;
  const PLUGIN_Profiler_Error* error;
  const char* message;
  std::size_t message_size;
};

struct PLUGIN_Profiler_Error_GetCode_Args {
  std::size_t struct_size;
  void* priv;
  const PLUGIN_Profiler_Error* error;
  int code;
};

struct PLUGIN_Profiler_Create_Args {
  std::size_t struct_size;
  const char* options;  // a serialised tensorflow.ProfileOptions
  std::size_t options_size;
  PLUGIN_Profiler* profiler;
};

struct PLUGIN_Profiler_Destroy_Args {
  std::size_t struct_size;
  PLUGIN_Profiler* profiler;
};

struct PLUGIN_Profiler_Start_Args {
  std::size_t struct_size;
  PLUGIN_Profiler* profiler;
};

struct PLUGIN_Profiler_Stop_Args {
  std::size_t struct_size;
  PLUGIN_Profiler* profiler;
};

struct PLUGIN_Profiler_CollectData_Args {
  std::size_t struct_size;
  PLUGIN_Profiler* profiler;
  std::uint8_t* buffer;
  std::size_t buffer_size_in_bytes;
};

// Newer versions of the struct have more functions, which callers use only if struct_size includes them.
struct PLUGIN_Profiler_Api {
  std::size_t struct_size;
  void* priv;
  void (*error_destroy)(PLUGIN_Profiler_Error_Destroy_Args*);
  void (*error_message)(PLUGIN_Profiler_Error_Message_Args*);
  PLUGIN_Profiler_Error* (*error_get_code)(PLUGIN_Profiler_Error_GetCode_Args*);
  PLUGIN_Profiler_Error* (*create)(PLUGIN_Profiler_Create_Args*);
  PLUGIN_Profiler_Error* (*destroy)(PLUGIN_Profiler_Destroy_Args*);
  PLUGIN_Profiler_Error* (*start)(PLUGIN_Profiler_Start_Args*);
  PLUGIN_Profiler_Error* (*stop)(PLUGIN_Profiler_Stop_Args*);
  PLUGIN_Profiler_Error* (*collect_data)(PLUGIN_Profiler_CollectData_Args*);
};
static_assert(sizeof(PLUGIN_Profiler_Api) == 80, "the layout of the ABI");

struct PJRT_Profiler_Extension {
  PJRT_Extension_Base base;
  PLUGIN_Profiler_Api* profiler_api;
  std::int64_t traceme_context_id;
};
PJRT_SIZE(PJRT_Profiler_Extension, traceme_context_id, 40)

#endif  // JAX_IPU_PJRT_ABI_C_API_EXTENSIONS_H_
