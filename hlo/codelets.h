// The sources in codelets/, as strings (embed.sh).
#ifndef HLO_CODELETS_H_
#define HLO_CODELETS_H_

namespace hlo {

extern const char* const kDynamicUpdateCodelets;
extern const char* const kFillCodelets;
extern const char* const kIotaCodelets;
extern const char* const kLinearAlgebraCodelets;
extern const char* const kScalarCodelets;

}  // namespace hlo

#endif  // HLO_CODELETS_H_
