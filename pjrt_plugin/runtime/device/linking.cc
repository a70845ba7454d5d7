// Residency: which programs share an engine, and giving them one.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "ipu_model/Log.hpp"
#include "runtime/device/residency.h"

namespace jax_ipu {
namespace {

using ipu_model::LogLevel;
using ipu_model::LogModule;
// The most programs that share an engine: all are compiled again when one more joins them.
constexpr std::size_t kMostLinked = 8;

}  // namespace

bool Residency::ShouldLink(const LoadedProgram& program, const std::vector<Argument>& arguments) const {
  const auto can_link = [](const LoadedProgram& one) {
    return one.may_link_ && one.source_ != nullptr && !one.executable_->calls_host() &&
           one.executable_->num_replicas * one.executable_->num_partitions == 1 &&
           one.executable_->memory.host_argument_bytes == 0 && one.executable_->memory.host_output_bytes == 0;
  };
  if (!linker_ || !loaded_ || !can_link(program)) return false;
  const std::size_t entries = loaded_->programs_.size() + program.image_->programs_.size();
  if (entries > kMostLinked) return false;
  const std::string& group = program.executable_->link_group;
  bool any = false, asked = !group.empty();
  for (const std::weak_ptr<LoadedProgram>& other : loaded_->programs_) {
    const std::shared_ptr<LoadedProgram> alive = other.lock();
    if (alive && !can_link(*alive)) return false;
    any = any || alive;
    asked = asked && (!alive || alive->executable_->link_group == group);
  }
  if (!any || (!asked && !config_.link)) return false;
  std::set<std::size_t> slots;
  std::size_t bytes = 0;
  for (const Argument& argument : arguments) {
    const Array& array = *argument.array;
    if (array.image_ == loaded_ && slots.insert(array.slot_).second) bytes += array.spec().bytes();
  }
  // A program that takes one of many arrays may be an operation outside of jit, which is seldom called again.
  const std::size_t all = loaded_->BytesOfArrays();
  const bool takes_much = 2 * bytes >= all || (slots.size() > 1 && 4 * bytes >= all);
  return !slots.empty() && (asked || takes_much || program.times_returned_ > 0);
}

int Residency::SlotInLoaded(const Array& array) const {
  if (array.image_ == loaded_) return static_cast<int>(array.slot_);
  if (!array.on_host() || array.spec().bytes() == 0) return -1;
  for (std::size_t v = 0; v < loaded_->variables_.size(); ++v) {
    if (IsSameBlock(loaded_->variables_[v].last, array.host())) return static_cast<int>(v);
  }
  return -1;
}

void Residency::Link(const std::shared_ptr<LoadedProgram>& program, const std::vector<Argument>& arguments) {
  std::vector<std::shared_ptr<LoadedProgram>> programs;
  std::vector<LinkPart> parts;
  // Variables of the image that is loaded come first.
  const auto add = [&](const std::shared_ptr<LoadedProgram>& one, std::size_t first) {
    LinkPart part{one->source_, one->entry().variables};
    for (int& variable : part.variables) {
      if (variable >= 0) variable += static_cast<int>(first);
    }
    programs.push_back(one);
    parts.push_back(std::move(part));
  };
  for (const std::weak_ptr<LoadedProgram>& other : loaded_->programs_) {
    if (const std::shared_ptr<LoadedProgram> alive = other.lock()) add(alive, 0);
  }
  const std::size_t own = loaded_->variables_.size();
  for (std::size_t e = 0; e < program->image_->programs_.size(); ++e) {
    const std::shared_ptr<LoadedProgram> other =
        e == program->entry_ ? program : program->image_->programs_[e].lock();
    if (other) add(other, own);
  }
  // An argument that a variable of the loaded image holds takes that in place of its own.
  std::map<int, int> replaced;
  std::vector<int>* variables = nullptr;
  for (std::size_t p = 0; p < programs.size(); ++p) {
    if (programs[p] == program) variables = &parts[p].variables;
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const int slot = program->executable_->inputs[i].used ? SlotInLoaded(*arguments[i].array) : -1;
    // One array may be two arguments.
    if (slot < 0 || std::count(variables->begin(), variables->end(), slot) > 0) continue;
    int& variable = (*variables)[i];
    if (variable >= 0) replaced[variable] = slot;
    variable = slot;
  }
  for (LinkPart& part : parts) {
    for (int& variable : part.variables) {
      if (const auto found = replaced.find(variable); found != replaced.end()) variable = found->second;
    }
  }
  std::shared_ptr<LoadedImage> image;
  try {
    LinkedProgram linked = linker_(parts);
    image = std::make_shared<LoadedImage>(std::move(linked.executable), std::move(linked.image));
  } catch (const Error& error) {
    if (error.code == Code::kCancelled) throw;
    for (const std::shared_ptr<LoadedProgram>& one : programs) one->may_link_ = false;
    Log(LogModule::kEngine, LogLevel::kInfo,
        "'" + program->executable_->name + "' and '" + programs[0]->executable_->name +
            "' take turns on IPU " + std::to_string(device_id_) + ": " + error.what());
    return;
  }
  Spill(*loaded_);
  loaded_.reset();
  for (std::size_t e = 0; e < programs.size(); ++e) {
    LoadedProgram& one = *programs[e];
    const std::shared_ptr<LoadedImage> before = one.image_;
    const std::vector<int> variables_before = one.entry().variables;
    one.MoveTo(image, e);
    image->programs_[e] = programs[e];
    for (std::size_t i = 0; i < variables_before.size(); ++i) {
      if (variables_before[i] < 0 || one.variable(i) < 0) continue;
      image->variables_[static_cast<std::size_t>(one.variable(i))].last =
          before->variables_[static_cast<std::size_t>(variables_before[i])].last;
    }
  }
  Log(LogModule::kEngine, LogLevel::kInfo,
      "'" + program->executable_->name + "' shares IPU " + std::to_string(device_id_) + " with " +
          std::to_string(programs.size() - 1) + " other programs");
}

}  // namespace jax_ipu
