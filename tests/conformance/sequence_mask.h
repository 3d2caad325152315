// Brings answers and events of two API servers to a form in which equal means alike. What is
// masked, and why:
//   - uid, and uids within sentences: named after the object and which life of that name it is;
//   - resourceVersion of an object: which version of that object it is, because other writers use
//     the real server's counter too; of a list: how many changes of the namespace it has seen, and
//     nothing where the client leaves it to the server (0, NotOlderThan);
//   - times: that they are there, because clocks differ;
//   - names that were generated: their prefix, because they are random;
//   - continue tokens: that they are there, because they are opaque;
//   - managedFields, and the versions of an object that differ in nothing else: ApiStore keeps
//     none, and nothing of ours reads them;
//   - of Kubernetes' own kinds: null, {} , [] and "", which Go types write and ApiStore does not,
//   and
//     the defaults that kDefaults in sequence_mask.cpp lists, which nothing of ours reads;
//   - sentences about syntax and schemas (400, 415, 422): the words are Go's; the fields and
//     reasons they name are compared instead (sequence_run.cpp has one exception).
#pragma once

#include <map>
#include <set>
#include <string>

#include "sequence_side.h"

namespace pawl::conformance {

class Mask {
 public:
  // All that a side's watches have shown, in the order of revisions.
  explicit Mask(const std::vector<Event>& events);

  nlohmann::json reply(const Step& step, const Reply& reply) const;
  nlohmann::json event(const Event& event) const;
  // The events by object, in order: between objects the collector's order is free.
  std::map<std::string, nlohmann::json> by_object(const std::vector<Event>& events) const;

 private:
  nlohmann::json object(const std::string& plural, nlohmann::json object) const;
  nlohmann::json status(const Step& step, const Reply& reply) const;
  std::string life_of(const std::string& uid) const;
  std::string version_of(const std::string& revision) const;
  std::string rank_of(const std::string& revision) const;
  std::string sentence(std::string text) const;

  std::map<std::string, std::string> lives_;       // by uid
  std::map<std::uint64_t, std::string> versions_;  // by revision
  std::set<std::uint64_t> bookkeeping_;            // revisions that are no versions of their own
  std::map<std::string, std::string> generated_;   // name → prefix
};

}  // namespace pawl::conformance
