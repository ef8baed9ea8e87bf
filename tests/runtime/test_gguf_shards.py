"""A model in GGUF shards writes what the single file writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import pytest

from surefoot.core.errors import ConfigError
from surefoot.engine import models
from surefoot.engine.gguf_merge import merged_gguf

pytestmark = pytest.mark.model
SHARDS = 3


def split(source: Path, folder: Path) -> list[Path]:
    """The file as three shards, in the way of llama-gguf-split: metadata in the first, tensors over all."""
    reader = gguf.GGUFReader(source)
    arch = reader.fields["general.architecture"].contents()
    size = -(-len(reader.tensors) // SHARDS)
    paths = []
    for number in range(SHARDS):
        path = folder / f"model-{number + 1:05}-of-{SHARDS:05}.gguf"
        writer: Any = gguf.GGUFWriter(path, arch)
        for name, field in reader.fields.items() if number == 0 else ():
            if not name.startswith("GGUF.") and name != "general.architecture":
                kind = field.types[0]
                inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
                writer.add_key_value(name, field.contents(), kind, sub_type=inner)
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", SHARDS)
        writer.add_int32("split.tensors.count", len(reader.tensors))
        for tensor in reader.tensors[number * size : (number + 1) * size]:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        paths.append(path)
    return paths


@pytest.fixture(scope="module")
def shards(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return split(smollm2_gguf, tmp_path_factory.mktemp("shards"))


def contents(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    reader = gguf.GGUFReader(path)
    fields = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    return fields, {tensor.name: tensor.data.tobytes() for tensor in reader.tensors}


def test_the_joined_file_holds_the_same_metadata_and_tensors(
    shards: list[Path], smollm2_gguf: Path, tmp_path: Path
) -> None:
    files = models.resolve(str(shards[1]), tmp_path, formats=("gguf",))
    joined = merged_gguf(files, tmp_path)
    assert contents(joined) == contents(smollm2_gguf)
    assert merged_gguf(files, tmp_path) == joined
    assert [path.name for path in (tmp_path / "merged").iterdir()] == [joined.name]


def test_a_full_disk_leaves_nothing(shards: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = models.resolve(str(shards[0]), tmp_path, formats=("gguf",))

    def full(self: Any, *args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gguf.GGUFWriter, "write_tensor_data", full)
    with pytest.raises(ConfigError, match="No space left on device; make room"):
        merged_gguf(files, tmp_path)
    assert list((tmp_path / "merged").iterdir()) == []
