"""The part of llama.cpp's C interface that is used here, the same through every binding."""

from __future__ import annotations

import _thread
import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ctypes import c_bool, c_char_p, c_float, c_int32, c_size_t, c_uint32, c_void_p
from functools import cache
from typing import Any

from surefoot.core.errors import NotEligible, TargetError
from surefoot.targets.llamacpp.doors import INSTALL, Door, open_door
from surefoot.targets.llamacpp.layouts import CONTEXT, MODEL, lacking, put, reads_defaults

WARN, ERROR = 3, 4
"""Levels of log lines. Source: enum ggml_log_level in ggml/include/ggml.h."""

_LogCallback = ctypes.CFUNCTYPE(None, ctypes.c_int, c_char_p, c_void_p)
_ProgressCallback = ctypes.CFUNCTYPE(c_bool, c_float, c_void_p)
AbortCallback = ctypes.CFUNCTYPE(c_bool, c_void_p)


class Batch(ctypes.Structure):
    """Tokens of one forward; without sequence ids all belong to sequence 0. Source: llama_batch in include/llama.h."""

    _fields_ = (
        ("n_tokens", c_int32),
        ("token", c_void_p),
        ("embd", c_void_p),
        ("pos", c_void_p),
        ("n_seq_id", c_void_p),
        ("seq_id", c_void_p),
        ("logits", c_void_p),
    )


_PROTOTYPES: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
    "llama_backend_init": (None, ()),
    "llama_log_set": (None, (_LogCallback, c_void_p)),
    "llama_print_system_info": (c_char_p, ()),
    "llama_supports_gpu_offload": (c_bool, ()),
    "llama_model_free": (None, (c_void_p,)),
    "llama_model_get_vocab": (c_void_p, (c_void_p,)),
    "llama_model_n_ctx_train": (c_int32, (c_void_p,)),
    "llama_model_n_embd": (c_int32, (c_void_p,)),
    "llama_model_n_embd_out": (c_int32, (c_void_p,)),
    "llama_model_n_layer": (c_int32, (c_void_p,)),
    "llama_model_n_head": (c_int32, (c_void_p,)),
    "llama_model_n_head_kv": (c_int32, (c_void_p,)),
    "llama_model_n_swa": (c_int32, (c_void_p,)),
    "llama_model_has_encoder": (c_bool, (c_void_p,)),
    "llama_model_has_decoder": (c_bool, (c_void_p,)),
    "llama_model_is_recurrent": (c_bool, (c_void_p,)),
    "llama_model_is_hybrid": (c_bool, (c_void_p,)),
    "llama_model_is_diffusion": (c_bool, (c_void_p,)),
    "llama_model_meta_val_str": (c_int32, (c_void_p, c_char_p, c_char_p, c_size_t)),
    "llama_vocab_n_tokens": (c_int32, (c_void_p,)),
    "llama_free": (None, (c_void_p,)),
    "llama_n_ctx": (c_uint32, (c_void_p,)),
    "llama_n_ubatch": (c_uint32, (c_void_p,)),
    "llama_n_threads": (c_int32, (c_void_p,)),
    "llama_n_threads_batch": (c_int32, (c_void_p,)),
    "llama_get_memory": (c_void_p, (c_void_p,)),
    "llama_memory_seq_rm": (c_bool, (c_void_p, c_int32, c_int32, c_int32)),
    "llama_memory_clear": (None, (c_void_p, c_bool)),
    "llama_decode": (c_int32, (c_void_p, Batch)),
    "llama_get_logits": (c_void_p, (c_void_p,)),
    "llama_set_embeddings": (None, (c_void_p, c_bool)),
    "llama_get_embeddings": (c_void_p, (c_void_p,)),
    "llama_set_abort_callback": (None, (c_void_p, AbortCallback, c_void_p)),
}


_FORKED = (
    "this process was forked from one that had loaded llama.cpp, whose threads are not here: load the model after the "
    "fork only, or start processes with multiprocessing's method spawn"
)


def _refuse_in_a_child(context: int, batch: Batch) -> int:
    raise RuntimeError(_FORKED)


class Api:
    """llama.cpp, loaded. Holds changing state: who listens to its log."""

    def __init__(self, door: Door) -> None:
        self.door, self.fn = door, door.library
        try:
            for name, (result, arguments) in _PROTOTYPES.items():
                function = getattr(self.fn, name)
                function.restype, function.argtypes = result, arguments
            self._model_type, self._context_type = door.model_params.type(), door.context_params.type()
            self.fn.llama_model_default_params.restype = self._model_type
            self.fn.llama_context_default_params.restype = self._context_type
            self.fn.llama_model_load_from_file.restype = c_void_p
            self.fn.llama_model_load_from_file.argtypes = (c_char_p, self._model_type)
            self.fn.llama_init_from_model.restype = c_void_p
            self.fn.llama_init_from_model.argtypes = (c_void_p, self._context_type)
        except AttributeError as error:
            raise NotEligible(f"{door.name} {door.version} lacks a function used here ({error}): {INSTALL}") from error
        self._check_structs()
        self._listening, self._lines, self._level = threading.Lock(), list[tuple[int, str]](), 0
        self._hears = False
        self._failures: list[BaseException] = []  # of callbacks and signal handlers, in the call that runs
        self._callback = _LogCallback(self._hear)
        self.fn.llama_backend_init()
        self.fn.llama_log_set(self._callback, None)
        self.forked = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_a_child)

    def check_process(self, operation: str) -> None:
        """Raises: TargetError in a process that was forked from the one that loaded llama.cpp."""
        if self.forked:
            raise TargetError(_FORKED, backend="llamacpp", operation=operation)

    def _check_structs(self) -> None:
        """Raises: NotEligible where a struct lacks a field that is set, or lies otherwise than the binding says."""
        name = f"{self.door.name} {self.door.version}"
        for layout, asked, defaults in (
            (self.door.model_params, MODEL, self.fn.llama_model_default_params),
            (self.door.context_params, CONTEXT, self.fn.llama_context_default_params),
        ):
            if missing := lacking(layout, asked):
                raise NotEligible(f"{name} lacks {missing[0]}, a parameter that is set here: {INSTALL}")
            if not reads_defaults(defaults(), layout, asked):
                raise NotEligible(f"{name} has structs of another build than it says: {INSTALL}")

    def load_model(self, path: str, values: Mapping[str, int], fits: Callable[[], bool] = lambda: True) -> int | None:
        """The address of a loaded model; None when it cannot be loaded.

        `fits` is asked before weights are read, when llama.cpp has said how large its buffers are; False ends it there.
        Raises: what `fits` raises, or a signal handler: Ctrl-C ends the loading.
        """
        asked = _ProgressCallback(lambda progress, _: self._goes_on(progress, fits))
        params = self.fn.llama_model_default_params()

        def load() -> int | None:
            address_of_asked = ctypes.cast(asked, c_void_p).value or 0
            put(params, self.door.model_params, {**values, "progress_callback": address_of_asked})
            address: int | None = self.fn.llama_model_load_from_file(os.fsencode(path), params)
            return address

        return self._made(load, self.fn.llama_model_free)

    def new_context(self, model: int, values: Mapping[str, int]) -> int | None:
        """The address of a new context over the model; None when it cannot be made.

        Raises: what a signal handler raises meanwhile.
        """
        params = self.fn.llama_context_default_params()
        put(params, self.door.context_params, values)
        return self._made(lambda: self.fn.llama_init_from_model(model, params), self.fn.llama_free)

    def metadata(self, model: int, key: str) -> str | None:
        """A value of the file's metadata as text; None where it has none."""
        buffer = ctypes.create_string_buffer(256)
        length = self.fn.llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
        return None if length < 0 else buffer.value.decode(errors="replace")

    @contextmanager
    def listening(self) -> Iterator[list[tuple[int, str]]]:
        """What llama.cpp has logged so far, by level; at other times nothing is kept, and never is anything printed."""
        with self._listening:
            self._lines = []
            self._hears = True
            self.fn.llama_log_set(self._callback, None)  # anew: a server in this process takes the log for itself
            try:
                yield self._lines
            finally:
                self._hears = False

    def _in_a_child(self) -> None:
        """From here on nothing is computed: a forward would wait for threads that fork did not copy."""
        self.forked = True
        vars(self.fn).update(llama_decode=_refuse_in_a_child)  # asked nowhere else, so that no forward pays for it

    def _made(self, make: Callable[[], int | None], free: Callable[[int], object]) -> int | None:
        """The address of what llama.cpp makes, by a thread of its own while this one waits.

        Python runs signal handlers in the main thread, and there before the next line of Python, which would be the
        first of a callback: what they raise would be lost on its way through llama.cpp.
        """
        made: list[int | None] = []
        failures = self._failures = []
        ended = threading.Lock()
        ended.acquire()

        def run() -> None:
            address = None
            try:
                address = make()
            except BaseException as error:
                failures.append(error)
            made.append(address)
            ended.release()

        try:
            _thread.start_new_thread(run, ())  # not threading's own, which an interrupt may leave half started
        except RuntimeError:
            raise  # there are no more threads
        except BaseException as error:  # what a signal handler raises, as that of Ctrl-C
            failures.append(error)
        while True:
            try:
                while not made:
                    ended.acquire()
                break
            except BaseException as error:
                failures.append(error)
        address = made[0]
        if failures:
            if address is not None:
                free(address)
            raise failures[0]
        return address

    def _goes_on(self, progress: float, fits: Callable[[], bool]) -> bool:
        try:
            return not self._failures and (progress > 0 or fits())
        except BaseException as error:  # ctypes would print and drop it
            self._failures.append(error)
            return False

    def _hear(self, level: int, text: bytes, _: object) -> None:
        try:
            if self._hears:
                self._note(level, text)
        except BaseException as error:  # ctypes would print and drop it
            self._failures.append(error)

    def _note(self, level: int, text: bytes) -> None:
        # Level 5 goes on with the line before.
        self._level = self._level if level == 5 else level
        self._lines.append((self._level, text.decode(errors="replace").strip()))


_OPENING = threading.Lock()


def open_api(binding: str) -> Api:
    """llama.cpp through the binding, or the first one that opens."""
    with _OPENING:  # a cache alone would let two threads make two, of which one is dropped with its callback
        api = _once(open_door(binding).name)
    api.check_process("load")
    return api


@cache
def _once(binding: str) -> Api:
    """Made once in a process for each library, whose log has one listener."""
    return Api(open_door(binding))
