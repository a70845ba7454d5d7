// Quotients of integers by constants, as products (hlo/ConstantDivision.hpp). Text after scalar.hpp.
namespace hlo {
namespace scalar {

// The upper half of a * b, or of (a + 1) * b, by halves of the factors: devices have the lower half only.
template <bool kIncrements, typename W>
W multiplyHigh(W a, W b) {
  constexpr unsigned kHalf = sizeof(W) * 4;
  constexpr W kLow = (W{1} << kHalf) - 1;
  const W low = (a & kLow) + (kIncrements ? 1 : 0), high = a >> kHalf;
  const W middle = high * (b & kLow) + (low * (b & kLow) >> kHalf);
  const W other = low * (b >> kHalf) + (middle & kLow);
  return high * (b >> kHalf) + (middle >> kHalf) + (other >> kHalf);
}
template <bool kIncrements, unsigned kBits>
unsigned upperOf(unsigned a, unsigned b) {
  return kBits == 32 ? multiplyHigh<kIncrements>(a, b) : (a + (kIncrements ? 1 : 0)) * b >> kBits % 32;
}
template <bool kIncrements, unsigned kBits>
unsigned long long upperOf(unsigned long long a, unsigned long long b) {
  return multiplyHigh<kIncrements>(a, b);
}

// a / d. kMultiplier: 0 for a power of two.
template <unsigned long long kMultiplier, unsigned kShift, bool kIncrements, bool kNegative, typename T>
T divideBy(T a) {
  using W = Wrapping<T>;
  const auto magnitude = static_cast<W>(static_cast<Unsigned<T>>(abs(a)));
  const W upper = kMultiplier == 0
                      ? magnitude
                      : upperOf<kIncrements, sizeof(T) * 8>(magnitude, static_cast<W>(kMultiplier));
  const W quotient = upper >> kShift;
  return static_cast<T>((a < 0) != kNegative ? W{0} - quotient : quotient);
}

}  // namespace scalar
}  // namespace hlo
