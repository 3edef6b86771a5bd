"""`riddle chat`: line by line from a pipe, and on a terminal with editing, history and Ctrl-C. No server; no key but for the model's tests."""

import json
import os
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import termios
import threading
import time
from fcntl import ioctl

import pytest

from conftest import PROCESS_TIMEOUT_S, RIDDLE
from scripted_model import Raw, ScriptedModel, calls, stream_bytes, text

NO_MODEL = {"LLM_PROVIDER": "builtin"}
PNG = b"\x89PNG\r\n\x1a\n"
DRAW = "PYTHON: import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"


def chat(programs, data, lines, *options, env=None):
    lines = lines if isinstance(lines, (bytes, str)) else "\n".join(lines) + "\n"
    return programs.riddle("chat", *options, data / "orders.csv", data / "items.csv", stdin=lines, env={**NO_MODEL, **(env or {})})


# ---- line by line ----

def test_questions_from_a_pipe(programs, data):
    done = chat(programs, data, ["total of total by region in orders", "", "SQL: SELECT max(quantity) AS most FROM items"])
    assert done.status == 0 and done.err == ""
    table = re.search(r"region +sum_total\n─+ +─+\n((?:.+\n)+)", done.text).group(1)
    assert sorted(line.split() for line in table.splitlines()) == [["east", "NULL"], ["north", "40.5"], ["south", "20.25"]]
    assert "Read as: sum of `total` by `region`" in done.text
    assert re.search(r"what was run \(SQL, \d+ ms\):\nSELECT\n", done.text)
    assert done.text.endswith("Most: 5.\n")
    assert ">" not in done.text and "\x1b" not in done.text  # no prompt, no colours


def test_quiet(programs, data):
    done = chat(programs, data, ["total of total by region in orders"], "--quiet")
    assert done.status == 0 and "sum_total" in done.text and "what was run" not in done.text


def test_a_question_without_an_answer_is_status_1_and_the_next_is_answered(programs, data):
    done = chat(programs, data, ["why does the purple elephant dream of thunder", "SQL: SELECT 1 + 1 AS two", "SQL: SELECT nothing FROM nowhere"])
    assert done.status == 1
    assert "I can't read this one without a model" in done.text and "Two: 2." in done.text and "nowhere" in done.text


def test_python_remembers_and_new_forgets(programs, data):
    done = chat(programs, data, ["PYTHON: x = len(orders)", "PYTHON: x + 38", "SQL: SELECT count(*) AS n FROM items", "/new", "PYTHON: x"])
    assert done.status == 1
    assert "Value: 42." in done.text and "NameError" in done.text
    assert "Traceback" in done.err


def test_code_that_prints_speaks_for_itself(programs, data):
    done = chat(programs, data, ["PYTHON: import sys; print('seen'); print('trouble', file=sys.stderr)"])
    assert (done.status, done.text, done.err) == (0, "seen\n", "trouble\n")


def test_messages_of_several_lines(programs, data):
    done = chat(programs, data, ["/python", "def double(x):", "    return 2 * x", "", "print(double(21))", ".", "PYTHON: print( \\", "  7)\r",
                                 "/sql", "SELECT 5 AS five", "."])
    assert done.status == 0, done
    assert done.text == "42\n7\nFive: 5.\n"


def test_a_message_that_the_end_of_input_ends(programs, data):
    done = chat(programs, data, "/python\nprint(3)")
    assert (done.status, done.text) == (0, "3\n")


def test_commands(programs, data):
    done = chat(programs, data, ["/tables", "/help"])
    assert done.status == 0 and done.err == ""
    assert re.search(r"orders +4 +id, region, total\nitems +3 +order_id, name, quantity\n", done.text)
    for name in ("/help", "/tables", "/sql", "/python", "/chart", "/save", "/new", "/quit"):
        assert f"\n  {name} " in done.text


def test_unknown_command(programs, data):
    done = chat(programs, data, ["/tabels", "/xyzzyplugh", "/quit", "SQL: SELECT 1"])
    assert (done.status, done.text) == (1, "")
    assert done.err == "riddle: unknown command '/tabels'; did you mean '/tables'?\nriddle: unknown command '/xyzzyplugh'; /help lists them\n"


def test_a_choice_is_picked_by_its_number(programs, tmp_path):
    people = tmp_path / "people.csv"
    people.write_text("name,home_city,work_city\nAnn,Paris,Rome\nBob,Rome,Oslo\nCy,Oslo,Paris\nDi,Paris,Oslo\n")
    answers = {q: programs.riddle("ask", "--json", q, people).response for q in ("people in Rome", "people in Paris", "names in Oslo", "who is in Rome")}
    question = next(q for q, a in answers.items() if a["status"] == "asked")
    wanted = answers[question]["choices"][1]
    plain = lambda done: re.sub(r", \d+ ms", "", done.text)  # noqa: E731
    same = programs.riddle("chat", people, stdin=f"PLAN: {json.dumps(wanted['plan'])}\n", env=NO_MODEL)
    assert same.status == 0 and "what was run" in same.text
    done = programs.riddle("chat", people, stdin=f"{question}\n2\n2\n", env=NO_MODEL)
    assert done.status == 1  # the question itself was not answered, nor is a number without choices
    assert "Which do you mean?" in done.text and f"\n2. {wanted['reading']}\n" in done.text
    assert plain(done).count(plain(same)) == 1


def test_figures_are_saved_and_nothing_is_replaced(programs, data, tmp_path):
    (tmp_path / "figure-1.png").write_text("mine")
    (tmp_path / "figure-3.png").symlink_to(tmp_path / "elsewhere")
    done = chat(programs, data, [DRAW, DRAW])
    assert done.status == 0
    assert done.err == "figure: figure-2.png\nfigure: figure-4.png\n"
    assert (tmp_path / "figure-1.png").read_text() == "mine" and not (tmp_path / "elsewhere").exists()
    assert all((tmp_path / f"figure-{n}.png").read_bytes().startswith(PNG) for n in (2, 4))


def test_files_are_listed_and_saved(programs, data, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "there.txt").write_text("mine")
    done = chat(programs, data, ["/save early.txt", "PYTHON: open('big file.bin', 'wb').write(bytes(range(256)) * 10000)", "PYTHON: 1",
                                 '/save "big file.bin"', '/save "big file.bin" out', '/save "big file.bin" there.txt', "/save none.txt", "/save",
                                 "/save ../../etc/passwd x"])
    content = bytes(range(256)) * 10000
    assert (tmp_path / "big file.bin").read_bytes() == content and (tmp_path / "out/big file.bin").read_bytes() == content
    assert (tmp_path / "there.txt").read_text() == "mine" and not (tmp_path / "x").exists() and not (tmp_path / "none.txt").exists()
    assert done.text.count("big file.bin") == 1 and re.search(r"files \(.*\):\n +2560000  big file.bin\n", done.text)
    lines = done.err.splitlines()
    assert lines[0] == "riddle: there are no files: Python code has to leave one first"
    assert lines[1:4] == ["file: big file.bin", "file: out/big file.bin", "riddle: 'there.txt' is there already"]
    assert "none.txt" in lines[4] and lines[5] == "riddle: which file? /save PATH [TO]" and len(lines) == 7
    assert done.status == 1


def test_chart(programs, data, tmp_path):
    done = chat(programs, data, ["/chart early.png", "total of total by region in orders", "/chart out.png", "/chart out.png", "/chart out.pdf", "/chart out.svg"])
    assert (tmp_path / "out.png").read_bytes().startswith(PNG) and b"<svg" in (tmp_path / "out.svg").read_bytes()
    assert done.status == 1 and not (tmp_path / "early.png").exists() and not (tmp_path / "out.pdf").exists()
    lines = done.err.splitlines()
    assert "no chart fits the last answer" in lines[0] and lines[1] == "file: out.png" and lines[2] == "riddle: 'out.png' is there already"
    assert ".png or .svg" in lines[3] and lines[4] == "file: out.svg"


def test_wrong_requests(programs, data, tmp_path):
    for arguments, words in ((["chat"], "which file is it about?"), (["chat", "--quite", data / "orders.csv"], "did you mean '--quiet'?"),
                             (["chat", tmp_path / "none.csv"], "none.csv"), (["chat", data / "orders.csv", "a=" + str(tmp_path)], "")):
        done = programs.riddle(*arguments, stdin="SQL: SELECT 1\n", env=NO_MODEL)
        assert done.status in ((2,) if words else (1, 2)) and done.out == b"" and words in done.err and done.err.startswith("riddle: "), done
    assert programs.riddle("chat", "--help").text.startswith("usage: riddle chat ")


def test_files_that_hold_no_table(programs, data, tmp_path):
    (tmp_path / "empty.csv").write_text("")
    done = programs.riddle("chat", tmp_path / "empty.csv", stdin="SQL: SELECT 1\n", env=NO_MODEL)
    assert (done.status, done.out) == (2, b"") and "empty" in done.err
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 but not really")
    done = programs.riddle("chat", tmp_path / "broken.parquet", stdin="SQL: SELECT 1\n", env=NO_MODEL)
    assert done.status in (1, 2) and done.out == b"" and "broken" in done.err


def test_other_formats_and_names(programs, tmp_path):
    (tmp_path / "a.json").write_text('[{"x": 1}, {"x": 2}]')
    (tmp_path / "b.tsv").write_text("y\tz\n5\t6\n")
    done = programs.riddle("chat", "one=" + str(tmp_path / "a.json"), tmp_path / "b.tsv", stdin="SQL: SELECT sum(x) + sum(y) AS s FROM one, b\n", env=NO_MODEL)
    assert (done.status, done.text) == (0, "S: 13.\n"), done


def test_what_is_not_text(programs, data):
    done = chat(programs, data, b"SQL: SELECT '\xff'\nSQL: SELECT 8 AS n\n")
    assert done.status == 1 and "riddle: the line is not UTF-8" in done.err and "8" in done.text


def test_a_file_as_input_and_an_output_that_is_closed(programs, data, tmp_path):
    (tmp_path / "lines").write_text("SQL: SELECT 6 * 7 AS n\n")
    with open(tmp_path / "lines", "rb") as lines:
        out = subprocess.run([RIDDLE, "chat", data / "orders.csv"], stdin=lines, capture_output=True, env={**programs.env, **NO_MODEL}, timeout=PROCESS_TIMEOUT_S)
    assert out.returncode == 0 and b"42" in out.stdout
    reader, writer = os.pipe()
    os.close(reader)
    child = subprocess.Popen([RIDDLE, "chat", data / "orders.csv"], stdin=subprocess.PIPE, stdout=writer, env={**programs.env, **NO_MODEL})
    os.close(writer)
    child.communicate(b"SQL: SELECT 1\nSQL: SELECT 2\n", timeout=PROCESS_TIMEOUT_S)
    assert child.returncode == 1


def test_a_script_that_is_interrupted(programs, data):
    child = programs.start(RIDDLE, "chat", data / "orders.csv", env=NO_MODEL)
    try:
        child.stdin.write(b"PYTHON: print('begun', flush=True)\\\nwhile True: pass\nSQL: SELECT 1\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"begun\n"
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=PROCESS_TIMEOUT_S)
        assert child.returncode == 130 and b"Stopped before it was finished." in out and b"1" not in out
    finally:
        child.kill()
        child.wait()


# ---- a model ----

@pytest.fixture
def model():
    m = ScriptedModel()
    yield m
    m.close()


def test_a_model_answers(programs, data, model):
    model.says(calls(("run_sql", {"sql": "SELECT sum(total) AS revenue FROM orders"}), say="Let me look."), text("The revenue ", "is 60.75."))
    done = chat(programs, data, ["how did we do?"], env=model.settings)
    assert done.status == 0, done
    assert re.match(r"Let me look\.\n+The revenue is 60\.75\.\n", done.text)
    assert done.text.count("60.75.") == 1
    assert re.search(r"revenue\n─+\n +60\.75\n", done.text) and "what was run (SQL" in done.text and "sum(total)" in done.text
    assert "very-secret" not in done.text + done.err


def test_figures_that_no_result_bears_out(programs, data, model):
    model.says(calls(("run_sql", {"sql": "SELECT sum(total) AS revenue FROM orders"})), text("The revenue is 987654.25."))
    done = chat(programs, data, ["how did we do?"], env=model.settings)
    assert re.search(r"No result bears out: .*987654\.25", done.text)


def test_a_model_that_fails_for_good(programs, data, model):
    model.says(Raw(b"no", status=400))
    done = chat(programs, data, ["why does the purple elephant dream of thunder", "SQL: SELECT 4 AS n"], env=model.settings)
    assert done.status == 1 and "I couldn't do that" in done.text and "4" in done.text


# ---- a terminal ----

class Terminal:
    """A person at a terminal: what they see, and the keys they press."""

    def __init__(self, programs, *arguments, env=None, columns=100):
        self.ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        environment = {k: v for k, v in programs.env.items() if k not in ("NO_COLOR", "LC_ALL", "LC_CTYPE", "LANG")}
        self.child = subprocess.Popen([RIDDLE, "chat", *map(str, arguments)], cwd=programs.cwd, stdin=theirs, stdout=theirs, stderr=theirs,
                                      env={**environment, "TERM": "xterm", "HOME": str(programs.cwd), **NO_MODEL, **(env or {})}, start_new_session=True,
                                      preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0))
        self.seen = ""  # everything
        self.at = 0     # of it, how much has been waited for

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()
        os.close(self.ours)
        os.close(self.theirs)

    def wait(self, pattern):
        """Until the pattern is seen behind what was waited for before; colours are taken out."""
        deadline = time.monotonic() + 60
        while True:
            found = re.compile(pattern).search(self.seen, self.at)
            if found:
                self.at = found.end()
                return found
            assert select.select([self.ours], [], [], max(0, deadline - time.monotonic()))[0], (pattern, self.seen[self.at:])
            try:
                piece = os.read(self.ours, 65536)
            except OSError:
                piece = b""
            assert piece, (pattern, self.seen[self.at:])
            self.seen += re.sub(r"\x1b\[[0-9;]*m", "", piece.decode(errors="replace")).replace("\r\n", "\n")

    def prompt(self):
        self.wait("> ")

    def press(self, keys):
        os.write(self.ours, keys if isinstance(keys, bytes) else keys.encode())

    def type(self, line):
        self.press(line + "\r")

    def leaves(self):
        assert self.child.wait(PROCESS_TIMEOUT_S) == 0
        assert termios.tcgetattr(self.theirs) == self.before
        return True


def test_terminal(programs, data):
    with Terminal(programs, data / "orders.csv") as t:
        t.wait(r"orders: 4 rows, 3 columns\n")
        t.wait("built-in planner")
        t.prompt()
        t.type("total of total by region")
        t.wait(r"region +sum_total")
        t.wait(r"north +40\.5")
        t.wait(r"what was run")
        t.prompt()
        t.type("SQL: SELECT chr(27) || '[2J' AS evil, 1 AS n")
        t.wait(r"\\x1b\[2J")
        t.prompt()
        assert "\x1b[2J" not in t.seen
        t.press(b"\x04")
        assert t.leaves()


def test_lines_are_edited_and_remembered(programs, data, home):
    with Terminal(programs, data / "orders.csv") as t:
        t.prompt()
        t.press("SQL: SELECT 1 AS n")
        t.press(b"\x1b[D" * 5 + b"9\x05, 'caf\xc3\xa9' AS t\r")  # four left: 19; the end of the line again
        t.wait(r"19")
        t.wait("café")
        t.prompt()
        t.type("/quit")
        assert t.leaves()
    path = home / "chat_history"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().splitlines()[-2:] == ["SQL: SELECT 19 AS n, 'café' AS t", "/quit"]
    with Terminal(programs, data / "orders.csv") as t:
        t.prompt()
        t.press(b"\x1b[A\x1b[A\r")
        t.wait(r"Count: 19, t: café")
        t.prompt()
        t.press("/tab\t\r")
        t.wait(r"id, region, total")
        t.prompt()
        t.press(b"\x04")
        assert t.leaves()


def test_history_is_bounded(programs, data, home):
    path = home / "chat_history"
    path.write_text("".join(f"SQL: SELECT {n}\n" for n in range(5000)))
    with Terminal(programs, data / "orders.csv") as t:
        t.prompt()
        t.type("SQL: SELECT 7 AS seven")
        t.wait("Seven: 7")
        t.prompt()
        t.type("/quit")
        assert t.leaves()
    lines = path.read_text().splitlines()
    assert len(lines) == 1000 and lines[-3:] == ["SQL: SELECT 4999", "SQL: SELECT 7 AS seven", "/quit"]


def test_ctrl_c_stops_the_cell_and_keeps_variables(programs, data):
    with Terminal(programs, data / "orders.csv") as t:
        t.prompt()
        t.type("PYTHON: x = 41")
        t.prompt()
        t.type("PYTHON: print('be' + 'gun', flush=True); exec('while True: pass')")
        t.wait("begun")
        t.press(b"\x03")
        t.wait(r"Stopped before it was finished\.")
        t.prompt()
        t.type("PYTHON: x + 1")
        t.wait(r"Value: 42\.")
        assert "are gone" not in t.seen
        t.prompt()
        t.press(b"\x04")
        assert t.leaves()


def test_a_block_goes_on_until_an_empty_line(programs, data):
    with Terminal(programs, data / "orders.csv") as t:
        t.prompt()
        t.type("PYTHON: for i in range(2):")
        t.wait(r"\n\. ")
        t.type("    print('row', i)")
        t.wait(r"\n\. ")
        t.type("")
        t.wait(r"row 0\nrow 1\n")
        t.prompt()
        t.type("/python")
        t.wait(r"\n\. ")
        t.press(b"\x03")  # gives the block up
        t.prompt()
        t.type("/quit")
        assert t.leaves()


def test_ctrl_c_twice_ends_the_sandbox(programs, data):
    stubborn = ["/python", "import time", "while True:", "    try:", "        print('be' + 'gun', flush=True)", "        while True: time.sleep(0.01)",
                "    except KeyboardInterrupt:", "        print('ig' + 'nored', flush=True)", "."]
    with Terminal(programs, data / "orders.csv") as t:
        t.prompt()
        t.type("PYTHON: x = 41")
        t.prompt()
        for _ in range(3):  # unless this machine is so slow that the grace ended first
            t.press("\r".join(stubborn) + "\r")
            t.wait("begun")
            t.press(b"\x03")
            t.wait("ignored")
            t.press(b"\x03")
            how = t.wait(r"Variables of earlier cells are gone: (its sandbox was stopped by force|the code that ran last ended its sandbox)")
            t.prompt()
            if "by force" in how.group(1):
                break
        assert "by force" in how.group(1)
        t.type("PYTHON: 'x' in dir()")
        t.wait(r"Value: (no|False)")
        t.prompt()
        t.press(b"\x04")
        assert t.leaves()


def test_ctrl_c_at_the_prompt(programs, data):
    with Terminal(programs, data / "orders.csv") as t:
        t.prompt()
        t.press("SQL: SELECT wrong")
        t.wait("wrong")
        t.press(b"\x03")
        t.wait(r"\^C\n")
        t.prompt()
        t.type("SQL: SELECT 3 AS three")
        t.wait(r"Three: 3\.")
        t.prompt()
        t.press(b"\x03")
        t.prompt()
        t.press(b"\x03")
        assert t.leaves()


def test_stopped_and_resumed(programs, data):
    """What Ctrl-Z does: the shell takes the terminal, and the program has to take it back with the line as it was."""
    with Terminal(programs, data / "orders.csv") as t:
        t.prompt()
        t.press("SQL: SELECT 123 + ")
        t.wait(r"123 \+ ")
        raw = termios.tcgetattr(t.theirs)
        assert raw[3] & termios.ICANON == 0
        t.child.send_signal(signal.SIGSTOP)
        os.waitpid(t.child.pid, os.WUNTRACED)
        termios.tcsetattr(t.theirs, termios.TCSANOW, t.before)
        t.child.send_signal(signal.SIGCONT)
        t.wait(r"> SQL: SELECT 123 \+ ")
        assert termios.tcgetattr(t.theirs) == raw
        t.type("2 AS n")
        t.wait(r"The count is 125\.")
        t.prompt()
        t.press(b"\x04")
        assert t.leaves()


def test_words_come_as_the_model_says_them(programs, data, model):
    hold = threading.Event()
    model.says(Raw(stream_bytes(text("First words"), done=False).split(b"data: ")[1].join([b"data: ", b""]), hold=hold))
    with Terminal(programs, data / "orders.csv", env=model.settings) as t:
        t.wait("answers; /help")
        t.prompt()
        t.type("tell me")
        t.wait("First words")  # while the model is still talking
        assert not hold.is_set() and t.child.poll() is None
        t.press(b"\x03")
        t.wait(r"Stopped before it was finished\.")
        t.prompt()
        hold.set()
        assert model.closed.wait(20)  # and it was told
        t.press(b"\x04")
        assert t.leaves()
