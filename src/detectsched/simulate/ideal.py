"""Ideal processor sharing: what a scheduler that could divide every slot without end would do.

Generalised processor sharing (Parekh and Gallager 1993) at two levels: at every moment the lane's whole capacity is
divided among the tenants with work in proportion to their weights, and within a tenant among its queues with work. No
task is whole, no slot is single, nothing is known of the future: real schedulers can only come close.
"""

from __future__ import annotations

import numpy as np

from detectsched.simulate.arrivals import Floats, Integers, Tasks

_DONE: float = 1e-9  # seconds of work that are rounding, not work


def ideal_finish(tasks: Tasks, lane: str, capacity: float) -> Floats:
    """Return when each device's last task of a lane would be finished; NaN for devices without any.

    Args:
        tasks: all tasks; those of other lanes are left out.
        lane: whose work is shared.
        capacity: slots times speed of all its runners, in seconds of work per second.
    """
    devices = tasks.devices
    tenants = {name: index for index, name in enumerate(dict.fromkeys(device.queue.tenant for device in devices))}
    tenant = np.array([tenants[device.queue.tenant] for device in devices], dtype=np.int64)
    weight = np.array([device.entitlement.weight for device in devices])
    tenant_weight = np.ones(len(tenants))
    for device in devices:
        tenant_weight[tenants[device.queue.tenant]] = device.entitlement.tenant_weight
    remaining, finish = np.zeros(len(devices)), np.full(len(devices), np.nan)
    in_lane = np.array([device.lane == lane for device in devices])[tasks.device]
    moments, first = np.unique(tasks.arrival[in_lane], return_index=True)
    device, seconds = tasks.device[in_lane], tasks.seconds[in_lane]
    bounds = np.append(first, len(device))
    for number, moment in enumerate(moments):
        arrived = slice(bounds[number], bounds[number + 1])
        np.add.at(remaining, device[arrived], seconds[arrived])
        until = float(moments[number + 1]) if number + 1 < len(moments) else np.inf
        _share(float(moment), until, remaining, finish, _Rates(tenant, weight, tenant_weight, capacity))
    return finish


class _Rates:
    """Who gets how much of the capacity while these devices have work."""

    def __init__(self, tenant: Integers, weight: Floats, tenant_weight: Floats, capacity: float) -> None:
        self._tenant = tenant
        self._weight = weight
        self._tenant_weight = tenant_weight
        self._capacity = capacity

    def of(self, busy: Integers) -> Floats:
        """Return the seconds of work per second that each of the busy devices gets."""
        tenant, weight = self._tenant[busy], self._weight[busy]
        in_tenant = np.bincount(tenant, weights=weight, minlength=len(self._tenant_weight))
        of_tenant = np.where(in_tenant > 0, self._tenant_weight, 0.0)
        share: Floats = self._capacity * (of_tenant / of_tenant.sum())[tenant] * weight / in_tenant[tenant]
        return share


def _share(now: float, until: float, remaining: Floats, finish: Floats, rates: _Rates) -> None:
    """Serve everybody from ``now`` to ``until``, noting who is finished when."""
    while now < until:
        busy = np.flatnonzero(remaining > _DONE)
        if len(busy) == 0:
            return
        rate = rates.of(busy)
        step = min(until - now, float(np.min(remaining[busy] / rate)))
        remaining[busy] -= step * rate
        now += step
        done = busy[remaining[busy] <= _DONE]
        finish[done] = now
