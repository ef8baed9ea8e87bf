"""What the demo writes: three prompts, from one where lookup finds little to one where it finds nearly all."""

from __future__ import annotations

from dataclasses import dataclass

_CODE = """\
import json


def load_users(path):
    with open(path) as file:
        users = json.load(file)
    result = []
    for user in users:
        if user["active"]:
            result.append(user)
    return result


def save_users(path, users):
    with open(path, "w") as file:
        json.dump(users, file, indent=2)
"""

_LINES = """\
customer_name: Anna Berg, delivery_city: Oslo, number_of_items: 3
customer_name: Jonas Weber, delivery_city: Berlin, number_of_items: 1
customer_name: Maria Rossi, delivery_city: Rome, number_of_items: 7
customer_name: Luc Martin, delivery_city: Paris, number_of_items: 2
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
        "Write this code again with the word path changed to filename, and nothing else changed.\n\n"
        f"```python\n{_CODE}```",
        128,
    ),
    Case("json", f"Write these orders as JSON.\n\n{_LINES}", 128),
)
