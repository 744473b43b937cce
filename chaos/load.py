"""The client: devices and objects that submit, ask again when no answer came, cancel, hang up; all of it journalled."""

from __future__ import annotations

import asyncio
import io
import itertools
import random
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import httpx
from PIL import Image

from chaos.cluster import TENANTS, Cluster
from chaos.engine import POISON
from chaos.journal import Accepted, Asked, Journal, Probe, Refused, Sample, Unknown
from detectsched.clock import utc_now

_TIMEOUT_SECONDS: Final = 4.0
_LOOK_SECONDS: Final = 0.3
_POISONED: Final = 0.005
_ABANDONED: Final = 0.02
_HUNG_UP: Final = 0.02
_CANCELLED: Final = 0.03
_DELAYED: Final = 0.02


def png(note: bytes) -> bytes:
    """Return a small image; what follows its end is read by nobody but the stand-in engine."""
    file = io.BytesIO()
    Image.new("RGB", (64, 64), "white").save(file, "PNG")
    return file.getvalue() + note


class Load:
    """``devices`` per tenant submit texts and images, ``objects`` per tenant one request after the other."""

    def __init__(self, system: Cluster, journal: Journal, seed: int, *, devices: int = 5, objects: int = 4) -> None:
        self._system = system
        self._journal = journal
        self._seed = seed
        self._devices, self._objects = devices, objects
        self._numbers = itertools.count(1)
        self._enough = asyncio.Event()
        limits = httpx.Limits(max_connections=200, max_keepalive_connections=100)
        self._client = httpx.AsyncClient(base_url=system.url, timeout=_TIMEOUT_SECONDS, limits=limits)
        self.accepted = 0
        """Tasks that were answered with 202."""

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def stop(self) -> None:
        """Begin no new request; what was begun is asked for until it is answered."""
        self._enough.set()

    async def backlog(self, tasks: int) -> None:
        """Submit so many texts of each device at once: there is nobody yet to work them off."""
        chance = random.Random(self._seed)  # noqa: S311 - not a secret
        await asyncio.gather(
            *(
                self.ask(TENANTS[0], {"mac": _mac(0, device), "text": "backlog"}, chance)
                for _ in range(tasks)
                for device in range(self._devices)
            )
        )

    async def run(self) -> None:
        """Submit until told to stop."""
        senders = [
            self._sender(tenant, number, chance=random.Random(f"{self._seed}:{tenant}:{number}"))  # noqa: S311
            for tenant in range(len(TENANTS))
            for number in range(self._devices + self._objects)
        ]
        await asyncio.gather(*senders)

    async def look(self) -> None:
        """Note counters and readiness until told to stop."""
        prefix = f"{{{self._system.settings.redis.prefix}:0}}:"
        async with self._system.redis(socket_timeout=1.0) as client:
            while not self._enough.is_set():
                with suppress(Exception):
                    self._journal.write(Sample(self._journal.now(), await _counters(client, prefix)))
                self._journal.write(Probe(self._journal.now(), await self.ready()))
                await asyncio.sleep(_LOOK_SECONDS)

    async def ready(self) -> bool:
        """Ask the API whether it is ready."""
        try:
            return (await self._client.get("/readyz")).status_code == 200
        except httpx.HTTPError:
            return False

    async def _sender(self, tenant: int, number: int, chance: random.Random) -> None:
        is_object = number >= self._devices
        whose = {"object": f"door {number}"} if is_object else {"mac": _mac(tenant, number)}
        while not self._enough.is_set():
            body: dict[str, Any] = dict(whose)
            if chance.random() < 0.4:
                body["image"] = POISON if chance.random() < _POISONED else b"harmless"
            else:
                body["text"] = f"a text of {number}"
            if chance.random() < _DELAYED:
                body["not_before"] = (utc_now() + timedelta(seconds=1)).isoformat()
            task = await self.ask(TENANTS[tenant], body, chance)
            if task is not None and chance.random() < _CANCELLED:
                await self.cancel(TENANTS[tenant], task)
            # Most of the time somebody else has his turn; a burst now and then.
            await asyncio.sleep(0 if chance.random() < 0.5 else chance.uniform(0.0, 0.1))

    async def ask(self, tenant: str, body: dict[str, Any], chance: random.Random) -> str | None:
        """Ask for a task until an answer says yes; None where the client gave up."""
        key = f"{self._seed}-{next(self._numbers)}"
        patience = chance.uniform(0.001, 0.02) if chance.random() < _HUNG_UP else _TIMEOUT_SECONDS
        while True:
            name = body.get("object")
            self._journal.write(Asked(self._journal.now(), key, tenant, name))
            try:
                response = await asyncio.wait_for(self._post(tenant, key, body), patience)
            except (httpx.HTTPError, TimeoutError) as error:
                self._journal.write(Unknown(self._journal.now(), key, type(error).__name__))
                if chance.random() < _ABANDONED:
                    return None
            else:
                if response.status_code in {200, 202}:
                    task = str(response.json()["task_id"])
                    self._journal.write(Accepted(self._journal.now(), key, tenant, task, name))
                    self.accepted += 1
                    return task
                self._journal.write(Refused(self._journal.now(), key, response.status_code))
                if response.status_code not in {429, 503}:
                    return None
            patience = _TIMEOUT_SECONDS
            await asyncio.sleep(chance.uniform(0.05, 0.4))

    async def cancel(self, tenant: str, task: str) -> None:
        """Ask once for a task to be cancelled, whatever comes of it."""
        with suppress(httpx.HTTPError):
            await self._client.delete(f"/api/tasks/{task}", headers=self._headers(tenant))

    async def _post(self, tenant: str, key: str, body: dict[str, Any]) -> httpx.Response:
        headers = self._headers(tenant) | {"Idempotency-Key": key}
        fields = {name: str(value) for name, value in body.items() if name != "image"}
        if "image" in body:
            # Each is another image: an identical one would not be read twice.
            files = {"image": ("image.png", png(body["image"] + key.encode()), "image/png")}
            return await self._client.post("/api/ocr/image", data=fields, files=files, headers=headers)
        return await self._client.post("/api/ocr/text", json=body, headers=headers)

    def _headers(self, tenant: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._system.keys[tenant]}"}


def _mac(tenant: int, number: int) -> str:
    return f"02:00:00:00:{tenant:02x}:{number:02x}"


async def _counters(client: Any, prefix: str) -> dict[str, int]:
    pipe = client.pipeline(transaction=True)
    pipe.get(prefix + "global_pending")
    pipe.hgetall(prefix + "tenant:pending")
    pipe.hgetall(prefix + "mac:pending")
    total, tenants, subjects = await pipe.execute()
    counts = {"global_pending": int(total or 0)}
    for family in (tenants, subjects):
        counts |= {name.decode(): int(count) for name, count in family.items()}
    return counts
