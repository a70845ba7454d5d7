// What the replicas of a launch agree on, and who compiles it.
#include "runtime/device/link_round.h"

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"

namespace jax_ipu {
namespace {

// Replicas propose these numbers at the same time, and `leaving` others leave instead: whether each of those
// that propose is told that all agree.
std::vector<bool> Agreed(const std::vector<std::uint64_t>& proposals, unsigned leaving = 0) {
  const auto replicas = static_cast<unsigned>(proposals.size()) + leaving;
  ipu_model::ReplicaGroup group(replicas);
  LinkRound round(group);
  std::vector<char> told(proposals.size());
  std::vector<std::thread> threads;
  for (unsigned r = 0; r < replicas; ++r) {
    threads.emplace_back([&, r] {
      if (r < proposals.size())
        told[r] = round.AgreeOn(r, proposals[r]);
      else
        group.Leave(r);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {told.begin(), told.end()};
}

TEST(AllReplicasLinkOrNone) {
  CHECK(Agreed({7, 7, 7}) == std::vector<bool>(3, true));
  CHECK(Agreed({7, 7, 8}) == std::vector<bool>(3, false));
  CHECK(Agreed({7, 0, 7}) == std::vector<bool>(3, false));
  CHECK(Agreed({0, 0}) == std::vector<bool>(2, false));
  CHECK(Agreed({7, 7}, 1) == std::vector<bool>(2, false));
}

TEST(ProgramsAreCompiledOnce) {
  ipu_model::ReplicaGroup group(4);
  LinkRound linking(group), failing(group);
  std::atomic<int> calls{0};
  const Linker linker = [&](const std::vector<LinkPart>& parts) {
    ++calls;
    if (parts.empty()) throw Error(Code::kResourceExhausted, "too large together");
    return LinkedProgram{std::make_shared<Executable>(), {}};
  };
  std::vector<LinkedProgram> linked(4);
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < linked.size(); ++r) {
    threads.emplace_back([&, r] {
      linked[r] = linking.Link(linker, std::vector<LinkPart>(2));
      try {
        failing.Link(linker, {});
      } catch (const Error& error) {
        if (error.code == Code::kResourceExhausted) ++errors;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(calls.load(), 2);
  CHECK_EQ(errors.load(), 4);
  for (const LinkedProgram& one : linked) CHECK(one.executable == linked[0].executable);
}

}  // namespace
}  // namespace jax_ipu
