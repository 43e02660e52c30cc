"""A lost node is told apart from a run that fails, by what Ray says of it."""

from __future__ import annotations

import pytest

from orchestrator.engine.ray.adapters import lost_node

DIED = """The actor died unexpectedly before finishing this task.
\tclass_name: ResourceTrainable
\tpid: 301
\tip: 10.77.0.3
"""
LOST = DIED + "the actor's node was terminated unexpectedly: health check failed due to missing too many heartbeats\n"
KILLED = DIED + "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR\n"
SILENT = (
    "The actor 3f0a41 is unavailable: The actor is temporarily unavailable: RpcError: RPC error: Socket closed. "
    "The task may or may not have been executed on the actor.\n"
)
RAISED = "ray::ResourceTrainable.train() (pid=301, ip=10.77.0.3)\nValueError: the actor's patience\n"


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ([LOST], "the node 10.77.0.3 was lost (health check failed due to missing too many heartbeats)"),
        ([KILLED, LOST], "the node 10.77.0.3 was lost (health check failed due to missing too many heartbeats)"),
        ([DIED + "The actor died because its node has died. Node Id: 99cf\n"], "the node 10.77.0.3 was lost"),
        ([DIED + "the actor's node was preempted: a notice\n"], "the node 10.77.0.3 was lost (a notice)"),
        (
            [KILLED, SILENT],
            "a node was lost, or cannot be reached (The actor is temporarily unavailable: RpcError: RPC error: Socket "
            "closed)",
        ),
        ([KILLED], ""),
        ([LOST, RAISED], ""),
        ([], ""),
    ],
)
def test_the_last_failure_says_whether_a_node_was_lost(failures: list[str], said: str) -> None:
    text = "".join(
        f"Failure # {number} (occurred at 2026-11-23_07-17-12)\n{each}" for number, each in enumerate(failures)
    )
    assert lost_node(text) == said
