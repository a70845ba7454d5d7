// The operation behind hlo::cycleStamp, and the clock that it reads.
#ifndef IPU_MODEL_CORE_PROGRAM_CYCLE_STAMP_H_
#define IPU_MODEL_CORE_PROGRAM_CYCLE_STAMP_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/operation/operation.h"

namespace ipu_model {

class CycleStamp : public Operation {
 public:
  // A Repeat around the stamp.
  struct Repeated {
    std::uint64_t count = 1, body = 0;  // trips, and cycles of one
  };
  // Cycles of the main program before the stamp, where loops around it have not made a trip yet, and the
  // Repeats around it, the innermost first. Loops of unknown trip count are counted by the engine.
  struct Cost {
    std::uint64_t before = 0;
    std::vector<Repeated> repeats;
  };

  void set_cost(Cost cost) { cost_ = std::move(cost); }
  const Cost& cost() const { return cost_; }

  std::string_view kind() const override { return "hlo::cycleStamp"; }
  void Write(Writer& writer) const override;
  bool OperandsFit(unsigned num_tiles) const override;
  void Run(HostContext& context, const std::vector<HostTensor>& in,
           const std::vector<HostTensor>& out) const override;
  TilePlan Plan(const DeviceContext& context) const override;

 private:
  Cost cost_;
};

std::unique_ptr<Operation> ReadCycleStamp(Reader& reader);

// The cycles of a run of an engine, which makes its clock the current one of the thread.
class CycleClock {
 public:
  // Cycles of the run before the stamp. Once for each execution of it.
  virtual std::uint64_t Read(const CycleStamp& stamp) = 0;
  // Null outside of runs.
  static CycleClock* Current();

  class Scope {
   public:
    explicit Scope(CycleClock* clock);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    CycleClock* const outer_;
  };

 protected:
  ~CycleClock() = default;
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_PROGRAM_CYCLE_STAMP_H_
