// Decides how one kind of object is kept in view: bytes, answers and time-outs in, store operations
// (through InformerEvents) and the next thing to do out. Pure; one thread at a time; the Informer
// drives it. It asks for one thing at a time: a request, a stream or a wait.
//
//   list in pages → watch from the list's resourceVersion ─┬─ ended or lost → watch from where we
//   are
//        ↑ 410, or the server does not know us any more ───┘
//
// What it promises: the view's resourceVersion never goes back (an older list or event is not
// taken); an object that vanished between two lists is deleted by the UID it had; a name with a new
// UID is a delete and an add.
//
// Without the right to list (one object by name): GET, then watch from its resourceVersion. When
// that is too old to watch from, GET and watch from now; the watch then begins with the object, and
// if it does not, GET again.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

#include "common/kube/informer.h"

namespace pawl::kube {

struct ListText;

struct WatchStep {
  enum class Kind { kNone, kSend, kStream, kWait };
  Kind kind = Kind::kNone;
  HttpRequest request{};               // kSend, kStream
  std::chrono::milliseconds delay{0};  // kWait
  std::string why{};                   // what went wrong, for the log; empty in the normal course
};

class WatchMachine {
 public:
  // A line of a watch is one object: etcd takes 1.5 MiB.
  static constexpr std::size_t kLineBytesMax = 8 * 1024 * 1024;
  // A stream that lived this long was no failure, whatever ended it.
  static constexpr std::chrono::seconds kLongLife{10};

  WatchMachine(const InformerOptions& options, const InformerEvents& events);

  WatchStep start() { return ask(); }
  // A page that is not the last asks for the next one before its items are looked at: flush() does
  // that, while the server works, or the next answer.
  WatchStep on_answer(Result<HttpResponse> answer);
  WatchStep flush();
  // A step other than kNone means that this stream is over: cancel it and take no more of it.
  WatchStep on_bytes(std::string_view bytes);
  WatchStep on_stream_end(const Result<HttpResponse>& end, std::chrono::milliseconds lived);
  WatchStep on_wait_over() { return is_listing_ ? ask() : watch(); }

  const std::string& resource_version() const { return resource_version_; }

 private:
  using Key = std::pair<std::string, std::string>;  // namespace, name
  struct Known {
    std::string uid;
    std::string version;
  };

  WatchStep ask();
  WatchStep watch();
  WatchStep wait(std::string why, const std::optional<std::chrono::milliseconds>& at_least = {});
  WatchStep list_again(std::string why);
  WatchStep gone(std::string why);
  WatchStep list_failed(const Error& error);
  WatchStep take_page(std::string text, ListText& page);
  WatchStep take_single(nlohmann::json& object);
  WatchStep finish_list();
  WatchStep on_line(std::string_view line);
  WatchStep on_error_event(const nlohmann::json& status);
  void progress(const std::string& resource_version);
  void upsert(nlohmann::json& object);
  void remove(const nlohmann::json& object);
  void report_vanished(const Key& key, const std::string& uid) const;
  std::string single_name() const;

  const InformerOptions& options_;
  const InformerEvents& events_;
  HttpRequest asked_;
  std::chrono::milliseconds backoff_;
  std::string resource_version_;  // how far the view has come
  std::map<Key, Known> known_;    // the view
  bool is_listing_ = true;
  std::string list_version_;  // of the list in progress
  std::string continue_token_;
  std::string page_;        // of the list in progress
  std::string_view items_;  // those of page_ that have not been looked at
  std::set<Key> listed_;
  std::string line_;            // the beginning of a line that has not ended yet
  bool is_productive_ = false;  // this stream has brought something
  bool is_too_old_ = false;     // the single object's version is too old to watch from
  bool awaits_object_ = false;  // this stream began from now and has not shown the object yet
};

}  // namespace pawl::kube
