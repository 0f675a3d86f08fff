"""Serve a GGUF model on 127.0.0.1 with llama.cpp, until standard input ends. Needs `xllamacpp` alone.

Run: python benchmarks/local_model_server.py MODEL.gguf NAME PORT [THREADS]
Prints the address once the model is loaded.
"""

from __future__ import annotations

import sys

import xllamacpp  # in the environment that `local_model.py` makes

CONTEXT_TOKENS = 16_384


def parameters(path: str, name: str, port: int, threads: int) -> xllamacpp.CommonParams:
    wanted = xllamacpp.CommonParams()
    wanted.model.path = path
    wanted.model_alias = {name}
    wanted.hostnames, wanted.port = ["127.0.0.1"], port
    wanted.n_ctx = CONTEXT_TOKENS
    wanted.n_parallel = 1  # one run after the other: two would share the two threads
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = threads
    wanted.cache_prompt = False  # what a run costs must not depend on the one before
    wanted.use_jinja = True  # the chat template that the model came with
    wanted.ui = wanted.endpoint_slots = False
    return wanted


def main() -> None:
    path, name, port, *threads = sys.argv[1:]
    server = xllamacpp.Server(parameters(path, name, int(port), int(threads[0]) if threads else 2))
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
