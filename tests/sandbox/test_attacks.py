"""What hostile work tries: it gets nothing out, breaks nothing outside, and the sandbox still answers or is replaced.

`docs/notes/sandboxes.md` has the table. An attack is a command and what its output must show; afterwards the sandbox
must answer, move a file, and leave nothing behind.
"""

import secrets
import socket
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


def hit_if(command: str) -> str:
    return f"if {command}; then echo HIT; fi 2>/dev/null"


PYTHON_CONNECT = "python3 -c 'import socket; socket.create_connection((\"{}\", {}), 2)'"

ATTACKS = [
    # Escapes of the usual kinds.
    Attack("engine socket", hit_if("ls /var/run/docker.sock /run/docker.sock /run/containerd")),
    Attack("mount", hit_if("mkdir -p m && mount -t tmpfs none m")),
    Attack("mount in a new namespace", hit_if("unshare -rm mount -t proc none /proc && false")),
    Attack("host disk as device", hit_if("mknod disk b 254 0 && head -c 1 disk")),
    Attack("cgroup release agent", hit_if("echo /x > /sys/fs/cgroup/release_agent")),
    Attack("core pattern", hit_if("echo '|/x' > /proc/sys/kernel/core_pattern")),
    Attack("kernel module", hit_if("echo x > /sys/module/x; insmod /x; modprobe x")),
    Attack("sysrq", hit_if("echo h > /proc/sysrq-trigger")),
    Attack("kernel memory", hit_if("head -c 1 /proc/kcore || head -c 1 /dev/mem || head -c 1 /proc/kmsg")),
    Attack("root of process 1", hit_if("ls /proc/1/root/home/* /proc/1/root/root")),
    Attack("capabilities", hit_if("grep -E 'Cap(Eff|Prm|Inh|Amb):.*[1-9a-f]' /proc/self/status")),
    Attack("new privileges", hit_if("grep 'NoNewPrivs:.*0' /proc/self/status")),
    Attack("set-uid programs", hit_if("su -c true || passwd -d root || chown 0 /workspace")),
    Attack("keyring of the host", hit_if("keyctl show | grep -v 'Session'")),
    # Files.
    Attack("write to the root", hit_if("touch /x /etc/x /usr/bin/x /opt/x || echo x >> /etc/passwd")),
    Attack("shadow", hit_if("cat /etc/shadow")),
    Attack("home folders", hit_if("ls -A /home/* /root | grep .")),
    # Network.
    Attack("a public address", hit_if(PYTHON_CONNECT.format("1.1.1.1", 53))),
    Attack("the host by the usual gateway", hit_if(PYTHON_CONNECT.format("172.17.0.1", 22))),
    Attack("metadata service", hit_if(PYTHON_CONNECT.format("169.254.169.254", 80))),
    Attack("name lookup", hit_if("getent hosts example.org")),
    Attack("interfaces", hit_if("ls /sys/class/net | grep -v '^lo$' || grep -v 'lo:\\||' /proc/net/dev")),
    # Resources.
    Attack("fork bomb", "bomb() { bomb | bomb & }; bomb; wait; sleep 60", 2.0),
    Attack("fork bomb left behind", "bomb() { bomb | bomb & }; bomb", 5.0),
    Attack(
        "thread bomb",
        "python3 -c 'import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(99,)).start()'",
    ),
    Attack("memory", "python3 -c 'x = []\nwhile True: x.append(bytearray(b\"x\") * 2**20)'"),
    Attack(
        "disk", "head -c 10G /dev/zero > full; head -c 10G /dev/zero > /tmp/full; head -c 1G /dev/zero > /dev/shm/full"
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
    Attack("log of process 1", "timeout 2 yes > /proc/1/fd/1; timeout 2 yes > /proc/1/fd/2"),
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
    Attack("orders for the warden", "echo 0 > /proc/1/fd/0; cat /proc/1/fd/0", 2.0),
    Attack("traps", "trap 'echo trapped; sleep 1' DEBUG EXIT ERR TERM; set -eux", 2.0),
    Attack("background process that holds the output", "(setsid sleep 99 &) ; sleep 99 & disown; echo x"),
    Attack("no room for another process", "ulimit -u 1; ulimit -n 3; ulimit -v 10000"),
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_gets_nowhere_and_the_sandbox_answers(make: Make, attack: Attack) -> None:
    with make(SMALL) as sandbox:
        result = sandbox.exec(attack.command, timeout=attack.timeout)
        assert "HIT" not in result.output
        assert answers(sandbox)
        sandbox.exec("rm -f full /tmp/full /dev/shm/full", timeout=5)
        sandbox.put({"proof": b"1"})
        assert sandbox.get("proof") == b"1"


def answers(sandbox: Jail) -> bool:
    """Ask until a shell that was sabotaged has been replaced: a time-out does that at the latest."""
    return any(sandbox.exec("echo alive", timeout=2).output.strip().endswith("alive") for _ in range(3))


def test_nothing_of_this_machine_is_visible(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = secrets.token_hex(16)
    (tmp_path / "secret").write_text(secret)
    tmp_path.chmod(0o777)
    monkeypatch.setenv("AGENTBENCH_SECRET", secret)
    with make(SMALL) as sandbox:
        seen = sandbox.exec(f"env; cat {tmp_path}/secret; cat /proc/[0-9]*/environ; cat /proc/[0-9]*/cmdline").output
        assert secret not in seen
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
                heard.append(str(server.accept()[1]))
            except OSError:
                return

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
            assert sandbox.exec(PYTHON_CONNECT.format(address, port)).exit_code != 0
    assert listener == [port]


def test_another_sandbox_cannot_be_seen_or_reached(make: Make) -> None:
    with make(SMALL) as one, make(SMALL) as two:
        one.put({"/tmp/mine": b"secret"})
        one.exec("(sleep 4321 &); python3 -m http.server 8000 >/dev/null 2>&1 & sleep 1")
        assert "4321" not in two.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").output
        assert two.exec("ls /tmp/mine").exit_code != 0
        assert two.exec(PYTHON_CONNECT.format("127.0.0.1", 8000)).exit_code != 0


def test_a_link_to_a_file_of_this_machine_leads_nowhere(sandbox: Jail, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    sandbox.exec(f"ln -s {tmp_path}/secret link; ln -s /proc/1/root{tmp_path}/secret through")
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
        sandbox.exec("gdb -p 1 -batch -ex 'call (int)kill(1, 9)'; python3 -c \"open('/proc/1/mem', 'wb').write(b'x')\"")
        assert sandbox.exec("echo alive").output == "alive\n"
