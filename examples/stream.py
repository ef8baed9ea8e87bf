"""Three lines to a stream of text.

python examples/stream.py [MODEL] [PROMPT]      smollm2-135m is fetched once (93 MB)
"""

import sys

import surefoot

name = sys.argv[1] if len(sys.argv) > 1 else "smollm2-135m"
prompt = sys.argv[2] if len(sys.argv) > 2 else "Explain in a few sentences why the sky is blue."

model = surefoot.load(name)
for piece in model.generate(prompt):
    print(piece, end="", flush=True)
