"""Sends what the outbox of webhooks holds: claim, send, mark (docs/decisions/0012-outbox.md).

What was sent and not marked, because its sender died in between, is sent again under the same id when the claim has
run out: at least once, and receivers know a repetition by its webhook-id.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

from detectsched import failpoints
from detectsched.clock import monotonic, utc_now
from detectsched.db import webhooks
from detectsched.db.audit import Actor
from detectsched.db.connection import Ledger
from detectsched.db.deliveries import Claimed, DeliveryState, Mark, bury_old, claim, mark
from detectsched.db.group_commit import GroupCommit
from detectsched.errors import SealBroken, StoreUnavailable
from detectsched.lifecycle import Loop
from detectsched.settings import WebhookSettings
from detectsched.telemetry import get_logger
from detectsched.webhooks import signing
from detectsched.webhooks.sender import Sender
from detectsched.webhooks.verdict import Answer, Fate, Verdict, judge

log = get_logger(__name__)

_BURY_SECONDS: Final = 60.0
_BURY_LIMIT: Final = 1000
_STOP_SECONDS: Final = 5.0
"""How long sends that are under way may go on after a stop; what is cut off is sent again by another dispatcher."""
_MOST_MARKS: Final = 100
_STATES: Final = {
    Fate.DELIVERED: DeliveryState.DELIVERED,
    Fate.AGAIN: DeliveryState.PENDING,
    Fate.DEAD: DeliveryState.DEAD,
    Fate.GONE: DeliveryState.DEAD,
}


class Relay(Loop):
    """Claims what is due and sends it in the background, so that a slow address delays no turn."""

    def __init__(self, ledger: Ledger, settings: WebhookSettings, *, tick_seconds: float) -> None:
        super().__init__(tick_seconds)
        self._ledger = ledger
        self._settings = settings
        self._sender: Sender | None = None
        self._sends: set[asyncio.Task[None]] = set()
        self._sending: Counter[tuple[str, str]] = Counter()
        self._full = False
        self._bug: BaseException | None = None
        self._last_burial = 0.0
        self._marks: GroupCommit[Mark, bool] = GroupCommit(self._write, max_items=_MOST_MARKS)

    async def run_once(self) -> int:
        """Begin to send as much as there is room for; return how many messages."""
        if self._bug is not None:
            raise self._bug
        await self._bury()
        room = self._settings.max_in_flight - len(self._sends)
        if room <= 0:
            return 0
        claimed = await claim(
            self._ledger,
            sending=self._sending,
            per_channel=self._settings.max_in_flight_per_endpoint,
            per_tenant=self._settings.max_in_flight_per_tenant,
            limit=room,
            lease_seconds=self._settings.claim_seconds,
        )
        for message in claimed:
            self._begin(message)
        self._full = len(claimed) == room or self._is_some_share_used_up()
        return len(claimed)

    def _is_some_share_used_up(self) -> bool:
        """Whether there may be more that is due: then each send that ends makes room for it."""
        tenants: Counter[str] = Counter()
        for (tenant, _), count in self._sending.items():
            tenants[tenant] += count
        return any(count >= self._settings.max_in_flight_per_endpoint for count in self._sending.values()) or any(
            count >= self._settings.max_in_flight_per_tenant for count in tenants.values()
        )

    async def settled(self) -> None:
        """Wait until everything that was begun has been answered and marked."""
        while self._sends:
            await asyncio.wait(self._sends)

    async def stop(self) -> None:
        """Begin nothing more; give what is under way a moment."""
        await super().stop()
        if self._sends:
            _, left = await asyncio.wait(self._sends, timeout=_STOP_SECONDS)
            for send in left:
                send.cancel()
            if left:
                await asyncio.wait(left)
        await self._marks.drain()
        if self._sender is not None:
            sender, self._sender = self._sender, None
            await sender.close()

    def _begin(self, message: Claimed) -> None:
        self._sending[message.tenant, message.channel] += 1
        send = asyncio.create_task(self._deliver(message), name=f"webhook-{message.id}")
        self._sends.add(send)
        send.add_done_callback(lambda done: self._ended(done, (message.tenant, message.channel)))

    def _ended(self, send: asyncio.Task[None], share: tuple[str, str]) -> None:
        self._sends.discard(send)
        self._sending[share] -= 1
        if not self._sending[share]:
            del self._sending[share]
        if not send.cancelled() and (error := send.exception()) is not None:
            # It ends the loop, and with it the process: a bug must not be retried for ever in silence.
            self._bug = error
            self.wake()
        elif self._full:
            self.wake()

    async def _deliver(self, message: Claimed) -> None:
        try:
            verdict = judge(
                await self._send(message),
                attempt=message.attempt,
                age_seconds=message.age_seconds,
                settings=self._settings,
                now=utc_now(),
            )
            await self._settle(message, verdict)
        except StoreUnavailable as error:
            log.warning("a message to a webhook is sent again", delivery=str(message.id), error=error.detail)

    async def _send(self, message: Claimed) -> Answer:
        secrets = message.secrets or await self._first_secret(message)
        if not secrets:
            # Nothing is sent unsigned; whoever brings the master key back finds the message still there.
            return Answer(error="no_secret")
        self._sender = self._sender or Sender(self._settings)
        headers = signing.headers(str(message.message_id), int(utc_now().timestamp()), message.body, secrets)
        failpoints.hit("webhook.before_send")
        answer = await self._sender.send(message.url, message.body, headers)
        failpoints.hit("webhook.after_send")
        return answer

    async def _first_secret(self, message: Claimed) -> Sequence[str]:
        """Make the secret of a tenant's callbacks at the first need; a webhook has had its own from the beginning."""
        if message.webhook_id is not None:
            return ()
        try:
            return (await webhooks.ensure_callback_secret(self._ledger, message.tenant, signing.new_secret()),)
        except SealBroken:
            return ()

    async def _settle(self, message: Claimed, verdict: Verdict) -> None:
        state = _STATES[verdict.fate]
        marked = await self._marks.submit(
            Mark(message.id, message.until, state, verdict.delay_seconds, verdict.status, verdict.error)
        )
        if verdict.fate is Fate.GONE and message.webhook_id is not None:
            await webhooks.disable_webhook(
                self._ledger, message.webhook_id, reason="gone", by=Actor("dispatcher relay")
            )
        told = log.debug if verdict.fate is Fate.DELIVERED else log.info
        # Never the URL: what is behind its question mark may be a secret.
        told(
            "webhook answered",
            delivery=str(message.id),
            webhook=str(message.webhook_id or "callback"),
            fate=verdict.fate.value,
            attempt=message.attempt,
            status=verdict.status,
            error=verdict.error,
            taken_over=not marked,
        )

    async def _write(self, marks: Sequence[Mark]) -> list[bool]:
        return await mark(self._ledger, marks)

    async def _bury(self) -> None:
        if monotonic() - self._last_burial < _BURY_SECONDS and self._last_burial:
            return
        buried = await bury_old(self._ledger, max_age_seconds=self._settings.max_age_seconds, limit=_BURY_LIMIT)
        if buried:
            log.warning("messages to webhooks were given up: too old", count=buried)
        if buried < _BURY_LIMIT:
            self._last_burial = monotonic()
