// Pages of a list that are looked at while the next one is on its way.
#include <catch2/catch_test_macros.hpp>

#include "tests/unit/kube/watch_view.h"

using namespace pawl;
using namespace pawl::kube;
using Kind = WatchStep::Kind;

TEST_CASE("watch_pages: a page that was not looked at when the next one comes is taken before it",
          "[kube]") {
  WatchView view;
  view.machine.start();
  view.machine.on_answer(page("10", {pod("a", "1", "3")}, "next"));
  CHECK(view.machine.on_answer(page("10", {pod("b", "2", "3")})).kind == Kind::kStream);
  CHECK(view.take() == "+a:1 +b:2 synced@10 ");
  CHECK(view.machine.flush().kind == Kind::kNone);
  CHECK(view.take().empty());
}

TEST_CASE("watch_pages: a page with an item that is no JSON is listed again", "[kube]") {
  const HttpResponse broken{
      200, R"({"metadata":{"resourceVersion":"10","continue":"next"},"items":[{"a":}]})", {}};
  WatchView flushed;
  flushed.machine.start();
  CHECK(flushed.machine.on_answer(broken).kind == Kind::kSend);
  CHECK(flushed.machine.flush().kind == Kind::kWait);
  CHECK(!has(flushed.machine.on_wait_over(), "continue"));
  WatchView late;
  late.machine.start();
  late.machine.on_answer(broken);
  CHECK(late.machine.on_answer(page("10", {pod("b", "2", "3")})).kind == Kind::kWait);
  CHECK(late.take().empty());
}
