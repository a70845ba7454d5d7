// Recognises sort keys and chooses their encoding.
#include "kernels/sort/sort_key.h"

#include <algorithm>
#include <cstring>

#include "kernels/host/isa.h"
#include "kernels/sort/sort_loops.h"
#include "kernels/vector/convert.h"

namespace ipu_model {
namespace {

// The format of float types that order by sign and magnitude of their bits.
struct FloatBits {
  std::uint64_t sign, infinity;
  std::uint64_t smallest;  // smallest magnitude that comparisons do not flush to zero
};

// Supports types with sign, magnitude and IEEE infinities. Other types (8-bit formats without infinity) use
// the general comparator.
std::optional<FloatBits> BitsOfFloat(DType type) {
  switch (type) {
    // f16 is compared in f32, where its subnormals are normal numbers.
    case DType::kF16:
      return FloatBits{0x8000, 0x7c00, 1};
    case DType::kBF16:
      return FloatBits{0x8000, 0x7f80, 0x80};
    case DType::kF32:
      return FloatBits{0x80000000u, 0x7f800000u, 0x00800000u};
    case DType::kF64:
      return FloatBits{std::uint64_t{1} << 63, 0x7ff0000000000000u, 0x0010000000000000u};
    default:
      return std::nullopt;
  }
}

// An operand of a comparison.
struct Term {
  int operand = 0;
  bool second = false;  // belongs to b rather than a
  SortKey::Part part = SortKey::Part::kWhole;
  DType type = DType::kF32;
  bool zeros = false, nans = false;

  bool SameSource(const Term& o) const {
    return operand == o.operand && second == o.second && part == o.part;
  }
  // Whether `o` is the same expression of the other element.
  bool Mirrors(const Term& o) const {
    return operand == o.operand && second != o.second && part == o.part && zeros == o.zeros && nans == o.nans;
  }
};

class Recogniser {
 public:
  explicit Recogniser(const Expression& e) : e_(e) {}

  // Matches less(k), or less(k) or (equal(k) and rest).
  bool Lexicographic(std::uint16_t reg, std::vector<SortKey>* keys) const {
    if (const std::optional<SortKey> key = Less(reg)) {
      keys->push_back(*key);
      return true;
    }
    const Instruction* either = Code(reg, ScalarOp::kOr);
    if (either == nullptr) return false;
    for (int side = 0; side < 2; ++side) {
      const std::optional<SortKey> key = Less(either->operand[side]);
      const Instruction* both = Code(either->operand[1 - side], ScalarOp::kAnd);
      if (!key || both == nullptr) continue;
      for (int other = 0; other < 2; ++other) {
        if (!IsEqual(both->operand[other], *key)) continue;
        keys->push_back(*key);
        if (Lexicographic(both->operand[1 - other], keys)) return true;
        keys->pop_back();
      }
    }
    return false;
  }

 private:
  const Instruction* Code(std::uint16_t reg) const {
    const std::size_t first = e_.inputs.size() + e_.constants.size();
    return reg >= first && reg - first < e_.code.size() ? &e_.code[reg - first] : nullptr;
  }
  const Instruction* Code(std::uint16_t reg, ScalarOp op) const {
    const Instruction* code = Code(reg);
    return code != nullptr && code->op == op ? code : nullptr;
  }

  std::optional<std::uint64_t> Constant(std::uint16_t reg) const {
    if (reg < e_.inputs.size() || reg - e_.inputs.size() >= e_.constants.size()) return std::nullopt;
    std::uint64_t bits = 0;
    std::memcpy(&bits, e_.constants[reg - e_.inputs.size()].bytes, sizeof(bits));
    return bits;
  }

  static SortKey KeyOf(const Term& term) {
    SortKey key;
    key.operand = term.operand;
    key.part = term.part;
    key.type = term.type;
    key.equal_zeros = term.zeros;
    key.equal_nans = term.nans;
    return key;
  }

  std::optional<Term> TermOf(std::uint16_t reg) const {
    Term term;
    if (reg < e_.inputs.size()) {
      term.operand = reg / 2;
      term.second = reg % 2 != 0;
      term.type = e_.inputs[reg];
      return term;
    }
    const Instruction* code = Code(reg);
    if (code == nullptr) return std::nullopt;
    if (code->op == ScalarOp::kReal || code->op == ScalarOp::kImag) {
      const std::optional<Term> whole = TermOf(code->operand[0]);
      if (!whole || !IsComplex(whole->type)) return std::nullopt;
      term = *whole;
      term.part = code->op == ScalarOp::kReal ? SortKey::Part::kReal : SortKey::Part::kImaginary;
      term.type = whole->type == DType::kC64 ? DType::kF32 : DType::kF64;
      return term;
    }
    if (code->op != ScalarOp::kSelect) return std::nullopt;
    // Matches select(x == 0, +0, x) and select(x != x, NaN, y), where x is the plain element and y is x or
    // the first form.
    const Instruction* condition = Code(code->operand[0]);
    const std::optional<std::uint64_t> chosen = Constant(code->operand[1]);
    const std::optional<Term> other = TermOf(code->operand[2]);
    if (condition == nullptr || !chosen || !other || other->nans) return std::nullopt;
    const std::optional<FloatBits> bits = BitsOfFloat(other->type);
    const std::optional<Term> tested = TermOf(condition->operand[0]);
    if (!bits || !tested || tested->zeros || tested->nans || !tested->SameSource(*other)) return std::nullopt;
    term = *other;
    if (condition->op == ScalarOp::kEq && !other->zeros) {
      const std::optional<std::uint64_t> zero = Constant(condition->operand[1]);
      if (!zero || (*zero & ~bits->sign) != 0 || *chosen != 0) return std::nullopt;
      term.zeros = true;
      return term;
    }
    if (condition->op == ScalarOp::kNe) {
      const std::optional<Term> again = TermOf(condition->operand[1]);
      if (!again || again->zeros || again->nans || !again->SameSource(*tested)) return std::nullopt;
      if (*chosen <= bits->infinity || *chosen >= bits->sign) return std::nullopt;
      term.nans = true;
      return term;
    }
    return std::nullopt;
  }

  // Matches "a goes before b by one key".
  std::optional<SortKey> Less(std::uint16_t reg) const {
    const Instruction* code = Code(reg);
    if (code == nullptr) return std::nullopt;
    const bool total = code->op == ScalarOp::kTotalLt;
    if (!total && code->op != ScalarOp::kLt && code->op != ScalarOp::kGt) return std::nullopt;
    const std::optional<Term> x = TermOf(code->operand[0]), y = TermOf(code->operand[1]);
    if (!x || !y || !x->Mirrors(*y)) return std::nullopt;
    SortKey key = KeyOf(*x);
    if (BitsOfFloat(key.type)) {
      if (!total) key.equal_zeros = key.equal_nans = true;
    } else if (key.type != DType::kPred && (total || !IsInteger(key.type))) {
      return std::nullopt;
    }
    // "x < y" with x from b sorts in descending order, like "a > b".
    key.descending = (code->op == ScalarOp::kGt) != x->second;
    return key;
  }

  // Matches "the keys of a and b are equal".
  bool IsEqual(std::uint16_t reg, const SortKey& key) const {
    const auto matches = [&](std::uint16_t x_reg, std::uint16_t y_reg, bool plain) {
      const std::optional<Term> x = TermOf(x_reg), y = TermOf(y_reg);
      if (!x || !y || !x->Mirrors(*y)) return false;
      SortKey other = KeyOf(*x);
      if (plain && BitsOfFloat(other.type)) other.equal_zeros = other.equal_nans = true;
      return other.operand == key.operand && other.part == key.part && other.equal_zeros == key.equal_zeros &&
             other.equal_nans == key.equal_nans;
    };
    if (const Instruction* equal = Code(reg, ScalarOp::kEq)) {
      return matches(equal->operand[0], equal->operand[1], true);
    }
    // In the total order, keys are equal if neither is below the other.
    const Instruction* negated = Code(reg, ScalarOp::kNot);
    const Instruction* different = negated ? Code(negated->operand[0], ScalarOp::kOr) : nullptr;
    if (different == nullptr) return false;
    const Instruction* below = Code(different->operand[0], ScalarOp::kTotalLt);
    const Instruction* above = Code(different->operand[1], ScalarOp::kTotalLt);
    return below != nullptr && above != nullptr && below->operand[0] == above->operand[1] &&
           below->operand[1] == above->operand[0] && matches(below->operand[0], below->operand[1], false);
  }

  const Expression& e_;
};

KeyCode CodeOf(const SortKey& key) {
  const std::uint64_t ones = key.bits() == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << key.bits()) - 1;
  KeyCode code;
  code.bytes = static_cast<int>(SizeOf(key.type));
  code.flip = key.descending ? ones : 0;
  if (const std::optional<FloatBits> bits = BitsOfFloat(key.type)) {
    code.is_float = true;
    code.smallest = key.equal_zeros ? bits->smallest : 0;
    code.largest = key.equal_nans ? bits->infinity : ones;
    code.nan = bits->infinity | bits->infinity >> 1;
  } else if (IsSigned(key.type)) {
    code.sign = ones / 2 + 1;
  }
  if (IsInteger(key.type)) code.unused = std::max(0, 8 - BitWidth(key.type));
  return code;
}

}  // namespace

std::optional<std::vector<SortKey>> RecogniseKeys(const Expression& comparator) {
  if (comparator.outputs.size() != 1) return std::nullopt;
  std::vector<SortKey> keys;
  if (!Recogniser(comparator).Lexicographic(comparator.outputs[0], &keys)) return std::nullopt;
  // The high bits of a sub-byte integer's byte are undefined, and decoded keys would lose the element.
  const auto sub_byte = [](const SortKey& key) { return IsInteger(key.type) && BitWidth(key.type) < 8; };
  if (std::any_of(keys.begin(), keys.end(), sub_byte)) return std::nullopt;
  return keys;
}

template <typename K>
bool EncodeKeys(const SortKey& key, const void* data, std::int64_t stride, std::int64_t n, K* keys) {
  const char* p = static_cast<const char*>(data);
  if (key.part != SortKey::Part::kWhole) {
    stride *= 2;
    if (key.part == SortKey::Part::kImaginary) p += SizeOf(key.type);
  }
  return JAX_IPU_FOR_ISA(EncodeKeys(CodeOf(key), p, stride, n, keys));
}

template <typename K>
void DecodeKeys(const SortKey& key, const K* keys, std::int64_t n, void* data) {
  JAX_IPU_FOR_ISA(DecodeKeys(CodeOf(key), keys, n, data));
}

template bool EncodeKeys(const SortKey&, const void*, std::int64_t, std::int64_t, std::uint32_t*);
template bool EncodeKeys(const SortKey&, const void*, std::int64_t, std::int64_t, std::uint64_t*);
template void DecodeKeys(const SortKey&, const std::uint32_t*, std::int64_t, void*);
template void DecodeKeys(const SortKey&, const std::uint64_t*, std::int64_t, void*);

}  // namespace ipu_model
