"""The dispatcher process: its loops, in the order in which they start."""

from __future__ import annotations

from detectsched.db.connection import Ledger
from detectsched.db.notifications import WEBHOOK_CHANNEL, Notifications
from detectsched.dispatcher.allocator import Allocator
from detectsched.dispatcher.entitlements import EntitlementKeeper
from detectsched.dispatcher.pauses import PauseKeeper
from detectsched.dispatcher.promoter import Promoter
from detectsched.dispatcher.reaper import Reaper
from detectsched.dispatcher.rebuilder import Rebuilder
from detectsched.dispatcher.reconciler import Reconciler
from detectsched.dispatcher.relay import Relay
from detectsched.dispatcher.settler import Settler
from detectsched.dispatcher.statistician import Statistician
from detectsched.dispatcher.sweeper import Sweeper
from detectsched.dispatcher.watermark import Watermark
from detectsched.lifecycle import Service
from detectsched.queueing.queue import Queue
from detectsched.settings import Settings


def dispatcher_services(queue: Queue, ledger: Ledger, settings: Settings) -> list[Service]:
    """Return the dispatcher's loops.

    The rebuilder comes first: until the gate is open the others only wait. The allocators come last, so that whatever
    heals is at work before new work is handed out, and they stop first.
    """
    scheduler = settings.scheduler
    settler = Settler(queue, ledger, scheduler)
    relay = Relay(ledger, settings.webhooks, tick_seconds=scheduler.safety_tick_seconds)
    return [
        Rebuilder(queue, ledger, settings),
        settler,
        Reaper(queue, ledger, settings.lanes, scheduler),
        Promoter(queue, ledger, settings.lanes, scheduler),
        Sweeper(queue, ledger, scheduler),
        Reconciler(queue, ledger, scheduler, settings.lanes),
        PauseKeeper(queue, ledger, settings),
        EntitlementKeeper(queue, ledger, settings),
        Watermark(queue, ledger, settings),
        relay,
        Notifications(ledger, {WEBHOOK_CHANNEL: lambda _payload: relay.wake()}),
        Statistician(ledger, settings.reports),
        *(Allocator(queue, lane, scheduler, on_decided=settler.wake) for lane in settings.lanes),
    ]
