#include "trainer-runtime/parallel/digests.h"

#include <algorithm>
#include <cstddef>

namespace pawl::parallel {
namespace {

constexpr std::size_t kNamedMax = 8;

std::string ranks_that_differ(const std::vector<std::string>& digests, const std::string& right) {
  std::string text;
  std::size_t named = 0;
  for (std::size_t rank = 0; rank < digests.size(); ++rank) {
    if (digests[rank] == right || ++named > kNamedMax) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (named > kNamedMax) text += " and " + std::to_string(named - kNamedMax) + " more";
  return (named == 1 ? "rank " : "ranks ") + text;
}

}  // namespace

Status compare_digests(const std::vector<std::string>& digests) {
  const auto holders = [&](const std::string& digest) {
    return std::ranges::count(digests, digest);
  };
  const auto most = std::ranges::max_element(digests, {}, holders);
  const auto count = static_cast<std::size_t>(most == digests.end() ? 0 : holders(*most));
  if (count == digests.size()) return {};
  const bool is_clear = 2 * count > digests.size();
  return fail(Code::kCorrupt,
              "the ranks no longer hold the same parameters: " +
                  (is_clear ? ranks_that_differ(digests, *most) + " differs from the others"
                            : "no value is that of most ranks") +
                  "; unreliable memory of a machine, or a bug");
}

}  // namespace pawl::parallel
