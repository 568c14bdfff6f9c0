"""Fetch the chat templates that tests/tokens/test_families.py tries: `python .ci/chat_templates.py DIRECTORY`.

They are their makers' and so no part of this repository. The source distribution of llama-cpp-python carries about
seventy of them (77 MB, once); nothing of it is built or run but the metadata that pip asks for.
"""

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

SOURCE = "llama-cpp-python==0.3.36"
FOLDER = "/vendor/llama.cpp/models/templates/"


def main(target: Path) -> None:
    """Download unless `target` has them already."""
    if any(target.glob("*.jinja")):
        return
    with tempfile.TemporaryDirectory() as temporary:
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", "llama-cpp-python"]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, "--dest", temporary, SOURCE], check=True)
        (archive,) = Path(temporary).glob("*.tar.gz")
        with tarfile.open(archive) as files:
            found = {Path(m.name).name: m for m in files if FOLDER in m.name and m.name.endswith(".jinja")}
            texts = {name: files.extractfile(member).read() for name, member in found.items()}
    target.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (target / name).write_bytes(text)
    print(f"{len(texts)} chat templates in {target}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
