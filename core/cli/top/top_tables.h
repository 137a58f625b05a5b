// File: core/cli/top/top_tables.h
//
// The window's tables as `millrace top` shows them: nodes, queues, feeds, GPUs, metrics, events,
// log lines.
//
// Defines: TopColumn, TopCell, TopTable, MakeTopTables().
//
//   for (const int64_t row : table->Rows(model)) Print(table->CellOf(model, row, 0).text);
//
// Thread safety: const methods may run concurrently. Blocking: never.
#ifndef CORE_CLI_TOP_TOP_TABLES_H_
#define CORE_CLI_TOP_TOP_TABLES_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/cli/output/terminal.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/model/table_rows.h"

namespace millrace::cli {

struct TopColumn {
  absl::string_view name;
  int width = 0;            // in columns of the terminal; 0: what the others leave
  bool number = false;      // at the right
  bool most_first = false;  // is sorted from the greatest down at first
};

struct TopCell {
  std::string text;
  Style style = Style::kPlain;
};

// Rows are known by numbers that mean something to their table alone, and are valid until the model
// changes.
class TopTable {
 public:
  virtual ~TopTable() = default;

  [[nodiscard]] virtual absl::string_view name() const = 0;
  // The first one names the row. The last one may be of width 0.
  [[nodiscard]] virtual std::span<const TopColumn> columns() const = 0;
  // As they come.
  [[nodiscard]] virtual std::vector<int64_t> Rows(const dashboard::DashboardModel& model) const = 0;
  [[nodiscard]] virtual dashboard::SortKey KeyOf(const dashboard::DashboardModel& model,
                                                 int64_t row, int column) const = 0;
  [[nodiscard]] virtual TopCell CellOf(const dashboard::DashboardModel& model, int64_t row,
                                       int column) const = 0;
  // Whether it has this text, in either case.
  [[nodiscard]] virtual bool Holds(const dashboard::DashboardModel& model, int64_t row,
                                   absl::string_view text) const = 0;
  // Why there is no row.
  [[nodiscard]] virtual std::string WhyEmpty(const dashboard::DashboardModel& model) const = 0;
  // Of lines that come one after the other: the last ones are shown while nobody looks at others.
  [[nodiscard]] virtual bool is_log() const { return false; }
};

// In the order of their keys, 1 to 7.
[[nodiscard]] std::vector<std::unique_ptr<TopTable>> MakeTopTables();

// Nodes, queues, GPUs: what grows with the cluster (node_tables.cc).
[[nodiscard]] std::unique_ptr<TopTable> MakeNodesTable();
[[nodiscard]] std::unique_ptr<TopTable> MakeQueuesTable();
[[nodiscard]] std::unique_ptr<TopTable> MakeGpusTable();

}  // namespace millrace::cli

#endif  // CORE_CLI_TOP_TOP_TABLES_H_
