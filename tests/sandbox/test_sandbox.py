"""What a sandbox promises, of both kinds."""

import io
import tarfile
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentbench.core.errors import Failure, PrerequisiteError, UsageError
from agentbench.sandbox.base import Limits
from agentbench.sandbox.docker import DockerSandbox
from agentbench.sandbox.jail import Jail
from tests.sandbox.conftest import Make

pytestmark = pytest.mark.slow

EVERYBODY = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"


def test_the_shell_remembers_folder_variables_and_functions(sandbox: Jail) -> None:
    sandbox.exec("mkdir there; cd there; export A=5; double() { echo $(( 2 * $1 )); }")
    assert sandbox.exec("pwd; double $A").output == "/workspace/there\n10\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [("true", 0), ("false", 1), ("(exit 42)", 42), ("if", 2), ("no-such-command", 127)],
)
def test_exit_codes_are_those_of_bash(sandbox: Jail, command: str, code: int) -> None:
    assert sandbox.exec(command).exit_code == code


def test_both_outputs_come_and_there_is_no_input(sandbox: Jail) -> None:
    assert sandbox.exec("cat; echo out; echo err >&2").output == "out\nerr\n"


def test_a_shell_that_ends_is_replaced_in_the_same_folder(sandbox: Jail) -> None:
    result = sandbox.exec("cd /tmp; gone=1; exit 7")
    assert (result.exit_code, result.restarted) == (7, True)
    assert sandbox.exec("pwd; echo [$gone]").output == "/tmp\n[]\n"


@pytest.mark.parametrize(
    "command",
    [
        "exec >/dev/null 2>&1",
        "set -e; false",
        "trap '' EXIT; exit 3",
        "exec true",
        "kill -KILL $$",
        "kill -TERM $$",
        "printf() { :; }",
    ],
)
def test_the_shell_survives_what_is_done_to_it(sandbox: Jail, command: str) -> None:
    sandbox.exec(command, timeout=5)
    assert sandbox.exec("echo still here").output == "still here\n"


def test_a_time_out_kills_the_command_inside(sandbox: Jail) -> None:
    result = sandbox.exec("(setsid sleep 7777 &); sleep 8888", timeout=0.5)
    assert (result.exit_code, result.timed_out) == (124, True)
    seen = sandbox.exec(EVERYBODY).output
    assert "7777" not in seen
    assert "8888" not in seen


def test_a_shell_that_never_returns_is_stopped(sandbox: Jail) -> None:
    assert sandbox.exec("while :; do :; done", timeout=0.5).timed_out
    assert sandbox.exec("echo back").output == "back\n"


def test_silence_is_waited_for(sandbox: Jail) -> None:
    assert sandbox.exec("sleep 2; echo done", timeout=30).output == "done\n"


def test_a_flood_keeps_its_head_and_its_tail(make: Make) -> None:
    with make(Limits(output=1000)) as sandbox:
        result = sandbox.exec("echo first; head -c 100M /dev/zero | tr '\\0' x; echo; echo last")
    assert result.output.startswith("first\nxxx")
    assert result.output.endswith("xxx\nlast\n")
    assert f"[... {result.omitted} bytes left out ...]" in result.output
    assert result.omitted == 100 * 2**20 + len("first\n\nlast\n") - 1000


def test_binary_output_becomes_plain_text(sandbox: Jail) -> None:
    result = sandbox.exec("head -c 100000 /dev/urandom; printf '\\033[2J\\033]0;title\\007\\0end'")
    assert result.exit_code == 0
    assert result.output.endswith("end")
    assert not set(result.output) & {"\x1b", "\x07", "\0"}


def test_background_processes_do_not_disturb_the_next_command(sandbox: Jail) -> None:
    sandbox.exec("yes noise & sleep 0.1")
    assert sandbox.exec("kill %1; wait 2>/dev/null; echo over", timeout=20).exit_code == 0
    assert sandbox.exec("echo quiet").output == "quiet\n"


def test_a_nul_character_is_refused(sandbox: Jail) -> None:
    with pytest.raises(UsageError, match="NUL"):
        sandbox.exec("echo \0")


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.from_regex(r"[a-zé '\-][a-z$ *]{0,9}(/[a-z;&\n]{1,5})?", fullmatch=True).filter(lambda path: path.strip()),
        st.binary(max_size=5000),
        max_size=3,
    )
)
def test_what_is_put_is_what_is_got(sandbox: Jail, files: dict[str, bytes]) -> None:
    sandbox.exec("rm -rf /workspace/* /workspace/.[!.]*")
    tops = [path.partition("/")[0] for path in files]
    files = {path: data for path, data in files.items() if tops.count(path.partition("/")[0]) == 1}
    if files:
        sandbox.put(files)
    assert {path: sandbox.get(path) for path in files} == files


def test_large_files_come_and_go_and_the_largest_are_refused(sandbox: Jail) -> None:
    data = bytes(range(256)) * 20_000
    sandbox.put({"/tmp/large": data})
    assert sandbox.get("/tmp/large") == data
    with pytest.raises(OSError, match="larger than 1000 bytes"):
        sandbox.get("/tmp/large", most=1000)


def test_putting_replaces_links_and_folders_and_says_when_there_is_no_room(sandbox: Jail) -> None:
    sandbox.exec("ln -s /etc/passwd link; mkdir folder; touch folder/a")
    sandbox.put({"link": b"mine", "folder": b"file"})
    assert (sandbox.get("link"), sandbox.get("folder")) == (b"mine", b"file")
    with pytest.raises(OSError):
        sandbox.put({"huge": bytes(60 * 2**20)})
    sandbox.exec("rm huge")
    sandbox.put({"small": b"after"})
    assert sandbox.get("small") == b"after"


def test_overwriting_keeps_mode_links_and_bytes(sandbox: Jail) -> None:
    sandbox.exec("printf 'caf\\351' > tool; chmod 750 tool; ln -s tool link; ln tool twin")
    for name, data in {"tool": b"\xe9\0", "link": b"", "/workspace/twin": b"x" * 100_000}.items():
        sandbox.overwrite(name, data)
        assert sandbox.get("tool") == sandbox.get("link") == data
    assert sandbox.exec("stat -c '%a %h %F' tool link").output == "750 2 regular file\n777 1 symbolic link\n"


@pytest.mark.parametrize("name", ["nothing", "folder", "dangling", "pipe", "/dev/full"])
def test_only_regular_files_are_overwritten(sandbox: Jail, name: str) -> None:
    sandbox.exec("mkdir folder; ln -s nowhere dangling; mkfifo pipe")
    with pytest.raises(FileNotFoundError):
        sandbox.overwrite(name, b"x")
    assert sandbox.exec("ls").output == "dangling\nfolder\npipe\n"


def test_what_cannot_be_written_says_why(sandbox: Jail) -> None:
    sandbox.put({"file": b"old"})
    with pytest.raises(OSError, match="Read-only file system"):
        sandbox.create("/usr/new", b"x")
    with pytest.raises(OSError, match="No space left"):
        sandbox.overwrite("file", bytes(60 * 2**20))
    sandbox.overwrite("file", b"new")
    assert sandbox.get("file") == b"new"


def test_nothing_is_created_where_something_is(sandbox: Jail) -> None:
    sandbox.create("a b/$c/file", b"new")
    assert sandbox.get("a b/$c/file") == b"new"
    sandbox.exec("mkdir folder; touch folder/kept; ln -s nowhere dangling; ln -s /etc/passwd link; mkfifo pipe")
    before = sandbox.exec("ls -lR").output
    for name in ("a b/$c/file", "folder", ".", "/", "dangling", "link", "pipe"):
        with pytest.raises(FileExistsError):
            sandbox.create(name, b"x")
    assert sandbox.exec("ls -lR").output == before


@pytest.mark.parametrize("name", ["nothing", "/dev/zero", "pipe", "folder", "loop", "/proc/self/fd"])
def test_only_regular_files_come_out(sandbox: Jail, name: str) -> None:
    sandbox.exec("mkfifo pipe; mkdir folder; ln -s loop loop")
    with pytest.raises(FileNotFoundError):
        sandbox.get(name)


def test_a_snapshot_brings_the_workspace_to_another_sandbox(make: Make) -> None:
    with make() as first:
        first.exec("mkdir -p a/b; echo hi > a/b/c; ln -s a/b/c link; chmod 700 a; truncate -s 1T sparse")
        snapshot = first.snapshot()
    assert len(snapshot) < 2**20
    with make() as second:
        second.restore(snapshot)
        assert second.exec("cat link; stat -c %a a; stat -c %s sparse").output == f"hi\n700\n{2**40}\n"


def test_a_hostile_archive_writes_nothing_outside(make: Make) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, kind, link in [
            ("../../tmp/up", tarfile.REGTYPE, ""),
            ("/tmp/absolute", tarfile.REGTYPE, ""),
            ("out", tarfile.SYMTYPE, "/tmp"),
            ("out/through", tarfile.REGTYPE, ""),
            ("hard", tarfile.LNKTYPE, "/etc/passwd"),
            ("device", tarfile.BLKTYPE, ""),
        ]:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            tar.addfile(member)
    with make() as sandbox:
        with pytest.raises(OSError):
            sandbox.restore(stream.getvalue())
        assert sandbox.exec("ls /tmp /workspace/../ | grep -E 'up|absolute|through'").output == ""
        with pytest.raises(OSError):
            sandbox.restore(b"no archive at all")
        assert sandbox.exec("echo fine").output == "fine\n"


def test_no_file_is_taken_for_a_command(sandbox: Jail) -> None:
    data = b"x" * 20_000 + b"\0touch /tmp/owned\0" * 20_000
    sandbox.exec("mkdir there")
    for write in (sandbox.restore, lambda data: sandbox.overwrite("nothing", data)):
        with pytest.raises(OSError):
            write(data)
    with pytest.raises(FileExistsError):
        sandbox.create("there", data)
    with pytest.raises(OSError):
        sandbox.put({"/usr/there": data})
    assert sandbox.exec("sleep 0.5; ls /tmp").output == ""


def test_a_closed_sandbox_stays_closed(make: Make) -> None:
    sandbox = make()
    sandbox.start()
    sandbox.close()
    sandbox.close()
    with pytest.raises(UsageError, match="one sandbox serves one episode"):
        sandbox.exec("true")


def test_a_sandbox_ends_when_its_lifetime_is_over(make: Make) -> None:
    sandbox = make(Limits(lifetime=2))

    def outlive() -> None:
        sandbox.start()
        time.sleep(4)
        sandbox.exec("true")

    with pytest.raises(Failure) as caught:
        outlive()
    assert caught.value.cause == "sandbox"
    sandbox.close()


def test_the_record_says_what_isolation_there_was(sandbox: Jail) -> None:
    record = sandbox.record()
    assert (record["network"], record["root"], record["capabilities"]) == ("none", "read-only", "none")
    assert record["kind"] == "docker" or "no seccomp" in record["isolation"]
    assert str(record["digest"]).startswith("sha256:") == (record["kind"] == "docker")


def test_an_image_that_is_not_here_is_a_missing_prerequisite(image: str) -> None:
    with pytest.raises(PrerequisiteError, match="agentbench images build"):
        DockerSandbox(f"agentbench/no-such-{image[-8:]}").start()


def test_limits_that_leave_no_memory_are_refused() -> None:
    with pytest.raises(UsageError, match="memory"):
        Limits(memory=100, disk=100)
