"""The GPU kernels compiled for some GPUs, which need not be there: a JSON line each. For a process of its own without TRITON_INTERPRET."""

import json
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource

from deep_interest.ops.kernels import gru_triton

WHOLE = {"offsets": "*i64", "order": "*i64", "size": "i32"}  # all other arguments are float32


def shared_memory(kernel, hidden: int, capability: int) -> int:
    """Bytes a program of AUGRU's kernel asks for."""
    settings = gru_triton.settings(hidden)
    constants = {name: value for name, value in settings.items() if name.isupper()} | {"VARIANT": 2}
    options = {name: value for name, value in settings.items() if not name.isupper()}
    signature = {
        name: "constexpr" if name in constants else WHOLE.get(name, "*fp32") for name in kernel.arg_names
    }
    source = ASTSource(kernel, signature, constants)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options).metadata.shared


if __name__ == "__main__":
    for size in map(int, sys.argv[1].split(",")):
        for name in ("_forward", "_backward"):
            kernel = getattr(gru_triton, name)
            found = {capability: shared_memory(kernel, size, capability) for capability in (80, 90)}
            sys.stdout.write(json.dumps({"kernel": name, "hidden": size, "shared": found}) + "\n")
