// File: millrace/resume_options.h
//
// A cluster that outlives its driver: another one can take it over (Cluster::Resume) after the
// first was killed, or its machine was lost.
//
// Defines: ResumeOptions.
//
//   millrace::ClusterOptions options = {.num_executors = 4};
//   options.resume.state_folder = "/shared/run-17";
//   MILLRACE_ASSIGN_OR_RETURN(const bool there, millrace::Cluster::CanResume("/shared/run-17"));
//   auto cluster = there ? millrace::Cluster::Resume(launcher, program, options)
//                        : millrace::Cluster::Run(launcher, program, options);
//
// Only where agents outlive their driver (AdoptingLauncher). In InputMode FEED, not for programs
// that read with DataFeedOptions::equal.

#ifndef MILLRACE_RESUME_OPTIONS_H_
#define MILLRACE_RESUME_OPTIONS_H_

#include <string>

#include "absl/time/time.h"

namespace millrace {

struct ResumeOptions {
  // Where the driver writes down what the next one needs, before it tells anybody: a folder of this
  // cluster alone that nobody else may enter, since it will hold the cluster's secrets; made if it
  // is not there, and empty once the cluster has ended. On a disk that the next driver sees too,
  // which may be on another host: agents are told where it is, and need its first port.
  // Empty: nobody takes the cluster over.
  std::string state_folder;
  // How long agents and nodes wait for another driver before they end: from 1 s to 24 h. A host
  // that vanishes, or a connection that breaks, counts as a loss only after this time too, since
  // its node may live on.
  absl::Duration lease = absl::Minutes(5);
};

}  // namespace millrace

#endif  // MILLRACE_RESUME_OPTIONS_H_
