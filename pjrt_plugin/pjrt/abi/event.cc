// Entry points of PJRT_Event.
#include "pjrt/abi/event.h"

#include <memory>
#include <string>
#include <utility>

#include "pjrt/abi/entry.h"
#include "runtime/process/fork.h"

namespace jax_ipu::pjrt {
namespace {

void EventDestroy(PJRT_Event_Destroy_Args& args) { Destroy(args.event); }

void EventIsReady(PJRT_Event_IsReady_Args& args) { args.is_ready = IsReady(args.event->completion); }

void ThrowIf(const Error* error) {
  if (error != nullptr) throw Error(*error);
}

void EventError(PJRT_Event_Error_Args& args) {
  const CompletionPtr& completion = args.event->completion;
  if (completion && completion->IsReady()) ThrowIf(completion->error());
}

void NoteWaiter(const PJRT_Event& event) {
  if (event.of_array && event.completion) event.completion->NoteWaiter();
}

// No thread of a forked child will ever complete what was pending at the fork.
void RefuseToWaitInForkedChild(const PJRT_Event& event) {
  if (!IsReady(event.completion)) RefuseInForkedChild();
}

void EventAwait(PJRT_Event_Await_Args& args) {
  RefuseToWaitInForkedChild(*args.event);
  NoteWaiter(*args.event);
  ThrowIf(Wait(args.event->completion));
}

// Counts as a waiting caller: JAX also waits for arrays with OnReady, and does not use it when it continues
// with other work.
void EventOnReady(PJRT_Event_OnReady_Args& args) {
  RefuseToWaitInForkedChild(*args.event);
  NoteWaiter(*args.event);
  OnReady(args.event->completion, [callback = args.callback, user_arg = args.user_arg](const Error* error) {
    callback(MakeError(error), user_arg);
  });
}

void EventCreate(PJRT_Event_Create_Args& args) { args.event = MakeEvent(std::make_shared<Completion>()); }

void EventSet(PJRT_Event_Set_Args& args) {
  const CompletionPtr completion = args.event->completion;  // another waiter may destroy the event
  if (IsReady(completion)) throw Error(Code::kFailedPrecondition, "PJRT_Event_Set: the event is set already");
  if (args.error_code == 0) {
    completion->Complete();
  } else {
    completion->Fail(
        Error(static_cast<Code>(args.error_code), std::string(args.error_message, args.error_message_size)));
  }
}

}  // namespace

PJRT_Event* MakeEvent(CompletionPtr completion, bool of_array) {
  return Release(std::make_unique<PJRT_Event>(PJRT_Event{std::move(completion), of_array}));
}

void InstallEvent(PJRT_Api& api) {
  PJRT_INSTALL(api, Event_Destroy, EventDestroy);
  PJRT_INSTALL(api, Event_IsReady, EventIsReady);
  PJRT_INSTALL(api, Event_Error, EventError);
  PJRT_INSTALL(api, Event_Await, EventAwait);
  PJRT_INSTALL(api, Event_OnReady, EventOnReady);
  PJRT_INSTALL(api, Event_Create, EventCreate);
  PJRT_INSTALL(api, Event_Set, EventSet);
}

}  // namespace jax_ipu::pjrt
