// File: dashboard/views/cell_grid.h
//
// Many things as one small cell each, in groups side by side (a host's GPUs): up to a thousand
// drawn as shapes with letters or values in them, more as a texture of which only what has changed
// is painted again, some thousand cells in a frame.
//
// Defines: CellGrid.
//
//   CellGrid::Result result = grid_.Draw(theme, "##slots", size,
//                                        {.count = n, .group = 1, .version = model.version()},
//                                        [&](int i) { return CellGrid::Cell{...}; });
//   if (result.clicked) commands->Select({.node = result.hovered});
//
// Lifetime: destroy it before ImGui's context and after the renderer's shutdown. Thread safety: on
// the window's thread.

#ifndef DASHBOARD_VIEWS_CELL_GRID_H_
#define DASHBOARD_VIEWS_CELL_GRID_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "dashboard/views/theme.h"
#include "imgui.h"

namespace millrace::dashboard {

class CellGrid {
 public:
  static constexpr int kMaxShapes = 1024;

  struct Cell {
    ImU32 color = 0;
    bool hatched = false;  // not known: lines instead of a colour
    bool dimmed = false;   // does not match the filter
    bool marked = false;   // a corner: something is wrong with it
    std::string text;      // drawn where it fits; not asked for where no text can fit
  };
  struct Layout {
    int count = 0;
    int group = 1;  // cells that stay side by side
    int selected = -1;
    uint64_t version = 0;  // cells are asked for again when it changes, within some frames
    uint64_t look = 0;     // all of them are asked for at once when it changes: what the user chose
    float max_cell_px = 64;
    float aspect = 1;  // width of a cell by its height
    // Names the group of a cell, drawn before it where there is room. Null: groups have no names.
    std::function<std::string(int group)> label;
  };
  struct Result {
    int hovered = -1;
    bool clicked = false;
    bool double_clicked = false;
  };

  CellGrid() = default;
  ~CellGrid();
  CellGrid(const CellGrid&) = delete;
  CellGrid& operator=(const CellGrid&) = delete;

  // What Draw() would need for cells of the greatest size.
  [[nodiscard]] static float Height(float width, const Layout& layout);
  // `with_text` says whether cells are large enough for some.
  Result Draw(const Theme& theme, const char* id, ImVec2 size, const Layout& layout,
              absl::FunctionRef<Cell(int index, bool with_text)> cell_at);

 private:
  struct Geometry {
    int columns = 1;  // groups in a row
    float cell_w = 0;
    float cell_h = 0;
    float group_w = 0;  // with the gap after it
    float row_h = 0;
    float label_w = 0;
    float gap = 0;
  };
  [[nodiscard]] static Geometry Fit(ImVec2 size, const Layout& layout, float label_w);
  // What a cell looks like, as one number.
  [[nodiscard]] static uint64_t CodeOf(const Cell& cell);
  // Paints what has changed of the next `count` cells.
  void Paint(const Theme& theme, const Geometry& geometry, const Layout& layout, int count,
             absl::FunctionRef<Cell(int index, bool with_text)> cell_at);
  void PaintCell(const Theme& theme, const Geometry& geometry, int group, int index,
                 const Cell& cell);
  // An empty texture of this size.
  void Resize(const Theme& theme, int width, int height);

  std::vector<std::unique_ptr<ImTextureData>> textures_;  // the last one is in use
  std::vector<uint64_t> painted_;  // codes of the cells in the texture; 0: none
  int next_ = 0;                   // cell that is asked for next; all of them have been at the end
  uint64_t version_ = 0;           // that is being painted
  uint64_t look_ = 0;
  int group_ = 0;
  ImVec2 size_;
  ImU32 panel_ = 0;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_VIEWS_CELL_GRID_H_
