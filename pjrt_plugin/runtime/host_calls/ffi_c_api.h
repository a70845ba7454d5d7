// The C ABI of XLA's foreign functions, declared from its published layout: names, order and sizes are facts
// of the interface (openxla/xla, XLA FFI 0.3 to 0.5, which differ in what the function table ends with).
// jax.ffi.include_dir() has the headers that handlers are compiled with.
#ifndef JAX_IPU_RUNTIME_HOST_CALLS_FFI_C_API_H_
#define JAX_IPU_RUNTIME_HOST_CALLS_FFI_C_API_H_

#include <cstddef>
#include <cstdint>

struct XLA_FFI_Api;
struct XLA_FFI_Error;
struct XLA_FFI_ExecutionContext;
struct XLA_FFI_Future;
struct XLA_FFI_InternalApi;

enum XLA_FFI_Extension_Type : int { XLA_FFI_Extension_Metadata = 1 };

struct XLA_FFI_Extension_Base {
  std::size_t struct_size;
  XLA_FFI_Extension_Type type;
  XLA_FFI_Extension_Base* next;
};

#define XLA_FFI_HEAD       \
  std::size_t struct_size; \
  XLA_FFI_Extension_Base* extension_start;

struct XLA_FFI_Api_Version {
  XLA_FFI_HEAD
  int major_version, minor_version;
};

enum XLA_FFI_Error_Code : int {};                             // values: jax_ipu::Code
enum XLA_FFI_DataType : int { XLA_FFI_DataType_TOKEN = 17 };  // the others: ffi_calls.cc

struct XLA_FFI_ByteSpan {
  const char* ptr;
  std::size_t len;
};
struct XLA_FFI_TypeId {
  std::int64_t type_id;
};
struct XLA_FFI_TypeInfo {
  XLA_FFI_HEAD
  void (*deleter)(void* object);
};

// What a handler is called with.

struct XLA_FFI_Buffer {
  XLA_FFI_HEAD
  XLA_FFI_DataType dtype;
  void* data;
  std::int64_t rank;
  std::int64_t* dims;
};
struct XLA_FFI_Scalar {
  XLA_FFI_DataType dtype;
  void* value;
};
struct XLA_FFI_Array {
  XLA_FFI_DataType dtype;
  std::size_t size;
  void* data;
};

enum XLA_FFI_ArgType : int { XLA_FFI_ArgType_BUFFER = 1 };
enum XLA_FFI_RetType : int { XLA_FFI_RetType_BUFFER = 1 };
enum XLA_FFI_AttrType : int {
  XLA_FFI_AttrType_ARRAY = 1,
  XLA_FFI_AttrType_DICTIONARY = 2,
  XLA_FFI_AttrType_SCALAR = 3,
  XLA_FFI_AttrType_STRING = 4
};
enum XLA_FFI_ExecutionStage : int {
  XLA_FFI_ExecutionStage_INSTANTIATE = 0,
  XLA_FFI_ExecutionStage_PREPARE = 1,
  XLA_FFI_ExecutionStage_INITIALIZE = 2,
  XLA_FFI_ExecutionStage_EXECUTE = 3
};

struct XLA_FFI_Args {
  XLA_FFI_HEAD
  std::int64_t size;
  XLA_FFI_ArgType* types;
  void** args;
};
struct XLA_FFI_Rets {
  XLA_FFI_HEAD
  std::int64_t size;
  XLA_FFI_RetType* types;
  void** rets;
};
// Sorted by name.
struct XLA_FFI_Attrs {
  XLA_FFI_HEAD
  std::int64_t size;
  XLA_FFI_AttrType* types;
  XLA_FFI_ByteSpan** names;
  void** attrs;
};
struct XLA_FFI_CallFrame {
  XLA_FFI_HEAD
  const XLA_FFI_Api* api;
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_ExecutionStage stage;
  XLA_FFI_Args args;
  XLA_FFI_Rets rets;
  XLA_FFI_Attrs attrs;
  XLA_FFI_Future* future;  // set by handlers that complete later; not counted in struct_size
};
inline constexpr std::size_t kXlaFfiCallFrameSize = offsetof(XLA_FFI_CallFrame, future);
static_assert(kXlaFfiCallFrameSize == 168 && sizeof(XLA_FFI_Attrs) == 48, "as XLA lays it out");

using XLA_FFI_Handler = XLA_FFI_Error*(XLA_FFI_CallFrame* frame);

// How a handler is asked for its version: it is called with this extension and nothing else.
struct XLA_FFI_Metadata {
  std::size_t struct_size;
  XLA_FFI_Api_Version api_version;
  std::uint32_t traits;
  XLA_FFI_TypeId state_type_id;
};
struct XLA_FFI_Metadata_Extension {
  XLA_FFI_Extension_Base extension_base;
  XLA_FFI_Metadata* metadata;
};

// What a handler can call.

struct XLA_FFI_Error_Create_Args {
  XLA_FFI_HEAD
  const char* message;
  XLA_FFI_Error_Code errc;
};
struct XLA_FFI_Error_GetDetails_Args {
  XLA_FFI_HEAD
  XLA_FFI_Error* error;
  const char* message;
  XLA_FFI_Error_Code errc;  // since 0.5
};
struct XLA_FFI_Error_Destroy_Args {
  XLA_FFI_HEAD
  XLA_FFI_Error* error;
};
struct XLA_FFI_Handler_Register_Args;
struct XLA_FFI_Type_Register_Args {
  XLA_FFI_HEAD
  XLA_FFI_ByteSpan name;
  XLA_FFI_TypeId* type_id;
  const XLA_FFI_TypeInfo* type_info;
};
struct XLA_FFI_ExecutionContext_Get_Args {
  XLA_FFI_HEAD
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_TypeId* type_id;
  void* data;
};
// Arguments of both State_Set and State_Get.
struct XLA_FFI_State_Args {
  XLA_FFI_HEAD
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_ExecutionStage stage;
  XLA_FFI_TypeId* type_id;
  void* state;
};
struct XLA_FFI_Stream_Get_Args {
  XLA_FFI_HEAD
  XLA_FFI_ExecutionContext* ctx;
  void* stream;
};
struct XLA_FFI_DeviceMemory_Allocate_Args {
  XLA_FFI_HEAD
  XLA_FFI_ExecutionContext* ctx;
  std::size_t size, alignment;
  void* data;
};
struct XLA_FFI_DeviceMemory_Free_Args {
  XLA_FFI_HEAD
  XLA_FFI_ExecutionContext* ctx;
  std::size_t size;
  void* data;
};
struct XLA_FFI_ThreadPool_Schedule_Args {
  XLA_FFI_HEAD
  XLA_FFI_ExecutionContext* ctx;
  void (*task)(void* data);
  void* data;
};
struct XLA_FFI_ThreadPool_NumThreads_Args {
  XLA_FFI_HEAD
  XLA_FFI_ExecutionContext* ctx;
  std::int64_t* num_threads;
};
struct XLA_FFI_Future_Create_Args {
  XLA_FFI_HEAD
  XLA_FFI_Future* future;
};
struct XLA_FFI_Future_SetAvailable_Args {
  XLA_FFI_HEAD
  XLA_FFI_Future* future;
};
struct XLA_FFI_Future_SetError_Args {
  XLA_FFI_HEAD
  XLA_FFI_Future* future;
  XLA_FFI_Error* error;
};
struct XLA_FFI_RunId_Get_Args {
  XLA_FFI_HEAD
  XLA_FFI_ExecutionContext* ctx;
  std::int64_t run_id;
};
struct XLA_FFI_DeviceOrdinal_Get_Args {
  XLA_FFI_HEAD
  XLA_FFI_ExecutionContext* ctx;
  std::int32_t device_ordinal;
};
struct XLA_FFI_InvokeContext_FindExtension_Args {
  XLA_FFI_HEAD
  XLA_FFI_ExecutionContext* ctx;
  std::int64_t extension_type;
  const void* extension;
};
struct XLA_FFI_CustomOptions_Get_Args {
  XLA_FFI_HEAD
  XLA_FFI_ExecutionContext* ctx;
  const XLA_FFI_Attrs* attrs;
};

struct XLA_FFI_Api {
  XLA_FFI_HEAD
  XLA_FFI_Api_Version api_version;
  const XLA_FFI_InternalApi* internal_api;
  XLA_FFI_Error* (*Error_Create)(XLA_FFI_Error_Create_Args*);
  void (*Error_GetDetails)(XLA_FFI_Error_GetDetails_Args*);
  void (*Error_Destroy)(XLA_FFI_Error_Destroy_Args*);
  XLA_FFI_Error* (*Handler_Register)(XLA_FFI_Handler_Register_Args*);
  XLA_FFI_Error* (*Stream_Get)(XLA_FFI_Stream_Get_Args*);
  XLA_FFI_Error* (*Type_Register)(XLA_FFI_Type_Register_Args*);
  XLA_FFI_Error* (*ExecutionContext_Get)(XLA_FFI_ExecutionContext_Get_Args*);
  XLA_FFI_Error* (*State_Set)(XLA_FFI_State_Args*);
  XLA_FFI_Error* (*State_Get)(XLA_FFI_State_Args*);
  XLA_FFI_Error* (*DeviceMemory_Allocate)(XLA_FFI_DeviceMemory_Allocate_Args*);
  XLA_FFI_Error* (*DeviceMemory_Free)(XLA_FFI_DeviceMemory_Free_Args*);
  XLA_FFI_Error* (*ThreadPool_Schedule)(XLA_FFI_ThreadPool_Schedule_Args*);
  XLA_FFI_Error* (*ThreadPool_NumThreads)(XLA_FFI_ThreadPool_NumThreads_Args*);
  XLA_FFI_Error* (*Future_Create)(XLA_FFI_Future_Create_Args*);
  XLA_FFI_Error* (*Future_SetAvailable)(XLA_FFI_Future_SetAvailable_Args*);
  XLA_FFI_Error* (*Future_SetError)(XLA_FFI_Future_SetError_Args*);
  XLA_FFI_Error* (*RunId_Get)(XLA_FFI_RunId_Get_Args*);
  XLA_FFI_Error* (*DeviceOrdinal_Get)(XLA_FFI_DeviceOrdinal_Get_Args*);
  // Since 0.5.
  XLA_FFI_Error* (*InvokeContext_FindExtension)(XLA_FFI_InvokeContext_FindExtension_Args*);
  XLA_FFI_Error* (*CustomOptions_Get)(XLA_FFI_CustomOptions_Get_Args*);
};
static_assert(offsetof(XLA_FFI_Api, InvokeContext_FindExtension) == 192, "as XLA lays it out");

#endif  // JAX_IPU_RUNTIME_HOST_CALLS_FFI_C_API_H_
