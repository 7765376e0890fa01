"""The program of the process that runs XGrammar's and Lark's own code for another process, and can be killed.

What: a small program, which `hybrid.guard.worker` starts with a socket as its standard input. It loads
XGrammar's library without its Python package (and so without torch, in 0.2 s and 30 MiB instead of 2 s and
300 MiB). Then it forks a child for each task, which converts or compiles one grammar and ends.
When: run as a program, by its path; `hybrid.guard.worker` imports it only for its frames. The program uses
only the standard library, XGrammar and `equivalence.network.optimised`, without importing the packages that
contain that module. For Lark grammars it imports Lark, numpy, and `hybrid.guard.lark_construction` in the
same way.
Limits: it needs `fork`. Each child has bounded memory and stack, and is killed when this process dies. This
process ends when the other end of its socket is closed, for whatever reason. Nothing is unpickled.

Each message on the socket is one byte and a number of 8 bytes. b"T" is a task; with it comes another socket,
over which the child reads its request and answers. b"K" kills a task. b"L" announces a Lark grammar, so that
Lark is imported here once and not by each child. Everything else is frames; see `send_frame`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import selectors
import signal
import socket
import struct
import sys
import time
import types
from typing import Any

HEADER = struct.Struct("!cQ")
STACK_BYTES = 4 * 2**20
"""Half of the stack of a thread in other processes: code that does not crash here does not crash there."""


def send_frame(channel: socket.socket, word: bytes, payload: bytes = b"") -> None:
    """Send one byte for the kind of the frame, eight bytes for the length, and the payload."""
    channel.sendall(HEADER.pack(word, len(payload)))
    channel.sendall(payload)


def receive(channel: socket.socket, size: int, ends: float | None = None) -> bytes:
    """Receive exactly `size` bytes; raise `EOFError` if there are fewer, `TimeoutError` if they are not there
    at the time `ends` of `time.monotonic`."""
    parts = bytearray(size)
    view = memoryview(parts)
    while view:
        if ends is not None:
            channel.settimeout(max(ends - time.monotonic(), 1e-3))
        count = channel.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return bytes(parts)


def receive_frame(channel: socket.socket, ends: float | None = None) -> tuple[bytes, bytes]:
    """Receive the next frame, as (word, payload); `ends` is as for `receive`."""
    word, length = HEADER.unpack(receive(channel, HEADER.size, ends))
    return word, receive(channel, length, ends)


class Library:
    """XGrammar's classes, from its library, or from its Python package if that fails.

    Args:
        path: the path of the library.
        packages: packages of this project, with their folders. They are replaced by empty modules with these
            folders.
    """

    grammar: Any
    tokenizer_info: Any
    compiler: Any

    def __init__(self, path: str, packages: dict[str, list[str]]) -> None:
        for name, folders in packages.items():
            package = types.ModuleType(name)
            package.__path__ = folders
            sys.modules[name] = package
        self._optimised = importlib.import_module("equivalence.network.optimised")
        self._construction: Any = None
        try:
            self._load(path)
            self.serialize(self.convert({"function": "from_ebnf", "arguments": ['root ::= "a"', "root"]}))
        except Exception:  # noqa: BLE001 - on any error, the whole package is imported
            for name in [name for name in sys.modules if name.split(".")[0] in ("torch", "tvm_ffi")]:
                del sys.modules[name]
            core = importlib.import_module("xgrammar.base").__dict__["_core"]
            self.grammar, self.tokenizer_info = core.Grammar, core.TokenizerInfo
            self.compiler = core.GrammarCompiler

    def _load(self, path: str) -> None:
        sys.modules["torch"] = None  # type: ignore[assignment] # an import fails; tvm_ffi goes on
        tvm_ffi = importlib.import_module("tvm_ffi")
        tvm_ffi.load_module(path)

        def known(name: str) -> Any:
            made = type(name, (tvm_ffi.Object,), {})
            return tvm_ffi.register_object(f"xgrammar.tvm_ffi_binding.{name}")(made)

        self.grammar, self.tokenizer_info = known("Grammar"), known("TokenizerInfo")
        self.compiler = known("GrammarCompiler")

    def convert(self, request: dict[str, Any]) -> Any:
        """Make a grammar with one of XGrammar's functions."""
        arguments = request["arguments"]
        if request["function"] == "from_lark":
            arguments = self.with_objects(*arguments)
        return getattr(self.grammar, request["function"])(*arguments)

    def with_objects(self, text: str, size: int, tokens: list[Any], others: list[Any]) -> list[Any]:
        """Make the arguments for a grammar in XGrammar's dialect of Lark.

        Args:
            text: the grammar.
            size: number of ids of the vocabulary.
            tokens: the ids and texts of the tokens that the grammar may name.
            others: the grammars that it names: their names, texts, and whether a text is a serialised
                grammar.
        """
        texts = [b""] * size
        for number, token in tokens:
            texts[number] = token.encode()
        info = self.tokenizer_info(texts, 0, size, [], False)
        grammars = [self.grammar.deserialize_json(one) if is_made else one for _, one, is_made in others]
        return [text, info, [name for name, _, _ in others], grammars]

    def load_lark(self) -> Any:
        """Import `hybrid.guard.lark_construction`, once."""
        if self._construction is None:
            for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
                os.environ[name] = "1"  # no threads in numpy: they would not exist after a fork
            self._construction = importlib.import_module("hybrid.guard.lark_construction")
        return self._construction

    def warm_lark(self) -> None:
        """Prepare what children then inherit: Lark's parser of grammars, and the classes of all
        characters."""
        text = "start: A\nA: /\\w\\d\\s\\W\\D\\S|[^\\W\\d]/i"
        self.construct({"text": text, "start": "start", "max_states": 100})

    def construct(self, request: dict[str, Any]) -> bytes:
        """Make the parser and the lexer of a Lark grammar."""
        found: bytes = self.load_lark().answer(request["text"], request["start"], request["max_states"])
        return found

    def serialize(self, grammar: Any) -> bytes:
        return str(grammar.serialize_json()).encode("utf-8", "surrogatepass")

    def new_compiler(self, info: Any, threads: int) -> Any:
        """Make one of XGrammar's compilers, without a cache."""
        options = (info, threads, False, -1)
        try:
            return self.compiler(*options)
        except TypeError:  # from 0.2.9 on, another one says whether masks are made when they are needed
            return self.compiler(*options, False)

    def compile(self, request: dict[str, Any], text: bytes, lengths: bytes, data: bytes) -> None:
        """Compile a grammar and drop the result: the answer is that it did not crash, and ended in time."""
        counts = memoryview(lengths).cast("I").tolist()
        tokens, at = [], 0
        for count in counts:
            tokens.append(data[at : at + count])
            at += count
        info = self.tokenizer_info(tokens, 0, len(tokens), request["stop_token_ids"], False)
        compiler = self.new_compiler(info, request["threads"])
        compiler.compile_grammar_ebnf(self.grammar.deserialize_json(text.decode("utf-8", "surrogatepass")))

    def optimise(self, request: dict[str, Any]) -> bytes:
        """Do what `equivalence.network.optimised.optimised_text` says; the answer is empty if it has none."""
        count = self._optimised.N_TOKENS
        info = self.tokenizer_info([b""] * count, 0, count, [count - 1], False)
        compiler = self.new_compiler(info, 1)
        grammar = compiler.compile_grammar_ebnf(self.grammar.deserialize_json(request["text"])).grammar()
        name = "xgrammar.tvm_ffi_binding.testing._print_grammar_fsms"
        print_automata = importlib.import_module("tvm_ffi").get_global_func(name)
        if self._optimised.is_too_large(str(print_automata(grammar)), request["most_bytes"]):
            return b""
        text: str = self._optimised.automata_apart(str(grammar.serialize_json()))
        return text.encode("utf-8", "surrogatepass")


def is_lost_for_memory(error: BaseException) -> bool:
    """Whether an error stands for a `MemoryError` that the interpreter lost.

    If there is no memory for the frame of a call, CPython 3.11 may raise a `SystemError` instead, "returned
    NULL without setting an exception": 6 of 150 times with bounds of 1 to 30 MiB.
    """
    return isinstance(error, SystemError) and "without" in str(error)


def run_task(library: Library, channel: socket.socket) -> None:
    """Do the work of a child: read one request, and send one answer."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    try:
        request = json.loads(receive_frame(channel)[1])
        if request["seconds"] is not None:  # the kernel kills it if nobody else does
            signal.setitimer(signal.ITIMER_REAL, request["seconds"])
        with open("/proc/self/statm") as status:
            begun = int(status.read().split()[0]) * resource.getpagesize()
        most = begun + request["bytes"]
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        if request["task"] == "compile":
            library.compile(request, *(receive_frame(channel)[1] for _ in range(3)))
            answer = b""
        elif request["task"] == "optimise":
            answer = library.optimise(request)
        elif request["task"] == "lark":
            answer = library.construct(request)
        else:
            answer = library.serialize(library.convert(request))
        if len(answer) > request["most"]:
            send_frame(channel, b"L", str(len(answer)).encode())
        else:
            send_frame(channel, b"R", answer)
    except BaseException as error:  # noqa: BLE001 - it is sent to the caller
        memory = isinstance(error, MemoryError) or "bad_alloc" in str(error) or is_lost_for_memory(error)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))  # the answer needs memory, too
        text = str(error) or f"{type(error).__name__} without a message"
        if isinstance(error, UnicodeDecodeError):  # XGrammar's message, which quotes a part of a character
            text = error.object.decode("utf-8", "replace")
        send_frame(channel, b"M" if memory else b"E", text[:100_000].encode("utf-8", "replace"))


NEW_OBJECTS = 50_000
"""The garbage collector of a child runs when this many more objects were made than freed, and not after 700:
most live as long as the child. This saves an eighth of the time for a Lark grammar."""


def child(library: Library, channel: socket.socket) -> None:
    """Set up a forked process for one task, and run the task."""
    gc.set_threshold(NEW_OBJECTS)
    for one in (signal.SIGCHLD, signal.SIGALRM):
        signal.signal(one, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    run_task(library, channel)


class Parent:
    """The loop that forks and kills children, and reports their ends."""

    def __init__(self, control: socket.socket, library: Library) -> None:
        self.control = control
        self.library = library
        self.running: dict[int, tuple[int, socket.socket]] = {}  # task number -> process id, channel

    def loop(self) -> None:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        os.set_blocking(reader, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(self.control, selectors.EVENT_READ)
            selector.register(reader, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if reader in ready:
                    os.read(reader, 4096)
                    self.bury()
                if self.control in ready and not self.obey(selector, reader, writer):
                    return

    def obey(self, selector: selectors.BaseSelector, *others: int) -> bool:
        """Handle the next message. Return False if there will be no more."""
        message, sockets, _, _ = socket.recv_fds(self.control, HEADER.size, 1)
        if message and len(message) < HEADER.size:
            message += receive(self.control, HEADER.size - len(message))
        if not message:
            return False
        word, number = HEADER.unpack(message)
        if word == b"K":
            if number in self.running:
                os.kill(self.running[number][0], signal.SIGKILL)
            return True
        if word == b"L":
            with contextlib.suppress(Exception):  # a child will find and report the same error
                self.library.warm_lark()
            return True
        channel = socket.socket(fileno=sockets[0])
        try:
            process = os.fork()
        except OSError as error:
            send_frame(channel, b"E", f"no process can be started: {error}".encode())
            channel.close()
            return True
        if process == 0:
            try:
                selector.close()
                for one in others:
                    os.close(one)
                self.control.close()
                for _, other in self.running.values():
                    other.close()
                child(self.library, channel)
            finally:
                os._exit(0)
        self.running[number] = process, channel
        return True

    def bury(self) -> None:
        """Report the exit status of each child that has ended."""
        for number, (process, channel) in list(self.running.items()):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                del self.running[number]
                channel.setblocking(False)
                with contextlib.suppress(OSError):  # the other end may be closed
                    channel.send(HEADER.pack(b"X", 2) + struct.pack("!H", status & 0xFFFF))
                channel.close()

    def close(self) -> None:
        for process, _ in self.running.values():
            os.kill(process, signal.SIGKILL)


def main() -> None:
    # Ctrl-C in the terminal is for the program that started this process; when that stops, its end of the
    # socket is closed
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # that program may have blocked signals; without SIGCHLD, the ends of children would not be noticed
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    control = socket.socket(fileno=os.dup(0))
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    try:
        setup = json.loads(receive_frame(control)[1])
    except (EOFError, ConnectionError):  # the program that started it has ended already
        return
    sys.path[:] = setup["path"]
    most = resource.getrlimit(resource.RLIMIT_STACK)[1]
    bound = STACK_BYTES if most == resource.RLIM_INFINITY else min(STACK_BYTES, most)
    resource.setrlimit(resource.RLIMIT_STACK, (bound, most))
    library = Library(setup["library"], setup["packages"])
    parent = Parent(control, library)
    try:
        with contextlib.suppress(EOFError, ConnectionError):  # the other process has ended
            send_frame(control, b"H")
            parent.loop()
    finally:
        parent.close()


if __name__ == "__main__":
    main()
