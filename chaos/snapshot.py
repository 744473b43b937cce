"""All that Redis holds of a shard, read at one instant, and what must be true of it at any time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from detectsched.queueing.queue import Placement, Queue, subject_of
from detectsched.task import QueueId

_READ: Final = """
local all = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  local kind = redis.call('TYPE', key).ok
  local value
  if kind == 'string' then value = redis.call('GET', key)
  elseif kind == 'hash' then value = redis.call('HGETALL', key)
  elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'set' then value = redis.call('SMEMBERS', key)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'stream' then value = redis.call('XRANGE', key, '-', '+') end
  all[#all + 1] = {string.sub(key, #ARGV[1] + 1), kind, redis.call('PTTL', key), value}
end
return all
"""

OUT: Final = frozenset({"streamed", "held"})
"""States of a task that uses up a place in flight."""


@dataclass
class Snapshot:
    """The keys by their names after the tag; hashes as dicts, sorted sets as dicts of scores."""

    strings: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, dict[str, str]] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)
    zsets: dict[str, dict[str, float]] = field(default_factory=dict)
    streams: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    mortal: set[str] = field(default_factory=set)
    """Keys that have a TTL."""

    @classmethod
    async def read(cls, queue: Queue, redis: Any) -> Snapshot:
        """Read everything."""
        taken = cls()
        for key, kind, life, value in await redis.eval(_READ, 0, queue.keys.tag):
            taken._add(key.decode(), kind.decode(), value)
            if life >= 0:
                taken.mortal.add(key.decode())
        return taken

    def _add(self, key: str, kind: str, value: Any) -> None:
        if kind == "string":
            self.strings[key] = value.decode()
        elif kind == "stream":
            self.streams[key] = {entry.decode(): _pairs(fields) for entry, fields in value}
        elif kind == "hash":
            self.hashes[key] = _pairs(value)
        elif kind == "zset":
            self.zsets[key] = {name: float(score) for name, score in _pairs(value).items()}
        else:
            self.lists[key] = [each.decode() for each in value]

    def task(self, task_id: UUID) -> dict[str, str]:
        """Return a task's hash."""
        return self.hashes.get(f"task:{task_id}", {})

    def state(self, task_id: UUID) -> str:
        """Return a task's state, '' where Redis does not know it."""
        return self.task(task_id).get("state", "")

    def meta(self, queue: str) -> dict[str, str]:
        """Return a queue's meta."""
        return self.hashes.get(_named(queue, "meta"), {})

    def waiting(self, queue: str) -> list[UUID]:
        """Return what stands in a queue's list and was not withdrawn, first to be served first."""
        ids = [UUID(element.rsplit("|", 1)[1]) for element in self.lists.get(_named(queue, "queue"), [])]
        return [task_id for task_id in ids if self.state(task_id) != "withdrawn"]

    def scheduled(self) -> dict[tuple[str, str], float]:
        """Return the virtual key of each (lane, queue) in the schedule."""
        return {(lane, queue): key for lane, _, queues in self._schedules() for queue, key in queues.items()}

    def scheduled_tenants(self) -> dict[tuple[str, str], float]:
        """Return the virtual key of each (lane, tenant) in the schedule."""
        found: dict[tuple[str, str], float] = {}
        for name, members in self.zsets.items():
            if name.startswith("mac:schedule:") and name.count(":") == 2:
                found |= {(name.rsplit(":", 1)[1], tenant): key for tenant, key in members.items()}
        return found

    def _schedules(self) -> Iterator[tuple[str, str, dict[str, float]]]:
        for name, members in self.zsets.items():
            if name.startswith("mac:schedule:") and name.count(":") == 3:
                lane, tenant = name.split(":")[2:]
                yield lane, tenant, members

    def faults(self, open_tasks: Mapping[UUID, Placement], now_ms: int) -> list[str]:
        """Return what is wrong, given the tasks that are open and the time; nothing, if all is well."""
        return [*self.wrong_counts(open_tasks), *self.misplaced(open_tasks, now_ms)]

    def misplaced(self, open_tasks: Mapping[UUID, Placement], now_ms: int) -> list[str]:
        """Return what stands where it does not belong, or nowhere."""
        return [
            *self._wrong_places(open_tasks),
            *self._wrong_queues(open_tasks, now_ms),
            *self._wrong_keys(),
            *self._leftovers(open_tasks),
        ]

    def places(self) -> dict[str, list[str]]:
        """Return every place of every task by id: the list, the stream entry, the deferred set, the settlement."""
        places: dict[str, list[str]] = {}
        for name, elements in self.lists.items():
            if name.startswith(("mac:queue:", "object:queue:")):
                for element in elements:
                    places.setdefault(element.rsplit("|", 1)[1], []).append(f"queued in {name}")
        for name, entries in self.streams.items():
            for entry, told in entries.items():
                places.setdefault(told["t"], []).append(f"streamed in {name} as {entry} under {told['d']}")
        for member in self.zsets.get("deferred", {}):
            what, _, name = member.partition(":")
            if what in {"task", "held"}:
                places.setdefault(name, []).append("deferred" if what == "task" else "held")
        for element in self.lists.get("settlement", []):
            places.setdefault(element.partition("|")[2], []).append("settling")
        return places

    def _wrong_places(self, open_tasks: Mapping[UUID, Placement]) -> Iterator[str]:
        places = self.places()
        for task_id, placement in open_tasks.items():
            task, found = self.task(task_id), places.pop(str(task_id), [])
            entry = f"{task.get('entry')} under {task.get('delivery')}"
            expected = {
                "queued": f"queued in {_named(str(placement.task.queue), 'queue')}",
                "streamed": f"streamed in stream:{placement.task.lane} as {entry}",
            }
            state = task.get("state", "unknown")
            if found != [expected.get(state, state)]:
                yield f"open task {task_id} is {state} and stands in {found}"
        for name, found in places.items():
            left = self.hashes.get(f"task:{name}", {}).get("state")
            if left != "withdrawn" or len(found) != 1 or not found[0].startswith("queued"):
                yield f"task {name} is over ({left}) and stands in {found}"
        for name, elements in self.lists.items():
            sequences = [int(element.split("|")[3]) for element in elements if ":queue:" in name]
            if sequences != sorted(sequences):
                yield f"{name} is out of order: {sequences}"

    def wrong_counts(self, open_tasks: Mapping[UUID, Placement]) -> Iterator[str]:
        """Yield every counter that is not what a recount gives."""
        waiting = [p.task for i, p in open_tasks.items() if self.state(i) in {"queued", "deferred"}]
        recount = {
            "tenant:pending": Counter(task.queue.tenant for task in waiting),
            "mac:pending": Counter(subject_of(task.queue) for task in waiting),
        }
        for name, counts in recount.items():
            kept = {key: int(count) for key, count in self.hashes.get(name, {}).items()}
            if kept != dict(counts):
                yield f"{name} says {kept}, there are {dict(counts)}"
        if int(self.strings.get("global_pending", 0)) != len(waiting):
            yield f"global_pending says {self.strings.get('global_pending')}, there are {len(waiting)}"

    def _wrong_queues(self, open_tasks: Mapping[UUID, Placement], now_ms: int) -> Iterator[str]:
        states: dict[str, Counter[str]] = {}
        limits: dict[str, int] = {}
        for task_id, placement in open_tasks.items():
            name = str(placement.task.queue)
            states.setdefault(name, Counter())[self.state(task_id)] += 1
            limits[name] = 1 if name.startswith("object:") else placement.entitlement.limit
        scheduled, deferred = self.scheduled(), self.zsets.get("deferred", {})
        paused = self.hashes.get("paused", {})
        names = {*states, *(_queue_of(key) for key in self.hashes if ":meta:" in key and key[:6] != "tenant")}
        for name in sorted(names):
            count, meta = states.get(name, Counter()), self.meta(name)
            out, held_back = sum(count[state] for state in OUT), count["deferred"]
            dead = len(self.lists.get(_named(name, "queue"), [])) - len(self.waiting(name))
            kept = {key: int(meta.get(key, 0)) for key in ("inflight", "deferred", "tombstones")}
            if kept != {"inflight": out, "deferred": held_back, "tombstones": dead}:
                yield f"{name} counts {kept}, there are {out} out, {held_back} deferred, {dead} withdrawn"
            if name.startswith("object:") and out > 1:
                yield f"{out} tasks of {name} are out at once"
            head = next(iter(self.waiting(name)), None)
            limit = 1 if "probing" in meta else limits.get(name, 0)
            servable = head is not None and (limit == 0 or out < limit) and float(meta.get("until", 0)) <= now_ms
            servable = servable and f"subject:{subject_of(QueueId.parse(name))}" not in paused
            right = {self.task(head)["lane"]} if servable and head else set()
            found = {lane for lane, queue in scheduled if queue == name}
            # Out of its back-off, but not yet promoted: it may stand in the schedule or not.
            if found != right and not (not found and f"queue:{name}" in deferred):
                yield f"{name} stands in the schedules of {found or 'no lane'}, and belongs into {right or 'none'}"
        tenants = {(lane, queue.split(":")[1]) for lane, queue in scheduled}
        tenants -= {(lane, tenant) for lane, tenant in tenants if f"tenant:{tenant}" in paused}
        blocked = {
            (lane, tenant)
            for lane, tenant in tenants
            if float(self.hashes.get(f"tenant:limits:{tenant}", {}).get("until", 0)) > now_ms
        }
        found_tenants = set(self.scheduled_tenants())
        # Who has used up his rate in one lane leaves the others when they look at him; and out of his wait, but not yet
        # promoted, he may stand in the schedule or not.
        late = {(lane, tenant) for lane, tenant in tenants if f"tenant:{tenant}" in deferred}
        if not tenants - blocked - late <= found_tenants <= tenants:
            yield f"tenants {found_tenants} are scheduled, {tenants} have something to serve, {blocked} wait"

    def _wrong_keys(self) -> Iterator[str]:
        for (lane, name), score in self.scheduled().items():
            meta = self.meta(name)
            if float(meta.get(f"key:{lane}", meta.get("key", "nan"))) != score:
                yield f"{name} is scheduled in {lane} with {score}, and its meta says {meta}"
        for (lane, tenant), score in self.scheduled_tenants().items():
            meta = self.hashes.get(f"tenant:meta:{lane}:{tenant}", {})
            if float(meta.get("key", "nan")) != score:
                yield f"tenant {tenant} is scheduled in {lane} with {score}, and its meta says {meta}"

    def _leftovers(self, open_tasks: Mapping[UUID, Placement]) -> Iterator[str]:
        places = self.places()
        for key in self.hashes:
            if key.startswith("task:") and UUID(key[5:]) not in open_tasks and key[5:] not in places:
                yield f"{key} is left of a task that is over: {self.hashes[key]}"
            if key.startswith("tenant:meta:") and key not in self.mortal:
                lane, tenant = key.split(":")[2:]
                if f"mac:schedule:{lane}:{tenant}" not in self.zsets:
                    yield f"{key} will never be removed: {self.hashes[key]}"
            if key.startswith(("mac:meta:", "object:meta:")) and key not in self.mortal:
                name = _queue_of(key)
                busy = self.waiting(name) or any(int(self.meta(name).get(c, 0)) for c in ("inflight", "deferred"))
                if not busy:
                    yield f"{key} will never be removed: {self.hashes[key]}"


def _pairs(flat: list[bytes]) -> dict[str, str]:
    return {flat[i].decode(): flat[i + 1].decode() for i in range(0, len(flat), 2)}


def _named(queue: str, what: str) -> str:
    kind, rest = queue.split(":", 1)
    return f"{kind}:{what}:{rest}"


def _queue_of(meta_key: str) -> str:
    kind, _, rest = meta_key.split(":", 2)
    return f"{kind}:{rest}"
