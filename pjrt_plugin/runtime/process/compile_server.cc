#include "runtime/process/compile_server.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

extern char** environ;

namespace jax_ipu {
namespace {

// How long a server may take to end after its socket is closed, and how often this is checked.
constexpr std::chrono::milliseconds kPatience{2000}, kInterval{1};

std::string ErrorText(int error) { return std::generic_category().message(error); }

void AppendNumber(std::string& out, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

void AppendString(std::string& out, const std::string& text) {
  AppendNumber(out, text.size());
  out += text;
}

std::uint64_t NumberIn(const std::array<unsigned char, 8>& bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= std::uint64_t{bytes[static_cast<std::size_t>(i)]} << (8 * i);
  return value;
}

class SpawnSettings {
 public:
  // `socket` becomes descriptor kSocket. Output goes to stderr: stdout is the host's own.
  explicit SpawnSettings(int socket) {
    Check(posix_spawn_file_actions_init(&actions_));
    Check(posix_spawnattr_init(&attributes_));
    // Must come first: if the host has closed a standard descriptor, the socket may have its number, which
    // the actions below reuse.
    Check(posix_spawn_file_actions_adddup2(&actions_, socket, CompileServer::kSocket));
    Check(posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0));
    if (fcntl(STDERR_FILENO, F_GETFD) < 0 || socket == STDERR_FILENO) {
      Check(posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0));
    }
    Check(posix_spawn_file_actions_adddup2(&actions_, STDERR_FILENO, STDOUT_FILENO));
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    // On other systems the server itself closes the host's descriptors after its start.
    Check(posix_spawn_file_actions_addclosefrom_np(&actions_, CompileServer::kSocket + 1));
#endif
    // The server does not inherit the host's signal settings, and a Ctrl-C for the host's process group does
    // not reach it.
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    Check(posix_spawnattr_setsigmask(&attributes_, &none));
    Check(posix_spawnattr_setsigdefault(&attributes_, &all));
    Check(posix_spawnattr_setpgroup(&attributes_, 0));
    Check(posix_spawnattr_setflags(&attributes_,
                                   POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP));
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  static void Check(int error) {
    if (error != 0) throw Error(Code::kInternal, "The compile server cannot be started: " + ErrorText(error));
  }
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

CompileServer::CompileServer(Command command, std::string advice)
    : command_(std::move(command)), advice_(std::move(advice)) {}

CompileServer::~CompileServer() {
  if (owner_ == getpid()) Stop();
}

std::string CompileServer::Compile(const CompileRequest& request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (owner_ != getpid()) Forget();
  if (!IsAlive()) Start();
  // The program is sent from where it lies.
  std::string size, rest;
  AppendNumber(size, request.program.size());
  for (const std::string* part : {&request.format, &request.options, &request.target}) {
    AppendString(rest, *part);
  }
  Answer answer;
  if (!Send(size) || !Send(request.program) || !Send(rest) || !Receive(&answer)) {
    throw Error(Code::kInternal, "The compile server " + Stop() +
                                     " while it compiled this program; its messages are on stderr. The next "
                                     "compilation starts a new one.");
  }
  if (answer.code != Code{}) throw Error(answer.code, answer.text);
  return std::move(answer.text);
}

bool CompileServer::IsAlive() {
  if (socket_ < 0) return false;
  // The server only sends answers, so between requests the socket is readable only if the server has ended.
  char byte;
  const ssize_t read = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (read < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return true;
  Stop();
  return false;
}

void CompileServer::Start() {
  const std::vector<std::string> command = command_();
  Spawn(command);
  Answer greeting;
  if (!Receive(&greeting)) {
    throw Error(Code::kFailedPrecondition, "The compile server of '" + command[0] + "' " + Stop() +
                                               " before it was ready; its messages are on stderr. " +
                                               advice_);
  }
  if (greeting.code != Code{}) {
    Stop();
    throw Error(greeting.code,
                "The compile server of '" + command[0] + "' cannot start: " + greeting.text + ". " + advice_);
  }
  if (greeting.text != kGreeting) {
    Stop();
    throw Error(Code::kFailedPrecondition,
                "'" + command[0] + "' has another version of jax_ipu than this library: '" + greeting.text +
                    "' instead of '" + std::string(kGreeting) + "'. " + advice_);
  }
}

void CompileServer::Spawn(const std::vector<std::string>& command) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    throw Error(Code::kInternal, "The compile server cannot be started: " + ErrorText(errno));
  }
  socket_ = sockets[0];
  // A number above kSocket: a descriptor that is duplicated onto itself would be closed with the others.
  const int theirs = fcntl(sockets[1], F_DUPFD_CLOEXEC, kSocket + 1);
  close(sockets[1]);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  int error = theirs < 0 ? errno : 0;
  pid_t server = -1;
  try {
    if (error == 0) {
      const SpawnSettings settings(theirs);
      error = posix_spawn(&server, arguments[0], settings.actions(), settings.attributes(), arguments.data(),
                          environ);
    }
  } catch (const Error&) {
    close(theirs);
    Forget();
    throw;
  }
  if (theirs >= 0) close(theirs);
  if (error != 0) {
    Forget();
    throw Error(Code::kFailedPrecondition, "The Python interpreter '" + command[0] +
                                               "' cannot be started: " + ErrorText(error) + ". " + advice_);
  }
  server_ = server;
  owner_ = getpid();
}

bool CompileServer::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool CompileServer::Receive(void* data, std::size_t size) {
  char* next = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t read = recv(socket_, next, size, 0);
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) return false;
    next += read;
    size -= static_cast<std::size_t>(read);
  }
  return true;
}

bool CompileServer::Receive(Answer* answer) {
  std::array<unsigned char, 8> code{}, size{};
  if (!Receive(code.data(), code.size()) || !Receive(size.data(), size.size())) return false;
  answer->code = static_cast<Code>(NumberIn(code));
  answer->text.resize(NumberIn(size));
  return Receive(answer->text.data(), answer->text.size());
}

std::string CompileServer::Stop() {
  const pid_t server = server_;
  Forget();  // closes the socket, so that a server that waits for requests ends
  if (server < 0) return "ended";
  int status = 0;
  pid_t ended = 0;
  for (auto waited = kInterval; ended == 0; waited += kInterval) {
    ended = waitpid(server, &status, WNOHANG);
    if (ended < 0 && errno == EINTR) ended = 0;
    if (ended != 0) break;
    if (waited > kPatience) kill(server, SIGKILL);
    std::this_thread::sleep_for(kInterval);
  }
  if (ended < 0) return "ended";  // the host reaps all its children
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return "was ended by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  }
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

void CompileServer::Forget() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  server_ = -1;
}

}  // namespace jax_ipu
