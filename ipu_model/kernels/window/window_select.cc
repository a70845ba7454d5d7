// select_and_scatter: a vector loop over channels for one comparison and one addition (max pooling's
// gradient); elementwise passes per window position for everything else.
#include <algorithm>
#include <cstring>

#include "hlo/SingleOperation.hpp"
#include "kernels/elementwise/fill.h"
#include "kernels/host/dense_tensor.h"
#include "kernels/host/isa.h"
#include "kernels/window/window.h"
#include "kernels/window/window_pool.h"
#include "kernels/window/window_strip.h"
#include "kernels/window/window_walk.h"

namespace ipu_model {
namespace {

// Returns `e`, a function of two inputs, with added inputs of the types `more` and an added s32 constant,
// zero.
Expression Extend(const Expression& e, std::vector<DType> more) {
  Expression extended = e;
  const auto added = static_cast<std::uint16_t>(more.size());
  const auto inputs = static_cast<std::uint16_t>(e.inputs.size());
  const auto constants = static_cast<std::uint16_t>(e.constants.size());
  extended.inputs.insert(extended.inputs.end(), more.begin(), more.end());
  ScalarConstant zero;
  zero.type = DType::kS32;
  extended.constants.push_back(zero);
  const auto move = [&](std::uint16_t* reg) {
    if (*reg >= inputs + constants) ++*reg;
    if (*reg >= inputs) *reg = static_cast<std::uint16_t>(*reg + added);
  };
  for (Instruction& i : extended.code) {
    for (std::uint16_t& reg : i.operand) move(&reg);
  }
  for (std::uint16_t& reg : extended.outputs) move(&reg);
  return extended;
}

std::uint16_t Append(Expression* e, ScalarOp op, DType operand_type, DType result_type, std::uint16_t a,
                     std::uint16_t b, std::uint16_t c = 0) {
  e->code.push_back({op, operand_type, result_type, {a, b, c}, 0});
  return static_cast<std::uint16_t>(e->inputs.size() + e->constants.size() + e->code.size() - 1);
}

// Registers of the added inputs of extended expressions.
constexpr std::uint16_t kChosen = 2, kTap = 3;

// (selected, candidate, chosen, tap) -> (selected, chosen). The candidate becomes the selected element if
// none is selected yet (chosen < 0), or if select does not keep the selected one.
Expression SelectionStep(const Expression& select) {
  const DType type = select.inputs.at(0);
  Expression e = Extend(select, {DType::kS32, DType::kS32});
  const auto zero = static_cast<std::uint16_t>(e.inputs.size() + e.constants.size() - 1);
  const std::uint16_t any = Append(&e, ScalarOp::kGe, DType::kS32, DType::kPred, kChosen, zero);
  const std::uint16_t keep = Append(&e, ScalarOp::kAnd, DType::kPred, DType::kPred, any, e.outputs.at(0));
  const std::uint16_t selected = Append(&e, ScalarOp::kSelect, type, type, keep, 0, 1);
  const std::uint16_t chosen = Append(&e, ScalarOp::kSelect, DType::kS32, DType::kS32, keep, kChosen, kTap);
  e.outputs = {selected, chosen};
  return e;
}

// (result, source, chosen, tap) -> result. Applies scatter only where this tap was chosen.
Expression ScatterStep(const Expression& scatter) {
  const DType type = scatter.inputs.at(0);
  Expression e = Extend(scatter, {DType::kS32, DType::kS32});
  const std::uint16_t match = Append(&e, ScalarOp::kEq, DType::kS32, DType::kPred, kChosen, kTap);
  const std::uint16_t result = Append(&e, ScalarOp::kSelect, type, type, match, e.outputs.at(0), 0);
  e.outputs = {result};
  return e;
}

// Returns the comparison if `select` is "selected <comparison> candidate"; otherwise kCount.
ScalarOp ComparisonOf(const Expression& e) {
  const Instruction* const only = hlo::SingleOperation(e);
  if (only == nullptr || e.inputs[0] != e.inputs[1]) return ScalarOp::kCount;
  const bool swapped = only->operand[0] == 1;
  switch (only->op) {
    case ScalarOp::kGe:
      return swapped ? ScalarOp::kLe : ScalarOp::kGe;
    case ScalarOp::kGt:
      return swapped ? ScalarOp::kLt : ScalarOp::kGt;
    case ScalarOp::kLe:
      return swapped ? ScalarOp::kGe : ScalarOp::kLe;
    case ScalarOp::kLt:
      return swapped ? ScalarOp::kGt : ScalarOp::kLt;
    default:
      return ScalarOp::kCount;
  }
}

// Dimensions without a window are independent: one of them is vectorised, the workers share the others. The
// windowed dimensions are visited in order, so that overlapping windows add in source order, as in XLA.
template <typename T>
class ScatterByWindow {
 public:
  // in: operand, source, init.
  ScatterByWindow(const WindowGeometry& g, ScalarOp comparison, const std::vector<HostTensor>& in,
                  const HostTensor& out)
      : g_(g),
        comparison_(comparison),
        operand_(in[0]),
        source_(in[1]),
        out_(out),
        init_(*in[2].as<const T>()) {}

  void Run(HostContext& context) {
    Sort();
    if (!covered_ || !disjoint_) Fill(context, &init_, out_);
    double steps = static_cast<double>(source_.num_elements()) * static_cast<double>(taps_);
    const std::int64_t blocks = outer_ >= context.pool.size() ? 1 : std::max<std::int64_t>(1, columns_ / 64);
    const int workers =
        static_cast<int>(std::min<std::int64_t>(WindowWorkers(context.pool, steps), outer_ * blocks));
    const auto taps = static_cast<std::size_t>(taps_);
    auto* offsets = context.scratch.Allocate<std::int64_t>(4 * taps * static_cast<std::size_t>(workers));
    auto task = [&](int worker) {
      std::int64_t* mine = offsets + 4 * taps * static_cast<std::size_t>(worker);
      FindOffsets(nullptr, mine, mine + taps);
      const std::int64_t units = outer_ * blocks;
      for (std::int64_t u = units * worker / workers; u < units * (worker + 1) / workers; ++u) {
        const std::int64_t begin = columns_ * (u % blocks) / blocks,
                           end = columns_ * (u % blocks + 1) / blocks;
        RunWindows(u / blocks, begin, end, mine);
      }
    };
    context.pool.Run(workers, TaskRef(task));
  }

 private:
  struct Range {
    std::int64_t begin, end;
  };

  void Sort() {
    for (int d = 0; d < g_.rank; ++d) {
      const WindowDimension& w = g_.dim[d];
      const bool plain =
          w.size == 1 && w.stride == 1 && w.padding_low == 0 && operand_.shape[d] == source_.shape[d];
      if (!plain) {
        windowed_[num_windowed_++] = d;
        taps_ *= w.size;
        windows_ *= source_.shape[d];
        disjoint_ = disjoint_ && w.stride >= w.size;
        covered_ = covered_ && w.stride == w.size && w.padding_low == 0 &&
                   source_.shape[d] * w.size >= operand_.shape[d];
      } else if (column_ < 0 && source_.shape[d] > 1 && operand_.strides[d] == 1 && source_.strides[d] == 1 &&
                 out_.strides[d] == 1) {
        column_ = d;
        columns_ = source_.shape[d];
      } else {
        plain_[num_plain_++] = d;
        outer_ *= source_.shape[d];
      }
    }
  }

  // Writes the offsets of the taps in `ranges` (null: all) from the window's first element, even if outside
  // the operand; returns their number.
  std::int64_t FindOffsets(const Range* ranges, std::int64_t* operand, std::int64_t* result) const {
    std::int64_t n = 1;
    operand[0] = result[0] = 0;
    for (int i = 0; i < num_windowed_; ++i) {
      const int d = windowed_[i];
      const Range r = ranges ? ranges[i] : Range{0, g_.dim[d].size};
      const std::int64_t size = r.end - r.begin;
      // From the end, so that the row-major list can be extended in place.
      for (std::int64_t j = n - 1; j >= 0; --j) {
        for (std::int64_t k = size - 1; k >= 0; --k) {
          operand[j * size + k] = operand[j] + (r.begin + k) * operand_.strides[d];
          result[j * size + k] = result[j] + (r.begin + k) * out_.strides[d];
        }
      }
      n *= size;
    }
    return n;
  }

  void RunWindows(std::int64_t outer, std::int64_t begin, std::int64_t end, std::int64_t* offsets) const {
    std::int64_t a = begin, b = begin, c = begin;
    for (int i = num_plain_ - 1; i >= 0; --i) {
      const int d = plain_[i];
      const std::int64_t index = outer % source_.shape[d];
      outer /= source_.shape[d];
      a += index * operand_.strides[d];
      b += index * source_.strides[d];
      c += index * out_.strides[d];
    }
    std::int64_t q[kMaxRank] = {};
    SelectStrip<T> strip;
    strip.columns = end - begin;
    strip.comparison = comparison_;
    strip.disjoint = disjoint_;
    strip.init = init_;
    for (std::int64_t window = 0; window < windows_; ++window) {
      Range ranges[kMaxRank];
      bool whole = true, any = true;
      std::int64_t wa = a, wb = b, wc = c;
      for (int i = 0; i < num_windowed_; ++i) {
        const int d = windowed_[i];
        const WindowDimension& w = g_.dim[d];
        const std::int64_t first = q[i] * w.stride - w.padding_low;
        ranges[i] = {std::max<std::int64_t>(0, -first), std::min(w.size, operand_.shape[d] - first)};
        whole = whole && ranges[i].begin == 0 && ranges[i].end == w.size;
        any = any && ranges[i].begin < ranges[i].end;
        wa += first * operand_.strides[d];
        wb += q[i] * source_.strides[d];
        wc += first * out_.strides[d];
      }
      if (any) {
        strip.operand = operand_.as<const T>() + wa;
        strip.source = source_.as<const T>() + wb;
        strip.result = out_.as<T>() + wc;
        std::int64_t* taps = whole ? offsets : offsets + 2 * taps_;
        strip.taps = whole ? taps_ : FindOffsets(ranges, taps, taps + taps_);
        strip.operand_offsets = taps;
        strip.result_offsets = taps + taps_;
        if (HasAvx512()) {
          avx512::SelectAndAdd(strip);
        } else {
          avx2::SelectAndAdd(strip);
        }
      }
      for (int i = num_windowed_ - 1; i >= 0; --i) {
        if (++q[i] < source_.shape[windowed_[i]]) break;
        q[i] = 0;
      }
    }
  }

  const WindowGeometry& g_;
  const ScalarOp comparison_;
  const HostTensor &operand_, &source_, &out_;
  const T init_;
  int windowed_[kMaxRank], plain_[kMaxRank];
  int num_windowed_ = 0, num_plain_ = 0, column_ = -1;
  std::int64_t taps_ = 1, windows_ = 1, columns_ = 1, outer_ = 1;
  // disjoint_: no element is in two windows. covered_: every element is in a window.
  bool disjoint_ = true, covered_ = true;
};

}  // namespace

SelectAndScatterKernel::SelectAndScatterKernel(const Expression& select, const Expression& scatter)
    : type_(select.inputs.at(0)),
      comparison_(ComparisonOf(select)),
      adds_(ClassifyCombiner(scatter) == WindowCombiner::kAdd),
      select_(SelectionStep(select)),
      scatter_(ScatterStep(scatter)) {}

void SelectAndScatterKernel::Run(HostContext& context, const WindowGeometry& geometry,
                                 const std::vector<HostTensor>& in, const HostTensor& out) const {
  if (out.num_elements() == 0) return;
  if (in[1].num_elements() == 0) return Fill(context, in[2].data, out);
  if (comparison_ == ScalarOp::kCount || !adds_ || in[1].type != type_ || !PoolTakes(type_)) {
    Fill(context, in[2].data, out);
    return RunGeneral(context, geometry, in[0], in[1], out);
  }
  switch (type_) {
    case DType::kF32:
      return ScatterByWindow<float>(geometry, comparison_, in, out).Run(context);
    case DType::kF64:
      return ScatterByWindow<double>(geometry, comparison_, in, out).Run(context);
    case DType::kS32:
      return ScatterByWindow<std::int32_t>(geometry, comparison_, in, out).Run(context);
    case DType::kU32:
      return ScatterByWindow<std::uint32_t>(geometry, comparison_, in, out).Run(context);
    case DType::kS64:
      return ScatterByWindow<std::int64_t>(geometry, comparison_, in, out).Run(context);
    default:
      return ScatterByWindow<std::uint64_t>(geometry, comparison_, in, out).Run(context);
  }
}

void SelectAndScatterKernel::RunGeneral(HostContext& context, const WindowGeometry& g,
                                        const HostTensor& operand, const HostTensor& source,
                                        const HostTensor& out) const {
  const auto dense = [&](DType type) {
    HostTensor t = source;
    t.type = type;
    t.data = context.scratch.Allocate(static_cast<std::size_t>(SetDenseStrides(&t)) * SizeOf(type));
    return t;
  };
  const HostTensor selected = dense(operand.type), chosen = dense(DType::kS32);
  std::memset(selected.data, 0, static_cast<std::size_t>(selected.num_elements()) * SizeOf(selected.type));
  const std::int32_t none = -1;
  Fill(context, &none, chosen);
  // Returns the part of a tensor that corresponds to the tap, in source shape or in operand shape.
  const auto part = [&](const TapCounter& tap, HostTensor t, bool operand_shaped) {
    for (int d = 0; d < g.rank; ++d) {
      const TapRange r = FindTap(g.dim[d], tap[d], operand.shape[d], source.shape[d]);
      t = operand_shaped ? StridedPart(t, d, r.at, r.at_step, r.count)
                         : StridedPart(t, d, r.first, r.step, r.count);
    }
    return t;
  };
  const Scratch::Mark mark = context.scratch.Save();
  std::int32_t number = 0;
  for (TapCounter tap(g, false); !tap.done(); tap.Next(), ++number) {
    const HostTensor state = part(tap, selected, false), choice = part(tap, chosen, false);
    if (state.num_elements() == 0) continue;
    const HostTensor in[] = {state, part(tap, operand, true), choice,
                             BroadcastLike(choice, &number, DType::kS32)};
    const HostTensor results[] = {state, choice};
    select_.Run(context, in, results);
    context.scratch.Rewind(mark);
  }
  // Backwards, so that overlapping windows add to an element in source order.
  for (TapCounter tap(g, true); !tap.done(); tap.Next()) {
    --number;
    const HostTensor to = part(tap, out, true), choice = part(tap, chosen, false);
    if (to.num_elements() == 0) continue;
    const HostTensor in[] = {to, part(tap, source, false), choice,
                             BroadcastLike(choice, &number, DType::kS32)};
    scatter_.Run(context, in, &to);
    context.scratch.Rewind(mark);
  }
}

}  // namespace ipu_model
