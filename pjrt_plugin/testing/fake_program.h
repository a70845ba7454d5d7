// A stand-in for the compiler and the engine in tests of the runtime and the C API: f32 programs written as
// text.
#ifndef JAX_IPU_TESTING_FAKE_PROGRAM_H_
#define JAX_IPU_TESTING_FAKE_PROGRAM_H_

#include <memory>
#include <string>

#include "runtime/device/device_engine.h"
#include "runtime/executable/executable.h"

namespace jax_ipu::testing {

// One statement per line:
//   in <type> <dims> [donated] [alias=<output>] [unchanged] [unused] [kept]
//   out <type> <dims> <operation> [<input>] [<input>]     operation: inc, add, copy, forward, allreduce
//   cost <nanoseconds>                                     as Executable::cost.host_nanoseconds
//   sleep <milliseconds>                                   main takes at least that long
//   fail <message>                                         main throws
//   failing <replica>                                      only this replica throws
//   partitions <n>                                         for n devices
//   swap                                                   states of one type can be swapped
// <type> as NameOf(DType), <dims> as 2x3, or a point for a scalar. inc adds one and add sums two inputs
// (f32), copy moves bytes, forward returns an argument itself, allreduce sums an input over the
// devices of a launch.
std::shared_ptr<const Executable> CompileFake(const std::string& text, const std::string& target);

// Throws when a resident variable is used before it was written, or a stream before it was connected.
std::unique_ptr<DeviceEngine> CreateFakeEngine(const Executable& executable, const DeviceConfig& config);

}  // namespace jax_ipu::testing

#endif  // JAX_IPU_TESTING_FAKE_PROGRAM_H_
