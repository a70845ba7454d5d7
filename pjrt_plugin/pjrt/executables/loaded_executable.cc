// PJRT_LoadedExecutable, its entry points, and the entry points that make one: compile and deserialise.
#include "pjrt/executables/loaded_executable.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "ipu_model/Log.hpp"
#include "pjrt/abi/element_type.h"
#include "pjrt/abi/entry.h"
#include "pjrt/abi/event.h"
#include "pjrt/abi/serialized_bytes.h"
#include "pjrt/executables/executable_description.h"
#include "runtime/process/registry.h"

namespace jax_ipu::pjrt {
namespace {

using ipu_model::LogLevel, ipu_model::LogModule;

// The devices that the options name, else those that the program was compiled for, if this client has them.
std::vector<std::vector<int>> AssignDevices(const ClientState& client, const CompileOptions& options,
                                            const std::vector<int>& compiled_for) {
  if (!options.device_assignment.empty()) return options.device_assignment;
  const bool has_all = std::all_of(compiled_for.begin(), compiled_for.end(),
                                   [&](int id) { return client.FindDevice(id) != nullptr; });
  if (!compiled_for.empty() && has_all) {
    std::vector<std::vector<int>> assignment;
    for (auto id = compiled_for.begin(); id != compiled_for.end(); id += options.num_partitions)
      assignment.emplace_back(id, id + options.num_partitions);
    return assignment;
  }
  if (options.num_replicas * options.num_partitions == 1 && options.device_ordinal >= 0) {
    return {{options.device_ordinal}};
  }
  std::vector<std::vector<int>> assignment(static_cast<std::size_t>(options.num_replicas));
  const std::vector<PJRT_Device*>& devices =
      client.DefaultDevices(std::int64_t{options.num_replicas} * options.num_partitions);
  std::size_t next = 0;
  for (std::vector<int>& replica : assignment) {
    for (int partition = 0; partition < options.num_partitions; ++partition, ++next) {
      if (next >= devices.size()) {
        throw Error(Code::kInvalidArgument,
                    "The program needs more IPUs than the client's " + std::to_string(devices.size()));
      }
      replica.push_back(devices[next]->description->id);
    }
  }
  return assignment;
}

// Connects the replicas of this process to those elsewhere. Throws if the program communicates and a process
// lacks the transport.
std::shared_ptr<RemoteLaunch> Join(const ClientState& client, const Executable& executable,
                                   std::vector<RemoteLaunch::Place> places) {
  if (executable.communicates) {
    for (const RemoteLaunch::Place& place : places) {
      const Process& process = client.processes.all[static_cast<std::size_t>(place.process)];
      if (process.missing_transport.empty()) continue;
      throw Error(Code::kFailedPrecondition,
                  "'" + executable.name + "' communicates between IPUs of several processes, but process " +
                      std::to_string(place.process) +
                      " has no transport for that: " + process.missing_transport);
    }
  }
  return std::make_shared<RemoteLaunch>(executable.name, std::move(places), client.processes.own,
                                        GetProcessTransport());
}

// Larger programs, which hold large constants, are kept for a compilation together with others only if the
// user asks for that.
constexpr std::size_t kLargestSource = std::size_t{16} << 20;

std::shared_ptr<const ProgramSource> SourceOf(const PJRT_Program& program, std::string_view options,
                                              const std::string& target) {
  return std::make_shared<const ProgramSource>(ProgramSource{std::string(program.code, program.code_size),
                                                             std::string(program.format, program.format_size),
                                                             std::string(options), target});
}

std::shared_ptr<const Executable> CompileProgram(const PJRT_Program& program, std::string_view options,
                                                 const std::string& target) {
  CheckStruct(program);
  const Compiler compiler = Registry::Get().GetCompiler();
  if (!compiler) {
    throw Error(Code::kFailedPrecondition,
                "No IPU compiler is registered in this process; load a serialised executable");
  }
  CompileRequest request;
  request.program = {program.code, program.code_size};
  request.format.assign(program.format, program.format_size);
  request.options = options;
  request.target = target;
  std::shared_ptr<const Executable> executable = compiler(request);
  if (!executable) throw Error(Code::kInternal, "The IPU compiler returned nothing");
  return executable;
}

void ClientCompile(PJRT_Client_Compile_Args& args) {
  ClientState& client = *args.client->state;
  std::string options(args.compile_options, args.compile_options_size);
  const CountedCompilation counted(client.usage->process());
  std::shared_ptr<const Executable> executable =
      CompileProgram(*args.program, options, TargetOf(client.topology.config));
  Log(LogModule::kGraph, LogLevel::kInfo,
      "the compilation of '" + executable->name + "' took " +
          std::to_string(counted.nanoseconds() / 1'000'000) + " ms");
  std::shared_ptr<const ProgramSource> source;
  const bool may_be_linked = client.topology.config.link && args.program->code_size <= kLargestSource;
  if (may_be_linked || !executable->link_group.empty())
    source = SourceOf(*args.program, options, TargetOf(client.topology.config));
  args.executable = Release(std::make_unique<PJRT_LoadedExecutable>(client, std::move(executable),
                                                                    std::move(options), std::move(source)));
}

// Compiles without a client: for a cache, or for another machine.
void CompileForTopology(PJRT_Compile_Args& args) {
  std::string options(args.compile_options, args.compile_options_size);
  std::shared_ptr<const Executable> executable =
      CompileProgram(*args.program, options, TargetOf(args.topology->config));
  args.executable = Release(std::make_unique<PJRT_Executable>(std::move(executable), std::move(options)));
}

void DeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args& args) {
  auto executable = std::make_shared<const Executable>(
      Executable::Deserialize(std::string_view(args.serialized_executable, args.serialized_executable_size)));
  CheckLoaded(*executable);
  std::string options;
  if (PJRT_HAS(args, overridden_serialized_compile_options_size) &&
      args.overridden_serialized_compile_options != nullptr) {
    options.assign(args.overridden_serialized_compile_options,
                   args.overridden_serialized_compile_options_size);
  }
  args.loaded_executable = Release(std::make_unique<PJRT_LoadedExecutable>(
      *args.client->state, std::move(executable), std::move(options)));
}

void LoadedDestroy(PJRT_LoadedExecutable_Destroy_Args& args) { Destroy(args.executable); }
void LoadedGetExecutable(PJRT_LoadedExecutable_GetExecutable_Args& args) {
  args.executable = Release(std::make_unique<PJRT_Executable>(args.loaded_executable->executable,
                                                              args.loaded_executable->compile_options));
}
void LoadedDevices(PJRT_LoadedExecutable_AddressableDevices_Args& args) {
  args.addressable_devices = args.executable->device_pointers.data();
  args.num_addressable_devices = args.executable->device_pointers.size();
}
void LoadedDelete(PJRT_LoadedExecutable_Delete_Args& args) { args.executable->deleted = true; }
void LoadedIsDeleted(PJRT_LoadedExecutable_IsDeleted_Args& args) {
  args.is_deleted = args.executable->deleted;
}
void LoadedFingerprint(PJRT_LoadedExecutable_Fingerprint_Args& args) {
  args.executable_fingerprint = args.executable->executable->fingerprint.data();
  args.executable_fingerprint_size = args.executable->executable->fingerprint.size();
}
void LoadedDeviceAssignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args& args) {
  SerializedBytes bytes(args.executable->device_assignment);
  bytes.Give(args.serialized_bytes, args.serialized_bytes_size, args.serialized_device_assignment,
             args.serialized_device_assignment_deleter);
}

void LoadedExecute(PJRT_LoadedExecutable_Execute_Args& args) {
  ParkIfExiting();  // callers do not hold the GIL here
  PJRT_LoadedExecutable& loaded = *args.executable;
  if (loaded.deleted) throw Error(Code::kInvalidArgument, "Execute() called on a deleted executable");
  if (args.num_devices != loaded.instances.size()) {
    throw Error(Code::kInvalidArgument,
                "Execute() was given arguments for " + std::to_string(args.num_devices) +
                    " devices, the executable runs on " + std::to_string(loaded.instances.size()));
  }
  if (args.options != nullptr) {
    CheckStruct(*args.options);
    if (args.options->num_send_ops != 0 || args.options->num_recv_ops != 0) {
      throw Error(Code::kUnimplemented, "IPU programs have no send and receive callbacks");
    }
  }
  const std::vector<PJRT_LoadedExecutable::Instance>& instances =
      args.execute_device == nullptr ? loaded.instances : loaded.InstancesOn(args.execute_device);
  std::vector<CompletionPtr> done =
      ExecuteAll(loaded, instances, args.argument_lists, args.num_args, args.options, args.output_lists);
  if (args.device_complete_events != nullptr) {
    for (std::size_t i = 0; i < done.size(); ++i)
      args.device_complete_events[i] = MakeEvent(std::move(done[i]));
  }
  ParkIfExiting();
}

}  // namespace

void InstallLoadedExecutable(PJRT_Api& api) {
  PJRT_INSTALL_ON_DEVICE(api, Client_Compile, ClientCompile);
  PJRT_INSTALL(api, Compile, CompileForTopology);
  PJRT_INSTALL_ON_DEVICE(api, Executable_DeserializeAndLoad, DeserializeAndLoad);
  PJRT_INSTALL(api, LoadedExecutable_Destroy, LoadedDestroy);
  PJRT_INSTALL(api, LoadedExecutable_GetExecutable, LoadedGetExecutable);
  PJRT_INSTALL(api, LoadedExecutable_AddressableDevices, LoadedDevices);
  PJRT_INSTALL(api, LoadedExecutable_Delete, LoadedDelete);
  PJRT_INSTALL(api, LoadedExecutable_IsDeleted, LoadedIsDeleted);
  PJRT_INSTALL_ON_DEVICE(api, LoadedExecutable_Execute, LoadedExecute);
  PJRT_INSTALL(api, LoadedExecutable_Fingerprint, LoadedFingerprint);
  PJRT_INSTALL(api, LoadedExecutable_GetDeviceAssignment, LoadedDeviceAssignment);
}

}  // namespace jax_ipu::pjrt

PJRT_LoadedExecutable::PJRT_LoadedExecutable(jax_ipu::pjrt::ClientState& owner,
                                             std::shared_ptr<const jax_ipu::Executable> compiled,
                                             std::string options,
                                             std::shared_ptr<const jax_ipu::ProgramSource> from)
    : client(owner.shared_from_this()),
      executable(std::move(compiled)),
      compile_options(std::move(options)),
      source(std::move(from)),
      counted(client->usage) {
  using jax_ipu::Code;
  using jax_ipu::Error;
  const std::string target = jax_ipu::pjrt::TargetOf(client->topology.config);
  if (executable->target != target) {
    throw Error(Code::kInvalidArgument, "The executable was compiled for target " + executable->target +
                                            ", these IPUs are " + target + ". Compile the program again.");
  }
  jax_ipu::pjrt::CompileOptions parsed = jax_ipu::pjrt::ParseCompileOptions(compile_options);
  // A serialised executable may come without options, or with those of a client that does not set them.
  parsed.num_replicas = executable->num_replicas;
  parsed.num_partitions = executable->num_partitions;
  const std::vector<std::vector<int>> assignment =
      jax_ipu::pjrt::AssignDevices(*client, parsed, executable->devices);
  const int needed = executable->num_replicas * executable->num_partitions;
  std::size_t assigned = 0;
  bool is_complete = assignment.size() == static_cast<std::size_t>(executable->num_replicas);
  for (const std::vector<int>& replica : assignment) {
    assigned += replica.size();
    is_complete = is_complete && replica.size() == static_cast<std::size_t>(executable->num_partitions);
  }
  if (!is_complete) {
    throw Error(Code::kInvalidArgument, "The program needs " + std::to_string(needed) +
                                            " IPUs, its device assignment has " + std::to_string(assigned) +
                                            ": it must name one IPU for each of " +
                                            std::to_string(executable->num_partitions) + " partitions of " +
                                            std::to_string(executable->num_replicas) + " replicas");
  }
  std::vector<jax_ipu::RemoteLaunch::Place> places;
  for (const std::vector<int>& replica : assignment) {
    for (const int id : replica) {
      PJRT_Device* device = client->FindDevice(id);
      if (device == nullptr) {
        throw Error(Code::kInvalidArgument, "The program is assigned to IPU " + std::to_string(id) +
                                                ", which this client does not have");
      }
      const auto number = static_cast<unsigned>(places.size());
      places.push_back(
          {device->description->process, static_cast<unsigned>(device->description->local_hardware_id)});
      const jax_ipu::RemoteLaunch::Place& place = places.back();
      for (std::size_t other = 0; other + 1 < places.size(); ++other) {
        if (places[other].process != place.process || places[other].device != place.device) continue;
        throw Error(Code::kInvalidArgument,
                    "The device assignment names IPU " + std::to_string(id) + " more than once");
      }
      if (!device->addressable()) continue;
      instances.push_back(
          {client->Share(device), std::make_shared<jax_ipu::LoadedProgram>(executable, number, source)});
      device_pointers.push_back(device);
    }
  }
  if (instances.size() < places.size()) remote = jax_ipu::pjrt::Join(*client, *executable, std::move(places));
  device_assignment = jax_ipu::pjrt::SerializeDeviceAssignment(assignment);
  for (const jax_ipu::OutputSpec& output : executable->outputs) {
    output_types.push_back(jax_ipu::pjrt::PjrtType(output.tensor.type));
  }
}

const std::vector<PJRT_LoadedExecutable::Instance>& PJRT_LoadedExecutable::InstancesOn(PJRT_Device* device) {
  if (device_pointers == std::vector{device}) return instances;
  if (executable->num_replicas * executable->num_partitions != 1 || !device->addressable()) {
    throw jax_ipu::Error(
        jax_ipu::Code::kUnimplemented,
        "A program for several IPUs runs on those that it was loaded for, and any program on IPUs of "
        "this process; not on " +
            device->description->to_string + " alone");
  }
  const std::lock_guard<std::mutex> lock(elsewhere_mutex_);
  std::vector<Instance>& own = elsewhere_[device];
  if (own.empty())
    own.push_back({client->Share(device), std::make_shared<jax_ipu::LoadedProgram>(executable, 0u, source)});
  return own;
}
