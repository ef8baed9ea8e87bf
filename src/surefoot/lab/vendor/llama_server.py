"""llama.cpp's server of xllamacpp in a process of its own, which ends when the one that asked for it does.

Source: measured 2026-12-01, xllamacpp 2026.10.11549 on 2 cores of an AMD EPYC, SmolLM2 in F16. Beside a server in the
same process a forward of ours took 16.3 ms instead of 8.6, and the server was as slow: libgomp lets the threads of a
forward wait for each other by going to sleep as soon as the threads of all callers in the process outnumber the cores.
What costs more rows then looks cheap beside one row.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping
from typing import IO, Any

from surefoot.core.errors import NotEligible

NGRAM = 2
"""Source: llama-cpp-python's own default of max_ngram_size, and what transformers' lookup is given here."""

_PATIENCE_S = 10.0
"""chosen: a server that does not end by itself in that time is killed."""


class Server:
    """A running server. Holds its process, which ends with this object."""

    def __init__(self, asked: Mapping[str, Any], name: str) -> None:
        """asked: as `_params` reads it. Raises: NotEligible where it does not start."""
        process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        weakref.finalize(self, _end, process)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
            told = _told(process.stdout)
        except OSError as error:
            told = {"error": str(error)}
        if "address" not in told:
            raise NotEligible(f"{name} does not start: {told.get('error') or 'its process ended'}")
        self.address = str(told["address"])


def _told(output: IO[bytes]) -> Mapping[str, Any]:
    """What the server says of itself; libraries may print before it."""
    for line in output:
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict):
            return told
    return {}


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _params(asked: Mapping[str, Any]) -> Any:
    """Parameters of a server for one text at a time; no drafts where draft_len is 0.

    asked: path; n_ctx, ubatch, threads, draft_len and layers, which are numbers; cache, flash_attention and repack, as
    `caps.settings` has them.
    """
    import xllamacpp as xlc

    params = xlc.CommonParams()
    params.model.path = asked["path"]
    params.n_ctx = asked["n_ctx"]
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = asked["ubatch"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = asked["threads"]
    key, value = asked["cache"].split("/")
    params.cache_type_k = getattr(xlc.ggml_type, f"GGML_TYPE_{key.upper()}")
    params.cache_type_v = getattr(xlc.ggml_type, f"GGML_TYPE_{value.upper()}")
    flash = {"auto": "AUTO", "on": "ENABLED", "off": "DISABLED"}[asked["flash_attention"]]
    params.flash_attn_type = getattr(xlc.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{flash}")
    params.no_extra_bufts = asked["repack"] == "off"
    params.n_gpu_layers = asked["layers"]
    params.swa_full = True
    # What would change the sizes asked for, keep caches of earlier prompts, or talk.
    params.fit_params = False
    params.cache_ram_mib = params.n_ctx_checkpoints = 0
    params.cache_prompt = params.cache_idle_slots = params.warmup = params.ui = False
    params.verbosity = -1
    if asked["draft_len"]:
        params.speculative.types = [xlc.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        params.speculative.ngram_simple.size_n = NGRAM
        params.speculative.ngram_simple.size_m = asked["draft_len"]
    return params


def main() -> None:
    """The server's process: parameters in on stdin, its address out on stdout, and the end when stdin is closed."""
    import xllamacpp

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asked
    try:
        server = xllamacpp.Server(_params(json.loads(sys.stdin.readline())))
        told = {"address": server.listening_address}
    except Exception as error:
        told = {"error": str(error)}
    sys.stdout.write(f"{json.dumps(told)}\n")
    sys.stdout.flush()
    if "address" in told:
        sys.stdin.read()
    os._exit(0)  # dropping a server waits for its loop, which may never have run


if __name__ == "__main__":
    main()
