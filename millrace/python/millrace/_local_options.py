"""Options of a cluster as the library takes them."""

from __future__ import annotations

import ctypes
import json
import os
from ctypes import POINTER, Structure, c_char_p, pointer
from typing import Any, Dict, Mapping, Optional, Sequence

from millrace import _driver_library as lib
from millrace._arguments import milliseconds
from millrace.options import (
    Agents,
    FailureOptions,
    FeedOptions,
    InputMode,
    NodeOptions,
    NodeProgram,
    QuarantinePolicy,
    RestartPolicy,
    Sidecar,
    given,
)

__all__ = ["c_options", "ms"]


def ms(name: str, seconds: Optional[float]) -> int:
    """None and infinity are forever. Zero is the library's default, so that the least is 1."""
    return milliseconds(name, seconds, least=1)


def _texts(values: Sequence[str]) -> Any:
    return (c_char_p * len(values))(*[str(value).encode() for value in values])


def _variables(env: Mapping[str, str]) -> Any:
    return _texts([f"{name}={value}" for name, value in env.items()])


def _pointers(kind: Any, structs: Sequence[Structure]) -> Any:
    return (POINTER(kind) * len(structs))(*[pointer(each) for each in structs])


def _sized(kind: Any, **members: Any) -> Any:
    return kind(struct_size=ctypes.sizeof(kind), **members)


def _times(names: Sequence[str], members: Mapping[str, Any]) -> Dict[str, int]:
    return {f"{name}_ms": ms(name, members[name]) for name in names if name in members}


def _restart(policy: Optional[RestartPolicy]) -> Any:
    members = given(policy or RestartPolicy())
    times = _times(("window", "initial_backoff", "max_backoff"), members)
    return lib.RestartPolicy(max_restarts=members.get("max_restarts", 0), **times)


def _quarantine(policy: Optional[QuarantinePolicy]) -> Any:
    members = given(policy or QuarantinePolicy())
    return lib.QuarantinePolicy(failures=members.get("failures", 0), **_times(("window", "duration"), members))


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
        poll_interval_ms=0 if agents.poll_interval is None else ms("poll_interval", agents.poll_interval),
        fixed_members=int(agents.fixed_members),
        ship=int(ship),
    )


def _node(group: NodeOptions) -> Any:
    jobs = [_sized(lib.JobGpus, job=job.encode(), gpus=n) for job, n in (group.gpus_by_job or {}).items()]
    sidecars = [_sidecar(each) for each in group.sidecars or ()]
    return lib.NodeOptions(
        working_dir=_text(group.working_dir),
        default_fs=_text(group.default_fs),
        keep_port=int(group.release_port is not None and not group.release_port),
        gpus_per_node=group.gpus_per_node or 0,
        gpus_by_job=_pointers(lib.JobGpus, jobs),
        num_gpus_by_job=len(jobs),
        log_bytes_per_second=group.log_bytes_per_second or 0,
        sidecars=_pointers(lib.Sidecar, sidecars),
        num_sidecars=len(sidecars),
    )


def _switch(on: Optional[bool]) -> int:
    """0 is left to the library."""
    return 0 if on is None else 1 if on else -1


def _feed(group: FeedOptions) -> Any:
    queues = list(group.queues or ())
    return lib.FeedOptions(
        queues=_texts(queues),
        num_queues=len(queues),
        port_range=_text(group.port_range),
        budget_bytes=group.budget_bytes or 0,
        curve_only=int(bool(group.curve_only)),
        shared_memory=_switch(group.shared_memory),
    )


def _failure(group: FailureOptions) -> Any:
    jobs = [
        _sized(lib.JobRestart, job=job.encode(), policy=_restart(policy))
        for job, policy in (group.restart_by_job or {}).items()
    ]
    return lib.FailureOptions(
        restart=_restart(group.restart),
        restart_by_job=_pointers(lib.JobRestart, jobs),
        num_restart_by_job=len(jobs),
        quarantine=_quarantine(group.quarantine),
        **_times(("stop_grace", "stop_timeout"), given(group)),
    )


# The members that are numbers, texts and times as they are.
_NUMBERS = ("num_ps", "eval_node", "tensorboard")
_TEXTS = ("name", "master_node", "log_dir", "coordinator_port_range")


def c_options(program: NodeProgram, num_executors: Optional[int], options: Mapping[str, Any]) -> lib.Options:
    """The struct; ctypes keeps alive what it points to."""
    members: Dict[str, Any] = {name: int(options[name]) for name in _NUMBERS if name in options}
    members.update({name: _text(options[name]) for name in _TEXTS if name in options})
    members.update(_times(("reservation_timeout",), options))
    env = {**program.env, **options.get("env", {})}
    if "agents" in options:
        members["agents"] = pointer(_agents(options["agents"], program.shipped))
    made: lib.Options = _sized(
        lib.Options,
        program=program.program.encode(),
        args=_texts(program.args),
        num_args=len(program.args),
        env=_variables(env),
        num_env=len(env),
        agent_path=lib.agent_path(),
        num_executors=num_executors or 0,
        input_mode=int(InputMode(options.get("input_mode", InputMode.DIRECT)) is InputMode.FEED),
        node=_node(options.get("node", NodeOptions())),
        feed=_feed(options.get("feed", FeedOptions())),
        failure=_failure(options.get("failure", FailureOptions())),
        no_cluster_file=int(not options.get("cluster_file", True)),
        progress=_switch(options.get("progress")),
        **members,
    )
    return made
