// How the MPI programs say why they end: a line on standard error, and where it is a failure of
// this worker's, the message that the launcher reports with it (supervisor/error_file.h).
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace pawl::launcher::mpi {

// Who only ends because another worker's program does waits for so long, unless it is told to end.
inline constexpr std::chrono::milliseconds kBlameWait{300};

// Of an output that is passed on. Who has closed its end of a pipe wants no more of it.
void write_whole(int fd, std::string_view text);

void print_error(const std::string& text);
void report(const std::string& text);

}  // namespace pawl::launcher::mpi
