// File: dashboard/app/null_renderer.h
//
// What a renderer owes Dear ImGui where nothing is drawn: tests and benchmarks without a window.
//
// Defines: TakeTextures.

#ifndef DASHBOARD_APP_NULL_RENDERER_H_
#define DASHBOARD_APP_NULL_RENDERER_H_

namespace millrace::dashboard {

// Takes and lets go of textures as asked. After each ImGui::Render(), on its thread.
void TakeTextures();

}  // namespace millrace::dashboard

#endif  // DASHBOARD_APP_NULL_RENDERER_H_
