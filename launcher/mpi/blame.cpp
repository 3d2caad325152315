#include "launcher/mpi/blame.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>

namespace pawl::launcher::mpi {
namespace {

constexpr std::size_t kLineBytesMax = 4096;
constexpr int kSignalMax = 64;

// What follows `mark` in the line, nothing if it is not in it.
std::optional<std::string_view> after(std::string_view line, std::string_view mark) {
  const std::size_t at = line.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  return line.substr(at + mark.size());
}

std::string first_word(std::string_view text) {
  return std::string{text.substr(0, text.find_first_of(" \t\r"))};
}

int number_in(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number >= 1 && number <= kSignalMax ? number : 0;
}

// MPICH's exit code is what wait(2) says: the signal, and 128 where there is a core. A code of the
// program's own is not told in this way, but by other versions it may be: only what no program
// calls its own code is believed.
int signal_of(std::string_view status) {
  int number = 0;
  std::from_chars(status.data(), status.data() + status.size(), number);
  constexpr int kCore = 128;
  const int signal = number > kCore ? number - kCore : number;
  constexpr std::array kDeadly = {SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV};
  return std::ranges::find(kDeadly, signal) == kDeadly.end() ? 0 : signal;
}

}  // namespace

void BlameScan::feed(std::string_view text) {
  while (!first_ && !text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view part = text.substr(0, end);
    if (line_.size() < kLineBytesMax) line_ += part.substr(0, kLineBytesMax);
    if (end == std::string_view::npos) return;
    look_at(line_);
    line_.clear();
    text.remove_prefix(end + 1);
  }
}

void BlameScan::look_at(std::string_view line) {
  // Open MPI: "mpirun noticed that process rank 1 with PID 0 on node H exited on signal 9
  // (Killed)."
  if (const auto noticed = after(line, "noticed that process rank ")) {
    const auto node = after(*noticed, " on node ");
    const auto signal = after(*noticed, " exited on signal ");
    if (node && signal && number_in(*signal) > 0) first_ = {first_word(*node), number_in(*signal)};
    return;
  }
  // Intel MPI: "=   RANK 1 PID 5 RUNNING AT H", "=   KILLED BY SIGNAL: 9 (Killed)". MPICH: "=   PID
  // 5 RUNNING AT H", "=   EXIT CODE: 9", and, if it comes to that, "YOUR APPLICATION TERMINATED
  // WITH THE EXIT STRING: Killed (signal 9)".
  if (const auto host = after(line, " RUNNING AT ")) {
    if (line.starts_with("=") && running_.empty()) running_ = first_word(*host);
    return;
  }
  if (running_.empty()) return;
  if (const auto status = after(line, "=   EXIT CODE: ")) {
    if (const int signal = signal_of(*status); signal > 0) first_ = {running_, signal};
    return;
  }
  auto signal = after(line, "KILLED BY SIGNAL: ");
  if (!signal && line.find("TERMINATED WITH THE EXIT STRING") != std::string_view::npos)
    signal = after(line, "(signal ");
  if (signal && number_in(*signal) > 0) first_ = {running_, number_in(*signal)};
}

}  // namespace pawl::launcher::mpi
