// Tests of generated machine code: jumps, constants, calls, and that its memory is never writable and
// executable.
#include "kernels/host/machine_code.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "check.h"

namespace ipu_model {
namespace {

template <typename Function>
Function* Entry(const MachineCode& code) {
  return reinterpret_cast<Function*>(const_cast<void*>(code.entry()));
}

// The access rights of the mapping that holds an address, for example "r-xp".
std::string RightsOf(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::string rights;
    std::istringstream(line) >> std::hex >> begin >> dash >> end >> rights;
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (begin <= at && at < end) return rights;
  }
  return "";
}

TEST(LoopsCountInMemory) {
  Assembler code;
  const Assembler::Label top = code.NewLabel(), end = code.NewLabel();
  code.Bind(top);
  code.Increment({Gpr::kRdi, 8});
  code.Decrement({Gpr::kRdi, 0});
  code.JumpIfZero(end);
  code.Jump(top);
  code.Bind(end);
  code.Return();
  const MachineCode machine_code(code.Finish());
  CHECK(machine_code.entry() != nullptr);
  std::uint64_t words[2] = {1000, 5};
  Entry<void(std::uint64_t*)>(machine_code)(words);
  CHECK_EQ(words[0], 0u);
  CHECK_EQ(words[1], 1005u);
}

TEST(AnIndexIsAddedToAddresses) {
  Assembler code;
  code.Push(Memory::kIndex);
  code.LoadImmediate(Memory::kIndex, 3);
  code.LoadByte(Gpr::kRax, {Gpr::kRdi, 1, false, 1});
  code.StoreByte({Gpr::kRsi, 0, false, 4}, Gpr::kRax);
  code.Pop(Memory::kIndex);
  code.Return();
  const MachineCode machine_code(code.Finish());
  CHECK(machine_code.entry() != nullptr);
  const unsigned char from[5] = {1, 2, 3, 4, 5};
  unsigned char to[16] = {};
  Entry<void(const unsigned char*, unsigned char*)>(machine_code)(from, to);
  for (std::size_t i = 0; i < sizeof(to); ++i) CHECK_EQ(to[i], i == 12 ? 5 : 0);
}

TEST(IntegersAreClampedAndScaled) {
  Assembler code;
  code.LoadSigned32(Gpr::kRcx, {Gpr::kRdi, 4});
  code.LoadImmediate(Gpr::kRdx, static_cast<std::uint64_t>(-10));
  code.CompareGpr(Gpr::kRcx, Gpr::kRdx);
  code.MoveIfLess(Gpr::kRcx, Gpr::kRdx);
  code.LoadImmediate(Gpr::kRdx, 1000);
  code.CompareGpr(Gpr::kRcx, Gpr::kRdx);
  code.MoveIfGreater(Gpr::kRcx, Gpr::kRdx);
  code.MultiplyImmediate(Gpr::kRcx, -70000000);
  code.LoadImmediate(Gpr::kRax, 5);
  code.AddGpr(Gpr::kRax, Gpr::kRcx);
  code.Return();
  const MachineCode machine_code(code.Finish());
  for (const std::int32_t value : {-2147483647, -11, -10, -9, 0, 1, 999, 1000, 1001, 2147483647}) {
    const std::int32_t words[2] = {0, value};
    const std::int64_t clamped = value < -10 ? -10 : value > 1000 ? 1000 : value;
    CHECK_EQ(Entry<std::int64_t(const std::int32_t*)>(machine_code)(words), 5 - clamped * 70000000);
  }
}

TEST(ConstantsAreBehindTheCode) {
  Assembler code;
  std::array<unsigned char, 32> first{}, second{};
  for (std::size_t i = 0; i < first.size(); ++i) {
    first[i] = static_cast<unsigned char>(i);
    second[i] = static_cast<unsigned char>(2 * i);
  }
  CHECK_EQ(code.Constant(first), 0);
  const std::int32_t at = code.Constant(second);
  CHECK_EQ(at, 32);
  CHECK_EQ(code.Constant(first), 0);
  constexpr VexOp kLoad = {1, 0, 0, 0x10}, kStore = {1, 0, 0, 0x11};  // vmovups
  code.Vex(kLoad, true, 9, 0, {Gpr::kRax, at, true});
  code.Vex(kStore, true, 9, 0, {Gpr::kRdi, 0});
  code.ZeroUpper();
  code.Return();
  const MachineCode machine_code(code.Finish());
  unsigned char result[32] = {};
  Entry<void(unsigned char*)>(machine_code)(result);
  CHECK(std::memcmp(result, second.data(), sizeof(result)) == 0);
}

TEST(MemoryIsNotWritableAndExecutable) {
  Assembler code;
  code.LoadImmediate(Gpr::kRax, 0x123456789abcdef0u);
  code.Return();
  MachineCode machine_code(code.Finish());
  CHECK_EQ(Entry<std::uint64_t()>(machine_code)(), 0x123456789abcdef0u);
  CHECK_EQ(RightsOf(machine_code.entry()), std::string("r-xp"));
  const void* const entry = machine_code.entry();
  const MachineCode moved = std::move(machine_code);
  CHECK(moved.entry() == entry);
}

}  // namespace
}  // namespace ipu_model
