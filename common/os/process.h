// What a program asks the operating system about itself: environment, entropy, arguments, standard
// error. The only file that calls getenv, setenv and getrandom. Thread-safe after main has started.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace pawl::os {

std::optional<std::string> env(const char* name);
// What a child process is to get: without the settings that set_private_env made.
std::map<std::string, std::string> environment();
// Sets a variable for a library in this process alone; environment() goes on showing what was there
// before. From main, before other threads exist.
void set_private_env(const char* name, const char* value);

std::uint64_t entropy();
// `bytes` random bytes as lower-case hex.
std::string random_hex(std::size_t bytes);

// One write(2) of the whole line to standard error; a Log::Writer.
void write_stderr(std::string_view line);
// Ignores SIGPIPE; every program calls it first.
void ignore_sigpipe();
// "errno 2 (No such file or directory)" for the current errno.
std::string errno_text();
std::string errno_text(int error);

// Path of the running executable, for starting its siblings.
std::string executable_path();
std::string host_name();

}  // namespace pawl::os
