// ipu_model/Stored.hpp, Timeline.hpp and Profile.hpp over Graphcore's SDK.
#include "ipu_model/Stored.hpp"

#include <sstream>

#include "ipu_model/Profile.hpp"
#include "ipu_model/Timeline.hpp"
#include "poplar/Executable.hpp"

namespace ipu_model {
namespace {

// Nothing is known of the steps of a program: hardware measures them (PopVision).
class NoTimeline : public Timeline {
 public:
  const Report& report() const override { return report_; }
  std::uint64_t bytes_accessed(std::size_t) const override { return 0; }
  const std::vector<SuperstepCost>& supersteps(std::size_t) const override { return supersteps_; }
  bool Visit(const std::vector<LoopRun>&, std::uint64_t, std::uint64_t,
             const std::function<void(const Step&)>&) const override {
    return true;
  }

 private:
  Report report_;
  std::vector<SuperstepCost> supersteps_;
};

}  // namespace

std::string SerialiseContent(const poplar::Executable& executable) {
  std::ostringstream out;
  executable.serialize(out);
  return out.str();
}

// The SDK's executables hold the machine code of their codelets.
poplar::Executable DeserialiseContent(std::string_view content, bool /*compile_codelets*/) {
  std::istringstream in{std::string(content)};
  return poplar::Executable::deserialize(in);
}

std::optional<ProgramInterface> InterfaceOf(const poplar::Executable&) { return std::nullopt; }

std::vector<LoopRun> LastRunLoops(const poplar::Engine&) { return {}; }
std::shared_ptr<const Timeline> MakeTimeline(const poplar::Executable&, unsigned) {
  return std::make_shared<NoTimeline>();
}

void SetOrigin(std::uint32_t) {}
Profile ProfileOf(const poplar::Executable&) { return {}; }
Profile ProfileOf(const OutOfMemory&) { return {}; }

}  // namespace ipu_model
