// File: dashboard/app/text_audit.h
//
// Finds text that a person could not read in the frame that ImGui has just rendered: letters that a
// clip rectangle cuts, letters upon other letters, content that reaches beyond a window or a column
// without a way to scroll to it, tabs that shortened their name.
//
// Defines: FindUnreadableText(), VisibleLetters().
//
//   ImGui::Render();
//   EXPECT_THAT(FindUnreadableText(), IsEmpty());
//
// For tests. It looks at draw lists and ImGui's internals, not at what panels say about themselves.
// Lines that stand half within a list that scrolls are no finding. Thread safety: as ImGui.

#ifndef DASHBOARD_APP_TEXT_AUDIT_H_
#define DASHBOARD_APP_TEXT_AUDIT_H_

#include <string>
#include <vector>

namespace millrace::dashboard {

// One line for each finding: window, place, text. Between Render() and the next NewFrame().
[[nodiscard]] std::vector<std::string> FindUnreadableText();

// All letters as they were drawn, without the spaces between them: whole sentences can be looked
// for.
[[nodiscard]] std::string VisibleLetters();

}  // namespace millrace::dashboard

#endif  // DASHBOARD_APP_TEXT_AUDIT_H_
