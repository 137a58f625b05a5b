// File: core/process/standard_streams.h
//
// stdin, stdout and stderr of a program that was started without some of them (`program >&-`).
//
//   int main() {
//     millrace::OpenStandardStreams();   // first of all

#ifndef CORE_PROCESS_STANDARD_STREAMS_H_
#define CORE_PROCESS_STANDARD_STREAMS_H_

namespace millrace {

// Opens /dev/null as each of the descriptors 0, 1 and 2 that is closed, so that no file or socket
// which is opened later gets its number, and with it what is meant for the terminal. Thread safety:
// before there are threads. Blocking: never.
void OpenStandardStreams();

}  // namespace millrace

#endif  // CORE_PROCESS_STANDARD_STREAMS_H_
