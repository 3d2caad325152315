#include "cli/help.h"

#include <catch2/catch_test_macros.hpp>

using namespace pawl::cli;

TEST_CASE("help: every verb is in the usage and has its own page, also as a plugin", "[cli]") {
  const std::string usage = usage_text("kubectl pawl");
  for (const char* verb : {"status", "why", "logs", "convert", "run", "validate", "version"}) {
    INFO(verb);
    CHECK(usage.find(std::string("  kubectl pawl ") + verb) != std::string::npos);
    CHECK(help_text("pawl", verb).starts_with(std::string("pawl ") + verb));
  }
  for (const char* verb : {"status", "why", "logs"}) {
    CHECK(help_text("pawl", verb).find("--kubeconfig") != std::string::npos);
    CHECK(help_text("pawl", verb).find("Exit code") != std::string::npos);
  }
  CHECK(help_text("pawl", "no-such") == usage_text("pawl"));
  CHECK(program_name("/usr/local/bin/kubectl-pawl") == "kubectl pawl");
  CHECK(program_name("./pawl") == "pawl");
}
