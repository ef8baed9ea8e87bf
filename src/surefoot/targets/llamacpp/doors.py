"""The bindings that bring a built llama.cpp, and how its library and its structs are reached through each."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from surefoot.core.errors import ConfigError, NotEligible
from surefoot.targets.llamacpp.layouts import Layout, of_build, of_cffi, of_ctypes

INSTALL = 'pip install "surefoot[llamacpp]"'


@dataclass(frozen=True, slots=True)
class Door:
    """A loaded library and the layouts of its parameter structs. `version` names the binding's own version."""

    name: str
    version: str
    library: ctypes.CDLL
    model_params: Layout
    context_params: Layout


def _xllamacpp() -> Door:
    """A Cython module whose library exports the C interface too; it brings no header."""
    version = metadata.version("xllamacpp")
    build = version.split(".")[2] if version.count(".") >= 2 else ""
    layouts = of_build(int(build)) if build.isdecimal() else None
    if layouts is None:
        raise NotEligible(f"xllamacpp {version} is a version whose structs are not known here: {INSTALL}")
    spec = importlib.util.find_spec("xllamacpp")
    folders = [] if spec is None else [Path(folder) for folder in spec.submodule_search_locations or ()]
    files = [file for folder in folders for file in sorted(folder.glob("xllamacpp*.so"))]
    if not files:
        raise NotEligible(f"xllamacpp {version} comes without a library that others can call on {sys.platform}")
    return Door("xllamacpp", version, ctypes.CDLL(str(files[0])), *layouts)


def _py_sync() -> Door:
    """A binding made anew from the header of each build, by cffi, which knows the structs."""
    cffi: Any = importlib.import_module("llama_cpp_py_sync._cffi_bindings")
    path = cffi._find_library()
    if path is None:
        raise NotEligible("llama-cpp-py-sync is installed without its library: install it again")
    cffi._configure_runtime_for_library(path)
    layouts = (of_cffi(cffi.ffi, f"struct llama_{kind}_params") for kind in ("model", "context"))
    return Door("llama-cpp-py-sync", metadata.version("llama-cpp-py-sync"), ctypes.CDLL(str(path)), *layouts)


def _llama_cpp_python() -> Door:
    """The oldest binding, compiled where it is installed; it knows the structs by ctypes."""
    binding: Any = importlib.import_module("llama_cpp.llama_cpp")
    layouts = (of_ctypes(binding.llama_model_params), of_ctypes(binding.llama_context_params))
    # A handle of our own, since argument types are set on it.
    library = ctypes.CDLL(binding._lib._name)
    return Door("llama-cpp-python", metadata.version("llama-cpp-python"), library, *layouts)


DOORS: Mapping[str, tuple[str, Callable[[], Door]]] = {
    "xllamacpp": ("xllamacpp", _xllamacpp),
    "llama-cpp-py-sync": ("llama_cpp_py_sync", _py_sync),
    "llama-cpp-python": ("llama_cpp", _llama_cpp_python),
}
"""By the name of the package: its module, and how it is opened. In the order in which `auto` tries them."""


def open_door(binding: str) -> Door:
    """The first binding that opens, or the one that was asked for.

    Raises: ConfigError for an unknown name; NotEligible where none is installed, or none that is can be loaded.
    """
    if binding not in ("auto", *DOORS):
        raise ConfigError(f"binding is {binding!r}; it is one of auto, {', '.join(DOORS)}")
    wanted = DOORS if binding == "auto" else {binding: DOORS[binding]}
    failures: list[str] = []
    for name, (module, make) in wanted.items():
        if importlib.util.find_spec(module) is None:
            continue
        try:
            return make()
        except NotEligible as error:
            failures.append(str(error))
        except Exception as error:  # a library that does not load says so in the loader's or the binding's own way
            failures.append(f"{name} cannot be loaded: {' '.join(str(error).split()) or type(error).__name__}")
    if failures:
        raise NotEligible("no llama.cpp can be loaded" if len(failures) > 1 else failures[0], failures)
    if binding == "auto":
        raise NotEligible(f"the llamacpp target needs a binding to llama.cpp: {INSTALL}")
    raise NotEligible(f"the binding {binding} was asked for and is not installed: pip install {binding}")
