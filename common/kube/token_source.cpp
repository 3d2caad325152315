#include "common/kube/token_source.h"

#include <fstream>
#include <iterator>

namespace pawl::kube {
namespace {

constexpr std::chrono::seconds kTokenAgeMax{10};

std::string read_token(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

}  // namespace

TokenSource::TokenSource(const ClusterConfig& config, const Clock& clock)
    : clock_(clock), token_(config.token), file_(config.token_file) {}

std::string TokenSource::authorization() {
  const SteadyPoint now = clock_.steady_now();
  const bool is_due = !read_at_ || now - *read_at_ >= kTokenAgeMax;
  if (!file_.empty() && is_due) {
    std::string fresh = read_token(file_);
    if (!fresh.empty()) token_ = std::move(fresh);
    read_at_ = now;
  }
  return token_.empty() ? "" : "Bearer " + token_;
}

}  // namespace pawl::kube
