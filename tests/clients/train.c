/* A PJRT client in C: trains the model of the MNIST example on an IPU, in a process without Python.
 *
 *   train LIBRARY compile PROGRAM FORMAT DATA EXECUTABLE   compiles, trains, writes the executable
 *   train LIBRARY load EXECUTABLE DATA                     loads what the first form has written, and trains
 *   train LIBRARY crash PROGRAM FORMAT                     compiles, then again after the compile server was
 * killed
 *
 * PROGRAM is one training step: (w1, b1, w2, b2, images, labels) -> (w1, b1, w2, b2, loss), which donates the
 * first four. DATA holds all arguments, one after the other. Prints one line for each fact that
 * tests/pjrt/test_clients.py checks.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pjrt/abi/c_api.h"

enum { kParameters = 4, kArguments = 6, kResults = 5, kSteps = 100 };
enum { kBatch = 128, kPixels = 784, kHidden = 256, kClasses = 10 };

static const struct {
  PJRT_Buffer_Type type;
  size_t rank;
  int64_t shape[2];
} kTypes[kArguments] = {
    {PJRT_Buffer_Type_F32, 2, {kPixels, kHidden}},  {PJRT_Buffer_Type_F32, 1, {kHidden}},
    {PJRT_Buffer_Type_F32, 2, {kHidden, kClasses}}, {PJRT_Buffer_Type_F32, 1, {kClasses}},
    {PJRT_Buffer_Type_F32, 2, {kBatch, kPixels}},   {PJRT_Buffer_Type_S32, 1, {kBatch}},
};

static const PJRT_Api* api;
static PJRT_Client* client;

/* Calls a function of the table; the struct of its arguments is declared with ARGS. */
#define CALL(name, args) api->functions[PjrtFunction_##name](&(args))
#define ARGS(function, name)      \
  PJRT_##function##_Args name;    \
  memset(&name, 0, sizeof(name)); \
  name.struct_size = PJRT_##function##_Args_SIZE

/* Prints an error as "NAME: CODE MESSAGE" and frees it; returns whether there is one. */
static bool Report(const char* name, PJRT_Error* error) {
  if (error == NULL) return false;
  ARGS(Error_GetCode, code);
  code.error = error;
  CALL(Error_GetCode, code);
  ARGS(Error_Message, message);
  message.error = error;
  CALL(Error_Message, message);
  printf("%s: %d %.*s\n", name, code.code, (int)message.message_size, message.message);
  fflush(stdout);
  ARGS(Error_Destroy, destroy);
  destroy.error = error;
  CALL(Error_Destroy, destroy);
  return true;
}

static void Check(PJRT_Error* error) {
  if (Report("error", error)) exit(1);
}

static char* ReadFile(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    perror(path);
    exit(1);
  }
  *size = (size_t)ftell(file);
  rewind(file);
  char* bytes = malloc(*size + 1);
  if (fread(bytes, 1, *size, file) != *size) exit(1);
  fclose(file);
  return bytes;
}

static void Await(PJRT_Event* event) {
  ARGS(Event_Await, await);
  await.event = event;
  Check(CALL(Event_Await, await));
  ARGS(Event_Destroy, destroy);
  destroy.event = event;
  Check(CALL(Event_Destroy, destroy));
}

static void DestroyBuffer(PJRT_Buffer* buffer) {
  ARGS(Buffer_Destroy, destroy);
  destroy.buffer = buffer;
  Check(CALL(Buffer_Destroy, destroy));
}

static PJRT_Buffer* ToDevice(const void* data, int argument, PJRT_Device* device) {
  ARGS(Client_BufferFromHostBuffer, args);
  args.client = client;
  args.data = data;
  args.type = kTypes[argument].type;
  args.dims = kTypes[argument].shape;
  args.num_dims = kTypes[argument].rank;
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = device;
  Check(CALL(Client_BufferFromHostBuffer, args));
  Await(args.done_with_host_buffer);
  return args.buffer;
}

static void ToHost(PJRT_Buffer* buffer, void* data, size_t size) {
  ARGS(Buffer_ToHostBuffer, args);
  args.src = buffer;
  args.dst = data;
  args.dst_size = size;
  Check(CALL(Buffer_ToHostBuffer, args));
  Await(args.event);
}

static PJRT_Error* Compile(const char* code, size_t size, const char* format,
                           PJRT_LoadedExecutable** executable) {
  PJRT_Program program = {0};
  program.struct_size = PJRT_Program_SIZE;
  program.code = (char*)code;
  program.code_size = size;
  program.format = format;
  program.format_size = strlen(format);
  ARGS(Client_Compile, args); /* without compile options: one device, the first */
  args.client = client;
  args.program = &program;
  PJRT_Error* error = CALL(Client_Compile, args);
  *executable = args.executable;
  return error;
}

static PJRT_Error* Execute(PJRT_LoadedExecutable* executable, PJRT_Device* device, PJRT_Buffer** arguments,
                           PJRT_Buffer** results) {
  PJRT_ExecuteOptions options = {0};
  options.struct_size = PJRT_ExecuteOptions_SIZE;
  PJRT_Buffer* const* const argument_lists[] = {arguments};
  PJRT_Buffer** const output_lists[] = {results};
  ARGS(LoadedExecutable_Execute, args);
  args.executable = executable;
  args.options = &options;
  args.argument_lists = argument_lists;
  args.num_devices = 1;
  args.num_args = kArguments;
  args.output_lists = output_lists;
  args.execute_device =
      device; /* a program for one device is portable; NULL: the device it was compiled for */
  return CALL(LoadedExecutable_Execute, args);
}

/* Trains from the arguments in `data`. */
static void Train(PJRT_LoadedExecutable* executable, const char* data, PJRT_Device* device) {
  PJRT_Buffer *arguments[kArguments], *results[kResults];
  for (int i = 0; i < kArguments; ++i) {
    arguments[i] = ToDevice(data, i, device);
    size_t elements = 1;
    for (size_t d = 0; d < kTypes[i].rank; ++d) elements *= (size_t)kTypes[i].shape[d];
    data += elements * 4;
  }
  for (int step = 0; step < kSteps; ++step) {
    Check(Execute(executable, device, arguments, results));
    for (int i = 0; i < kParameters; ++i) {
      ARGS(Buffer_IsDeleted, deleted);
      deleted.buffer = arguments[i];
      Check(CALL(Buffer_IsDeleted, deleted));
      if (!deleted.is_deleted) printf("not donated: %d\n", i);
      if (step == kSteps - 1 && i == 0) {
        PJRT_Buffer* unused[kResults];
        Report("donated", Execute(executable, device, arguments, unused));
      }
      DestroyBuffer(arguments[i]);
      arguments[i] = results[i];
    }
    float loss = 0;
    ToHost(results[kParameters], &loss, sizeof(loss));
    DestroyBuffer(results[kParameters]);
    if (step % 10 == 9) printf("loss: %d %.9g\n", step + 1, loss);
  }
  float bias[kClasses];
  ToHost(arguments[3], bias, sizeof(bias));
  printf("bias: %.9g\n", bias[0]);
  for (int i = 0; i < kArguments; ++i) DestroyBuffer(arguments[i]);
}

static void WriteExecutable(PJRT_LoadedExecutable* loaded, const char* path) {
  ARGS(LoadedExecutable_GetExecutable, get);
  get.loaded_executable = loaded;
  Check(CALL(LoadedExecutable_GetExecutable, get));
  ARGS(Executable_Serialize, args);
  args.executable = get.executable;
  Check(CALL(Executable_Serialize, args));
  FILE* file = fopen(path, "wb");
  if (file == NULL ||
      fwrite(args.serialized_bytes, 1, args.serialized_bytes_size, file) != args.serialized_bytes_size ||
      fclose(file) != 0) {
    perror(path);
    exit(1);
  }
  args.serialized_executable_deleter(args.serialized_executable);
  ARGS(Executable_Destroy, destroy);
  destroy.executable = get.executable;
  Check(CALL(Executable_Destroy, destroy));
}

static void DestroyLoaded(PJRT_LoadedExecutable* executable) {
  ARGS(LoadedExecutable_Destroy, destroy);
  destroy.executable = executable;
  Check(CALL(LoadedExecutable_Destroy, destroy));
}

/* Copies an array from the first to the last device and back to the host. */
static void CopyBetweenDevices(PJRT_Device* const* devices, size_t count) {
  const float values[kClasses] = {1, 2, 3};
  float copied[kClasses] = {0};
  PJRT_Buffer* buffer = ToDevice(values, 3, devices[0]);
  ARGS(Buffer_CopyToDevice, copy);
  copy.buffer = buffer;
  copy.dst_device = devices[count - 1];
  Check(CALL(Buffer_CopyToDevice, copy));
  ARGS(Buffer_ReadyEvent, ready);
  ready.buffer = copy.dst_buffer;
  Check(CALL(Buffer_ReadyEvent, ready));
  Await(ready.event);
  ARGS(Buffer_Device, device);
  device.buffer = copy.dst_buffer;
  Check(CALL(Buffer_Device, device));
  ToHost(copy.dst_buffer, copied, sizeof(copied));
  printf("copied: %s\n",
         device.device == devices[count - 1] && memcmp(values, copied, sizeof(copied)) == 0 ? "yes" : "no");
  DestroyBuffer(buffer);
  DestroyBuffer(copy.dst_buffer);
}

/* The child processes of this one are compile servers. */
static int Server(void) {
  char path[64], line[64] = "";
  snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
  FILE* file = fopen(path, "r");
  if (file != NULL && fgets(line, sizeof(line), file) == NULL) line[0] = '\0';
  if (file != NULL) fclose(file);
  return atoi(line);
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    printf("dlopen: %s\n", dlerror());
    return 1;
  }
  const PJRT_Api* (*get_api)(void) = (const PJRT_Api* (*)(void))dlsym(library, "GetPjrtApi");
  api = get_api(); /* Plugin_Initialize is not called: some clients do not */
  ARGS(Client_Create, create);
  Check(CALL(Client_Create, create));
  client = create.client;
  ARGS(Client_PlatformName, platform);
  platform.client = client;
  Check(CALL(Client_PlatformName, platform));
  ARGS(Client_AddressableDevices, devices);
  devices.client = client;
  Check(CALL(Client_AddressableDevices, devices));
  printf("platform: %.*s %zu\n", (int)platform.platform_name_size, platform.platform_name,
         devices.num_addressable_devices);
  int assigned[2] = {-1, -1};
  ARGS(Client_DefaultDeviceAssignment, assignment);
  assignment.client = client;
  assignment.num_replicas = 1;
  assignment.num_partitions = (int)devices.num_addressable_devices;
  assignment.default_assignment_size = 2;
  assignment.default_assignment = assigned;
  Check(CALL(Client_DefaultDeviceAssignment, assignment));
  printf("assignment: %d %d\n", assigned[0], assigned[1]);
  CopyBetweenDevices(devices.addressable_devices, devices.num_addressable_devices);

  PJRT_LoadedExecutable* executable = NULL;
  size_t size, data_size;
  char* bytes = ReadFile(argv[3], &size);
  if (strcmp(argv[2], "load") == 0) {
    Report("no compiler", Compile("module {}", 9, "mlir", &executable));
    char* data = ReadFile(argv[4], &data_size);
    ARGS(Executable_DeserializeAndLoad, args);
    args.client = client;
    args.serialized_executable = bytes;
    args.serialized_executable_size = size;
    Check(CALL(Executable_DeserializeAndLoad, args));
    executable = args.loaded_executable;
    Train(executable, data, devices.addressable_devices[devices.num_addressable_devices - 1]);
    free(data);
  } else if (strcmp(argv[2], "crash") == 0) {
    Check(Compile(bytes, size, argv[4], &executable));
    DestroyLoaded(executable);
    const int first = Server();
    kill(first, SIGKILL);
    siginfo_t ended;
    waitid(P_PID, (id_t)first, &ended, WEXITED | WNOWAIT); /* the plugin is still to read its status */
    Check(Compile(bytes, size, argv[4], &executable));
    printf("servers: %s\n", first != 0 && Server() != 0 && first != Server() ? "replaced" : "the same");
  } else {
    Report("not a program", Compile("what?", 5, "mlir", &executable));
    Report("not a format", Compile("what?", 5, "tosa", &executable));
    Check(Compile(bytes, size, argv[4], &executable));
    char* data = ReadFile(argv[5], &data_size);
    Train(executable, data, devices.addressable_devices[0]);
    free(data);
    WriteExecutable(executable, argv[6]);
  }
  DestroyLoaded(executable);
  free(bytes);
  ARGS(Client_Destroy, destroy);
  destroy.client = client;
  Check(CALL(Client_Destroy, destroy));
  dlclose(library);
  printf("done\n");
  return 0;
}
