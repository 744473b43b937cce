"""The simulator: the scheduler's own Lua scripts, on a real Valkey, in virtual time.

A `workload.Workload` says who submits what to which runners; `arrivals` makes tasks of it, `engine` lets virtual time
pass, `script_scheduler` asks the scripts (and `formula` the original's formula as it was written), `measures` says what
came of it, `ideal` what would have been ideal, and `report`, `chart` and `page` show it.
"""
