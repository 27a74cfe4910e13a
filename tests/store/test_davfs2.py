"""A real mount by davfs2: files copied in are on the store when it is unmounted, and are read back."""

import os
import random
from pathlib import Path

from fairlead.units import Bytes
from tests.store.davfs2 import with_mount
from tests.store.stores import store

COUNT = 1000 if os.environ.get("FAIRLEAD_CHAOS") == "long" else 60
"""Copied files; a thousand with FAIRLEAD_CHAOS=long."""
SCRIPT = """
cp -r "$SOURCE" "$FOLDER/copied"
df --output=size,used -B1 "$FOLDER" | tail -1
mv "$FOLDER/copied/0" "$FOLDER/copied/moved"
rm "$FOLDER/copied/1"
echo appended >> "$FOLDER/copied/2"
cat "$FOLDER/written-by-another"
"""


def test_a_mount_copies_files(tmp_path: Path) -> None:
    dice = random.Random(5)
    source = tmp_path / "source"
    source.mkdir()
    made = {str(number): dice.randbytes(dice.randrange(200_000)) for number in range(COUNT)}
    for name, data in made.items():
        (source / name).write_bytes(data)
    with store(tmp_path, quota=Bytes(1 << 30)) as served:
        (served.root / "written-by-another").write_text("pod")
        script = SCRIPT.replace("$SOURCE", str(source))
        printed = with_mount(served.url, tmp_path / "mount", script, 600).splitlines()
        copied = {name.removeprefix("copied/"): data for name, data in served.files().items()}
    assert copied.pop("written-by-another") == b"pod"
    assert printed[-1] == "pod"
    # df shows the quota: nothing is invented.
    assert abs(int(printed[0].split()[0]) - (1 << 30)) <= 4096
    made["moved"] = made.pop("0")
    del made["1"]
    made["2"] += b"appended\n"
    assert copied == made
