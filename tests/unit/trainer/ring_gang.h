// Ranks as threads, each with its own connections to the others on the loopback device.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/os/process.h"
#include "trainer-runtime/collective/ring.h"

namespace pawl::test {

struct RingGang {
  std::vector<os::Fd> listeners;
  std::vector<collective::RingOptions> options;

  explicit RingGang(int world_size) {
    std::vector<std::string> peers;
    for (int rank = 0; rank < world_size; ++rank) {
      listeners.push_back(*os::listen_tcp("127.0.0.1", 0));
      peers.push_back(os::join_host_port("127.0.0.1", *os::local_port(listeners.back().get())));
    }
    for (int rank = 0; rank < world_size; ++rank) {
      options.push_back({rank, world_size, 7, "secret", peers, std::chrono::seconds{10},
                         std::chrono::seconds{10}});
    }
  }
  // Runs `work` for every rank, each on its own thread with its own connection.
  std::vector<Status> run(const std::function<Status(collective::Collective&)>& work) {
    std::vector<Status> results(options.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < options.size(); ++rank) {
      threads.emplace_back([&, rank] {
        auto ring = collective::make_ring(options[rank], listeners[rank]);
        results[rank] = ring ? work(**ring) : Status(tl::make_unexpected(ring.error()));
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }
};

}  // namespace pawl::test
