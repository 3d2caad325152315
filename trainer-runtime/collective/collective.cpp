#include "trainer-runtime/collective/collective.h"

#include <array>

namespace pawl::collective {
namespace {

class Self final : public Collective {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  Ticket start_all_reduce(std::span<float>, int) override { return {}; }
  Ticket start_all_reduce(std::span<std::int64_t>, int) override { return {}; }
  Ticket start_reduce_scatter(std::span<float>, int) override { return {}; }
  Ticket start_reduce_scatter(std::span<std::int64_t>, int) override { return {}; }
  Ticket start_all_gather(std::span<float>, int) override { return {}; }
  Ticket start_all_gather(std::span<std::byte>, int) override { return {}; }
  Status wait(Ticket) override { return {}; }
  Status all_reduce(std::span<double>) override { return {}; }
  Status broadcast(std::span<std::byte>, int) override { return {}; }
  void abort(const std::string&) override {}
};

}  // namespace

Status Collective::barrier() {
  std::array<double, 1> nothing{};
  return all_reduce(nothing);
}

Result<std::vector<std::string>> Collective::all_gather(const std::string& text) {
  std::vector<double> sizes(static_cast<std::size_t>(world_size()));
  sizes[static_cast<std::size_t>(rank())] = static_cast<double>(text.size());
  PAWL_TRY_VOID(all_reduce(sizes));
  std::vector<std::string> texts;
  for (int root = 0; root < world_size(); ++root) {
    std::string one(static_cast<std::size_t>(sizes[static_cast<std::size_t>(root)]), '\0');
    if (root == rank()) one = text;
    PAWL_TRY_VOID(broadcast(std::as_writable_bytes(std::span(one)), root));
    texts.push_back(std::move(one));
  }
  return texts;
}

std::unique_ptr<Collective> make_self() { return std::make_unique<Self>(); }

}  // namespace pawl::collective
