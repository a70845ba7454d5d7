// The entries of a codelet table, from the types of the fields themselves. Part of every compiled file of
// codelets.
#ifndef IPU_MODEL_CODELETFIELDS_HPP
#define IPU_MODEL_CODELETFIELDS_HPP

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <type_traits>

#include "ipu_model/CodeletTable.hpp"
#include "ipu_model/Types.hpp"
#include "poplar/Vertex.hpp"

namespace ipu_model {
namespace codelet {

template <typename T>
constexpr std::uint8_t TypeOf() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_enum_v<U>) {
    return TypeOf<std::underlying_type_t<U>>();
  } else if constexpr (std::is_same_v<U, bool>) {
    return static_cast<std::uint8_t>(DType::kPred);
  } else if constexpr (std::is_integral_v<U>) {
    constexpr DType kSigned[] = {DType::kS8, DType::kS16, DType::kS32, DType::kS64};
    constexpr DType kUnsigned[] = {DType::kU8, DType::kU16, DType::kU32, DType::kU64};
    constexpr int width = sizeof(U) == 1 ? 0 : sizeof(U) == 2 ? 1 : sizeof(U) == 4 ? 2 : 3;
    return static_cast<std::uint8_t>(std::is_signed_v<U> ? kSigned[width] : kUnsigned[width]);
  } else if constexpr (std::is_same_v<U, float>) {
    return static_cast<std::uint8_t>(DType::kF32);
  } else if constexpr (std::is_same_v<U, double>) {
    return static_cast<std::uint8_t>(DType::kF64);
  } else if constexpr (std::is_same_v<U, quarter>) {
    return static_cast<std::uint8_t>(DType::kU8);
#ifdef IPU_MODEL_HAS_HALF
  } else if constexpr (std::is_same_v<U, half>) {
    return static_cast<std::uint8_t>(DType::kF16);
#endif
  } else {
    return static_cast<std::uint8_t>(DType::kCount);
  }
}

// Bytes of a vector's field on the device, whose addresses have 32 bits.
constexpr std::uint32_t BytesOf(poplar::VectorLayout layout) {
  switch (layout) {
    case poplar::VectorLayout::SPAN:
      return 8;
    case poplar::VectorLayout::SCALED_PTR32:
    case poplar::VectorLayout::SCALED_PTR64:
    case poplar::VectorLayout::SCALED_PTR128:
      return 2;
    default:
      return 4;
  }
}

// The common parts of the fields of one type.
template <typename T, FieldDirection D>
constexpr Field Elements(FieldKind kind, std::uint8_t layout, unsigned alignment, std::uint32_t bytes,
                         std::uint32_t edge_bytes = 0) {
  return {nullptr,
          0,
          kind,
          D,
          TypeOf<T>(),
          layout,
          static_cast<std::uint32_t>(sizeof(T)),
          alignment,
          bytes,
          edge_bytes,
          0,
          false,
          std::is_same_v<std::remove_cv_t<T>, quarter>};
}

template <typename T, FieldDirection D>
struct EdgeOf {
  static constexpr Field Get() { return Elements<T, D>(kScalarEdge, 0, 0, 4, 4); }
};
template <typename T, poplar::VectorLayout L, unsigned A, bool I, FieldDirection D>
struct EdgeOf<poplar::Vector<T, L, A, I>, D> {
  static constexpr Field Get() {
    return Elements<T, D>(kVectorEdge, static_cast<std::uint8_t>(L), A, BytesOf(L), BytesOf(L));
  }
};
template <typename T, poplar::VectorListLayout L, unsigned A, bool I, FieldDirection D>
struct EdgeOf<poplar::VectorList<T, L, A, I>, D> {
  static constexpr Field Get() {
    Field field =
        Elements<T, D>(kVectorEdges, static_cast<std::uint8_t>(poplar::VectorLayout::SPAN), A, 8, 4);
    field.outer_layout = static_cast<std::uint8_t>(L);
    field.is_list = true;
    return field;
  }
};

template <typename T>
struct FieldType {
  static constexpr Field Get() {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> ||
                  TypeOf<T>() != static_cast<std::uint8_t>(DType::kCount)) {
      return Elements<T, kNoDirection>(kValue, 0, 0, sizeof(T));
    } else {
      return {nullptr,
              0,
              kUnknownField,
              kNoDirection,
              static_cast<std::uint8_t>(DType::kCount),
              0,
              0,
              0,
              static_cast<std::uint32_t>(sizeof(T)),
              0,
              0,
              false,
              false};
    }
  }
};
template <typename T>
struct FieldType<poplar::Input<T>> : EdgeOf<T, kRead> {};
template <typename T>
struct FieldType<poplar::Output<T>> : EdgeOf<T, kWrite> {};
template <typename T>
struct FieldType<poplar::InOut<T>> : EdgeOf<T, kReadWrite> {};

// An array of fields of type T: edges, or numbers.
template <typename T>
constexpr Field ArrayOf(std::uint32_t bytes) {
  Field field = FieldType<T>::Get();
  if (field.kind == kScalarEdge || field.kind == kVectorEdge) {
    field.kind = field.kind == kScalarEdge ? kScalarEdges : kVectorEdges;
  } else {
    field.kind = field.kind == kValue ? kVectorValue : kUnknownField;
  }
  field.device_bytes = bytes;
  return field;
}
template <typename T, poplar::VectorLayout L, unsigned A, bool I>
struct FieldType<poplar::Vector<T, L, A, I>> {
  static constexpr Field Get() {
    Field field = ArrayOf<T>(BytesOf(L));
    field.outer_layout = static_cast<std::uint8_t>(L);
    if (field.kind == kVectorValue) {
      field.alignment = A;
      field.layout = field.outer_layout;
    }
    return field;
  }
};
template <typename T, poplar::VectorListLayout L, unsigned A, bool I>
struct FieldType<poplar::VectorList<T, L, A, I>> {
  static constexpr Field Get() {
    Field field = ArrayOf<T>(8);
    field.outer_layout = static_cast<std::uint8_t>(L);
    field.is_list = true;
    return field;
  }
};

template <typename T>
constexpr Field FieldOf(const char* name, std::uint64_t offset) {
  Field field = FieldType<std::remove_cv_t<T>>::Get();
  field.name = name;
  field.offset = offset;
  return field;
}

template <typename V>
constexpr VertexKind KindOf() {
  if constexpr (std::is_base_of_v<poplar::MultiVertex, V>) return kMultiVertex;
  if constexpr (std::is_base_of_v<poplar::SupervisorVertex, V>) return kSupervisorVertex;
  return kWorkerVertex;
}

template <typename V>
void Construct(void* memory) {
  new (memory) V;
}
// Constant fields leave a class without a default constructor, but a public one has a list: of its base, and
// of the fields' own initial values.
template <typename V>
void ConstructFromList(void* memory) {
  new (memory) V{{}};
}
template <typename V, typename = void>
struct HasList : std::false_type {};
template <typename V>
struct HasList<V, std::void_t<decltype(V{{}})>> : std::is_aggregate<V> {};
// Null: the vertex starts as zeros.
template <typename V>
constexpr auto ConstructorOf() -> void (*)(void*) {
  if constexpr (std::is_default_constructible_v<V>) {
    return &Construct<V>;
  } else if constexpr (HasList<V>::value) {
    return &ConstructFromList<V>;
  } else {
    return nullptr;
  }
}

// What a failed assert of a codelet throws.
class AssertionError : public std::exception {
 public:
  AssertionError(const char* condition, const char* file, unsigned line) {
    std::snprintf(text_, sizeof(text_), "%s:%u: assertion '%s' failed", file, line, condition);
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[512];
};
[[noreturn]] __attribute__((cold)) inline void AssertionFailed(const char* condition, const char* file,
                                                               unsigned line) {
  throw AssertionError(condition, file, line);
}

// Part of one exported function for each class, whose size is an estimate of its code on the device.
template <typename V>
__attribute__((always_inline)) inline void Compute(void* vertex) {
  V& v = *static_cast<V*>(vertex);
  if constexpr (std::is_base_of_v<poplar::MultiVertex, V>) {
    for (unsigned worker = 0; worker < poplar::MultiVertex::numWorkers(); ++worker) (void)v.compute(worker);
  } else {
    (void)v.compute();
  }
}

inline void (*printer)(const char* text, std::size_t bytes) = nullptr;

inline int Print(const char* text, std::size_t bytes) {
  printer(text, bytes);
  return static_cast<int>(bytes);
}
inline int PrintFormatted(const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  char text[512];
  const int length = std::vsnprintf(text, sizeof(text), format, arguments);
  if (length < static_cast<int>(sizeof(text))) {
    va_end(again);
    return length < 0 ? length : Print(text, static_cast<std::size_t>(length));
  }
  std::string longer(static_cast<std::size_t>(length) + 1, '\0');
  std::vsnprintf(&longer[0], longer.size(), format, again);
  va_end(again);
  return Print(longer.data(), static_cast<std::size_t>(length));
}

}  // namespace codelet
}  // namespace ipu_model

// What the linker (--wrap) calls in place of the functions of print.h.
extern "C" {
__attribute__((used, visibility("hidden"), format(printf, 1, 2))) int __wrap_printf(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = ipu_model::codelet::PrintFormatted(format, arguments);
  va_end(arguments);
  return length;
}
__attribute__((used, visibility("hidden"))) int __wrap_puts(const char* text) {
  ipu_model::codelet::Print(text, std::strlen(text));
  return ipu_model::codelet::Print("\n", 1);
}
__attribute__((used, visibility("hidden"))) int __wrap_putchar(int character) {
  const char text = static_cast<char>(character);
  ipu_model::codelet::Print(&text, 1);
  return character;
}
}

#endif  // IPU_MODEL_CODELETFIELDS_HPP
