"""Dead code elimination: removes ops without used results, and loop state that only its own update reads."""

from __future__ import annotations

from jax_ipu.compiler.ir import LOOPS, Block, Module, Op, Value, has_effect


def run(module: Module) -> None:
    """Removes dead ops from main."""
    run_block(module.main.block)


def run_block(block: Block) -> None:
    """Removes dead ops from the block and the regions inside; ops with effects stay."""
    kept: list[Op] = []
    for op in reversed(block.ops):
        for result in op.results:
            if result.users:
                break
        else:
            if not has_effect(op):
                op.drop()
                continue
        if op.regions:
            if op.name in LOOPS:
                _drop_dead_state(op)
            for region in op.regions:
                run_block(region)
        kept.append(op)
    kept.reverse()
    block.ops = kept


def _drop_dead_state(op: Op) -> None:
    """Removes carried values whose result is unused and which no other carried value needs."""
    *condition, body = op.regions
    count = len(op.results)
    needed = {i for i in range(count) if op.results[i].users or any(block.args[i].users for block in condition)}
    # Op -> the carried values that its results depend on.
    index_of = {arg: i for i, arg in enumerate(body.args)}
    sources: dict[Op, set[int]] = {}

    def sources_of(ops: list[Op]) -> None:
        for inner in ops:
            found: set[int] = set()
            for operand in inner.operands:
                if operand in index_of:
                    found.add(index_of[operand])
                elif operand.op is not None:
                    found |= sources.get(operand.op, set())
            for region in inner.regions:
                for nested in region.walk():
                    for operand in nested.operands:
                        if operand in index_of:
                            found.add(index_of[operand])
                        elif operand.op is not None:
                            found |= sources.get(operand.op, set())
            sources[inner] = found

    if len(needed) == count:
        return
    sources_of(body.ops[:-1])
    needed.update(*(sources[inner] for inner in body.ops[:-1] if has_effect(inner)))
    pending = list(needed)
    while pending:
        result = body.results[pending.pop()]
        if result in index_of:
            found = {index_of[result]}
        else:
            found = sources.get(result.op, set()) if result.op is not None else set()
        for i in found - needed:
            needed.add(i)
            pending.append(i)
    if len(needed) < count:
        keep_state(op, sorted(needed))


def keep_state(op: Op, keep: list[int]) -> None:
    """Removes the carried values of a loop that are not in `keep`; only their own updates may read them."""
    body = op.regions[-1]
    terminator = body.terminator
    terminator.set_operands([terminator.operands[i] for i in keep])
    op.set_operands([op.operands[i] for i in keep])
    dropped = [i for i in range(len(op.results)) if i not in set(keep)]
    dead_args = {body.args[i] for i in dropped}
    _drop_users(body, dead_args)
    op.results = [op.results[i] for i in keep]
    for position, value in enumerate(op.results):
        value.index = position
    for block in op.regions:
        block.args = [block.args[i] for i in keep]
        for position, value in enumerate(block.args):
            value.index = position


def _drop_users(body: Block, dead: set[Value]) -> None:
    """Drops the ops that read removed arguments; no op that stays may depend on them."""
    kept = []
    for op in body.ops:
        uses = any(o in dead for o in op.operands) or any(
            o in dead for region in op.regions for inner in region.walk() for o in inner.operands
        )
        if uses and op.name != "return":
            dead.update(op.results)
            continue
        kept.append(op)
    removed = [op for op in body.ops if op not in set(kept)]
    for op in reversed(removed):
        op.drop()
    body.ops = kept
