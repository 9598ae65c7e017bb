"""A stand-in for docker: `exec` runs here and now, with nothing of our environment; `inspect` knows one container."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

SCRIPT = """#!/bin/sh
if [ "$1" = inspect ]; then
  for name; do :; done
  [ "$name" = box ] || {{ echo "Error: No such container: $name" >&2; exit 1; }}
  cat '{about}'
  exit 0
fi
[ "$1" = exec ] || exit 64
shift
set_up=
while [ "${{1#-}}" != "$1" ]; do
  case "$1" in
    -i) shift ;;
    -w) cd "$2" || exit 126; shift 2 ;;
    -e) printf '%s\\0' "$2" >> "{env}.$$"; shift 2 ;;
  esac
done
shift
exec "{python}" -S -c '
import os, sys
path = sys.argv[1]
given = open(path, "rb").read().split(bytes(1))[:-1] if os.path.exists(path) else []
if given: os.unlink(path)
env = {{b"PATH": b"/usr/local/bin:/usr/bin:/bin", b"PWD": os.environb[b"PWD"]}}
env.update(one.split(b"=", 1) for one in given)
os.execvpe(sys.argv[2], sys.argv[2:], env)
' "{env}.$$" "$@"
"""


def fake_docker(
    where: Path, *, network: str = "none", running: bool = True, name: str = "docker", mount: Path | None = None
) -> str:
    """The path of the program. Its container has `where` mounted under another name, by default one in `where`."""
    box = where / "box"
    box.mkdir(exist_ok=True)
    mounted = mount or box / "workspace"
    if not mounted.is_symlink():
        mounted.symlink_to(where)
    about = {
        "State": {"Running": running},
        "HostConfig": {"NetworkMode": network},
        "Mounts": [{"Type": "bind", "Source": os.path.realpath(where), "Destination": str(mounted)}],
    }
    (box / f"{name}.json").write_text(json.dumps(about))
    program = box / name
    if not program.exists():
        program.write_text(SCRIPT.format(about=box / f"{name}.json", env=box / "env", python=sys.executable))
        program.chmod(0o755)
    return str(program)
