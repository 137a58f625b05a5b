// File: testing/ledger/tcp_fault_proxy.h
//
// Stands between a client and a server, such as a feeder and the data socket of a node, both on
// loopback, and breaks connections: cut, held up, or dead without a word, after so many bytes.
//
// Defines: TcpFault, TcpFaultProxy.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto proxy, TcpFaultProxy::Start(node_port, [](bool reply) {
//     return TcpFault{.kind = TcpFault::Kind::kCut, .after_bytes = 1000};
//   }));
//   // The feeder is told tcp://127.0.0.1:<proxy->port()>.
//
// It knows nothing of ZeroMQ, with one exception: where a text
// `"endpoint":"tcp://127.0.0.1:<port>"` passes from the feeder to the node, as it does in OPEN, the
// port becomes that of a listener of the proxy, so that the node's replies come through here too.
// Such texts must be PLAIN and the ports of equal length, which those of Linux are unless
// ip_local_port_range says otherwise.

#ifndef TESTING_LEDGER_TCP_FAULT_PROXY_H_
#define TESTING_LEDGER_TCP_FAULT_PROXY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"

namespace millrace {

// What becomes of one connection once `after_bytes` have passed, both directions counted.
struct TcpFault {
  enum class Kind {
    kNone,
    kCut,    // both ends see a reset; nothing beyond after_bytes has passed
    kStall,  // stays open, and nothing passes any more
    kDelay,  // nothing passes for `delay`, then everything
  };
  Kind kind = Kind::kNone;
  int64_t after_bytes = 0;
  absl::Duration delay;
};

// Thread safety: thread-safe. Threads: "tcp-proxy". Blocking: the destructor joins it.
class TcpFaultProxy {
 public:
  // Called once for each connection, in their order, by the proxy's thread; `reply`: from the node
  // to the feeder.
  using Plan = std::function<TcpFault(bool reply)>;

  // Returns the system's error.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TcpFaultProxy>> Start(int target_port,
                                                                            Plan plan);
  // Ends every connection.
  ~TcpFaultProxy();
  TcpFaultProxy(const TcpFaultProxy&) = delete;
  TcpFaultProxy& operator=(const TcpFaultProxy&) = delete;

  [[nodiscard]] int port() const { return port_; }
  // Cuts every connection that is open. Returns before it has happened.
  void CutAll() { cut_all_ = true; }
  // Lets nothing pass on the connections that are open, for so long. Returns before that begins.
  void HoldAll(absl::Duration duration) { hold_all_ns_ = absl::ToInt64Nanoseconds(duration); }
  // Since the start: connections that were cut, stalled or delayed.
  [[nodiscard]] int faults() const { return faults_; }
  [[nodiscard]] int connections() const { return connections_; }

 private:
  struct Listener {
    UniqueFd fd;
    int target_port = 0;
    bool reply = false;
  };
  // Bytes on their way in one direction.
  struct Flow {
    std::string pending;
    bool ended = false;   // the source has closed
    bool closed = false;  // and the other end was told
  };
  struct Connection {
    UniqueFd client;
    UniqueFd server;
    Flow up;    // client to server
    Flow down;  // server to client
    bool reply = false;
    TcpFault fault;
    bool stalled = false;
    int64_t passed = 0;
    absl::Duration resume = -absl::InfiniteDuration();  // steady
    absl::Time held_since = absl::InfiniteFuture();     // bytes wait for the rest of an endpoint
  };

  TcpFaultProxy(Listener listener, int port, UniqueFd stop, Plan plan);
  void Run();
  void Accept(const Listener& listener);
  // False once the connection is over.
  bool Serve(Connection* connection, short client_events, short server_events);
  bool Read(int fd, Flow* flow);
  bool Pass(Connection* connection, Flow* flow, int to);
  // How many bytes of `connection`'s upward flow may pass, after endpoints in it were replaced.
  size_t RewriteEndpoints(Connection* connection);
  std::optional<int> ReplyPort(int target_port);
  static void Reset(Connection* connection);

  const int port_;
  const UniqueFd stop_;  // an eventfd
  const Plan plan_;
  std::atomic<int> faults_{0};
  std::atomic<int> connections_{0};
  std::atomic<bool> cut_all_{false};
  std::atomic<int64_t> hold_all_ns_{0};
  // The thread's.
  std::list<Listener> listeners_;
  std::map<int, int> reply_ports_;  // by the feeder's port
  std::list<Connection> open_;
  Thread thread_;
};

}  // namespace millrace

#endif  // TESTING_LEDGER_TCP_FAULT_PROXY_H_
