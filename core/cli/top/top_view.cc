#include "core/cli/top/top_view.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/client/cluster_view.h"
#include "dashboard/model/format.h"
#include "dashboard/model/verdict.h"
#include "dashboard/model/warnings.h"

namespace millrace::cli {
namespace {

using dashboard::DashboardModel;
using dashboard::FormatCount;
using dashboard::FormatSpan;
using dashboard::LinkState;
using dashboard::Mood;
using dashboard::VerdictSentence;

constexpr int kGap = 1;
// A column without a width of its own needs this much.
constexpr int kMinRest = 8;
// From this many rows on, a sentence has two lines.
constexpr int kRoomyRows = 20;
// Of events and log lines, in OnceText().
constexpr size_t kLastLines = 10;

constexpr std::pair<const char*, const char*> kHelp[] = {
    {"1 to 7, Tab", "nodes, queues, feeds, GPUs, metrics, events, logs"},
    {"arrows, j, k", "select a row; left, right: columns that have no room"},
    {"PgUp, PgDn, Home, End", "further up and down"},
    {"Enter", "all of the selected row"},
    {"v", "all of the sentences, what they are made of, all warnings"},
    {"/, F3", "search; F3 and n go on to the next row that has the text"},
    {"\\, F4", "filter: only rows that have the text; empty: all rows"},
    {"<, >, F6", "the column by which rows are sorted"},
    {"I", "sort the other way round"},
    {"Space", "pause: nothing changes until the next Space"},
    {"Ctrl-L", "draw everything again"},
    {"h, F1, ?", "this help"},
    {"q, F10, Ctrl-C", "quit"},
    {"", ""},
    {"", "Times are UTC. What is not known is written –, and what is old is dim."},
    {"", "Any key goes back."}};
// The column of what keys do.
constexpr size_t kHelpColumn = 23;

const char* MoodMark(Mood mood) {
  switch (mood) {
    case Mood::kGood:
      return "+";
    case Mood::kBusy:
      return ">";
    case Mood::kWarning:
      return "!";
    case Mood::kBad:
      return "x";
    case Mood::kNeutral:
      break;
  }
  return "-";
}

Style StyleOfMood(Mood mood) {
  switch (mood) {
    case Mood::kGood:
      return Style::kGreen;
    case Mood::kBusy:
      return Style::kCyan;
    case Mood::kWarning:
      return Style::kYellow;
    case Mood::kBad:
      return Style::kRed;
    case Mood::kNeutral:
      break;
  }
  return Style::kDim;
}

std::array<const VerdictSentence*, 3> SentencesOf(const DashboardModel& model) {
  return {&model.verdict().start, &model.verdict().gpus, &model.verdict().failure};
}

struct Remark {
  std::string text;
  Style style = Style::kPlain;
};

std::string WithReason(absl::string_view text, const LinkState& link) {
  return absl::StrCat(text, link.reason.empty() ? "" : " ", link.reason);
}

// How it stands with the cluster, where that is not as it should be.
Remark LinkRemark(const DashboardModel& model) {
  const dashboard::LinkHealth& health = model.health();
  switch (health.link.kind) {
    case LinkState::Kind::kConnecting:
      if (model.has_data()) return {};
      return {WithReason("Waiting for the coordinator.", health.link), Style::kCyan};
    case LinkState::Kind::kLive:
      if (!health.stale) return {};
      return {absl::StrCat("Nothing has come from the coordinator for ",
                           FormatSpan(health.data_age), "."),
              Style::kYellow};
    case LinkState::Kind::kStale:
      return {WithReason(absl::StrCat("The connection is lost; this is what was known ",
                                      FormatSpan(health.data_age), " ago."),
                         health.link),
              Style::kYellow};
    case LinkState::Kind::kEnded:
      return {WithReason("The cluster has ended; this is its last state.", health.link),
              Style::kBold};
    case LinkState::Kind::kLost:
      return {WithReason("The driver is gone; this is what was heard last.", health.link),
              Style::kRed};
    case LinkState::Kind::kRefused:
      return {WithReason("The coordinator does not let this viewer look any more.", health.link),
              Style::kRed};
  }
  return {};
}

Remark WarningRemark(const DashboardModel& model) {
  const std::vector<const dashboard::Warning*> warnings = model.warnings();
  if (warnings.empty()) return {};
  return {absl::StrCat(warnings.size() == 1 ? "" : absl::StrCat(warnings.size(), " warnings (v): "),
                       warnings.front()->text),
          StyleOfMood(warnings.front()->mood)};
}

std::string AgeText(const dashboard::LinkHealth& health) {
  if (health.data_age == absl::InfiniteDuration()) return "no data yet";
  if (health.data_age < absl::Seconds(3)) return "live";
  return absl::StrCat("data ", FormatSpan(health.data_age), " old");
}

std::vector<std::string> TitleParts(const DashboardModel& model) {
  const dashboard::ClusterFacts& cluster = model.cluster();
  std::vector<std::string> parts = {"millrace"};
  if (!model.has_data()) return parts;
  if (!cluster.name.empty()) parts.push_back(cluster.name);
  parts.push_back(cluster.cluster_id);
  parts.emplace_back(PhaseText(cluster.phase));
  parts.push_back(absl::StrCat(FormatCount(cluster.by_state[v1::SLOT_STATE_RUNNING]), "/",
                               FormatCount(cluster.num_slots), " running"));
  parts.push_back(AgeText(model.health()));
  const float rows = model.cluster_value(dashboard::ClusterMetric::kRows);
  const float bytes = model.cluster_value(dashboard::ClusterMetric::kBytes);
  const float gpus = model.cluster_value(dashboard::ClusterMetric::kGpuUtilization);
  if (dashboard::Known(rows)) parts.push_back(dashboard::FormatSi(rows, "rows/s"));
  if (dashboard::Known(bytes)) parts.push_back(dashboard::FormatBytesRate(bytes));
  if (dashboard::Known(gpus))
    parts.push_back(absl::StrCat("GPUs ", dashboard::FormatPercent(gpus)));
  parts.push_back(absl::StrCat("epoch ", cluster.epoch));
  if (!cluster.command.empty()) parts.push_back(cluster.command);
  return parts;
}

// As much of it as has room.
void DrawTitle(const DashboardModel& model, int row, TextGrid* grid) {
  int column = 0;
  for (const std::string& part : TitleParts(model)) {
    const std::string text = column == 0 ? part : absl::StrCat(" · ", part);
    if (column > 0 && column + ColumnsOf(text) > grid->columns()) break;
    column += grid->Put(row, column, text, {.bold = true});
  }
}

struct Place {
  int column;  // of the table
  int at;      // of the screen
  int width;
};

// Where the columns of a table stand, in `width`: column 0, then from `first` on what has room.
std::vector<Place> PlacesOf(std::span<const TopColumn> columns, int first, int width) {
  std::vector<Place> places;
  int at = 0;
  for (int i = 0; i < static_cast<int>(columns.size()); ++i) {
    if (i > 0 && i < first) continue;
    const int wanted = columns[static_cast<size_t>(i)].width;
    if (at + (wanted == 0 ? kMinRest : wanted) > width) break;
    places.push_back({i, at, wanted == 0 ? width - at : wanted});
    at += places.back().width + kGap;
  }
  return places;
}

// `sort`: the column by which rows are sorted; -1: none.
void DrawHeader(const TopTable& table, const std::vector<Place>& places, int sort, bool descending,
                int row, TextGrid* grid) {
  for (const Place& place : places) {
    const TopColumn& column = table.columns()[static_cast<size_t>(place.column)];
    const bool sorted = place.column == sort;
    const Look look = {.bold = sorted};
    // The mark has the gap where the name takes all the room.
    const std::string name = absl::StrCat(column.name, !sorted ? "" : descending ? "▼" : "▲");
    const int length = ColumnsOf(name);
    if (column.number && length <= place.width) {
      grid->PutRight(row, place.at, name, look, place.width);
    } else {
      grid->Put(row, place.at, name, look, std::max(place.width, length));
    }
  }
}

void DrawRow(const TopTable& table, const DashboardModel& model, int64_t id,
             const std::vector<Place>& places, int row, TextGrid* grid) {
  for (const Place& place : places) {
    const TopCell cell = table.CellOf(model, id, place.column);
    const Look look = {.style = cell.style};
    if (table.columns()[static_cast<size_t>(place.column)].number) {
      grid->PutRight(row, place.at, cell.text, look, place.width);
    } else {
      grid->Put(row, place.at, cell.text, look, place.width);
    }
  }
}

void AppendWrapped(absl::string_view head, absl::string_view text, int width,
                   std::vector<std::string>* lines) {
  const std::string indent(static_cast<size_t>(ColumnsOf(head)), ' ');
  bool first = true;
  for (const std::string& line :
       WrapText(text, width - static_cast<int>(indent.size()), /*max_lines=*/100)) {
    lines->push_back(absl::StrCat(first ? head : absl::string_view(indent), line));
    first = false;
  }
}

std::vector<std::string> HelpLines(int width) {
  std::vector<std::string> lines;
  for (const auto& [keys, what] : kHelp) {
    std::string head = keys;
    if (!head.empty()) head.resize(kHelpColumn, ' ');
    AppendWrapped(head, what, width, &lines);
    if (absl::string_view(what).empty()) lines.emplace_back();
  }
  return lines;
}

// The sentences in full, and what they are made of.
std::vector<std::string> SentenceLines(const DashboardModel& model, int width) {
  std::vector<std::string> lines;
  for (const VerdictSentence* sentence : SentencesOf(model)) {
    AppendWrapped(absl::StrCat(MoodMark(sentence->mood), " "), sentence->text, width, &lines);
    AppendWrapped("    ", sentence->evidence, width, &lines);
  }
  const std::vector<const dashboard::Warning*> warnings = model.warnings();
  if (!warnings.empty()) lines.emplace_back();
  for (const dashboard::Warning* warning : warnings) {
    AppendWrapped(absl::StrCat(MoodMark(warning->mood), " "), warning->text, width, &lines);
  }
  return lines;
}

}  // namespace

TopView::TopView() : tables_(MakeTopTables()), chosen_(tables_.size()) {
  for (size_t i = 0; i < tables_.size(); ++i) chosen_[i].at_end = tables_[i]->is_log();
}

bool TopView::Handle(const Key& key, const DashboardModel& model) {
  bool go_on = true;
  switch (mode_) {
    case Mode::kHelp:
    case Mode::kRow:
    case Mode::kSentences:
      // Any key goes back; one that quits quits.
      mode_ = Mode::kTable;
      if (key.code == KeyCode::kF10 || key.text == "q") go_on = false;
      break;
    case Mode::kFilter:
    case Mode::kSearch:
      HandlePrompt(key, model);
      break;
    case Mode::kTable:
      HandleTable(key, model, &go_on);
      break;
  }
  return go_on;
}

void TopView::HandleTable(const Key& key, const DashboardModel& model, bool* go_on) {
  switch (key.code) {
    case KeyCode::kText:
      return HandleText(key.text, model, go_on);
    case KeyCode::kUp:
      return Move(-1);
    case KeyCode::kDown:
      return Move(1);
    case KeyCode::kPageUp:
      return Move(-page_);
    case KeyCode::kPageDown:
      return Move(page_);
    case KeyCode::kHome:
      return Move(-static_cast<int64_t>(order_.size()));
    case KeyCode::kEnd:
      Move(static_cast<int64_t>(order_.size()));
      chosen().at_end = table().is_log();
      return;
    case KeyCode::kLeft:
      chosen().first_column = std::max(1, chosen().first_column - 1);
      return;
    case KeyCode::kRight:
      chosen().first_column =
          std::min(static_cast<int>(table().columns().size()) - 1, chosen().first_column + 1);
      return;
    case KeyCode::kTab:
      return Open((current_ + 1) % tables_.size());
    case KeyCode::kBackTab:
      return Open((current_ + tables_.size() - 1) % tables_.size());
    case KeyCode::kEnter:
      if (!order_.empty()) mode_ = Mode::kRow;
      return;
    case KeyCode::kF1:
      mode_ = Mode::kHelp;
      return;
    case KeyCode::kF3:
      if (!search_.empty()) return Search(model, 1);
      mode_ = Mode::kSearch;
      return;
    case KeyCode::kF4:
      mode_ = Mode::kFilter;
      return;
    case KeyCode::kF6:
      return SortBy(chosen().sort + 1);
    case KeyCode::kF10:
      *go_on = false;
      return;
    default:
      return;
  }
}

void TopView::HandleText(absl::string_view text, const DashboardModel& model, bool* go_on) {
  const char key = text.size() == 1 ? text[0] : '\0';
  if (key >= '1' && static_cast<size_t>(key - '1') < tables_.size()) {
    return Open(static_cast<size_t>(key - '1'));
  }
  switch (key) {
    case 'q':
      *go_on = false;
      return;
    case 'h':
    case '?':
      mode_ = Mode::kHelp;
      return;
    case 'v':
      mode_ = Mode::kSentences;
      return;
    case 'j':
      return Move(1);
    case 'k':
      return Move(-1);
    case '/':
      search_.clear();
      mode_ = Mode::kSearch;
      return;
    case 'n':
      return Search(model, 1);
    case '\\':
      mode_ = Mode::kFilter;
      return;
    case '<':
    case ',':
      return SortBy(chosen().sort - 1);
    case '>':
    case '.':
      return SortBy(chosen().sort + 1);
    case 'i':
    case 'I':
      chosen().descending = !chosen().descending;
      dirty_ = true;
      return;
    case ' ':
      paused_ = !paused_;
      return;
    default:
      return;
  }
}

void TopView::HandlePrompt(const Key& key, const DashboardModel& model) {
  std::string* const text = mode_ == Mode::kFilter ? &chosen().filter : &search_;
  const bool filters = mode_ == Mode::kFilter;
  switch (key.code) {
    case KeyCode::kText:
      absl::StrAppend(text, key.text);
      break;
    case KeyCode::kBackspace:
      // A character in UTF-8: its last bytes, and the one that begins it.
      while (!text->empty() && (static_cast<unsigned char>(text->back()) & 0xc0) == 0x80) {
        text->pop_back();
      }
      if (!text->empty()) text->pop_back();
      break;
    case KeyCode::kEscape:
      text->clear();
      mode_ = Mode::kTable;
      break;
    case KeyCode::kF3:
      if (!filters) Search(model, 1);
      return;
    default:
      mode_ = Mode::kTable;
      return;
  }
  if (filters) {
    dirty_ = true;
  } else {
    Search(model, 0);
  }
}

void TopView::Open(size_t table) {
  current_ = table;
  dirty_ = true;
}

void TopView::Move(int64_t rows) {
  const auto last = std::max<int64_t>(0, static_cast<int64_t>(order_.size()) - 1);
  chosen().selected = std::clamp<int64_t>(chosen().selected + rows, 0, last);
  // Whoever comes to the last line of what happens follows it.
  chosen().at_end = table().is_log() && chosen().selected == last;
}

void TopView::SortBy(int column) {
  const auto columns = static_cast<int>(table().columns().size());
  chosen().sort = (column + columns) % columns;
  chosen().descending = table().columns()[static_cast<size_t>(chosen().sort)].most_first;
  chosen().show_sort = true;
  if (!table().is_log()) chosen().selected = 0;
  dirty_ = true;
}

void TopView::Search(const DashboardModel& model, int64_t from) {
  Refresh(model);
  if (search_.empty()) return;
  const auto rows = static_cast<int64_t>(order_.size());
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t at = (chosen().selected + from + i) % rows;
    if (!table().Holds(model, order_[static_cast<size_t>(at)], search_)) continue;
    chosen().at_end = false;
    chosen().selected = at;
    return;
  }
}

void TopView::Refresh(const DashboardModel& model) {
  if (dirty_ || order_version_ != model.version()) {
    dirty_ = false;
    order_version_ = model.version();
    order_ = table().Rows(model);
    all_rows_ = order_.size();
    const Chosen& how = chosen();
    if (!how.filter.empty()) {
      std::erase_if(order_, [&](int64_t row) { return !table().Holds(model, row, how.filter); });
    }
    // By the first column they come.
    if (how.sort != 0) {
      dashboard::SortRows(&order_, how.descending,
                          [&](int64_t row) { return table().KeyOf(model, row, how.sort); });
    } else if (how.descending) {
      std::reverse(order_.begin(), order_.end());
    }
  }
  const auto last = std::max<int64_t>(0, static_cast<int64_t>(order_.size()) - 1);
  chosen().selected = chosen().at_end ? last : std::min(chosen().selected, last);
}

// The selected row is on the screen, and no room is left empty.
void TopView::Scroll(int64_t page) {
  Chosen& how = chosen();
  how.top = std::clamp(how.top, how.selected - page + 1, how.selected);
  how.top = std::clamp<int64_t>(how.top, 0,
                                std::max<int64_t>(0, static_cast<int64_t>(order_.size()) - page));
}

int TopView::DrawHead(const DashboardModel& model, TextGrid* grid) const {
  int row = 0;
  DrawTitle(model, row++, grid);
  const size_t lines = grid->rows() >= kRoomyRows ? 2 : 1;
  for (const VerdictSentence* sentence : SentencesOf(model)) {
    const Look mark = {.style = StyleOfMood(sentence->mood), .bold = true};
    const Look look = {.style = sentence->mood == Mood::kBad       ? Style::kRed
                                : sentence->mood == Mood::kWarning ? Style::kYellow
                                                                   : Style::kPlain};
    grid->Put(row, 0, MoodMark(sentence->mood), mark);
    const std::vector<std::string> text = WrapText(sentence->text, grid->columns() - 2, lines);
    for (const std::string& line : text) grid->Put(row++, 2, line, look);
    if (text.empty()) ++row;
  }
  Remark remark = LinkRemark(model);
  if (remark.text.empty()) remark = WarningRemark(model);
  if (!remark.text.empty()) grid->Put(row, 0, "! ", {.style = remark.style, .bold = true});
  grid->Put(row++, 2, remark.text, {.style = remark.style});
  return row;
}

void TopView::DrawTabs(const DashboardModel& /*model*/, int row, TextGrid* grid) {
  int column = 0;
  for (size_t i = 0; i < tables_.size(); ++i) {
    std::string text = absl::StrCat(i + 1, " ", tables_[i]->name());
    if (i == current_) {
      absl::StrAppend(&text, " ", FormatCount(static_cast<int64_t>(order_.size())));
      if (!chosen().filter.empty()) {
        absl::StrAppend(&text, " of ", FormatCount(static_cast<int64_t>(all_rows_)));
      }
    }
    const Look look = {.style = i == current_ ? Style::kPlain : Style::kDim, .bold = i == current_};
    column += grid->Put(row, column, i == current_ ? absl::StrCat("[", text, "]") : text, look) + 2;
  }
}

void TopView::DrawTable(const DashboardModel& model, int row, TextGrid* grid) {
  Chosen& how = chosen();
  std::vector<Place> places = PlacesOf(table().columns(), how.first_column, grid->columns());
  if (std::exchange(how.show_sort, false) && how.sort > 0) {
    how.first_column = std::min(how.first_column, how.sort);
    for (;;) {
      places = PlacesOf(table().columns(), how.first_column, grid->columns());
      if (places.back().column >= how.sort || how.first_column >= how.sort) break;
      ++how.first_column;
    }
  }
  DrawHeader(table(), places, how.sort, how.descending, row, grid);
  grid->Paint(row, 0, grid->columns(), {.style = Style::kCyan, .reverse = true});
  ++row;
  page_ = std::max(1, grid->rows() - 1 - row);
  Scroll(page_);
  if (order_.empty()) {
    const std::string why =
        all_rows_ > 0 ? "No row has this text. Esc in the filter (\\) shows all of them again."
                      : table().WhyEmpty(model);
    for (const std::string& line : WrapText(why, grid->columns(), 3)) {
      grid->Put(row++, 0, line, {.style = Style::kDim});
    }
    return;
  }
  for (int64_t i = how.top; i < how.top + page_ && i < static_cast<int64_t>(order_.size()); ++i) {
    DrawRow(table(), model, order_[static_cast<size_t>(i)], places, row, grid);
    if (i == how.selected) grid->Paint(row, 0, grid->columns(), {.reverse = true});
    ++row;
  }
}

void TopView::DrawKeys(TextGrid* grid) {
  const int row = grid->rows() - 1;
  if (mode_ == Mode::kFilter || mode_ == Mode::kSearch) {
    int column =
        grid->Put(row, 0, mode_ == Mode::kFilter ? "Filter: " : "Search: ", {.bold = true});
    column += grid->Put(row, column, mode_ == Mode::kFilter ? chosen().filter : search_);
    grid->Put(row, column, " ", {.reverse = true});
    return;
  }
  int column = paused_ ? grid->Put(row, 0, "PAUSED ", {.style = Style::kYellow, .bold = true}) : 0;
  static constexpr std::pair<const char*, const char*> kKeys[] = {
      {"F1", "Help"},  {"F3", "Search"}, {"F4", "Filter"},   {"F6", "Sort"},
      {"I", "Invert"}, {"v", "Why"},     {"Space", "Pause"}, {"q", "Quit"}};
  for (const auto& [key, what] : kKeys) {
    if (column + ColumnsOf(key) + 1 + ColumnsOf(what) > grid->columns()) break;
    column += grid->Put(row, column, key, {.bold = true}) + 1;
    column += grid->Put(row, column, what, {.style = Style::kCyan}) + 2;
  }
}

void TopView::DrawLines(const std::vector<std::string>& lines, int row, TextGrid* grid) const {
  for (const std::string& line : lines) {
    if (row >= grid->rows() - 1) return;
    grid->Put(row++, 0, line);
  }
}

std::vector<std::string> TopView::RowLines(const DashboardModel& model, int width) {
  std::vector<std::string> lines;
  const int64_t id = order_[static_cast<size_t>(chosen().selected)];
  for (size_t i = 0; i < table().columns().size(); ++i) {
    std::string head(table().columns()[i].name);
    head.resize(std::max<size_t>(head.size() + 2, 12), ' ');
    AppendWrapped(head, table().CellOf(model, id, static_cast<int>(i)).text, width, &lines);
  }
  return lines;
}

TextGrid TopView::Draw(const DashboardModel& model, const GridOptions& options) {
  TextGrid grid(options);
  if (options.columns < kMinColumns || options.rows < kMinRows) {
    grid.Put(0, 0, absl::StrCat("too small: ", kMinColumns, "x", kMinRows, " needed"));
    return grid;
  }
  Refresh(model);
  if (order_.empty() && mode_ == Mode::kRow) mode_ = Mode::kTable;
  DrawKeys(&grid);
  switch (mode_) {
    case Mode::kHelp:
      DrawLines(HelpLines(options.columns), 0, &grid);
      return grid;
    case Mode::kSentences:
      DrawLines(SentenceLines(model, options.columns), 0, &grid);
      return grid;
    case Mode::kRow:
      DrawLines(RowLines(model, options.columns), 0, &grid);
      return grid;
    default:
      break;
  }
  int row = DrawHead(model, &grid);
  DrawTabs(model, row++, &grid);
  DrawTable(model, row, &grid);
  return grid;
}

std::string OnceText(const DashboardModel& model, const GridOptions& options) {
  std::string text;
  GridOptions line_options = options;
  line_options.rows = 1;
  const auto add = [&](auto draw) {
    TextGrid line(line_options);
    draw(&line);
    absl::StrAppend(&text, line.Line(0), "\n");
  };
  add([&](TextGrid* line) { DrawTitle(model, 0, line); });
  if (const Remark remark = LinkRemark(model); !remark.text.empty()) {
    add([&](TextGrid* line) { line->Put(0, 0, absl::StrCat("! ", remark.text)); });
  }
  for (const VerdictSentence* sentence : SentencesOf(model)) {
    add([&](TextGrid* line) {
      line->Put(0, 0, absl::StrCat(MoodMark(sentence->mood), " ", sentence->text));
    });
  }
  for (const dashboard::Warning* warning : model.warnings()) {
    add([&](TextGrid* line) {
      line->Put(0, 0, absl::StrCat(MoodMark(warning->mood), " ", warning->text));
    });
  }
  for (const std::unique_ptr<TopTable>& table : MakeTopTables()) {
    std::vector<int64_t> rows = table->Rows(model);
    if (rows.empty()) continue;
    if (table->is_log() && rows.size() > kLastLines) {
      rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(kLastLines));
    }
    absl::StrAppend(&text, "\n");
    const std::vector<Place> places = PlacesOf(table->columns(), 1, options.columns);
    add([&](TextGrid* line) {
      DrawHeader(*table, places, /*sort=*/-1, /*descending=*/false, 0, line);
    });
    for (const int64_t row : rows) {
      add([&](TextGrid* line) { DrawRow(*table, model, row, places, 0, line); });
    }
  }
  return text;
}

}  // namespace millrace::cli
