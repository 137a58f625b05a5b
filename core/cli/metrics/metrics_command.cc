#include "core/cli/metrics/metrics_command.h"

#include <unistd.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/cli/metrics/cluster_metrics.h"
#include "core/cli/metrics/exporter.h"
#include "core/cli/output/answer.h"
#include "core/cli/output/report_error.h"
#include "core/client/cluster_view.h"
#include "core/client/raw_cluster_client.h"
#include "millrace/status_macros.h"

namespace millrace::cli {
namespace {

bool IsChosen(const ClusterChoice& choice) {
  return !choice.cluster.empty() || !choice.connect.empty();
}

absl::StatusOr<std::unique_ptr<Exporter>> MakeExporter(const ClusterChoice& choice) {
  if (!IsChosen(choice)) return std::make_unique<Exporter>(ClustersOfThisUser);
  MILLRACE_ASSIGN_OR_RETURN(const ClusterClientOptions chosen, OptionsOf(choice, Purpose::kLook));
  return std::make_unique<Exporter>([chosen] {
    return ClustersToWatch{.running = {{"", chosen}}};
  });
}

absl::Status Serve(const MetricsServerOptions& options, Exporter* exporter) {
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<MetricsServer> server,
      MetricsServer::Start(options, [exporter](const MetricsRequest& request) {
        return exporter->Scrape({.format = request.format, .nodes = request.nodes});
      }));
  MILLRACE_RETURN_IF_ERROR(WriteAnswer(absl::StrCat(MetricsUrl(options, server->port()), "\n")));
  while (true) pause();
}

// Whoever names a cluster hears why there is nothing of it.
absl::Status Print(const ClusterChoice& choice, const ClusterMetricsOptions& options) {
  if (IsChosen(choice)) {
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RawClusterClient> client,
                              ConnectTo(choice, Purpose::kLook));
    MILLRACE_ASSIGN_OR_RETURN(const ClusterView view, client->Snapshot());
    return WriteAnswer(ClusterMetrics({&view}, {}, options));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, Exporter(ClustersOfThisUser).Scrape(options));
  return WriteAnswer(text);
}

absl::Status MetricsOrError(const MetricsOptions& options) {
  if (!options.serve.has_value()) return Print(options.choice, {.nodes = options.nodes});
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Exporter> exporter, MakeExporter(options.choice));
  return Serve(*options.serve, exporter.get());
}

}  // namespace

int Metrics(const MetricsOptions& options) { return ReportError(MetricsOrError(options)); }

}  // namespace millrace::cli
