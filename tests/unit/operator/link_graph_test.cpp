// The architecture test: what operator/core is linked from can do no I/O, read no clock and start
// no thread. Every symbol that the archives take from elsewhere must stand in a short list, or be
// C++ library code that is known to be harmless; and the targets link what design and CMake say,
// and nothing more.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  REQUIRE(pipe);
  std::string out;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), pipe.get())) > 0;) {
    out.append(buffer.data(), n);
  }
  return out;
}

std::set<std::string> undefined_in(const std::string& archive) {
  std::istringstream lines(
      output_of(std::string(PAWL_NM) + " --undefined-only --format=posix " + archive));
  std::set<std::string> symbols;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string symbol, type;
    if (words >> symbol >> type && type == "U") symbols.insert(symbol);
  }
  return symbols;
}

// Pure functions of libc and the compiler's runtime. Below them, with reasons, the few that are
// not.
const std::set<std::string> kAllowed{
    "_GLOBAL_OFFSET_TABLE_",
    "_Unwind_Resume",
    "__assert_fail",
    "__dso_handle",
    "__dynamic_cast",
    "__errno_location",
    "__gxx_personality_v0",
    "__libc_single_threaded",
    "__stack_chk_fail",
    "abort",
    "localeconv",
    "memchr",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "bcmp",
    "snprintf",
    "sscanf",
    "strchr",
    "strcmp",
    "strlen",
    "ldexp",
    "strtod",
    "strtof",
    "strtol",
    "strtold",
    "strtoll",
    "strtoul",
    "strtoull",
    "tolower",
    "toupper",
    "trunc",
    "strncmp",
    "strcoll",
    "strxfrm",
    "fprintf",
    "fwrite",
    "stderr",  // check.cpp says why it aborts
    "pthread_mutex_lock",
    "pthread_mutex_unlock",  // log.cpp: one line at a time; core does not log
};

// C++ library code that reaches outside the process.
const std::vector<std::string> kForbiddenParts{
    "basic_filebuf", "basic_ifstream", "basic_ofstream", "basic_fstream",      "filesystem",
    "6thread",       "6chrono3_V2",    "random_device",  "condition_variable", "_State",
    "sleep",         "future",         "_ZSt4cout",      "_ZSt3cin",           "_ZSt4cerr"};

// "__isoc99_sscanf" and "__snprintf_chk" are sscanf and snprintf.
std::string plain_name(std::string symbol) {
  for (const std::string prefix : {"__isoc99_", "__isoc23_"}) {
    if (symbol.starts_with(prefix)) return symbol.substr(prefix.size());
  }
  if (symbol.ends_with("_chk") && symbol.starts_with("__") && symbol != "__stack_chk_fail") {
    return symbol.substr(2, symbol.size() - 6);
  }
  return symbol;
}

bool is_harmless(const std::string& symbol) {
  const bool is_runtime = symbol.starts_with("__cxa_") || symbol.starts_with("__asan_") ||
                          symbol.starts_with("__ubsan_") || symbol.starts_with("__tsan_") ||
                          symbol.starts_with("__sanitizer_");
  if (is_runtime) return true;
  if (!symbol.starts_with("_Z")) return kAllowed.contains(plain_name(symbol));
  return std::ranges::none_of(kForbiddenParts, [&](const std::string& part) {
    return symbol.find(part) != std::string::npos;
  });
}

std::vector<std::string> harmful_in(const std::string& archive) {
  std::vector<std::string> found;
  for (const std::string& symbol : undefined_in(archive)) {
    if (!is_harmless(symbol)) found.push_back(symbol);
  }
  return found;
}

}  // namespace

TEST_CASE("link graph: operator/core and all it is linked from can do no I/O",
          "[core][architecture]") {
  for (const char* archive :
       {PAWL_CORE_ARCHIVE, PAWL_API_ARCHIVE, PAWL_CONTRACT_ARCHIVE, PAWL_BASE_ARCHIVE}) {
    INFO(archive);
    CHECK(undefined_in(archive).size() > 10);  // nm did read it
    CHECK(harmful_in(archive) == std::vector<std::string>{});
  }
}

TEST_CASE("link graph: the check sees I/O where there is some", "[architecture]") {
  const auto found = harmful_in(PAWL_OS_ARCHIVE);
  const auto has = [&](const std::string& part) {
    return std::ranges::any_of(
        found, [&](const auto& symbol) { return symbol.find(part) != std::string::npos; });
  };
  CHECK(has("getenv"));
  CHECK(has("6chrono3_V2"));
  CHECK(has("socket"));
  CHECK(has("write"));
}

TEST_CASE("link graph: the targets link what they are said to, and nothing more",
          "[core][architecture]") {
  CHECK(std::string(PAWL_CORE_LINKS) == "pawl_base,pawl_api");
  CHECK(std::string(PAWL_API_LINKS) == "pawl_base,pawl_contract");
  CHECK(std::string(PAWL_CONTRACT_LINKS) == "pawl_base");
  CHECK(std::string(PAWL_BASE_LINKS).empty());
}
