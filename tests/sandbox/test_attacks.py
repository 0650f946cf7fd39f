"""What hostile work tries: it gets nothing out, breaks nothing outside, and the sandbox still answers or is replaced.

`docs/notes/sandboxes.md` has the table. An attack is a command and what its output must show; afterwards the sandbox
must answer, move a file, and leave nothing behind.
"""

import platform
import re
import secrets
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from agentbench.core.errors import Failure
from agentbench.sandbox.base import Limits
from agentbench.sandbox.docker import DockerSandbox
from agentbench.sandbox.jail import Jail
from tests.sandbox.conftest import Make

pytestmark = [pytest.mark.slow, pytest.mark.alone]

SMALL = Limits(memory=160, processes=48, disk=32, lifetime=300)


class Attack(NamedTuple):
    """A command that prints HIT if it got somewhere."""

    name: str
    command: str
    timeout: float = 5.0
    shows: str = ""
    """What its output must hold, so that it is known to have been tried."""


def hit_if(*ways: str) -> str:
    """Return a command that prints HIT if one of the ways works, whichever."""
    return f"if {' || '.join(f'{{ {way}; }}' for way in ways)}; then echo HIT; fi 2>/dev/null"


PYTHON_CONNECT = "python3 -c 'import socket; socket.create_connection((\"{}\", {}), 2)'"

LOAD_MODULE = (
    "python3 -c 'import ctypes, sys; "
    f'ctypes.CDLL(None, use_errno=True).syscall({175 if platform.machine() == "x86_64" else 105}, b"", 0, b""); '
    "sys.exit(ctypes.get_errno() in (1, 38))'"
)
"""Asks for a kernel module by a system call, and fails if that is forbidden (EPERM) or does not exist (ENOSYS)."""

ATTACKS = [
    # Escapes of the usual kinds.
    Attack("engine socket", hit_if(*(f"[ -e {at} ]" for at in ("/var/run/docker.sock", "/run/docker.sock")))),
    Attack("socket of the engine's engine", hit_if("[ -e /run/containerd ]", "[ -e /var/run/containerd ]")),
    Attack("mount", hit_if("mkdir -p m && mount -t tmpfs none m")),
    Attack(
        "mount in a new namespace",
        hit_if(*(f"unshare -rm mount -o remount,bind,rw {at}" for at in ("/", "/usr", "/proc/sys"))),
    ),
    Attack("host disk as device", hit_if("mknod disk b 8 0", "mknod disk b 254 0", "mknod disk b 259 0")),
    Attack("host disk", hit_if("head -qc 1 /dev/sda /dev/vda /dev/nvme0n1 | grep -aq ''")),
    Attack("cgroups", hit_if("find /sys/fs/cgroup -writable | grep .", ": >> /sys/fs/cgroup/release_agent")),
    Attack("core pattern", hit_if(": >> /proc/sys/kernel/core_pattern")),
    Attack(
        "kernel settings",
        hit_if(*(f": >> /proc/sys/{at}" for at in ("kernel/modprobe", "kernel/panic", "vm/overcommit_memory"))),
    ),
    Attack("kernel module", hit_if(LOAD_MODULE)),
    Attack("sysrq", hit_if(": >> /proc/sysrq-trigger")),
    Attack("kernel memory", hit_if("head -qc 1 /proc/kcore /dev/mem /dev/kmem /proc/kmsg /dev/kmsg | grep -aq ''")),
    Attack("root of process 1", hit_if("ls -A /proc/1/root/home/* /proc/1/root/root | grep .")),
    Attack("capabilities", hit_if("grep -E 'Cap(Eff|Prm|Inh|Amb):.*[1-9a-f]' /proc/self/status")),
    Attack("new privileges", hit_if("grep 'NoNewPrivs:.*0' /proc/self/status")),
    Attack("set-uid programs", hit_if("su -c true", "passwd -d root", "chown 0 .")),
    Attack("keys of the host", hit_if("grep -E ' (user|logon|big_key) ' /proc/keys")),
    # Files.
    Attack(
        "write to the root",
        hit_if(*(f"touch {at}" for at in ("/x", "/etc/x", "/usr/bin/x", "/opt/x")), "echo x >> /etc/passwd"),
    ),
    Attack("shadow", hit_if("cat /etc/shadow")),
    Attack("home folders", hit_if("ls -A /home/* /root | grep .")),
    # Network.
    Attack("a public address", hit_if(PYTHON_CONNECT.format("1.1.1.1", 53))),
    Attack("the host by the usual gateway", hit_if(PYTHON_CONNECT.format("172.17.0.1", 22))),
    Attack("metadata service", hit_if(PYTHON_CONNECT.format("169.254.169.254", 80))),
    Attack("name lookup", hit_if("getent hosts example.org")),
    Attack("interfaces", hit_if("ls /sys/class/net | grep -v '^lo$'", "grep -v 'lo:\\||' /proc/net/dev")),
    # Resources.
    Attack("fork bomb", "bomb() { bomb | bomb & }; bomb; wait; sleep 60", 2.0),
    Attack("fork bomb left behind", "bomb() { bomb | bomb & }; bomb", 5.0),
    Attack(
        "thread bomb",
        "python3 -c 'import os, threading, time\ntry:\n"
        "  while True: threading.Thread(target=time.sleep, args=(999,)).start()\n"
        "except RuntimeError as error: print(error, flush=True); os._exit(1)'",
        60.0,
        shows="can't start new thread",
    ),
    Attack(
        "memory",
        "python3 -c 'x = []\nwhile True: x.append(bytearray(b\"x\") * 2**20)' || echo ended with $?",
        60.0,
        shows="MemoryError|ended with 137",
    ),
    Attack(
        "disk",
        "head -c 10G /dev/zero > full; head -c 10G /dev/zero > /tmp/full; head -c 1G /dev/zero > /dev/shm/full",
        60.0,
        shows="(?s)(No space left.*){3}",
    ),
    Attack(
        "many files",
        "mkdir many; cd many; timeout 10 bash -c 'for ((i = 0; ; i++)); do : > $i || exit; done' 2>&1 | tail -1;"
        " cd ..; rm -rf many",
        20.0,
    ),
    Attack(
        "deep folders", "for i in {1..300}; do mkdir -p deep && cd deep; done 2>/dev/null; cd /workspace; rm -rf deep"
    ),
    Attack("output without end", "yes", 2.0),
    Attack("log of process 1", "timeout 2 yes > /proc/1/fd/1; timeout 2 yes > /proc/1/fd/2", 60.0, shows="denied"),
    # The shell and its wire.
    Attack("kill everything", "kill -KILL -1; pkill -KILL bash; kill -KILL 1; sleep 0.1"),
    Attack("kill the shell", "kill -KILL $$"),
    Attack("stop the shell", "kill -STOP $$", 1.0),
    Attack("stop process 1", "kill -STOP 1; kill -TERM 1; kill -HUP 1"),
    Attack("forged end", 'printf "%s]0\\0/\\0%s\\0" "$_nonce" 0; sleep 0.3; echo more'),
    Attack(
        "open wires",
        "for fd in /proc/$$/fd/*; do echo 'x]0' > $fd; done; for f in 8 9 10 11; do eval \"exec $f>&-\"; done",
        2.0,
    ),
    Attack("other functions", "printf() { :; }; read() { :; }; eval() { :; }; _over() { :; }; builtin() { :; }", 2.0),
    Attack("orders for the warden", "echo 0 > /proc/1/fd/0; cat /proc/1/fd/0", 60.0, shows="(?s)denied.*denied"),
    Attack("traps", "trap 'echo trapped; sleep 1' DEBUG EXIT ERR TERM; set -eux", 2.0),
    Attack(
        "background process that holds the output", "(setsid sleep 99 &) ; sleep 99 & disown; echo x", 60.0, shows="x"
    ),
    Attack("no room for another process", "ulimit -u 1; ulimit -n 3; ulimit -v 10000"),
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_gets_nowhere_and_the_sandbox_answers(make: Make, attack: Attack) -> None:
    with make(SMALL) as sandbox:
        for program in programs(attack):
            assert sandbox.exec(f"command -v {program}").exit_code == 0, f"without {program} nothing is tried"
        result = sandbox.exec(attack.command, timeout=attack.timeout)
        assert "HIT" not in result.output
        assert re.search(attack.shows, result.output)
        assert answers(sandbox)
        sandbox.exec("rm -f full /tmp/full /dev/shm/full", timeout=5)
        sandbox.put({"proof": b"1"})
        assert sandbox.get("proof") == b"1"


HARMFUL = re.compile(r"(?<=[{&] )(mount|unshare|mknod|su|passwd|chown|getent|python3)(?= )")
PLACE = re.compile(r"(?<![\w/.])/(?!dev/null)[a-z][\w.*/-]*")
SAYS = {
    "/proc/self/status": "CapEff: 00000000a80425fb\nNoNewPrivs: 0\n",
    "/proc/net/dev": "eth0: 1\n",
    "/proc/keys": "1 I--Q--- 1 perm 1f3f0000 0 0 user krb\n",
}
"""What a file says where an attack works."""


def programs(attack: Attack) -> list[str]:
    """Name the programs that would do the harm: of those that are listed, the ones at the begin of a command."""
    return sorted(set(HARMFUL.findall(attack.command)))


def tried(attack: Attack, folder: Path, works: str) -> str:
    """Try an attack in a shell of ours, where no such program works and no such path exists, except one."""
    stubs = [f"{program}() {{ {'true' if program == works else 'false'}; }}\n" for program in programs(attack)]
    if works.startswith("/"):
        there = folder / "open" / works.strip("/").replace("*", "x")
        there.parent.mkdir(parents=True)
        there.write_text(SAYS.get(works, "x\n"))
    command = PLACE.sub(lambda at: f"{folder}/{'open' if at[0] == works else 'closed'}{at[0]}", attack.command)
    done = subprocess.run(["bash", "-c", "".join([*stubs, command])], cwd=folder, capture_output=True, check=False)
    shutil.rmtree(folder / "open", ignore_errors=True)
    return done.stdout.decode()


@pytest.mark.parametrize("attack", [each for each in ATTACKS if "HIT" in each.command], ids=lambda attack: attack.name)
def test_an_attack_that_works_in_one_way_is_a_hit(attack: Attack, tmp_path: Path) -> None:
    assert "HIT" not in tried(attack, tmp_path, "nothing")
    ways = programs(attack) or PLACE.findall(attack.command)
    assert ways
    for works in ways:
        assert "HIT" in tried(attack, tmp_path, works), f"where {works} works and nothing else does"


def answers(sandbox: Jail) -> bool:
    """Ask until a shell that was sabotaged has been replaced: a time-out does that at the latest."""
    return any(sandbox.exec("echo alive", timeout=2).output.strip().endswith("alive") for _ in range(3))


def test_nothing_of_this_machine_is_visible(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = secrets.token_hex(16)
    (tmp_path / "secret").write_text(secret)
    tmp_path.chmod(0o777)
    monkeypatch.setenv("AGENTBENCH_SECRET", secret)
    look = f"env; cat {tmp_path}/secret; cat /proc/[0-9]*/environ; cat /proc/[0-9]*/cmdline"
    outside = subprocess.run(["bash", "-c", look], capture_output=True, check=False).stdout
    assert outside.count(secret.encode()) >= 2
    with make(SMALL) as sandbox:
        assert secret not in sandbox.exec(look).output
        pids = sandbox.exec("ls /proc | grep -c '^[0-9]'").output
        assert int(pids) < 10


@pytest.fixture
def listener() -> Iterator[list[str]]:
    """A server on every address of this machine; what it hears."""
    heard: list[str] = []
    server = socket.create_server(("0.0.0.0", 0))
    heard.append(str(server.getsockname()[1]))

    def accept() -> None:
        while True:
            try:
                connection, address = server.accept()
            except OSError:
                return
            heard.append(str(address))
            connection.close()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield heard
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def test_a_server_on_this_machine_cannot_be_reached(make: Make, listener: list[str]) -> None:
    (port,) = listener
    addresses = {"127.0.0.1", "172.17.0.1", "localhost", *socket.gethostbyname_ex(socket.gethostname())[2]}
    with make(SMALL) as sandbox:
        for address in addresses:
            assert "rror: " in sandbox.exec(PYTHON_CONNECT.format(address, port)).output
    assert listener == [port]
    assert subprocess.run(["bash", "-c", PYTHON_CONNECT.format("127.0.0.1", port)], check=False).returncode == 0


def test_another_sandbox_cannot_be_seen_or_reached(make: Make) -> None:
    with make(SMALL) as one, make(SMALL) as two:
        one.put({"/tmp/mine": b"secret"})
        one.exec("(sleep 4321 &); python3 -m http.server 8000 >/dev/null 2>&1 &")
        connect = PYTHON_CONNECT.format("127.0.0.1", 8000)
        assert one.exec(f"until {connect} 2>/dev/null; do sleep 0.1; done").exit_code == 0
        everybody = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
        assert "4321" in one.exec(everybody).output and "4321" not in two.exec(everybody).output
        assert (one.exec("cat /tmp/mine").output, two.exec("ls /tmp/mine").exit_code) == ("secret", 2)
        assert "refused" in two.exec(connect).output


def test_a_link_to_a_file_of_this_machine_leads_nowhere(sandbox: Jail, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    assert sandbox.exec(f"ln -s {tmp_path}/secret link; ln -s /proc/1/root{tmp_path}/secret through").exit_code == 0
    for name in ("link", "through", f"{tmp_path}/secret"):
        with pytest.raises(FileNotFoundError):
            sandbox.get(name)


def test_files_that_change_while_they_are_read_harm_nobody(sandbox: Jail) -> None:
    swap = "while :; do ln -sfn /etc a; rm -f a; echo x > a; rm -f a; mkfifo a; rm -f a; done"
    sandbox.exec(f"({swap}) >/dev/null 2>&1 &")
    for _ in range(20):
        try:
            assert sandbox.get("a", most=100) in (b"x\n", b"")
        except OSError:
            continue
        except Failure:
            break  # It opened the pipe, for ever: the sandbox was given up in time.


def test_whoever_seizes_process_1_harms_only_itself(image: str) -> None:
    with DockerSandbox(image, SMALL) as sandbox:
        for seize in ('open("/proc/1/mem", "r+b")', '__import__("os").kill(1, 9)'):
            assert "PermissionError" in sandbox.exec(f"python3 -c '{seize}'").output
        assert sandbox.exec("echo alive").output == "alive\n"
