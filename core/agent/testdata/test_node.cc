// A node program for the agent's tests, on nothing but the system: test_node <mode> [arguments].
// Modes write what a test waits for to stdout, a line each.

#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

int ControlFd() {
  const char* text = std::getenv("MILLRACE_CONTROL_FD");
  return text == nullptr ? -1 : std::atoi(text);
}

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

[[noreturn]] void Pause() {
  for (;;) pause();
}

void SendBytes(const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = send(ControlFd(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
}

void SendFrame(const std::string& body) {
  const auto size = static_cast<uint32_t>(body.size());
  std::string bytes(reinterpret_cast<const char*>(&size), 4);
  SendBytes(bytes + body);
}

// The next frame; empty at the end of the channel.
std::string ReadFrame() {
  uint32_t size = 0;
  if (recv(ControlFd(), &size, 4, MSG_WAITALL) != 4) return "";
  std::string body(size, '\0');
  if (recv(ControlFd(), body.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size)) return "";
  return body;
}

// "0 chr" / "3 sock" / ...: number and kind of every open descriptor.
void ListDescriptors() {
  std::vector<int> fds;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    const int fd = std::atoi(entry->d_name);
    if (fd != dirfd(folder)) fds.push_back(fd);
  }
  closedir(folder);
  std::sort(fds.begin(), fds.end());
  for (const int fd : fds) {
    struct stat info = {};
    fstat(fd, &info);
    const char* kind = S_ISSOCK(info.st_mode)   ? "socket"
                       : S_ISFIFO(info.st_mode) ? "pipe"
                       : S_ISCHR(info.st_mode)  ? "device"
                                                : "other";
    Say("fd " + std::to_string(fd) + " " + kind);
  }
}

void StartGrandchild(bool leave_group) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (leave_group) setsid();
    signal(SIGTERM, SIG_IGN);
    // Says so itself, so that it has left the group when the test reads it.
    Say("grandchild " + std::to_string(getpid()));
    Pause();
  }
}

void OnTerm(int) {
  (void)!write(1, "terminated\n", 11);
  _exit(0);
}

int Run(const std::string& mode, const std::vector<std::string>& args) {
  if (mode == "exit") return std::atoi(args.at(0).c_str());
  if (mode == "fail") {
    std::fprintf(stderr, "%s\n", args.at(0).c_str());
    return 1;
  }
  if (mode == "signal") {
    const int number = std::atoi(args.at(0).c_str());
    signal(number, SIG_DFL);  // a sanitizer's handler would exit instead
    return raise(number);
  }
  if (mode == "pause") Pause();
  if (mode == "polite") {
    signal(SIGTERM, OnTerm);
    Say("ready");
    Pause();
  }
  if (mode == "stubborn") {
    signal(SIGTERM, SIG_IGN);
    Say("ready");
    Pause();
  }
  if (mode == "describe") {
    ListDescriptors();
    Say("pgid " + std::string(getpgid(0) == getpid() ? "own" : "foreign"));
    Say("session " + std::to_string(getsid(0)));
    char cwd[4096];
    Say(std::string("cwd ") + getcwd(cwd, sizeof(cwd)));
    for (char** entry = environ; *entry != nullptr; ++entry) Say(std::string("env ") + *entry);
    for (const std::string& arg : args) Say("arg " + arg);
    std::FILE* context = std::fopen(std::getenv("MILLRACE_CONTEXT_FILE"), "r");
    struct stat info = {};
    if (context != nullptr && fstat(fileno(context), &info) == 0) {
      std::string text(static_cast<size_t>(info.st_size), '\0');
      (void)!std::fread(text.data(), 1, text.size(), context);
      Say("mode " + std::to_string(info.st_mode & 0777));
      Say("context " + text);
    }
    return 0;
  }
  if (mode == "family" || mode == "orphans") {
    StartGrandchild(/*leave_group=*/false);
    StartGrandchild(/*leave_group=*/true);
    if (mode == "family") Pause();
    std::string line;
    // Ends once the test says so, by removing the file.
    while (access(args.at(0).c_str(), F_OK) == 0) usleep(1000);
    return 0;
  }
  if (mode == "flood") {
    const std::string line(99, 'x');
    for (int i = 0; i < std::atoi(args.at(0).c_str()); ++i) {
      std::fprintf(stderr, "%s\n", line.c_str());
    }
    std::fprintf(stderr, "last\n");
    return 3;
  }
  if (mode == "close_control") {
    close(ControlFd());
    Say("closed");
    signal(SIGTERM, OnTerm);
    Pause();
  }
  if (mode == "garbage") {
    SendFrame("{\"id\":1,\"method\":\"hello\",\"params\":{\"protocol\":1}}");
    ReadFrame();
    SendBytes(args.at(0) == "huge" ? std::string("\xff\xff\xff\xff")
                                   : std::string("\x03\0\0\0abc", 7));
    // The agent closes the channel; the process goes on.
    while (!ReadFrame().empty()) {
    }
    Say("channel closed");
    signal(SIGTERM, OnTerm);
    Pause();
  }
  if (mode == "frames") {
    // Sends each argument as a frame and says what comes back, then whatever else comes.
    for (const std::string& frame : args) {
      SendFrame(frame);
      if (frame.find("\"id\"") != std::string::npos) Say("reply " + ReadFrame());
    }
    for (std::string frame = ReadFrame(); !frame.empty(); frame = ReadFrame()) {
      Say("push " + frame);
      if (frame.find("\"stop\"") != std::string::npos) return 0;
    }
    return 70;
  }
  if (mode == "last_words") {
    SendFrame("{\"id\":1,\"method\":\"hello\",\"params\":{\"protocol\":1}}");
    ReadFrame();
    SendFrame(
        "{\"method\":\"exit\",\"params\":{\"code\":\"DATA_LOSS\",\"message\":\"row 7 is bad\"}}");
    return 1;
  }
  std::fprintf(stderr, "unknown mode %s\n", mode.c_str());
  return 99;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 98;
  return Run(argv[1], {argv + 2, argv + argc});
}
