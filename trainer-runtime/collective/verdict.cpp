#include "trainer-runtime/collective/verdict.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

namespace pawl::collective {
namespace {

// More are counted.
constexpr int kNamedMax = 8;

std::string operation_text(const Standing& standing) {
  return std::string(standing.operation) + " " + std::to_string(standing.sequence) +
         (standing.is_broadcast ? " of rank " : " (bucket ") + std::to_string(standing.bucket) +
         (standing.is_broadcast ? "" : ")");
}

// The first `count` ranks before this one, and this one.
std::string waiting_text(const Standing& standing, int count) {
  if (count == 0) return "rank " + std::to_string(standing.rank) + " waits in";
  if (count >= kNamedMax) return std::to_string(count + 1) + " ranks wait in";
  std::vector<int> ranks;
  for (int i = 0; i <= count; ++i)
    ranks.push_back((standing.rank - i + standing.world_size) % standing.world_size);
  std::ranges::sort(ranks);
  std::string text = "ranks ";
  for (const int rank : ranks) text += (rank == ranks.front() ? "" : ", ") + std::to_string(rank);
  return text + " wait in";
}

std::string after(std::chrono::nanoseconds waited) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), " (after %.1f s)",
                std::chrono::duration<double>(waited).count());
  return text.data();
}

}  // namespace

std::string verdict_of(const Standing& s) {
  const auto name = [&](int rank) {
    return "rank " + std::to_string((rank + s.world_size) % s.world_size);
  };
  const std::string operation = operation_text(s), previous = name(s.rank - 1);
  std::string text;
  if (!s.is_receiving) {
    text = name(s.rank + 1) + " did not take what rank " + std::to_string(s.rank) + " sent of " +
           operation;
  } else if (s.is_broadcast) {
    text = previous + " did not " + (s.begun > 0 ? "send all of " : "start to send ") + operation +
           " that " + waiting_text(s, 0);
  } else if (s.begun + 1 >= s.world_size) {
    text = previous + " did not go on with " + operation + ", which all ranks have started";
  } else {
    text = name(s.rank - s.begun - 1) + " did not start " + operation + " that " +
           waiting_text(s, s.begun);
    if (s.may_have_begun) text += ", unless it waits in it, too";
    if (s.begun == 1) text += ", unless " + previous + " stands still";
    if (s.begun > 1) text += ", unless one of these stands still";
  }
  return text + after(s.waited);
}

}  // namespace pawl::collective
