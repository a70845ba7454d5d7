// Residency: which programs share an engine, and giving them one.
#include <algorithm>
#include <map>
#include <optional>
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

Residency::Shared Residency::SharedState(const LoadedProgram& program,
                                         const std::vector<Argument>& arguments) const {
  std::set<const HostBlock*> blocks;
  for (const std::weak_ptr<LoadedProgram>& other : loaded_->programs_) {
    const std::shared_ptr<LoadedProgram> alive = other.lock();
    if (!alive) continue;
    for (const std::weak_ptr<HostBlock>& array : alive->host_arrays_) blocks.insert(array.lock().get());
  }
  Shared shared;
  shared.all = loaded_->BytesOfState();
  std::set<std::size_t> slots;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Array& array = *arguments[i].array;
    const bool in_variable = array.image_ == loaded_ && slots.insert(array.slot_).second;
    const bool in_host_memory = program.executable_->inputs[i].in_host_memory && array.on_host() &&
                                array.host() && blocks.erase(array.host().get()) != 0;
    if (!in_variable && !in_host_memory) continue;
    ++shared.arrays;
    shared.bytes += array.spec().bytes();
  }
  return shared;
}

Residency::Shared Residency::SharedCopies(const std::vector<Argument>& arguments) const {
  Shared shared;
  std::set<const HostBlock*> blocks;
  for (const LoadedImage::Variable& variable : loaded_->variables_) {
    const std::shared_ptr<HostBlock> block = variable.kept.lock();
    if (block && blocks.insert(block.get()).second) shared.all += block->bytes();
  }
  for (const Argument& argument : arguments) {
    const Array& array = *argument.array;
    if (!array.on_host() || !array.host() || blocks.erase(array.host().get()) == 0) continue;
    ++shared.arrays;
    shared.bytes += array.spec().bytes();
  }
  return shared;
}

bool Residency::ShouldLink(const LoadedProgram& program, const std::vector<Argument>& arguments) const {
  if (!linker_ || !loaded_ || loaded_ == program.image_ || !program.CanLink()) return false;
  const std::size_t entries = loaded_->programs_.size() + program.image_->programs_.size();
  if (entries > kMostLinked) return false;
  const std::string& group = program.executable_->link_group;
  bool any = false, asked = !group.empty();
  for (const std::weak_ptr<LoadedProgram>& other : loaded_->programs_) {
    const std::shared_ptr<LoadedProgram> alive = other.lock();
    if (!alive) continue;
    // A graph is for one number of IPUs, and an engine is one of them.
    if (!alive->CanLink() || alive->num_ipus() != program.num_ipus() || alive->replica_ != program.replica_)
      return false;
    any = true;
    asked = asked && alive->executable_->link_group == group;
  }
  if (!any || (!asked && !config_.link)) return false;
  const Shared state = SharedState(program, arguments), copies = SharedCopies(arguments);
  if (asked) return state.arrays + copies.arrays > 0;
  // A program that takes one of many arrays may be an operation outside of jit, which is seldom called again.
  const bool takes_much = 2 * state.bytes >= state.all || (state.arrays > 1 && 4 * state.bytes >= state.all);
  if (state.arrays > 0 && (takes_much || program.times_returned_ > 0)) return true;
  // Arrays that are only read may be those of any program. Those of one that comes back were sent again.
  return program.image_->engine_ && copies.arrays > 0 && 2 * copies.bytes >= copies.all;
}

int Residency::SlotInLoaded(const Array& array) const {
  if (array.image_ == loaded_) return static_cast<int>(array.slot_);
  if (!array.on_host() || array.spec().bytes() == 0) return -1;
  for (std::size_t v = 0; v < loaded_->variables_.size(); ++v) {
    if (IsSameBlock(loaded_->variables_[v].last, array.host())) return static_cast<int>(v);
  }
  return -1;
}

Residency::LinkPlan Residency::PlanLink(const std::shared_ptr<LoadedProgram>& program,
                                        const std::vector<Argument>& arguments) const {
  LinkPlan plan;
  std::vector<std::shared_ptr<LoadedProgram>>& programs = plan.programs;
  std::vector<LinkPart>& parts = plan.parts;
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
    const InputSpec& spec = program->executable_->inputs[i];
    const int slot = spec.used && !spec.in_host_memory ? SlotInLoaded(*arguments[i].array) : -1;
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
  return plan;
}

std::uint64_t Residency::LinkPlan::Digest() const {
  std::uint64_t digest = 0xcbf29ce484222325u;  // FNV-1a
  const auto add = [&](std::uint64_t value) { digest = (digest ^ value) * 0x100000001b3u; };
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (const char character : programs[p]->executable_->fingerprint)
      add(static_cast<unsigned char>(character));
    for (const int variable : parts[p].variables) add(static_cast<std::uint64_t>(variable) + 0x100);
  }
  return digest | 1u;
}

void Residency::LinkTogether(const std::shared_ptr<LoadedProgram>& program,
                             const std::vector<Argument>& arguments, LinkRound& round) {
  const bool is_loaded = loaded_ == program->image_;
  std::optional<LinkPlan> plan;
  if (ShouldLink(*program, arguments)) plan = PlanLink(program, arguments);
  const bool all = round.AgreeOn(program->replica_, plan ? plan->Digest() : 0);
  if (all) Link(*program, *plan, [&] { return round.Link(linker_, plan->parts); });
  // Asked again when another image has taken its place.
  if (all || is_loaded || !linker_) program->asks_others_ = false;
}

void Residency::Link(const LoadedProgram& program, const LinkPlan& plan,
                     const std::function<LinkedProgram()>& make) {
  const std::vector<std::shared_ptr<LoadedProgram>>& programs = plan.programs;
  std::shared_ptr<LoadedImage> image;
  try {
    LinkedProgram linked = make();
    image = std::make_shared<LoadedImage>(std::move(linked.executable), std::move(linked.image));
  } catch (const Error& error) {
    if (error.code == Code::kCancelled) throw;
    for (const std::shared_ptr<LoadedProgram>& one : programs) {
      one->may_link_ = false;
      one->asks_others_ = false;
    }
    Log(LogModule::kEngine, LogLevel::kInfo,
        "'" + program.executable_->name + "' and '" + programs[0]->executable_->name +
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
      "'" + program.executable_->name + "' shares IPU " + std::to_string(device_id_) + " with " +
          std::to_string(programs.size() - 1) + " other programs");
}

}  // namespace jax_ipu
