"""Arrays on named tiles."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax_ipu.integration import tiles as primitives
from jax_ipu.integration.tracebacks import boundary

Tiles = tuple[int, ...]


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class TileShardedArray:
    """An array with one part on each of a list of tiles.

    Part [i] lies on tile `tiles[i]`, row-major in one piece. A pytree: `array` is its leaf, and `tiles` is static, so
    these arrays go through `jax.jit`, loops and gradients. Make one with `tile_put_sharded` and its like: the
    constructor only says what is so already. Off the IPU, `array` is an ordinary array.

    Attributes:
        array: the JAX array (tiles, ...).
        tiles: the number of each part's tile; a tile may have several parts.

    Raises:
        ValueError: there are other parts than tiles.

    Examples:
        >>> import numpy as np
        >>> from jax_ipu import tile
        >>> x = tile.tile_put_sharded(np.arange(6.0).reshape(3, 2), tiles=(0, 1, 5))
        >>> x.shape, x.tile_shape, x[1:].tiles
        ((3, 2), (2,), (1, 5))
    """

    array: Any
    tiles: Tiles

    def __post_init__(self) -> None:
        object.__setattr__(self, "tiles", checked_tiles(self.tiles))
        shape = getattr(self.array, "shape", None)  # JAX also unflattens pytrees with other leaves
        if shape is not None and (len(shape) == 0 or shape[0] != len(self.tiles)):
            raise ValueError(
                f"an array of the shape {tuple(shape)} has not one part for each of {len(self.tiles)} tiles: the first"
                " dimension is that of the tiles"
            )

    def tree_flatten(self) -> tuple[tuple[Any], Tiles]:
        """The leaf, and what is static.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu.tile import tile_put_sharded
            >>> tile_put_sharded(np.ones((3, 2), np.float32), (0, 1, 5)).tree_flatten()[1]
            (0, 1, 5)
        """
        return (self.array,), self.tiles

    @classmethod
    def tree_unflatten(cls, tiles: Tiles, children: tuple[Any]) -> TileShardedArray:
        """The array of `tree_flatten`; unchecked, because JAX puts other things in place of leaves.

        Examples:
            >>> import jax, numpy as np
            >>> from jax_ipu.tile import tile_put_sharded
            >>> x = tile_put_sharded(np.ones((3, 2), np.float32), (0, 1, 5))
            >>> jax.tree.map(np.shape, x).array
            (3, 2)
        """
        made = object.__new__(cls)
        object.__setattr__(made, "array", children[0])
        object.__setattr__(made, "tiles", tiles)
        return made

    @property
    def dtype(self) -> Any:
        """The element type.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu.tile import tile_put_sharded
            >>> tile_put_sharded(np.ones((3, 2), np.float32), (0, 1, 5)).dtype
            dtype('float32')
        """
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all parts together, (tiles, ...).

        Examples:
            >>> import numpy as np
            >>> from jax_ipu.tile import tile_put_sharded
            >>> tile_put_sharded(np.ones((3, 2), np.float32), (0, 1, 5)).shape
            (3, 2)
        """
        return tuple(self.array.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions, that of the tiles included.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu.tile import tile_put_sharded
            >>> tile_put_sharded(np.ones((3, 2), np.float32), (0, 1, 5)).ndim
            2
        """
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements on all tiles.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu.tile import tile_put_sharded
            >>> tile_put_sharded(np.ones((3, 2), np.float32), (0, 1, 5)).size
            6
        """
        return int(self.array.size)

    @property
    def aval(self) -> Any:
        """Shape and element type.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu.tile import tile_put_sharded
            >>> tile_put_sharded(np.ones((3, 2), np.float32), (0, 1, 5)).aval
            ShapedArray(float32[3,2])
        """
        return primitives.ShapedArray(self.shape, self.dtype)

    @property
    def num_tiles(self) -> int:
        """The number of parts.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu.tile import tile_put_sharded
            >>> tile_put_sharded(np.ones((3, 2), np.float32), (0, 1, 5)).num_tiles
            3
        """
        return len(self.tiles)

    @property
    def tile_aval(self) -> Any:
        """Shape and element type of one part.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu.tile import tile_put_sharded
            >>> tile_put_sharded(np.ones((3, 2), np.float32), (0, 1, 5)).tile_aval
            ShapedArray(float32[2])
        """
        return primitives.ShapedArray(self.tile_shape, self.dtype)

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """The shape of one part.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu.tile import tile_put_sharded
            >>> tile_put_sharded(np.ones((3, 2), np.float32), (0, 1, 5)).tile_shape
            (2,)
        """
        return self.shape[1:]

    @property
    def device_array(self) -> Any:
        """The JAX array.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu.tile import tile_put_sharded
            >>> tile_put_sharded(np.ones((3, 2), np.float32), (0, 1, 5)).device_array.shape
            (3, 2)
        """
        return self.array

    @boundary
    def reshape(self, shape: Sequence[int]) -> TileShardedArray:
        """The same parts in another shape; its first dimension is that of the tiles, or -1.

        Raises:
            ValueError: the first dimension would change.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu.tile import tile_put_sharded
            >>> tile_put_sharded(np.ones((3, 2), np.float32), (0, 1, 5)).reshape((-1, 2, 1)).shape
            (3, 2, 1)
        """
        if shape[0] not in (-1, self.num_tiles):
            raise ValueError(
                f"the first dimension of {tuple(shape)} is that of the {self.num_tiles} tiles and stays; move parts"
                " with tile_gather"
            )
        return TileShardedArray(self.array.reshape((self.num_tiles, *shape[1:])), self.tiles)

    @boundary
    def tile_reshape(self, shape: Sequence[int]) -> TileShardedArray:
        """Each part in another shape.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu.tile import tile_put_sharded
            >>> tile_put_sharded(np.ones((3, 2), np.float32), (0, 1, 5)).tile_reshape((2, 1)).shape
            (3, 2, 1)
        """
        return self.reshape((self.num_tiles, *shape))

    @boundary
    def squeeze(self) -> TileShardedArray:
        """Without the dimensions of one element, except that of the tiles.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu.tile import tile_put_sharded
            >>> tile_put_sharded(np.ones((3, 2), np.float32), (0, 1, 5)).squeeze().shape
            (3, 2)
        """
        return self.reshape((self.num_tiles, *(d for d in self.tile_shape if d != 1)))

    def __len__(self) -> int:
        return self.num_tiles

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.array, dtype=dtype)

    @boundary
    def __getitem__(self, key: Any) -> TileShardedArray:
        """Some of the tiles, or of the elements of each part; what is left of a part must lie in one piece.

        Raises:
            ValueError: a part would be in several pieces.
        """
        tiles, keys = check_key(key, self.shape)
        return TileShardedArray(self.array[(tiles, *keys[1:])], self.tiles[tiles])

    @classmethod
    @boundary
    def concatenate(cls, arrays: Sequence[TileShardedArray]) -> TileShardedArray:
        """All parts of the arrays, on their tiles.

        Examples:
            >>> import numpy as np
            >>> from jax_ipu.tile import TileShardedArray, tile_put_sharded
            >>> x = tile_put_sharded(np.ones((3, 2), np.float32), (0, 1, 5))
            >>> TileShardedArray.concatenate([x, x[1:]]).tiles
            (0, 1, 5, 1, 5)
        """
        joined = jnp.concatenate([a.array for a in arrays], axis=0)
        return cls(joined, tuple(itertools.chain.from_iterable(a.tiles for a in arrays)))


def check_key(key: Any, shape: tuple[int, ...]) -> tuple[slice, tuple[Any, ...]]:
    """The slice of the tiles, and the number or slice of each dimension that has one.

    Raises:
        ValueError: a part would be in several pieces, or the key has another form.
    """
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) > len(shape) or not all(isinstance(k, int | np.integer | slice) for k in keys):
        raise ValueError(f"[{key!r}] of {shape}: give a number or a slice for each dimension at most")
    tiles = keys[0]
    if not isinstance(tiles, slice):
        position = range(shape[0])[tiles]  # raises IndexError
        tiles = slice(position, position + 1)
    inner = False
    for extent, k in zip(shape[1:][::-1], (*keys[1:], *[slice(None)] * (len(shape) - len(keys)))[::-1], strict=True):
        taken = range(extent)[k] if isinstance(k, slice) else None
        pieces = inner and (taken is None or len(taken) > 1) and taken is not None
        if pieces or (taken is not None and len(taken) > 1 and taken.step != 1):
            raise ValueError(
                f"[{key!r}] of {shape} leaves several pieces of each part; slice `array` and put the result"
                " on the tiles with tile_put_sharded"
            )
        inner = inner or taken is None or len(taken) < extent
    return tiles, keys


def checked_tiles(tiles: Sequence[int]) -> Tiles:
    """The tiles as a tuple. Raises ValueError for one that is negative, TypeError for what are no whole numbers."""
    try:
        checked = tuple(operator.index(t) for t in tiles)
    except TypeError:
        raise TypeError(f"tiles={tiles!r} is not valid: give the number of each part's tile, as in (0, 1, 2)") from None
    if any(t < 0 for t in checked):
        raise ValueError(f"tiles are numbered from 0 on, so there is no tile {min(checked)}")
    return checked


@boundary
def tile_put_sharded(array: Any, tiles: Sequence[int]) -> TileShardedArray:
    """Puts part [i] of an array on tiles[i].

    Args:
        array: the array (tiles, ...).
        tiles: a tile for each part.

    Raises:
        ValueError: there are other parts than tiles.

    Examples:
        >>> import numpy as np
        >>> from jax_ipu import tile
        >>> tile.tile_put_sharded(np.ones((2, 4), np.float32), tiles=(3, 7)).tile_shape
        (4,)
    """
    array = array.array if isinstance(array, TileShardedArray) else jnp.asarray(array)
    tiles = checked_tiles(tiles)
    if array.ndim == 0 or array.shape[0] != len(tiles):
        raise ValueError(
            f"tile_put_sharded: an array of the shape {array.shape} has not one part for each of {len(tiles)} tiles:"
            " the first dimension is that of the tiles (tile_put_replicated puts all of it on each tile)"
        )
    return TileShardedArray(primitives.put(array, tiles), tiles)


@boundary
def tile_put_replicated(array: Any, tiles: Sequence[int]) -> TileShardedArray:
    """Puts all of an array on each tile; the result has the shape (tiles, ...).

    Examples:
        >>> import numpy as np
        >>> from jax_ipu import tile
        >>> tile.tile_put_replicated(np.ones(4, np.float32), tiles=(3, 7)).shape
        (2, 4)
    """
    array, tiles = jnp.asarray(array), checked_tiles(tiles)
    return TileShardedArray(primitives.put(jnp.broadcast_to(array, (len(tiles), *array.shape)), tiles), tiles)


@boundary
def tile_constant_sharded(data: Any, tiles: Sequence[int]) -> TileShardedArray:
    """A constant with part [i] on tiles[i], which is there when the program starts.

    Raises:
        ValueError: there are other parts than tiles.

    Examples:
        >>> import numpy as np
        >>> from jax_ipu import tile
        >>> tile.tile_constant_sharded(np.arange(2, dtype=np.int32), tiles=(3, 7)).tile_shape
        ()
    """
    data, tiles = _data(data), checked_tiles(tiles)
    if data.ndim == 0 or data.shape[0] != len(tiles):
        raise ValueError(
            f"tile_constant_sharded: data of the shape {data.shape} has not one part for each of {len(tiles)} tiles"
        )
    return TileShardedArray(primitives.constant(data, tiles), tiles)


@boundary
def tile_constant_replicated(data: Any, tiles: Sequence[int]) -> TileShardedArray:
    """A constant that is all on each tile when the program starts; the result has the shape (tiles, ...).

    Examples:
        >>> import numpy as np
        >>> from jax_ipu import tile
        >>> tile.tile_constant_replicated(np.float32(0.5), tiles=(3, 7)).shape
        (2,)
    """
    data, tiles = _data(data), checked_tiles(tiles)
    replicated = np.broadcast_to(data, (len(tiles), *data.shape))
    return TileShardedArray(primitives.constant(replicated, tiles), tiles)


def _data(data: Any) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = np.asarray(data)
    # Without jax_enable_x64 there are no 64-bit types.
    canonical: np.ndarray[Any, Any] = array.astype(jax.dtypes.canonicalize_dtype(array.dtype))
    return canonical


@boundary
def tile_gather(arr: Any, indices: Sequence[int], tiles: Sequence[int], copy: bool = False) -> TileShardedArray:
    """Puts part [indices[i]] of an array on tiles[i].

    Args:
        arr: an array, on tiles or not.
        indices: the part for each tile, known when the program is traced.
        tiles: the tiles.
        copy: whether the result is always a copy. Otherwise all parts in order stay where they are, if that is there.

    Raises:
        ValueError: there are other indices than tiles, or an index is outside of the array.

    Examples:
        >>> import numpy as np
        >>> from jax_ipu import tile
        >>> x = tile.tile_put_sharded(np.arange(3, dtype=np.float32), tiles=(0, 1, 2))
        >>> np.asarray(tile.tile_gather(x, [2, 0], tiles=(0, 1)))
        array([2., 0.], dtype=float32)
    """
    array = arr.array if isinstance(arr, TileShardedArray) else jnp.asarray(arr)
    indices, tiles = tuple(int(i) for i in indices), checked_tiles(tiles)
    if len(indices) != len(tiles):
        raise ValueError(f"tile_gather: {len(indices)} indices for {len(tiles)} tiles")
    if array.ndim == 0 or any(not 0 <= i < array.shape[0] for i in indices):
        raise ValueError(f"tile_gather: the indices {indices} are not all parts of an array of the shape {array.shape}")
    in_order = indices == tuple(range(array.shape[0]))
    if in_order and not copy:
        return TileShardedArray(primitives.put(array, tiles), tiles)
    return TileShardedArray(primitives.gather(array, indices, tiles), tiles)


@boundary
def tile_data_barrier(*args: TileShardedArray) -> Any:
    """The arrays, each of them ready when all are: nothing that reads one runs before.

    Returns a tuple, or the array if there is one.

    Raises:
        TypeError: an argument is not on tiles.

    Examples:
        >>> import numpy as np
        >>> from jax_ipu import tile
        >>> x, y = (tile.tile_put_sharded(np.ones((2, 4), np.float32), (i, i + 1)) for i in (0, 1))
        >>> x, y = tile.tile_data_barrier(x, y)
        >>> y.tiles
        (1, 2)
    """
    check_arrays("tile_data_barrier", args)
    arrays = primitives.barrier([a.array for a in args])
    results = tuple(TileShardedArray(array, a.tiles) for array, a in zip(arrays, args, strict=True))
    return results[0] if len(results) == 1 else results


tile_barrier = tile_data_barrier


def check_arrays(function: str, args: Sequence[Any]) -> None:
    """Raises TypeError unless all arguments are on tiles."""
    for i, arg in enumerate(args):
        if not isinstance(arg, TileShardedArray):
            raise TypeError(
                f"{function}: argument {i} is {type(arg).__name__}, not an array on tiles; put it there with"
                " tile_put_sharded or tile_put_replicated"
            )
