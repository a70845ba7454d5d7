// Compiles in a process of its own, which runs Python: the process that loads the plugin may have no
// interpreter.
#ifndef JAX_IPU_RUNTIME_PROCESS_COMPILE_SERVER_H_
#define JAX_IPU_RUNTIME_PROCESS_COMPILE_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/executable/executable.h"

namespace jax_ipu {

// One server process, started at the first compilation and used until this process ends. Thread safe:
// compilations wait for each other.
//
// Protocol, over a socket that the server has as file descriptor kSocket: numbers have 8 bytes,
// little-endian; a string is its size and its bytes. A request is the four strings of a CompileRequest in
// order. After its start and after every request the server sends a PJRT status code (0: no error) and a
// string: kGreeting after its start, a serialised executable after a request, or an error message. The
// server ends when the socket is closed.
class CompileServer {
 public:
  static constexpr int kSocket = 3;
  static constexpr std::string_view kGreeting = "jax_ipu compile server 1";

  // The server's command line, asked for at every start; it may throw Error.
  using Command = std::function<std::vector<std::string>()>;
  // `advice` is the end of the error message when no server can be started.
  CompileServer(Command command, std::string advice);
  ~CompileServer();
  CompileServer(const CompileServer&) = delete;
  CompileServer& operator=(const CompileServer&) = delete;

  // Returns the serialised executable. Throws Error: the compiler's own; kFailedPrecondition when no server
  // can be started; kInternal when the server ends during this compilation. The next compilation then starts
  // another server.
  std::string Compile(const CompileRequest& request);

 private:
  struct Answer {
    Code code{};  // 0: no error
    std::string text;
  };

  bool IsAlive();
  void Start();
  void Spawn(const std::vector<std::string>& command);
  // Returns false if the server has closed the socket.
  bool Send(std::string_view bytes);
  bool Receive(void* data, std::size_t size);
  bool Receive(Answer* answer);
  // Ends the server, by force if it does not end with the socket, and says how it ended.
  std::string Stop();
  // Forgets the server without ending it: in a fork, it is the server of the parent.
  void Forget();

  const Command command_;
  const std::string advice_;
  std::mutex mutex_;
  int socket_ = -1;
  pid_t server_ = -1;
  pid_t owner_ = -1;  // the process that started it: a fork has a copy of everything here
};

}  // namespace jax_ipu

#endif  // JAX_IPU_RUNTIME_PROCESS_COMPILE_SERVER_H_
