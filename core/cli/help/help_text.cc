#include "core/cli/help/help_text.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"

namespace millrace::cli {
namespace {

constexpr char kMain[] = R"(millrace runs any program as a cluster, and shows what clusters do.

  millrace run -n 4 --num-ps 1 --master-node chief -- python3 train.py --epochs 3

Run
  run        start a program as the nodes of a cluster, here or on agents on other hosts
  srun       the same on the hosts of a Slurm job
  agent-secret    make the secret by which drivers and those agents recognise each other
  doctor     what is in the way of clusters here, and at agents on other hosts

Look
  status     the cluster: its nodes, its feeds, and why it failed (--watch: keep looking)
  top        its sentences and tables on the whole terminal, and what changes in them
  nodes      every node: where it is, what it uses, what it published
  events     what happened (-f: and what happens next)
  logs       the last lines of nodes (-f: and new ones)
  clusters   this user's clusters on this machine
  metrics    clusters in numbers, for Prometheus: once, or at a port
  resolve    where the members of any cluster are: Kubernetes, Slurm, Spark, TF_CONFIG, ...

Act
  kv         get, set, list and delete keys in the cluster's key-value store
  restart    end a node and start it again
  stop       end a cluster

Itself
  help       the text of a command
  completion    a script by which bash, fish or zsh completes these commands
  version    the version of millrace and those of the protocols

Every command has --help, with examples. Commands that look take --json; its format is stable and
documented in docs/cli.md. Without --cluster, commands use this user's running cluster. If several
are running, commands that look use the newest, and commands that act ask you to name one.

Exit codes (run: that of the node that failed first)
  0    success                  64   the command line is wrong
  66   no such node, key, file  69   no cluster runs, or it cannot be reached
  70   any other failure        75   a time limit passed
  77   the token is not accepted
  141  nobody reads stdout any more

Environment
  MILLRACE_LOG=error|warning|info|debug   what millrace itself logs to stderr (warning)
  NO_COLOR                                no colours, not even on a terminal
)";

#define MILLRACE_CLI_AGENTS_OF_A_SOURCE                                                           \
  "      --members SPEC            static: {\"worker\": [\"h0:7077\", ...]}, or @FILE\n"          \
  "      --job NAME=...            kubernetes: NAME=SELECTOR; slurm: NAME=TASKS; may be "         \
  "repeated\n"                                                                                    \
  "      --port N                  the agents' port (7077)\n"                                     \
  "      --job-port NAME=PORT      kubernetes: the port of a job's agents: a number, a port "     \
  "name, or\n"                                                                                    \
  "                                annotation:KEY\n"                                              \
  "      --expect NAME=TASKS       kubernetes: how many tasks a job must have; may be repeated\n" \
  "      --namespace NAME, --all-namespaces, --require-ready, --kubeconfig FILE, --context "      \
  "NAME,\n"                                                                                       \
  "      --location WHERE, --address KIND, --cluster-domain NAME\n"                               \
  "                                kubernetes: see millrace resolve kubernetes --help\n"

// What takes a program: `run` and `srun`.
constexpr char kProgramOptions[] =
    R"(The cluster; T is 90s, 10m, 1.5h or never
      --name NAME               what status, top and the window call it, beside its id
  -n, --num-executors N         all nodes, including ps and evaluator (1)
      --num-ps N                how many of them, the first ones, are parameter servers (0)
      --master-node chief|master    makes the next node the chief, or the master
      --eval-node               makes the next node the evaluator; all others are workers
      --log-dir DIR             keep all of their output there, one file for each node and attempt
      --tensorboard             run TensorBoard on --log-dir, beside the chief or else worker:0
      --reservation-timeout T   until all nodes run (10m)
      --timeout T               for the whole run (never)
What nodes get (NodeOptions)
      --env NAME=VALUE          one more environment variable; may be repeated. NAME alone passes on
                                its value here; every user of this machine can read a command line
      --working-dir DIR         the folder in which they run (the current one)
      --stdin NODE|none         which node on this machine reads stdin: worker:1, say; by default
                                that of RANK 0, unless stdin is a terminal
      --keep-port               let the node inherit its reserved port's socket; otherwise it is
                                closed just before the node starts
      --gpus-per-node N         how many GPUs each node gets for itself (0)
What becomes of nodes that fail, and how long one may take to end (FailureOptions)
      --max-restarts N          how often a node that fails is started again (0)
      --initial-backoff T, --max-backoff T
                                before a restart (1s); doubled after each short run, up to (30s)
      --quarantine N/T          do not restart a node that fails N times within T (3/60s; never); on
                                several hosts: no node on a host where that many failed
      --stop-grace T            until a node that was asked to stop is killed (5s)
      --stop-timeout T          until a node that somebody stopped (SIGSTOP) is killed (10s)
What you see
      --output prefixed|raw|none    nodes' lines as "worker:1| line" (default), unchanged, or none;
                                a terminal shows control characters escaped, unless raw
      --timestamp-output        before each of these lines, when it came (UTC)
      --color auto|always|never     a colour for each node's prefix; auto (default): on a terminal,
                                unless NO_COLOR is set
      --metrics-port N          answer Prometheus there while the cluster runs (0: any free port),
                                as millrace metrics --port does, with the same options beside it:
      --metrics-address A, --metrics-scrape-token FILE, --metrics-certificate FILE,
      --metrics-key FILE, --metrics-client-ca FILE
  -q, --quiet                   no progress and no notes
)";

constexpr char kProgramEnvironment[] =
    R"(A node finds in its environment
  RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT                for torch.distributed
  LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, NODE_RANK       as torchrun and Lightning have them
  TF_CONFIG                                                 for tf.distribute
  MILLRACE_CONTEXT_FILE                                     everything (docs/control_protocol.md)
  PYTHONUNBUFFERED=1, unless it is set: Python's lines arrive as they are printed
Its stdin is empty, but for that of RANK 0 (--stdin). Its stdout goes to stdout and its stderr to
stderr, line by line; a line over 2 KiB arrives in parts, except with raw. A progress bar ("\r")
stays below the lines of a terminal until it is complete, and elsewhere is a line each time that it
changes. Nodes wait while nobody reads.
)";

constexpr char kRun[] =
    R"(usage: millrace run [OPTIONS] [--] PROGRAM [ARG...]

Starts PROGRAM as the nodes of a cluster on this machine, like mpirun: one process per node, which
finds its place in its environment. Waits for the workers (and the chief), then stops the parameter
servers (ps) and the evaluator. When a node fails, all others are stopped, and one line says what
failed first.

  millrace run -n 4 -- python3 train.py
  millrace run -n 4 --num-ps 1 --master-node chief --log-dir logs -- ./train --epochs 3
  millrace run -n 2 --env OMP_NUM_THREADS=4 --timeout 10m -- ./train
  millrace run --on static --members @hosts.json --secret-file agents.json -- ./train

)";

constexpr char kRunOn[] =
    R"(
On agents that listen (millrace-agent agent --listen): docs/hosts.md, docs/kubernetes.md
      --on SOURCE               static, kubernetes, dns, slurm, sagemaker, tf-config, or the JSON of
                                any resolver
                                (@FILE). Without -n the cluster has the nodes that the source names;
                                with -n, worker:2 is the source's task 2 of job worker, and so on
      --secret-file FILE, --secret-dir DIR
                                the secret of the agents (millrace agent-secret)
      --ship                    send PROGRAM to the agents; otherwise it must already be there
)" MILLRACE_CLI_AGENTS_OF_A_SOURCE
    R"(      --poll-interval T         how often to ask a source that does not report changes (5s)
      --driver-host HOST        the address at which agents reach this driver (the one they see)
      --bind-address ADDRESS    where the coordinator listens (0.0.0.0)
      --resumable FOLDER        keep in FOLDER what another millrace run needs: the same command
                                goes on where one that was killed left off. When all has ended,
                                FOLDER is empty. It holds secrets, and is this user's alone
      --resume-within T         how long nodes wait for it before they end (5m); a host that
                                vanishes is lost only after T, too
      --on-sigterm end|leave    end the cluster (default), or leave it to the next millrace run, as
                                for a pod of Kubernetes that is moved; Ctrl-C always ends it
When a pod is replaced, the new one takes its place and its node starts again (--max-restarts).

)";

constexpr char kRunEnd[] =
    R"(
Ctrl-C (or SIGTERM, SIGHUP) stops the nodes in order: SIGTERM, then --stop-grace. A second one kills
them. A signal that was ignored before (nohup) stays ignored. Ctrl-Z pauses the nodes on this
machine until fg or bg; --timeout and --stop-timeout do not count the pause. --on ignores it.

Exit codes
  0         all nodes ended well
  N         the exit code of the node that failed first; 128+S if signal S ended it (137: killed, or
            out of memory)
  64        the command line is wrong
  69        a node's agent is gone
  75        --timeout or --reservation-timeout passed
  126, 127  PROGRAM cannot be executed, or does not exist
  130       stopped by Ctrl-C (129: SIGHUP, 143: SIGTERM)
)";

constexpr char kSrun[] =
    R"(usage: millrace srun [OPTIONS] [--] PROGRAM [ARG...]

Starts PROGRAM as the nodes of a cluster on the hosts of a Slurm job, by one srun, as millrace run
does on one machine. Within salloc, or in a script that sbatch takes. The nodes are numbered as
Slurm numbers tasks, so that its distribution (block, cyclic, ...) decides which are on one host.

  salloc -N 2 -n 8 millrace srun -- python3 train.py
  millrace srun -n 4 --num-ps 1 --master-node chief --log-dir logs -- ./train --epochs 3
  millrace srun --srun-option=--distribution=cyclic -- ./train

Without -n the cluster has as many nodes as the job has tasks.

)";

constexpr char kSrunSlurm[] =
    R"(
What Slurm does (docs/slurm.md)
      --srun-option OPTION      one more option of srun, as --srun-option=--cpu-bind=none; may be
                                repeated
      --ship                    send PROGRAM to the hosts; otherwise it is there by the same path,
                                as millrace-agent must be
      --driver-host HOST        the address at which the hosts reach this driver (the one from which
                                srun reached them)
      --bind-address ADDRESS    where the coordinator listens (0.0.0.0)

)";

constexpr char kSrunEnd[] =
    R"(
When the driver ends, however it does, all nodes end. When Slurm ends the job or its step, or when
srun is killed, one line says so. Ctrl-C stops the nodes in order; Ctrl-Z is ignored.

Exit codes: those of millrace run, and
  69        there is no job, srun could not start the agents, or Slurm ended them
  75        also: the job's time limit
)";

constexpr char kAgentSecret[] =
    R"(usage: millrace agent-secret --file FILE|--dir DIR|--kubernetes NAME

Makes the secret that drivers share with the agents that they adopt: a token, and a certificate
with its key. Give it to both and to nobody else: anyone who has it can run programs as the agents'
user.

  millrace agent-secret --file agents.json
  millrace agent-secret --kubernetes millrace-agent --namespace ml | kubectl apply -f -
  millrace-agent agent --listen 0.0.0.0:7077 --secret-file agents.json
  millrace run --on static --members @hosts.json --secret-file agents.json -- ./train

      --file FILE               write one file, mode 0600
      --dir DIR                 write the files token, tls.crt and tls.key, mode 0600
      --kubernetes NAME         print the manifest of a Secret on stdout
      --namespace NAME          that Secret's namespace (kubectl's)
      --replace                 replace an existing secret; agents and drivers use the new one at
                                once, and refuse whoever has the old one
      --valid T                 how long the certificate is valid (8760h, a year)
)";

constexpr char kDoctor[] = R"(usage: millrace doctor [-n NODES] | --on SOURCE [OPTIONS]

Says of this machine what a cluster needs and whether it is there, a line each: limits, processors,
memory, temporary files, the clock, the agent, GPUs. With --on it also asks every agent that the
source names: is it there, has it the same secret and version, is it free. Nothing is started.

  millrace doctor -n 16
  millrace doctor --on static --members @hosts.json --secret-file agents.json
  millrace run --on static --members @hosts.json --secret-file agents.json -- millrace doctor

The last one asks each of those hosts about itself. A warning says that clusters run, but not as
well; a problem that they do not, or not there: then the exit code is 70.

  -n, --num-executors N         nodes that are to run on this machine (1)
      --json                    {"findings": [{"level", "where", "subject", "text", "advice"}, ...]}

Agents that listen (millrace-agent agent --listen)
      --on SOURCE               static, kubernetes, dns, slurm, sagemaker, tf-config, or the JSON of
                                any resolver
                                (@FILE)
      --secret-file FILE, --secret-dir DIR
                                the secret of the agents (millrace agent-secret)
      --timeout T               for the answers of all agents (10s)
)" MILLRACE_CLI_AGENTS_OF_A_SOURCE;

#define MILLRACE_CLI_WHICH_CLUSTER                                                            \
  "Which cluster (default: yours that runs on this machine; if several run, commands that\n"  \
  "look use the newest one, and commands that act refuse)\n"                                  \
  "      --cluster ID|FILE         a cluster's id, the beginning of one, or a cluster file\n" \
  "      --connect HOST:PORT --ca FILE --identity FILE --token-file FILE\n"                   \
  "                                a coordinator elsewhere: its CA's certificate, a client\n" \
  "                                certificate with its key, and a token\n"

constexpr char kMetrics[] = R"(usage: millrace metrics [--port N] [OPTIONS]

Clusters in numbers, as Prometheus and OpenMetrics have them: nodes by state, start times, restarts,
rows and where a feed's time goes, GPUs. Once on stdout; with --port for whoever asks there, until
it is ended. docs/observability.md lists the numbers, and has alerts and a dashboard for Grafana.

  millrace metrics
  millrace metrics --port 9464
  millrace metrics --port 9464 --address 0.0.0.0 --certificate host.pem --key host.key
      --scrape-token token

All clusters of yours that run on this machine, or the one that is named. They are watched as the
window does it: that costs them nothing, however often somebody asks. A port that other machines
reach needs TLS, and a token or certificates of callers. Agents that listen answer for themselves:
millrace-agent agent --listen ... --metrics-port N.

      --nodes                   each node and GPU as well (at a port: /metrics?nodes=1)
      --port N                  answer GET /metrics there; 0: at any port that is free. Its address
                                is the first line on stdout
      --address A               of this machine, in numbers (127.0.0.1)
      --scrape-token FILE       whose first line callers bring as "Authorization: Bearer ..."
      --certificate FILE        PEM, with what leads to its CA: HTTPS
      --key FILE                PEM: of that certificate
      --client-ca FILE          PEM: callers need a certificate of one of these

)" MILLRACE_CLI_WHICH_CLUSTER;

constexpr char kStatus[] = R"(usage: millrace status [OPTIONS]

Shows the cluster at a glance: its phase, every node's state and for how long it has been in it, the
feeds, and what went wrong first.

  millrace status
  millrace status --watch
  millrace status --json | jq -r '.nodes[] | select(.state != "running") | .node'

  -w, --watch                   keep looking, until the cluster is gone
      --interval T              how often (1s)
      --json                    one object; with --watch, one per line

)" MILLRACE_CLI_WHICH_CLUSTER;

constexpr char kTop[] = R"(usage: millrace top [OPTIONS]

The window in a terminal: three sentences (why has it not started, why are GPUs idle, what failed
first), and below them the tables of nodes, queues, feeds, GPUs, metrics, events and log lines.
Only what has changed is sent, so that it works over slow lines.

  millrace top
  ssh -t host millrace top
  millrace top --once
  millrace top --json | jq -r '.sentences.gpus.text'

      --interval T              how often updates come (1s)
      --once                    look for two intervals, print all of it as text, and end
      --json                    the same as one object
      --no-color                no colours, as with NO_COLOR: marks and bold text stay

Keys
  1 to 7, Tab               nodes, queues, feeds, GPUs, metrics, events, logs
  arrows, PgUp, PgDn, Home, End, j, k
                            select a row; left and right: columns that have no room
  Enter                     all of the selected row
  v                         all of the sentences, what they are made of, and all warnings
  /, F3                     search; F3 and n go on to the next row that has the text
  \, F4                     filter: only rows that have the text
  <, >, F6; I               the column by which rows are sorted; the other way round
  Space                     pause: nothing changes until the next Space
  h, F1, ?                  help
  q, F10, Ctrl-C            quit

Times are UTC. When the cluster ends, its last state stays. The exit code is 0 then too.

)" MILLRACE_CLI_WHICH_CLUSTER;

constexpr char kNodes[] = R"(usage: millrace nodes [OPTIONS]

Shows every node: its address and pid, what its process uses, and what it published
(tensorboard=http://...).

  millrace nodes
  millrace nodes --json | jq '.nodes[].sample.rss_bytes'

  -w, --watch                   keep looking, until the cluster is gone
      --interval T              how often (1s)
      --json                    one object; with --watch, one per line

)" MILLRACE_CLI_WHICH_CLUSTER;

constexpr char kEvents[] = R"(usage: millrace events [OPTIONS]

Shows what happened, oldest first, in UTC: the steps of each slot, failures (the first cause is
marked), restarts, membership, feeds.

  millrace events -n 20
  millrace events -f --json

  -f, --follow                  also what happens next, until the cluster is gone
  -n, --lines N                 how many to begin with, at most 2,048 (100)
      --json                    one object per line

)" MILLRACE_CLI_WHICH_CLUSTER;

constexpr char kLogs[] = R"(usage: millrace logs [OPTIONS] [NODE...]

Shows the last lines that nodes wrote, as "worker:1| line"; the cluster's log_dir has all of them.
NODE is a name (worker:1) or an executor id; without one, all nodes are shown.

  millrace logs -f
  millrace logs -n 200 worker:1
  millrace logs -f --json chief:0

  -f, --follow                  also new lines, until the cluster is gone
  -n, --lines N                 how many of each node to begin with, at most 1,000 (20)
      --raw                     leave control characters as they are; otherwise a terminal shows
                                them escaped (a pipe always gets them unchanged)
      --json                    one object per line

)" MILLRACE_CLI_WHICH_CLUSTER;

constexpr char kClusters[] = R"(usage: millrace clusters [OPTIONS]

Lists the clusters whose drivers this user runs on this machine, newest first. Cluster files of
drivers that are gone are removed.

      --json                    one object

Environment
  MILLRACE_CLUSTERS_DIR         where cluster files are (~/.millrace/clusters)
)";

constexpr char kKv[] = R"(usage: millrace kv get|set|list|delete ...

Reads and writes the cluster's key-value store, in which nodes meet (kv() of the SDK's NodeContext).

  millrace kv set stage two
  millrace kv get stage --wait 30s
  millrace kv list model/
  millrace kv delete stage

  get KEY                       prints the value unchanged
      --wait T                  wait at most T for the key (0)
      --json                    {"key", "value"}, or "value_base64" if it is not UTF-8
  set KEY VALUE                 with - as VALUE, the value is read from stdin; at most 1 MiB
  list [PREFIX]                 prints the keys in order, with the size of their values
      --limit N                 how many, at most 10,000 (1,000)
      --json                    {"keys": [{"key", "value_bytes"}], "more"}
  delete KEY

This needs the operator's token, which is beside the cluster file. The exit code is 66 if there is
no such key, and 75 if --wait is over.

)" MILLRACE_CLI_WHICH_CLUSTER;

constexpr char kStop[] = R"(usage: millrace stop [OPTIONS]

Asks every node to end: through the SDK, otherwise with SIGTERM; then SIGKILL when the cluster's
stop_grace is over. Returns at once; the driver's calls end with CANCELLED and the reason.

  millrace stop --reason "moving to the other rack"

      --now                     kill them
      --reason TEXT             a reason for the driver and the event log

This needs the operator's token, which is beside the cluster file.

)" MILLRACE_CLI_WHICH_CLUSTER;

constexpr char kRestart[] = R"(usage: millrace restart [OPTIONS] NODE

Ends a node and starts it again as its next attempt, a fresh process with the same role; its peers
are told. NODE is a name (worker:1) or an executor id.

  millrace restart worker:1

      --reason TEXT             a reason for the event log
      --json                    {"node", "executor_id", "attempt"}

This needs the operator's token, which is beside the cluster file.

)" MILLRACE_CLI_WHICH_CLUSTER;

#define MILLRACE_CLI_RESOLVE_COMMON                                                          \
  "What is printed\n"                                                                        \
  "      --format spec|tf_config|hosts|json\n"                                               \
  "                                {\"worker\": [\"h:1\"]} (spec), TF_CONFIG of the task,\n" \
  "                                lines \"worker:0 h:1\", or everything that is known\n"    \
  "      --json                    the same as --format json\n"                              \
  "  -w, --watch                   also every change, until Ctrl-C; errors go to stderr\n"   \
  "                                (json: into the line), and it goes on\n"                  \
  "      --poll-interval T         for a source that must be asked: how often (5s)\n"        \
  "Who this process is, if the source does not say\n"                                        \
  "      --task-type JOB, --task-id N, --rpc-layer LAYER\n"

#define MILLRACE_CLI_RESOLVE_TENSORFLOW \
  "      --tensorflow              behave like TensorFlow's resolver of this kind, bug for bug\n"

#define MILLRACE_CLI_RESOLVE_COMPLETE                                                         \
  "When the members make a cluster\n"                                                         \
  "      --complete require_all|wait|available\n"                                             \
  "                                all of them or an error; wait for all; those that exist\n" \
  "      --wait-timeout T          how long wait waits (10m)\n"

constexpr char kResolve[] = R"(usage: millrace resolve SOURCE [OPTIONS]

Finds the members of a cluster that something else has placed. Prints its spec and, with --watch,
every change of it.

  millrace resolve kubernetes --job ps=app=ps --job worker=app=worker --expect worker=4 --watch
  srun -n 5 millrace resolve slurm --job ps=1 --job worker=4 --format tf_config
  millrace resolve spark http://driver:4040 --job ps=1 --job worker=rest --format hosts

  static SPEC        a spec that you give, or TF_CONFIG's "cluster" (@FILE)
  tf-config          the environment variable TF_CONFIG
  slurm              the tasks of the Slurm step in which this command runs
  sagemaker          the hosts of the SageMaker training job in which this command runs
  kubernetes         pods, by label selectors
  gce GROUP          the instances of a group on Compute Engine
  dns                SRV records, and the addresses of names such as headless services
  etcd PREFIX        keys of etcd, PREFIX/JOB/INDEX
  spark URL          the executors of a Spark application, by its UI's REST API
  cluster            the nodes of a running Millrace cluster
  union              several of these as one

millrace resolve SOURCE --help lists the options of each; docs/kubernetes.md says what pods need.
The headers millrace/*_resolver.h say what else each does, and how it differs from TensorFlow's.
)";

constexpr char kResolveStatic[] = R"(usage: millrace resolve static SPEC [OPTIONS]

Takes a spec that you give: {"worker": ["h0:1", "h1:1"], "ps": {"1": "h2:1"}}, or @FILE with one.

  millrace resolve static '{"worker": ["h0:1", "h1:1"]}' --format hosts
  millrace resolve static @spec.json --format tf_config --task-type worker --task-id 1

      --master ADDRESS          the answer of master() if no task is known
)" MILLRACE_CLI_RESOLVE_TENSORFLOW MILLRACE_CLI_RESOLVE_COMMON;

constexpr char kResolveTfConfig[] = R"(usage: millrace resolve tf-config [OPTIONS]

Takes the cluster of the environment variable TF_CONFIG.

  millrace resolve tf-config --format hosts

      --environment NAME        instead of TF_CONFIG's
)" MILLRACE_CLI_RESOLVE_TENSORFLOW MILLRACE_CLI_RESOLVE_COMMON;

constexpr char kResolveSlurm[] = R"(usage: millrace resolve slurm [OPTIONS]

Takes the tasks of this process's Slurm step, from its SLURM_* variables. Ranks are assigned to jobs
in the given order.

  srun -n 5 millrace resolve slurm --job ps=1 --job worker=4 --format tf_config

      --job NAME=TASKS          how many tasks a job has; may be repeated (worker: all tasks)
      --port N                  the port of the first task on each host (8888)
      --gpus-per-node N         GPUs of each Slurm node (those of this host)
      --gpus-per-task N         GPUs of each task (those of the Slurm node, divided by its tasks)
      --tasks-per-node N        tasks on each Slurm node (what Slurm says)
)" MILLRACE_CLI_RESOLVE_TENSORFLOW MILLRACE_CLI_RESOLVE_COMMON;

constexpr char kResolveSageMaker[] = R"(usage: millrace resolve sagemaker [OPTIONS]

Takes the hosts of this process's SageMaker training job, from SM_HOSTS and SM_CURRENT_HOST: each is
a worker, in the order of the numbers in their names.

  millrace resolve sagemaker --format tf_config

      --port N                  the port of each host (2223)
      --environment NAME        the answer of environment()
)" MILLRACE_CLI_RESOLVE_TENSORFLOW MILLRACE_CLI_RESOLVE_COMMON;

constexpr char kResolveGce[] =
    R"(usage: millrace resolve gce GROUP [OPTIONS]

Takes the instances of a zonal instance group on Google Compute Engine, in the order of the numbers
in their names. --task-type is their job (worker). An instance asks with its service account, which
needs roles/compute.viewer, and knows its task by its name.

  millrace resolve gce train --port 7077 --expect 4 --complete wait
  millrace resolve gce train --project p --zone us-central1-a --token-file token --watch

      --project ID, --zone ZONE (those of this instance)
      --port N                  the port of each instance (8470)
      --token-file FILE         an access token, as gcloud auth print-access-token prints it
                                (this instance's)
      --api URL                 the API (https://compute.googleapis.com/compute/v1)
      --ca FILE                 the authorities that https trusts (the system's)
)" MILLRACE_CLI_RESOLVE_COMPLETE
    R"(      --expect N                how many instances there must be (as many as the group has)
      --timeout T               for one answer (10s)
)" MILLRACE_CLI_RESOLVE_TENSORFLOW MILLRACE_CLI_RESOLVE_COMMON;

constexpr char kResolveDns[] =
    R"(usage: millrace resolve dns --job NAME=DOMAIN [OPTIONS]

Asks name servers. A domain that begins with "_" has SRV records: tasks are at their targets and
ports, in the order of the numbers in the targets' names. Any other one has addresses, in their
order.

  millrace resolve dns --job worker=_agent._tcp.train.example.org --expect worker=4
  millrace resolve dns --job ps=ps.train.svc.cluster.local --port 2222 --watch

      --job NAME=DOMAIN         where a job's tasks are; may be repeated
      --port N                  the port of addresses (8470)
      --server ADDRESS          a name server, 10.0.0.10 or 10.0.0.10:53; may be repeated
                                (those of /etc/resolv.conf)
)" MILLRACE_CLI_RESOLVE_COMPLETE
    R"(      --expect NAME=TASKS       how many tasks a job must have; may be repeated (at least one)
      --timeout T               for one answer (5s)
)" MILLRACE_CLI_RESOLVE_COMMON;

constexpr char kResolveEtcd[] =
    R"(usage: millrace resolve etcd PREFIX --endpoint URL [OPTIONS]

Takes the keys PREFIX/JOB/INDEX of etcd; the value of each is the address of that task. With --watch
etcd pushes changes.

  etcdctl put /clusters/train/worker/0 h0:7077
  millrace resolve etcd /clusters/train --endpoint https://etcd:2379 --ca ca.crt --expect worker=4

      --endpoint URL            a server of etcd; may be repeated: the first that answers is asked
      --user NAME, --password-file FILE
                                a user of etcd who may read what begins with PREFIX/
      --ca FILE                 the authorities that https trusts (the system's)
      --certificate FILE, --key FILE
                                ours, for servers that ask for one; PEM
)" MILLRACE_CLI_RESOLVE_COMPLETE
    R"(      --expect NAME=TASKS       how many tasks a job must have; may be repeated
      --timeout T               for one answer (10s)
)" MILLRACE_CLI_RESOLVE_COMMON;

constexpr char kResolveKubernetes[] =
    R"(usage: millrace resolve kubernetes [OPTIONS]

Takes pods by label selectors. In a pod it uses the pod's service account, otherwise ~/.kube/config.
With --watch the API server pushes changes. Rights, identity and ports: docs/kubernetes.md.

  millrace resolve kubernetes --job worker=job-name=train --expect worker=4 --complete wait
  millrace resolve kubernetes --job ps=app=ps --job worker='app=worker,tier!=test' --watch

Which pods
      --job NAME=SELECTOR       which pods a job has; may be repeated, even for the same job
                                (worker=job-name=tensorflow)
      --namespace NAME          their namespace (the pod's own, or the context's)
      --all-namespaces          pods of any namespace; this needs a ClusterRole
      --location automatic|within_cluster|off_cluster
                                where this command runs (automatic)
      --kubeconfig FILE, --context NAME
Addresses
      --port N                  the port of each task (8470)
      --job-port NAME=PORT      a job's port: a number, a container port's name, or annotation:KEY
      --address pod_ip|host_ip|dns    (pod_ip)
      --cluster-domain NAME     the domain, for dns (cluster.local)
)" MILLRACE_CLI_RESOLVE_COMPLETE
    R"(      --expect NAME=TASKS       how many tasks a job must have; may be repeated
      --require-ready           only pods that are Ready
      --timeout T               for one answer of the API server (30s)
      --max-backoff T           the longest pause before a watch tries to reach it again (30s)
)" MILLRACE_CLI_RESOLVE_TENSORFLOW MILLRACE_CLI_RESOLVE_COMMON;

constexpr char kResolveSpark[] = R"(usage: millrace resolve spark URL [OPTIONS]

Takes the active executors of a running Spark application, from the monitoring REST API at URL: the
driver's UI (http://driver:4040) or a History Server. They are assigned by id, to ps, chief,
evaluator, other jobs and worker, in this order.

  millrace resolve spark http://driver:4040 --job ps=1 --job worker=rest --port 2222
  millrace resolve spark http://driver:4040 --watch --poll-interval 1s --json

      --application ID          which application (the only one that runs there)
      --executor ID             the executor on which this process runs: its task is then known
      --job NAME=TASKS          how many tasks a job has; may be repeated. NAME=rest: all that are
                                left (worker=rest)
      --port N                  the port of the first task on each host (2222)
      --job-port NAME=PORT      the same for one job
      --ca FILE                 the authorities that https trusts (the system's)
      --insecure-skip-verify    accept any certificate
)" MILLRACE_CLI_RESOLVE_COMPLETE R"(      --timeout T               for one answer (10s)
)" MILLRACE_CLI_RESOLVE_COMMON;

constexpr char kResolveCluster[] = R"(usage: millrace resolve cluster [OPTIONS]

Takes the nodes of a running Millrace cluster, from its coordinator. With --watch the coordinator
pushes changes.

  millrace resolve cluster --format hosts
  millrace resolve cluster --cluster 3f --complete wait --wait-timeout 2m

)" MILLRACE_CLI_RESOLVE_COMPLETE R"(      --timeout T               for one answer (10s)
)" MILLRACE_CLI_RESOLVE_COMMON "\n" MILLRACE_CLI_WHICH_CLUSTER;

constexpr char kResolveUnion[] = R"(usage: millrace resolve union [OPTIONS] [FILE]

Takes several sources as one cluster. Each is described in JSON: {"type": "static", ...}, or another
type, with the members listed in millrace/resolver.h. FILE holds a list of them, or the union
itself: {"type": "union", "resolvers": [...]}.

  millrace resolve union --resolver '{"type": "static", "cluster_spec": {"ps": ["h0:1"]}}' \
      --resolver '{"type": "spark", "url": "http://driver:4040"}' --watch

      --resolver JSON|@FILE     one of the sources; may be repeated
)" MILLRACE_CLI_RESOLVE_TENSORFLOW MILLRACE_CLI_RESOLVE_COMMON;

constexpr char kCompletion[] = R"(usage: millrace completion bash|fish|zsh|commands

Prints a script with which a shell completes millrace's commands and options. The archive and the
packages bring it to where shells look for it; otherwise:

  millrace completion bash > ~/.local/share/bash-completion/completions/millrace
  millrace completion fish > ~/.config/fish/completions/millrace.fish
  millrace completion zsh > ~/.zfunc/_millrace      # and fpath+=~/.zfunc before compinit

With "commands" it prints the names of all commands, one a line.
)";

constexpr char kHelp[] = R"(usage: millrace help [COMMAND]

Prints what millrace COMMAND --help prints.

  millrace help kv get
)";

constexpr char kVersion[] = R"(usage: millrace version

Prints the version of millrace, how it was built, and the versions of the protocols.
)";

const std::map<absl::string_view, absl::string_view>& Topics() {
  static const auto* const run =
      new std::string(absl::StrCat(kRun, kProgramOptions, kRunOn, kProgramEnvironment, kRunEnd));
  static const auto* const srun = new std::string(
      absl::StrCat(kSrun, kProgramOptions, kSrunSlurm, kProgramEnvironment, kSrunEnd));
  static const auto* const topics =
      new std::map<absl::string_view, absl::string_view>{{"", kMain},
                                                         {"agent-secret", kAgentSecret},
                                                         {"clusters", kClusters},
                                                         {"completion", kCompletion},
                                                         {"doctor", kDoctor},
                                                         {"events", kEvents},
                                                         {"help", kHelp},
                                                         {"kv", kKv},
                                                         {"kv delete", kKv},
                                                         {"kv get", kKv},
                                                         {"kv list", kKv},
                                                         {"kv set", kKv},
                                                         {"logs", kLogs},
                                                         {"metrics", kMetrics},
                                                         {"nodes", kNodes},
                                                         {"resolve", kResolve},
                                                         {"resolve cluster", kResolveCluster},
                                                         {"resolve dns", kResolveDns},
                                                         {"resolve etcd", kResolveEtcd},
                                                         {"resolve gce", kResolveGce},
                                                         {"resolve kubernetes", kResolveKubernetes},
                                                         {"resolve sagemaker", kResolveSageMaker},
                                                         {"resolve slurm", kResolveSlurm},
                                                         {"resolve spark", kResolveSpark},
                                                         {"resolve static", kResolveStatic},
                                                         {"resolve tf-config", kResolveTfConfig},
                                                         {"resolve union", kResolveUnion},
                                                         {"restart", kRestart},
                                                         {"run", *run},
                                                         {"srun", *srun},
                                                         {"status", kStatus},
                                                         {"stop", kStop},
                                                         {"top", kTop},
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
