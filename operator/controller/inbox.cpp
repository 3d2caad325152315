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

template <typename Note>
void Inbox::note(Note&& write) {
  const std::lock_guard lock(mutex_);
  write(rest_);
  wake();
}

void Inbox::post_view(Kind kind, const std::string& resource_version) {
  note([&](Mail& mail) { mail.view[static_cast<std::size_t>(kind)] = resource_version; });
}

void Inbox::post_synced(Kind kind, const std::string& resource_version) {
  note([&](Mail& mail) {
    mail.is_synced[static_cast<std::size_t>(kind)] = true;
    mail.view[static_cast<std::size_t>(kind)] = resource_version;
  });
}

void Inbox::post(Answer answer) {
  note([&](Mail& mail) { mail.answers.push_back(std::move(answer)); });
}

void Inbox::post_signal(const std::string& node, std::optional<core::NodeSignal> signal) {
  note([&](Mail& mail) { mail.signals[node] = std::move(signal); });
}

void Inbox::post_nodes_listed() {
  note([](Mail& mail) { mail.are_nodes_listed = true; });
}

void Inbox::post_host(const std::string& node, std::optional<placement::Host> host) {
  note([&](Mail& mail) { mail.hosts[node] = std::move(host); });
}

void Inbox::post_hosts_listed() {
  note([](Mail& mail) { mail.are_hosts_listed = true; });
}

void Inbox::post_booking(const std::string& pod, std::optional<placement::Booking> booking) {
  note([&](Mail& mail) { mail.bookings[pod] = std::move(booking); });
}

void Inbox::post_bookings_listed() {
  note([](Mail& mail) { mail.are_bookings_listed = true; });
}

void Inbox::post_class(const std::string& name, std::optional<PriorityClass> priority) {
  note([&](Mail& mail) { mail.classes[name] = priority; });
}

void Inbox::post_classes_listed() {
  note([](Mail& mail) { mail.are_classes_listed = true; });
}

void Inbox::post_queue(const std::string& name, std::optional<api::TrainingQueue> queue) {
  note([&](Mail& mail) { mail.queues[name] = std::move(queue); });
}

void Inbox::post_queues_listed() {
  note([](Mail& mail) { mail.are_queues_listed = true; });
}

void Inbox::post_queue_answer(const std::string& name, Result<std::string> result) {
  note([&](Mail& mail) { mail.queue_answers.insert_or_assign(name, std::move(result)); });
}

void Inbox::post_served(const std::string& plural, Result<bool> is_served) {
  note([&](Mail& mail) { mail.served.insert_or_assign(plural, std::move(is_served)); });
}

void Inbox::post_node_request(const std::string& id, std::optional<SeenRequest> request) {
  note([&](Mail& mail) { mail.node_requests[id] = std::move(request); });
}

void Inbox::post_node_requests_listed() {
  note([](Mail& mail) { mail.are_node_requests_listed = true; });
}

void Inbox::nudge() {
  note([](const Mail&) {});
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
