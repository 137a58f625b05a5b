// File: dashboard/views/table.h
//
// Tables as all panels have them: a header stands over its values (at the right over numbers), says
// in its tooltip what the column means, and sorts; columns that have no room are left out.
//
// Defines: TableColumn, SortableTable, TableHeaders().
//
//   static constexpr TableColumn kColumns[] = {
//       {.name = "node", .tip = "Role and task", .width_px = 92},
//       {.name = "rows/s", .tip = "Received", .width_px = 66, .number = true}};
//   SortableTable table_{"nodes", kColumns};
//   table_.Sort(&order_, [&](int id, int column) { return SortKey{...}; });
//   if (table_.Begin(theme, scale)) { ...rows, clipped...; table_.End(); }
//   if (table_.TakeChange()) dirty_ = true;
//
// Widths in pixels are before HiDPI scaling. Thread safety: between NewFrame() and Render(), on the
// window's thread.

#ifndef DASHBOARD_VIEWS_TABLE_H_
#define DASHBOARD_VIEWS_TABLE_H_

#include <span>
#include <vector>

#include "dashboard/model/table_rows.h"
#include "dashboard/views/theme.h"
#include "imgui.h"

namespace millrace::dashboard {

inline constexpr float kRowHeight = 22.0F;

struct TableColumn {
  const char* name = "";
  const char* tip = "";     // what it means, and its unit; empty: none
  float width_px = 0;       // 0: what the others leave
  bool number = false;      // at the right
  bool most_first = false;  // the first click brings the greatest to the top
  float from_px = 0;        // left out of tables that are narrower than this
};

// Sets up the columns of the table that has just begun and draws their headers, which stay on top.
// The first `frozen` columns stay at the left.
void TableHeaders(const Theme& theme, std::span<const TableColumn> columns, float scale,
                  int frozen = 0);

class SortableTable {
 public:
  // Both outlive it. It is sorted by the first column at first.
  SortableTable(const char* id, std::span<const TableColumn> columns)
      : id_(id), columns_(columns) {}

  // Draws the headers; if it returns true, rows and End() follow.
  [[nodiscard]] bool Begin(const Theme& theme, float scale, ImGuiTableFlags more = 0,
                           int frozen = 0);
  void End();
  // The order follows from values, which change all the time, and not only from which rows there
  // are.
  [[nodiscard]] bool by_value() const { return column_ != 0 || descending_; }
  // Has the order of `other`, whose columns are the same, from the next Begin() on.
  void TakeOrder(const SortableTable& other);
  // True once after the user has chosen another order.
  [[nodiscard]] bool TakeChange() { return std::exchange(changed_, false); }

  // `key(row, column)` is asked once for each row; rows that are equal stay in their order.
  template <typename Row, typename Key>
  void Sort(std::vector<Row>* rows, Key key) const {
    if (!by_value()) return;  // as they come
    SortRows(rows, descending_, [&](const Row& row) { return key(row, column_); });
  }

 private:
  const char* const id_;
  const std::span<const TableColumn> columns_;
  int column_ = 0;
  bool descending_ = false;
  bool changed_ = false;
  bool taken_ = false;  // the order, and ImGui has not been told yet
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_TABLE_H_
