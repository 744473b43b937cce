"""What can be paused, as it is named in the ledger and in Redis, and which lanes and queues that concerns."""

from __future__ import annotations

from collections.abc import Sequence

from detectsched.queueing.vocabulary import subject_of
from detectsched.task import QueueId


def paused_lane(lane: str) -> str:
    """Return the name under which a lane is paused."""
    return f"lane:{lane}"


def paused_tenant(tenant: str) -> str:
    """Return the name under which a tenant is paused."""
    return f"tenant:{tenant}"


def paused_subject(queue: QueueId) -> str:
    """Return the name under which a device (whichever lane the queue is of) or an object is paused."""
    return f"subject:{subject_of(queue)}"


def paused_runner(label: str) -> str:
    """Return the name under which the runners of a label are drained."""
    return f"runner:{label}"


def concerned(what: str, lanes: Sequence[str]) -> tuple[tuple[str, ...], tuple[QueueId, ...]]:
    """Return the lanes to be woken, and the queues to be put right, when something is paused or resumed.

    Args:
        what: a name made by the functions above.
        lanes: all lanes there are.
    """
    kind, _, name = what.partition(":")
    match kind:
        case "lane":
            return (name,), ()
        case "tenant":
            return tuple(lanes), ()
        case "subject":
            tenant, _, rest = name.partition(":")
            if rest.startswith("object:"):
                return tuple(lanes), (QueueId.of_object(tenant, rest.removeprefix("object:")),)
            return tuple(lanes), tuple(QueueId.of_device(tenant, lane, rest) for lane in lanes)
        case _:
            return (), ()
