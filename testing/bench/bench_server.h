// What both servers of //testing/bench:reservation say to the process that measures them.
#ifndef TESTING_BENCH_BENCH_SERVER_H_
#define TESTING_BENCH_BENCH_SERVER_H_

#include <malloc.h>
#include <unistd.h>

#include "absl/time/time.h"
#include "core/base/json.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/json_child.h"

namespace millrace::bench {

// Announces `ready`, then answers each line by {"cpu_s", "resident_bytes"} until stdin ends. Ends
// the process at once: taking leave of thousands of streams is not what is measured.
[[noreturn]] inline void ServeUsage(JsonParent* parent, const Json& ready) {
  JsonParent::Send(ready);
  while (parent->Receive().has_value()) {
    ::malloc_trim(0);  // memory that is free is not held, whatever the allocator keeps
    JsonParent::Send(Json{{"cpu_s", absl::ToDoubleSeconds(SelfCpuTime())},
                          {"resident_bytes", SelfResidentBytes()}});
  }
  ::_exit(0);
}

}  // namespace millrace::bench

#endif  // TESTING_BENCH_BENCH_SERVER_H_
