// Tests the plugin through its function table, as a PJRT client uses it: out fields, errors, donation, any
// order of deletion.
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "check.h"
#include "pjrt/abi/c_api.h"
#include "testing/pjrt_client.h"

namespace jax_ipu {
namespace {

using namespace testing;

TEST(TableIsCompleteAndUnimplementedEntriesSayTheirName) {
  const PJRT_Api* api = GetPjrtApi();
  CHECK_EQ(api->struct_size, 1072u);
  CHECK_EQ(api->pjrt_api_version.minor_version, 93);
  for (const PjrtEntry entry : api->functions) CHECK(entry != nullptr);
  char args[256] = {};
  CHECK_EQ(CALL(CopyToDeviceStream_AddChunk, args),
           "12: PJRT_CopyToDeviceStream_AddChunk is not implemented for IPUs");
}

TEST(OldCallersAreRefused) {
  auto args = Garbage<PJRT_Client_Create_Args>();
  args.struct_size = 24;
  CHECK(Has(CALL(Client_Create, args), "3: The caller's PJRT struct has 24 bytes"));
}

// A caller of an older version has a shorter struct: the plugin must not write beyond it.
TEST(NothingIsWrittenBehindTheCallersStruct) {
  Client client;
  auto args = Garbage<PJRT_Device_MemoryStats_Args>();
  args.device = client.Devices()[0];
  args.struct_size = PjrtStructSize<PJRT_Device_MemoryStats_Args>::oldest;
  const std::int64_t behind = args.peak_allocated_bytes;
  CALL_OK(Device_MemoryStats, args);
  CHECK_EQ(args.peak_allocated_bytes, behind);
  CHECK_EQ(args.bytes_limit, std::int64_t{1472} * 638976);
  CHECK_EQ(args.bytes_reservable_limit, args.bytes_limit);
  CHECK(args.bytes_limit_is_set && args.bytes_reservable_limit_is_set && args.peak_bytes_in_use_is_set &&
        !args.num_allocs_is_set);
  args.struct_size = PjrtStructSize<PJRT_Device_MemoryStats_Args>::full;
  CALL_OK(Device_MemoryStats, args);
  CHECK(!args.peak_allocated_bytes_is_set);
}

TEST(DonationDeletesAndFailedCallsRestore) {
  Client client;
  PJRT_LoadedExecutable* step = client.Compile(kStep);
  PJRT_Buffer *a = client.Put({1, 2}), *b = client.Put({10, 20}), *wrong = client.Put({1, 2, 3});
  std::vector<PJRT_Buffer*> out(1);
  CHECK(Has(Execute(step, {a, a}, out),
            "previously donated in the same call to Execute() (flattened argument 1"));
  CHECK(Has(Execute(step, {a, wrong}, out), "expected parameter 1 of size 8"));
  CHECK(Has(Execute(step, {a}, out), "supplied 1 buffers but compiled program expected 2"));
  CHECK(!IsDeleted(a));
  CHECK_EQ(Execute(step, {a, b}, out), "");
  CHECK(IsDeleted(a) && !IsDeleted(b));
  CHECK_EQ(Get(out[0]), "11 22 ");
  CHECK_EQ(
      Execute(step, {a, b}, out),
      "3: Invalid buffer passed to Execute() as argument 0 to replica 0: INVALID_ARGUMENT: Buffer has been "
      "deleted or donated.");
  CHECK(Has(Get(a), "called on deleted or donated buffer"));
  PJRT_LoadedExecutable* last = client.Compile("in f32 2\nin f32 2 alias=0\nout f32 2 add 0 1\n");
  CHECK(Has(Execute(last, {b, b}, out), "donate a buffer which is also used by the same call"));
  PJRT_LoadedExecutable* both = client.Compile("in f32 2 alias=0\nin f32 2 donated\nout f32 2 add 0 1\n");
  CHECK(Has(Execute(both, {b, b}, out), "donate the same buffer twice"));
  CHECK(!IsDeleted(b));
  for (PJRT_Buffer* buffer : {a, b, wrong, out[0]}) Destroy(buffer);
  for (PJRT_LoadedExecutable* executable : {step, last, both}) Destroy(executable);
}

TEST(NonDonatableInputsAreKept) {
  Client client;
  PJRT_LoadedExecutable* step = client.Compile(kStep);
  PJRT_Buffer *a = client.Put({1, 2}), *b = client.Put({10, 20});
  std::vector<PJRT_Buffer*> out(1), again(1);
  CHECK_EQ(Execute(step, {a, b}, out, {0}), "");
  CHECK(!IsDeleted(a));
  CHECK_EQ(Execute(step, {out[0], b}, again, {0, 1}), "");
  CHECK_EQ(Get(a) + Get(out[0]) + Get(again[0]), "1 2 11 22 21 42 ");
  for (PJRT_Buffer* buffer : {a, b, out[0], again[0]}) Destroy(buffer);
  Destroy(step);
}

// Every order of destroying client, executable and buffers, also with work still queued.
TEST(AnyOrderOfDestructionIsSafe) {
  for (int order = 0; order < 6; ++order) {
    for (const std::string& queued : {std::string(), std::string("cost 1e9\nsleep 2\n")}) {
      auto client = std::make_unique<Client>();
      PJRT_LoadedExecutable* step = client->Compile(queued + kStep);
      PJRT_Buffer *a = client->Put({1, 2}), *b = client->Put({10, 20});
      std::vector<PJRT_Buffer*> out(1);
      CHECK_EQ(Execute(step, {a, b}, out), "");
      const auto destroy_buffers = [&] {
        for (PJRT_Buffer* buffer : {a, b, out[0]}) Destroy(buffer);
      };
      const int steps[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
      for (const int what : steps[order]) {
        if (what == 0) client.reset();
        if (what == 1) Destroy(step);
        if (what == 2) destroy_buffers();
      }
    }
  }
}

std::string OptionsFor(int device) {
  const std::string ids = {'\x0a', '\x01', static_cast<char>(device)};
  const std::string assignment = std::string("\x08\x01\x10\x01\x1a") + static_cast<char>(ids.size()) + ids;
  const std::string build =
      std::string("\x20\x01\x28\x01\x4a") + static_cast<char>(assignment.size()) + assignment;
  return std::string("\x1a") + static_cast<char>(build.size()) + build;
}

TEST(ExecutablesRunOnTheirAssignedDevice) {
  Client client(2);
  const std::vector<PJRT_Device*> devices = client.Devices();
  CHECK_EQ(devices.size(), 2u);
  PJRT_LoadedExecutable* step = client.Compile(kStep, OptionsFor(10));
  auto on = Garbage<PJRT_LoadedExecutable_AddressableDevices_Args>();
  on.executable = step;
  CALL_OK(LoadedExecutable_AddressableDevices, on);
  CHECK(on.num_addressable_devices == 1 && on.addressable_devices[0] == devices[1]);
  PJRT_Buffer *a = client.Put({1, 2}, devices[0]), *b = client.Put({10, 20}, devices[1]);
  std::vector<PJRT_Buffer*> out(1);
  CHECK(Has(Execute(step, {a, b}, out), "is on device IpuDevice(id=0"));
  auto copy = Garbage<PJRT_Buffer_CopyToDevice_Args>();
  copy.buffer = a;
  copy.dst_device = devices[1];
  CALL_OK(Buffer_CopyToDevice, copy);
  CHECK_EQ(Execute(step, {copy.dst_buffer, b}, out), "");
  CHECK_EQ(Get(out[0]) + Get(a), "11 22 1 2 ");
  CHECK_EQ(ReadCounters(10).runs, 1u);
  CHECK_EQ(ReadCounters(0).runs, 0u);
  // A resident array on another device.
  copy.buffer = out[0];
  copy.dst_device = devices[0];
  PJRT_Buffer* first = copy.dst_buffer;
  CALL_OK(Buffer_CopyToDevice, copy);
  CHECK_EQ(Get(copy.dst_buffer), "11 22 ");
  std::string error;
  client.Compile(kStep, OptionsFor(7), &error);
  CHECK(Has(error, "assigned to IPU 7"));
  client.Compile(std::string("partitions 2\n") + kStep, OptionsFor(10), &error);
  CHECK(Has(error, "needs 2 IPUs, its device assignment has 1"));
  client.Compile(kStep, "\xff\xff", &error);
  CHECK(Has(error, "3: The compile options are not"));
  for (PJRT_Buffer* buffer : {a, b, out[0], first, copy.dst_buffer}) Destroy(buffer);
  Destroy(step);
}

TEST(SerialisedExecutablesLoadOnTheirTargetOnly) {
  Client client;
  for (const char* target : {"ipu2:1472", "ipu2:4"}) {
    const std::string bytes = testing::CompileFake(kStep, target)->Serialize();
    auto args = Garbage<PJRT_Executable_DeserializeAndLoad_Args>();
    args.client = client.get();
    args.serialized_executable = bytes.data();
    args.serialized_executable_size = bytes.size();
    args.overridden_serialized_compile_options = nullptr;
    args.overridden_serialized_compile_options_size = 0;
    const std::string error = CALL(Executable_DeserializeAndLoad, args);
    if (std::string(target) == "ipu2:1472") {
      CHECK_EQ(error, "");
      Destroy(args.loaded_executable);
    } else {
      CHECK(Has(error, "3: The executable was compiled for target ipu2:4, these IPUs are ipu2:1472"));
    }
  }
}

TEST(ErrorsOfARunArriveWithItsEvents) {
  Client client;
  PJRT_LoadedExecutable* bad = client.Compile("fail it broke\ncost 1e9\n" + std::string(kStep));
  PJRT_Buffer *a = client.Put({1, 2}), *b = client.Put({10, 20});
  std::vector<PJRT_Buffer*> out(1);
  CHECK_EQ(Execute(bad, {a, b}, out), "");
  auto ready = Garbage<PJRT_Buffer_ReadyEvent_Args>();
  ready.buffer = out[0];
  CALL_OK(Buffer_ReadyEvent, ready);
  CHECK_EQ(Await(ready.event), "13: it broke");
  CHECK_EQ(Get(out[0]), "13: it broke");
  for (PJRT_Buffer* buffer : {a, b, out[0]}) Destroy(buffer);
  Destroy(bad);
}

TEST(CompilerErrorsKeepTheirCode) {
  Client client;
  std::string error;
  client.Compile("nonsense", "", &error);
  CHECK_EQ(error, "3: fake program: unknown statement nonsense");
}

TEST(DamagedDeviceAssignmentsAreRefused) {
  Client client(2);
  // Two computations, of two and of one replica; and one IPU for both partitions.
  const std::string ragged = std::string("\x08\x01\x10\x02\x1a\x04\x0a\x02\x00\x0a\x1a\x03\x0a\x01\x0a", 15);
  const std::string twice = std::string("\x08\x01\x10\x02\x1a\x03\x0a\x01\x0a\x1a\x03\x0a\x01\x0a", 14);
  const auto options = [](const std::string& assignment) {
    const std::string build = std::string("\x4a") + static_cast<char>(assignment.size()) + assignment;
    return std::string("\x1a") + static_cast<char>(build.size()) + build;
  };
  std::string error;
  client.Compile(std::string("partitions 3\n") + kStep, options(ragged), &error);
  CHECK(
      Has(error, "3: The program needs 3 IPUs, its device assignment has 3: it must name one IPU for each"));
  client.Compile(std::string("partitions 2\n") + kStep, options(twice), &error);
  CHECK(Has(error, "3: The device assignment names IPU 10 more than once"));
  // Build options with 2^31 - 1 replicas of as many partitions.
  client.Compile(kStep, "\x1a\x0c\x20\xff\xff\xff\xff\x07\x28\xff\xff\xff\xff\x07", &error);
  CHECK(Has(error, "3: The compile options ask for 2147483647 replicas"));
}

TEST(DeviceAttributesAndStrings) {
  Client client;
  auto description = Garbage<PJRT_Device_GetDescription_Args>();
  description.device = client.Devices()[0];
  CALL_OK(Device_GetDescription, description);
  auto attributes = Garbage<PJRT_DeviceDescription_Attributes_Args>();
  attributes.device_description = description.device_description;
  CALL_OK(DeviceDescription_Attributes, attributes);
  std::set<std::string> names;
  for (std::size_t i = 0; i < attributes.num_attributes; ++i) {
    const PJRT_NamedValue& value = attributes.attributes[i];
    names.emplace(value.name, value.name_size);
    // jaxlib aborts on other types.
    CHECK(value.type == PJRT_NamedValue_kString || value.type == PJRT_NamedValue_kInt64);
  }
  CHECK(names == (std::set<std::string>{"num_tiles", "bytes_per_tile", "num_worker_contexts",
                                        "tile_clock_frequency", "version", "is_ipu_model", "target_type"}));
  auto text = Garbage<PJRT_DeviceDescription_ToString_Args>();
  text.device_description = description.device_description;
  CALL_OK(DeviceDescription_ToString, text);
  CHECK_EQ(std::string(text.to_string, text.to_string_size), "IpuDevice(id=0, num_tiles=1472, version=ipu2)");
}

TEST(TopologiesComeBackFromTheirBytes) {
  auto create = Garbage<PJRT_TopologyDescription_Create_Args>();
  const std::string name = "ipu2:100";
  create.topology_name = name.data();
  create.topology_name_size = name.size();
  create.num_options = 0;
  CALL_OK(TopologyDescription_Create, create);
  auto bytes = Garbage<PJRT_TopologyDescription_Serialize_Args>();
  bytes.topology = create.topology;
  CALL_OK(TopologyDescription_Serialize, bytes);
  auto back = Garbage<PJRT_TopologyDescription_Deserialize_Args>();
  back.serialized_topology = bytes.serialized_bytes;
  back.serialized_topology_size = bytes.serialized_bytes_size;
  CALL_OK(TopologyDescription_Deserialize, back);
  auto devices = Garbage<PJRT_TopologyDescription_GetDeviceDescriptions_Args>();
  devices.topology = back.topology;
  CALL_OK(TopologyDescription_GetDeviceDescriptions, devices);
  CHECK_EQ(devices.num_descriptions, 1u);
  auto text = Garbage<PJRT_DeviceDescription_ToString_Args>();
  text.device_description = devices.descriptions[0];
  CALL_OK(DeviceDescription_ToString, text);
  CHECK(Has(std::string(text.to_string, text.to_string_size), "num_tiles=100"));
  for (const std::string& bad :
       {std::string(), std::string("jax_ipu topology 1 model ipu2:100"), std::string("x")}) {
    auto damaged = back;
    damaged.serialized_topology = bad.data();
    damaged.serialized_topology_size = bad.size();
    CHECK(Has(CALL(TopologyDescription_Deserialize, damaged), "3: "));
  }
  for (const std::string& bad :
       {std::string("ipu9"), std::string("ipu2:x"), std::string("ipu2:0"), std::string("ipu2:9999")}) {
    auto wrong = create;
    wrong.topology_name = bad.data();
    wrong.topology_name_size = bad.size();
    CHECK(Has(CALL(TopologyDescription_Create, wrong), "3: "));
  }
  bytes.serialized_topology_deleter(bytes.serialized_topology);
  for (PJRT_TopologyDescription* topology : {create.topology, back.topology}) {
    auto destroy = Garbage<PJRT_TopologyDescription_Destroy_Args>();
    destroy.topology = topology;
    CALL_OK(TopologyDescription_Destroy, destroy);
  }
}

}  // namespace
}  // namespace jax_ipu
