// File: core/agent/modes/adoption_seat.h
//
// Whose an agent that listens is: the decisions of ListenMode about the drivers that call it. No
// threads, sockets or processes, which are its owner's.
//
//   free --Hold--> held --StartAgent--> running --the agent's end--> free
//
// Defines: AdoptionSeat.

#ifndef CORE_AGENT_MODES_ADOPTION_SEAT_H_
#define CORE_AGENT_MODES_ADOPTION_SEAT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/agent/modes/adopt_stream.h"
#include "core/agent/modes/listen_metrics.h"
#include "core/base/clock.h"
#include "core/proto/adopt.pb.h"

namespace millrace {

// One driver's slot at a time has the seat, by the number of its adoption:
//   - The same adoption over another stream takes the place of the first one: a driver that comes
//     back, or its successor.
//   - A later adoption of the slot ends the agent of the one before, and follows it.
//   - So does one of another slot of its cluster whose driver has left that agent, which has no
//     stream, and says so.
//   - An earlier one, one that is over, and a driver that was succeeded, are refused; so is another
//     cluster, as long as the seat is taken.
// An agent that runs outlives its stream; a mere hold does not.
//
// Ownership: shares the streams that hold it. Thread safety: not thread-safe. Blocking: never.
class AdoptionSeat {
 public:
  // What it asks for. None of these calls the seat, but by AgentEnded() once they have returned.
  class Owner {
   public:
    virtual ~Owner() = default;
    // Returns the agent's pid; its end is told by AgentEnded().
    virtual absl::StatusOr<int64_t> StartAgent(const v1::Hold& hold,
                                               const v1::StartAgent& start) = 0;
    virtual void RedirectAgent(const v1::Redirect& redirect) = 0;
    // `now`: kill it.
    virtual void EndAgent(bool now) = 0;
    // kHeld: an adoption begins.
    virtual void SetUse(SlotUse use) = 0;
    // Somebody, `who`, did not get the seat.
    virtual void Refused(const std::string& who, Refusal refusal, const absl::Status& why) = 0;
    // Leave() was called, and nobody has the seat any more.
    virtual void Left() = 0;
  };

  // `host`: this one's name. `owner` and `clock` are not owned, and outlive the seat.
  AdoptionSeat(std::string host, std::string version, Owner* owner, Clock* clock = RealClock());
  AdoptionSeat(const AdoptionSeat&) = delete;
  AdoptionSeat& operator=(const AdoptionSeat&) = delete;

  void OnRequest(const std::shared_ptr<AdoptStream>& stream, const v1::AdoptRequest& request);
  // The call is over.
  void OnGone(const std::shared_ptr<AdoptStream>& stream);
  // The agent that StartAgent() returned has ended.
  void AgentEnded(const v1::Ended& ended);
  // Takes nobody any more and asks the agent to end, `now`: kills it. Left() follows.
  void Leave(bool now);

  // "executor 3 of cluster c of driver h pid 7", whose the seat is; empty: nobody's.
  [[nodiscard]] std::string HolderText() const;

 private:
  struct Adoption {
    v1::Hold hold;
    absl::Time since;
    std::shared_ptr<AdoptStream> stream;  // null while the driver is away
    int64_t pid;                          // of the agent; 0: held
  };

  void OnHold(const std::shared_ptr<AdoptStream>& stream, const v1::Hold& hold);
  // If not OK, `refusal` says of which kind.
  absl::Status CheckHold(const v1::Hold& hold, Refusal* refusal) const;
  void Take(const std::shared_ptr<AdoptStream>& stream, const v1::Hold& hold);
  void SayHeld();
  void OnStartAgent(const v1::StartAgent& start);
  void Release(bool now);
  void EndAdoption(const v1::Ended& ended);
  void Refuse(const std::shared_ptr<AdoptStream>& stream, const v1::Hold& hold, Refusal refusal,
              const absl::Status& why);
  [[nodiscard]] bool Used(absl::string_view adoption_id) const;

  const std::string host_;
  const std::string version_;
  Owner* const owner_;
  Clock* const clock_;
  std::optional<Adoption> adoption_;
  // The next adoption, which waits for the end of the present one.
  std::shared_ptr<AdoptStream> next_stream_;
  v1::Hold next_;
  std::deque<std::string> used_;  // adoption ids that are over, the last few thousand
  bool leaving_ = false;
};

}  // namespace millrace

#endif  // CORE_AGENT_MODES_ADOPTION_SEAT_H_
