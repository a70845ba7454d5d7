#include "codelets/assembly.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace ipu_model::assembly {
namespace {

std::string Trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

// The name of all 64 bits of a register: "%eax", "%al" and "%rax" are one; "%r8d" is "r8".
std::string WholeRegister(const std::string& text) {
  std::string name = text.substr(text.find('%') + 1);
  if (name.size() >= 2 && name[0] == 'r' && name[1] >= '0' && name[1] <= '9') {
    while (name.back() == 'd' || name.back() == 'w' || name.back() == 'b') name.pop_back();
    return name;
  }
  if (name.rfind("ymm", 0) == 0 || name.rfind("zmm", 0) == 0) return "x" + name.substr(1);
  if (name.size() == 3 && (name[0] == 'e' || name[0] == 'r')) return "r" + name.substr(1);
  if (name == "sil" || name == "dil" || name == "bpl" || name == "spl") return "r" + name.substr(0, 2);
  if (name.size() == 2 && (name[1] == 'l' || name[1] == 'h')) return std::string("r") + name[0] + "x";
  return name.size() == 2 ? "r" + name : name;
}

Operand ParseOperand(const std::string& text) {
  Operand operand;
  operand.text = text;
  const std::size_t open = text.find('(');
  if (text[0] == '$') {
    operand.kind = Operand::kImmediate;
    operand.number = std::strtoll(text.c_str() + 1, nullptr, 0);
  } else if (open != std::string::npos) {
    operand.kind = Operand::kMemory;
    operand.number = std::strtoll(text.c_str(), nullptr, 0);
    std::string part[3];
    std::size_t n = 0;
    for (std::size_t i = open + 1; i < text.size() && text[i] != ')'; ++i) {
      if (text[i] == ',') {
        if (++n == 3) break;
      } else if (text[i] != ' ') {
        part[n] += text[i];
      }
    }
    if (!part[0].empty()) operand.base = WholeRegister(part[0]);
    if (!part[1].empty()) operand.index = WholeRegister(part[1]);
    if (!part[2].empty()) operand.scale = std::strtoll(part[2].c_str(), nullptr, 0);
    if (operand.base == "rsp" && operand.index.empty()) operand.name = text;
  } else if (text[0] == '%') {
    operand.kind = Operand::kRegister;
    operand.name = WholeRegister(text);
  }
  return operand;
}

Instruction ParseInstruction(const std::string& line) {
  Instruction instruction;
  std::string rest = line;
  for (const char* prefix : {"notrack", "lock", "rep", "bnd"}) {
    const std::string word = std::string(prefix) + " ";
    if (rest.rfind(word, 0) == 0) rest = Trimmed(rest.substr(word.size()));
  }
  const std::size_t space = rest.find_first_of(" \t");
  instruction.name = rest.substr(0, space);
  if (space == std::string::npos) return instruction;
  std::string word;
  int depth = 0;
  const auto flush = [&] {
    word = Trimmed(word);
    if (!word.empty()) instruction.operands.push_back(ParseOperand(word));
    word.clear();
  };
  for (const char c : rest.substr(space)) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      flush();
    } else {
      word += c;
    }
  }
  flush();
  return instruction;
}

}  // namespace

const Operand* Instruction::Memory() const {
  if (Begins("lea") || Begins("nop") || Begins("prefetch")) return nullptr;
  for (const Operand& o : operands) {
    if (o.kind == Operand::kMemory && o.base != "rip" && o.base != "rsp") return &o;
  }
  return nullptr;
}

std::map<std::string, Function> FunctionsIn(const std::string& text) {
  std::map<std::string, Function> functions;
  std::map<std::string, std::string> aliases;
  Function* function = nullptr;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    line = Trimmed(line.substr(0, line.find('#')));
    if (line.empty() || line[0] == '/') continue;
    if (line.back() == ':') {
      const std::string label = line.substr(0, line.size() - 1);
      // Labels inside of functions begin with ".L".
      if (label[0] != '.') {
        function = &functions[label];
        *function = {};
      } else if (function != nullptr) {
        function->labels[label] = function->instructions.size();
      }
    } else if (line[0] == '.') {
      const std::size_t comma = line.find(',');
      if (line.rfind(".set", 0) == 0 && comma != std::string::npos)
        aliases[Trimmed(line.substr(4, comma - 4))] = Trimmed(line.substr(comma + 1));
    } else if (function != nullptr) {
      function->instructions.push_back(ParseInstruction(line));
    }
  }
  for (const auto& [alias, name] : aliases) {
    if (const auto found = functions.find(name); found != functions.end()) {
      const Function copy = found->second;
      functions[alias] = copy;
    }
  }
  return functions;
}

namespace {

bool IsPlace(const Operand& o, bool on_stack) {
  return o.kind == Operand::kRegister || (on_stack && o.kind == Operand::kMemory && !o.name.empty());
}

std::optional<Step> StepBetween(const Instruction& instruction, bool on_stack) {
  const std::vector<Operand>& o = instruction.operands;
  if (o.empty() || !IsPlace(o.back(), on_stack)) return std::nullopt;
  const std::string& to = o.back().name;
  if (o.size() == 1) {
    if (instruction.Begins("inc")) return Step{to, to, 1};
    if (instruction.Begins("dec")) return Step{to, to, -1};
    return std::nullopt;
  }
  if (o.size() != 2) return std::nullopt;
  if (o[0].kind == Operand::kImmediate) {
    if (instruction.Is("addq") || instruction.Is("addl")) return Step{to, to, o[0].number};
    if (instruction.Is("subq") || instruction.Is("subl")) return Step{to, to, -o[0].number};
  }
  if (IsPlace(o[0], on_stack) && instruction.Begins("mov")) return Step{to, o[0].name, 0};
  if (o[0].kind == Operand::kMemory && instruction.Begins("lea") && o[0].index.empty())
    return Step{to, o[0].base, o[0].number};
  return std::nullopt;
}

std::string ChangedPlace(const Instruction& instruction, bool on_stack) {
  if (instruction.operands.empty() || !IsPlace(instruction.operands.back(), on_stack)) return "";
  for (const char* reader :
       {"cmp", "test", "push", "bt", "vcomi", "vucomi", "ucomi", "comi", "vptest", "j"}) {
    if (instruction.Begins(reader)) return "";
  }
  return instruction.operands.back().name;
}

}  // namespace

bool IsOnStack(const std::string& name) { return !name.empty() && name.back() == ')'; }
std::optional<Step> StepOf(const Instruction& instruction) { return StepBetween(instruction, false); }
std::optional<Step> StepOnStackOf(const Instruction& instruction) { return StepBetween(instruction, true); }
std::string Changes(const Instruction& instruction) { return ChangedPlace(instruction, false); }
std::string ChangesOnStack(const Instruction& instruction) { return ChangedPlace(instruction, true); }

}  // namespace ipu_model::assembly
