// A WatchMachine with everything it did to the store written down as text, one word an operation.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/kube/watch_machine.h"

namespace pawl::kube {

inline InformerOptions pod_options() {
  InformerOptions options;
  options.resource = resources::kPods;
  options.ns = "n";
  options.page_size = 2;
  return options;
}

struct WatchView {
  explicit WatchView(InformerOptions with = pod_options()) : options(std::move(with)) {
    events.on_upsert = [this](const nlohmann::json& object) {
      kind = object.value("apiVersion", "") + "/" + object.value("kind", "");
      note("+", object["metadata"]);
    };
    events.on_delete = [this](const nlohmann::json& object) { note("-", object["metadata"]); };
    events.on_synced = [this](const std::string& version) { did += "synced@" + version + " "; };
    events.on_progress = [this](const std::string& version) { progress = version; };
  }

  void note(const char* what, const nlohmann::json& metadata) {
    did += what + metadata.value("name", "") + ":" + metadata.value("uid", "") + " ";
  }
  // What happened since the last call.
  std::string take() { return std::exchange(did, {}); }

  InformerOptions options;
  InformerEvents events;
  std::string did;
  std::string progress;
  std::string kind;
  WatchMachine machine{options, events};
};

inline nlohmann::json pod(const std::string& name, const std::string& uid,
                          const std::string& version) {
  return {{"metadata",
           {{"namespace", "n"}, {"name", name}, {"uid", uid}, {"resourceVersion", version}}}};
}

inline HttpResponse ok(const nlohmann::json& body) { return {200, body.dump(), {}}; }

inline HttpResponse page(const std::string& version, const std::vector<nlohmann::json>& items,
                         const std::string& more = "") {
  nlohmann::json list = {{"metadata", {{"resourceVersion", version}}}, {"items", items}};
  if (!more.empty()) list["metadata"]["continue"] = more;
  return ok(list);
}

inline HttpResponse status(int code, const std::string& reason) {
  return {code, nlohmann::json{{"code", code}, {"reason", reason}, {"message", reason}}.dump(), {}};
}

inline std::string event(const std::string& type, const nlohmann::json& object) {
  return nlohmann::json{{"type", type}, {"object", object}}.dump() + "\n";
}

inline std::string bookmark(const std::string& version) {
  return event("BOOKMARK", {{"metadata", {{"resourceVersion", version}}}});
}

inline std::string error_event(int code, const std::string& reason) {
  return event("ERROR", {{"code", code}, {"reason", reason}, {"message", "m"}});
}

inline bool has(const WatchStep& step, const std::string& text) {
  return step.request.target.find(text) != std::string::npos;
}

}  // namespace pawl::kube
