"""The sections and numbers of MLIR bytecode (https://mlir.llvm.org/docs/BytecodeFormat)."""

from __future__ import annotations

MAGIC = b"ML\xefR"
STRINGS, ATTRIBUTES, ATTRIBUTE_SIZES = 0, 2, 3  # numbers of sections
ALIGNED = 0x80  # of the byte that identifies a section

# (dialect, content, whether its own encoding and not text)
Entry = tuple[int, memoryview, int]


def sections(view: memoryview) -> tuple[int, list[tuple[int, memoryview]]]:
    """Where the first section begins, and (number, content) of each; ValueError: one is aligned, or cut off."""
    _, i = read_number(view, len(MAGIC))
    while view[i]:  # the producer
        i += 1
    start = i = i + 1
    found = []
    while i < len(view):
        number = view[i]
        size, i = read_number(view, i + 1)
        if number & ALIGNED or i + size > len(view):
            raise ValueError
        found.append((number, view[i : i + size]))
        i += size
    return start, found


def entries(sizes: memoryview, contents: memoryview) -> tuple[list[Entry], list[Entry]]:
    """The attributes and the types in the two sections of them; ValueError: these do not agree."""
    counts = []
    i = begin = 0
    for _ in range(2):
        count, i = read_number(sizes, i)
        counts.append(count)
    lists: tuple[list[Entry], list[Entry]] = ([], [])
    for found, count in zip(lists, counts, strict=True):
        while len(found) < count:
            dialect, i = read_number(sizes, i)
            together, i = read_number(sizes, i)
            if not together:
                raise ValueError
            for _ in range(together):
                coded, i = read_number(sizes, i)
                end = begin + (coded >> 1)
                found.append((dialect, contents[begin:end], coded & 1))
                begin = end
    if begin != len(contents) or i != len(sizes):
        raise ValueError
    return lists


def write_sizes(attributes: list[Entry], types: list[Entry]) -> bytes:
    """The section ATTRIBUTE_SIZES; a group for each entry, so that their order stays."""
    each = (
        number(dialect) + number(1) + number(len(content) << 1 | custom)
        for dialect, content, custom in (*attributes, *types)
    )
    return number(len(attributes)) + number(len(types)) + b"".join(each)


def read_number(data: bytes | memoryview, i: int) -> tuple[int, int]:
    """The number at `i`, whose trailing zero bits say how many bytes follow, and where it ends."""
    first = data[i]
    if first & 1:
        return first >> 1, i + 1
    if first == 0:
        end = i + 9
        return int.from_bytes(data[i + 1 : end], "little"), end
    size = (first & -first).bit_length()
    return int.from_bytes(data[i : i + size], "little") >> size, i + size


def number(value: int) -> bytes:
    """What `read_number` reads."""
    size = max(1, -(-value.bit_length() // 7))
    if size > 8:
        return b"\0" + value.to_bytes(8, "little")
    return ((value << 1 | 1) << size - 1).to_bytes(size, "little")
