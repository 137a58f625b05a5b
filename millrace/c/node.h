// File: millrace/c/node.h
//
// What millrace_node is, for the other sources of libmillrace.so.
#ifndef MILLRACE_C_NODE_H_
#define MILLRACE_C_NODE_H_

#include <memory>
#include <string>

#include "millrace/c/millrace.h"
#include "millrace/node.h"

struct millrace_node {
  explicit millrace_node(millrace::NodeContext* of) : context(of), name(of->name()) {}

  millrace::NodeContext* const context;  // of RunNode, or `owned`
  const std::string name;
  std::unique_ptr<millrace::NodeContext> owned;  // null within millrace_run_node()
};

#endif  // MILLRACE_C_NODE_H_
