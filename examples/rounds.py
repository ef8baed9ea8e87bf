"""Each round of a generation: what was guessed, what held, what it took.

python examples/rounds.py [MODEL]
"""

import sys

import surefoot

name = sys.argv[1] if len(sys.argv) > 1 else "smollm2-135m"
model = surefoot.load(name, max_tokens=64, policy="fixed", draft_len=5, allow_near_ties=True)

print("rows  accepted  forward ms  text")
with model.generate("Repeat this line twice: one two three four five six seven") as generation:
    for round_, text in generation.steps():
        if round_ is not None:
            print(f"{round_.rows:4}  {round_.accepted:8}  {1e3 * round_.extend_s:10.1f}  {text!r}")
    print(generation.stats())
