// The sources in codelets/, as strings (embed.sh).
#ifndef HLO_CODELETS_H_
#define HLO_CODELETS_H_

namespace hlo {

extern const char* const kCollectivesCodelets;
extern const char* const kDynamicUpdateCodelets;
extern const char* const kFftCodelets;
extern const char* const kFillCodelets;
extern const char* const kGatherCodelets;
extern const char* const kGatherRoundsCodelets;
extern const char* const kImplicitQrCodelets;
extern const char* const kIotaCodelets;
extern const char* const kLinearAlgebraCodelets;
extern const char* const kLongSliceCodelets;
extern const char* const kLuPanelCodelets;
extern const char* const kRandomCodelets;
extern const char* const kReduceCodelets;
extern const char* const kReflectorsCodelets;
extern const char* const kScalarComplexCodelets;
extern const char* const kScalarDivisionCodelets;
extern const char* const kScatterCodelets;
extern const char* const kSchurCodelets;
extern const char* const kSoftDoubleCodelets;
extern const char* const kSortCodelets;
extern const char* const kTwoSidedCodelets;
extern const char* const kWindowCodelets;

}  // namespace hlo

#endif  // HLO_CODELETS_H_
