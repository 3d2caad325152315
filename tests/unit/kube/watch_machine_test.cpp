#include "common/kube/watch_machine.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/unit/kube/watch_view.h"

using namespace pawl;
using namespace pawl::kube;
using Kind = WatchStep::Kind;
using std::chrono::milliseconds;

namespace {

const Result<HttpResponse> kClean = HttpResponse{200, "", {}};

Result<HttpResponse> lost(const char* why = "lost") { return fail(Code::kUnavailable, why); }

// A view that has listed `items` at `version` and watches.
void sync(WatchView& view, const std::string& version, const std::vector<nlohmann::json>& items) {
  REQUIRE(view.machine.start().kind == Kind::kSend);
  const WatchStep step = view.machine.on_answer(page(version, items));
  REQUIRE(step.kind == Kind::kStream);
  view.take();
}

}  // namespace

TEST_CASE("watch_machine: lists in pages, then watches from the list's version", "[kube]") {
  WatchView view;
  WatchStep step = view.machine.start();
  REQUIRE(step.kind == Kind::kSend);
  CHECK(step.request.target == "/api/v1/namespaces/n/pods?limit=2");
  step = view.machine.on_answer(page("10", {pod("a", "1", "3"), pod("b", "2", "9")}, "next"));
  REQUIRE(step.kind == Kind::kSend);
  CHECK(has(step, "&continue=next"));
  CHECK(view.take().empty());  // while the server makes the next page
  CHECK(view.machine.flush().kind == Kind::kNone);
  CHECK(view.take() == "+a:1 +b:2 ");
  step = view.machine.on_answer(page("10", {pod("c", "3", "4")}));
  REQUIRE(step.kind == Kind::kStream);
  CHECK(has(step, "resourceVersion=10"));
  CHECK(has(step, "allowWatchBookmarks=true"));
  CHECK(step.request.timeout == view.options.silence_max);
  CHECK(view.take() == "+c:3 synced@10 ");
  CHECK(view.kind == "v1/Pod");
}

TEST_CASE("watch_machine: events, in any cut of the bytes", "[kube]") {
  const std::string bytes = event("ADDED", pod("a", "1", "11")) +
                            event("MODIFIED", pod("a", "1", "12")) + bookmark("20") +
                            event("DELETED", pod("a", "1", "21"));
  for (const std::size_t size : {std::size_t{1}, std::size_t{7}, std::size_t{100}, bytes.size()}) {
    CAPTURE(size);
    WatchView view;
    sync(view, "10", {});
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      REQUIRE(view.machine.on_bytes(std::string_view{bytes}.substr(at, size)).kind == Kind::kNone);
    }
    CHECK(view.take() == "+a:1 +a:1 -a:1 ");
    CHECK(view.machine.resource_version() == "21");
    CHECK(view.progress == "21");
  }
}

TEST_CASE("watch_machine: an event may end in a later stream's first bytes only as a new event",
          "[kube]") {
  WatchView view;
  sync(view, "10", {});
  const std::string half = event("ADDED", pod("a", "1", "11"));
  view.machine.on_bytes(half.substr(0, half.size() / 2));
  WatchStep step = view.machine.on_stream_end(lost(), milliseconds{1});
  REQUIRE(step.kind == Kind::kWait);
  step = view.machine.on_wait_over();
  REQUIRE(has(step, "resourceVersion=10"));
  CHECK(view.machine.on_bytes(half).kind == Kind::kNone);
  CHECK(view.take() == "+a:1 ");
}

TEST_CASE("watch_machine: 410 inside a 200 stream lists again and finds what vanished by UID",
          "[kube][B13]") {
  WatchView view;
  sync(view, "10", {pod("a", "1", "3"), pod("b", "2", "4"), pod("c", "3", "5")});
  WatchStep step = view.machine.on_bytes(error_event(410, "Expired"));
  REQUIRE(step.kind == Kind::kWait);
  CHECK(step.why.find("410") != std::string::npos);
  step = view.machine.on_wait_over();
  REQUIRE(step.kind == Kind::kSend);
  // b is gone, c is another object of the same name.
  step = view.machine.on_answer(page("50", {pod("a", "1", "3"), pod("c", "9", "40")}));
  CHECK(view.take() == "+a:1 -c:3 +c:9 -b:2 synced@50 ");
  CHECK(has(step, "resourceVersion=50"));
}

TEST_CASE("watch_machine: 410 as the answer to a watch lists again", "[kube][B13]") {
  WatchView view;
  sync(view, "10", {pod("a", "1", "3")});
  REQUIRE(view.machine.on_stream_end(status(410, "Expired"), milliseconds{1}).kind == Kind::kWait);
  CHECK(view.machine.on_wait_over().kind == Kind::kSend);
}

TEST_CASE("watch_machine: 410 between two pages starts the list from its first page",
          "[kube][B13]") {
  WatchView view;
  view.machine.start();
  view.machine.on_answer(page("10", {pod("a", "1", "3"), pod("b", "2", "4")}, "next"));
  REQUIRE(view.machine.on_answer(status(410, "Expired")).kind == Kind::kWait);
  const WatchStep step = view.machine.on_wait_over();
  CHECK(!has(step, "continue"));
  view.take();
  view.machine.on_answer(page("20", {pod("b", "2", "4")}));
  CHECK(view.take() == "+b:2 -a:1 synced@20 ");
}

TEST_CASE("watch_machine: a lost page is asked for again, not the whole list", "[kube]") {
  WatchView view;
  view.machine.start();
  view.machine.on_answer(page("10", {pod("a", "1", "3")}, "next"));
  CHECK(view.machine.on_answer(lost()).kind == Kind::kWait);
  CHECK(has(view.machine.on_wait_over(), "continue=next"));
  view.machine.on_answer(page("10", {pod("b", "2", "3")}));
  CHECK(view.take() == "+a:1 +b:2 synced@10 ");
}

TEST_CASE("watch_machine: a list from a lagging server is refused before it is taken",
          "[kube][B11]") {
  WatchView view;
  sync(view, "100", {pod("a", "2", "90")});
  view.machine.on_bytes(bookmark("200"));
  view.machine.on_bytes(error_event(410, "Expired"));
  view.machine.on_wait_over();
  const WatchStep step = view.machine.on_answer(page("150", {pod("a", "1", "80")}));
  CHECK(step.kind == Kind::kWait);
  CHECK(step.why.find("older") != std::string::npos);
  CHECK(view.take() == "");
  CHECK(view.machine.resource_version() == "200");
  view.machine.on_wait_over();
  view.machine.on_answer(page("200", {pod("a", "2", "90")}));
  CHECK(view.take() == "+a:2 synced@200 ");
}

TEST_CASE("watch_machine: events from before the view are not taken again", "[kube][B11]") {
  WatchView view;
  sync(view, "100", {pod("a", "1", "90")});
  view.machine.on_bytes(event("DELETED", pod("a", "1", "95")) +
                        event("MODIFIED", pod("a", "1", "99")) + bookmark("50"));
  CHECK(view.take() == "");
  CHECK(view.machine.resource_version() == "100");
}

TEST_CASE("watch_machine: the same name with a new UID is a delete and an add", "[kube][B01]") {
  WatchView view;
  sync(view, "10", {pod("a", "1", "3")});
  view.machine.on_bytes(event("MODIFIED", pod("a", "2", "11")));
  CHECK(view.take() == "-a:1 +a:2 ");
  // The late end of the predecessor does not take the successor out of the view.
  view.machine.on_bytes(event("DELETED", pod("a", "1", "12")));
  view.take();
  view.machine.on_bytes(error_event(410, "Expired"));
  view.machine.on_wait_over();
  view.machine.on_answer(page("20", {}));
  CHECK(view.take() == "-a:2 synced@20 ");
}

TEST_CASE("watch_machine: a frozen stream is reopened from where the view is", "[kube][B12]") {
  WatchView view;
  sync(view, "10", {});
  view.machine.on_bytes(event("ADDED", pod("a", "1", "11")) + bookmark("30"));
  WatchStep step = view.machine.on_stream_end(lost("silent for 90000 ms"), milliseconds{95'000});
  REQUIRE(step.kind == Kind::kWait);
  CHECK(step.delay == view.options.backoff_first);
  step = view.machine.on_wait_over();
  REQUIRE(step.kind == Kind::kStream);
  CHECK(has(step, "resourceVersion=30"));
}

TEST_CASE("watch_machine: a clean end after something was seen reconnects at once", "[kube]") {
  WatchView view;
  sync(view, "10", {});
  view.machine.on_bytes(bookmark("11"));
  const WatchStep step = view.machine.on_stream_end(kClean, milliseconds{10});
  REQUIRE(step.kind == Kind::kStream);
  CHECK(has(step, "resourceVersion=11"));
  CHECK(view.machine.on_stream_end(kClean, WatchMachine::kLongLife).kind == Kind::kStream);
  // A stream that ends at once with nothing must not become a hot loop.
  CHECK(view.machine.on_stream_end(kClean, milliseconds{1}).kind == Kind::kWait);
}

TEST_CASE("watch_machine: back-off doubles up to its bound and starts anew after an event",
          "[kube]") {
  WatchView view;
  sync(view, "10", {});
  std::vector<int> delays;
  for (int i = 0; i < 9; ++i) {
    delays.push_back(
        static_cast<int>(view.machine.on_stream_end(lost(), milliseconds{0}).delay.count()));
    view.machine.on_wait_over();
  }
  CHECK(delays == std::vector<int>{200, 400, 800, 1600, 3200, 6400, 12800, 15000, 15000});
  view.machine.on_bytes(bookmark("11"));
  CHECK(view.machine.on_stream_end(lost(), milliseconds{0}).delay == milliseconds{200});
}

TEST_CASE("watch_machine: a server that asks for patience gets it", "[kube]") {
  WatchView view;
  sync(view, "10", {});
  const HttpResponse throttled{429, "{}", std::chrono::seconds{7}};
  CHECK(view.machine.on_stream_end(throttled, milliseconds{1}).delay == milliseconds{7'000});
  CHECK(has(view.machine.on_wait_over(), "resourceVersion=10"));
}

TEST_CASE("watch_machine: refused or unknown kinds are listed again later", "[kube]") {
  for (const int code : {403, 404, 400}) {
    CAPTURE(code);
    WatchView view;
    sync(view, "10", {});
    CHECK(view.machine.on_stream_end(status(code, "x"), milliseconds{1}).kind == Kind::kWait);
    CHECK(view.machine.on_wait_over().kind == Kind::kSend);
    CHECK(view.machine.on_answer(status(code, "x")).kind == Kind::kWait);
    CHECK(view.machine.on_wait_over().kind == Kind::kSend);
    CHECK(view.take() == "");
  }
}

TEST_CASE("watch_machine: of a kind that may be absent there is nothing, until there is",
          "[kube]") {
  InformerOptions options = pod_options();
  options.may_be_absent = true;
  WatchView view(options);
  view.machine.start();
  CHECK(view.machine.on_answer(status(404, "NotFound")).kind == Kind::kWait);
  CHECK(view.take() == "synced@ ");
  view.machine.on_wait_over();
  view.machine.on_answer(page("10", {pod("a", "1", "7")}));
  CHECK(view.take() == "+a:1 synced@10 ");
  view.machine.on_stream_end(status(404, "NotFound"), milliseconds{1});
  view.machine.on_wait_over();
  view.machine.on_answer(status(404, "NotFound"));  // a server that has just begun
  CHECK(view.take() == "");
}

TEST_CASE("watch_machine: while authentication is out the view stays where it is", "[kube]") {
  WatchView view;
  sync(view, "10", {});
  CHECK(view.machine.on_stream_end(status(401, "x"), milliseconds{1}).kind == Kind::kWait);
  CHECK(has(view.machine.on_wait_over(), "resourceVersion=10"));
  CHECK(view.take() == "");
}

TEST_CASE("watch_machine: lines that are no events end the stream, not the process",
          "[kube][B10]") {
  for (const char* line :
       {"{", "[]", "3", "null", "\"x\"", "{\"type\":\"ADDED\"}", "{\"type\":5,\"object\":{}}",
        "{\"type\":\"ADDED\",\"object\":{}}", "{\"type\":\"ADDED\",\"object\":[]}",
        "{\"type\":\"ERROR\",\"object\":5}", "{\"type\":\"ADDED\",\"object\":{\"metadata\":7}}"}) {
    CAPTURE(line);
    WatchView view;
    sync(view, "10", {});
    const WatchStep step = view.machine.on_bytes(std::string{line} + "\n");
    CHECK(step.kind == Kind::kWait);
    CHECK(!step.why.empty());
    CHECK(has(view.machine.on_wait_over(), "resourceVersion=10"));
    CHECK(view.take() == "");
  }
}

TEST_CASE("watch_machine: an object without name or UID is passed over, its version counts",
          "[kube][B25]") {
  WatchView view;
  sync(view, "10", {});
  view.machine.on_bytes(event("ADDED", {{"metadata", {{"resourceVersion", "12"}}}}));
  CHECK(view.take() == "");
  CHECK(view.machine.resource_version() == "12");
}

TEST_CASE("watch_machine: a line longer than any object ends the stream", "[kube]") {
  WatchView view;
  sync(view, "10", {});
  const std::string piece(1024 * 1024, 'x');
  WatchStep step;
  int pieces = 0;
  while (step.kind == Kind::kNone && pieces < 100) {
    step = view.machine.on_bytes(piece);
    ++pieces;
  }
  CHECK(step.kind == Kind::kWait);
  CHECK(pieces == 9);
  WatchView other;
  sync(other, "10", {});
  CHECK(other.machine.on_bytes(std::string(9 * 1024 * 1024, 'x') + "\n").kind == Kind::kWait);
}

TEST_CASE("watch_machine: odd lists are survived", "[kube][B10]") {
  WatchView view;
  view.machine.start();
  CHECK(view.machine.on_answer(ok({{"items", nlohmann::json::array()}})).kind == Kind::kWait);
  CHECK(view.machine.on_answer(ok(nlohmann::json::array())).kind == Kind::kWait);
  CHECK(view.machine.on_answer(HttpResponse{200, "{", {}}).kind == Kind::kWait);
  const WatchStep step =
      view.machine.on_answer(ok({{"metadata", {{"resourceVersion", "5"}}}, {"items", nullptr}}));
  CHECK(step.kind == Kind::kStream);
  CHECK(view.take() == "synced@5 ");
}

namespace {

InformerOptions single() {
  InformerOptions options = pod_options();
  options.can_list = false;
  options.field_selector = "metadata.name=a";
  return options;
}

}  // namespace

TEST_CASE("watch_machine: without list it gets the object, then watches it by name", "[kube]") {
  WatchView view(single());
  WatchStep step = view.machine.start();
  CHECK(step.request.target == "/api/v1/namespaces/n/pods/a");
  step = view.machine.on_answer(ok(pod("a", "1", "7")));
  REQUIRE(step.kind == Kind::kStream);
  CHECK(has(step, "resourceVersion=7&fieldSelector=metadata.name%3Da"));
  CHECK(view.take() == "+a:1 synced@7 ");
  view.machine.on_bytes(event("MODIFIED", pod("a", "1", "9")));
  CHECK(view.take() == "+a:1 ");
}

TEST_CASE("watch_machine: a single object that is gone is reported once, then looked for",
          "[kube]") {
  WatchView view(single());
  view.machine.start();
  view.machine.on_answer(ok(pod("a", "1", "7")));
  view.machine.on_stream_end(status(403, "x"), milliseconds{1});
  view.machine.on_wait_over();
  view.take();
  CHECK(view.machine.on_answer(status(404, "NotFound")).kind == Kind::kWait);
  CHECK(view.take() == "-a:1 synced@7 ");
  CHECK(view.machine.on_wait_over().kind == Kind::kSend);
  view.machine.on_answer(ok(pod("a", "2", "20")));
  CHECK(view.take() == "+a:2 synced@20 ");
}

TEST_CASE("watch_machine: a single object too old to watch from is watched from now",
          "[kube][B13]") {
  WatchView view(single());
  view.machine.start();
  view.machine.on_answer(ok(pod("a", "1", "7")));
  view.machine.on_bytes(error_event(410, "Expired"));
  view.machine.on_wait_over();
  WatchStep step = view.machine.on_answer(ok(pod("a", "1", "7")));
  REQUIRE(step.kind == Kind::kStream);
  CHECK(!has(step, "resourceVersion"));
  view.take();
  // It begins with the object itself; afterwards bookmarks are just bookmarks.
  CHECK(view.machine.on_bytes(event("ADDED", pod("a", "1", "7")) + bookmark("500")).kind ==
        Kind::kNone);
  step = view.machine.on_stream_end(kClean, milliseconds{1});
  CHECK(has(step, "resourceVersion=500"));
}

TEST_CASE("watch_machine: an object deleted before the watch from now is missed by no one",
          "[kube][B07]") {
  for (const bool has_bookmark : {true, false}) {
    CAPTURE(has_bookmark);
    WatchView view(single());
    view.machine.start();
    view.machine.on_answer(ok(pod("a", "1", "7")));
    view.machine.on_stream_end(status(410, "Expired"), milliseconds{1});
    view.machine.on_wait_over();
    view.machine.on_answer(ok(pod("a", "1", "7")));
    view.take();
    const WatchStep step = has_bookmark ? view.machine.on_bytes(bookmark("500"))
                                        : view.machine.on_stream_end(lost(), milliseconds{90'000});
    CHECK(step.kind == Kind::kWait);
    CHECK(view.machine.on_wait_over().kind == Kind::kSend);
    view.machine.on_answer(status(404, "NotFound"));
    CHECK(view.take().starts_with("-a:1 "));
  }
}

TEST_CASE("watch_machine: an older state of a known object is not taken", "[kube][B11]") {
  WatchView view(single());
  view.machine.start();
  view.machine.on_answer(ok(pod("a", "1", "7")));
  view.machine.on_bytes(event("MODIFIED", pod("a", "1", "9")));
  view.machine.on_stream_end(status(403, "x"), milliseconds{1});
  view.machine.on_wait_over();
  view.take();
  view.machine.on_answer(ok(pod("a", "1", "8")));
  CHECK(view.take() == "synced@9 ");
}
