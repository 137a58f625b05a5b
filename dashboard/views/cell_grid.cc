#include "dashboard/views/cell_grid.h"

#include <algorithm>
#include <cmath>

#include "dashboard/views/widgets.h"
#include "imgui_internal.h"

namespace millrace::dashboard {
namespace {

constexpr float kTextFrom = 13;  // pixels of a cell's height, unscaled: a letter fits
constexpr float kMinCell = 2;
// Cells of a texture that are painted per frame, which takes less than half a millisecond.
constexpr int kCellsPerFrame = 4096;

}  // namespace

CellGrid::~CellGrid() {
  for (const auto& texture : textures_) {
    if (ImGui::GetCurrentContext() != nullptr) ImGui::UnregisterUserTexture(texture.get());
  }
}

CellGrid::Geometry CellGrid::Fit(ImVec2 size, const Layout& layout, float label_w) {
  const int groups = (layout.count + layout.group - 1) / layout.group;
  Geometry best;
  // The largest cell with which all groups fit: a search over its height, in whole pixels.
  const float scale = ImGui::GetStyle().FontScaleDpi;
  for (float cell_h = std::floor(layout.max_cell_px * scale); cell_h >= kMinCell; cell_h -= 1) {
    Geometry trial;
    trial.cell_h = cell_h;
    trial.cell_w = std::floor(cell_h * layout.aspect);
    trial.gap = cell_h >= 20 ? 3 : cell_h >= 3 ? 1 : 0;
    trial.label_w = label_w;
    const float between = layout.group > 1 ? std::max(4.0F, trial.cell_w * 0.35F) : 0;
    trial.group_w =
        label_w + static_cast<float>(layout.group) * (trial.cell_w + trial.gap) + between;
    trial.row_h = cell_h + trial.gap + (layout.group > 1 && cell_h >= 6 ? 1 : 0);
    trial.columns = std::max(1, static_cast<int>((size.x + between) / trial.group_w));
    const int rows = (groups + trial.columns - 1) / trial.columns;
    best = trial;
    if (static_cast<float>(rows) * trial.row_h <= size.y && trial.group_w <= size.x + between)
      break;
  }
  // What is left of the width goes to the cells of full rows, up to twice of what they had.
  if (groups >= best.columns) {
    const float between = layout.group > 1 ? std::max(4.0F, best.cell_w * 0.35F) : 0;
    const float room = (size.x + between) / static_cast<float>(best.columns) - best.group_w;
    const float more =
        std::floor(std::clamp(room / static_cast<float>(layout.group), 0.0F, best.cell_w));
    best.cell_w += more;
    best.group_w += more * static_cast<float>(layout.group);
  }
  return best;
}

float CellGrid::Height(float width, const Layout& layout) {
  const Geometry geometry = Fit(ImVec2(width, 1e6F), layout, 0);
  const int groups = (layout.count + layout.group - 1) / layout.group;
  return static_cast<float>((groups + geometry.columns - 1) / geometry.columns) * geometry.row_h;
}

void CellGrid::Resize(const Theme& theme, int width, int height) {
  if (!textures_.empty()) {
    // A texture that the renderer has never seen is destroyed at once.
    textures_.back()->SetStatus(textures_.back()->Status == ImTextureStatus_WantCreate
                                    ? ImTextureStatus_Destroyed
                                    : ImTextureStatus_WantDestroy);
  }
  // Those that the renderer has let go of.
  std::erase_if(textures_, [](const std::unique_ptr<ImTextureData>& texture) {
    if (texture->Status != ImTextureStatus_Destroyed) return false;
    ImGui::UnregisterUserTexture(texture.get());
    return true;
  });
  auto texture = std::make_unique<ImTextureData>();
  texture->Create(ImTextureFormat_RGBA32, width, height);
  std::fill_n(static_cast<ImU32*>(static_cast<void*>(texture->GetPixels())),
              static_cast<size_t>(width) * static_cast<size_t>(height), theme.panel);
  ImGui::RegisterUserTexture(texture.get());
  textures_.push_back(std::move(texture));
}

uint64_t CellGrid::CodeOf(const Cell& cell) {
  return uint64_t{cell.color} << 4 | (cell.hatched ? 1 : 0) | (cell.dimmed ? 2 : 0) |
         (cell.marked ? 4 : 0) | 8;
}

void CellGrid::PaintCell(const Theme& theme, const Geometry& geometry, int group, int index,
                         const Cell& cell) {
  ImTextureData* texture = textures_.back().get();
  auto* pixels = static_cast<ImU32*>(static_cast<void*>(texture->GetPixels()));
  const int place = index / group;
  const auto x0 = static_cast<int>(
      static_cast<float>(place % geometry.columns) * geometry.group_w + geometry.label_w +
      static_cast<float>(index % group) * (geometry.cell_w + geometry.gap));
  const auto y0 = static_cast<int>(static_cast<float>(place / geometry.columns) * geometry.row_h);
  const int x1 = std::min(texture->Width, x0 + static_cast<int>(geometry.cell_w));
  const int y1 = std::min(texture->Height, y0 + static_cast<int>(geometry.cell_h));
  const ImU32 color =
      cell.dimmed ? ImAlphaBlendColors(theme.panel, Fade(cell.color, 0.25F)) : cell.color;
  for (int y = y0; y < y1; ++y) {
    ImU32* const row = pixels + static_cast<size_t>(y) * static_cast<size_t>(texture->Width);
    for (int x = x0; x < x1; ++x) {
      const bool hatch = cell.hatched && (x + y) % 4 != 0;
      const bool mark = cell.marked && x - x0 < (x1 - x0 + 1) / 2 && y - y0 < (y1 - y0 + 1) / 2;
      row[x] = mark ? theme.bad : hatch ? theme.panel : color;
    }
  }
}

void CellGrid::Paint(const Theme& theme, const Geometry& geometry, const Layout& layout, int count,
                     absl::FunctionRef<Cell(int index, bool with_text)> cell_at) {
  ImTextureData* texture = textures_.back().get();
  const int end = layout.count - next_ > count ? next_ + count : layout.count;
  int first = -1;
  int last = -1;
  for (; next_ < end; ++next_) {
    const Cell cell = cell_at(next_, false);
    const uint64_t code = CodeOf(cell);
    if (painted_[static_cast<size_t>(next_)] == code) continue;
    painted_[static_cast<size_t>(next_)] = code;
    PaintCell(theme, geometry, layout.group, next_, cell);
    if (first < 0) first = next_;
    last = next_;
  }
  if (first < 0 || texture->Status == ImTextureStatus_WantCreate) return;
  // The rows of these cells; the renderer takes them with this frame.
  const auto row_of = [&](int index) {
    return static_cast<float>(index / layout.group / geometry.columns) * geometry.row_h;
  };
  const int y0 = std::min(texture->Height, static_cast<int>(row_of(first)));
  const int y1 =
      std::min(texture->Height, static_cast<int>(std::ceil(row_of(last) + geometry.cell_h)));
  if (y1 <= y0) return;
  const ImTextureRect rows = {0, static_cast<unsigned short>(y0),
                              static_cast<unsigned short>(texture->Width),
                              static_cast<unsigned short>(y1 - y0)};
  if (texture->Status != ImTextureStatus_WantUpdates) {
    texture->Updates.resize(0);
    texture->UpdateRect = rows;
  } else {
    const int top = std::min<int>(texture->UpdateRect.y, y0);
    const int bottom = std::max<int>(texture->UpdateRect.y + texture->UpdateRect.h, y1);
    texture->UpdateRect.y = static_cast<unsigned short>(top);
    texture->UpdateRect.h = static_cast<unsigned short>(bottom - top);
  }
  texture->Updates.push_back(rows);
  texture->UsedRect = {0, 0, static_cast<unsigned short>(texture->Width),
                       static_cast<unsigned short>(texture->Height)};
  texture->SetStatus(ImTextureStatus_WantUpdates);
}

CellGrid::Result CellGrid::Draw(const Theme& theme, const char* id, ImVec2 size,
                                const Layout& layout,
                                absl::FunctionRef<Cell(int index, bool with_text)> cell_at) {
  Result result;
  size.x = std::floor(std::max(16.0F, size.x));
  size.y = std::floor(std::max(16.0F, size.y));
  const ImVec2 at =
      ImVec2(std::floor(ImGui::GetCursorScreenPos().x), std::floor(ImGui::GetCursorScreenPos().y));
  const float scale = ImGui::GetStyle().FontScaleDpi;
  const bool shapes = layout.count <= kMaxShapes;
  float label_w = 0;
  if (shapes && layout.label) {
    ImGui::PushFont(theme.fonts.mono, kSmallSize);
    const int groups = (layout.count + layout.group - 1) / layout.group;
    for (int i = 0; i < groups; ++i) {
      label_w = std::max(label_w, ImGui::CalcTextSize(layout.label(i).c_str()).x);
    }
    label_w += 8 * scale;
    ImGui::PopFont();
  }
  Geometry geometry = Fit(size, layout, label_w);
  if (geometry.cell_h < 13 * scale && label_w > 0) {
    label_w = 0;
    geometry = Fit(size, layout, 0);
  }
  ImGui::InvisibleButton(id, size, ImGuiButtonFlags_EnableNav);
  const bool hovered = ImGui::IsItemHovered();
  ImDrawList* list = ImGui::GetWindowDrawList();

  const auto rect_of = [&](int i) {
    const int group = i / layout.group;
    const ImVec2 min(at.x + static_cast<float>(group % geometry.columns) * geometry.group_w +
                         geometry.label_w +
                         static_cast<float>(i % layout.group) * (geometry.cell_w + geometry.gap),
                     at.y + static_cast<float>(group / geometry.columns) * geometry.row_h);
    return ImRect(min, ImVec2(min.x + geometry.cell_w, min.y + geometry.cell_h));
  };

  list->PushClipRect(at, ImVec2(at.x + size.x, at.y + size.y), true);
  if (shapes) {
    const bool with_text = geometry.cell_h >= kTextFrom * scale;
    ImGui::PushFont(theme.fonts.mono, kSmallSize);
    const float rounding = geometry.cell_h >= 18 ? 3 : 0;
    for (int i = 0; i < layout.count; ++i) {
      const Cell cell = cell_at(i, with_text);
      const ImRect rect = rect_of(i);
      const float alpha = cell.dimmed ? 0.3F : 1.0F;
      if (geometry.label_w > 0 && i % layout.group == 0) {
        const std::string label = layout.label(i / layout.group);
        list->AddText(ImVec2(rect.Min.x - geometry.label_w,
                             rect.Min.y + (geometry.cell_h - ImGui::GetTextLineHeight()) / 2),
                      theme.dim, label.c_str());
      }
      if (cell.hatched) {
        list->AddRectFilled(rect.Min, rect.Max, Fade(cell.color, 0.25F), rounding);
        Hatch(list, rect.Min, rect.Max, Fade(cell.color, alpha));
      } else {
        list->AddRectFilled(rect.Min, rect.Max, Fade(cell.color, alpha), rounding);
      }
      if (cell.marked) {
        const float corner = std::max(5.0F, geometry.cell_h * 0.3F);
        list->AddTriangleFilled(ImVec2(rect.Max.x - corner, rect.Min.y),
                                ImVec2(rect.Max.x, rect.Min.y),
                                ImVec2(rect.Max.x, rect.Min.y + corner), theme.bad);
      }
      if (with_text && !cell.text.empty()) {
        const ImVec2 extent = ImGui::CalcTextSize(cell.text.c_str());
        if (extent.x <= geometry.cell_w - 2) {
          const ImU32 ink = cell.hatched || cell.dimmed ? theme.dim : ReadableOn(cell.color);
          list->AddText(ImVec2(rect.Min.x + (geometry.cell_w - extent.x) / 2,
                               rect.Min.y + (geometry.cell_h - extent.y) / 2),
                        ink, cell.text.c_str());
        }
      }
    }
    ImGui::PopFont();
  } else {
    const bool anew = textures_.empty() || static_cast<int>(painted_.size()) != layout.count ||
                      size.x != size_.x || size.y != size_.y || theme.panel != panel_ ||
                      layout.group != group_;
    if (anew) {
      Resize(theme, static_cast<int>(size.x), static_cast<int>(size.y));
      painted_.assign(static_cast<size_t>(layout.count), 0);
      size_ = size;
      panel_ = theme.panel;
      group_ = layout.group;
    }
    if (anew || layout.look != look_) {
      look_ = layout.look;
      version_ = layout.version;
      next_ = 0;
      Paint(theme, geometry, layout, layout.count, cell_at);
    } else if (next_ < layout.count) {
      Paint(theme, geometry, layout, kCellsPerFrame, cell_at);
    } else if (layout.version != version_) {
      version_ = layout.version;
      next_ = 0;
      Paint(theme, geometry, layout, kCellsPerFrame, cell_at);
    }
    list->AddImage(textures_.back()->GetTexRef(), at, ImVec2(at.x + size.x, at.y + size.y));
  }
  if (layout.selected >= 0 && layout.selected < layout.count) {
    ImRect rect = rect_of(layout.selected);
    rect.Expand(2);
    list->AddRect(rect.Min, rect.Max, theme.accent, 3, 2);
  }
  if (hovered) {
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const int column = static_cast<int>((mouse.x - at.x) / geometry.group_w);
    const int row = static_cast<int>((mouse.y - at.y) / geometry.row_h);
    const float within =
        mouse.x - at.x - static_cast<float>(column) * geometry.group_w - geometry.label_w;
    const int place = within < 0 ? -1 : static_cast<int>(within / (geometry.cell_w + geometry.gap));
    if (column < geometry.columns && place >= 0 && place < layout.group) {
      const int index = (row * geometry.columns + column) * layout.group + place;
      if (index < layout.count) {
        result.hovered = index;
        const ImRect rect = rect_of(index);
        list->AddRect(rect.Min, rect.Max, theme.text, 3, 1);
        result.clicked = ImGui::IsItemClicked();
        result.double_clicked = ImGui::IsMouseDoubleClicked(0);
      }
    }
  }
  list->PopClipRect();
  return result;
}

}  // namespace millrace::dashboard
