// The part of the PJRT C ABI that the plugin speaks, declared from its published layout: names, order and
// sizes are facts of the interface (openxla/xla, PJRT C API 0.93). tests/pjrt/test_pjrt_abi.py checks every
// struct against an independent table of the ABI; api.cc checks the caller's struct sizes at run time. Valid
// C11 too, for clients.
#ifndef JAX_IPU_PJRT_ABI_C_API_H_
#define JAX_IPU_PJRT_ABI_C_API_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define PJRT_ENUM : int
#else
#define PJRT_ENUM
#endif

// Opaque to the caller, except that the first word of an error and of a memory is a pointer to a function
// table or null: see error.h and memory.h.
typedef struct PJRT_Error PJRT_Error;
typedef struct PJRT_Event PJRT_Event;
typedef struct PJRT_Client PJRT_Client;
typedef struct PJRT_Device PJRT_Device;
typedef struct PJRT_DeviceDescription PJRT_DeviceDescription;
typedef struct PJRT_Device_Attributes PJRT_Device_Attributes;
typedef struct PJRT_Memory PJRT_Memory;
typedef struct PJRT_Buffer PJRT_Buffer;
typedef struct PJRT_Executable PJRT_Executable;
typedef struct PJRT_LoadedExecutable PJRT_LoadedExecutable;
typedef struct PJRT_TopologyDescription PJRT_TopologyDescription;
typedef struct PJRT_ExecuteContext PJRT_ExecuteContext;
typedef struct PJRT_LoadOptions PJRT_LoadOptions;
typedef struct PJRT_AsyncHostToDeviceTransferManager PJRT_AsyncHostToDeviceTransferManager;
// Memory handed to the caller together with the function that frees it.
typedef struct PJRT_SerializedBytes PJRT_SerializedBytes;

typedef int PJRT_Error_Code;  // values: jax_ipu::Code

typedef enum PJRT_NamedValue_Type PJRT_ENUM {
  PJRT_NamedValue_kString = 0,
  PJRT_NamedValue_kInt64,
  PJRT_NamedValue_kInt64List,
  PJRT_NamedValue_kFloat,
  PJRT_NamedValue_kBool
} PJRT_NamedValue_Type;

typedef enum PJRT_Buffer_Type PJRT_ENUM {
  PJRT_Buffer_Type_INVALID = 0,
  PJRT_Buffer_Type_PRED,
  PJRT_Buffer_Type_S8,
  PJRT_Buffer_Type_S16,
  PJRT_Buffer_Type_S32,
  PJRT_Buffer_Type_S64,
  PJRT_Buffer_Type_U8,
  PJRT_Buffer_Type_U16,
  PJRT_Buffer_Type_U32,
  PJRT_Buffer_Type_U64,
  PJRT_Buffer_Type_F16,
  PJRT_Buffer_Type_F32,
  PJRT_Buffer_Type_F64,
  PJRT_Buffer_Type_BF16,
  PJRT_Buffer_Type_C64,
  PJRT_Buffer_Type_C128,
  PJRT_Buffer_Type_F8E5M2,
  PJRT_Buffer_Type_F8E4M3FN,
  PJRT_Buffer_Type_F8E4M3B11FNUZ,
  PJRT_Buffer_Type_F8E5M2FNUZ,
  PJRT_Buffer_Type_F8E4M3FNUZ,
  PJRT_Buffer_Type_S4,
  PJRT_Buffer_Type_U4,
  PJRT_Buffer_Type_TOKEN,
  PJRT_Buffer_Type_S2,
  PJRT_Buffer_Type_U2,
  PJRT_Buffer_Type_F8E4M3,
  PJRT_Buffer_Type_F8E3M4,
  PJRT_Buffer_Type_F8E8M0FNU,
  PJRT_Buffer_Type_F4E2M1FN,
  PJRT_Buffer_Type_S1,
  PJRT_Buffer_Type_U1,
  PJRT_Buffer_Type_F6E2M3FN,
  PJRT_Buffer_Type_F6E3M2FN
} PJRT_Buffer_Type;

typedef enum PJRT_HostBufferSemantics PJRT_ENUM {
  PJRT_HostBufferSemantics_kImmutableOnlyDuringCall = 0,
  PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes,
  PJRT_HostBufferSemantics_kImmutableZeroCopy,
  PJRT_HostBufferSemantics_kMutableZeroCopy
} PJRT_HostBufferSemantics;

typedef enum PJRT_Buffer_MemoryLayout_Type PJRT_ENUM {
  PJRT_Buffer_MemoryLayout_Type_Tiled = 0,
  PJRT_Buffer_MemoryLayout_Type_Strides
} PJRT_Buffer_MemoryLayout_Type;

#define PJRT_HEAD     \
  size_t struct_size; \
  struct PJRT_Extension_Base* extension_start;

#ifdef __cplusplus
// `full`: bytes of the struct at the newest version known here; `oldest`: bytes that a caller must at least
// have.
template <typename Struct>
struct PjrtStructSize;

#define PJRT_SIZE(Struct, last, size)                                            \
  static_assert(offsetof(Struct, last) + sizeof(Struct::last) == size, #Struct); \
  template <>                                                                    \
  struct PjrtStructSize<Struct> {                                                \
    static constexpr size_t full = size, oldest = size;                          \
  };
// For a struct that has grown: `first_last` is the last field that every supported caller has.
#define PJRT_SIZE_FROM(Struct, first_last, last, size)                                                       \
  static_assert(offsetof(Struct, last) + sizeof(Struct::last) == size, #Struct);                             \
  template <>                                                                                                \
  struct PjrtStructSize<Struct> {                                                                            \
    static constexpr size_t full = size, oldest = offsetof(Struct, first_last) + sizeof(Struct::first_last); \
  };
#else
// A client in C sets struct_size to <struct>_SIZE.
#define PJRT_SIZE(Struct, last, size) \
  typedef struct Struct Struct;       \
  enum { Struct##_SIZE = size };      \
  _Static_assert(offsetof(Struct, last) + sizeof(((Struct*)0)->last) == size, #Struct);
#define PJRT_SIZE_FROM(Struct, first_last, last, size) PJRT_SIZE(Struct, last, size)
#endif

struct PJRT_Extension_Base {
  size_t struct_size;
  int type;
  struct PJRT_Extension_Base* next;
};
PJRT_SIZE(PJRT_Extension_Base, next, 24)

struct PJRT_Api_Version {
  PJRT_HEAD
  int major_version;
  int minor_version;
};
PJRT_SIZE(PJRT_Api_Version, minor_version, 24)

struct PJRT_NamedValue {
  PJRT_HEAD
  const char* name;
  size_t name_size;
  PJRT_NamedValue_Type type;
  union {
    const char* string_value;
    int64_t int64_value;
    const int64_t* int64_array_value;
    float float_value;
    bool bool_value;
  };
  size_t value_size;
};
PJRT_SIZE(PJRT_NamedValue, value_size, 56)

struct PJRT_Program {
  PJRT_HEAD
  char* code;
  size_t code_size;
  const char* format;
  size_t format_size;
};
PJRT_SIZE(PJRT_Program, format_size, 48)

struct PJRT_Buffer_MemoryLayout_Tiled {
  PJRT_HEAD
  const int64_t* minor_to_major;
  size_t minor_to_major_size;
  const int64_t* tile_dims;
  const size_t* tile_dim_sizes;
  size_t num_tiles;
};
PJRT_SIZE(PJRT_Buffer_MemoryLayout_Tiled, num_tiles, 56)

struct PJRT_Buffer_MemoryLayout_Strides {
  PJRT_HEAD
  const int64_t* byte_strides;
  size_t num_byte_strides;
};
PJRT_SIZE(PJRT_Buffer_MemoryLayout_Strides, num_byte_strides, 32)

struct PJRT_Buffer_MemoryLayout {
  PJRT_HEAD
  union {
    PJRT_Buffer_MemoryLayout_Tiled tiled;
    PJRT_Buffer_MemoryLayout_Strides strides;
  };
  PJRT_Buffer_MemoryLayout_Type type;
};
PJRT_SIZE(PJRT_Buffer_MemoryLayout, type, 76)

struct PJRT_ShapeSpec {
  PJRT_HEAD
  const int64_t* dims;
  size_t num_dims;
  PJRT_Buffer_Type element_type;
};
PJRT_SIZE(PJRT_ShapeSpec, element_type, 36)

struct PJRT_ExecuteOptions {
  PJRT_HEAD
  void* const* send_callbacks;
  void* const* recv_callbacks;
  size_t num_send_ops;
  size_t num_recv_ops;
  int launch_id;
  const int64_t* non_donatable_input_indices;
  size_t num_non_donatable_input_indices;
  PJRT_ExecuteContext* context;
  const char* call_location;
  size_t num_tasks;
  const int* task_ids;
  const int64_t* incarnation_ids;
  void* multi_slice_config;
  bool use_major_to_minor_data_layout_for_callbacks;
  void* const* hlo_output_callbacks;
  size_t num_hlo_output_callbacks;
};
PJRT_SIZE_FROM(PJRT_ExecuteOptions, num_non_donatable_input_indices, num_hlo_output_callbacks, 144)

// Error

struct PJRT_Error_Destroy_Args {
  PJRT_HEAD
  PJRT_Error* error;
};
PJRT_SIZE(PJRT_Error_Destroy_Args, error, 24)

struct PJRT_Error_Message_Args {
  PJRT_HEAD
  PJRT_Error* error;
  const char* message;
  size_t message_size;
};
PJRT_SIZE(PJRT_Error_Message_Args, message_size, 40)

struct PJRT_Error_GetCode_Args {
  PJRT_HEAD
  PJRT_Error* error;
  PJRT_Error_Code code;
};
PJRT_SIZE(PJRT_Error_GetCode_Args, code, 28)

// Plugin

struct PJRT_Plugin_Initialize_Args {
  PJRT_HEAD
};
PJRT_SIZE(PJRT_Plugin_Initialize_Args, extension_start, 16)

struct PJRT_Plugin_Attributes_Args {
  PJRT_HEAD
  const PJRT_NamedValue* attributes;
  size_t num_attributes;
};
PJRT_SIZE(PJRT_Plugin_Attributes_Args, num_attributes, 32)

// Event

struct PJRT_Event_Destroy_Args {
  PJRT_HEAD
  PJRT_Event* event;
};
PJRT_SIZE(PJRT_Event_Destroy_Args, event, 24)

struct PJRT_Event_IsReady_Args {
  PJRT_HEAD
  PJRT_Event* event;
  bool is_ready;
};
PJRT_SIZE(PJRT_Event_IsReady_Args, is_ready, 25)

struct PJRT_Event_Error_Args {
  PJRT_HEAD
  PJRT_Event* event;
};
PJRT_SIZE(PJRT_Event_Error_Args, event, 24)

struct PJRT_Event_Await_Args {
  PJRT_HEAD
  PJRT_Event* event;
};
PJRT_SIZE(PJRT_Event_Await_Args, event, 24)

struct PJRT_Event_OnReady_Args {
  PJRT_HEAD
  PJRT_Event* event;
  void (*callback)(PJRT_Error* error, void* user_arg);
  void* user_arg;
};
PJRT_SIZE(PJRT_Event_OnReady_Args, user_arg, 40)

// Client

// What jax.distributed shares between processes. Valid only when the options say that there are several.
typedef PJRT_Error* (*PJRT_CallbackError)(PJRT_Error_Code code, const char* message, size_t message_size);

struct PJRT_KeyValueGetCallback_Args {
  PJRT_HEAD
  const char* key;
  size_t key_size;
  int timeout_in_ms;
  PJRT_CallbackError* callback_error;
  void* user_arg;
  char* value;
  size_t value_size;
  void (*value_deleter_callback)(char* value);
};
PJRT_SIZE(PJRT_KeyValueGetCallback_Args, value_deleter_callback, 80)

struct PJRT_KeyValuePutCallback_Args {
  PJRT_HEAD
  const char* key;
  size_t key_size;
  const char* value;
  size_t value_size;
  PJRT_CallbackError* callback_error;
  void* user_arg;
};
PJRT_SIZE(PJRT_KeyValuePutCallback_Args, user_arg, 64)

struct PJRT_Client_Create_Args {
  PJRT_HEAD
  const PJRT_NamedValue* create_options;
  size_t num_options;
  PJRT_Error* (*kv_get_callback)(PJRT_KeyValueGetCallback_Args* args);
  void* kv_get_user_arg;
  PJRT_Error* (*kv_put_callback)(PJRT_KeyValuePutCallback_Args* args);
  void* kv_put_user_arg;
  PJRT_Client* client;
  void* kv_try_get_callback;
  void* kv_try_get_user_arg;
};
PJRT_SIZE_FROM(PJRT_Client_Create_Args, client, kv_try_get_user_arg, 88)

struct PJRT_Client_Destroy_Args {
  PJRT_HEAD
  PJRT_Client* client;
};
PJRT_SIZE(PJRT_Client_Destroy_Args, client, 24)

struct PJRT_Client_PlatformName_Args {
  PJRT_HEAD
  PJRT_Client* client;
  const char* platform_name;
  size_t platform_name_size;
};
PJRT_SIZE(PJRT_Client_PlatformName_Args, platform_name_size, 40)

struct PJRT_Client_ProcessIndex_Args {
  PJRT_HEAD
  PJRT_Client* client;
  int process_index;
};
PJRT_SIZE(PJRT_Client_ProcessIndex_Args, process_index, 28)

struct PJRT_ProcessInfo {
  size_t struct_size;
  int task_id;
  size_t incarnation_id;
  int state;  // 0 unspecified, 1 uninitialised, 2 disconnected, 3 connected, 4 error
  PJRT_Error_Code error_code;
  const char* error_message;
  size_t error_message_size;
};
PJRT_SIZE(PJRT_ProcessInfo, error_message_size, 48)

struct PJRT_Client_UpdateGlobalProcessInfo_Args {
  PJRT_HEAD
  PJRT_Client* client;
  const PJRT_ProcessInfo* process_infos;
  size_t num_process_infos;
};
PJRT_SIZE(PJRT_Client_UpdateGlobalProcessInfo_Args, num_process_infos, 40)

struct PJRT_Client_PlatformVersion_Args {
  PJRT_HEAD
  PJRT_Client* client;
  const char* platform_version;
  size_t platform_version_size;
};
PJRT_SIZE(PJRT_Client_PlatformVersion_Args, platform_version_size, 40)

struct PJRT_Client_Devices_Args {
  PJRT_HEAD
  PJRT_Client* client;
  PJRT_Device* const* devices;
  size_t num_devices;
};
PJRT_SIZE(PJRT_Client_Devices_Args, num_devices, 40)

struct PJRT_Client_AddressableDevices_Args {
  PJRT_HEAD
  PJRT_Client* client;
  PJRT_Device* const* addressable_devices;
  size_t num_addressable_devices;
};
PJRT_SIZE(PJRT_Client_AddressableDevices_Args, num_addressable_devices, 40)

struct PJRT_Client_LookupDevice_Args {
  PJRT_HEAD
  PJRT_Client* client;
  int id;
  PJRT_Device* device;
};
PJRT_SIZE(PJRT_Client_LookupDevice_Args, device, 40)

struct PJRT_Client_LookupAddressableDevice_Args {
  PJRT_HEAD
  PJRT_Client* client;
  int local_hardware_id;
  PJRT_Device* addressable_device;
};
PJRT_SIZE(PJRT_Client_LookupAddressableDevice_Args, addressable_device, 40)

struct PJRT_Client_AddressableMemories_Args {
  PJRT_HEAD
  PJRT_Client* client;
  PJRT_Memory* const* addressable_memories;
  size_t num_addressable_memories;
};
PJRT_SIZE(PJRT_Client_AddressableMemories_Args, num_addressable_memories, 40)

struct PJRT_Client_Compile_Args {
  PJRT_HEAD
  PJRT_Client* client;
  PJRT_Program* program;
  const char* compile_options;
  size_t compile_options_size;
  PJRT_LoadedExecutable* executable;
};
PJRT_SIZE(PJRT_Client_Compile_Args, executable, 56)

struct PJRT_Client_DefaultDeviceAssignment_Args {
  PJRT_HEAD
  PJRT_Client* client;
  int num_replicas;
  int num_partitions;
  size_t default_assignment_size;
  int* default_assignment;
};
PJRT_SIZE(PJRT_Client_DefaultDeviceAssignment_Args, default_assignment, 48)

struct PJRT_Client_BufferFromHostBuffer_Args {
  PJRT_HEAD
  PJRT_Client* client;
  const void* data;
  PJRT_Buffer_Type type;
  const int64_t* dims;
  size_t num_dims;
  const int64_t* byte_strides;
  size_t num_byte_strides;
  PJRT_HostBufferSemantics host_buffer_semantics;
  PJRT_Device* device;
  PJRT_Memory* memory;
  PJRT_Buffer_MemoryLayout* device_layout;
  PJRT_Event* done_with_host_buffer;
  PJRT_Buffer* buffer;
};
PJRT_SIZE(PJRT_Client_BufferFromHostBuffer_Args, buffer, 120)

// DeviceDescription

struct PJRT_DeviceDescription_Id_Args {
  PJRT_HEAD
  PJRT_DeviceDescription* device_description;
  int id;
};
PJRT_SIZE(PJRT_DeviceDescription_Id_Args, id, 28)

struct PJRT_DeviceDescription_ProcessIndex_Args {
  PJRT_HEAD
  PJRT_DeviceDescription* device_description;
  int process_index;
};
PJRT_SIZE(PJRT_DeviceDescription_ProcessIndex_Args, process_index, 28)

struct PJRT_DeviceDescription_Attributes_Args {
  PJRT_HEAD
  PJRT_DeviceDescription* device_description;
  size_t num_attributes;
  const PJRT_NamedValue* attributes;
};
PJRT_SIZE(PJRT_DeviceDescription_Attributes_Args, attributes, 40)

struct PJRT_DeviceDescription_Kind_Args {
  PJRT_HEAD
  PJRT_DeviceDescription* device_description;
  const char* device_kind;
  size_t device_kind_size;
};
PJRT_SIZE(PJRT_DeviceDescription_Kind_Args, device_kind_size, 40)

struct PJRT_DeviceDescription_DebugString_Args {
  PJRT_HEAD
  PJRT_DeviceDescription* device_description;
  const char* debug_string;
  size_t debug_string_size;
};
PJRT_SIZE(PJRT_DeviceDescription_DebugString_Args, debug_string_size, 40)

struct PJRT_DeviceDescription_ToString_Args {
  PJRT_HEAD
  PJRT_DeviceDescription* device_description;
  const char* to_string;
  size_t to_string_size;
};
PJRT_SIZE(PJRT_DeviceDescription_ToString_Args, to_string_size, 40)

// Device

struct PJRT_Device_GetDescription_Args {
  PJRT_HEAD
  PJRT_Device* device;
  PJRT_DeviceDescription* device_description;
};
PJRT_SIZE(PJRT_Device_GetDescription_Args, device_description, 32)

struct PJRT_Device_IsAddressable_Args {
  PJRT_HEAD
  PJRT_Device* device;
  bool is_addressable;
};
PJRT_SIZE(PJRT_Device_IsAddressable_Args, is_addressable, 25)

struct PJRT_Device_LocalHardwareId_Args {
  PJRT_HEAD
  PJRT_Device* device;
  int local_hardware_id;
};
PJRT_SIZE(PJRT_Device_LocalHardwareId_Args, local_hardware_id, 28)

struct PJRT_Device_AddressableMemories_Args {
  PJRT_HEAD
  PJRT_Device* device;
  PJRT_Memory* const* memories;
  size_t num_memories;
};
PJRT_SIZE(PJRT_Device_AddressableMemories_Args, num_memories, 40)

struct PJRT_Device_DefaultMemory_Args {
  PJRT_HEAD
  PJRT_Device* device;
  PJRT_Memory* memory;
};
PJRT_SIZE(PJRT_Device_DefaultMemory_Args, memory, 32)

struct PJRT_Device_MemoryStats_Args {
  PJRT_HEAD
  PJRT_Device* device;
  int64_t bytes_in_use;
  int64_t peak_bytes_in_use;
  bool peak_bytes_in_use_is_set;
  int64_t num_allocs;
  bool num_allocs_is_set;
  int64_t largest_alloc_size;
  bool largest_alloc_size_is_set;
  int64_t bytes_limit;
  bool bytes_limit_is_set;
  int64_t bytes_reserved;
  bool bytes_reserved_is_set;
  int64_t peak_bytes_reserved;
  bool peak_bytes_reserved_is_set;
  int64_t bytes_reservable_limit;
  bool bytes_reservable_limit_is_set;
  int64_t largest_free_block_bytes;
  bool largest_free_block_bytes_is_set;
  int64_t pool_bytes;
  bool pool_bytes_is_set;
  int64_t peak_pool_bytes;
  bool peak_pool_bytes_is_set;
  int64_t peak_allocated_bytes;
  bool peak_allocated_bytes_is_set;
};
PJRT_SIZE_FROM(PJRT_Device_MemoryStats_Args, peak_pool_bytes_is_set, peak_allocated_bytes_is_set, 201)

// Memory

struct PJRT_Memory_Id_Args {
  PJRT_HEAD
  PJRT_Memory* memory;
  int id;
};
PJRT_SIZE(PJRT_Memory_Id_Args, id, 28)

struct PJRT_Memory_Kind_Args {
  PJRT_HEAD
  PJRT_Memory* memory;
  const char* kind;
  size_t kind_size;
};
PJRT_SIZE(PJRT_Memory_Kind_Args, kind_size, 40)

struct PJRT_Memory_DebugString_Args {
  PJRT_HEAD
  PJRT_Memory* memory;
  const char* debug_string;
  size_t debug_string_size;
};
PJRT_SIZE(PJRT_Memory_DebugString_Args, debug_string_size, 40)

struct PJRT_Memory_ToString_Args {
  PJRT_HEAD
  PJRT_Memory* memory;
  const char* to_string;
  size_t to_string_size;
};
PJRT_SIZE(PJRT_Memory_ToString_Args, to_string_size, 40)

struct PJRT_Memory_AddressableByDevices_Args {
  PJRT_HEAD
  PJRT_Memory* memory;
  PJRT_Device* const* devices;
  size_t num_devices;
};
PJRT_SIZE(PJRT_Memory_AddressableByDevices_Args, num_devices, 40)

// Executable

struct PJRT_Executable_Destroy_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
};
PJRT_SIZE(PJRT_Executable_Destroy_Args, executable, 24)

struct PJRT_Executable_Name_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  const char* executable_name;
  size_t executable_name_size;
};
PJRT_SIZE(PJRT_Executable_Name_Args, executable_name_size, 40)

struct PJRT_Executable_NumReplicas_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  size_t num_replicas;
};
PJRT_SIZE(PJRT_Executable_NumReplicas_Args, num_replicas, 32)

struct PJRT_Executable_NumPartitions_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  size_t num_partitions;
};
PJRT_SIZE(PJRT_Executable_NumPartitions_Args, num_partitions, 32)

struct PJRT_Executable_NumOutputs_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  size_t num_outputs;
};
PJRT_SIZE(PJRT_Executable_NumOutputs_Args, num_outputs, 32)

struct PJRT_Executable_SizeOfGeneratedCodeInBytes_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  int64_t size_in_bytes;
};
PJRT_SIZE(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args, size_in_bytes, 32)

struct PJRT_Executable_GetCostAnalysis_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  size_t num_properties;
  const PJRT_NamedValue* properties;
};
PJRT_SIZE(PJRT_Executable_GetCostAnalysis_Args, properties, 40)

struct PJRT_Executable_OutputMemoryKinds_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  size_t num_outputs;
  const char* const* memory_kinds;
  const size_t* memory_kind_sizes;
};
PJRT_SIZE(PJRT_Executable_OutputMemoryKinds_Args, memory_kind_sizes, 48)

struct PJRT_Executable_OptimizedProgram_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  PJRT_Program* program;
};
PJRT_SIZE(PJRT_Executable_OptimizedProgram_Args, program, 32)

struct PJRT_Executable_Serialize_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  const char* serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_SerializedBytes* serialized_executable;
  void (*serialized_executable_deleter)(PJRT_SerializedBytes*);
};
PJRT_SIZE(PJRT_Executable_Serialize_Args, serialized_executable_deleter, 56)

// LoadedExecutable

struct PJRT_LoadedExecutable_Destroy_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable* executable;
};
PJRT_SIZE(PJRT_LoadedExecutable_Destroy_Args, executable, 24)

struct PJRT_LoadedExecutable_GetExecutable_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable* loaded_executable;
  PJRT_Executable* executable;
};
PJRT_SIZE(PJRT_LoadedExecutable_GetExecutable_Args, executable, 32)

struct PJRT_LoadedExecutable_AddressableDevices_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable* executable;
  PJRT_Device* const* addressable_devices;
  size_t num_addressable_devices;
};
PJRT_SIZE(PJRT_LoadedExecutable_AddressableDevices_Args, num_addressable_devices, 40)

struct PJRT_LoadedExecutable_Delete_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable* executable;
};
PJRT_SIZE(PJRT_LoadedExecutable_Delete_Args, executable, 24)

struct PJRT_LoadedExecutable_IsDeleted_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable* executable;
  bool is_deleted;
};
PJRT_SIZE(PJRT_LoadedExecutable_IsDeleted_Args, is_deleted, 25)

struct PJRT_LoadedExecutable_Execute_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable* executable;
  PJRT_ExecuteOptions* options;
  PJRT_Buffer* const* const* argument_lists;
  size_t num_devices;
  size_t num_args;
  PJRT_Buffer** const* output_lists;
  PJRT_Event** device_complete_events;
  PJRT_Device* execute_device;
};
PJRT_SIZE(PJRT_LoadedExecutable_Execute_Args, execute_device, 80)

// Executable

struct PJRT_Executable_DeserializeAndLoad_Args {
  PJRT_HEAD
  PJRT_Client* client;
  const char* serialized_executable;
  size_t serialized_executable_size;
  PJRT_LoadedExecutable* loaded_executable;
  const char* overridden_serialized_compile_options;
  size_t overridden_serialized_compile_options_size;
  PJRT_LoadOptions* load_options;
};
PJRT_SIZE_FROM(PJRT_Executable_DeserializeAndLoad_Args, loaded_executable, load_options, 72)

// LoadedExecutable

struct PJRT_LoadedExecutable_Fingerprint_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable* executable;
  const char* executable_fingerprint;
  size_t executable_fingerprint_size;
};
PJRT_SIZE(PJRT_LoadedExecutable_Fingerprint_Args, executable_fingerprint_size, 40)

// Buffer

struct PJRT_Buffer_Destroy_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
};
PJRT_SIZE(PJRT_Buffer_Destroy_Args, buffer, 24)

struct PJRT_Buffer_ElementType_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  PJRT_Buffer_Type type;
};
PJRT_SIZE(PJRT_Buffer_ElementType_Args, type, 28)

struct PJRT_Buffer_Dimensions_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  const int64_t* dims;
  size_t num_dims;
};
PJRT_SIZE(PJRT_Buffer_Dimensions_Args, num_dims, 40)

struct PJRT_Buffer_UnpaddedDimensions_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  const int64_t* unpadded_dims;
  size_t num_dims;
};
PJRT_SIZE(PJRT_Buffer_UnpaddedDimensions_Args, num_dims, 40)

struct PJRT_Buffer_DynamicDimensionIndices_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  const size_t* dynamic_dim_indices;
  size_t num_dynamic_dims;
};
PJRT_SIZE(PJRT_Buffer_DynamicDimensionIndices_Args, num_dynamic_dims, 40)

struct PJRT_Buffer_GetMemoryLayout_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  PJRT_Buffer_MemoryLayout layout;
};
PJRT_SIZE(PJRT_Buffer_GetMemoryLayout_Args, layout, 104)

struct PJRT_Buffer_OnDeviceSizeInBytes_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  size_t on_device_size_in_bytes;
};
PJRT_SIZE(PJRT_Buffer_OnDeviceSizeInBytes_Args, on_device_size_in_bytes, 32)

struct PJRT_Buffer_Device_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  PJRT_Device* device;
};
PJRT_SIZE(PJRT_Buffer_Device_Args, device, 32)

struct PJRT_Buffer_Memory_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  PJRT_Memory* memory;
};
PJRT_SIZE(PJRT_Buffer_Memory_Args, memory, 32)

struct PJRT_Buffer_Delete_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
};
PJRT_SIZE(PJRT_Buffer_Delete_Args, buffer, 24)

struct PJRT_Buffer_IsDeleted_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  bool is_deleted;
};
PJRT_SIZE(PJRT_Buffer_IsDeleted_Args, is_deleted, 25)

struct PJRT_Buffer_CopyToDevice_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  PJRT_Device* dst_device;
  PJRT_Buffer* dst_buffer;
};
PJRT_SIZE(PJRT_Buffer_CopyToDevice_Args, dst_buffer, 40)

struct PJRT_Buffer_ToHostBuffer_Args {
  PJRT_HEAD
  PJRT_Buffer* src;
  PJRT_Buffer_MemoryLayout* host_layout;
  void* dst;
  size_t dst_size;
  PJRT_Event* event;
};
PJRT_SIZE(PJRT_Buffer_ToHostBuffer_Args, event, 56)

struct PJRT_Buffer_IsOnCpu_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  bool is_on_cpu;
};
PJRT_SIZE(PJRT_Buffer_IsOnCpu_Args, is_on_cpu, 25)

struct PJRT_Buffer_ReadyEvent_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  PJRT_Event* event;
};
PJRT_SIZE(PJRT_Buffer_ReadyEvent_Args, event, 32)

struct PJRT_Buffer_UnsafePointer_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  uintptr_t buffer_pointer;
};
PJRT_SIZE(PJRT_Buffer_UnsafePointer_Args, buffer_pointer, 32)

struct PJRT_Buffer_IncreaseExternalReferenceCount_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
};
PJRT_SIZE(PJRT_Buffer_IncreaseExternalReferenceCount_Args, buffer, 24)

struct PJRT_Buffer_DecreaseExternalReferenceCount_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
};
PJRT_SIZE(PJRT_Buffer_DecreaseExternalReferenceCount_Args, buffer, 24)

struct PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  void* device_memory_ptr;
};
PJRT_SIZE(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args, device_memory_ptr, 32)

// TopologyDescription

struct PJRT_TopologyDescription_Create_Args {
  PJRT_HEAD
  const char* topology_name;
  size_t topology_name_size;
  const PJRT_NamedValue* create_options;
  size_t num_options;
  PJRT_TopologyDescription* topology;
};
PJRT_SIZE(PJRT_TopologyDescription_Create_Args, topology, 56)

struct PJRT_TopologyDescription_Destroy_Args {
  PJRT_HEAD
  PJRT_TopologyDescription* topology;
};
PJRT_SIZE(PJRT_TopologyDescription_Destroy_Args, topology, 24)

struct PJRT_TopologyDescription_PlatformName_Args {
  PJRT_HEAD
  PJRT_TopologyDescription* topology;
  const char* platform_name;
  size_t platform_name_size;
};
PJRT_SIZE(PJRT_TopologyDescription_PlatformName_Args, platform_name_size, 40)

struct PJRT_TopologyDescription_PlatformVersion_Args {
  PJRT_HEAD
  PJRT_TopologyDescription* topology;
  const char* platform_version;
  size_t platform_version_size;
};
PJRT_SIZE(PJRT_TopologyDescription_PlatformVersion_Args, platform_version_size, 40)

struct PJRT_TopologyDescription_GetDeviceDescriptions_Args {
  PJRT_HEAD
  PJRT_TopologyDescription* topology;
  PJRT_DeviceDescription* const* descriptions;
  size_t num_descriptions;
};
PJRT_SIZE(PJRT_TopologyDescription_GetDeviceDescriptions_Args, num_descriptions, 40)

struct PJRT_TopologyDescription_Serialize_Args {
  PJRT_HEAD
  PJRT_TopologyDescription* topology;
  const char* serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_SerializedBytes* serialized_topology;
  void (*serialized_topology_deleter)(PJRT_SerializedBytes*);
};
PJRT_SIZE(PJRT_TopologyDescription_Serialize_Args, serialized_topology_deleter, 56)

struct PJRT_TopologyDescription_Attributes_Args {
  PJRT_HEAD
  PJRT_TopologyDescription* topology;
  const PJRT_NamedValue* attributes;
  size_t num_attributes;
};
PJRT_SIZE(PJRT_TopologyDescription_Attributes_Args, num_attributes, 40)

// Compile

struct PJRT_Compile_Args {
  PJRT_HEAD
  PJRT_TopologyDescription* topology;
  PJRT_Program* program;
  const char* compile_options;
  size_t compile_options_size;
  PJRT_Client* client;
  PJRT_Executable* executable;
};
PJRT_SIZE(PJRT_Compile_Args, executable, 64)

// Executable

struct PJRT_Executable_OutputElementTypes_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  const PJRT_Buffer_Type* output_types;
  size_t num_output_types;
};
PJRT_SIZE(PJRT_Executable_OutputElementTypes_Args, num_output_types, 40)

struct PJRT_Executable_OutputDimensions_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  size_t num_outputs;
  const int64_t* dims;
  const size_t* dim_sizes;
};
PJRT_SIZE(PJRT_Executable_OutputDimensions_Args, dim_sizes, 48)

// Buffer

struct PJRT_Buffer_CopyToMemory_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  PJRT_Memory* dst_memory;
  PJRT_Buffer* dst_buffer;
};
PJRT_SIZE(PJRT_Buffer_CopyToMemory_Args, dst_buffer, 40)

// Client

struct PJRT_Client_CreateViewOfDeviceBuffer_Args {
  PJRT_HEAD
  PJRT_Client* client;
  void* device_buffer_ptr;
  const int64_t* dims;
  size_t num_dims;
  PJRT_Buffer_Type element_type;
  PJRT_Buffer_MemoryLayout* layout;
  PJRT_Device* device;
  void (*on_delete_callback)(void* device_buffer, void* user_arg);
  void* on_delete_callback_arg;
  intptr_t stream;
  PJRT_Buffer* buffer;
  PJRT_Memory* memory;
};
PJRT_SIZE(PJRT_Client_CreateViewOfDeviceBuffer_Args, memory, 112)

// Executable

struct PJRT_Executable_Fingerprint_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  const char* executable_fingerprint;
  size_t executable_fingerprint_size;
};
PJRT_SIZE(PJRT_Executable_Fingerprint_Args, executable_fingerprint_size, 40)

// Client

struct PJRT_Client_TopologyDescription_Args {
  PJRT_HEAD
  PJRT_Client* client;
  PJRT_TopologyDescription* topology;
};
PJRT_SIZE(PJRT_Client_TopologyDescription_Args, topology, 32)

// Executable

struct PJRT_Executable_GetCompiledMemoryStats_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  int64_t generated_code_size_in_bytes;
  int64_t argument_size_in_bytes;
  int64_t output_size_in_bytes;
  int64_t alias_size_in_bytes;
  int64_t temp_size_in_bytes;
  int64_t host_generated_code_size_in_bytes;
  int64_t host_argument_size_in_bytes;
  int64_t host_output_size_in_bytes;
  int64_t host_alias_size_in_bytes;
  int64_t host_temp_size_in_bytes;
  int64_t peak_memory_in_bytes;
  int64_t total_size_in_bytes;
  int64_t total_allocation_bytes;
  int64_t indefinite_allocations;
  int64_t peak_unpadded_heap_bytes;
};
PJRT_SIZE_FROM(PJRT_Executable_GetCompiledMemoryStats_Args, host_temp_size_in_bytes, peak_unpadded_heap_bytes,
               144)

// Memory

struct PJRT_Memory_Kind_Id_Args {
  PJRT_HEAD
  PJRT_Memory* memory;
  int kind_id;
};
PJRT_SIZE(PJRT_Memory_Kind_Id_Args, kind_id, 28)

// ExecuteContext

struct PJRT_ExecuteContext_Create_Args {
  PJRT_HEAD
  PJRT_ExecuteContext* context;
};
PJRT_SIZE(PJRT_ExecuteContext_Create_Args, context, 24)

struct PJRT_ExecuteContext_Destroy_Args {
  PJRT_HEAD
  PJRT_ExecuteContext* context;
};
PJRT_SIZE(PJRT_ExecuteContext_Destroy_Args, context, 24)

// Buffer

struct PJRT_Buffer_CopyRawToHost_Args {
  PJRT_HEAD
  PJRT_Buffer* buffer;
  void* dst;
  int64_t offset;
  int64_t transfer_size;
  PJRT_Event* event;
};
PJRT_SIZE(PJRT_Buffer_CopyRawToHost_Args, event, 56)

// AsyncHostToDeviceTransferManager

struct PJRT_AsyncHostToDeviceTransferManager_Destroy_Args {
  PJRT_HEAD
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
};
PJRT_SIZE(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args, transfer_manager, 24)

struct PJRT_AsyncHostToDeviceTransferManager_TransferData_Args {
  PJRT_HEAD
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
  int buffer_index;
  const void* data;
  int64_t offset;
  int64_t transfer_size;
  bool is_last_transfer;
  PJRT_Event* done_with_h2d_transfer;
};
PJRT_SIZE(PJRT_AsyncHostToDeviceTransferManager_TransferData_Args, done_with_h2d_transfer, 72)

// Client

struct PJRT_Client_CreateBuffersForAsyncHostToDevice_Args {
  PJRT_HEAD
  PJRT_Client* client;
  const PJRT_ShapeSpec* shape_specs;
  size_t num_shape_specs;
  PJRT_Buffer_MemoryLayout* const* device_layouts;
  size_t num_device_layouts;
  PJRT_Memory* memory;
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
};
PJRT_SIZE(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args, transfer_manager, 72)

// AsyncHostToDeviceTransferManager

struct PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args {
  PJRT_HEAD
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
  int buffer_index;
  PJRT_Buffer* buffer_out;
};
PJRT_SIZE(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args, buffer_out, 40)

struct PJRT_AsyncHostToDeviceTransferManager_Device_Args {
  PJRT_HEAD
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
  PJRT_Device* device_out;
};
PJRT_SIZE(PJRT_AsyncHostToDeviceTransferManager_Device_Args, device_out, 32)

struct PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args {
  PJRT_HEAD
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
  size_t buffer_count;
};
PJRT_SIZE(PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args, buffer_count, 32)

struct PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args {
  PJRT_HEAD
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
  int buffer_index;
  size_t buffer_size;
};
PJRT_SIZE(PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args, buffer_size, 40)

struct PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args {
  PJRT_HEAD
  PJRT_AsyncHostToDeviceTransferManager* transfer_manager;
  int buffer_index;
  PJRT_Error_Code error_code;
  const char* error_message;
  size_t error_message_size;
};
PJRT_SIZE(PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args, error_message_size, 48)

// Client

struct PJRT_Client_CreateUninitializedBuffer_Args {
  PJRT_HEAD
  PJRT_Client* client;
  const int64_t* shape_dims;
  size_t shape_num_dims;
  PJRT_Buffer_Type shape_element_type;
  PJRT_Buffer_MemoryLayout* shape_layout;
  PJRT_Device* device;
  PJRT_Memory* memory;
  PJRT_Buffer* buffer;
};
PJRT_SIZE(PJRT_Client_CreateUninitializedBuffer_Args, buffer, 80)

// TopologyDescription

struct PJRT_TopologyDescription_Deserialize_Args {
  PJRT_HEAD
  const char* serialized_topology;
  size_t serialized_topology_size;
  PJRT_TopologyDescription* topology;
};
PJRT_SIZE(PJRT_TopologyDescription_Deserialize_Args, topology, 40)

// LoadedExecutable

struct PJRT_LoadedExecutable_GetDeviceAssignment_Args {
  PJRT_HEAD
  PJRT_LoadedExecutable* executable;
  const char* serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_SerializedBytes* serialized_device_assignment;
  void (*serialized_device_assignment_deleter)(PJRT_SerializedBytes*);
};
PJRT_SIZE(PJRT_LoadedExecutable_GetDeviceAssignment_Args, serialized_device_assignment_deleter, 56)

// Client

struct PJRT_Client_CreateErrorBuffer_Args {
  PJRT_HEAD
  PJRT_Client* client;
  PJRT_Error_Code error_code;
  const char* error_message;
  size_t error_message_size;
  const int64_t* shape_dims;
  size_t shape_num_dims;
  PJRT_Buffer_Type shape_element_type;
  PJRT_Buffer_MemoryLayout* shape_layout;
  PJRT_Memory* memory;
  PJRT_Buffer* buffer;
  const PJRT_NamedValue* payload;
  size_t num_payload;
};
PJRT_SIZE_FROM(PJRT_Client_CreateErrorBuffer_Args, buffer, num_payload, 112)

// Executable

struct PJRT_Executable_GetCompileOptions_Args {
  PJRT_HEAD
  PJRT_Executable* executable;
  const char* serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_SerializedBytes* serialized_compile_options;
  void (*serialized_compile_options_deleter)(PJRT_SerializedBytes*);
};
PJRT_SIZE(PJRT_Executable_GetCompileOptions_Args, serialized_compile_options_deleter, 56)

// Event

struct PJRT_Event_Create_Args {
  PJRT_HEAD
  PJRT_Event* event;
};
PJRT_SIZE(PJRT_Event_Create_Args, event, 24)

struct PJRT_Event_Set_Args {
  PJRT_HEAD
  PJRT_Event* event;
  PJRT_Error_Code error_code;
  const char* error_message;
  size_t error_message_size;
};
PJRT_SIZE(PJRT_Event_Set_Args, error_message_size, 48)

struct PJRT_Device_GetAttributes_Args {
  PJRT_HEAD
  PJRT_Device* device;
  const PJRT_NamedValue* attributes;
  size_t num_attributes;
  PJRT_Device_Attributes* device_attributes;
  void (*attributes_deleter)(PJRT_Device_Attributes*);
};
PJRT_SIZE(PJRT_Device_GetAttributes_Args, attributes_deleter, 56)

// The function table. The name and order of its entries; entry i is at byte 40 + 8 i.
#define PJRT_FUNCTIONS(X)                             \
  X(Error_Destroy)                                    \
  X(Error_Message)                                    \
  X(Error_GetCode)                                    \
  X(Plugin_Initialize)                                \
  X(Plugin_Attributes)                                \
  X(Event_Destroy)                                    \
  X(Event_IsReady)                                    \
  X(Event_Error)                                      \
  X(Event_Await)                                      \
  X(Event_OnReady)                                    \
  X(Client_Create)                                    \
  X(Client_Destroy)                                   \
  X(Client_PlatformName)                              \
  X(Client_ProcessIndex)                              \
  X(Client_PlatformVersion)                           \
  X(Client_Devices)                                   \
  X(Client_AddressableDevices)                        \
  X(Client_LookupDevice)                              \
  X(Client_LookupAddressableDevice)                   \
  X(Client_AddressableMemories)                       \
  X(Client_Compile)                                   \
  X(Client_DefaultDeviceAssignment)                   \
  X(Client_BufferFromHostBuffer)                      \
  X(DeviceDescription_Id)                             \
  X(DeviceDescription_ProcessIndex)                   \
  X(DeviceDescription_Attributes)                     \
  X(DeviceDescription_Kind)                           \
  X(DeviceDescription_DebugString)                    \
  X(DeviceDescription_ToString)                       \
  X(Device_GetDescription)                            \
  X(Device_IsAddressable)                             \
  X(Device_LocalHardwareId)                           \
  X(Device_AddressableMemories)                       \
  X(Device_DefaultMemory)                             \
  X(Device_MemoryStats)                               \
  X(Memory_Id)                                        \
  X(Memory_Kind)                                      \
  X(Memory_DebugString)                               \
  X(Memory_ToString)                                  \
  X(Memory_AddressableByDevices)                      \
  X(Executable_Destroy)                               \
  X(Executable_Name)                                  \
  X(Executable_NumReplicas)                           \
  X(Executable_NumPartitions)                         \
  X(Executable_NumOutputs)                            \
  X(Executable_SizeOfGeneratedCodeInBytes)            \
  X(Executable_GetCostAnalysis)                       \
  X(Executable_OutputMemoryKinds)                     \
  X(Executable_OptimizedProgram)                      \
  X(Executable_Serialize)                             \
  X(LoadedExecutable_Destroy)                         \
  X(LoadedExecutable_GetExecutable)                   \
  X(LoadedExecutable_AddressableDevices)              \
  X(LoadedExecutable_Delete)                          \
  X(LoadedExecutable_IsDeleted)                       \
  X(LoadedExecutable_Execute)                         \
  X(Executable_DeserializeAndLoad)                    \
  X(LoadedExecutable_Fingerprint)                     \
  X(Buffer_Destroy)                                   \
  X(Buffer_ElementType)                               \
  X(Buffer_Dimensions)                                \
  X(Buffer_UnpaddedDimensions)                        \
  X(Buffer_DynamicDimensionIndices)                   \
  X(Buffer_GetMemoryLayout)                           \
  X(Buffer_OnDeviceSizeInBytes)                       \
  X(Buffer_Device)                                    \
  X(Buffer_Memory)                                    \
  X(Buffer_Delete)                                    \
  X(Buffer_IsDeleted)                                 \
  X(Buffer_CopyToDevice)                              \
  X(Buffer_ToHostBuffer)                              \
  X(Buffer_IsOnCpu)                                   \
  X(Buffer_ReadyEvent)                                \
  X(Buffer_UnsafePointer)                             \
  X(Buffer_IncreaseExternalReferenceCount)            \
  X(Buffer_DecreaseExternalReferenceCount)            \
  X(Buffer_OpaqueDeviceMemoryDataPointer)             \
  X(CopyToDeviceStream_Destroy)                       \
  X(CopyToDeviceStream_AddChunk)                      \
  X(CopyToDeviceStream_TotalBytes)                    \
  X(CopyToDeviceStream_GranuleSize)                   \
  X(CopyToDeviceStream_CurrentBytes)                  \
  X(TopologyDescription_Create)                       \
  X(TopologyDescription_Destroy)                      \
  X(TopologyDescription_PlatformName)                 \
  X(TopologyDescription_PlatformVersion)              \
  X(TopologyDescription_GetDeviceDescriptions)        \
  X(TopologyDescription_Serialize)                    \
  X(TopologyDescription_Attributes)                   \
  X(Compile)                                          \
  X(Executable_OutputElementTypes)                    \
  X(Executable_OutputDimensions)                      \
  X(Buffer_CopyToMemory)                              \
  X(Client_CreateViewOfDeviceBuffer)                  \
  X(Executable_Fingerprint)                           \
  X(Client_TopologyDescription)                       \
  X(Executable_GetCompiledMemoryStats)                \
  X(Memory_Kind_Id)                                   \
  X(ExecuteContext_Create)                            \
  X(ExecuteContext_Destroy)                           \
  X(Buffer_CopyRawToHost)                             \
  X(AsyncHostToDeviceTransferManager_Destroy)         \
  X(AsyncHostToDeviceTransferManager_TransferData)    \
  X(Client_CreateBuffersForAsyncHostToDevice)         \
  X(AsyncHostToDeviceTransferManager_RetrieveBuffer)  \
  X(AsyncHostToDeviceTransferManager_Device)          \
  X(AsyncHostToDeviceTransferManager_BufferCount)     \
  X(AsyncHostToDeviceTransferManager_BufferSize)      \
  X(AsyncHostToDeviceTransferManager_SetBufferError)  \
  X(AsyncHostToDeviceTransferManager_AddMetadata)     \
  X(Client_DmaMap)                                    \
  X(Client_DmaUnmap)                                  \
  X(Client_CreateUninitializedBuffer)                 \
  X(Client_UpdateGlobalProcessInfo)                   \
  X(TopologyDescription_Deserialize)                  \
  X(Client_CreateAliasBuffer)                         \
  X(Client_FulfillAliasBuffer)                        \
  X(LoadedExecutable_GetDeviceAssignment)             \
  X(Client_CreateErrorBuffer)                         \
  X(AsyncHostToDeviceTransferManager_TransferLiteral) \
  X(Buffer_CopyRawToHostFuture)                       \
  X(Device_PoisonExecution)                           \
  X(Device_CreateAsyncTrackingEvent)                  \
  X(AsyncTrackingEvent_Destroy)                       \
  X(Executable_GetCompileOptions)                     \
  X(Buffer_DonateWithControlDependency)               \
  X(Event_Create)                                     \
  X(Event_Set)                                        \
  X(Device_GetAttributes)

#ifdef __cplusplus
enum class PjrtFunction : int {
#define PJRT_ENUMERATOR(name) name,
  PJRT_FUNCTIONS(PJRT_ENUMERATOR)
#undef PJRT_ENUMERATOR
      kCount
};
#else
enum {
#define PJRT_ENUMERATOR(name) PjrtFunction_##name,
  PJRT_FUNCTIONS(PJRT_ENUMERATOR)
#undef PJRT_ENUMERATOR
      PjrtFunction_Count
};
#endif

// Every entry takes a pointer to its _Args struct. All return an error or null, but for Error_Destroy and
// Error_Message, whose result is ignored.
typedef PJRT_Error* (*PjrtEntry)(void* args);

typedef struct PJRT_Api {
  PJRT_HEAD
  PJRT_Api_Version pjrt_api_version;
#ifdef __cplusplus
  PjrtEntry functions[static_cast<int>(PjrtFunction::kCount)];
#else
  PjrtEntry functions[PjrtFunction_Count];
#endif
} PJRT_Api;

#ifdef __cplusplus
static_assert(sizeof(PJRT_Api) == 1072, "the table of PJRT 0.93");
extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi();
#else
const PJRT_Api* GetPjrtApi(void);
#endif

#endif  // JAX_IPU_PJRT_ABI_C_API_H_
