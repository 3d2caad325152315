#include "cli/local/node_files.h"

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <set>

#include "common/os/fd.h"

using namespace pawl;

TEST_CASE("node_files: ports are each another's, free, and none that outgoing connections get",
          "[cli]") {
  int first_outgoing = 0;
  std::ifstream{"/proc/sys/net/ipv4/ip_local_port_range"} >> first_outgoing;
  std::set<std::uint16_t> taken;
  for (int i = 0; i < 200; ++i) {
    const auto port = local::find_free_port(taken);
    REQUIRE(port);
    if (first_outgoing >= 32'768) CHECK(*port < first_outgoing);
    CHECK(os::listen_tcp("127.0.0.1", *port));
  }
  CHECK(taken.size() == 200);
}
