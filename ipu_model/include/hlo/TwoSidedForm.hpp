// The forms to which matrices are reduced from both sides.
#ifndef HLO_TWOSIDEDFORM_HPP
#define HLO_TWOSIDEDFORM_HPP

namespace hlo {

enum class TwoSidedForm { kHessenberg, kTridiagonal, kBidiagonal };

}  // namespace hlo

#endif  // HLO_TWOSIDEDFORM_HPP
