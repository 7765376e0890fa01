"""A worker that does what the name of a schema says: it answers, hangs, crashes, or grows.

What: a stand-in for `bench.json_schema.worker`.
When: in tests of `bench.json_schema.runner`.
Limits: it knows no engine.
"""

from __future__ import annotations

import json
import os
import sys
import time

print(json.dumps({"missing": ""}), flush=True)
for line in sys.stdin:
    name = json.loads(line)["file"]
    print(json.dumps({"answer": {"first_mask": 1.0}}), flush=True)
    if name == "hangs":
        time.sleep(60)
    if name == "crashes":
        os._exit(3)
    if name == "grows":
        held = bytearray(os.urandom(1 << 20) * 700)
        time.sleep(60)
    print(json.dumps({"answer": {"pid": os.getpid()}}), flush=True)
    print(json.dumps({"done": True}), flush=True)
