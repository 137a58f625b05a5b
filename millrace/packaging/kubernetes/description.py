"""What Millrace needs on Kubernetes: the objects, and what their user may choose. render.py makes the Helm chart and
the bases for kustomize of it."""

from dataclasses import dataclass

from template import Block, Group, HelmOnly, If, Release, Text, Value

# The user of the image, who owns nothing.
USER = 65532
SECRET_FOLDER = "/etc/millrace"
METRICS_FOLDER = "/etc/millrace-metrics"
STATE_FOLDER = "/state"

# Path in values.yaml, default, what it is, and what its schema says besides the default's type.
VALUES = [
    ("image.repository", "millrace", "The image of agents and of the driver: Millrace's, or one that is made from it"
     " and holds your programs.", {"minLength": 1}),
    ("image.tag", "", "Empty: the chart's version.", {}),
    ("image.pullPolicy", "IfNotPresent", "", {"enum": ["Always", "IfNotPresent", "Never"]}),
    ("image.pullSecrets", [], "Such as [{name: registry}].", {}),
    ("kind", "StatefulSet", "StatefulSet: agents stay until the release is removed. Job: an indexed Job for each"
     " group.", {"enum": ["StatefulSet", "Job"]}),
    ("agents", {"worker": {"replicas": 2}}, "Groups of agents: a job of the cluster (worker, ps, chief, evaluator) and"
     " how many agents it has. A group may have resources, nodeSelector, tolerations, affinity and ports of its own.",
     {"minProperties": 1, "propertyNames": {"pattern": "^[a-z]([-a-z0-9]{0,30}[a-z0-9])?$"}, "additionalProperties": {
         "type": "object", "required": ["replicas"], "additionalProperties": False, "properties": {
             "replicas": {"type": "integer", "minimum": 1}, "resources": {"type": "object"},
             "nodeSelector": {"type": "object"}, "tolerations": {"type": "array"}, "affinity": {"type": "object"},
             "ports": {"type": "array"}}}}),
    ("port", 7077, "Where agents listen.", {"minimum": 1024, "maximum": 65535}),
    ("secret.name", "millrace-agent", "The Secret of agents and drivers: `millrace agent-secret --kubernetes"
     " millrace-agent` prints it.", {"minLength": 1}),
    ("secret.token", "", "With these three, contents of the files that `millrace agent-secret --dir` writes"
     " (--set-file), the release has the Secret itself.", {}),
    ("secret.certificate", "", "", {}),
    ("secret.key", "", "", {}),
    ("resources", {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
     "Of each agent and its node, and of the driver. GPUs: limits of a group, such as {nvidia.com/gpu: 1}.", {}),
    ("nodeSelector", {}, "", {}),
    ("tolerations", [], "", {}),
    ("topologyKey", "kubernetes.io/hostname", "Agents of a group are spread over what this label names, where there is"
     " room.", {"minLength": 1}),
    ("terminationGracePeriodSeconds", 10, "An agent that is asked to end ends its node at once.", {"minimum": 1}),
    ("tmp.sizeLimit", "1Gi", "Of /tmp, where programs that a driver sends lie.", {"minLength": 1}),
    ("driver.command", [], "A Job with this command, such as [millrace, run, --on=kubernetes, ...]; empty: none, and"
     " drivers of your own are pods with the label app.kubernetes.io/component: driver and the driver's service"
     " account.", {"items": {"type": "string"}}),
    ("driver.backoffLimit", 0, "How many pods of the driver may fail before its Job has; with state, not counting those"
     " that were evicted or preempted.", {"minimum": 0}),
    ("driver.stateSize", "", "Such as 100Mi: a volume at /state, by which another pod goes on where one was evicted,"
     " killed or lost, with --resumable=/state/run, --on-sigterm=leave and --driver-host=$(POD_IP) in the command."
     " Raise the backoffLimit too. Kubernetes 1.29 or later.", {"pattern": "^([0-9]+(\\.[0-9]+)?([KMGTPE]i?|k)?)?$"}),
    ("driver.stateStorageClass", "", "Of that volume. Empty: the cluster's default.", {}),
    ("metrics.port", 0, "Where agents answer Prometheus, over TLS and to whoever has the token. 0: they do not.",
     {"minimum": 0, "maximum": 65535}),
    ("metrics.secretName", "millrace-agent-metrics", "The Secret with tls.crt and tls.key, a certificate of its own;"
     " token, which whoever scrapes brings; and, for a PodMonitor, ca.crt.", {"minLength": 1}),
    ("metrics.serverName", "millrace-agent", "The name in that certificate, for a PodMonitor.", {"minLength": 1}),
    ("networkPolicy.enabled", True, "Only drivers and agents of this release reach agents, and only its agents reach"
     " its drivers.", {}),
    ("networkPolicy.agentIngress", [], "More rules for agents, such as one for what scrapes them.", {}),
    ("podMonitor.enabled", False, "For Prometheus with its operator: agents (metrics.port), and programs that serve"
     " metrics at a port of their group's `ports`.", {}),
    ("podMonitor.port", "metrics", "Of programs.", {"minLength": 1}),
    ("podMonitor.path", "/metrics", "", {"pattern": "^/"}),
    ("podMonitor.interval", "30s", "", {"pattern": "^[0-9]+(ms|s|m|h)$"}),
]


@dataclass(frozen=True)
class Object:
    """One file: an object, or one for each group of agents."""

    file: str
    body: dict
    when: If = None  # its `then` means nothing
    each: bool = False
    base: str = "base"  # the folder for kustomize that it is in


def _name(suffix):
    return Text((Release(), suffix))


def _selector(component):
    return {
        "app.kubernetes.io/name": "millrace",
        "app.kubernetes.io/instance": Release(),
        "app.kubernetes.io/component": component,
    }


def _labels(component, more=None):
    return _selector(component) | (more or {}) | {
        "app.kubernetes.io/version": HelmOnly("$.Chart.AppVersion | quote"),
        "app.kubernetes.io/managed-by": HelmOnly("$.Release.Service | quote"),
        "helm.sh/chart": HelmOnly('printf "%s-%s" $.Chart.Name $.Chart.Version | quote'),
    }  # fmt: skip


def _meta(name, component, more=None):
    return {"name": name, "labels": _labels(component, more)}


_OF_GROUP = {"millrace.io/job": Group()}

# What the restricted standard of Pod Security asks for, and a root that nobody writes to.
_CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_IMAGE = {
    "image": Text((Value("image.repository"), ":", Value("image.tag", or_version=True))),
    "imagePullPolicy": Value("image.pullPolicy"),
}
_MOUNTS = [
    {"name": "secret", "mountPath": SECRET_FOLDER, "readOnly": True},
    {"name": "tmp", "mountPath": "/tmp"},
]
_VOLUMES = [
    # A new Secret is read as soon as the kubelet has it here.
    {"name": "secret", "secret": {"secretName": Value("secret.name"), "defaultMode": 0o440}},
    {"name": "tmp", "emptyDir": {"sizeLimit": Value("tmp.sizeLimit")}},
]
_METRICS = Value("metrics.port")
# Anyone who reaches the port needs the token.
_METRICS_ARGUMENTS = [
    If(_METRICS, argument)
    for argument in (
        Text(("--metrics-port=", _METRICS)),
        "--metrics-address=0.0.0.0",
        f"--metrics-certificate={METRICS_FOLDER}/tls.crt",
        f"--metrics-key={METRICS_FOLDER}/tls.key",
        f"--metrics-scrape-token={METRICS_FOLDER}/token",
    )
]
_METRICS_MOUNT = If(_METRICS, {"name": "metrics", "mountPath": METRICS_FOLDER, "readOnly": True})
_METRICS_VOLUME = If(
    _METRICS, {"name": "metrics", "secret": {"secretName": Value("metrics.secretName"), "defaultMode": 0o440}}
)


def _metrics_secret(key):
    return {"name": Value("metrics.secretName"), "key": key}


def _env(*fields):
    return [{"name": "HOME", "value": "/tmp"}] + [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields
    ]


def _probe(**times):
    return {"tcpSocket": {"port": "agent"}} | times


def _agent_pod(restart):
    container = {
        "name": "agent",
        **_IMAGE,
        "command": ["millrace-agent"],
        "args": [
            *("agent", "--listen", Text(("0.0.0.0:", Value("port"))), "--secret-dir", SECRET_FOLDER),
            *_METRICS_ARGUMENTS,
        ],
        "ports": [
            {"name": "agent", "containerPort": Value("port")},
            If(_METRICS, {"name": "agent-metrics", "containerPort": _METRICS}),
            Block(Group("ports")),
        ],
        # By these a program finds which task it is.
        "env": _env(
            ("POD_NAME", "metadata.name"), ("POD_NAMESPACE", "metadata.namespace"), ("POD_UID", "metadata.uid")
        ),
        "startupProbe": _probe(periodSeconds=1, failureThreshold=60),
        "readinessProbe": _probe(periodSeconds=5),
        # An agent that serves a cluster listens on; one that is stuck is started again after a minute.
        "livenessProbe": _probe(periodSeconds=20, timeoutSeconds=5, failureThreshold=3),
        "resources": Block(Group("resources", fallback="resources")),
        "securityContext": _CONTAINER_SECURITY,
        "volumeMounts": [*_MOUNTS, _METRICS_MOUNT],
    }
    return {
        "metadata": {"labels": _selector("agent") | _OF_GROUP},
        "spec": {
            "serviceAccountName": _name("-agent"),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "subdomain": Release(),
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": Value("terminationGracePeriodSeconds"),
            "securityContext": _POD_SECURITY,
            "imagePullSecrets": Block(Value("image.pullSecrets")),
            "nodeSelector": Block(Group("nodeSelector", fallback="nodeSelector")),
            "tolerations": Block(Group("tolerations", fallback="tolerations")),
            "affinity": Block(Group("affinity")),
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": Value("topologyKey"),
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": _selector("agent") | _OF_GROUP},
                }
            ],
            "containers": [container],
            "volumes": [*_VOLUMES, _METRICS_VOLUME],
        },
    }


_GROUP_NAME = Text((Release(), "-", Group()))

_STATEFUL_SET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": _meta(_GROUP_NAME, "agent", _OF_GROUP),
    "spec": {
        "replicas": Group("replicas"),
        "serviceName": Release(),
        # Agents wait for nobody.
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": _selector("agent") | _OF_GROUP},
        "template": _agent_pod("Always"),
    },
}

_AGENT_JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": _meta(_GROUP_NAME, "agent", _OF_GROUP),
    "spec": {
        "completionMode": "Indexed",
        "completions": Group("replicas"),
        "parallelism": Group("replicas"),
        "backoffLimit": 100,  # pods that may be made again
        "template": _agent_pod("Never"),
    },
}

_STATE = Value("driver.stateSize")

_DRIVER_STATE = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": _meta(_name("-driver"), "driver"),
    "spec": {
        "accessModes": ["ReadWriteOncePod"],
        "storageClassName": If(Value("driver.stateStorageClass"), Value("driver.stateStorageClass")),
        "resources": {"requests": {"storage": _STATE}},
    },
}

# docs/kubernetes.md, "A driver that is replaced", says why.
_DRIVER_FAILURES = {
    "rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {
            "action": "FailJob",
            "onExitCodes": {"containerName": "driver", "operator": "NotIn", "values": [69, 70, 75, 137, 143]},
        },
    ]
}

_DRIVER_JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": _meta(_name("-driver"), "driver"),
    "spec": {
        "backoffLimit": Value("driver.backoffLimit"),
        "podReplacementPolicy": If(_STATE, "Failed"),
        "podFailurePolicy": If(_STATE, _DRIVER_FAILURES),
        "template": {
            "metadata": {"labels": _selector("driver")},
            "spec": {
                "serviceAccountName": _name("-driver"),
                "enableServiceLinks": False,
                "restartPolicy": "Never",
                # Without this each mount would open the state to the group.
                "securityContext": _POD_SECURITY | {"fsGroupChangePolicy": "OnRootMismatch"},
                "imagePullSecrets": Block(Value("image.pullSecrets")),
                "nodeSelector": Block(Value("nodeSelector")),
                "tolerations": Block(Value("tolerations")),
                "containers": [
                    {
                        "name": "driver",
                        **_IMAGE,
                        "command": Block(Value("driver.command")),
                        "env": _env(("POD_NAMESPACE", "metadata.namespace"), ("POD_IP", "status.podIP")),
                        "resources": Block(Value("resources")),
                        "securityContext": _CONTAINER_SECURITY,
                        "volumeMounts": [*_MOUNTS, If(_STATE, {"name": "state", "mountPath": STATE_FOLDER})],
                    }
                ],
                "volumes": [
                    *_VOLUMES,
                    If(_STATE, {"name": "state", "persistentVolumeClaim": {"claimName": _name("-driver")}}),
                ],
            },
        },
    },
}


def _from(component):
    return {"podSelector": {"matchLabels": _selector(component)}}


def _policy(component, ingress):
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _meta(_name("-" + component), component),
        "spec": {
            "podSelector": {"matchLabels": _selector(component)},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    }


def _account(component):
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _meta(_name("-" + component), component),
        # A driver's pod asks for its token itself.
        "automountServiceAccountToken": component == "driver",
    }


_RBAC = "rbac.authorization.k8s.io"
_POLICY = If(Value("networkPolicy.enabled"), None)

OBJECTS = [
    Object("agent_account", _account("agent")),
    Object("driver_account", _account("driver")),
    # Agents may do nothing; a driver sees where the pods are.
    Object(
        "driver_role",
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "Role",
            "metadata": _meta(_name("-driver"), "driver"),
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}],
        },
    ),
    Object(
        "driver_role_binding",
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": _meta(_name("-driver"), "driver"),
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": _name("-driver")},
            "subjects": [{"kind": "ServiceAccount", "name": _name("-driver"), "namespace": Release("Namespace")}],
        },
    ),
    Object(
        "service",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": _meta(Release(), "agent"),
            "spec": {
                "clusterIP": "None",
                # Programs look for each other before anything is ready.
                "publishNotReadyAddresses": True,
                "selector": _selector("agent"),
                "ports": [{"name": "agent", "port": Value("port"), "targetPort": "agent"}],
            },
        },
    ),
    Object(
        "secret",
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": _meta(Value("secret.name"), "agent"),
            "type": "Opaque",
            "stringData": {
                "token": Value("secret.token"),
                "tls.crt": Value("secret.certificate"),
                "tls.key": Value("secret.key"),
            },
        },
        when=If(Value("secret.token"), None),
    ),
    Object("stateful_set", _STATEFUL_SET, when=If(Value("kind"), None, "StatefulSet"), each=True, base="statefulset"),
    Object("job", _AGENT_JOB, when=If(Value("kind"), None, "Job"), each=True, base="job"),
    Object("driver_state", _DRIVER_STATE, when=If(_STATE, None)),
    Object("driver_job", _DRIVER_JOB, when=If(Value("driver.command"), None)),
    # Feeders of a driver come to ports that nodes choose, and programs to each other's.
    Object(
        "agent_network_policy",
        _policy("agent", [{"from": [_from("agent"), _from("driver")]}, Block(Value("networkPolicy.agentIngress"))]),
        when=_POLICY,
    ),
    Object("driver_network_policy", _policy("driver", [{"from": [_from("agent")]}]), when=_POLICY),
    Object(
        "pod_monitor",
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PodMonitor",
            "metadata": _meta(Release(), "agent"),
            "spec": {
                "selector": {"matchLabels": _selector("agent")},
                "podTargetLabels": ["millrace.io/job"],
                "podMetricsEndpoints": [
                    {
                        "port": Value("podMonitor.port"),
                        "path": Value("podMonitor.path"),
                        "interval": Value("podMonitor.interval"),
                    },
                    If(
                        _METRICS,
                        {
                            "port": "agent-metrics",
                            "scheme": "https",
                            "interval": Value("podMonitor.interval"),
                            "tlsConfig": {
                                "ca": {"secret": _metrics_secret("ca.crt")},
                                "serverName": Value("metrics.serverName"),
                            },
                            "authorization": {"type": "Bearer", "credentials": _metrics_secret("token")},
                            # Millrace's alerts and its dashboard know agents by this name.
                            "relabelings": [{"targetLabel": "job", "replacement": "millrace-agents"}],
                        },
                    ),
                ],
            },
        },
        when=If(Value("podMonitor.enabled"), None),
        base="pod_monitor",
    ),
]
