// The compile server's protocol and its end, with a server in this program, and the choice of an interpreter.
#include "runtime/process/compile_server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "runtime/process/python_compiler.h"

namespace jax_ipu {
namespace {

namespace fs = std::filesystem;
using testing::Contains;

// The server's side
// ------------------------------------------------------------------------------------------

void Write(const std::string& bytes) {
  if (write(CompileServer::kSocket, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    _exit(1);
}
void WriteNumber(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  Write(bytes);
}
void Answer(std::uint64_t code, const std::string& text) {
  WriteNumber(code);
  WriteNumber(text.size());
  Write(text);
}
std::string Read(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = read(CompileServer::kSocket, bytes.data() + done, size - done);
    if (n <= 0) _exit(0);  // the host has ended
    done += static_cast<std::size_t>(n);
  }
  return bytes;
}
std::string ReadString() {
  const std::string bytes = Read(8);
  std::uint64_t size = 0;
  for (int i = 0; i < 8; ++i)
    size |= std::uint64_t{static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)])} << (8 * i);
  return Read(size);
}

int Serve(const std::string& greeting) {
  if (greeting == "exit") return 7;
  if (greeting == "refuse") {
    Answer(9, "no jaxlib");
    return 1;
  }
  Answer(0, greeting);
  for (;;) {
    const std::string program = ReadString(), format = ReadString(), options = ReadString(),
                      target = ReadString();
    if (program == "crash") raise(SIGKILL);
    if (program == "exit") _exit(3);
    if (program == "pid") {
      Answer(0, std::to_string(getpid()));
    } else if (program == "invalid") {
      Answer(3, "not a program");
    } else if (program == "descriptors") {
      int open = 0;
      for (int fd = 0; fd < 1000; ++fd) open += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
      Answer(0, std::to_string(open));
    } else if (program == "signals") {
      struct sigaction action{};
      sigset_t blocked;
      sigaction(SIGUSR1, nullptr, &action);
      sigprocmask(SIG_BLOCK, nullptr, &blocked);
      const bool as_at_start = action.sa_handler == SIG_DFL && sigismember(&blocked, SIGUSR1) == 0;
      Answer(0, as_at_start && getpgrp() == getpid() ? "default" : "inherited");
    } else {
      Answer(0, program + "|" + format + "|" + options + "|" + target);
    }
  }
}

// The host's side
// --------------------------------------------------------------------------------------------

CompileServer::Command Command(const std::string& greeting) {
  return [greeting] {
    return std::vector<std::string>{fs::read_symlink("/proc/self/exe"), "--serve", greeting};
  };
}
const std::string kGreeting(CompileServer::kGreeting);

std::string Compile(CompileServer& server, const std::string& program) {
  return server.Compile({program, "mlir", std::string("\0o", 2), "ipu2"});
}

template <typename F>
std::string ErrorOf(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code)) + ": " + error.what();
  }
  return "no error";
}

TEST(OneServerAnswersAllRequests) {
  CompileServer server(Command(kGreeting), "");
  CHECK_EQ(Compile(server, "p"), std::string("p|mlir|\0o|ipu2", 14));
  const std::string large(10'000'000, 'x');
  CHECK_EQ(Compile(server, large).size(), large.size() + 13);
  const std::string pid = Compile(server, "pid");
  CHECK(pid != std::to_string(getpid()));
  CHECK_EQ(Compile(server, "pid"), pid);
  std::vector<std::thread> threads;
  std::vector<std::string> answers(8);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    threads.emplace_back([&, i] { answers[i] = Compile(server, std::to_string(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    CHECK_EQ(answers[i], std::to_string(i) + std::string("|mlir|\0o|ipu2", 13));
  }
}

TEST(ErrorsKeepTheirCode) {
  CompileServer server(Command(kGreeting), "");
  CHECK_EQ(ErrorOf([&] { Compile(server, "invalid"); }), "3: not a program");
  CHECK(Compile(server, "pid") != "");
}

TEST(ACrashIsAnErrorOfOneCompilation) {
  CompileServer server(Command(kGreeting), "");
  const std::string first = Compile(server, "pid");
  CHECK(
      Contains(ErrorOf([&] { Compile(server, "crash"); }), "13: The compile server was ended by signal 9 "));
  const std::string second = Compile(server, "pid");
  CHECK(first != second);
  CHECK(Contains(ErrorOf([&] { Compile(server, "exit"); }),
                 "ended with status 3 while it compiled this program"));
  // A server that ends between compilations is replaced without an error.
  const std::string third = Compile(server, "pid");
  kill(static_cast<pid_t>(std::stol(third)), SIGKILL);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(Compile(server, "pid") != third);
}

TEST(AServerThatCannotStart) {
  CompileServer missing([] { return std::vector<std::string>{"/nonexistent/python"}; }, "ADVICE");
  CHECK_EQ(
      ErrorOf([&] { Compile(missing, ""); }),
      "9: The Python interpreter '/nonexistent/python' cannot be started: No such file or directory. ADVICE");
  CompileServer ends(Command("exit"), "ADVICE");
  const std::string ended = ErrorOf([&] { Compile(ends, ""); });
  CHECK(Contains(ended, "ended with status 7 before it was ready") && Contains(ended, "ADVICE"));
  CompileServer refuses(Command("refuse"), "ADVICE");
  const std::string refused = ErrorOf([&] { Compile(refuses, ""); });
  CHECK(Contains(refused, "9: ") && Contains(refused, "no jaxlib. ADVICE"));
  CompileServer other(Command("jax_ipu compile server 0"), "ADVICE");
  CHECK(Contains(ErrorOf([&] { Compile(other, ""); }), "another version of jax_ipu"));
}

TEST(NothingOfTheHostIsInherited) {
  int pipes[2];
  CHECK_EQ(pipe(pipes), 0);  // without close-on-exec
  signal(SIGUSR1, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  CompileServer server(Command(kGreeting), "");
  CHECK_EQ(Compile(server, "signals"), "default");
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
  CHECK_EQ(Compile(server, "descriptors"), "4");
#endif
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  close(pipes[0]);
  close(pipes[1]);
}

TEST(AHostWithoutStandardDescriptors) {
  const pid_t child = fork();
  if (child == 0) {
    for (int fd = 0; fd < 3; ++fd) close(fd);
    CompileServer server(Command(kGreeting), "");
    const bool good = Compile(server, "p").substr(0, 2) == "p|" && Compile(server, "descriptors") == "4";
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(AForkHasAServerOfItsOwn) {
  CompileServer server(Command(kGreeting), "");
  const std::string pid = Compile(server, "pid");
  const pid_t child = fork();
  if (child == 0) {
    const std::string own = Compile(server, "pid");
    _exit(own != pid && own == Compile(server, "pid") ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK_EQ(Compile(server, "pid"), pid);
}

// Interpreters
// -----------------------------------------------------------------------------------------------

void MakeProgram(const fs::path& path) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << "#!/bin/sh\n";
  chmod(path.c_str(), 0755);
}

TEST(TheInterpreterOfTheEnvironmentIsFound) {
  std::string folder = (fs::temp_directory_path() / "jax_ipu_pythonXXXXXX").string();
  CHECK(mkdtemp(folder.data()) != nullptr);
  const fs::path root = folder, elsewhere = root / "elsewhere";
  const std::string library = root / "env/lib/python3.11/site-packages/jax_ipu/libpjrt_ipu.so";
  const std::string old_path = getenv("PATH") != nullptr ? getenv("PATH") : "";
  unsetenv("JAX_IPU_PYTHON");
  setenv("PATH", elsewhere.c_str(), 1);

  const std::string none = ErrorOf([&] { FindPython(library); });
  CHECK(Contains(none, "9: ") && Contains(none, "set JAX_IPU_PYTHON"));
  MakeProgram(elsewhere / "python3");
  CHECK_EQ(FindPython(library), (elsewhere / "python3").string());
  MakeProgram(elsewhere / "python3.11");
  CHECK_EQ(FindPython(library), (elsewhere / "python3.11").string());
  MakeProgram(root / "env/bin/python3.11");
  CHECK_EQ(FindPython(library), (root / "env/bin/python3.11").string());
  CHECK_EQ(FindPython("libpjrt_ipu.so"), (elsewhere / "python3").string());

  setenv("JAX_IPU_PYTHON", "python3", 1);
  CHECK_EQ(FindPython(library), (elsewhere / "python3").string());
  setenv("JAX_IPU_PYTHON", "/nonexistent", 1);
  CHECK(Contains(ErrorOf([&] { FindPython(library); }), "JAX_IPU_PYTHON='/nonexistent' is not a program"));
  setenv("JAX_IPU_PYTHON", (root / "env/bin/python3.11").c_str(), 1);

  CHECK(CompileServerCommand(library) ==
        (std::vector<std::string>{root / "env/bin/python3.11", "-P", "-m", "jax_ipu.compile_server", "3",
                                  std::to_string(getpid())}));
  const fs::path script = fs::path(library).parent_path() / "compile_server.py";
  MakeProgram(script);
  const std::vector<std::string> command = CompileServerCommand(library);
  CHECK_EQ(command[2], script.string());

  unsetenv("JAX_IPU_PYTHON");
  setenv("PATH", old_path.c_str(), 1);
  fs::remove_all(root);
}

}  // namespace
}  // namespace jax_ipu

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--serve") return jax_ipu::Serve(argv[2]);
  return jax_ipu::testing::RunTests();
}
