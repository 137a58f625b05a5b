// File: core/cli/top/top_view.h
//
// What `millrace top` shows of a model, and what keys change in it.
//
// Defines: TopView, OnceText().
//
//   TopView view;
//   view.Handle({KeyCode::kText, "4"}, model);             // the GPUs
//   Write(Changes(&shown, view.Draw(model, {.columns = 80, .rows = 24})));
//
// Thread safety: not thread-safe. Blocking: never.
#ifndef CORE_CLI_TOP_TOP_VIEW_H_
#define CORE_CLI_TOP_TOP_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/cli/top/key_reader.h"
#include "core/cli/top/text_grid.h"
#include "core/cli/top/top_tables.h"
#include "dashboard/model/dashboard_model.h"

namespace millrace::cli {

class TopView {
 public:
  // Of a terminal that can show something.
  static constexpr int kMinColumns = 40;
  static constexpr int kMinRows = 10;

  TopView();

  // Returns false if the key ends it all.
  bool Handle(const Key& key, const dashboard::DashboardModel& model);
  // While it is paused the model should not change; it may all the same.
  [[nodiscard]] bool paused() const { return paused_; }
  // The time that this takes grows with the screen; with the cluster only after the model, the
  // filter or the order has changed.
  [[nodiscard]] TextGrid Draw(const dashboard::DashboardModel& model, const GridOptions& options);

 private:
  enum class Mode { kTable, kFilter, kSearch, kHelp, kRow, kSentences };

  // What a person has chosen in one table.
  struct Chosen {
    int sort = 0;
    bool descending = false;
    std::string filter;
    int64_t selected = 0;    // place in the order
    int64_t top = 0;         // that is on the first line
    int first_column = 1;    // beside column 0
    bool at_end = false;     // the last row stays selected
    bool show_sort = false;  // the next picture has the sorted column in it
  };

  [[nodiscard]] const TopTable& table() const { return *tables_[current_]; }
  [[nodiscard]] Chosen& chosen() { return chosen_[current_]; }
  void HandleTable(const Key& key, const dashboard::DashboardModel& model, bool* go_on);
  void HandleText(absl::string_view text, const dashboard::DashboardModel& model, bool* go_on);
  void HandlePrompt(const Key& key, const dashboard::DashboardModel& model);
  void Open(size_t table);
  void Move(int64_t rows);
  void SortBy(int column);
  // To the next row that has the text, from the one `from` places below the selected one.
  void Search(const dashboard::DashboardModel& model, int64_t from);
  // Brings order_ up to date.
  void Refresh(const dashboard::DashboardModel& model);
  void Scroll(int64_t page);

  int DrawHead(const dashboard::DashboardModel& model, TextGrid* grid) const;
  void DrawTabs(const dashboard::DashboardModel& model, int row, TextGrid* grid);
  void DrawTable(const dashboard::DashboardModel& model, int row, TextGrid* grid);
  void DrawKeys(TextGrid* grid);
  void DrawLines(const std::vector<std::string>& lines, int row, TextGrid* grid) const;
  [[nodiscard]] std::vector<std::string> RowLines(const dashboard::DashboardModel& model,
                                                  int width);

  const std::vector<std::unique_ptr<TopTable>> tables_;
  std::vector<Chosen> chosen_;
  size_t current_ = 0;
  Mode mode_ = Mode::kTable;
  std::string search_;
  bool paused_ = false;
  int64_t page_ = 1;  // rows that the last picture had room for

  std::vector<int64_t> order_;  // of the current table
  bool dirty_ = true;
  uint64_t order_version_ = 0;
  size_t all_rows_ = 0;  // without the filter
};

// All that there is as plain text: the sentences, the warnings and every table that has rows; of
// events and log lines the last ones.
[[nodiscard]] std::string OnceText(const dashboard::DashboardModel& model,
                                   const GridOptions& options);

}  // namespace millrace::cli

#endif  // CORE_CLI_TOP_TOP_VIEW_H_
