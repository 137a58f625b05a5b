// File: dashboard/source/update_source_testing.h
//
// Feeds a model from a source as the window does. Test only.
//
// Defines: PollAll().

#ifndef DASHBOARD_SOURCE_UPDATE_SOURCE_TESTING_H_
#define DASHBOARD_SOURCE_UPDATE_SOURCE_TESTING_H_

#include <vector>

#include "absl/time/time.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/source/update_source.h"

namespace millrace::dashboard {

// Takes all that has come by `now`.
inline void PollAll(UpdateSource* source, absl::Time now, DashboardModel* model) {
  std::vector<SourceUpdate> updates;
  do {
    updates.clear();
    source->Poll(now, 64, &updates);
    for (const SourceUpdate& update : updates) model->Apply(update);
  } while (updates.size() == 64);
  model->Advance(source->ModelTime(now));
}

}  // namespace millrace::dashboard

#endif  // DASHBOARD_SOURCE_UPDATE_SOURCE_TESTING_H_
