"""What the demo writes: three prompts, from one where lookup finds little to one where it finds nearly all."""

from __future__ import annotations

from dataclasses import dataclass

_CODE = """\
def total_price(items, tax):
    total = 0
    for item in items:
        if item["price"] < 0:
            raise ValueError("negative price")
        total = total + item["price"] * item["count"]
    return total * (1 + tax)


def print_receipt(items, tax):
    for item in items:
        print(item["name"], item["count"], item["price"])
    print("total:", total_price(items, tax))
"""

_LINES = """\
Anna Berg, Oslo, 34
Jonas Weber, Berlin, 41
Maria Rossi, Rome, 29
Luc Martin, Paris, 52
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A workload, its prompt, and how much of the answer is written."""

    name: str
    prompt: str
    max_tokens: int


CASES = (
    Case("chat", "Explain in a few sentences why the sky is blue.", 96),
    Case(
        "code",
        "Add a docstring to each function and change nothing else. Answer with the whole code only.\n\n"
        f"```python\n{_CODE}```",
        160,
    ),
    Case(
        "json",
        "Turn these lines into a JSON list of objects with the keys name, city and age. Answer with JSON only.\n\n"
        + _LINES,
        128,
    ),
)
