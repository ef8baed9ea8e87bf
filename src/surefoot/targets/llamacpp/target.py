"""A loaded GGUF model and the caches over it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence

from surefoot.core.errors import NotEligible, TargetError
from surefoot.core.types import Caps
from surefoot.targets.llamacpp.api import Api
from surefoot.targets.llamacpp.memory import check_memory
from surefoot.targets.llamacpp.runtime import Context, Weights
from surefoot.targets.llamacpp.session import LlamacppSession


class LlamacppTarget:
    """A loaded model. Its sessions share the weights. Holds changing state: a cache that nobody uses at the moment.

    Each session has a context of its own and not a sequence of a common one: two can run at once, one that fails takes
    none with it, and memory is taken for the sessions there are.
    """

    def __init__(
        self, weights: Weights, caps: Caps, settings: Mapping[str, int], min_rows: int, cache_bytes: int
    ) -> None:
        """`settings` are those of a context, with a cache of `cache_bytes`; a block has `min_rows` rows at least."""
        self.weights, self._caps = weights, caps
        self._settings, self._min_rows, self._cache_bytes = settings, min_rows, cache_bytes
        self._chunk = settings["n_ubatch"]
        self._lock = threading.Lock()
        self._idle: Context | None = None

    @property
    def caps(self) -> Caps:
        return self._caps

    def open(self, taps: Sequence[str] = ()) -> LlamacppSession:
        """A new empty session, on the cache of a closed one where there is one.

        Raises: NotEligible for an unknown tap; TargetError when there is no memory for another cache, and in a process
        that was forked from the one that loaded the model.
        """
        self.weights.api.check_process("open")
        unknown = [name for name in taps if name not in self._caps.tap_names]
        if unknown:
            known = ", ".join(self._caps.tap_names) or "none"
            raise NotEligible(f"this model has no tap {unknown[0]!r}; on llama.cpp it has {known}")
        with self._lock:
            context, self._idle = self._idle, None
        if context is None:
            context = self._new()
        session = LlamacppSession(context, self._caps, self._chunk, self._min_rows, bool(taps), self._keep)
        # When the process ends, what is younger is finalised first: this comes before its context is freed.
        weakref.finalize(session, _halt, self.weights.api, session.running.acquire)
        return session

    def _new(self) -> Context:
        with self.weights.api.listening() as lines:
            # Here, so that of two threads the second sees what the first has taken.
            check_memory(self._cache_bytes, self._settings["n_ctx"])
            try:
                return Context(self.weights, self._settings, self._chunk)
            except RuntimeError as error:
                failure = error
        reasons = [text for level, text in lines if level >= 3 and text]
        told = "; ".join(reasons[-2:]) or str(failure)
        if "cache type" in told:
            raise NotEligible(f"this model cannot have a cache of that type ({told}): leave out cache_type_k and _v")
        raise TargetError(
            f"llama.cpp has no cache for {self._caps.max_length} tokens ({told}): give a smaller ctx_size",
            backend="llamacpp",
            operation="open",
        ) from failure

    def _keep(self, context: Context) -> None:
        context.give_hidden(False)
        context.clear()
        with self._lock:
            self._idle = context


def _halt(api: Api, acquire: Callable[[], bool]) -> None:
    """Let the forward end that a daemon thread computes while the process ends, and no other begin.

    Its memory, and what llama.cpp keeps for all, would be freed under it. A forked process has no such thread, and may
    have got the lock as that thread held it.
    """
    if not api.forked:
        acquire()
