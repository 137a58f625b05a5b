// A library to be preloaded: the date of a process, as an offset has it that may change at any
// time. Waits until a date end when that date comes, as they do where somebody sets the machine's
// clock.
//
// The offset, in nanoseconds, is the first 8 bytes of the file that MILLRACE_CHAOS_CLOCK names; in
// a process without that variable it is what millrace_chaos_clock() points to.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BILLION 1000000000LL
#define SLICE_NS 20000000LL

static int64_t own_offset;
static volatile int64_t* offset = &own_offset;

typedef long (*syscall_function)(long, ...);
static syscall_function real_syscall;

__attribute__((constructor)) static void begin(void) {
  real_syscall = (syscall_function)dlsym(RTLD_NEXT, "syscall");
  const char* path = getenv("MILLRACE_CHAOS_CLOCK");
  if (path == NULL) return;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  void* mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped != MAP_FAILED) offset = mapped;
}

int64_t* millrace_chaos_clock(void) { return (int64_t*)offset; }

static syscall_function system_call(void) {
  if (real_syscall == NULL) real_syscall = (syscall_function)dlsym(RTLD_NEXT, "syscall");
  return real_syscall;
}

static int64_t nanoseconds(const struct timespec* time) {
  return (int64_t)time->tv_sec * BILLION + time->tv_nsec;
}

static void set(struct timespec* time, int64_t ns) {
  time->tv_sec = ns / BILLION;
  time->tv_nsec = ns % BILLION;
}

static int real_gettime(clockid_t clock, struct timespec* time) {
  return (int)system_call()(SYS_clock_gettime, clock, time);
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  const int result = real_gettime(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    set(time, nanoseconds(time) + *offset);
  }
  return result;
}

int gettimeofday(struct timeval* restrict time, void* restrict zone) {
  (void)zone;
  struct timespec now;
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return result;
}

time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}

// A wait until a date, in slices, so that the date may jump meanwhile.
static long wait_until(long word, long operation, long value, const struct timespec* date,
                       long word2, long mask) {
  while (1) {
    struct timespec now;
    real_gettime(CLOCK_REALTIME, &now);
    const int64_t left = nanoseconds(date) - *offset - nanoseconds(&now);
    struct timespec until;
    set(&until, nanoseconds(&now) + (left < SLICE_NS ? left : SLICE_NS));
    const long result = system_call()(SYS_futex, word, operation, value, &until, word2, mask);
    if (result == 0 || errno != ETIMEDOUT || left <= SLICE_NS) return result;
  }
}

long syscall(long number, ...) {
  long a[6];
  va_list arguments;
  va_start(arguments, number);
  for (int i = 0; i < 6; ++i) a[i] = va_arg(arguments, long);
  va_end(arguments);
  const long timed = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
  if (number == SYS_futex && (a[1] & ~(long)FUTEX_PRIVATE_FLAG) == timed && a[3] != 0) {
    return wait_until(a[0], a[1], a[2], (const struct timespec*)a[3], a[4], a[5]);
  }
  return system_call()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
