#include "dashboard/views/table.h"

#include "dashboard/views/widgets.h"
#include "imgui_internal.h"

namespace millrace::dashboard {
namespace {

// One header: ImGui's own for clicks and menus, without its text and arrow.
void Header(const Theme& theme, const ImGuiTable& table, int index, const TableColumn& column,
            float scale) {
  ImGui::PushID(index);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float room = ImGui::GetContentRegionAvail().x;
  ImGui::PushStyleColor(ImGuiCol_Text, IM_COL32_BLACK_TRANS);
  ImGui::TableHeader("##header");
  ImGui::PopStyleColor();
  Tip(column.tip);
  ImGui::PopID();
  ImGui::PushFont(theme.fonts.text, kSmallSize);
  const float width = ImGui::CalcTextSize(column.name).x;
  const float line = ImGui::GetTextLineHeight();
  const float x = column.number ? at.x + room - width : at.x;
  const float y = at.y + (kRowHeight * scale - line) / 2 - ImGui::GetStyle().CellPadding.y;
  const ImGuiTableColumn& state = table.Columns[index];
  const bool sorted = (table.Flags & ImGuiTableFlags_Sortable) != 0 && state.SortOrder != -1;
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddText(ImVec2(x, y), sorted ? theme.text : theme.dim, column.name);
  ImGui::PopFont();
  if (!sorted) return;
  // Up where the least is on top. Beside the name, or where that takes all the room, over or under
  // it.
  const bool up = state.SortDirection == ImGuiSortDirection_Ascending;
  const float half = 3.5F * scale;
  const bool beside = room - width >= 4 * half;
  const float middle = !beside         ? x + width / 2
                       : column.number ? x - 2 * half
                                       : x + width + 2 * half;
  const float center = y + line * 0.54F;
  const float base = beside ? (up ? center + half / 2 : center - half / 2)
                     : up   ? y + 1 * scale
                            : y + line - 1 * scale;
  const float tip = up ? base - half : base + half;
  list->AddTriangleFilled(ImVec2(middle - half, base), ImVec2(middle + half, base),
                          ImVec2(middle, tip), theme.accent);
}

}  // namespace

void TableHeaders(const Theme& theme, std::span<const TableColumn> columns, float scale,
                  int frozen) {
  ImGuiTable* table = ImGui::GetCurrentTable();
  for (const TableColumn& column : columns) {
    ImGuiTableColumnFlags flags =
        column.width_px > 0 ? ImGuiTableColumnFlags_WidthFixed : ImGuiTableColumnFlags_WidthStretch;
    if (column.most_first) flags |= ImGuiTableColumnFlags_PreferSortDescending;
    if (&column == &columns.front())
      flags |= ImGuiTableColumnFlags_DefaultSort | ImGuiTableColumnFlags_NoHide;
    if (table->OuterRect.GetWidth() < column.from_px * scale)
      flags |= ImGuiTableColumnFlags_Disabled;
    ImGui::TableSetupColumn(column.name, flags, column.width_px * scale);
  }
  ImGui::TableSetupScrollFreeze(frozen, 1);
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers, kRowHeight * scale);
  for (int i = 0; i < static_cast<int>(columns.size()); ++i) {
    if (ImGui::TableSetColumnIndex(i))
      Header(theme, *table, i, columns[static_cast<size_t>(i)], scale);
  }
}

bool SortableTable::Begin(const Theme& theme, float scale, ImGuiTableFlags more, int frozen) {
  constexpr ImGuiTableFlags kFlags =
      ImGuiTableFlags_Sortable | ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg |
      ImGuiTableFlags_Hideable | ImGuiTableFlags_Reorderable | ImGuiTableFlags_Resizable |
      ImGuiTableFlags_BordersInnerV | ImGuiTableFlags_SizingFixedFit |
      ImGuiTableFlags_NoBordersInBody;
  if (!ImGui::BeginTable(id_, static_cast<int>(columns_.size()), kFlags | more)) return false;
  TableHeaders(theme, columns_, scale, frozen);
  if (std::exchange(taken_, false)) {
    ImGui::TableSetColumnSortDirection(
        column_, descending_ ? ImGuiSortDirection_Descending : ImGuiSortDirection_Ascending, false);
  }
  ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs();
  if (specs != nullptr && specs->SpecsDirty) {
    specs->SpecsDirty = false;
    const int column = specs->SpecsCount > 0 ? specs->Specs[0].ColumnIndex : 0;
    const bool descending =
        specs->SpecsCount > 0 && specs->Specs[0].SortDirection == ImGuiSortDirection_Descending;
    changed_ = changed_ || column != column_ || descending != descending_;
    column_ = column;
    descending_ = descending;
  }
  return true;
}

void SortableTable::TakeOrder(const SortableTable& other) {
  if (column_ == other.column_ && descending_ == other.descending_) return;
  column_ = other.column_;
  descending_ = other.descending_;
  changed_ = taken_ = true;
}

void SortableTable::End() { ImGui::EndTable(); }

}  // namespace millrace::dashboard
