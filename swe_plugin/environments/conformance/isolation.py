"""What a command can see of the machine it runs on."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

import pytest

from swe_plugin.environments.base import Capability, Environment
from swe_plugin.environments.conformance.checks import Checks, bash, needs

__all__ = ["IsolationChecks"]

_SECRET = "SWE_CONFORMANCE_SECRET"  # noqa: S105 - a name
_OWN = {"PWD", "OLDPWD", "SHLVL", "_"}
"""Variables that bash sets by itself."""
_isolated = needs(Capability.PROCESSES, Capability.ISOLATION)
_OVER_ITS_OWN = 0xFB
"""CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID: over files, ids and processes of the namespace."""


class IsolationChecks(Checks):
    """Environment variables, files, processes, network."""

    @needs(Capability.PROCESSES)
    @pytest.mark.parametrize("way", ["exec", "shell"])
    async def test_variables_are_those_of_the_spec_and_no_others(self, way: str) -> None:
        """Neither the caller's nor any daemon's; in an environment where nobody has exported anything yet."""
        script = "env -0 | tr '\\n\\0' ' \\n'"
        async with self.make() as environment:
            result = await (bash(environment, script) if way == "exec" else environment.shell(script))
        seen = dict(line.split("=", 1) for line in result.stdout.splitlines())
        assert {name: seen.get(name) for name in environment.spec.env} == environment.spec.env
        assert seen.keys() - environment.spec.env.keys() <= _OWN

    @_isolated
    async def test_a_secret_of_the_caller_is_nowhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Not in any environment that /proc shows either."""
        monkeypatch.setenv(_SECRET, "swordfish-7")
        async with self.make() as environment:
            script = "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'"
            result = await bash(environment, script, env={"PROBE": "seen"})
        assert "PROBE=seen" in result.stdout
        assert "swordfish" not in result.stdout

    @needs(Capability.PROCESSES)
    async def test_variables_with_any_value_arrive(self) -> None:
        """Newlines, quotes, spaces, equals signs, nothing."""
        odd = {"A": "two\nlines", "B": 'it\'s "q"', "C": "", "D": "a=b=c", "E": "é"}
        async with self.make(env={**self.spec().env, **odd}) as environment:
            script = 'printf "%s|" "$A" "$B" "$C" "$D" "$E"'
            assert (await bash(environment, script)).stdout == "|".join([*odd.values(), ""])
            assert (await environment.shell(script)).stdout == "|".join([*odd.values(), ""])

    @_isolated
    async def test_files_of_this_machine_are_not_there(self, environment: Environment, tmp_path: Path) -> None:
        """By no path that is the same inside."""
        secret = tmp_path / "secret"
        secret.write_text("swordfish-8")
        for path in (secret, Path(__file__), Path.home() / ".bashrc"):
            assert (await environment.exec(["cat", f"/proc/1/root{path}"])).exit_code != 0
        with pytest.raises(FileNotFoundError):
            await environment.read_file(str(secret))

    @_isolated
    async def test_links_of_the_agent_lead_to_no_file_of_this_machine(
        self, environment: Environment, tmp_path: Path
    ) -> None:
        """Not for `read_file`, `write_file`, `upload` and `download` either, which may run outside."""
        (tmp_path / "here").mkdir()
        (tmp_path / "here/secret").write_text("swordfish-9")
        (tmp_path / "plain").write_text("")
        await bash(environment, f"ln -sfn {tmp_path}/here /tmp/leads-out")
        for path in ("/tmp/leads-out/secret", f"/tmp/leads-out/../{tmp_path.name}/here/secret"):
            with pytest.raises(OSError):
                await environment.read_file(path)
            with pytest.raises(OSError):
                await environment.download(path, tmp_path / "got")
        with contextlib.suppress(OSError):
            await environment.write_file("/tmp/leads-out/written", b"")
        with contextlib.suppress(OSError):
            await environment.upload(tmp_path / "plain", "/tmp/leads-out/uploaded")
        assert [path.name for path in (tmp_path / "here").iterdir()] == ["secret"]

    @_isolated
    async def test_processes_of_this_machine_are_not_visible(self, environment: Environment) -> None:
        """Nor can one be signalled."""
        result = await bash(environment, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert "pytest" not in result.stdout
        victim = await asyncio.create_subprocess_exec("sleep", "7800")
        await bash(environment, f"kill -9 {victim.pid}")
        assert victim.returncode is None
        victim.kill()
        assert await victim.wait() == -signal.SIGKILL

    @_isolated
    async def test_there_is_no_way_to_more_rights(self, environment: Environment) -> None:
        """`no_new_privs` is set, and no capability is left but, in a user namespace, those over what is in it."""
        status = (await bash(environment, "cat /proc/self/status")).stdout
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert fields["NoNewPrivs"] == "1"
        of_the_host = (await bash(environment, "cat /proc/self/uid_map")).stdout.split() == ["0", "0", "4294967295"]
        held = int(fields["CapEff"], 16) | int(fields["CapBnd"], 16)
        assert held & ~(0 if of_the_host else _OVER_ITS_OWN) == 0

    @_isolated
    async def test_descriptors_are_the_three_and_no_others(self, environment: Environment) -> None:
        """Nothing of the backend is open in a command."""
        assert (await environment.exec(["ls", "/proc/self/fd"])).stdout.split() == ["0", "1", "2", "3"]

    @_isolated
    async def test_settings_of_the_kernel_cannot_be_changed(self, environment: Environment) -> None:
        """They are the whole machine's. Opening one is enough to know: nothing is written."""
        for name in ("sys/kernel/core_pattern", "sys/vm/drop_caches", "sysrq-trigger"):
            assert (await bash(environment, f"exec 3>> /proc/{name}")).exit_code != 0, name

    @needs(Capability.PROCESSES, Capability.NETWORK_NONE)
    async def test_without_network_there_is_only_a_loopback(self, environment: Environment) -> None:
        """It is up, and nothing of this machine listens there."""
        devices = (await bash(environment, "tail -n +3 /proc/net/dev | cut -d: -f1")).stdout.split()
        up = [name for name in devices if name == "lo" or not name.startswith(("tunl", "sit", "gre", "ip6", "erspan"))]
        assert up == ["lo"]
        assert "refused" in (await bash(environment, "exec 3<>/dev/tcp/127.0.0.1/9")).stderr.lower()

    @needs(Capability.PROCESSES, Capability.NETWORK_NONE)
    async def test_without_network_no_address_answers(self, environment: Environment) -> None:
        """Neither names nor numbers, the cloud's metadata service least of all."""
        for address in ("169.254.169.254/80", "10.0.0.1/22", "8.8.8.8/53"):
            result = await bash(environment, f"exec 3<>/dev/tcp/{address}", timeout_s=5)
            assert result.exit_code not in (0, -1), address

    @needs(Capability.PROCESSES)
    async def test_standard_devices_are_there(self, environment: Environment) -> None:
        """Programs expect them."""
        script = (
            "echo x > /dev/null && head -c 4 /dev/zero | wc -c && head -c 4 /dev/urandom | wc -c && test -d /dev/shm"
        )
        assert (await bash(environment, script)).stdout.split() == ["4", "4"]
        assert (await bash(environment, "echo x > /dev/full")).exit_code == 1
