// File: dashboard/app/window.h
//
// A window with an OpenGL context and ImGui in it. GLFW and OpenGL are seen by this file's source
// only.
//
// Defines: Window, WindowOptions.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto window, Window::Open({.title = "Millrace"}));
//   while (!window->should_close()) {
//     window->Wait(absl::Milliseconds(250));
//     window->Frame([&] { shell.Draw(); });
//   }
//
// Thread safety: main thread only, except Wake(). One window at a time. Blocking: Wait() as it
// says; Frame() until the display has taken the frame.

#ifndef DASHBOARD_APP_WINDOW_H_
#define DASHBOARD_APP_WINDOW_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace millrace::dashboard {

struct WindowOptions {
  std::string title = "Millrace";
  int width = 0;
  int height = 0;
  // Not shown; frames are drawn into memory of exactly this size, whatever the screen's.
  bool off_screen = false;
  // 0: of the monitor.
  float scale = 0;
};

struct Pixels {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> rgba;  // rows from the top
};

class Window {
 public:
  // Creates ImGui's and ImPlot's contexts too. Returns UNAVAILABLE if there is no display or no
  // OpenGL 3.2, saying what to do.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Window>> Open(const WindowOptions& options);
  virtual ~Window() = default;

  // Between 0.5 and 4: of HiDPI.
  [[nodiscard]] virtual float scale() const = 0;
  [[nodiscard]] virtual bool should_close() const = 0;
  virtual void Close() = 0;
  // Waits for input, Wake() or the time to be over, and takes the input. Returns whether there was
  // any.
  virtual bool Wait(absl::Duration at_most) = 0;
  // NewFrame, `draw`, Render, and shows it.
  virtual void Frame(absl::FunctionRef<void()> draw) = 0;
  // What the last Frame() drew.
  [[nodiscard]] virtual absl::StatusOr<Pixels> Read() = 0;
  virtual void SetTitle(const std::string& title) = 0;
  virtual void CopyText(const std::string& text) = 0;
  // Releases the textures. Objects that have textures of their own (CellGrid) must be destroyed
  // after this call and before the destructor, which ends ImGui.
  virtual void ShutDownRenderer() = 0;

  // Ends a Wait() from any thread; does nothing without a window.
  static void Wake();
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_APP_WINDOW_H_
