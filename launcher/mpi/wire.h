// One connection between an agent and who asks something of it:
//  1. the agent sends its random number;
//  2. the caller sends its own, and its proof of the key;
//  3. the agent checks it, or hangs up, and sends its own proof, which the caller checks;
//  4. frames in both directions: 4 bytes of length, big-endian, one letter, the text, and a code
//     over it that only this connection's ends can make.
// Not encrypted, as what MPI's own processes say to each other is not. Non-blocking: service() does
// what is possible now. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/os/fd.h"
#include "launcher/mpi/proof.h"

namespace pawl::launcher::mpi {

// Caller to agent.
inline constexpr char kRunCommand = 'R';  // text: for `sh -c`
inline constexpr char kAttend = 'A';      // the job's own connection, for its whole life
inline constexpr char kAskVerdict = 'Q';  // the job has failed: was it here?
inline constexpr char kEnd = 'E';         // text: the agent's exit code, and a blank, and why
// Agent to caller.
inline constexpr char kOutput = 'O', kErrors = 'P';  // of the command
inline constexpr char kExited = 'X';                 // text: its exit code
inline constexpr char kAttending = 'Y';              // text: what this machine calls itself
inline constexpr char kVerdict = 'V';  // text: 0, or the code of a failure that was here

struct Frame {
  char type = 0;
  std::string text;
};

class Wire {
 public:
  Wire(os::Fd fd, Side side, std::string key);

  // Call when the socket is ready. An error (hung up, a stranger, a frame that nobody made) ends
  // the connection; what came before it can still be taken.
  Status service();
  // Kept until the other side is known.
  void send(char type, std::string_view text = {});
  std::vector<Frame> take_frames();

  bool is_trusted() const { return is_trusted_; }
  bool has_unsent() const { return !unsent_.empty(); }
  std::size_t unsent_bytes() const { return unsent_.size(); }
  int fd() const { return fd_.get(); }

 private:
  Status read();
  Status write();
  Status greet();
  Status check_proof(Side side, std::string_view proof);
  Status read_frames();
  void seal(char type, std::string_view text);

  os::Fd fd_;
  Side side_;
  std::string key_, session_;
  Nonces nonces_;
  bool has_answered_ = false, is_trusted_ = false;
  std::uint64_t sent_ = 0, taken_ = 0;
  std::string received_, unsent_;
  std::vector<Frame> waiting_, frames_;
};

}  // namespace pawl::launcher::mpi
