// File: dashboard/source/part_keeper.h
//
// Lets the thread that reads updates free them too. An update of some hundred samples is ten
// thousand small objects: to free them takes longer than to apply them, and the window's thread has
// other things to do.
//
// Defines: PartKeeper.
//
//   PartKeeper keeper;              // of the source's thread
//   keeper.Sweep();                 // what nobody reads any more goes
//   keeper.Keep(update);            // before it is given away; its parts share its ownership
//
// What is given away last stays until the next Sweep(). Thread safety: not thread-safe; others may
// drop their references at any time. Blocking: never.

#ifndef DASHBOARD_SOURCE_PART_KEEPER_H_
#define DASHBOARD_SOURCE_PART_KEEPER_H_

#include <memory>
#include <utility>
#include <vector>

#include "core/proto/watch.pb.h"

namespace millrace::dashboard {

class PartKeeper {
 public:
  // Null is left out.
  void Keep(std::shared_ptr<const v1::WatchUpdate> part) {
    if (part != nullptr) parts_.push_back(std::move(part));
  }

  void Sweep() {
    // Nobody can make a second reference from none.
    std::erase_if(parts_, [](const auto& part) { return part.use_count() == 1; });
  }

 private:
  std::vector<std::shared_ptr<const v1::WatchUpdate>> parts_;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_SOURCE_PART_KEEPER_H_
