#include "operator/controller/inbox.h"

#include <utility>

namespace pawl::controller {

void Inbox::wake() {
  has_mail_ = true;
  posted_.notify_one();
}

void Inbox::post(Change change) {
  const std::lock_guard lock(mutex_);
  Change& pending = changes_[std::tuple{change.kind, change.ns, change.name}];
  // A deletion that follows a change which the owner has not seen: the owner may still hold a
  // predecessor with another UID, whose own deletion was replaced here. Whatever it holds is gone.
  const bool is_gone = std::holds_alternative<std::monostate>(change.object);
  if (is_gone && !pending.name.empty()) change.uid.clear();
  pending = std::move(change);
  wake();
}

void Inbox::post_view(Kind kind, const std::string& resource_version) {
  const std::lock_guard lock(mutex_);
  rest_.view[static_cast<std::size_t>(kind)] = resource_version;
  wake();
}

void Inbox::post_synced(Kind kind, const std::string& resource_version) {
  const std::lock_guard lock(mutex_);
  rest_.is_synced[static_cast<std::size_t>(kind)] = true;
  rest_.view[static_cast<std::size_t>(kind)] = resource_version;
  wake();
}

void Inbox::post(Answer answer) {
  const std::lock_guard lock(mutex_);
  rest_.answers.push_back(std::move(answer));
  wake();
}

void Inbox::post_signal(const std::string& node, std::optional<core::NodeSignal> signal) {
  const std::lock_guard lock(mutex_);
  rest_.signals[node] = std::move(signal);
  wake();
}

void Inbox::post_nodes_listed() {
  const std::lock_guard lock(mutex_);
  rest_.are_nodes_listed = true;
  wake();
}

void Inbox::post_host(const std::string& node, std::optional<placement::Host> host) {
  const std::lock_guard lock(mutex_);
  rest_.hosts[node] = std::move(host);
  wake();
}

void Inbox::post_hosts_listed() {
  const std::lock_guard lock(mutex_);
  rest_.are_hosts_listed = true;
  wake();
}

void Inbox::post_booking(const std::string& pod, std::optional<placement::Booking> booking) {
  const std::lock_guard lock(mutex_);
  rest_.bookings[pod] = std::move(booking);
  wake();
}

void Inbox::post_bookings_listed() {
  const std::lock_guard lock(mutex_);
  rest_.are_bookings_listed = true;
  wake();
}

void Inbox::nudge() {
  const std::lock_guard lock(mutex_);
  wake();
}

void Inbox::stop() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  wake();
}

Mail Inbox::take() {
  const std::lock_guard lock(mutex_);
  Mail mail = std::exchange(rest_, Mail{});
  mail.changes.reserve(changes_.size());
  for (auto& [key, change] : changes_) mail.changes.push_back(std::move(change));
  changes_.clear();
  has_mail_ = false;
  return mail;
}

bool Inbox::wait(std::chrono::milliseconds time_max) {
  std::unique_lock lock(mutex_);
  posted_.wait_for(lock, time_max, [this] { return has_mail_ || is_stopped_; });
  return !is_stopped_;
}

void Bulletin::publish(News news) {
  const std::lock_guard lock(mutex_);
  news_ = std::move(news);
}

Bulletin::News Bulletin::read() const {
  const std::lock_guard lock(mutex_);
  return news_;
}

}  // namespace pawl::controller
