// What both servers of //testing/bench:reservation say to the process that measures them.
#ifndef TESTING_BENCH_BENCH_SERVER_H_
#define TESTING_BENCH_BENCH_SERVER_H_

#include <malloc.h>
#include <unistd.h>

#include <functional>
#include <optional>

#include "absl/time/time.h"
#include "core/base/json.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/json_child.h"

namespace millrace::bench {

// Announces `ready`, then answers each line by what `answer` says, or where that is null by
// {"cpu_s", "resident_bytes", "peak_bytes"}, until stdin ends. Ends the process at once: taking
// leave of thousands of streams is not what is measured.
[[noreturn]] inline void ServeUsage(JsonParent* parent, const Json& ready,
                                    const std::function<Json(const Json&)>& answer = nullptr) {
  JsonParent::Send(ready);
  while (const std::optional<Json> asked = parent->Receive()) {
    Json said = answer == nullptr ? Json() : answer(*asked);
    if (said.is_null()) {
      ::malloc_trim(0);  // memory that is free is not held, whatever the allocator keeps
      said = Json{{"cpu_s", absl::ToDoubleSeconds(SelfCpuTime())},
                  {"resident_bytes", SelfResidentBytes()},
                  {"peak_bytes", SelfPeakBytes()}};
    }
    JsonParent::Send(said);
  }
  ::_exit(0);
}

}  // namespace millrace::bench

#endif  // TESTING_BENCH_BENCH_SERVER_H_
