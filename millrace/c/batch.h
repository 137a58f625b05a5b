// File: millrace/c/batch.h
//
// What millrace_batch is, for the other sources of libmillrace.so.
#ifndef MILLRACE_C_BATCH_H_
#define MILLRACE_C_BATCH_H_

#include <mutex>
#include <string>
#include <utility>

#include "millrace/batch.h"
#include "millrace/c/millrace.h"

struct millrace_batch {
  explicit millrace_batch(millrace::Batch of) : rows(std::move(of)) {}

  const millrace::Batch rows;

  // Of millrace_batch_names().
  mutable std::once_flag names_made;
  mutable std::string names;
};

#endif  // MILLRACE_C_BATCH_H_
