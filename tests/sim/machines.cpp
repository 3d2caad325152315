// Machines that are bought, and go for good.
#include "tests/sim/nodes.h"

namespace pawl::sim {

void Nodes::add_machine(const std::string& name, bool is_spot) {
  add_node(is_spot);
  Node& node = *nodes_.back();
  node.name = name;
  node.is_bought = true;
  schedule_soon(milliseconds{10});
}

void Nodes::interrupt(const std::string& name, milliseconds notice) {
  Node* node = find_node(name);
  if (node == nullptr || !is_reachable(*node) || node->is_announced) return;
  place_.api.count_fault("spot interruption");
  if (notice.count() == 0) return lose(*node);
  announce(*node, notice, Told::kBoth);
}

void Nodes::give_back(const std::string& name) {
  Node* node = find_node(name);
  if (node == nullptr) return;
  node->is_alive = node->is_ready = false;
  node->is_gone = true;
}

}  // namespace pawl::sim
