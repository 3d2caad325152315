// What the API server does to an object of ours before it checks it: unknown fields go, defaults
// come.
#include "common/api/schema.h"

namespace pawl::api {

using nlohmann::json;

const Schema& Schema::of_training_job() {
  static const Schema schema("TrainingJob");
  return schema;
}

const Schema& Schema::of_worker_group() {
  static const Schema schema("WorkerGroup");
  return schema;
}

const Schema& Schema::of_training_queue() {
  static const Schema schema("TrainingQueue");
  return schema;
}

void Schema::prune(json& object) const {
  prune_value(table_.at(kind_), object, true);
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return;
  for (auto field = metadata->begin(); field != metadata->end();) {
    field = is_metadata_field(field.key()) ? std::next(field) : metadata->erase(field);
  }
}

void Schema::prune_value(const json& reference, json& value, bool is_root) const {
  const json& node = resolve(reference);
  if (value.is_array()) {
    const auto items = node.find("items");
    if (items == node.end()) return;
    for (json& item : value) prune_value(*items, item, false);
  }
  if (!value.is_object()) return;
  const auto others = node.find("additionalProperties");
  const auto properties = node.find("properties");
  const bool keeps_unknown = node.value("x-kubernetes-preserve-unknown-fields", false);
  for (auto field = value.begin(); field != value.end();) {
    const json* child = nullptr;
    if (others != node.end()) {
      child = &*others;
    } else if (properties != node.end()) {
      const auto found = properties->find(field.key());
      if (found != properties->end()) child = &*found;
    }
    if (child == nullptr && !keeps_unknown) {
      field = value.erase(field);
      continue;
    }
    const bool is_metadata = is_root && field.key() == "metadata";
    if (child != nullptr && !is_metadata) prune_value(*child, *field, false);
    ++field;
  }
}

void Schema::fill_in(json& object) const { fill_in_value(table_.at(kind_), object, true); }

void Schema::fill_in_value(const json& reference, json& value, bool is_root) const {
  const json& node = resolve(reference);
  if (value.is_array()) {
    const auto items = node.find("items");
    if (items == node.end()) return;
    for (json& item : value) fill_in_value(*items, item, false);
  }
  if (!value.is_object()) return;
  if (const auto others = node.find("additionalProperties"); others != node.end()) {
    const bool is_nullable = resolve(*others).value("nullable", false);
    for (auto field = value.begin(); field != value.end();) {
      if (field->is_null() && !is_nullable) {
        field = value.erase(field);
        continue;
      }
      fill_in_value(*others, *field, false);
      ++field;
    }
  }
  const auto properties = node.find("properties");
  if (properties == node.end()) return;
  for (const auto& [name, child_reference] : properties->items()) {
    if (is_root && name == "metadata") continue;
    const json& child = resolve(child_reference);
    const auto fallback = child.find("default");
    auto field = value.find(name);
    if (field != value.end() && field->is_null() && !child.value("nullable", false)) {
      value.erase(field);
      field = value.end();
    }
    if (field == value.end()) {
      if (fallback == child.end()) continue;
      field = value.emplace(name, *fallback).first;
    }
    fill_in_value(child, *field, false);
  }
}

}  // namespace pawl::api
