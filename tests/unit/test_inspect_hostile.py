"""Malformed and hostile files: one sentence each, in bounded memory, whatever they claim."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from gguf_files import ARCHITECTURE, raw, string
from hypothesis import given, settings
from hypothesis import strategies as st
from inspect_files import (
    DATA,
    LLAMA,
    TENSORS,
    array,
    folder,
    header,
    ir,
    layer,
    onnx_model,
    package,
    port,
    proto,
    varint,
)
from inspect_files import value_info as info

from surefoot.core.errors import ConfigError
from surefoot.engine import bounded, gguf_header
from surefoot.engine.inspect import inspect, ir_xml, mlir_bytecode, wire

HUGE = 2**62
BOUND = 48 * 2**20
"""chosen: bytes of memory that any of these files may make the reader hold; a dozen times what whole ones take."""

Made = Callable[[Path], Path]


def model(data: bytes, config: str | None = None) -> Made:
    """A folder whose model.safetensors holds these bytes."""

    def make(path: Path) -> Path:
        folder(path)
        (path / "model.safetensors").write_bytes(data)
        if config is not None:
            (path / "config.json").write_text(config)
        return path

    return make


def text(config: str) -> Made:
    return model(header(TENSORS), config)


def text_of(config: bytes) -> Made:
    def make(path: Path) -> Path:
        model(header(TENSORS))(path)
        (path / "config.json").write_bytes(config)
        return path

    return make


def settings_of(**changed: Any) -> Made:
    return text(json.dumps({**LLAMA, **changed}))


def headed(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def xml(content: str) -> Made:
    def make(path: Path) -> Path:
        ir(path, layer(0, "Parameter", ""))
        (path / "openvino_model.xml").write_text(content)
        return path

    return make


def file(name: str, data: bytes, size: int | None = None) -> Made:
    """A file of these bytes, `size` long with zeros that take no room."""

    def make(path: Path) -> Path:
        path.mkdir(exist_ok=True)
        (path / name).write_bytes(data)
        if size is not None:
            os.truncate(path / name, size)
        return path / name

    return make


def weight(*entries: tuple[str, str], external: int = 1) -> bytes:
    """A tensor of an ONNX graph that lies in another file."""
    places = [(13, proto((1, key), (2, value))) for key, value in entries]
    return proto((1, 4), (2, 1), (8, "w"), (14, external), *places)


def nested(depth: int) -> bytes:
    """An operation with a graph inside, and so on."""
    inner = (nested(depth - 1),) if depth else ()
    return proto((4, "If"), (5, proto((1, "branch"), (6, proto(*[(1, each) for each in inner])))))


IDS, LOGITS = (11, info("input_ids", "b", "n")), (12, info("logits", "b", "n", 32))


def placed(**entries: str) -> Made:
    graph = ((5, weight(*entries.items())), IDS, LOGITS)
    return file("m.onnx", onnx_model(*graph))


def manifest(content: Any) -> Made:
    return lambda path: package(path / "m.mlpackage", b"", content)


def spec(data: bytes) -> Made:
    return lambda path: package(path / "m.mlpackage", data)


def described(*features: bytes) -> bytes:
    return proto((1, 9), (2, proto(*[(1, feature) for feature in features])))


def program(change: Callable[[bytes], bytes]) -> Made:
    """A Core AI program that something happened to."""

    def make(path: Path) -> Path:
        out = path / "m.aimodel"
        shutil.copytree(DATA / "dynamic.aimodel", out)
        (out / "main.mlirb").write_bytes(change((out / "main.mlirb").read_bytes()))
        return out

    return make


def sections(*parts: bytes) -> Callable[[bytes], bytes]:
    return lambda data: b"ML\xefR\x0dMLIR\0" + b"".join(parts)


def bundle(metadata: str, with_program: bool = True) -> Made:
    def make(path: Path) -> Path:
        path.mkdir()
        if with_program:
            shutil.copytree(DATA / "dynamic.aimodel", path / "m.aimodel")
        else:
            (path / "m.aimodel").mkdir()
        (path / "metadata.json").write_text(metadata)
        return path

    return make


def odd(value: int) -> bytes:
    """A number of MLIR's bytecode, in nine bytes."""
    return b"\0" + struct.pack("<Q", value)


ENTRY = '{"dtype":"F32","shape":[4],"data_offsets":[0,16]}'

REFUSED: Mapping[str, tuple[Made, str]] = {
    # settings
    "settings that are no JSON": (text("{"), "not JSON"),
    "settings that are a list": (text("[1]"), "list"),
    "settings of nothing": (text("{}"), "no config.json"),
    "settings nested deeply": (text('{"a":' + "[" * 100_000 + "]" * 100_000 + "}"), "not JSON"),
    "settings of many items": (text('{"a":[' + "1," * 2_000_001 + "1]}"), "JSON items"),
    "settings of many bytes": (text(" " * (16 * 2**20) + "{}"), "larger than 16 MiB"),
    "settings that are not UTF-8": (text_of(b'{"model_type": "\xff"}'), "not JSON"),
    "a number beyond all numbers": (settings_of(vocab_size=10**40), "damaged"),
    "infinity": (text('{"model_type":"llama","num_hidden_layers":4,"rope_theta":Infinity}'), "damaged"),
    "more layers than there are": (settings_of(num_hidden_layers=10**9), "layers"),
    "no layer": (settings_of(num_hidden_layers=0), "layers"),
    "a head as wide as the world": (settings_of(head_dim=10**9), "head_dim"),
    # safetensors
    "no header": (model(b""), "cut off"),
    "a header of zero bytes": (model(bytes(8)), "cut off"),
    "a header longer than its file": (model(struct.pack("<Q", 10**6) + b"{}"), "cut off"),
    "a header of 16 exabytes": (model(b"\xff" * 8 + b"{}"), "cut off"),
    "a header that is no JSON": (model(headed("{") + bytes(16)), "not a safetensors"),
    "a header that is a number": (model(headed("42") + bytes(16)), "not a safetensors"),
    "a header nested deeply": (model(headed("[" * 200_000)), "not a safetensors"),
    "a header of many items": (model(headed("{" + ",".join(['"a":[]'] * 700_000) + "}")), "not a safetensors"),
    "a tensor without a place": (model(headed('{"w":{"dtype":"F32","shape":[4]}}') + bytes(16)), "not a safetensors"),
    "a tensor that is a text": (model(headed('{"w":"F32"}')), "not a safetensors"),
    "a size below zero": (model(headed(ENTRY.replace("[4]", "[-4]").join(('{"w":', "}"))) + bytes(16)), "not a safet"),
    "a size that is a text": (model(headed(ENTRY.replace("[4]", '["4"]').join(('{"w":', "}"))) + bytes(16)), "not a"),
    "a place past the end": (model(headed('{"w":' + ENTRY.replace("16", str(HUGE)) + "}") + bytes(16)), "cut off"),
    "weights that were cut off": (model(header(TENSORS)[:-1]), "cut off"),
    "weights that go on": (model(header(TENSORS) + b"x"), "cut off"),
    # GGUF
    "nothing in a GGUF file": (file("m.gguf", b""), "cannot be read|not a GGUF|empty"),
    "another format's magic": (file("m.gguf", b"PK\3\4" + bytes(99)), "not a GGUF"),
    "a text of a GGUF file as large as the file": (
        file("m.gguf", raw(body=struct.pack("<Q", 4 << 30)), 5 << 30), "a text of 4294967296 bytes",
    ),
    "an array of more texts than there are": (
        file("m.gguf", raw(n_keys=2, body=ARCHITECTURE + string("a") + struct.pack("<IIQ", 9, 8, 1_500_000)), 1 << 30),
        "texts",
    ),
    "more keys than there are": (file("m.gguf", raw(n_keys=HUGE)), "metadata keys"),
    "more tensors than there are": (file("m.gguf", raw(n_tensors=HUGE)), "tensors"),
    "an array in an array": (
        file("m.gguf", raw(n_keys=2, body=ARCHITECTURE + string("a") + struct.pack("<IIQ", 9, 9, 1))), "unknown type 9",
    ),
    "the first of parts that are not there": (file("m-00001-of-00003.gguf", raw()), "not in"),
    # OpenVINO
    "no XML": (xml("{}"), "no OpenVINO model"),
    "nothing in an XML file": (xml(""), "no OpenVINO model"),
    "another document": (xml("<html></html>"), "net is expected"),
    "a document type": (xml('<!DOCTYPE net [<!ENTITY a "a">]><net/>'), "document type"),
    "entities that multiply": (
        xml(
            '<!DOCTYPE net [<!ENTITY a "aaaaaaaaaa">'
            + "".join(f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(9))
            + "]><net>&j;</net>"
        ),
        "document type",
    ),
    "a file outside as an entity": (
        xml('<!DOCTYPE net [<!ENTITY x SYSTEM "file:///etc/passwd">]><net>&x;</net>'), "document type",
    ),
    "a tag that is not closed": (xml("<net><layers>"), "no OpenVINO model"),
    "a tag without an end": (xml('<net name="' + "a" * (2 << 20)), "without the end of a tag"),
    "tags nested deeply": (xml("<net>" + "<a>" * 100_000), "nested deeper"),
    "no layer in a graph": (xml("<net></net>"), "holds no layer"),
    "two layers of one number": (xml(f"<net>{layer(1, 'Result', '') * 2}</net>"), "two layers"),
    "a size that is no number": (
        xml("<net><layer id='1' type='Parameter'><output><port id='0'><dim>x</dim></port></output></layer></net>"),
        "a dimension",
    ),
    # ONNX
    "nothing in an ONNX file": (file("m.onnx", b""), "empty"),
    "zeros": (file("m.onnx", bytes(4096)), "unknown kind|no graph|holds"),
    "a text instead of a graph": (file("m.onnx", b"this is not a model at all"), "damaged"),
    "a length beyond the file": (file("m.onnx", varint(7 << 3 | 2) + varint(HUGE)), "claims"),
    "a length of eleven bytes": (file("m.onnx", varint(7 << 3 | 2) + b"\xff" * 11), "no number"),
    "no graph": (file("m.onnx", proto((1, 10))), "no graph"),
    "a graph without an output": (file("m.onnx", onnx_model(IDS)), "no output"),
    "a name of a megabyte": (file("m.onnx", onnx_model((11, proto((1, "a" * 2**20))), LOGITS)), "a name of"),
    "a name that is not UTF-8": (file("m.onnx", onnx_model((11, proto((1, b"\xff\xfe"))), LOGITS)), "not UTF-8"),
    "an input of many dimensions": (file("m.onnx", onnx_model((11, info("input_ids", *[1] * 20)), LOGITS)), "16 dim"),
    "weights in the system's files": (placed(location="/etc/passwd"), "outside of its folder"),
    "weights beside the folder": (placed(location="../secret"), "outside of its folder"),
    "weights on another drive": (placed(location="C:\\secret"), "outside of its folder"),
    "weights without a place": (placed(length="4"), "outside of its folder"),
    "weights that are not there": (placed(location="w.data"), "is not in"),
    "weights at no number": (placed(location="w", offset="many"), "no numbers"),
    "weights past the end of their file": (placed(location="m.onnx", length=str(HUGE)), "cut off"),
    "graphs inside of graphs": (file("m.onnx", onnx_model((1, nested(6)), IDS, LOGITS)), "nests graphs deeper"),
    # Core ML
    "an empty manifest": (manifest("{}"), "no Manifest.json"),
    "a manifest of nothing": (manifest({"a": 1}), "does not say"),
    "a manifest that leads out": (
        manifest({"rootModelIdentifier": "a", "itemInfoEntries": {"a": {"path": "../../../etc/passwd"}}}), "outside",
    ),
    "a manifest that leads to the root": (
        manifest({"rootModelIdentifier": "a", "itemInfoEntries": {"a": {"path": "/etc/passwd"}}}), "outside",
    ),
    "a manifest that leads nowhere": (
        manifest({"rootModelIdentifier": "a", "itemInfoEntries": {"a": {"path": "x/y"}}}), "lacks",
    ),
    "a manifest that is no JSON": (manifest("{"), "not JSON"),
    "nothing in a specification": (spec(b""), "empty"),
    "a specification of nothing": (spec(proto((1, 9))), "no description"),
    "an array of many dimensions": (spec(described(array("input_ids", [1] * 40))), "16 dim"),
    "a compiled model": (file("m.mlmodelc", b"x"), "compiled for one machine"),
    # Core AI
    "a program that is no MLIR": (program(lambda data: b"PK\3\4" + data), "no Core AI program"),
    "nothing in a program": (program(lambda data: b""), "empty"),
    "a program that was cut off": (program(lambda data: data[:3000]), "cut off"),
    "a program of a magic alone": (program(lambda data: data[:4]), "cut off"),
    "a program without an end to its name": (program(lambda data: data[:5] + b"a" * 5000), "no producer"),
    "a section of 16 exabytes": (program(sections(b"\0" + odd(2**63))), "cut off"),
    "a section twice": (program(sections(b"\0\1", b"\0\1")), "twice"),
    "too few sections": (program(sections(b"\0\1")), "lacks a section"),
    "an alignment of nothing": (program(sections(b"\x80\1\1")), "alignment"),
    "more texts than bytes": (
        program(sections(b"\0" + odd(9) + odd(HUGE), b"\1\1", b"\2\1", b"\3\1")), "texts",
    ),
    "a bundle without its program": (bundle("{}", with_program=False), "holds no main.mlirb"),
    "a bundle that names what is not there": (bundle('{"assets":{"main":"../../x.aimodel"}}'), "is not in"),
    "a bundle whose metadata is no JSON": (bundle("{"), "not JSON"),
    # none
    "an empty folder": (lambda path: path.mkdir() or path, "empty"),
    "a folder of other things": (lambda path: file("readme.txt", b"x")(path).parent, "no model that is known"),
    "a pickle": (lambda path: file("pytorch_model.bin", b"x")(path).parent, "pickle"),
    "a file of another kind": (file("m.zip", b"PK\3\4"), "in no format"),
    "a weight file on its own": (file("model.safetensors", header(TENSORS)), "one weight file"),
}  # fmt: skip


def refusal(path: Path) -> str:
    """The sentence with which the file is refused, its memory bounded."""
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError) as caught:
            inspect(str(path), path.parent)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < BOUND, f"{peak / 2**20:.0f} MiB"
    return str(caught.value)


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_file_gets_one_sentence(name: str, tmp_path: Path) -> None:
    make, words = REFUSED[name]
    sentence = refusal(make(tmp_path / "m"))
    assert "\n" not in sentence
    assert len(sentence.replace(str(tmp_path), "")) < 400
    assert re.search(words, sentence), sentence


def test_there_are_more_than_fifty_of_them() -> None:
    assert len(REFUSED) > 50


LIMITS: Mapping[str, tuple[Any, str, int, Made, str]] = {
    "elements": (ir_xml, "MAX_ELEMENTS", 50, xml(f"<net>{'<a/>' * 60}</net>"), "more than 50 elements"),
    "operations": (
        ir_xml, "MAX_LAYERS", 50, xml(f"<net>{''.join(layer(i, 'Add', '') for i in range(60))}</net>"), "50 operations",
    ),
    "edges": (
        ir_xml, "MAX_EDGES", 50, xml("".join(["<net>", *(f"<edge to-port='{i}'/>" for i in range(60)), "</net>"])), "50"
    ),
    "bytes of XML": (ir_xml, "MAX_BYTES", 2**20, xml("<net>" + "\n<a></a>" * 200_000), "larger than 1 MiB"),
    "fields": (wire, "MAX_FIELDS", 50, file("m.onnx", onnx_model(*[(9, b"")] * 60)), "more than 50 fields"),
    "entries of a program": (mlir_bytecode, "_MAX_ENTRIES", 50, program(lambda data: data), "attributes and"),
    "numbers of a program": (mlir_bytecode, "_MAX_NUMBERS", 50, program(lambda data: data), "numbers in its lists"),
    "texts of a program": (mlir_bytecode, "_MAX_STRINGS", 5, program(lambda data: data), "texts"),
    "JSON items": (bounded, "MAX_ITEMS", 50, settings_of(many=[0] * 60), "JSON items"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_what_may_be_looked_at_is_counted(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, limit, most, make, words = LIMITS[name]
    path = make(tmp_path / "m")
    monkeypatch.setattr(module, limit, most)
    assert words in refusal(path)


def gguf_of(kind: int, n: int, item: bytes) -> Made:
    """A GGUF file with an array of n such items."""
    return file("m.gguf", raw(n_keys=2, body=ARCHITECTURE + string("a") + struct.pack("<IIQ", 9, kind, n) + item * n))


def gguf_of_tensors(n: int) -> Made:
    shape = struct.pack("<IQIQ", 1, 1, 0, 0)
    tensors = b"".join(string(f"blk.{i}.attn_q.weight") + shape for i in range(n))
    return file("m.gguf", raw(n_tensors=n, body=ARCHITECTURE + tensors) + bytes(64))


def gguf_of_text(n: int) -> Made:
    """One text, almost all of it of one byte a letter, and one letter for which Python takes four bytes for each."""
    text = "a" * (n - len("general.architecturellamaa") - 4) + "\U0001f600"
    return file("m.gguf", raw(n_keys=2, body=ARCHITECTURE + string("a") + struct.pack("<I", 8) + string(text)))


def graph_of(layers: str, edges: str = "") -> Made:
    def make(path: Path) -> Path:
        return ir(path, layers, edges)

    return make


def ports_of(n: int, attributes: str = "") -> Made:
    """Outputs of one operation, each of another number."""
    ports = "".join(f"<port id='{i}'{attributes}/>" for i in range(n))
    return graph_of(layer(0, "Parameter", f"<output>{ports}</output>"))


def edges_of(n: int) -> Made:
    edges = "".join(f'<edge from-layer="0" from-port="{i}" to-layer="{i}" to-port="a{i}"/>' for i in range(n))
    return graph_of(layer(0, "Parameter", ""), edges)


def nodes_of(n_fields: int) -> Made:
    """An ONNX graph of operations that takes so many looks: eight for each, and some for its inputs and outputs."""
    more = [(6, "a")] * 5
    nodes = b"".join(proto((1, proto((2, f"o{i}"), (4, "Add"), *more))) for i in range(n_fields // 8))
    return file("m.onnx", proto((1, 10), (7, nodes + proto(IDS, LOGITS))))


FULL: Mapping[str, tuple[Callable[[int], Made], int, int, str]] = {
    "texts": (lambda n: gguf_of(8, n, string("abcdefgh")), gguf_header.MAX_TEXTS, 0, "texts"),
    "numbers": (lambda n: gguf_of(12, n, struct.pack("<d", 0.1)), gguf_header.MAX_ITEMS, 0, "items"),
    "bytes of text": (gguf_of_text, gguf_header.MAX_TEXT_BYTES, 0, "more than all texts of a header"),
    "tensors": (gguf_of_tensors, gguf_header.MAX_TENSORS, 0, "tensors"),
    "elements": (ports_of, ir_xml.MAX_ELEMENTS, 5, "elements"),
    "edges": (edges_of, ir_xml.MAX_EDGES, 0, "edges"),
    "names": (lambda n: ports_of(n // 8, " names='a0,b0,c0,d0,e0,f0'"), ir_xml.MAX_ATTRIBUTES, 16, "attributes"),
    "fields": (nodes_of, wire.MAX_FIELDS, 60, "fields"),
}
"""How a file of n things is made, how many there may be, how many more it has anyway, and the word for them."""

FULL_BOUND = 384 * 2**20
"""measured: 336 MiB, for the text that Python spreads to four bytes a letter; the others take a third of it."""

LOOK = """
import resource, sys
from pathlib import Path
from surefoot.core.errors import ConfigError
from surefoot.engine.inspect import gguf_file, inspect, onnx_file, openvino_ir

def peak():
    # Linux counts what the parent held before exec into ru_maxrss, and that may be gigabytes of other tests.
    status = Path("/proc/self/status")
    own = [line for line in status.read_text().splitlines() if "VmHWM" in line] if status.exists() else []
    return 1024 * int(own[0].split()[1]) if own else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

full, fuller = map(Path, sys.argv[1:])
before = peak()
inspect(str(full), full.parent)
print(peak() - before)
try:
    inspect(str(fuller), fuller.parent)
except ConfigError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell what a process held at the most")
@pytest.mark.parametrize("name", FULL)
def test_a_file_as_full_as_it_may_be_is_read_and_a_fuller_one_is_refused(name: str, tmp_path: Path) -> None:
    make, most, besides, word = FULL[name]
    paths = [make(most - besides)(tmp_path / "full"), make(most + 64)(tmp_path / "fuller")]
    done = subprocess.run([sys.executable, "-c", LOOK, *map(str, paths)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    held, sentence = done.stdout.splitlines()
    assert int(held) < FULL_BOUND
    assert word in sentence


def test_the_largest_vocabulary_there_is_fits(tmp_path: Path) -> None:
    """That of Gemma, as it would be with tokens, scores, types and merges in one header."""
    tokens, merges = 262_144, 514_906
    arrays = (
        ("tokenizer.ggml.tokens", 8, tokens, string("\u2581token")),
        ("tokenizer.ggml.scores", 6, tokens, struct.pack("<f", -1.5)),
        ("tokenizer.ggml.token_type", 5, tokens, struct.pack("<i", 1)),
        ("tokenizer.ggml.merges", 8, merges, string("\u2581to ken")),
    )
    body = b"".join(string(key) + struct.pack("<IIQ", 9, kind, n) + item * n for key, kind, n, item in arrays)
    path = file("m.gguf", raw(n_keys=5, body=ARCHITECTURE + body))(tmp_path / "m")
    found = inspect(str(path), path.parent).facts.vocabulary
    assert found is not None
    assert found.value == tokens


WHOLE: Mapping[str, tuple[Made, str]] = {
    "safetensors": (folder, "model.safetensors"),
    "settings": (folder, "config.json"),
    "openvino": (
        lambda path: ir(path, layer(0, "Parameter", f"<output>{port(0, (-1, -1), 'input_ids')}</output>")),
        "",
    ),
    "onnx": (lambda path: Path(shutil.copy(DATA / "window.onnx", path.parent / "m.onnx")), ""),
    "coreml": (
        lambda path: Path(shutil.copytree(DATA / "widths.mlpackage", path / "m.mlpackage")),
        "Data/com.apple.CoreML/model.mlmodel",
    ),
    "coreai": (lambda path: Path(shutil.copytree(DATA / "dynamic.aimodel", path / "m.aimodel")), "main.mlirb"),
    "gguf": (file("m.gguf", raw(n_keys=1) + bytes(64)), ""),
}


@pytest.mark.parametrize("kind", WHOLE)
@settings(max_examples=60)
@given(data=st.data())
def test_any_damage_is_read_or_refused(
    kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A byte changed, a piece cut out, the end cut off: findings, or one sentence."""
    make, inner = WHOLE[kind]
    path = make(tmp_path_factory.mktemp("fuzz") / "m")
    target = path / (inner or "openvino_model.xml") if path.is_dir() else path
    content = bytearray(target.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(content) - 1)))
        match data.draw(st.sampled_from(("change", "cut", "end", "insert"))):
            case "change" if content:
                content[at] = data.draw(st.integers(0, 255))
            case "cut":
                del content[at : at + data.draw(st.integers(1, 64))]
            case "end":
                del content[at:]
            case _:
                content[at:at] = data.draw(st.binary(min_size=1, max_size=12))
    target.write_bytes(bytes(content))
    with suppress(ConfigError):
        inspect(str(path), path.parent)


def test_tokens_without_a_shape_leave_the_rows_open(tmp_path: Path) -> None:
    data = proto((1, 9), (2, proto((1, array("input_ids", [])), (10, array("logits", [1, 8, 32])))))
    found = inspect(str(package(tmp_path / "m.mlpackage", data)), tmp_path)
    assert found.facts.rows is None
    assert found.verdict.answer == "not known"


def test_a_link_out_of_a_package_is_not_followed(tmp_path: Path) -> None:
    made = package(tmp_path / "m.mlpackage", described(array("input_ids", [1, 1])))
    place = made / "Data" / "com.apple.CoreML" / "model.mlmodel"
    secret = tmp_path / "secret"
    place.rename(secret)
    place.symlink_to(secret)
    assert "lacks" in refusal(made)


def test_a_loop_of_folders_ends(tmp_path: Path) -> None:
    made = package(tmp_path / "m.mlpackage", described(array("input_ids", [1, 1])))
    (made / "Data" / "again").symlink_to(made)
    assert inspect(str(made), tmp_path).facts.size.value.bytes < 10_000


def test_graphs_that_go_in_circles_are_walked_once(tmp_path: Path) -> None:
    ring = "".join(
        layer(i, "Convert", f"<input>{port(0, ())}</input><output>{port(1, (-1, -1, 8), 'logits')}</output>")
        for i in (1, 2)
    )
    end = layer(3, "Result", f"<input>{port(0, ())}</input>")
    edges = "".join(
        f'<edge from-layer="{one}" from-port="1" to-layer="{other}" to-port="0"/>'
        for one, other in ((1, 2), (2, 1), (1, 3))
    )
    found = inspect(str(ir(tmp_path / "ir", ring + end, edges)), tmp_path)
    assert "no language model" in found.verdict.text
    node = proto((1, "logits"), (2, "logits"), (4, "Add"))
    path = file("m.onnx", onnx_model((1, node), IDS, LOGITS))(tmp_path / "onnx")
    assert inspect(str(path), tmp_path).facts.head is not None
