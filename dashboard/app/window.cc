#include "dashboard/app/window.h"

#include <algorithm>
#include <cstring>
#include <utility>

#define GLFW_INCLUDE_NONE
#include "GLFW/glfw3.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/mutex.h"
#include "imgui.h"
#include "imgui_impl_glfw.h"
#include "imgui_impl_opengl3.h"
#include "imgui_internal.h"
#include "implot.h"

namespace millrace::dashboard {
namespace {

// The little of OpenGL that ImGui's renderer does not do itself.
constexpr unsigned kColorBufferBit = 0x4000;
constexpr unsigned kFramebuffer = 0x8D40;
constexpr unsigned kRenderbuffer = 0x8D41;
constexpr unsigned kColorAttachment = 0x8CE0;
constexpr unsigned kRgba8 = 0x8058;
constexpr unsigned kRgba = 0x1908;
constexpr unsigned kUnsignedByte = 0x1401;
constexpr unsigned kFramebufferComplete = 0x8CD5;

struct Gl {
  void (*Viewport)(int, int, int, int) = nullptr;
  void (*ClearColor)(float, float, float, float) = nullptr;
  void (*Clear)(unsigned) = nullptr;
  void (*ReadPixels)(int, int, int, int, unsigned, unsigned, void*) = nullptr;
  void (*GenFramebuffers)(int, unsigned*) = nullptr;
  void (*BindFramebuffer)(unsigned, unsigned) = nullptr;
  void (*GenRenderbuffers)(int, unsigned*) = nullptr;
  void (*BindRenderbuffer)(unsigned, unsigned) = nullptr;
  void (*RenderbufferStorage)(unsigned, unsigned, int, int) = nullptr;
  void (*FramebufferRenderbuffer)(unsigned, unsigned, unsigned, unsigned) = nullptr;
  unsigned (*CheckFramebufferStatus)(unsigned) = nullptr;

  [[nodiscard]] bool Load() {
    return Get("glViewport", &Viewport) && Get("glClearColor", &ClearColor) &&
           Get("glClear", &Clear) && Get("glReadPixels", &ReadPixels) &&
           Get("glGenFramebuffers", &GenFramebuffers) &&
           Get("glBindFramebuffer", &BindFramebuffer) &&
           Get("glGenRenderbuffers", &GenRenderbuffers) &&
           Get("glBindRenderbuffer", &BindRenderbuffer) &&
           Get("glRenderbufferStorage", &RenderbufferStorage) &&
           Get("glFramebufferRenderbuffer", &FramebufferRenderbuffer) &&
           Get("glCheckFramebufferStatus", &CheckFramebufferStatus);
  }

  template <typename Function>
  static bool Get(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(glfwGetProcAddress(name));
    return *function != nullptr;
  }
};

// Whether Wake() may call GLFW. Sources outlive the window, and their threads may be inside of
// Wake() while it closes: the lock is held over the call. Never destroyed, for the same reason.
struct WakeGate {
  Mutex mu;
  bool open ABSL_GUARDED_BY(mu) = false;

  void Set(bool now) {
    MutexLock lock(&mu);
    open = now;
  }
};

WakeGate& Gate() {
  static auto* const gate = new WakeGate;
  return *gate;
}

std::string LastGlfwError() {
  const char* text = nullptr;
  return glfwGetError(&text) == GLFW_NO_ERROR || text == nullptr ? "no reason given" : text;
}

class GlfwWindow : public Window {
 public:
  GlfwWindow(const WindowOptions& options, GLFWwindow* window, const Gl& gl)
      : options_(options), window_(window), gl_(gl) {
    ImGui::CreateContext();
    ImPlot::CreateContext();
    ImGuiIO& io = ImGui::GetIO();
    io.IniFilename = nullptr;  // the app decides where
    io.ConfigFlags |= ImGuiConfigFlags_DockingEnable | ImGuiConfigFlags_NavEnableKeyboard;
    io.ConfigWindowsMoveFromTitleBarOnly = true;
    io.ConfigDockingWithShift = true;
    ImGui_ImplGlfw_InitForOpenGL(window_, !options_.off_screen);
    ImGui_ImplOpenGL3_Init("#version 150");
    glfwSetWindowUserPointer(window_, this);
    Gate().Set(true);
  }

  ~GlfwWindow() override {
    Gate().Set(false);
    ShutDownRenderer();
    ImPlot::DestroyContext();
    ImGui::DestroyContext();
    glfwDestroyWindow(window_);
    glfwTerminate();
  }

  [[nodiscard]] absl::Status PrepareOffScreen() {
    if (!options_.off_screen) return absl::OkStatus();
    unsigned color = 0;
    gl_.GenFramebuffers(1, &frame_buffer_);
    gl_.BindFramebuffer(kFramebuffer, frame_buffer_);
    gl_.GenRenderbuffers(1, &color);
    gl_.BindRenderbuffer(kRenderbuffer, color);
    gl_.RenderbufferStorage(kRenderbuffer, kRgba8, options_.width, options_.height);
    gl_.FramebufferRenderbuffer(kFramebuffer, kColorAttachment, kRenderbuffer, color);
    if (gl_.CheckFramebufferStatus(kFramebuffer) != kFramebufferComplete) {
      return absl::InvalidArgumentError(absl::StrCat("OpenGL cannot draw into ", options_.width,
                                                     " x ", options_.height,
                                                     " pixels: ask for fewer"));
    }
    return absl::OkStatus();
  }

  [[nodiscard]] float scale() const override {
    if (options_.scale > 0) return std::clamp(options_.scale, 0.5F, 4.0F);
    if (options_.off_screen) return 1;
    float x = 1;
    float y = 1;
    glfwGetWindowContentScale(window_, &x, &y);
    return std::clamp(x, 0.5F, 4.0F);
  }

  [[nodiscard]] bool should_close() const override { return glfwWindowShouldClose(window_) != 0; }
  void Close() override { glfwSetWindowShouldClose(window_, GLFW_TRUE); }

  bool Wait(absl::Duration at_most) override {
    if (at_most > absl::ZeroDuration()) {
      glfwWaitEventsTimeout(absl::ToDoubleSeconds(at_most));
    } else {
      glfwPollEvents();
    }
    // What GLFW's callbacks have told ImGui: a Wake() is no input.
    return !ImGui::GetCurrentContext()->InputEventsQueue.empty();
  }

  void Frame(absl::FunctionRef<void()> draw) override {
    ImGui_ImplOpenGL3_NewFrame();
    ImGui_ImplGlfw_NewFrame();
    if (options_.off_screen) {
      ImGuiIO& io = ImGui::GetIO();
      io.DisplaySize =
          ImVec2(static_cast<float>(options_.width), static_cast<float>(options_.height));
      io.DisplayFramebufferScale = ImVec2(1, 1);
    }
    ImGui::NewFrame();
    draw();
    ImGui::Render();
    int width = options_.width;
    int height = options_.height;
    if (options_.off_screen) {
      gl_.BindFramebuffer(kFramebuffer, frame_buffer_);
    } else {
      glfwGetFramebufferSize(window_, &width, &height);
    }
    gl_.Viewport(0, 0, width, height);
    const ImVec4& background = ImGui::GetStyle().Colors[ImGuiCol_DockingEmptyBg];
    gl_.ClearColor(background.x, background.y, background.z, 1);
    gl_.Clear(kColorBufferBit);
    ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
    if (!options_.off_screen) glfwSwapBuffers(window_);
  }

  [[nodiscard]] absl::StatusOr<Pixels> Read() override {
    Pixels pixels;
    pixels.width = options_.width;
    pixels.height = options_.height;
    if (!options_.off_screen) glfwGetFramebufferSize(window_, &pixels.width, &pixels.height);
    const size_t row = static_cast<size_t>(pixels.width) * 4;
    std::vector<uint8_t> upside_down(row * pixels.height);
    gl_.ReadPixels(0, 0, pixels.width, pixels.height, kRgba, kUnsignedByte, upside_down.data());
    pixels.rgba.resize(upside_down.size());
    for (int y = 0; y < pixels.height; ++y) {
      std::memcpy(pixels.rgba.data() + row * y, upside_down.data() + row * (pixels.height - 1 - y),
                  row);
    }
    return pixels;
  }

  void SetTitle(const std::string& title) override { glfwSetWindowTitle(window_, title.c_str()); }
  void CopyText(const std::string& text) override { ImGui::SetClipboardText(text.c_str()); }

  void ShutDownRenderer() override {
    if (!std::exchange(renderer_, false)) return;
    ImGui_ImplOpenGL3_Shutdown();
    ImGui_ImplGlfw_Shutdown();
  }

 private:
  const WindowOptions options_;
  GLFWwindow* const window_;
  const Gl gl_;
  unsigned frame_buffer_ = 0;
  bool renderer_ = true;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Window>> Window::Open(const WindowOptions& options) {
  if (glfwInit() == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot open a window: ", LastGlfwError(),
                     ". Without a screen run it as `xvfb-run -a ...` (Debian packages xvfb, xauth, "
                     "libgl1-mesa-dri), or use "
                     "--dump-json"));
  }
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 2);
  glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
  glfwWindowHint(GLFW_OPENGL_FORWARD_COMPAT, GLFW_TRUE);
  glfwWindowHint(GLFW_VISIBLE, options.off_screen ? GLFW_FALSE : GLFW_TRUE);
  glfwWindowHint(GLFW_SCALE_TO_MONITOR, GLFW_TRUE);
  GLFWwindow* window = glfwCreateWindow(options.off_screen ? 64 : options.width,
                                        options.off_screen ? 64 : options.height,
                                        options.title.c_str(), nullptr, nullptr);
  if (window == nullptr) {
    const std::string reason = LastGlfwError();
    glfwTerminate();
    return absl::UnavailableError(
        absl::StrCat("no OpenGL 3.2 on this display: ", reason,
                     ". Mesa's software renderer will do (Debian package libgl1-mesa-dri)"));
  }
  glfwMakeContextCurrent(window);
  glfwSwapInterval(options.off_screen ? 0 : 1);
  Gl gl;
  if (!gl.Load()) {
    glfwDestroyWindow(window);
    glfwTerminate();
    return absl::UnavailableError("this OpenGL lacks functions of version 3.0");
  }
  auto opened = std::make_unique<GlfwWindow>(options, window, gl);
  if (const absl::Status status = opened->PrepareOffScreen(); !status.ok()) return status;
  return opened;
}

void Window::Wake() {
  MutexLock lock(&Gate().mu);
  if (Gate().open) glfwPostEmptyEvent();  // does not wait
}

}  // namespace millrace::dashboard
