"""Options of a cluster as the library takes them."""

from __future__ import annotations

import ctypes
import json
import math
import os
from ctypes import POINTER, Structure, c_char_p, pointer
from typing import Any, Dict, List, Mapping, Optional, Sequence

from millrace import _driver_library as lib
from millrace.options import Agents, InputMode, NodeProgram, QuarantinePolicy, RestartPolicy, Sidecar

__all__ = ["c_options", "ms"]

def ms(seconds: Optional[float]) -> int:
    """None and infinity are forever. Zero is the library's default, so that the least is 1."""
    return -1 if seconds is None or math.isinf(seconds) else max(1, round(seconds * 1000))


def _texts(values: Sequence[str]) -> Any:
    return (c_char_p * len(values))(*[str(value).encode() for value in values])


def _variables(env: Mapping[str, str]) -> Any:
    pairs = [lib.Variable(str(name).encode(), str(value).encode()) for name, value in env.items()]
    return (lib.Variable * len(pairs))(*pairs)


def _pointers(kind: Any, structs: Sequence[Structure]) -> Any:
    return (POINTER(kind) * len(structs))(*[pointer(each) for each in structs])


def _sized(kind: Any, **members: Any) -> Any:
    return kind(struct_size=ctypes.sizeof(kind), **members)


def _restart(policy: RestartPolicy, job: Optional[str]) -> Any:
    return _sized(
        lib.RestartPolicy,
        job=None if job is None else job.encode(),
        max_restarts=policy.max_restarts,
        window_ms=ms(policy.window),
        initial_backoff_ms=ms(policy.initial_backoff),
        max_backoff_ms=ms(policy.max_backoff),
    )


def _quarantine(policy: QuarantinePolicy) -> Any:
    return _sized(
        lib.QuarantinePolicy,
        failures=policy.failures, window_ms=ms(policy.window), duration_ms=ms(policy.duration),
    )  # fmt: skip


def _sidecar(sidecar: Sidecar) -> Any:
    return _sized(
        lib.Sidecar,
        name=sidecar.name.encode(),
        program=sidecar.program.encode(),
        args=_texts(sidecar.args),
        num_args=len(sidecar.args),
        env=_variables(sidecar.env),
        num_env=len(sidecar.env),
        node=sidecar.node.encode() if sidecar.node else None,
    )


def _text(value: Optional[str]) -> Optional[bytes]:
    return None if value is None else os.fsencode(value)


def _agents(agents: Agents, ship: bool) -> Any:
    resolver = agents.resolver if isinstance(agents.resolver, str) else json.dumps(agents.resolver)
    return _sized(
        lib.Agents,
        resolver=resolver.encode(),
        secret_file=_text(agents.secret_file),
        secret_dir=_text(agents.secret_dir),
        bind_address=_text(agents.bind_address),
        driver_host=_text(agents.driver_host),
        poll_interval_ms=ms(agents.poll_interval),
        fixed_members=int(agents.fixed_members),
        ship=int(ship),
    )


# The members that are numbers, texts and times as they are.
_NUMBERS = ("num_ps", "eval_node", "tensorboard", "gpus_per_node", "feed_budget_bytes")
_TEXTS = ("master_node", "log_dir", "working_dir", "default_fs", "feed_port_range", "coordinator_port_range")
_TIMES = ("reservation_timeout", "stop_grace", "stop_timeout")


def c_options(program: NodeProgram, num_executors: Optional[int], options: Mapping[str, Any]) -> lib.Options:
    """The struct; ctypes keeps alive what it points to."""
    members: Dict[str, Any] = {name: int(options[name]) for name in _NUMBERS if name in options}
    members.update({name: str(options[name]).encode() for name in _TEXTS if name in options})
    members.update({f"{name}_ms": ms(options[name]) for name in _TIMES if name in options})
    env = {**program.env, **options.get("env", {})}
    queues = options.get("queues", ())
    restarts: List[Structure] = [_restart(policy, job) for job, policy in options.get("restart_by_job", {}).items()]
    if "restart" in options:
        restarts.append(_restart(options["restart"], None))
    gpus = [_sized(lib.JobGpus, job=job.encode(), gpus=n) for job, n in options.get("gpus_by_job", {}).items()]
    sidecars = [_sidecar(each) for each in options.get("sidecars", ())]
    if "quarantine" in options:
        members["quarantine"] = pointer(_quarantine(options["quarantine"]))
    if "agents" in options:
        members["agents"] = pointer(_agents(options["agents"], program.shipped))
    progress = options.get("progress")
    made: lib.Options = _sized(
        lib.Options,
        program=program.program.encode(),
        args=_texts(program.args),
        num_args=len(program.args),
        env=_variables(env),
        num_env=len(env),
        agent_path=lib.agent_path(),
        num_executors=num_executors or 0,
        feed=int(InputMode(options.get("input_mode", InputMode.DIRECT)) is InputMode.FEED),
        queues=_texts(queues),
        num_queues=len(queues),
        keep_port=int(not options.get("release_port", True)),
        progress=0 if progress is None else 1 if progress else -1,
        no_cluster_file=int(not options.get("cluster_file", True)),
        restarts=_pointers(lib.RestartPolicy, restarts),
        num_restarts=len(restarts),
        gpus_by_job=_pointers(lib.JobGpus, gpus),
        num_gpus_by_job=len(gpus),
        sidecars=_pointers(lib.Sidecar, sidecars),
        num_sidecars=len(sidecars),
        **members,
    )
    return made
