// Moves the tensors of programs over the devices of several processes. The bytes are carried by a transport
// outside this library, which the binding layer sets.
#ifndef JAX_IPU_RUNTIME_PROCESS_PROCESS_TRANSPORT_H_
#define JAX_IPU_RUNTIME_PROCESS_PROCESS_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ipu_model/Model.hpp"

namespace jax_ipu {

// A message to another process and one from it. Messages of one tag arrive in the order they were sent.
struct ProcessMessage {
  int process = 0;
  std::uint32_t send_tag = 0, receive_tag = 0;
  const void* out = nullptr;
  std::size_t out_bytes = 0;  // 0: nothing is sent
  void* in = nullptr;
  std::size_t in_bytes = 0;  // 0: nothing is received
};

// Thread safe, called without the interpreter's lock.
struct ProcessTransport {
  // Returns when all messages are sent and received. Throws Error; all later calls then fail as well.
  std::function<void(const std::vector<ProcessMessage>&)> carry;
  // Makes current and later transports of this process fail with `reason`; other processes get an error too.
  std::function<void(const std::string& reason)> fail;
};

// Where the replicas of an executable run, and the transport to those in other processes. Serves any number
// of launches.
class RemoteLaunch : public ipu_model::RemoteReplicas {
 public:
  struct Place {
    int process = 0;
    unsigned device = 0;  // index among the devices of its process
  };
  // `places` by replica. `program` names the executable: processes that run different ones get an error.
  RemoteLaunch(std::string program, std::vector<Place> places, int own_process, ProcessTransport transport);

  unsigned num_replicas() const { return static_cast<unsigned>(places_.size()); }
  bool IsHere(unsigned replica) const override { return ProcessOf(replica) == own_process_; }
  int ProcessOf(unsigned replica) const override { return places_.at(replica).process; }
  void Carry(std::uint32_t channel, std::vector<Transfer>& transfers) override;
  void Fail(const std::string& reason) override;

 private:
  const std::string program_;
  const std::vector<Place> places_;
  const int own_process_;
  const ProcessTransport transport_;
};

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_PROCESS_PROCESS_TRANSPORT_H_
