// Compiling codelets: classes and fields, headers of the user, errors of the compiler, the cache.
#include "codelets/codelet_library.h"

#include <fstream>
#include <functional>

#include "check.h"
#include "codelets/class_names.h"
#include "codelets/host_compiler.h"
#include "ipu_model/Types.hpp"
#include "poplar/VectorLayout.hpp"
#include "poplar/exceptions.hpp"
#include "testing/codelet_cache.h"

namespace ipu_model {
namespace {

using jax_ipu::testing::Contains;
using jax_ipu::testing::MessageOf;

const toy::CodeletCache cache;

std::shared_ptr<const CodeletLibrary> CompileText(const std::string& text, const std::string& flags = "") {
  return CodeletLibrary::Compile(ReadCodeletText(text, flags));
}

const codelet::Field* FieldNamed(const codelet::Class* type, const std::string& name) {
  for (std::uint64_t f = 0; type != nullptr && f < type->num_fields; ++f) {
    if (name == type->fields[f].name) return &type->fields[f];
  }
  return nullptr;
}

const char* const kClasses = R"cpp(
#include <poplar/HalfFloat.hpp>
#include <poplar/Vertex.hpp>
  using namespace poplar;
  namespace ns {
  enum class Op : unsigned { ADD, SUB };
  template <typename T>
  class Base : public Vertex {
   public:
    Input<Vector<T, VectorLayout::ONE_PTR, 8>> in;
  };
  template <typename T, Op op, unsigned n, bool b>
  class [[poplar::constraint("elem(*in) != elem(*out)")]] Derived : public Base<T> {
   public:
    Derived();  // as in PopLibs: never defined
    static const bool isExternalCodelet = false;
    const unsigned count;
    Output<VectorList<T, VectorListLayout::COMPACT_DELTAN>> out;
    Vector<InOut<Vector<unsigned short, VectorLayout::SHORT_SPAN>>> io;
    Vector<Output<T>, VectorLayout::ONE_PTR> scalars;
    Vector<int> numbers;
    InOut<bool> flag;
    void compute() { out[0][0] = this->in[0]; }
  };
  template class Derived<float, Op::SUB, 4, true>;
  template class Derived<half, Op::ADD, 2, false>;
  }  // namespace ns
  class Six : public MultiVertex {
   public:
    float factor = 3;
    bool compute(unsigned) { return true; }

   private:
    int hidden = 0;
  };
  struct Chief : public SupervisorVertex {
    __attribute__((target("supervisor"))) bool compute() { return true; }
  };
  class NoCompute : public Vertex {
   public:
    int x;
  };
  class NoVertex {
   public:
    bool compute() { return true; }
  };
)cpp";

TEST(classes_and_fields) {
  const auto library = CompileText(kClasses);
  CHECK_EQ(library->classes().size(), 4u);
  const codelet::Class* const type = library->Find("ns::Derived<float, ns::Op::SUB, 4u, true>");
  CHECK(type != nullptr);
  CHECK(library->Find("ns::Derived<half,ns::Op::ADD,2,false>") != nullptr);
  CHECK(library->Find("NoCompute") == nullptr);
  if (type == nullptr) return;
  CHECK(type->kind == codelet::kWorkerVertex && type->construct == nullptr);
  CHECK_EQ(type->num_fields, 7u);
  struct Expected {
    const char* name;
    codelet::FieldKind kind;
    codelet::FieldDirection direction;
    DType type;
    unsigned layout;
  };
  const auto number = [](auto layout) { return static_cast<unsigned>(layout); };
  for (const Expected& e : std::vector<Expected>{
           {"in", codelet::kVectorEdge, codelet::kRead, DType::kF32, number(poplar::VectorLayout::ONE_PTR)},
           {"count", codelet::kValue, codelet::kNoDirection, DType::kU32, 0},
           {"out", codelet::kVectorEdges, codelet::kWrite, DType::kF32, number(poplar::VectorLayout::SPAN)},
           {"io", codelet::kVectorEdges, codelet::kReadWrite, DType::kU16,
            number(poplar::VectorLayout::SHORT_SPAN)},
           {"scalars", codelet::kScalarEdges, codelet::kWrite, DType::kF32, 0},
           {"numbers", codelet::kVectorValue, codelet::kNoDirection, DType::kS32,
            number(poplar::VectorLayout::SPAN)},
           {"flag", codelet::kScalarEdge, codelet::kReadWrite, DType::kPred, 0}}) {
    const codelet::Field* const field = FieldNamed(type, e.name);
    CHECK(field != nullptr);
    if (field == nullptr) continue;
    CHECK_EQ(int{field->kind}, int{e.kind});
    CHECK_EQ(int{field->direction}, int{e.direction});
    CHECK_EQ(int{field->type}, static_cast<int>(e.type));
    CHECK_EQ(unsigned{field->layout}, e.layout);
  }
  CHECK_EQ(FieldNamed(type, "in")->alignment, 8u);
  CHECK(FieldNamed(type, "out")->is_list && !FieldNamed(type, "io")->is_list);
  CHECK_EQ(unsigned{FieldNamed(type, "out")->outer_layout}, number(poplar::VectorListLayout::COMPACT_DELTAN));
  const codelet::Class* const six = library->Find("Six");
  CHECK(six != nullptr && six->kind == codelet::kMultiVertex && six->construct != nullptr);
  CHECK(FieldNamed(six, "factor") != nullptr && FieldNamed(six, "hidden") != nullptr);
  CHECK(library->Find("Chief")->kind == codelet::kSupervisorVertex);
  CHECK(library->CodeBytes(*type) > 0);
}

// Edges, vectors and numbers are fields of the graph whatever their access, and constants need no
// constructor.
TEST(private_and_constant_fields) {
  const auto library = CompileText(R"cpp(
#include <poplar/Vertex.hpp>
    using namespace poplar;
    class Hidden : public Vertex {
     public:
      bool compute() {
        *out = in[0] + bias[0] + hidden;
        return true;
      }

     private:
      using Row = Input<Vector<float>>;
      const Row in;
      Vector<float> bias;
      Output<float> out;
      using Count = const unsigned short;
      Count hidden = 0;
      int low : 4, high : 4;
      struct {
        int x;
      } own;
    };
    struct Constant : Vertex {
      Output<float> out;
      const float scale;
      unsigned count = 3;
      bool compute() {
        *out = scale * count;
        return true;
      }
    };
    class Mixed : public Vertex {
     public:
      const unsigned size;
      bool compute() { return size + other > 0; }

     private:
      int other = 1;
    };
  )cpp");
  const codelet::Class* const hidden = library->Find("Hidden");
  CHECK(hidden != nullptr);
  CHECK(FieldNamed(hidden, "in") != nullptr && FieldNamed(hidden, "in")->direction == codelet::kRead);
  CHECK(FieldNamed(hidden, "bias") != nullptr && FieldNamed(hidden, "bias")->kind == codelet::kVectorValue);
  CHECK(FieldNamed(hidden, "out") != nullptr && FieldNamed(hidden, "hidden") != nullptr);
  CHECK_EQ(static_cast<int>(FieldNamed(hidden, "hidden")->type), static_cast<int>(DType::kU16));
  CHECK(FieldNamed(hidden, "low") == nullptr && FieldNamed(hidden, "own") == nullptr);
  const codelet::Class* const constant = library->Find("Constant");
  CHECK(constant != nullptr && constant->construct != nullptr);
  std::vector<unsigned char> memory(constant->bytes, 0xff);
  constant->construct(memory.data());
  CHECK_EQ(*reinterpret_cast<unsigned*>(memory.data() + FieldNamed(constant, "count")->offset), 3u);
  CHECK_EQ(*reinterpret_cast<float*>(memory.data() + FieldNamed(constant, "scale")->offset), 0.0f);
  CHECK(library->Find("Mixed") != nullptr && library->Find("Mixed")->construct == nullptr);
}

// What codelets for the IPU that also run on a host declare for the latter; and traits of half.
TEST(names_that_headers_leave_to_codelets) {
  const auto library = CompileText(R"cpp(
#include <poplar/Vertex.hpp>
#ifndef __IPU__
    struct float2 {
      float x, y;
    };
    struct half4 {
      float x[4];
    };
    using rptsize_t = uint16_t;
#endif
#include <cmath>
#include <limits>
#include <type_traits>
    using namespace poplar;
    static_assert(std::is_floating_point_v<half> && std::is_arithmetic_v<half> && std::is_signed_v<half>);
    static_assert(std::numeric_limits<half>::lowest() == half(-65504.0f));
    class Own : public Vertex {
     public:
      Output<Vector<half>> out;
      bool compute() {
        __builtin_assume(out.size() > 0);
        const float2 pair{1, 2};
        const half a = pair.x, b = pair.y;
        out[0] = std::fmin(a, b) + std::fmax(a, b) + (std::isnan(a) ? half(1) : half(0));
        return true;
      }
    };
  )cpp");
  CHECK(library->Find("Own") != nullptr);
  const auto with_types = CompileText(
      "#include <poplar/Vertex.hpp>\n#include <ipudef.h>\nclass V : public poplar::Vertex {\n public:\n"
      "  float2 pair;\n  bool compute() { return pair[0] > 0; }\n};\n");
  CHECK(with_types->Find("V") != nullptr);
}

TEST(names_have_one_spelling) {
  for (const auto& [name, canonical] : std::vector<std::pair<std::string, std::string>>{
           {"ns::V< float ,  unsigned >", "ns::V<float,unsigned int>"},
           {"V<short unsigned int>", "V<unsigned short>"},
           {"V<long long unsigned int>", "V<unsigned long long>"},
           {"V<signed char, char, 3ul>", "V<signed char,char,3>"},
           {"V<_Float16>", "V<half>"},
           {"V<W<int>, 2>", "V<W<int>,2>"}}) {
    CHECK_EQ(CanonicalName(name), canonical);
  }
}

// The forms in which different versions of readelf print the same information.
TEST(debug_information_of_several_versions) {
  const auto classes = VertexClassesIn(
      " <0><b>: Abbrev Number: 1 (DW_TAG_compile_unit)\n"
      " <1><2a>: Abbrev Number: 2 (DW_TAG_namespace)\n"
      "    <2b>   DW_AT_name        : (indirect string, offset: 0x15): poplar\n"
      " <2><30>: Abbrev Number: 3 (DW_TAG_class_type)\n"
      "    <31>   DW_AT_name        : (strp) (offset: 0x2e4): Vertex\n"
      " <2><38>: Abbrev Number: 0\n"
      " <1><40>: Abbrev Number: 3 (DW_TAG_class_type)\n"
      "    <41>   DW_AT_name        : V\n"
      " <2><44>: Abbrev Number: 4 (DW_TAG_inheritance)\n"
      "    <45>   DW_AT_type        : <0x30>\n"
      " <2><48>: Abbrev Number: 5 (DW_TAG_member)\n"
      "    <49>   DW_AT_name        : (string) x\n"
      "    <4b>   DW_AT_accessibility: 1\t(public)\n"
      " <2><4c>: Abbrev Number: 5 (DW_TAG_member)\n"
      "    <4d>   DW_AT_name        : (string) hidden\n"
      " <2><50>: Abbrev Number: 6 (DW_TAG_subprogram)\n"
      "    <51>   DW_AT_name        : compute\n"
      "    <52>   DW_AT_accessibility: (implicit_const) 1\t(public)\n");
  CHECK_EQ(classes.size(), 1u);
  if (classes.empty()) return;
  CHECK_EQ(classes[0].cpp_name, std::string("V"));
  CHECK(classes[0].fields == std::vector<std::string>{"x"});
}

TEST(errors_name_the_users_file_and_line) {
  const std::filesystem::path file = cache.path() / "bad codelet.cpp";
  std::ofstream(file) << "#include <poplar/Vertex.hpp>\nclass V : public poplar::Vertex {\n public:\n"
                         "  bool compute() { return nothing; }\n};\n";
  const std::string message = MessageOf<poplar::graph_program_compilation_error>(
      [&] { CodeletLibrary::Compile(ReadCodeletFile(file.string(), "")); });
  CHECK(Contains(message, file.string() + ":4:"));
  CHECK(Contains(message, "nothing"));
  // An error that only the linker finds.
  std::string type, output;
  try {
    CompileText(
        "#include <poplar/Vertex.hpp>\nfloat missing();\nclass V : public poplar::Vertex {\n public:\n"
        "  poplar::Output<float> y;\n  bool compute() { *y = missing(); return true; }\n};\n");
  } catch (const poplar::link_error& error) {
    type = error.type;
    output = error.output;
  }
  CHECK_EQ(type, std::string("link_error"));
  CHECK(Contains(output, "missing"));
  CHECK(Contains(MessageOf<poplar::graph_program_compilation_error>(
                     [] { CompileText("#include \"no_such_file.h\"\n"); }),
                 "no_such_file.h"));
  CHECK_THROWS(poplar::poplar_error, ReadCodeletFile("no_such_file.cpp", ""));
}

TEST(the_users_headers_and_flags) {
  const std::filesystem::path folder = cache.path() / "own";
  std::filesystem::create_directories(folder / "include");
  std::ofstream(folder / "include" / "width.h") << "#pragma once\nconstexpr unsigned kWidth = WIDTH;\n";
  std::ofstream(folder / "beside.h") << "#pragma once\n#include <width.h>\n";
  std::ofstream(folder / "codelet.cpp")
      << "#include <poplar/Vertex.hpp>\n#include \"beside.h\"\ntemplate <unsigned n> class V : public "
         "poplar::Vertex {\n public:\n  void compute() {}\n};\ntemplate class V<kWidth>;\n";
  const CodeletSource source =
      ReadCodeletFile((folder / "codelet.cpp").string(), "-DWIDTH=5 -I " + (folder / "include").string());
  CHECK_EQ(source.files.size(), 3u);
  // The source alone is enough.
  std::filesystem::remove_all(folder);
  CHECK(CodeletLibrary::Compile(source)->Find("V<5>") != nullptr);
}

TEST(one_compilation_for_equal_source) {
  const char* const text =
      "#include <poplar/Vertex.hpp>\nclass Once : public poplar::Vertex {\n public:\n  void compute() "
      "{}\n};\n";
  const auto entries = [] {
    std::size_t n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(cache.path()))
      n += entry.is_directory() ? 1 : 0;
    return n;
  };
  const std::size_t before = entries();
  const auto first = CompileText(text);
  CHECK_EQ(entries(), before + 1);
  CHECK(CompileText(text) == first);
  CHECK(CompileText(text, "-DX=1") != first);
  CHECK_EQ(entries(), before + 2);
}

// Only a text that may include the user's files is given to the compiler before it is looked up in the cache.
TEST(text_without_own_headers_needs_no_process) {
  const std::string own = cache.path().string() + "/own.h", path = std::getenv("PATH");
  std::ofstream(own) << "// a header\n";
  const auto files = [](const std::string& text) {
    return ReadCodeletText(text + "\nclass Own {};\n", "").files.size();
  };
  const std::string quoted = "\"" + own + "\"";
  FindHostCompiler();
  setenv("PATH", "/no/such/folder", 1);
  CHECK_EQ(files("#include <poplar/Vertex.hpp>\n  # include  <cmath>\n#define A(x) \\\n  x"), 1u);
  CHECK_THROWS(poplar::graph_program_compilation_error, files("#include " + quoted));
  setenv("PATH", path.c_str(), 1);
  for (const std::string& text :
       {"#include " + quoted, "#include <" + own + ">", "/* */ #include " + quoted, "#inc\\\nlude " + quoted,
        "#inc\\ \n\\\nlude " + quoted, "%:include " + quoted, "#import " + quoted,
        "#define H " + quoted + "\n#include H"})
    CHECK_EQ(files(text), 2u);
  setenv("CPATH", cache.path().c_str(), 1);
  CHECK_EQ(files("#include <own.h>"), 2u);
  unsetenv("CPATH");
}

TEST(no_compiler) {
  setenv("IPU_MODEL_CXX", "/no/such/compiler", 1);
  const std::string message =
      MessageOf<poplar::graph_program_compilation_error>([] { CompileText("// other text\n"); });
  unsetenv("IPU_MODEL_CXX");
  CHECK(Contains(message, "/no/such/compiler"));
  CHECK(Contains(message, "IPU_MODEL_CXX"));
}

// g++ takes a vector type of Clang for one number.
TEST(vector_types_of_clang) {
  const auto with = [](const std::string& condition) {
    return "#include <poplar/Vertex.hpp>\n" + condition +
           "typedef float float2 __attribute__((ext_vector_type(2)));\n#endif\nclass Pair : public "
           "poplar::Vertex {\n public:\n  poplar::Output<float> sum;\n  void compute() {\n" +
           condition +
           "    float2 pair; pair[0] = 1; pair[1] = 2; *sum = pair[0] + pair[1];\n#endif\n  }\n};\n";
  };
  setenv("IPU_MODEL_CXX", "c++", 1);
  const std::string message =
      MessageOf<poplar::graph_program_compilation_error>([&] { CompileText(with("#if 1\n")); });
  CHECK(CompileText(with("#ifdef __IPU__\n"))->Find("Pair") != nullptr);
  unsetenv("IPU_MODEL_CXX");
  if (!FindHostCompiler().is_clang()) CHECK(Contains(message, "need clang++: IPU_MODEL_CXX is c++"));
  // A clang++ that is found is taken. This one is c++ with another name for its own vectors.
  const std::string folder = cache.path().string() + "/bin", file = folder + "/clang++";
  std::filesystem::create_directories(folder);
  std::ofstream(file) << "#!/bin/sh\ncase \"$1\" in --version) echo clang version 99; exit;; esac\n"
                         "exec c++ '-Dext_vector_type(n)=vector_size(4*(n))' \"$@\"\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");
  setenv("PATH", (folder + ":" + path).c_str(), 1);
  CHECK(CompileText(with("#if 1\n"))->Find("Pair") != nullptr);
  setenv("PATH", path.c_str(), 1);
}

TEST(a_cache_that_others_can_write_is_refused) {
  const std::string folder = (cache.path() / "open").string();
  std::filesystem::create_directories(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  setenv("IPU_MODEL_CODELET_CACHE", folder.c_str(), 1);
  CHECK_THROWS(poplar::poplar_error, CompileText("// text in an open cache\n"));
  setenv("IPU_MODEL_CODELET_CACHE", cache.path().c_str(), 1);
}

}  // namespace
}  // namespace ipu_model
