"""What plain decoding costs, where nothing can be tuned because drafts would change the text."""

from __future__ import annotations

from surefoot.core.cost import CostCurve
from surefoot.engine.generator import Model
from surefoot.lab.measure import SPAN, Progress, measure
from surefoot.lab.tune import texts
from surefoot.lab.tune.run import Size, Step, World, kept_depths


def plain(model: Model, size: Size, world: World) -> CostCurve:
    """The cost of one row at the depths of `size`, and that of the host, from one text of the least length."""
    depths = kept_depths(model, size)

    def show(progress: Progress) -> None:
        world.check()
        world.show(Step("plain decoding alone", progress.left_s))

    sweep = measure(
        model.target.open,
        texts.sweep_text(model, max(depths) + SPAN + 2),
        world.clock,
        rows=(1,),
        depths=depths,
        limit_s=size.sweep_s,
        show=show,
    )
    name, prompt = next(iter(texts.prompts(model, size.workloads).items()))
    text = texts.write(model, name, prompt, texts.LEAST_TOKENS, size.texts_s, world.clock, world.check)
    return sweep.curve(host_s=text.host_s)
