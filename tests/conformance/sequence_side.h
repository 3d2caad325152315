// Whoever answers the steps of a sequence in one namespace: the ApiStore or a real API server. A
// side fills in what a step names in braces from what it has answered before.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "sequence_steps.h"

namespace pawl::conformance {

struct Reply {
  int status = 0;
  nlohmann::json body;
};

struct Event {
  std::string plural, type;
  nlohmann::json object;
  bool is_bookkeeping = false;  // nothing but managedFields changed
};

// A watch over what has happened already.
struct Replay {
  std::string plural, selector;  // "labelSelector=k"
  std::size_t from = 0;          // after this many events of the kind
};

class Side {
 public:
  explicit Side(std::string ns) : ns_(std::move(ns)) {}
  virtual ~Side() = default;
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  Reply call(const Step& step);
  // Everything that the watches of the namespace have shown, in the order of revisions.
  virtual std::vector<Event> events() = 0;
  // The watch from there to the end of the sequence (its closing object).
  std::vector<Event> replay(const Replay& replay);

 protected:
  virtual Reply perform(const kube::HttpRequest& request) = 0;
  virtual std::vector<Event> watch(const std::string& plural, const std::string& target) = 0;
  const std::string& ns() const { return ns_; }

 private:
  std::string resolve(const std::string& text);
  std::string value_of(const std::string& word, const std::string& argument);
  void remember(const Step& step, const Reply& reply);

  std::string ns_;
  std::map<std::string, std::string> uids_, first_versions_;   // by "pods/a"
  std::map<std::string, std::string> tokens_, list_versions_;  // by "pods"
};

// "pods" and "a" of a step's target.
std::string plural_of(const std::string& target);
std::string name_of(const std::string& target);
std::uint64_t revision_of(const nlohmann::json& object);

}  // namespace pawl::conformance
