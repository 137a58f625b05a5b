#include "core/cli/help.h"

#include <map>

namespace millrace::cli {
namespace {

constexpr char kMain[] = R"(millrace: runs any program as a cluster, and shows what clusters do.

  millrace run -n 4 --num-ps 1 --master-node chief -- python3 train.py --epochs 3

Run
  run        start a program as the nodes of a cluster, here or on agents elsewhere
  agent-secret    make the secret by which drivers and agents elsewhere know each other

Look
  status     the cluster: its nodes, feeds, and why it failed (--watch: keep looking)
  nodes      every node: where it is, what it uses, what it published
  events     what happened (-f: and what happens)
  logs       the last lines of nodes (-f: and new ones)
  clusters   the clusters of this user on this machine
  resolve    where the members of any cluster are: Kubernetes, Slurm, Spark, TF_CONFIG, ...

Act
  kv         get, set, list and delete in the cluster's key-value store
  restart    end a node and start it again
  stop       end a cluster

  help [COMMAND], version

Every command has --help, with examples. Commands that look take --json: stable, documented in
docs/cli.md. Without --cluster they take this user's running cluster: of several those that look
take the newest, and those that act ask which.

Exit codes (run: those of the node that failed first)
  0    all is well              64   the command line makes no sense
  66   no such node, key, file  69   no running cluster, or it cannot be reached
  70   it failed otherwise      75   a time limit passed
  77   the token is not accepted
  141  nobody reads stdout any more

Environment
  MILLRACE_LOG=error|warning|info|debug   what millrace itself logs on stderr (warning)
  NO_COLOR                                no colours, also on a terminal
)";

constexpr char kRun[] = R"(usage: millrace run [OPTIONS] [--] PROGRAM [ARG...]

Starts PROGRAM as the nodes of a cluster on this machine, like mpirun: one process per node, each
told its place by its environment. Waits for the workers (chief included), then stops parameter
servers and evaluator. When a node fails all others are stopped, and one line tells the first cause.

  millrace run -n 4 -- python3 train.py
  millrace run -n 4 --num-ps 1 --master-node chief --log-dir logs -- ./train --epochs 3
  millrace run -n 2 --env OMP_NUM_THREADS=4 --timeout 10m -- ./train
  millrace run --on static --members @hosts.json --secret-file agents.json -- ./train

Nodes
  -n, --num-executors N         nodes in all, ps and evaluator included (1)
      --num-ps N                of them parameter servers, the first ones (0)
      --master-node chief|master    the node after them leads
      --eval-node               the node after that evaluates; all others are workers
      --restarts N              how often a node that fails is started again (0)
      --quarantine N/T          a node that fails N times within T is not (3/60s; never); on several
                                hosts: no node of a host on which so many failed
      --gpus-per-node N         GPUs that each node gets for itself (0)
      --keep-port               the node inherits its reserved port's socket; otherwise it is closed
                                just before the node starts
What they see
      --env NAME=VALUE          more environment; may be repeated. NAME alone takes the value that
                                it has here: every user of this machine can read a command line
      --working-dir DIR         where they run (here)
      --log-dir DIR             keep their whole output there, one file for each node and attempt
      --tensorboard             TensorBoard on --log-dir beside the chief, or else worker:0
What you see
      --output prefixed|raw|none    nodes' lines as "worker:1| line" (the default), bare, or not; a
                                terminal shows control characters escaped, unless raw
  -q, --quiet                   neither progress nor notes
Time: 90s, 10m, 1.5h, never
      --reservation-timeout T   until all nodes run (10m)
      --timeout T               for all of it (never)
      --stop-grace T            for a node that was asked to stop, until it is killed (5s)
      --stop-timeout T          for a node that somebody stopped (SIGSTOP), until it is killed (10s)
      --backoff T, --max-backoff T
                                before a restart (1s), doubled after each short run up to that (30s)

Elsewhere: on agents that listen (millrace-agent agent --listen), docs/hosts.md, docs/kubernetes.md
      --on SOURCE               static, kubernetes, slurm, tf-config, or the JSON of any resolver
                                (@FILE). Without -n the cluster has the nodes that it names; with -n
                                worker:2 is its task 2 of job worker, and so on
      --secret-file FILE, --secret-dir DIR
                                what the agents were given (millrace agent-secret)
      --ship                    send PROGRAM there; otherwise it is found there
      --members SPEC            static: {"worker": ["h0:7077", ...]}, or @FILE
      --job NAME=...            kubernetes: NAME=SELECTOR; slurm: NAME=TASKS; may be repeated
      --port N                  of the agents (7077)
      --job-port NAME=PORT      kubernetes: of a job's agents: a number, port name, annotation:KEY
      --expect NAME=TASKS       kubernetes: how many a job must have; may be repeated
      --namespace NAME, --all-namespaces, --require-ready, --kubeconfig FILE, --context NAME,
      --location WHERE, --address KIND, --cluster-domain NAME
                                kubernetes: as of millrace resolve kubernetes
      --poll-interval T         how often a source that does not tell by itself is asked (5s)
      --driver-host HOST        how agents reach this driver (as they see it)
      --bind ADDRESS            where the coordinator listens (0.0.0.0)
A pod that is replaced is adopted in its place, and its node starts again, within --restarts.

A node finds in its environment
  RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT    as torch.distributed wants it
  TF_CONFIG                                                 as tf.distribute wants it
  MILLRACE_CONTEXT_FILE                                     all of it (docs/control_protocol.md)
  PYTHONUNBUFFERED=1, unless it is set: Python's lines come as they are printed
Its stdin is empty. stdout goes to stdout, stderr to stderr, line by line; a line over 2 KiB comes
in parts, but raw. Nodes wait while nobody reads.

Ctrl-C (or SIGTERM, SIGHUP) stops the nodes in order: SIGTERM, then --stop-grace. Twice: kills them.
What was ignored before (nohup) stays ignored. Ctrl-Z pauses nodes of this machine until fg or bg;
--timeout and --stop-timeout do not count that.

Exit codes
  0         all nodes ended well
  N         that of the node that failed first; 128+S if signal S ended it (137: killed, or out of
            memory)
  64        the options make no sense
  69        a node's agent is gone
  75        --timeout or --reservation-timeout passed
  126, 127  PROGRAM cannot be executed, or is not there
  130       stopped by Ctrl-C (129: SIGHUP, 143: SIGTERM)
)";

constexpr char kAgentSecret[] =
    R"(usage: millrace agent-secret --file FILE|--dir DIR|--kubernetes NAME

Makes what drivers and the agents that they adopt have in common: a token, a certificate and its
key. Give it to both, and to nobody else: whoever has it runs programs as the agents.

  millrace agent-secret --file agents.json
  millrace agent-secret --kubernetes millrace-agent --namespace ml | kubectl apply -f -
  millrace-agent agent --listen 0.0.0.0:7077 --secret-file agents.json
  millrace run --on static --members @hosts.json --secret-file agents.json -- ./train

      --file FILE               one file, mode 0600
      --dir DIR                 files token, tls.crt and tls.key, mode 0600
      --kubernetes NAME         the manifest of a Secret, on stdout
      --namespace NAME          of that Secret (kubectl's)
      --replace                 one that is there; agents and drivers take the new one up at once,
                                and refuse those that have the old one
      --valid T                 for how long its certificate is valid (8760h, a year)
)";

#define MILLRACE_CLI_WHICH_CLUSTER                                                            \
  "Which cluster (without any: the one of yours that runs on this machine; of several the\n"  \
  "newest is shown, and none is acted upon)\n"                                                \
  "      --cluster ID|FILE         a cluster's id, the beginning of one, or a cluster file\n" \
  "      --connect HOST:PORT --ca FILE --identity FILE --token-file FILE\n"                   \
  "                                a coordinator elsewhere: its CA's certificate, a client\n" \
  "                                certificate with its key, a token\n"

constexpr char kStatus[] = R"(usage: millrace status [OPTIONS]

The cluster at a glance: its phase, every node's state and for how long, feeds, and what went wrong
first.

  millrace status
  millrace status --watch
  millrace status --json | jq -r '.nodes[] | select(.state != "running") | .node'

  -w, --watch                   keep looking, until the cluster is gone
      --interval T              how often (1s)
      --json                    one object; with --watch one a line

)" MILLRACE_CLI_WHICH_CLUSTER;

constexpr char kNodes[] = R"(usage: millrace nodes [OPTIONS]

Every node: address, pid, what its process uses, what it published (tensorboard=http://...).

  millrace nodes
  millrace nodes --json | jq '.nodes[].sample.rss_bytes'

  -w, --watch                   keep looking, until the cluster is gone
      --interval T              how often (1s)
      --json                    one object; with --watch one a line

)" MILLRACE_CLI_WHICH_CLUSTER;

constexpr char kEvents[] = R"(usage: millrace events [OPTIONS]

What happened, oldest first, in UTC: slots on their ladder, failures (the first cause is marked),
restarts, membership, feeds.

  millrace events -n 20
  millrace events -f --json

  -f, --follow                  and what happens, until the cluster is gone
  -n, --lines N                 so many to begin with, at most 2,048 (100)
      --json                    one object a line

)" MILLRACE_CLI_WHICH_CLUSTER;

constexpr char kLogs[] = R"(usage: millrace logs [OPTIONS] [NODE...]

The last lines that nodes wrote, as "worker:1| line"; all of them are in the cluster's log_dir.
NODE is a name (worker:1) or an executor id; without any: all nodes.

  millrace logs -f
  millrace logs -n 200 worker:1
  millrace logs -f --json chief:0

  -f, --follow                  and new ones, until the cluster is gone
  -n, --lines N                 so many of each node to begin with, at most 1,000 (20)
      --raw                     control characters as they are; otherwise a terminal shows them
                                escaped, and a pipe gets them
      --json                    one object a line

)" MILLRACE_CLI_WHICH_CLUSTER;

constexpr char kClusters[] = R"(usage: millrace clusters [OPTIONS]

The clusters whose drivers this user runs on this machine, newest first. Files of drivers that are
gone are removed.

      --json                    one object

Environment
  MILLRACE_CLUSTERS_DIR         where cluster files are (~/.millrace/clusters)
)";

constexpr char kKv[] = R"(usage: millrace kv get|set|list|delete ...

The key-value store that nodes meet in (kv() of the SDK, NodeContext).

  millrace kv set stage two
  millrace kv get stage --wait 30s
  millrace kv list model/
  millrace kv delete stage

  get KEY                       prints the value as it is
      --wait T                  for the key to come (not at all)
      --json                    {"key", "value"}, or "value_base64" where it is no UTF-8
  set KEY VALUE                 VALUE -: what stdin brings, at most 1 MiB
  list [PREFIX]                 keys in order, with the size of their values
      --limit N                 so many, at most 10,000 (1,000)
      --json                    {"keys": [{"key", "value_bytes"}], "more"}
  delete KEY

It takes the operator's token, which stands beside the cluster file. A key that is not there ends
with exit code 66, a --wait that is over with 75.

)" MILLRACE_CLI_WHICH_CLUSTER;

constexpr char kStop[] = R"(usage: millrace stop [OPTIONS]

Asks every node to end: SIGTERM, or what the SDK makes of it, then SIGKILL when the cluster's
stop_grace is over. Returns at once; the driver's calls end with CANCELLED and the reason.

  millrace stop --reason "moving to the other rack"

      --now                     kill them
      --reason TEXT             for the driver and the event log

It takes the operator's token, which stands beside the cluster file.

)" MILLRACE_CLI_WHICH_CLUSTER;

constexpr char kRestart[] = R"(usage: millrace restart [OPTIONS] NODE

Ends a node and starts it again as its next attempt: same role, fresh process, peers are told. NODE
is a name (worker:1) or an executor id.

  millrace restart worker:1

      --reason TEXT             for the event log
      --json                    {"node", "executor_id", "attempt"}

It takes the operator's token, which stands beside the cluster file.

)" MILLRACE_CLI_WHICH_CLUSTER;

#define MILLRACE_CLI_RESOLVE_COMMON                                                                \
  "What is printed\n"                                                                              \
  "      --format spec|tf_config|hosts|json\n"                                                     \
  "                                {\"worker\": [\"h:1\"]} (spec); TF_CONFIG of the task; lines\n" \
  "                                \"worker:0 h:1\"; or all that is known\n"                       \
  "      --json                    --format json\n"                                                \
  "  -w, --watch                   and every change, until Ctrl-C; faults go to stderr (json: "    \
  "into\n"                                                                                         \
  "                                the line) and it goes on\n"                                     \
  "      --poll-interval T         of sources that have to be asked (5s)\n"                        \
  "Who this is, if the source does not say\n"                                                      \
  "      --task-type JOB, --task-id N, --rpc-layer LAYER\n"

#define MILLRACE_CLI_RESOLVE_TENSORFLOW \
  "      --tensorflow              bug for bug as TensorFlow's resolver of this kind\n"

#define MILLRACE_CLI_RESOLVE_COMPLETE                                                     \
  "When they make a cluster\n"                                                            \
  "      --complete require_all|wait|available\n"                                         \
  "                                all or an error; wait for all; those that are there\n" \
  "      --wait-timeout T          for wait (10m)\n"

constexpr char kResolve[] = R"(usage: millrace resolve SOURCE [OPTIONS]

Where the members of a cluster are that something else has placed: prints its spec, and with --watch
every change of it.

  millrace resolve kubernetes --job ps=app=ps --job worker=app=worker --expect worker=4 --watch
  srun -n 5 millrace resolve slurm --job ps=1 --job worker=4 --format tf_config
  millrace resolve spark http://driver:4040 --job ps=1 --job worker=rest --format hosts

  static SPEC        a spec in hand, or TF_CONFIG's "cluster" (@FILE)
  tf-config          the environment variable TF_CONFIG
  slurm              the tasks of the Slurm step that this runs in
  kubernetes         pods, by label selectors
  spark URL          the executors of a Spark application, by its UI's REST API
  cluster            the nodes of a running Millrace cluster
  union              several of these as one

millrace resolve SOURCE --help tells the options of each; docs/kubernetes.md what pods need. What
else they do, and how they differ from TensorFlow's: the headers in resolver/.
)";

constexpr char kResolveStatic[] = R"(usage: millrace resolve static SPEC [OPTIONS]

A spec in hand: {"worker": ["h0:1", "h1:1"], "ps": {"1": "h2:1"}}, or @FILE with one.

  millrace resolve static '{"worker": ["h0:1", "h1:1"]}' --format hosts
  millrace resolve static @spec.json --format tf_config --task-type worker --task-id 1

      --master ADDRESS          of master() where no task is known
)" MILLRACE_CLI_RESOLVE_TENSORFLOW MILLRACE_CLI_RESOLVE_COMMON;

constexpr char kResolveTfConfig[] = R"(usage: millrace resolve tf-config [OPTIONS]

The cluster of the environment variable TF_CONFIG.

  millrace resolve tf-config --format hosts

      --environment NAME        in place of TF_CONFIG's
)" MILLRACE_CLI_RESOLVE_TENSORFLOW MILLRACE_CLI_RESOLVE_COMMON;

constexpr char kResolveSlurm[] = R"(usage: millrace resolve slurm [OPTIONS]

The tasks of the Slurm step that this process is in, by its SLURM_* variables; ranks are dealt to
jobs in the order given.

  srun -n 5 millrace resolve slurm --job ps=1 --job worker=4 --format tf_config

      --job NAME=TASKS          may be repeated (worker: all tasks)
      --port N                  of the first task of each host (8888)
      --gpus-per-node N         (those of this host)
      --gpus-per-task N         (those of the node, divided by its tasks)
      --tasks-per-node N        (what Slurm says)
)" MILLRACE_CLI_RESOLVE_TENSORFLOW MILLRACE_CLI_RESOLVE_COMMON;

constexpr char kResolveKubernetes[] =
    R"(usage: millrace resolve kubernetes [OPTIONS]

Pods by label selectors. Within a pod its service account is used, otherwise ~/.kube/config. A watch
is pushed by the API server. Rights, identity and ports: docs/kubernetes.md.

  millrace resolve kubernetes --job worker=job-name=train --expect worker=4 --complete wait
  millrace resolve kubernetes --job ps=app=ps --job worker='app=worker,tier!=test' --watch

Which pods
      --job NAME=SELECTOR       may be repeated, also for one job (worker=job-name=tensorflow)
      --namespace NAME          (the pod's own, or the context's)
      --all-namespaces          takes a ClusterRole
      --location automatic|within_cluster|off_cluster
      --kubeconfig FILE, --context NAME
Addresses
      --port N                  of each task (8470)
      --job-port NAME=PORT      of a job: a number, a container port's name, annotation:KEY
      --address pod_ip|host_ip|dns    (pod_ip)
      --cluster-domain NAME     for dns (cluster.local)
)" MILLRACE_CLI_RESOLVE_COMPLETE
    R"(      --expect NAME=TASKS       how many a job must have; may be repeated
      --require-ready           only pods that are Ready
      --timeout T               for one answer of the API server (30s)
      --max-backoff T           between attempts of a watch to reach it again (30s)
)" MILLRACE_CLI_RESOLVE_TENSORFLOW MILLRACE_CLI_RESOLVE_COMMON;

constexpr char kResolveSpark[] = R"(usage: millrace resolve spark URL [OPTIONS]

The active executors of a running Spark application, from the monitoring REST API at URL: the
driver's UI (http://driver:4040) or a History Server. They are dealt by id to ps, chief, evaluator,
other jobs, worker.

  millrace resolve spark http://driver:4040 --job ps=1 --job worker=rest --port 2222
  millrace resolve spark http://driver:4040 --watch --poll-interval 1s --json

      --application ID          (the only one that runs there)
      --executor ID             the one that this process runs on: its task is then known
      --job NAME=TASKS          may be repeated; NAME=rest: all that are left (worker=rest)
      --port N                  of the first task of each host (2222)
      --job-port NAME=PORT      the same of one job
      --ca FILE                 whom https believes (the system's authorities)
      --insecure-skip-verify    believe everyone
)" MILLRACE_CLI_RESOLVE_COMPLETE R"(      --timeout T               for one answer (10s)
)" MILLRACE_CLI_RESOLVE_COMMON;

constexpr char kResolveCluster[] = R"(usage: millrace resolve cluster [OPTIONS]

The nodes of a running Millrace cluster, from its coordinator, which also pushes a watch.

  millrace resolve cluster --format hosts
  millrace resolve cluster --cluster 3f --complete wait --wait-timeout 2m

)" MILLRACE_CLI_RESOLVE_COMPLETE R"(      --timeout T               for one answer (10s)
)" MILLRACE_CLI_RESOLVE_COMMON "\n" MILLRACE_CLI_WHICH_CLUSTER;

constexpr char kResolveUnion[] = R"(usage: millrace resolve union [OPTIONS] [FILE]

Several sources as one cluster. Each is described in JSON: {"type": "static", ...}, or tf_config,
slurm, kubernetes, spark, cluster, union, with the members that stand in resolver/*from_json.h. FILE
holds a list of them, or the union itself: {"type": "union", "resolvers": [...]}.

  millrace resolve union --resolver '{"type": "static", "cluster_spec": {"ps": ["h0:1"]}}' \
      --resolver '{"type": "spark", "url": "http://driver:4040"}' --watch

      --resolver JSON|@FILE     may be repeated
)" MILLRACE_CLI_RESOLVE_TENSORFLOW MILLRACE_CLI_RESOLVE_COMMON;

constexpr char kVersion[] = R"(usage: millrace version

Prints the version and those of the protocols.
)";

const std::map<absl::string_view, absl::string_view>& Topics() {
  static const auto* const topics =
      new std::map<absl::string_view, absl::string_view>{{"", kMain},
                                                         {"agent-secret", kAgentSecret},
                                                         {"clusters", kClusters},
                                                         {"events", kEvents},
                                                         {"kv", kKv},
                                                         {"kv delete", kKv},
                                                         {"kv get", kKv},
                                                         {"kv list", kKv},
                                                         {"kv set", kKv},
                                                         {"logs", kLogs},
                                                         {"nodes", kNodes},
                                                         {"resolve", kResolve},
                                                         {"resolve cluster", kResolveCluster},
                                                         {"resolve kubernetes", kResolveKubernetes},
                                                         {"resolve slurm", kResolveSlurm},
                                                         {"resolve spark", kResolveSpark},
                                                         {"resolve static", kResolveStatic},
                                                         {"resolve tf-config", kResolveTfConfig},
                                                         {"resolve union", kResolveUnion},
                                                         {"restart", kRestart},
                                                         {"run", kRun},
                                                         {"status", kStatus},
                                                         {"stop", kStop},
                                                         {"version", kVersion}};
  return *topics;
}

}  // namespace

absl::string_view HelpText(absl::string_view command) {
  const auto found = Topics().find(command);
  return found == Topics().end() ? absl::string_view(kMain) : found->second;
}

std::vector<std::string> HelpTopics() {
  std::vector<std::string> names;
  for (const auto& [name, text] : Topics()) names.emplace_back(name);
  return names;
}

}  // namespace millrace::cli
