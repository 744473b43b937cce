"""Every key in Redis: its name, type, members, life time and writer. The Lua files name them in the same words.

All keys of a shard share one hash tag, ``{sensitive:0}:``, so that a shard lives in one slot of a Redis Cluster. Names
after the tag (``<t>`` tenant, ``<l>`` lane, ``<q>`` queue id, ``<id>`` task id):

======================== ====== =========================================================== =============== ============
key                      type   content                                                     life            written by
======================== ====== =========================================================== =============== ============
generation               STRING names this life of the data: ``<uuid>@<run id of the server>`` for ever        rebuilder
rebuild                  STRING token of the rebuild under way                              lock TTL        rebuilder
scheduler                HASH   policy                                                      for ever        rebuilder
mac:queue:<t>:<l>:<mac>  LIST   ``lane|created_ms|cost|sequence|task id`` by sequence       while not empty scripts
object:queue:<t>:<name>  LIST   the same                                                    while not empty scripts
mac:meta:…, object:meta… HASH   key:<l> and epoch:<l> (of v), weight, limit, rate, burst,   while it        scripts
                                tokens, filled, inflight, deferred, tombstones, lane (where matters, then
                                it is scheduled), since (eligible), until (back-off),       meta TTL
                                failures, probing, defers
tenant:meta:<l>:<t>      HASH   key, v (key last served among its queues), epoch (of v),    while           scripts
                                weight                                                      scheduled, then
                                                                                            meta TTL
tenant:limits:<t>        HASH   rate, burst, tokens, filled, until                          a day           scripts
paused                   HASH   ``lane:…``, ``tenant:…``, ``subject:…`` → since (ms)        while paused    pause
unserved:<l>             SET    queues that backed off for want of a runner                 while not empty defer
lane:last                HASH   lane → queue served last for one task while another starved for ever        dispatch
lane:admission           HASH   lane → any or gpu: which runners may read its stream        for ever        allocator
lane:seconds             HASH   lane → smoothed seconds of work per unit of cost            for ever        complete
task:<id>                HASH   state (queued, deferred, streamed, held, withdrawn,         while open      scripts
                                settling), queue, lane, created, cost, sequence, expires,
                                ready, delivery, entry, owner, cancel
mac:schedule:<l>         ZSET   tenants with something to serve, by virtual key             while not empty scripts
mac:schedule:<l>:<t>     ZSET   servable queues of a tenant, by virtual key                 while not empty scripts
stream:<l>               STREAM t task id, d delivery; group ``runners``                    for ever        dispatch
wake:<l>, wake:@deferred LIST   at most one token                                           until popped    scripts
global_pending           STRING tasks waiting (queued or deferred)                          for ever        scripts
tenant:pending           HASH   tenant → tasks waiting, no zeros                            while not empty scripts
mac:pending              HASH   ``<t>:<mac>`` or ``<t>:object:<name>`` → waiting, no zeros  while not empty scripts
overloaded_macs          SET    subjects over their limit                                   while not empty admit
lane:completed           HASH   lane → tasks completed                                      for ever        complete
settlement               LIST   ``<decision>|<task id>`` not yet in PostgreSQL              while not empty dispatch
repairs                  HASH   kind → what the reconciler had to put right; should stay 0  for ever        reconciler
dead_letter              LIST   newest dead letters, JSON                                   for ever        dispatcher
watermark                STRING level of the system, JSON                                   watermark TTL   dispatcher
worker:<host>:<pid>      HASH   a runner's record                                           runner TTL      runner
workers                  ZSET   names of runners by expiry (ms)                             while not empty runner
workers_epoch            STRING changes whenever a runner comes, goes or changes its health for ever        runner
done, cancel             (channels) task ids; hints only                                    –               scripts
======================== ====== =========================================================== =============== ============
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GROUP: Final = "runners"
"""The consumer group of every lane's stream."""

DEFERRED: Final = "@deferred"
"""Stands for the deferred set where a wake-up list is named; no lane can have this name."""

_WITHOUT_TTL: Final = (
    "generation",
    "scheduler",
    "mac:queue:",
    "object:queue:",
    "task:",
    "mac:schedule:",
    "mac:clock",
    "deferred",
    "stream:",
    "wake:",
    "global_pending",
    "tenant:pending",
    "mac:pending",
    "overloaded_macs",
    "paused",
    "unserved:",
    "lane:",
    "settlement",
    "dead_letter",
    "repairs",
    "workers",
    "mac:meta:",
    "object:meta:",
    "tenant:meta:",
)


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of one shard's keys."""

    prefix: str = "sensitive"
    shard: int = 0

    @property
    def tag(self) -> str:
        """Everything before a key's own name."""
        return f"{{{self.prefix}:{self.shard}}}:"

    def named(self, name: str) -> str:
        """Return the full name of a key of the table above."""
        return self.tag + name

    @property
    def generation(self) -> str:
        """The key that every script is given."""
        return self.tag + "generation"

    def stream(self, lane: str) -> str:
        """Return the stream of a lane."""
        return f"{self.tag}stream:{lane}"

    def wake(self, lane: str) -> str:
        """Return the wake-up list of a lane."""
        return f"{self.tag}wake:{lane}"

    def task(self, task_id: object) -> str:
        """Return the hash of an open task."""
        return f"{self.tag}task:{task_id}"


def is_owned_without_ttl(key: str) -> bool:
    """Whether a key may live without a TTL: it belongs to a family above whose life is not a TTL's."""
    _, _, name = key.partition("}:")
    return name.startswith(_WITHOUT_TTL)
