"""``detectsched task``: tasks of a running system."""

from __future__ import annotations

from typing import Annotated, Any, Final
from uuid import UUID

import typer

from detectsched.cli.output import Shown, cell, facts, table
from detectsched.cli.remote import Api, remote
from detectsched.task import TaskState

app = typer.Typer(no_args_is_help=True, help="Tasks: get, list, cancel, and why one waits.", rich_markup_mode=None)

TaskId = Annotated[UUID, typer.Argument(help="The task's id.")]

_SHOWN: Final = (
    "id",
    "kind",
    "lane",
    "state",
    "mac",
    "object",
    "created_at",
    "not_before",
    "expires_at",
    "started_at",
    "finished_at",
    "attempts",
    "cost",
    "file_name",
    "redrive_of",
    "redriven_as",
)


@app.command()
@remote
async def get(
    api: Api,
    task_id: TaskId,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for its end.")] = 0.0,
) -> Shown:
    """Show a task, with what was found in it."""
    task = await api.get(f"/api/tasks/{task_id}", wait=wait)
    error = task["error"]
    lines = facts(
        [
            *((name, task[name]) for name in _SHOWN if task[name] is not None),
            *([("error", f"{error['reason']}: {error['detail']}")] if error else []),
            ("hits", task["hit_count"]),
        ]
    )
    if task["hits"]:
        rows = [[hit["word"], hit["matched"], hit["level"], hit["category"], hit["list"]["id"]] for hit in task["hits"]]
        lines += ["", *table(["WORD", "MATCHED", "LEVEL", "CATEGORY", "LIST"], rows)]
    return Shown(task, lines)


@app.command("list")
@remote
async def list_(
    api: Api,
    state: Annotated[TaskState | None, typer.Option(help="Only those in this state.")] = None,
    lane: Annotated[str | None, typer.Option(help="Only those of this lane.")] = None,
    mac: Annotated[str | None, typer.Option(help="Only those of this device.")] = None,
    object_: Annotated[str | None, typer.Option("--object", help="Only those of this object.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most tasks to show.")] = 50,
) -> Shown:
    """List tasks, newest first."""
    word = None if state is None else state.value
    items = await api.pages("/api/tasks", limit=limit, most=500, state=word, lane=lane, mac=mac, object=object_)
    rows = [
        [task["id"], task["state"], task["lane"], task["mac"] or task["object"], task["created_at"], task["hit_count"]]
        for task in items
    ]
    return Shown(items, table(["ID", "STATE", "LANE", "OF", "CREATED", "HITS"], rows))


@app.command()
@remote
async def cancel(api: Api, task_id: TaskId) -> Shown:
    """Cancel a task; one that runs is stopped first."""
    answer = await api.delete(f"/api/tasks/{task_id}")
    words = "is cancelled" if answer["state"] == TaskState.CANCELLED.value else "runs, and is being stopped"
    return Shown(answer, [f"{task_id} {words}"])


@app.command()
@remote
async def why(api: Api, task_id: TaskId) -> Shown:
    """Say why a task waits: every obstacle, its place, the runners of its lane, and when it should start."""
    told = await api.get(f"/api/tasks/{task_id}/explain")
    lines = [f"{told['task_id']}: {told['state']}, lane {told['lane']}", cell(told["summary"])]
    lines += [f"  {_reason(reason)}" for reason in told["reasons"]]
    if told["places"] is not None:
        lines.append(_place(told["places"]))
    if told["scores"] is not None:
        scores = told["scores"]
        lines.append(
            f"scores of its queue: fair {scores['virtual_key']:.6g}, aging {scores['aging_score']:.6g}, "
            f"fifo {scores['fifo_sequence']} (in force: {scores['policy']})"
        )
    if told["state"] == TaskState.QUEUED.value:
        seconds = told["estimated_start_seconds"]
        lines.append("start: cannot be told" if seconds is None else f"start: in about {seconds:.3g} s")
        lines += ["", *_runners(told["runners"])]
    return Shown(told, lines)


def _reason(reason: dict[str, Any]) -> str:
    until = f" (until {cell(reason['until'])})" if reason["until"] else ""
    return f"{reason['obstacle']}: {cell(reason['detail'])}{until}"


def _place(places: dict[str, Any]) -> str:
    ahead = f"place: {places['ahead']} before it in its queue"
    if places["queue_rank"] is None:
        return f"{ahead}, which is not in the round now"
    return (
        f"{ahead}; before its queue {places['queue_rank']} of {places['queues']} queues of its tenant, and "
        f"{places['tenant_rank'] or 0} of {places['tenants']} tenants"
    )


def _runners(runners: list[dict[str, Any]]) -> list[str]:
    if not runners:
        return ["no runner of its lane is there"]
    rows = [
        [runner["name"], runner["label"], runner["serving"], runner["slots"], runner["active_tasks"], runner["reason"]]
        for runner in runners
    ]
    return table(["RUNNER", "LABEL", "SERVING", "SLOTS", "ACTIVE", "WHY NOT"], rows)
