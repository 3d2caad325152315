#include "tests/sim/reflector.h"

#include <utility>

namespace pawl::sim {

using kube::WatchStep;

Reflector::Reflector(Engine& engine, kube::Transport& transport, kube::InformerOptions options,
                     kube::InformerEvents events)
    : engine_(engine),
      transport_(transport),
      options_(std::move(options)),
      events_(std::move(events)),
      machine_(options_, events_) {}

void Reflector::perform(WatchStep step) {
  const std::uint64_t number = ++number_;
  const auto alive = is_alive_;
  switch (step.kind) {
    case WatchStep::Kind::kNone:
      return;
    case WatchStep::Kind::kWait:
      engine_.after(step.delay, [this, alive, number] {
        if (*alive) feed(number, [this] { return machine_.on_wait_over(); });
      });
      return;
    case WatchStep::Kind::kSend:
      handle_ = transport_.send(std::move(step.request),
                                [this, alive, number](Result<kube::HttpResponse> answer) {
                                  if (*alive)
                                    feed(number, [&] { return machine_.on_answer(answer); });
                                });
      return;
    case WatchStep::Kind::kStream:
      break;
  }
  const milliseconds begin = engine_.elapsed();
  handle_ = transport_.stream(
      std::move(step.request),
      [this, alive, number](std::string_view bytes) {
        if (*alive) feed(number, [&] { return machine_.on_bytes(bytes); });
      },
      [this, alive, number, begin](Result<kube::HttpResponse> end) {
        if (!*alive) return;
        feed(number, [&] { return machine_.on_stream_end(end, engine_.elapsed() - begin); });
      });
}

}  // namespace pawl::sim
