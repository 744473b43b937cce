"""Images to text: judged by their header, decoded strictly, read by an engine in a process of its own.

What the API uses is `inspect`; what a runner uses is `pool`. The rest, in the order of a call: `process` (the parent's
end) and `protocol` (what goes over the pipe) lead to `child`, which calls `decode` and `engine`; `rapid` and `paddle`
are the engines, and `reading` is what both have in common.
"""
