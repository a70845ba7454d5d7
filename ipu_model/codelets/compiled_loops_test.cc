// Loops of assembly as gcc and clang print it, and of codelets that this machine's compiler compiles.
#include "codelets/compiled_loops.h"

#include <cstdio>
#include <filesystem>

#include "check.h"
#include "codelets/codelet_library.h"
#include "testing/codelet_cache.h"

namespace ipu_model {
namespace {

const toy::CodeletCache cache;

std::string Text(const Work& work) {
  return std::to_string(work.instructions) + "+" + std::to_string(work.calls);
}

// "once 5+0 vector 0+0 loop 7+0 by 4", or "" for what is not understood.
std::string Loops(const std::string& body) {
  const auto loops = LoopsIn("\t.text\n\t.globl\tf\nf:\n" + body + "\t.size\tf, .-f\n", "f");
  const auto found = loops.find("f");
  if (found == loops.end()) return "";
  const CompiledLoops& f = found->second;
  std::string text = "once " + Text(f.once) + " vector " + Text(f.each_vector);
  for (const CompiledLoops::Innermost& loop : f.innermost)
    text += " loop " + Text(loop.work) + " by " + std::to_string(loop.stride_bytes);
  return text;
}

struct Case {
  const char* name;
  const char* body;
  const char* loops;
};

const Case kCases[] = {
    {"no loop", "\tmovq\t(%rdi), %rax\n\tmovl\t$1, (%rax)\n\tret\n", "once 3+0 vector 0+0"},
    {"an operand in memory is an instruction more, a result in memory one more",
     "\taddl\t(%rdi), %eax\n\taddl\t%eax, (%rdi)\n\tincl\t(%rdi)\n\tvaddss\t.LC0(%rip), %xmm0, %xmm0\n"
     "\tmovslq\t%eax, %rdx\n\tcltq\n\tcmpl\t$3, 8(%rdi)\n\tleaq\t8(%rdi), %rdi\n\tret\n",
     "once 13+0 vector 0+0"},
    {"a flat loop, gcc",
     "\tmovq\t8(%rdi), %rdx\n\ttestl\t%edx, %edx\n\tje\t.L5\n\txorl\t%eax, %eax\n\t.p2align 4,,10\n"
     ".L3:\n\tvmovss\t(%r8,%rax,4), %xmm0\n\tvaddss\t(%rsi,%rax,4), %xmm0, %xmm0\n"
     "\tvmovss\t%xmm0, (%rcx,%rax,4)\n\taddq\t$1, %rax\n\tcmpq\t%rax, %rdx\n\tjne\t.L3\n.L5:\n\tret\n",
     "once 3+0 vector 0+0 loop 5+0 by 4"},
    {"a flat loop, clang",
     "# %bb.0:\n\ttestl\t%edx, %edx\n\tje\t.LBB0_3\n# %bb.1:\n\tmovl\t%edx, %ecx\n\txorl\t%eax, %eax\n"
     ".LBB0_2:                                # =>This Inner Loop Header: Depth=1\n"
     "\tvmovss\t(%r8,%rax,4), %xmm0           # xmm0 = mem[0],zero,zero,zero\n"
     "\tvmovss\t%xmm0, (%rsi,%rax,4)\n\tincq\t%rax\n\tcmpq\t%rax, %rcx\n\tjne\t.LBB0_2\n.LBB0_3:\n\tretq\n"
     ".Lfunc_end0:\n",
     "once 2+0 vector 0+0 loop 3+0 by 4"},
    {"pointers that are copied, and an index of 32 bits that steps over six",
     ".L2:\n\tmovl\t%esi, %eax\n\taddl\t$6, %esi\n\tvmovw\t(%r8,%rax,2), %xmm0\n\tvmovw\t%xmm0, (%rdx)\n"
     "\tleaq\t4(%rdx), %rcx\n\tmovq\t%rcx, %rdx\n\tcmpl\t%edi, %esi\n\tjb\t.L2\n\tret\n",
     "once 1+0 vector 0+0 loop 3+0 by 12"},
    {"an address that an instruction computes before",
     ".L3:\n\tmovl\t%esi, %eax\n\taddl\t$6, %esi\n\tleaq\t(%rcx,%rax,4), %rax\n\tvmovss\t(%rax), %xmm0\n"
     "\tvmovss\t%xmm0, (%rax)\n\tcmpl\t%edx, %esi\n\tjb\t.L3\n\tret\n",
     "once 1+0 vector 0+0 loop 4+0 by 24"},
    {"nested loops",
     "\txorl\t%ecx, %ecx\n.L2:\n\tmovq\t(%rdi,%rcx,8), %rdx\n\tleaq\t(%rdx,%r8), %r9\n"
     ".L3:\n\tvaddss\t(%rdx), %xmm0, %xmm0\n\taddq\t$4, %rdx\n\tcmpq\t%r9, %rdx\n\tjne\t.L3\n"
     "\tincq\t%rcx\n\tcmpq\t%rcx, %rsi\n\tjne\t.L2\n\tret\n",
     "once 1+0 vector 3+0 loop 3+0 by 4"},
    {"two loops in sequence",
     ".L2:\n\tmovq\t%rax, (%rdi)\n\taddq\t$8, %rdi\n\tcmpq\t%rdi, %rdx\n\tjne\t.L2\n"
     ".L3:\n\tmovl\t%eax, (%rdi)\n\taddq\t$4, %rdi\n\tcmpq\t%rdi, %rcx\n\tjne\t.L3\n\tret\n",
     "once 1+0 vector 0+0 loop 2+0 by 8 loop 2+0 by 4"},
    {"a branch in a loop whose one side lies behind the function's end",
     ".L2:\n\tmovl\t(%rdi), %eax\n\taddq\t$4, %rdi\n\ttestl\t%eax, %eax\n\tje\t.L4\n"
     ".L3:\n\tcmpq\t%rdi, %rcx\n\tjne\t.L2\n\tret\n.L4:\n\tincl\t%edx\n\tjmp\t.L3\n",
     "once 1+0 vector 0+0 loop 5+0 by 4"},
    {"a volatile counter, loaded for its test",
     "\tmovl\t$0, -4(%rsp)\n\tmovl\t-4(%rsp), %eax\n\tcmpl\t$99, %eax\n\tjg\t.L2\n"
     ".L3:\n\tmovl\t-4(%rsp), %eax\n\tvaddss\t%xmm1, %xmm0, %xmm0\n\taddl\t$1, %eax\n\tmovl\t%eax, -4(%rsp)\n"
     "\tmovl\t-4(%rsp), %edx\n\tcmpl\t$99, %edx\n\tjle\t.L3\n.L2:\n\tret\n",
     "once 705+0 vector 0+0"},
    {"a volatile counter, stored behind its test",
     "\txorl\t%eax, %eax\n\tmovl\t$100, -4(%rsp)\n.L3:\n\tmovl\t-4(%rsp), %eax\n\tvaddss\t%xmm1, %xmm0, "
     "%xmm0\n"
     "\tsubl\t$1, %eax\n\tmovl\t%eax, -4(%rsp)\n\tjne\t.L3\n\tret\n",
     "once 502+0 vector 0+0"},
    {"a volatile counter, changed where it is",
     "\tmovl\t$0, -4(%rsp)\n.L3:\n\tincl\t-4(%rsp)\n\tvaddss\t%xmm1, %xmm0, %xmm0\n\tcmpl\t$8, -4(%rsp)\n"
     "\tjne\t.L3\n\tret\n",
     "once 34+0 vector 0+0"},
    {"a loop that counts to a constant, in one that does not",
     ".L2:\n\txorl\t%eax, %eax\n.L3:\n\tvaddss\t%xmm1, %xmm0, %xmm0\n\taddl\t$2, %eax\n\tcmpl\t$8, %eax\n"
     "\tjne\t.L3\n\tvmovss\t%xmm0, (%rdi)\n\taddq\t$4, %rdi\n\tcmpq\t%rdi, %rcx\n\tjne\t.L2\n\tret\n",
     "once 1+0 vector 0+0 loop 10+0 by 4"},
    {"a loop that counts down from a constant",
     "\tmovl\t$5, %eax\n.L3:\n\tvaddss\t%xmm1, %xmm0, %xmm0\n\tsubl\t$1, %eax\n\tjne\t.L3\n\tret\n",
     "once 12+0 vector 0+0"},
    {"functions of the library, an instruction of the IPU, and what the IPU has in software",
     "\tcall\tsinf@PLT\n\tcall\texpf@PLT\n\tidivl\t%ecx\n\tvaddsd\t%xmm0, %xmm1, %xmm1\n\tret\n",
     "once 5+3 vector 0+0"},
    {"a copy by the library", "\tcall\tmemcpy@PLT\n\tret\n", "once 2+1 vector 0+0 loop 2+0 by 8"},
    {"a jump through a table", "\tnotrack jmp\t*%rax\n", ""},
    {"a call through a pointer", "\tcall\t*8(%rax)\n\tret\n", ""},
    {"a comparison of floats, and a branch; a root and a quotient",
     ".L3:\n\tvsqrtss\t(%rsi), %xmm0, %xmm0\n\tvdivss\t%xmm1, %xmm0, %xmm0\n\tvucomiss\t%xmm0, %xmm2\n"
     "\tjbe\t.L4\n\tvmovss\t%xmm0, (%rsi)\n.L4:\n\taddq\t$4, %rsi\n\tcmpq\t%rsi, %rdx\n\tjne\t.L3\n\tret\n",
     "once 1+0 vector 0+0 loop 14+0 by 4"},
    {"a number that is counted is no pointer",
     ".L3:\n\tvmovss\t(%rsi), %xmm0\n\taddl\t$3, %ecx\n\taddq\t$4, %rsi\n\tcmpq\t%rsi, "
     "%rdx\n\tjne\t.L3\n\tret\n",
     "once 1+0 vector 0+0 loop 3+0 by 4"},
    {"the second float of a pair, and a pair of two floats",
     "\tvmovshdup\t%xmm0, %xmm1\n\tvaddss\t%xmm1, %xmm0, %xmm2\n\tvunpcklps\t%xmm2, %xmm0, %xmm0\n\tret\n",
     "once 2+0 vector 0+0"},
    {"a conversion to an integer, with a rounding and a move", "\tvcvttss2si\t%xmm0, %eax\n\tret\n",
     "once 4+0 vector 0+0"},
    {"recursion", "\tcall\tf\n\tret\n", ""},
};

TEST(loops_of_assembly) {
  for (const Case& c : kCases) {
    if (Loops(c.body) != c.loops) std::printf("%s:\n", c.name);
    CHECK_EQ(Loops(c.body), std::string(c.loops));
  }
}

TEST(functions_of_the_same_text_are_part_of_their_callers) {
  // f calls g in a loop; g has a loop of its own. h is f by another name.
  const std::string text =
      "g:\n.L2:\n\tmovl\t%eax, (%rdi)\n\taddq\t$4, %rdi\n\tcmpq\t%rdi, %rcx\n\tjne\t.L2\n\tret\n"
      "f:\n.L5:\n\tcall\tg\n\taddq\t$8, %rbx\n\tcmpq\t%rbx, %rcx\n\tjne\t.L5\n\tret\n\t.set\tfh,f\n";
  const auto loops = LoopsIn(text, "f");
  CHECK_EQ(loops.size(), 2u);
  for (const auto& [name, f] : loops) {
    CHECK_EQ(Text(f.once), std::string("1+0"));
    CHECK_EQ(Text(f.each_vector), std::string("3+0"));
    CHECK_EQ(f.innermost.size(), 1u);
  }
}

TEST(loops_as_text) {
  const CompiledLoops loops = {{5, 1}, {2, 0}, {{{7, 0}, 4}, {{3, 2}, 0}}};
  CompiledLoops read;
  CHECK(ReadLoops(WriteLoops(loops), &read));
  CHECK_EQ(WriteLoops(read), WriteLoops(loops));
  for (const char* bad : {"", "1 2 3", "1 2 3 4 5", "1 2 3 4 x", "1 2 3 4 5 6 -"})
    CHECK(!ReadLoops(bad, &read));
}

const char* const kCodelets = R"cpp(
#include <poplar/Vertex.hpp>
#include <cmath>
  using namespace poplar;
  struct Add : Vertex {
    Input<Vector<float>> x, y;
    Output<Vector<float>> out;
    void compute() {
      for (unsigned i = 0; i < x.size(); ++i) out[i] = x[i] + y[i];
    }
  };
  struct Nested : Vertex {
    Input<VectorList<float, VectorListLayout::DELTAN>> x;
    Output<Vector<float>> out;
    void compute() {
      for (unsigned i = 0; i < x.size(); ++i) {
        float sum = 0;
        for (unsigned k = 0; k < x[i].size(); ++k) sum += std::sin(x[i][k]);
        out[i] = sum;
      }
    }
  };
  struct Six : MultiVertex {
    InOut<Vector<float>> x;
    void compute(unsigned worker) {
      for (unsigned i = worker; i < x.size(); i += numWorkers()) x[i] *= 2;
    }
  };
  struct Through : Vertex {
    float (*function)(float);
    Output<float> out;
    void compute() { *out = function(1); }
  };
)cpp";

bool HasLoopsFile() {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(cache.path())) {
    if (entry.path().filename().string().rfind("loops", 0) == 0) return true;
  }
  return false;
}

TEST(loops_of_codelets) {
  const auto library = CodeletLibrary::Compile(ReadCodeletText(kCodelets, ""));
  CHECK(!HasLoopsFile());
  const auto loops = [&](const char* name) { return library->Loops(*library->Find(name)); };
  const CompiledLoops* const add = loops("Add");
  CHECK(HasLoopsFile());
  CHECK(add != nullptr && add->innermost.size() == 1);
  if (add == nullptr || add->innermost.size() != 1) return;
  // Two loads, an addition, a store, and the end of the loop.
  CHECK_EQ(add->innermost[0].stride_bytes, 4u);
  CHECK_EQ(add->innermost[0].work.instructions, 5u);
  CHECK_EQ(add->each_vector.instructions, 0u);
  const CompiledLoops* const nested = loops("Nested");
  CHECK(nested != nullptr && nested->innermost.size() == 1 && nested->innermost[0].work.calls == 1 &&
        nested->innermost[0].stride_bytes == 4 && nested->each_vector.instructions > 0);
  const CompiledLoops* const six = loops("Six");
  CHECK(six != nullptr && six->innermost.size() == 1 && six->innermost[0].stride_bytes == 24);
  CHECK(loops("Through") == nullptr);
}

}  // namespace
}  // namespace ipu_model
