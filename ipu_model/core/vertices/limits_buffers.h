// Operations that can do with less memory for buffers, in more supersteps.
#ifndef IPU_MODEL_CORE_VERTICES_LIMITS_BUFFERS_H_
#define IPU_MODEL_CORE_VERTICES_LIMITS_BUFFERS_H_

#include <cstdint>
#include <limits>

#include "core/operation/serialise.h"

namespace ipu_model {

// A base of such operations, beside Operation. The compiler sets the limit where a program does not fit.
class LimitsBuffers {
 public:
  virtual ~LimitsBuffers() = default;

  // The bytes of a tile's memory for exchange buffers and temporaries; 0: as many as give a short program.
  std::int64_t buffer_limit() const { return limit_; }
  // Reads a limit as LimitBuffers sets it, or 0.
  static std::int64_t ReadLimit(Reader& reader) {
    const std::int64_t limit = reader.ReadInteger(0, std::numeric_limits<std::int64_t>::max());
    if (limit > 0 && limit < kLeast) reader.Fail("a limit of the memory for buffers is too low");
    return limit;
  }

  // Whether a plan in few enough supersteps could do with `bytes`.
  bool CanDoWith(std::int64_t bytes) const { return bytes >= kLeast && HasPlanFor(bytes); }
  // Lowers the limit. Returns false, and leaves it as it is, if it is not above `bytes` or `bytes` are too
  // few.
  bool LimitBuffers(std::int64_t bytes) {
    if (bytes < kLeast || (limit_ > 0 && limit_ <= bytes)) return false;
    if (!is_lowered_) planned_limit_ = limit_;
    is_lowered_ = true;
    limit_ = bytes;
    PlanAgain();
    return true;
  }
  // Takes back what LimitBuffers has done.
  void Unlimit() {
    if (!is_lowered_) return;
    is_lowered_ = false;
    limit_ = planned_limit_;
    PlanAgain();
  }

 protected:
  virtual bool HasPlanFor(std::int64_t /*bytes*/) const { return true; }
  // Called when the limit is another.
  virtual void PlanAgain() {}
  bool is_lowered() const { return is_lowered_; }

  std::int64_t limit_ = 0;

 private:
  static constexpr std::int64_t kLeast = 512;

  bool is_lowered_ = false;
  std::int64_t planned_limit_ = 0;  // before it was lowered
};

}  // namespace ipu_model

#endif  // IPU_MODEL_CORE_VERTICES_LIMITS_BUFFERS_H_
