"""The module `processor_pipeline` of sandboxes: what templates of processors are made of."""

import sys
import time
from types import ModuleType

from .debug import now


class AsyncProcessor:
    """A step of a pipeline: process() is yours; run() calls it between before_process() and after_process()."""

    meta = {"name": "processor", "input_type": "any", "output_type": "any"}

    def __init__(self, config=None, **more):
        self.config = {**(config or {}), **more}

    async def before_process(self, data):
        return data

    async def process(self, data):
        raise NotImplementedError(f"{type(self).__name__} has no process()")

    async def after_process(self, result):
        return result

    async def run(self, data):
        return await self.after_process(await self.process(await self.before_process(data)))

    async def __call__(self, data):
        return await self.run(data)


class Pipeline:
    """Processors one after the other. `steps` tells how each went."""

    def __init__(self, *processors):
        self.processors = [p() if isinstance(p, type) else p for p in processors]
        self.steps = []

    async def run(self, data):
        self.steps = []
        for processor in self.processors:
            begun = time.perf_counter()
            step = {"name": dict(processor.meta).get("name", type(processor).__name__), "started_at": now(), "ok": False}
            self.steps.append(step)
            try:
                data = await processor.run(data)
                step["ok"] = True
            finally:
                step["seconds"] = time.perf_counter() - begun
        return data


def install():
    module = ModuleType("processor_pipeline", __doc__)
    module.AsyncProcessor, module.Pipeline = AsyncProcessor, Pipeline
    AsyncProcessor.__module__ = Pipeline.__module__ = "processor_pipeline"
    sys.modules["processor_pipeline"] = module
