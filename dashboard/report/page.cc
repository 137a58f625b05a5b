#include "dashboard/report/page.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/net/sha256.h"
#include "dashboard/report/html_text.h"

namespace millrace::dashboard {
namespace {

// The window's colours (dashboard/views/theme.cc); on paper always the light ones.
constexpr char kStyle[] = R"css(
:root {
  color-scheme: light dark;
  --background: #e9ecf0; --panel: #fafbfc; --raised: #eff2f5; --grid: #d3d9e0; --text: #1d2530; --dim: #5d6875;
  --waiting: #98a2ae; --joined: #3a73c4; --good: #2a9352; --caution: #b0720a; --finished: #9dc3aa; --bad: #cb3a32;
  --s0: #0a7cc4; --s1: #c46a10; --s2: #2a9352; --s3: #9340b8; --s4: #8f7a00; --s5: #128a7c; --s6: #cb3a32;
  --s7: #4a5ad0;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --background: #0f1216; --panel: #161a20; --raised: #1d232b; --grid: #262c35; --text: #d7dde5; --dim: #8b95a3;
    --waiting: #6d7683; --joined: #4a86d8; --good: #3fb56b; --caution: #e2a33c; --finished: #3a6b4c; --bad: #e5534b;
    --s0: #4cc2ff; --s1: #f0a35e; --s2: #7ad17a; --s3: #d98cf0; --s4: #f2d35c; --s5: #5fd9c7; --s6: #ff8f8f;
    --s7: #a8b3ff;
  }
}
.waiting { --c: var(--waiting) } .joined { --c: var(--joined) } .good { --c: var(--good) }
.caution { --c: var(--caution) } .finished { --c: var(--finished) } .bad { --c: var(--bad) }
.neutral { --c: var(--dim) } .s0 { --c: var(--s0) } .s1 { --c: var(--s1) } .s2 { --c: var(--s2) }
.s3 { --c: var(--s3) } .s4 { --c: var(--s4) } .s5 { --c: var(--s5) } .s6 { --c: var(--s6) } .s7 { --c: var(--s7) }
* { box-sizing: border-box }
body { margin: 0; background: var(--background); color: var(--text);
  font: 15px/1.45 Inter, system-ui, sans-serif; font-variant-numeric: tabular-nums }
main { max-width: 980px; margin: 0 auto; padding: 16px }
section, header { background: var(--panel); border: 1px solid var(--grid); border-radius: 6px;
  padding: 12px 16px; margin-bottom: 12px }
h1 { font-size: 20px; margin: 0 } h2 { font-size: 16px; margin: 0 0 8px } h3 { font-size: 13px; margin: 10px 0 0 }
p { margin: 4px 0 } .dim, h3 { color: var(--dim); font-weight: normal } .small { font-size: 13px }
.verdict { display: flex; gap: 10px; margin-top: 8px }
.verdict .sign { color: var(--c); font-weight: bold; width: 1.2em; text-align: center; flex: none }
.verdict p { margin: 0; overflow-wrap: anywhere }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 0 }
dt { color: var(--dim) } dd { margin: 0; overflow-wrap: anywhere }
svg { display: block; width: 100%; height: auto; margin: 2px 0 }
svg text { font-size: 11px; fill: var(--dim) } svg text.word { font-size: 10px; fill: var(--text) }
.grid { stroke: var(--grid) } .line { fill: none; stroke: var(--c); stroke-width: 1.4; stroke-linejoin: round }
.fill { fill: var(--c); fill-opacity: .16 } .stack { fill: var(--c); fill-opacity: .7 }
.bar { fill: var(--c); fill-opacity: .5 }
.rule { stroke: var(--c); stroke-dasharray: 2 3; opacity: .7 } .rule.first { stroke-dasharray: none; opacity: 1 }
.mark path { fill: var(--c) }
.legend { font-size: 12px; color: var(--dim) }
.key { display: inline-block; width: 10px; height: 10px; margin: 0 4px 0 10px; background: var(--c);
  print-color-adjust: exact; -webkit-print-color-adjust: exact }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: 13px }
th { text-align: left; color: var(--dim); font-weight: normal; border-bottom: 1px solid var(--grid); white-space: nowrap }
th, td { padding: 3px 8px 3px 0; vertical-align: top } td { border-bottom: 1px solid var(--raised) }
th.n, td.n { text-align: right; white-space: nowrap } td.t { overflow-wrap: anywhere; min-width: 12em }
td.state { color: var(--c); white-space: nowrap } .finished td.state { color: var(--dim) } tr.first td { font-weight: bold }
tr.folded td.t { padding-left: 16px; color: var(--dim) }
.sorts th { cursor: pointer } .sorts th[aria-sort=ascending]::after { content: " ▲" }
.sorts th[aria-sort=descending]::after { content: " ▼" }
pre { background: var(--raised); padding: 8px; margin: 4px 0; font: 12px/1.4 "JetBrains Mono", ui-monospace, monospace;
  white-space: pre-wrap; overflow-wrap: anywhere }
input { font: inherit; color: inherit; background: var(--raised); border: 1px solid var(--grid); border-radius: 4px;
  padding: 2px 8px; margin-bottom: 6px }
@media print {
  @page { margin: 12mm }
  body { background: none; font-size: 11pt } main { max-width: none; padding: 0 }
  section, header { background: none; border: 0; padding: 0; margin-bottom: 6mm }
  svg, tr, pre, .verdict { break-inside: avoid } h2, h3, .legend { break-after: avoid }
  thead { display: table-header-group } table { font-size: 9pt } .wide { overflow: visible } input { display: none }
}
)css";

// Sorts the table of nodes by the column that is clicked, and shows the rows that contain what is
// typed. Without it the page says the same.
constexpr char kScript[] = R"js(
"use strict";
for (const table of document.querySelectorAll("table.sorts")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  };
  const sort = (head) => {
    const column = heads.indexOf(head);
    const down = head.ariaSort !== "descending" && head.classList.contains("n") || head.ariaSort === "ascending";
    for (const each of heads) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const unknown = (x) => x === "–" || x === "";
    const rows = [...body.rows].sort((a, b) => {
      const x = value(a, column), y = value(b, column);
      if (unknown(x) || unknown(y)) return unknown(x) - unknown(y);
      const order = typeof x === "number" && typeof y === "number" ? x - y : String(x) < String(y) ? -1 : 1;
      return down ? -order : order;
    });
    body.append(...rows);
  };
  for (const head of heads) {
    head.tabIndex = 0;
    head.addEventListener("click", () => sort(head));
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(head); });
  }
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "filter";
  field.setAttribute("aria-label", "filter");
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase();
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  table.parentElement.before(field);
}
)js";

// As a policy names what is within a page.
std::string Named(absl::string_view content) {
  return absl::StrCat("'sha256-", absl::Base64Escape(absl::HexStringToBytes(Sha256Hex(content))),
                      "'");
}

}  // namespace

std::string Page(absl::string_view title, absl::string_view body) {
  return absl::StrCat(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src ",
      Named(kStyle), "; script-src ", Named(kScript),
      "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      EscapeHtml(title), "</title>\n<style>", kStyle, "</style>\n</head>\n<body>\n<main>\n", body,
      "</main>\n<script>", kScript, "</script>\n</body>\n</html>\n");
}

}  // namespace millrace::dashboard
